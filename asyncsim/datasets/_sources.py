"""Where data come from: a folder, a download, or a package that only some functions need."""

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

VARIABLE = "ASYNCSIM_DATA"  # environment variable that names the folder


def named_folder(
    path: str | os.PathLike[str] | None, subfolder: str, has_files: Callable[[Path], bool], what: str
) -> Path | None:
    """The folder that holds some files, or None if neither the argument nor the environment names one."""
    given, source = (path, "`path`") if path is not None else (os.environ.get(VARIABLE) or None, VARIABLE)
    if given is None:
        return None
    folder = Path(given).expanduser()
    found = next((place for place in (folder, folder / subfolder) if has_files(place)), None)
    if found is None:
        raise FileNotFoundError(
            f"{source} {os.fspath(given)!r} holds no {what}, nor does a folder {subfolder!r} in it. Name the folder "
            "that does; if none is named, the files are downloaded."
        )
    return found


def keep_absolute(data: Any) -> None:
    """Make the `path` of a data set absolute."""
    if data.path is not None:
        object.__setattr__(data, "path", str(Path(data.path).expanduser().absolute()))


def in_one_line(error: Exception) -> str:
    """The text of an error without line breaks and without its full stop."""
    return " ".join(str(error).split()).rstrip(".")


def import_optional(module: str, *, package: str, needed_by: str) -> ModuleType:
    """Import a module of the extra `datasets`, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise ImportError(
            f"{needed_by} needs {package}, which is not installed. Run: pip install 'asyncsim[datasets]'"
        ) from None
