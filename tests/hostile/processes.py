"""Processes of their own, which end in the middle of something."""

import errno
import io
import json
import multiprocessing
import os
import re
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import asyncsim as asim
from asyncsim.store import _files as files
from tests.cli.commands import SCRIPT
from tests.hostile.ground import (
    FILES,
    PATIENCE,
    Ground,
    Trial,
    complained,
    contents,
    is_whole,
    only,
    prepare,
    run_again,
    scenario,
    whose,
)

STARTED = multiprocessing.get_context("forkserver")  # never a fork of a process in which JAX has started
OUR_FUNCTION = re.compile(r'asyncsim/\S+\.py", line \d+, in (?!<module>)')  # in a traceback
PREPARED = """
from asyncsim.study import _run
_run.CHECKPOINT_EVERY = 0.0
_run.draw_report = lambda figure, title, **rest: figure.text(0, 0, title)
"""


def stopping_at(name: str, occurrence: int, share: float, stop: Callable[[], object]) -> Any:
    """A patch: when a file of this name is written for that time, a share of it reaches the disk, then comes `stop`."""
    write_file, seen = files._write, 0

    def write(path: Path, fill: Callable[[Any], object], sync: bool) -> None:
        nonlocal seen
        if path.name.startswith(f".{name}."):
            seen += 1
            if seen == occurrence:
                buffer = io.BytesIO()
                fill(buffer)
                path.write_bytes(buffer.getvalue()[: int(share * buffer.tell())])
                stop()
        write_file(path, fill, sync)

    return mock.patch.object(files, "_write", write)


def run_and_be_killed(out: Path, name: str, occurrence: int, share: float, force: bool) -> None:
    """Run the scenario; die of SIGKILL when so much of a file is on the disk."""
    prepare()
    sys.modules["asyncsim.study._run"].CHECKPOINT_EVERY = 0.0  # type: ignore[attr-defined]
    with stopping_at(name, occurrence, share, partial(os.kill, os.getpid(), signal.SIGKILL)):
        asim.run(scenario(), out, force=force)


def run_at_once(out: Path, seed: int, force: bool, together: Any, answers: Any) -> None:
    """Run a scenario when the other process is ready, too; put the outcome into a queue."""
    prepare()
    together.wait()
    try:
        asim.run(scenario(seed=seed), out, force=force)
        answers.put((seed, ""))
    except Exception as error:
        known = isinstance(error, (ValueError, OSError)) and "\n" not in str(error)
        answers.put((seed, str(error) if known else "".join(traceback.format_exception(error))))


def run_on_a_full_disk(out: Path, most: int, answers: Any) -> None:
    """Run the scenario where no file can become larger than `most` bytes."""
    prepare()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    try:
        asim.run(scenario(), out)
        answers.put("")
    except OSError as error:
        answers.put(str(error))
    except BaseException as error:
        answers.put("".join(traceback.format_exception(error)))


def killed(ground: Ground) -> Iterator[Trial]:
    """SIGKILL while each file of a run is written: half or all of it is on the disk, but not in place."""
    trials = [
        (name, occurrence, share, force)
        for name in FILES
        for occurrence in ((1, 2) if name == "run.npz" else (1,))
        for share, force in ((0.5, False), (0.5, True), *([(1.0, False)] if name == "run.npz" else []))
    ]

    def one(trial: tuple[str, int, float, bool]) -> str:
        name, occurrence, share, force = trial
        out = ground.folder / f"killed_{name}_{occurrence}_{share}_{force}"
        if force:
            asim.run(scenario(seed=1), out, picture=False)
        before = contents(out)
        process = STARTED.Process(target=run_and_be_killed, args=(out, *trial))
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

    for trial in ground.chosen(trials):
        name, occurrence, share, force = trial
        yield Trial(
            f"{share:.0%} of {name}, writing {occurrence}{', --force' if force else ''}", complained(one, trial)
        )


def at_once(ground: Ground) -> Iterator[Trial]:
    """Two processes want one folder at the same moment."""
    trials = [(other, forces) for other in (0, 1) for forces in ((False, False), (False, True), (True, True))]

    def one(trial: tuple[int, tuple[bool, bool]]) -> str:
        other, forces = trial
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
        if left := contents(out, hidden=True).keys() - set(FILES):
            return f"left {sorted(left)}"
        return whose(out, label["seed"])

    for other, forces in ground.chosen(trials):
        kind = "different scenarios" if other else "the same scenario"
        yield Trial(f"{kind}, {sum(forces)} with force", complained(one, (other, forces)))


def full_disk(ground: Ground) -> Iterator[Trial]:
    """The disk is full at each file of a run, at its beginning or in the middle; later there is room again."""

    def refuse() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def run(out: Path, name: str, share: float) -> None:
        with stopping_at(name, 1, share, refuse):
            asim.run(scenario(), out)

    for name, share in ground.chosen([(name, share) for name in FILES for share in (0.0, 0.5)]):
        out = ground.folder / f"full_{name}_{share}"
        complaint = only(OSError, partial(run, out, name, share), must=True)
        if not complaint and (left := contents(out, hidden=True).keys() - set(FILES)):
            complaint = f"left {sorted(left)}"
        yield Trial(f"{share:.0%} of {name}", complaint or run_again(ground, out))

    def one(most: int) -> str:
        out, answers = ground.folder / f"limit_{most}", STARTED.Queue()
        process = STARTED.Process(target=run_on_a_full_disk, args=(out, most, answers))
        process.start()
        words = answers.get(timeout=PATIENCE)
        process.join()
        if not words or "\n" in words:
            return words or "nothing was said"
        return run_again(ground, out)

    for most in ground.chosen([0, 10, 3000]):
        yield Trial(f"files of at most {most} bytes", complained(one, most))


def ctrl_c(ground: Ground) -> Iterator[Trial]:
    """SIGINT at any time from the start of a process on: a checkpoint or nothing, status 130, no traceback of ours."""
    out = ground.folder / "ctrl_c"
    out.mkdir()
    lines = PREPARED + SCRIPT.replace('print("a script may print")', "")
    (out / "study.py").write_text(lines.replace("commits_per_worker=50", "commits=100_000, record=()"))
    command = [sys.executable, "-c", "from asyncsim.cli import program; program()", "run", "study.py"]
    begun = time.monotonic()
    undisturbed = subprocess.run([*command, "--out", "whole"], cwd=out, capture_output=True, check=True)
    whole = time.monotonic() - begun
    assert not undisturbed.stderr, undisturbed.stderr

    def one(share: float) -> str:
        place = f"stopped_{share}"
        process = subprocess.Popen(
            [*command, "--out", place], cwd=out, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        time.sleep(share * whole)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        if process.returncode not in (0, 130, -signal.SIGINT):
            return f"status {process.returncode}: {err}"
        # Python answers while it imports the package, before `program` can run, or after all was done.
        by_python = process.returncode == -signal.SIGINT
        if by_python and (OUR_FUNCTION.search(err) or (err and (out / place).exists())):
            return f"our code was reached: {err}"
        if not by_python and ("Traceback" in err or len(err.splitlines()) > 1):
            return err
        if left := contents(out / place, hidden=True).keys() - set(FILES):
            return f"left {sorted(left)}"
        halves = [file for file in contents(out / place) if not is_whole(out / place / file)]
        return f"{halves[0]} is not whole" if halves else ""

    for share in ground.chosen([0.0, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97]):
        yield Trial(f"after {share * whole:.2f} s", complained(one, share))


def sweeps(ground: Ground) -> Iterator[Trial]:
    """Processes that compute a sweep are killed at random moments, here and on a Dask cluster; one run kills them all.

    The tests of this, and one of a run that kills its own process.
    """
    long = {**os.environ, "ASYNCSIM_KILLS": "4", "ASYNCSIM_LONG_TESTS": "1"}
    for name in ground.chosen(["test_processes_of_this_machine", "test_a_cluster", "test_a_run_that_kills"]):
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider"]
        command += ["tests/study/test_killed.py", "-k", name]
        done = subprocess.run(command, cwd=Path(__file__).parents[2], env=long, capture_output=True, text=True)
        yield Trial(name, "" if done.returncode == 0 else done.stdout[-2000:])
