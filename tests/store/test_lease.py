"""Leases: one holder at a time, given back, taken from the dead and from those who are silent."""

import errno
import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncsim.store import _lease as lease
from asyncsim.store._lease import LEASE_SECONDS, hold_batch, holders


def names(folder):
    return sorted(path.name for path in folder.glob("*.json"))


def test_a_batch_has_one_file(tmp_path):
    with hold_batch(tmp_path, ["a", "b", "c"]) as mine, hold_batch(tmp_path, ["d", "e"]) as other:
        assert mine
        assert other
        assert len(names(tmp_path)) == 2
        assert {name: one["process"] for name, one in holders(tmp_path).items()} == dict.fromkeys("abcde", os.getpid())
        for batch in (["b"], ["c", "d"], ["x", "e"]):
            with hold_batch(tmp_path, batch) as again:
                assert not again
        with pytest.raises(RuntimeError, match="True"), hold_batch(tmp_path, ["x", "y"]) as free:
            raise RuntimeError(free)
        assert len(names(tmp_path)) == 2  # it is given back after an error


def test_no_name_is_held_twice(tmp_path):
    """Threads that want overlapping batches, again and again."""
    busy, twice, taken = set(), [], []

    def work(batch):
        while batch not in taken:
            with hold_batch(tmp_path, batch) as mine:
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
    left, right = hold_batch(tmp_path, ["a"]), hold_batch(tmp_path, ["b"])

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
        f"import time; from pathlib import Path; from asyncsim.store._lease import hold_batch\n"
        f"with hold_batch(Path({str(tmp_path)!r}), ['a']):\n    print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"held\n"
            assert holders(tmp_path)["a"]["process"] == process.pid
            with hold_batch(tmp_path, ["a"]) as mine:
                assert not mine
        finally:
            process.kill()
    assert names(tmp_path) == ["a.json"]
    assert holders(tmp_path) == {}
    with hold_batch(tmp_path, ["a"]) as mine:
        assert mine
        assert holders(tmp_path)["a"]["process"] == os.getpid()


@pytest.mark.parametrize("content", ['{"host": "elsewhere", "process": 1, "started": "5"}', "", "[]"])
def test_the_silent_lose_their_lease(tmp_path, content):
    """Of a process on another host nobody knows whether it lives."""
    path = tmp_path / "a.json"
    path.write_text(content)
    with hold_batch(tmp_path, ["a"]) as mine:
        assert not mine
    late = path.stat().st_mtime - LEASE_SECONDS - 5
    os.utime(path, (late, late))
    with hold_batch(tmp_path, ["a"]) as mine:
        assert mine
    assert not names(tmp_path)


NO_LINKS = ("EPERM", "EACCES", "EINVAL", "ENOTSUP", "EMLINK", "ENOSYS", "EXDEV", "ENOTTY", "EROFS", "EIO")


@pytest.mark.parametrize("name", NO_LINKS)
def test_where_there_are_no_hard_links(tmp_path, monkeypatch, name):
    """Which error says so depends on the file system."""

    def refuse(*args):
        raise OSError(getattr(errno, name), "no links")

    monkeypatch.setattr(os, "link", refuse)
    with hold_batch(tmp_path, ["a"]) as mine, hold_batch(tmp_path, ["a"]) as again:
        assert mine
        assert not again
    assert not list(tmp_path.iterdir())


def test_a_lease_that_another_one_moved_is_put_back_without_hard_links(tmp_path, monkeypatch):
    """It was made after the void one was seen."""
    path = tmp_path / "a.json"
    path.write_text('{"host": "elsewhere"}')
    monkeypatch.setattr(lease, "is_void", lambda *args: True)
    seen = iter([{"host": "before"}, {"host": "elsewhere"}])
    monkeypatch.setattr(lease, "read_holder", lambda path: next(seen))
    monkeypatch.setattr(os, "link", Mock(side_effect=OSError(errno.EACCES, "no links")))
    assert not lease._remove_if_void(path)
    assert path.read_text() == '{"host": "elsewhere"}'


def test_a_lease_that_cannot_be_written_is_none_without_hard_links(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", Mock(side_effect=OSError(errno.EINVAL, "no links")))
    content = Mock(spec=bytes)  # which cannot be written
    with pytest.raises(TypeError):
        lease._create_exclusively(tmp_path / "own", tmp_path / "a.json", content)
    assert not list(tmp_path.iterdir())


def end(path):
    """Let as much time pass as a lease lasts without a renewal, after its watchers have looked at it once."""
    holders(path.parent)
    if path.exists():
        now = lease._read_time(path.parent)
        assert path.lstat().st_mtime <= now + 1  # it is not in the future any more
        os.utime(path, (now - LEASE_SECONDS - 5, now - LEASE_SECONDS - 5))


DAY = 86400.0


@pytest.mark.parametrize("stamp", [-2 * LEASE_SECONDS, -40_000 * DAY, 60.0, DAY, 40_000 * DAY])
def test_a_time_of_any_clock_ends(tmp_path, stamp):
    """Of a host whose clock was ahead, or of a file that was restored. It counts from when somebody sees it."""
    path = tmp_path / "a.json"
    path.write_text('{"host": "elsewhere", "process": 1, "started": "5"}')
    os.utime(path, (time.time() + stamp, time.time() + stamp))
    with hold_batch(tmp_path, ["a"]) as mine:
        assert mine == (stamp < 0)
    if stamp > 0:
        end(path)
    with hold_batch(tmp_path, ["a"]) as mine:
        assert mine


def test_a_holder_whose_clock_is_ahead_keeps_its_lease(tmp_path):
    """It renews the lease again and again; watchers set the time back."""
    path = tmp_path / "a.json"
    path.write_text('{"host": "elsewhere", "process": 1, "started": "5"}')
    for _ in range(5):
        os.utime(path, (time.time() + DAY, time.time() + DAY))
        assert holders(tmp_path).keys() == {"a"}
        assert abs(path.stat().st_mtime - time.time()) < LEASE_SECONDS


ELSEWHERE = {"host": "elsewhere", "process": 1, "started": "5"}
STRANGE = (
    None,
    True,
    7,
    -1,
    0.5,
    1e999,
    10**400,
    "a",
    "",
    "\ud800\x1b[31m",
    [],
    ["b"],
    [1],
    [["a"]],
    [None],
    {},
    {"a": 1},
)
CONTENTS = [
    *(json.dumps({**ELSEWHERE, "batch": one}).encode() for one in STRANGE),
    *(json.dumps({**ELSEWHERE, name: one}).encode() for name in ("host", "process", "started") for one in STRANGE),
    *(json.dumps(one).encode() for one in STRANGE),
    *(b"", b"{", b"[" * 100_000, b"\xff\xfe\x00", b"\0" * 100, b'{"host": "elsewh', b'{"batch": NaN}', b"of the user"),
    b'{"host": "' + b"x" * (lease.LARGEST + 1) + b'"}',
]


def assert_ends(folder, path):
    """A lease is told of in words, and others may take it once it is silent."""
    for holder in holders(folder).values():
        assert len(lease.in_words(holder)) < 500
        assert lease.in_words(holder).isprintable()
        lease.in_words(holder).encode()
    lease.remove_void(folder)
    end(path)
    with hold_batch(folder, ["a"]) as mine:
        assert mine
    with hold_batch(folder, ["b"]) as mine:
        assert mine


def test_every_damaged_lease_ends(tmp_path):
    for number, content in enumerate(CONTENTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "a.json").write_bytes(content)
        assert_ends(folder, folder / "a.json")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(["host", "process", "started", "since", "command", "batch"])


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=50) | st.dictionaries(KEYS, VALUES).map(lambda value: json.dumps(value).encode()))
def test_a_lease_of_any_content_ends(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    assert_ends(tmp_path, path)


@pytest.mark.parametrize("kind", ["folder", "link", "pipe", "unreadable"])
def test_what_is_no_file_is_only_moved(tmp_path, kind):
    path = tmp_path / "a.json"
    if kind == "folder":
        (path / "inside").mkdir(parents=True)
    elif kind == "link":
        path.symlink_to("nowhere")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("mine")
        path.chmod(0)
    late = time.time() - LEASE_SECONDS - 5
    os.utime(path, (late, late), follow_symlinks=False)
    with hold_batch(tmp_path, ["a"]) as mine:
        assert mine
    assert not path.exists()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_lease_is_renewed(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "RENEWAL_SECONDS", 0.02)
    lease._renewing.cache_clear()
    with hold_batch(tmp_path, ["a"]):
        path = tmp_path / "a.json"
        os.utime(path, (1.0, 1.0))
        for _ in range(500):
            if path.stat().st_mtime > 1:
                break
            time.sleep(0.01)
        assert path.stat().st_mtime > 1
    lease._renewing.cache_clear()
