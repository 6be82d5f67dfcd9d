"""Loading Python from a user's own folders: a study's script, and packages that only a clone has."""

import contextlib
import importlib
import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from asyncsim.checks import nearest
from asyncsim.cli.command import suggestion
from asyncsim.scenario import Scenario
from asyncsim.study import Comparison, Experiment

Study = Scenario | Comparison | Experiment
RUN_NAME = "__asyncsim__"  # not "__main__": a script that is also a program must not start itself
NAMES = ("experiment", "comparison", "scenario")  # the first that a script defines is what is run
EXAMPLE = "scenario = asim.Scenario(...)"


def load(path: str) -> Study:
    """The study that a script defines: its `experiment` or `comparison`, or else its `scenario`.

    A script may well define a `scenario` from which it makes the others.

    Raises:
        click.UsageError: If there is no such file.
        click.ClickException: If the script fails (the file and the line are named), or defines no study, or two.
    """
    if not Path(path).is_file():
        what = "is a folder" if path and Path(path).is_dir() else "is not a file"
        remedy = suggestion(_similar_script(path)) or " Check the name and the folder."
        context = click.get_current_context(silent=True)
        raise click.UsageError(f"SCENARIO.py must be a script; {path!r} {what}.{remedy}", context)
    _require_text(path)
    names = _execute(path)
    found = [name for name in NAMES if isinstance(names.get(name), Study)]
    if len(found) > 1 and found[1] != "scenario":
        raise click.ClickException(f"{path} defines both `{found[0]}` and `{found[1]}`. Give each a script of its own.")
    if found:
        study = names[found[0]]
        assert isinstance(study, Study)
        return study
    raise click.ClickException(f"{path} defines no `scenario`, `comparison` or `experiment`.{_remedy(names)}")


def _require_text(path: str) -> None:
    """Refuse a file with NUL bytes, which Python's own error does not place."""
    before, nul, _ = Path(path).read_bytes().partition(b"\0")
    if nul:
        line = before.count(b"\n") + 1
        raise click.ClickException(f"{path}, line {line}: holds a NUL byte; a script is text. Save it as UTF-8.")


def _similar_script(path: str) -> str | None:
    """The script that was probably meant by a path without one: beside it, inside it, or in a folder `scenarios`."""
    place, name = Path(path).parent, Path(path).name.removesuffix(".py")
    scripts: dict[str, str] = {}
    for folder in (place, place / name, Path("scenarios")):
        for script in sorted(folder.glob("*.py")):
            scripts.setdefault(script.stem, str(script))
    meant = name if name in scripts else nearest(name, scripts)
    return None if meant is None else scripts[meant]


def _remedy(names: Mapping[str, object]) -> str:
    """What to write in a script that defines no study under a name that is looked for."""
    for name, value in names.items():
        if isinstance(value, Study):
            return f" Rename `{name}` to `{type(value).__name__.lower()}`."
    for name in NAMES:
        if name in names:
            return f" Its `{name}` is of type {type(names[name]).__name__}; write `{EXAMPLE}`."
    return f" Write `{EXAMPLE}` at its top level."


def import_from_clone(module: str) -> Any:
    """A module of the repository that is not installed with the library, such as `figures.catalogue`.

    Its package is looked for in the working directory, in the folders above it, and beside the library (where an
    editable installation has it), and imported under its own name.

    Raises:
        click.ClickException: If it is in none of them.
    """
    package = module.partition(".")[0]
    if package not in sys.modules:
        here = Path.cwd()
        places = [here, *here.parents, Path(__file__).parents[2]]
        root = next((place for place in places if (place / package / "__init__.py").is_file()), None)
        if root is None:
            raise click.ClickException(
                f"The {package} are part of the repository, not of the installed package: clone it and run there."
            )
        sys.path.insert(0, str(root))
    return importlib.import_module(module)


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
