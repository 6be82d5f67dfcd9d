"""Compile quickly; and a scale so small that a figure takes a second."""

from dataclasses import replace

import pytest

from figures.common import scales
from tests.quick_compile import quick_compile

__all__ = ["quick_compile"]


@pytest.fixture
def tiny(monkeypatch):
    """Scale quick with twenty commits of each worker."""
    monkeypatch.setitem(scales.SCALES, "quick", replace(scales.SCALES["quick"], commits_per_worker=20))
