"""Where a command finds its study (a script, the folder of a run, or a tag) and packages that only a clone has."""

import importlib
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from asyncsim._checks import nearest
from asyncsim.cli._answer import RUNS
from asyncsim.cli._command import suggestion
from asyncsim.components._address import paths_named
from asyncsim.files._json import to_plain
from asyncsim.scenario import Scenario
from asyncsim.store import _places as places
from asyncsim.store import tags
from asyncsim.store._labels import LABELS, Origin, is_store, label_of
from asyncsim.store._places import folder_name
from asyncsim.study._load import Stored, Study, importable, load_study, study_of


class Source(NamedTuple):
    """A study, and where it came from."""

    study: Study
    argument: str  # the argument that names it
    origin: Origin  # its script and the changed fields
    base: Path  # folder to whose name the changed fields are added
    folder: Path  # where its results go if nothing is changed
    earlier: Mapping[str, Any] = {}  # fields that were changed before; they belong in the name of a changed study
    script: str | None = None  # the script that a person named, next to which modules may be imported


def find_source(text: str, script: str | None = None) -> Source:
    """Find the study of a script, or else that of a folder, of the label in it or of a tag."""
    # Errors name the command, whose context they therefore need.
    path, context = Path(text), click.get_current_context(silent=True)
    # The label of a folder, such as scenario.json, stands for the folder itself.
    if path.is_file() and path.name not in LABELS:
        if script is not None:
            raise click.UsageError(f"`--script` is for the folder of a run; {text!r} is a script itself.", context)
        return of_script(study_of(text), text)
    if not path.is_file() and not path.is_dir() and text not in tags.every():
        remedy = suggestion(similar_script(text)) or " Check the name and the folder."
        raise click.UsageError(f"SCENARIO.py must be a script; {text!r} is not a file.{remedy}", context)
    try:
        folder = places.find_run(text, what="SCENARIO.py")
    except ValueError as error:
        script = similar_script(text) if path.is_dir() else None
        message = f"SCENARIO.py must be a script; {text!r} is a folder.{suggestion(script)}" if script else str(error)
        raise click.UsageError(message, context) from error
    return of_stored(load_study(folder, script), text)._replace(script=script)


def of_script(study: Study, path: str) -> Source:
    """Return the source of a script's study."""
    place = Path(RUNS, Path(path).stem)
    return Source(study, path, Origin(Path(path)), place, place, script=path)


def of_stored(stored: Stored, text: str) -> Source:
    """Return the source of a folder's study. A changed one goes next to the folder."""
    folder, earlier = near(stored.folder), stored.origin.changes
    base, script = folder, stored.origin.script
    if label_of(folder.parent) is not None or is_store(folder.parent):  # It lies in a comparison or a sweep.
        parent = Path(os.path.abspath(folder.parent))
        base, earlier = near(parent.with_name(f"{parent.name},{folder.name}")), {}
    # A folder with a default name is named anew after all changes, and any other folder after the new ones alone.
    elif (
        script is not None
        and folder_name(script.stem, _order_changes(stored.study, earlier), stored.study.digest) == folder.name
    ):
        base = folder.with_name(script.stem)
    else:
        earlier = {}
    return Source(stored.study, text, stored.origin, base, folder, earlier)


def near(folder: Path) -> Path:
    """Return a path from the working directory, if the folder lies in it."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) and folder != here else folder


def place_of(source: Source, changed: Study, changes: Mapping[str, Any]) -> Path:
    """Return the folder for a study with some fields changed."""
    # A change to the value that a field has anyway is none.
    if changed.digest == source.study.digest:
        return source.folder
    named = _order_changes(changed, source.earlier, changes_of(source, changed, changes))
    return source.base.with_name(folder_name(source.base.name, named, changed.digest))


def changes_of(source: Source, changed: Study, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that make a difference, by the short names of the fields, in the order of the help."""
    return _order_changes(changed, _effective(source.study, changed, changes))


def _order_changes(study: Study, *several: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes, of which later ones count, by short names and in the order of the help, however given."""
    named = {_short(study, name): value for changes in several for name, value in changes.items()}
    order = {field.name: place for place, field in enumerate(study.fields())}
    return {name: named[name] for name in sorted(named, key=lambda name: order.get(name, len(order)))}


def _short(study: Study, name: str) -> str:
    """Return the short name of a field, which may have been given by a longer one."""
    paths = study.settings() if isinstance(study, Scenario) else {}
    matches = paths_named(name, paths)
    return paths[matches[0]].name if len(matches) == 1 else name


def _effective(study: Study, changed: Study, changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the changes without those that gave a field the value that it had, if that makes no difference."""
    before = {field.name: to_plain(field.value) for field in study.fields()}
    rest = {name: value for name, value in changes.items() if name not in before or before[name] != to_plain(value)}
    if len(rest) == len(changes):
        return changes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # They were shown when everything was changed.
        return rest if study.override(**rest).digest == changed.digest else changes


def similar_script(path: str) -> str | None:
    """Return the nearest script for a path without one (next to it, inside it or in `scenarios`), or a tag."""
    place, name = Path(path).parent, Path(path).name.removesuffix(".py")
    scripts: dict[str, str] = {}
    # A clone has its examples in `scenarios`.
    for folder in (place, place / name, Path("scenarios")):
        for script in sorted(folder.glob("*.py")):
            scripts.setdefault(script.stem, str(script))
    # A tag has no folder in its name, and a script of the same name comes first.
    if path == name:
        scripts = {**{tag: tag for tag in tags.every()}, **scripts}
    meant = name if name in scripts else nearest(name, scripts)
    return None if meant is None else scripts[meant]


def import_from_clone(module: str) -> Any:
    """Import a module of the repository that is not installed with the library, such as `figures.catalogue`.

    It comes from the clone that this asyncsim is installed from, and not from the working directory, where anybody may
    have put a package of the same name.
    """
    package = module.partition(".")[0]
    root = Path(__file__).parents[2]
    if not (root / package / "__init__.py").is_file():
        raise click.ClickException(
            f"The {package} are part of the repository, not of the installed package. Clone it, and run there: "
            "pip install -e ."
        )
    with importable(str(root / package)):
        return importlib.import_module(module)
