"""Axes in the style of the library."""

from collections.abc import Iterator

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim import plots


@pytest.fixture
def ax() -> Iterator[Axes]:
    with plots.style():
        yield Figure().subplots()
