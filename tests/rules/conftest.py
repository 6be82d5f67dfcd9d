"""Strict ranks."""

import pytest


@pytest.fixture(autouse=True)
def strict_ranks(ranks_agree):
    """No silent broadcasting in this folder."""
