"""Claims: one holder at a time, given back, taken from the dead and from those who are silent."""

import json
import os
import subprocess
import sys
import threading

import pytest

from asyncsim.folders.holders import LASTS
from asyncsim.study import lease
from asyncsim.study.lease import claimed, holders


def names(folder):
    return sorted(path.name for path in folder.glob("*.json"))


def test_all_or_none(tmp_path):
    with claimed(tmp_path, ["b"]) as first, claimed(tmp_path, ["a", "b", "c"]) as second:
        assert first
        assert not second
        assert names(tmp_path) == ["b.json"]
    assert not names(tmp_path)


def test_given_back_after_an_error(tmp_path):
    with pytest.raises(RuntimeError), claimed(tmp_path, ["a"]):
        raise RuntimeError
    with claimed(tmp_path, ["a"]) as again:
        assert again


def test_holders(tmp_path):
    with claimed(tmp_path, ["a"]):
        assert holders(tmp_path)["a"]["process"] == os.getpid()
    assert holders(tmp_path) == {}


def test_threads_hold_claims_of_their_own(tmp_path):
    """Each gives back its own, in whatever order; meanwhile the process holds one."""
    left, right = claimed(tmp_path, ["a"]), claimed(tmp_path, ["b"])

    def in_a_thread(call):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    in_a_thread(left.__enter__)
    in_a_thread(right.__enter__)
    assert names(tmp_path) == ["a.json", "b.json"]
    in_a_thread(lambda: left.__exit__(None, None, None))
    assert names(tmp_path) == ["b.json"]
    assert lease.is_held()
    in_a_thread(lambda: right.__exit__(None, None, None))
    assert not names(tmp_path)
    assert not lease.is_held()


def of_another_process(tmp_path, name, kill):
    """A claim of another process, which has been killed or sleeps."""
    program = (
        f"import time; from pathlib import Path; from asyncsim.study.lease import claimed\n"
        f"with claimed(Path({str(tmp_path)!r}), [{name!r}]):\n    print('held', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"held\n"
    if kill:
        process.kill()
        process.wait()
    return process


def test_the_dead_hold_nothing(tmp_path):
    process = of_another_process(tmp_path, "a", kill=False)
    try:
        assert holders(tmp_path)["a"]["process"] == process.pid
        with claimed(tmp_path, ["a"]) as mine:
            assert not mine
    finally:
        process.kill()
        process.wait()
    assert names(tmp_path) == ["a.json"]
    assert holders(tmp_path) == {}
    with claimed(tmp_path, ["a"]) as mine:
        assert mine
        assert holders(tmp_path)["a"]["process"] == os.getpid()


@pytest.mark.parametrize("content", ['{"host": "elsewhere", "process": 1, "started": "5"}', "", "[]"])
def test_the_silent_lose_their_claim(tmp_path, content):
    """Of a process on another host nobody knows whether it lives."""
    path = tmp_path / "a.json"
    path.write_text(content)
    with claimed(tmp_path, ["a"]) as mine:
        assert not mine
    late = path.stat().st_mtime - LASTS - 5
    os.utime(path, (late, late))
    with claimed(tmp_path, ["a"]) as mine:
        assert mine
    assert not names(tmp_path)


def test_another_process_with_the_same_number(tmp_path):
    holder = {**lease.this_process(), "started": "0"}
    (tmp_path / "a.json").write_text(json.dumps(holder))
    with claimed(tmp_path, ["a"]) as mine:
        assert mine


def test_where_there_are_no_hard_links(tmp_path, monkeypatch):
    def refuse(*args):
        raise OSError(lease.NO_LINKS[0], "no links")

    monkeypatch.setattr(os, "link", refuse)
    lease._identity.cache_clear()
    with claimed(tmp_path, ["a"]) as mine, claimed(tmp_path, ["a"]) as again:
        assert mine
        assert not again
    lease._identity.cache_clear()


def test_a_claim_is_renewed(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "RENEWED", 0.02)
    lease._identity.cache_clear()
    with claimed(tmp_path, ["a"]):
        path = tmp_path / "a.json"
        os.utime(path, (1.0, 1.0))
        for _ in range(500):
            if path.stat().st_mtime > 1:
                break
            lease.time.sleep(0.01)
        assert path.stat().st_mtime > 1
    lease._identity.cache_clear()
