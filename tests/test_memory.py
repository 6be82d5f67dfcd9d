"""Refusals of scenarios that need too much memory, where a limit of the container counts."""

import pytest

from asyncsim import _memory as memory


def test_a_machine_has_memory():
    assert memory.total() > 1e8


def test_the_least_limit_counts(tmp_path, monkeypatch):
    files = [tmp_path / name for name in ("max", "limit", "none")]
    files[0].write_text("max\n")
    files[1].write_text("4096\n")
    monkeypatch.setattr(memory, "LIMITS", files)
    assert memory.total() == 4096


def test_only_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "total", lambda: 1000)
    memory.require(1000, "`commits` of 8", "Use fewer.")
    with pytest.raises(ValueError, match=r"`commits` of 8 takes at least 2 kB of memory; this machine has 1 kB\. Use"):
        memory.require(2000, "`commits` of 8", "Use fewer.")
