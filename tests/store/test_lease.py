"""Leases: one holder at a time, given back, taken from the dead and from those who are silent."""

import errno
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from asyncsim.store import _lease as lease
from asyncsim.store._lease import LASTS, holders, leased


def names(folder):
    return sorted(path.name for path in folder.glob("*.json"))


def test_a_batch_has_one_file(tmp_path):
    with leased(tmp_path, ["a", "b", "c"]) as mine, leased(tmp_path, ["d", "e"]) as other:
        assert mine
        assert other
        assert len(names(tmp_path)) == 2
        assert {name: one["process"] for name, one in holders(tmp_path).items()} == dict.fromkeys("abcde", os.getpid())
        for batch in (["b"], ["c", "d"], ["x", "e"]):
            with leased(tmp_path, batch) as again:
                assert not again
        with pytest.raises(RuntimeError, match="True"), leased(tmp_path, ["x", "y"]) as free:
            raise RuntimeError(free)
        assert len(names(tmp_path)) == 2  # it is given back after an error


def test_no_name_is_held_twice(tmp_path):
    """Threads that want overlapping batches, again and again."""
    busy, twice, taken = set(), [], []

    def work(batch):
        while batch not in taken:
            with leased(tmp_path, batch) as mine:
                if mine:
                    twice.extend(busy & set(batch))
                    busy.update(batch)
                    time.sleep(0.002)
                    busy.difference_update(batch)
                    taken.append(batch)
            time.sleep(random.random() / 100)

    with ThreadPoolExecutor(6) as threads:
        [*threads.map(work, ("ab", "bc", "cd", "da", "abcd", "a"))]
    assert not twice
    assert len(taken) == 6


def test_threads_hold_leases_of_their_own(tmp_path):
    """Each gives back its own, in whatever order; meanwhile the process holds one."""
    left, right = leased(tmp_path, ["a"]), leased(tmp_path, ["b"])

    def in_a_thread(call):
        ThreadPoolExecutor(1).submit(call).result()

    in_a_thread(left.__enter__)
    in_a_thread(right.__enter__)
    assert names(tmp_path) == ["a.json", "b.json"]
    in_a_thread(lambda: left.__exit__(None, None, None))
    assert names(tmp_path) == ["b.json"]
    assert lease.is_held()
    in_a_thread(lambda: right.__exit__(None, None, None))
    assert not names(tmp_path)
    assert not lease.is_held()


def test_the_dead_hold_nothing(tmp_path):
    program = (
        f"import time; from pathlib import Path; from asyncsim.store._lease import leased\n"
        f"with leased(Path({str(tmp_path)!r}), ['a']):\n    print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"held\n"
            assert holders(tmp_path)["a"]["process"] == process.pid
            with leased(tmp_path, ["a"]) as mine:
                assert not mine
        finally:
            process.kill()
    assert names(tmp_path) == ["a.json"]
    assert holders(tmp_path) == {}
    with leased(tmp_path, ["a"]) as mine:
        assert mine
        assert holders(tmp_path)["a"]["process"] == os.getpid()


@pytest.mark.parametrize("content", ['{"host": "elsewhere", "process": 1, "started": "5"}', "", "[]"])
def test_the_silent_lose_their_lease(tmp_path, content):
    """Of a process on another host nobody knows whether it lives."""
    path = tmp_path / "a.json"
    path.write_text(content)
    with leased(tmp_path, ["a"]) as mine:
        assert not mine
    late = path.stat().st_mtime - LASTS - 5
    os.utime(path, (late, late))
    with leased(tmp_path, ["a"]) as mine:
        assert mine
    assert not names(tmp_path)


def test_where_there_are_no_hard_links(tmp_path, monkeypatch):
    def refuse(*args):
        raise OSError(errno.EINVAL, "no links")

    monkeypatch.setattr(os, "link", refuse)
    with leased(tmp_path, ["a"]) as mine, leased(tmp_path, ["a"]) as again:
        assert mine
        assert not again
    assert not list(tmp_path.iterdir())


def test_a_lease_is_renewed(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "RENEWED", 0.02)
    lease._renewing.cache_clear()
    with leased(tmp_path, ["a"]):
        path = tmp_path / "a.json"
        os.utime(path, (1.0, 1.0))
        for _ in range(500):
            if path.stat().st_mtime > 1:
                break
            time.sleep(0.01)
        assert path.stat().st_mtime > 1
    lease._renewing.cache_clear()
