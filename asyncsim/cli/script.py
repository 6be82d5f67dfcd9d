"""Loading a scenario's script, with its mistakes told in one line."""

import contextlib
import importlib
import os
import runpy
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click

from asyncsim.scenario import Scenario
from asyncsim.study import Comparison, Experiment

Study = Scenario | Comparison | Experiment
RUN_NAME = "__asyncsim__"  # not "__main__": a script that is also a program must not start itself
WANTED = "scenario = asim.Scenario(...)"


def load(path: str) -> Study:
    """The `scenario` (or `comparison`, or `experiment`) that a script defines.

    Raises:
        click.UsageError: If there is no such file.
        click.ClickException: If the script fails or defines no scenario; names the file and the line.
    """
    if not Path(path).is_file():
        message = f"SCENARIO.py must be a script; {path!r} is no file. Check the name and the folder."
        raise click.UsageError(message, click.get_current_context(silent=True))
    names = _execute(path)
    for name in ("scenario", "comparison", "experiment"):
        study = names.get(name)
        if isinstance(study, Study):
            return study
    others = [name for name, value in names.items() if isinstance(value, Study)]
    hint = f" Rename `{others[0]}`." if others else f" Write `{WANTED}` at its top level."
    raise click.ClickException(f"{path} defines no `scenario`.{hint}")


def load_figures(module: str) -> ModuleType:
    """A module of the package `figures`, which is part of a clone of asyncsim and not of an installation.

    The clone is the working directory or one of its parents, unless the package has been imported already.

    Raises:
        click.ClickException: If the working directory is not in a clone.
    """
    if "figures" not in sys.modules:
        here = Path.cwd()
        root = next((place for place in (here, *here.parents) if (place / "figures" / "common").is_dir()), None)
        if root is None:
            raise click.ClickException(
                f"The figures are not in {str(here)!r} or above it. Run `asyncsim figures` in a clone of asyncsim."
            )
        sys.path.insert(0, str(root))
    return importlib.import_module(f"figures.{module}")


def _execute(path: str) -> dict[str, object]:
    try:
        with _as_program(path):
            return runpy.run_path(path, run_name=RUN_NAME)
    except SyntaxError as error:
        where = _relative(error.filename or path)
        raise click.ClickException(f"{where}, line {error.lineno}: {type(error).__name__}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
        where = f"{path}, line {lines[-1]}" if lines else path
        kind = "" if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: "
        raise click.ClickException(f"{where}: {kind}{_message(error)}") from error


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
