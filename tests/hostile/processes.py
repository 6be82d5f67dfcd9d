"""Processes of their own, which end in the middle of something."""

import io
import itertools
import json
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import asyncsim as asim
from asyncsim.cli import program
from asyncsim.files import _atomic
from asyncsim.study import _replay
from tests import problems
from tests.cli.commands import SCRIPT
from tests.hostile.ground import (
    FILES,
    PATIENCE,
    Ground,
    Trial,
    contents,
    is_whole,
    outcome_of,
    prepare,
    run_again,
    scenario,
    untidy,
)
from tests.study.problems import assert_same_run

STARTED = multiprocessing.get_context("forkserver")  # never a fork of a process in which JAX has started
OUR_FUNCTION = re.compile(r'asyncsim/\S+\.py", line \d+, in (?!<module>)')  # in a traceback


def stopping_at(name: str, occurrence: int, share: float, stop: Callable[[], object]) -> Any:
    """A patch: when a file of this name is written for that time, a share of it reaches the disk, then comes `stop`."""
    write_file, seen = _atomic._write, 0

    def write(path: Path, fill: Callable[[Any], object], sync: bool) -> None:
        nonlocal seen
        if path.name.startswith(f".{name}."):
            seen += 1
            if seen == occurrence:
                buffer = io.BytesIO()
                fill(buffer)
                path.write_bytes(buffer.getvalue()[: int(share * buffer.tell())])
                stop()
                path.unlink()  # the signal is for another thread, or comes later
        write_file(path, fill, sync)

    return mock.patch.object(_atomic, "_write", write)


def run_and_be_killed(out: Path, name: str, occurrence: int, share: float, force: bool) -> None:
    """Run the scenario; die of SIGKILL when so much of a file is on the disk."""
    prepare()
    _replay.CHECKPOINT_EVERY = 0.0
    with stopping_at(name, occurrence, share, partial(os.kill, os.getpid(), signal.SIGKILL)):
        asim.run(scenario(), out, force=force)


def run_at_once(out: Path, seed: int, force: bool, together: Any, answers: Any) -> None:
    """Run a scenario when the other process is ready, too; put the outcome into a queue."""
    prepare()
    together.wait()
    run = partial(asim.run, scenario(seed=seed), out, force=force)
    answers.put((seed, outcome_of(run, ValueError, OSError)))


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file of this process can become larger than so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def killed(ground: Ground) -> Iterator[Trial]:
    """SIGKILL while each file of a run is written: half or all of it is on the disk, but not in place."""
    trials = [(name, 1, 0.5, False) for name in FILES]
    trials += [(name, 1, 0.5, True) for name in ("scenario.json", "run.npz", "report.png")]  # first, middle and last
    trials.append(("run.npz", 2, 1.0, False))  # where an earlier checkpoint is in place

    def one(name: str, occurrence: int, share: float, force: bool) -> str:
        out = ground.folder / f"killed_{name}_{occurrence}_{share}_{force}"
        if force:
            asim.run(scenario(seed=1), out, picture=False)
        before = contents(out)
        process = STARTED.Process(target=run_and_be_killed, args=(out, name, occurrence, share, force))
        process.start()
        process.join(PATIENCE)
        if process.exitcode != -signal.SIGKILL:
            process.kill()
            return f"ended with {process.exitcode}"
        after = contents(out)
        if force and after != before:
            return "old results were touched before the new ones were complete"
        halves = [file for file in after if file in FILES and not is_whole(out / file)]
        if halves:
            return f"{halves[0]} is not whole"
        return run_again(ground, out, force=force and name == FILES[0])  # by then nobody knew of the new study

    for name, occurrence, share, force in trials:
        title = f"{share:.0%} of {name}, writing {occurrence}{', --force' if force else ''}"
        yield Trial(title, partial(one, name, occurrence, share, force))


def at_once(ground: Ground) -> Iterator[Trial]:
    """Two processes want one folder at the same moment."""
    trials = [(0, (False, False)), (0, (False, True)), (1, (False, False)), (1, (True, True))]

    def one(other: int, forces: tuple[bool, bool]) -> str:
        out = ground.folder / f"at_once_{other}_{forces}"
        together, answers = STARTED.Barrier(2), STARTED.Queue()
        pair = [
            STARTED.Process(target=run_at_once, args=(out, seed, force, together, answers))
            for seed, force in zip((0, other), forces, strict=True)
        ]
        for process in pair:
            process.start()
        outcomes = [answers.get(timeout=PATIENCE) for _ in pair]
        for process in pair:
            process.join()
        refused = [words for _, words in outcomes if words]
        if any("is in use by" not in words and "holds a different" not in words for words in refused):
            return refused[-1]
        if len(refused) == 2:
            return "neither had the folder"
        label = json.loads((out / "scenario.json").read_text())
        if label["digest"] not in {scenario(seed=seed).digest for seed, words in outcomes if not words}:
            return "the folder is of one that was refused"
        if left := untidy(out):
            return left
        its = scenario(seed=label["seed"])
        found = asim.run(its, out)
        assert_same_run(found.run, asim.run(its).run)
        return "computed again" if found.recomputed else ""

    for other, forces in trials:
        kind = "different scenarios" if other else "the same scenario"
        yield Trial(f"{kind}, {sum(forces)} with force", partial(one, other, forces))


def full_disk(ground: Ground) -> Iterator[Trial]:
    """The disk is full at each file of a run, at its beginning or in the middle; later there is room again."""

    def one(fault: AbstractContextManager[None], place: str) -> str:
        out = ground.folder / place
        with fault:
            said = outcome_of(partial(asim.run, scenario(), out), OSError)
        if not said or "\n" in said:
            return said or "no error"
        return untidy(out) or run_again(ground, out)

    for name, share in itertools.product(FILES, (0.0, 0.5)):
        yield Trial(
            f"{share:.0%} of {name}",
            partial(one, stopping_at(name, 1, share, problems.full_disk), f"full_{name}_{share}"),
        )
    for size in (10, 3000):
        yield Trial(f"files of at most {size} bytes", partial(one, files_of_at_most(size), f"limit_{size}"))


def command_and_ctrl_c(folder: Path, place: str, name: str, later: float) -> None:
    """`asyncsim run study.py --out PLACE` with Ctrl-C when half of a file is on the disk, or some seconds later."""
    prepare()
    _replay.CHECKPOINT_EVERY = 0.0
    os.chdir(folder)
    os.dup2(os.open(f"{place}.err", os.O_WRONLY | os.O_CREAT), sys.stderr.fileno())
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.argv = ["asyncsim", "run", "study.py", "--out", place]
    ctrl_c = partial(os.kill, os.getpid(), signal.SIGINT)
    stop = threading.Timer(later, ctrl_c).start if later else ctrl_c
    with stopping_at(name, 1, 0.5, stop):
        program()


def ctrl_c(ground: Ground) -> Iterator[Trial]:
    """SIGINT from the start of a process on: a checkpoint or nothing, status 130, no traceback of ours."""
    out = ground.folder / "ctrl_c"
    out.mkdir()
    lines = SCRIPT.replace('print("a script may print")', "")
    (out / "study.py").write_text(lines.replace("commits_per_worker=50", "commits=10_000, record=()"))
    code = "print('here', flush=True); from asyncsim.cli import program; program()"
    command = [sys.executable, "-c", code, "run", "study.py"]

    def starting(seconds: float) -> str:
        """A new process, which imports for most of its first second."""
        place = f"starting_{seconds}"
        process = subprocess.Popen(
            [*command, "--out", place], cwd=out, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.readline()  # Python itself has started
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        # Python answers while it imports the package, before `program` can run.
        if process.returncode != -signal.SIGINT:
            return wrong(process.returncode, err, out / place)
        reached = OUR_FUNCTION.search(err) or (err and (out / place).exists())
        return f"our code was reached: {err}" if reached else ""

    def working(name: str, later: float) -> str:
        """A process that writes, compiles or replays."""
        place = f"{name}_{later}"
        process = STARTED.Process(target=command_and_ctrl_c, args=(out, place, name, later))
        process.start()
        process.join(PATIENCE)
        return wrong(process.exitcode, (out / f"{place}.err").read_text(), out / place)

    def wrong(status: int | None, err: str, place: Path) -> str:
        if status not in (0, 130):  # 0 where all was done
            return f"status {status}: {err}"
        if "Traceback" in err or len(err.splitlines()) > 1:
            return err
        return untidy(place)

    for seconds in (0.0, 0.03, 0.1, 0.3):
        yield Trial(f"{seconds} s after the start", partial(starting, seconds))
    moments = [(name, 0.0) for name in FILES if name != "trace.npz"]
    moments += [("trace.npz", 0.2), ("run.npz", 0.02)]  # it compiles, it replays
    for name, later in moments:
        yield Trial(f"{later} s after half of {name}", partial(working, name, later))


def sweeps(ground: Ground) -> Iterator[Trial]:
    """A process of a Dask cluster is killed at a random moment; a run kills each process that computes it.

    Both are tests of `tests/study/test_killed.py`, which kills processes of this machine by default.
    """

    def one() -> str:
        asked = {**os.environ, "ASYNCSIM_KILLS": "1", "ASYNCSIM_LONG_TESTS": "1"}
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider"]
        command += ["tests/study/test_killed.py", "-k", "test_a_cluster or test_a_run_that_kills"]
        done = subprocess.run(command, cwd=Path(__file__).parents[2], env=asked, capture_output=True, text=True)
        return done.stdout[-2000:] if done.returncode else ""

    yield Trial("a kill on a Dask cluster, and a run that kills", one)
