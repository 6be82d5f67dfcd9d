"""The folder of the fault-injection tests, and the invariants that must hold each time."""

import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

import asyncsim as asim
from asyncsim.files._json import read_json
from asyncsim.study import _run
from tests.conftest import compile_quickly
from tests.study import problems
from tests.study.problems import assert_same_run

FILES = ("scenario.json", "trace.npz", "run.npz", "summary.json", "report.png")
PATIENCE = 120  # seconds after which something hangs
scenario = cache(problems.scenario)  # made once in a process


class Trial(NamedTuple):
    """One thing to do."""

    title: str
    complaint: Callable[[], str]  # does it, and tells what gave way; empty if all held


class Ground(NamedTuple):
    """Where all of it happens."""

    folder: Path  # an empty one
    finished: Path  # the folder of an undisturbed run of `scenario()`
    result: asim.Result  # of that run


def prepare() -> None:
    """Compile quickly, and draw pages that hold only their title: what they hold is tested among the plots."""
    compile_quickly()
    _run.draw_report = lambda figure, title, **rest: figure.text(0, 0, title)  # type: ignore[assignment]


def run_again(ground: Ground, out: Path, force: bool = False) -> str:
    """Whether the same call gives the numbers of the undisturbed run, and leaves its files only."""
    found = asim.run(scenario(), out, force=force)
    assert_same_run(found.run, ground.result.run)
    np.testing.assert_array_equal(found.trace.commit_time, ground.result.trace.commit_time)
    lacking = {*FILES} - contents(out).keys()
    return f"lacks {sorted(lacking)}" if lacking else untidy(out)


def outcome_of(call: Callable[[], object], *known: type[Exception]) -> str:
    """The message of a known error in one line, the traceback of another one, or empty."""
    try:
        call()
    except BaseException as error:
        is_known = isinstance(error, known) and "\n" not in str(error)
        return str(error) if is_known else "".join(traceback.format_exception(error))
    return ""


def only(expected: type[Exception], call: Callable[[], object]) -> str:
    """Whether a call ends well, or in an error of the expected type with a message of one line."""
    said = outcome_of(call, expected)
    return said if "\n" in said else ""


def is_whole(path: Path) -> bool:
    """Whether a file of a run can be read."""
    if path.suffix == ".json":
        return read_json(path) is not None
    if path.suffix == ".png":
        return path.read_bytes().endswith(b"IEND\xaeB`\x82")
    with np.load(path) as archive:
        return len([archive[name] for name in archive]) > 0


def contents(folder: Path, hidden: bool = False) -> dict[str, bytes]:
    """Name -> content of the files of a folder, if there is one; locks and temporary files are hidden."""
    if not folder.exists():
        return {}
    found = [path for path in folder.iterdir() if path.is_file() and (hidden or not path.name.startswith("."))]
    return {path.name: path.read_bytes() for path in found}


def untidy(folder: Path) -> str:
    """What a command left beside whole files of a run; empty if nothing."""
    if left := contents(folder, hidden=True).keys() - {*FILES}:
        return f"left {sorted(left)}"
    halves = [name for name in contents(folder) if not is_whole(folder / name)]
    return f"{halves[0]} is not whole" if halves else ""
