"""A scale so small that a figure takes a second."""

from dataclasses import replace

import pytest

from figures.common import scales


@pytest.fixture
def tiny(monkeypatch):
    """Scale quick with twenty commits per worker."""
    monkeypatch.setitem(scales.SCALES, "quick", replace(scales.SCALES["quick"], commits_per_worker=20))
