"""Loading Python from a user's own folders: a study's script, and packages that only a clone has."""

import importlib
import sys
from pathlib import Path
from typing import Any

import click

from asyncsim._checks import nearest
from asyncsim.cli._command import suggestion
from asyncsim.store import tags
from asyncsim.study._load import Study, study_of


def load(path: str) -> Study:
    """The study that a script defines: its `experiment` or `comparison`, or else its `scenario`."""
    if not Path(path).is_file():
        what = "is a folder" if path and Path(path).is_dir() else "is not a file"
        remedy = suggestion(similar_script(path)) or " Check the name and the folder."
        context = click.get_current_context(silent=True)
        raise click.UsageError(f"SCENARIO.py must be a script; {path!r} {what}.{remedy}", context)
    return study_of(path)


def similar_script(path: str) -> str | None:
    """What was probably meant by a path without a script: one beside it, inside it or in `scenarios`; or a tag."""
    place, name = Path(path).parent, Path(path).name.removesuffix(".py")
    scripts: dict[str, str] = {}
    for folder in (place, place / name, Path("scenarios")):
        for script in sorted(folder.glob("*.py")):
            scripts.setdefault(script.stem, str(script))
    if path == name:
        scripts = {**{tag: tag for tag in tags.every()}, **scripts}
    meant = name if name in scripts else nearest(name, scripts)
    return None if meant is None else scripts[meant]


def import_from_clone(module: str) -> Any:
    """A module of the repository that is not installed with the library, such as `figures.catalogue`."""
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
