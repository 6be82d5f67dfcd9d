"""Small JSON files of folders, as asyncsim writes and reads them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asyncsim.files._json import read_owned, write_owned


def write_label(folder: str | Path, content: Mapping[str, Any], name: str = "scenario.json") -> None:
    """The label of a folder, which its digest owns."""
    write_owned(Path(folder) / name, content, content["digest"])


def content_of(path: str | Path) -> dict[str, Any]:
    """What a file holds beside its owner and its checksum, which are right."""
    content = read_owned(path)
    assert content is not None
    return content
