"""Chunks so short that a small trace has many."""

import pytest

from asyncsim.engine import chunks


@pytest.fixture
def short_chunks(monkeypatch):
    """Chunks of 16 commits."""
    monkeypatch.setattr(chunks, "SHORTEST", 16)
    monkeypatch.setattr(chunks, "LONGEST", 16)
