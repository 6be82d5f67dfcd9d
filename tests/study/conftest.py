"""Fixtures of the tests of studies."""

import pytest

from asyncsim.engine import _chunks as chunks


@pytest.fixture
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 64 commits, so that there is something to interrupt."""
    monkeypatch.setattr(chunks, "LONGEST", 64)
