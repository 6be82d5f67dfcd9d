"""Scenarios replay long enough that XLA's optimisations are worth their compilation."""

import pytest


@pytest.fixture(autouse=True)
def long_replays(optimised):
    """Optimised programs in this room."""
