"""A sweep on a disk that is really full keeps the results that fit, gives reasons for the others, and resumes later."""

import errno
import os
import subprocess
from contextlib import suppress

import pytest

import asyncsim as asim
from tests.study.problems import scenario, untimed

ROOM = "200k"  # for two runs and a half


@pytest.fixture
def disk(tmp_path):
    """A file system of its own, in memory."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "none", place], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"mounts a small disk, which is not allowed here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounts a small disk, as root")
def test_a_full_disk(disk, tmp_path):
    asked = asim.grid(scenario(), seed=range(6))
    results = asim.sweep(asked, disk / "store", jobs=0)
    lacking = [one for one, state in results.states.items() if state == "missing"]
    assert 0 < len(lacking) < 6
    assert list(results.states.values()).count("done") == 6 - len(lacking)
    assert [*results.troubles] == lacking
    said = f"`store` {str(disk / 'store')!r} could not be written: {os.strerror(errno.ENOSPC)}."
    assert all(words.startswith(said) and "\n" not in words for words in results.troubles.values())
    assert not list((disk / "store" / ".making").iterdir())
    assert not list((disk / "store").glob("leases/*.json"))

    with suppress(OSError), open(disk / "other", "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    with pytest.raises(OSError, match="could not be written: No space left on device") as refused:
        asim.sweep(asked, disk / "store", jobs=0)  # there is no room to say what was asked for
    assert "\n" not in str(refused.value)

    subprocess.run(["mount", "-o", "remount,size=8m", disk], check=True)
    again = asim.sweep(asked, disk / "store", jobs=0)
    assert sorted(again.computed) == sorted(lacking)
    undisturbed = asim.sweep(asked, tmp_path / "store", jobs=0)
    assert [untimed(one.summary) for one in again] == [untimed(one.summary) for one in undisturbed]
