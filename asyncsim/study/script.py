"""The study that a user's script defines."""

import contextlib
import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path

from asyncsim.scenario import Scenario
from asyncsim.study.compare import Comparison
from asyncsim.study.experiment import Experiment

Study = Scenario | Comparison | Experiment
RUN_NAME = "__asyncsim__"  # not "__main__": a script that is also a program must not start itself
NAMES = ("experiment", "comparison", "scenario")  # the first that a script defines is what is run
EXAMPLE = "scenario = asim.Scenario(...)"


def study_of(path: str) -> Study:
    """The study that a script defines: its `experiment` or `comparison`, or else its `scenario`.

    A script may well define a `scenario` from which it makes the others. It is run under another name than "__main__".

    Raises:
        ValueError: If the script fails (the file and the line are named), or defines no study, or two.
        OSError: If it cannot be read.
    """
    names = names_of(path)
    found = [name for name in NAMES if isinstance(names.get(name), Study)]
    if len(found) > 1 and found[1] != "scenario":
        raise ValueError(f"{path} defines both `{found[0]}` and `{found[1]}`. Give each a script of its own.")
    if found:
        study = names[found[0]]
        assert isinstance(study, Study)
        return study
    raise ValueError(f"{path} defines no `scenario`, `comparison` or `experiment`.{_remedy(names)}")


def names_of(path: str) -> dict[str, object]:
    """What a script defines; it is run under another name than "__main__".

    Raises:
        ValueError: If the script fails; the file and the line are named.
        OSError: If it cannot be read.
    """
    _require_text(path)
    return _execute(path)


@contextlib.contextmanager
def importable(path: str) -> Iterator[None]:
    """Let other processes import what stands beside a script."""
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        yield
    finally:
        del sys.path[0]


def _require_text(path: str) -> None:
    """Refuse a file with NUL bytes, which Python's own error does not place."""
    before, nul, _ = Path(path).read_bytes().partition(b"\0")
    if nul:
        line = before.count(b"\n") + 1
        raise ValueError(f"{path}, line {line}: holds a NUL byte; a script is text. Save it as UTF-8.")


def _remedy(names: Mapping[str, object]) -> str:
    """What to write in a script that defines no study under a name that is looked for."""
    for name, value in names.items():
        if isinstance(value, Study):
            return f" Rename `{name}` to `{type(value).__name__.lower()}`."
    for name in NAMES:
        if name in names:
            return f" Its `{name}` is of type {type(names[name]).__name__}; write `{EXAMPLE}`."
    return f" Write `{EXAMPLE}` at its top level."


def _execute(path: str) -> dict[str, object]:
    try:
        with _as_program(path):
            return runpy.run_path(path, run_name=RUN_NAME)
    except SyntaxError as error:
        where = _relative(error.filename or path)
        raise ValueError(f"{where}, line {error.lineno}: {type(error).__name__}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
        where = f"{path}, line {lines[-1]}" if lines else path
        kind = "" if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: "
        raise ValueError(f"{where}: {kind}{_message(error)}") from error


@contextlib.contextmanager
def _as_program(path: str) -> Iterator[None]:
    """The script's folder comes first on the path, and what it prints does not mix with the results."""
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        del sys.path[0]


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error)


def _relative(path: str) -> str:
    return os.path.relpath(path) if Path(path).is_absolute() else path
