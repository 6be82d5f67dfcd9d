"""Strict ranks, and chunks so short that a small trace has many."""

import pytest

from asyncsim.engine import _chunks as chunks


@pytest.fixture(autouse=True)
def strict_ranks(ranks_agree):
    """No silent broadcasting in this folder."""


@pytest.fixture
def short_chunks(monkeypatch):
    """Chunks of 16 commits."""
    monkeypatch.setattr(chunks, "SHORTEST", 16)
    monkeypatch.setattr(chunks, "LONGEST", 16)
