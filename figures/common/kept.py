"""Numbers of figures and seeds that were computed before, and what they were made of."""

import importlib.metadata
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import asyncsim
from asyncsim import files, npz
from figures.common.figure import FigureModule, source_digest, task_of

FORMAT_VERSION = 1
VERSIONED = ("jax", "numpy", "matplotlib")  # whose version a number or a picture may depend on

Numbers = dict[str, np.ndarray]


@dataclass(frozen=True)
class Kept:
    """Numbers in a folder, one file a figure and seed.

    Attributes:
        folder: The folder; it need not be there.
        scale: "quick" or "paper".
    """

    folder: Path
    scale: str

    def read(self, module: FigureModule, name: str, seed: int) -> Numbers | None:
        """The numbers, or None where there are none that this figure would compute again with these versions.

        A damaged file counts as none: it is a copy of what can be computed.
        """
        try:
            kept = npz.read(self._file(name, seed), kind="figure", version=FORMAT_VERSION)
        except (FileNotFoundError, ValueError):
            return None
        return kept if kept.pop("made_of", np.array("")).item() == made_of(module, self.scale, seed) else None

    def write(self, module: FigureModule, name: str, seed: int, numbers: Numbers) -> None:
        """Keep numbers, with what they were made of."""
        self.folder.mkdir(parents=True, exist_ok=True)
        npz.write(
            self._file(name, seed), {**numbers, "made_of": made_of(module, self.scale, seed)}, version=FORMAT_VERSION
        )

    def forget(self, name: str) -> None:
        """Remove the numbers of all seeds of a figure."""
        for path in self.folder.glob(f"{name}_seed*.npz"):
            path.unlink()

    def _file(self, name: str, seed: int) -> Path:
        return self.folder / f"{name}_seed{seed}.npz"


def made_of(module: FigureModule, scale: str, seed: int) -> str:
    """Hash of all that decides a figure's numbers: its code and the kit's, what it replays, and versions.

    Of the library only the version counts: after changing its code, use `--force`.
    """
    replayed = [scenario.digest for scenario in module.scenarios(scale, seed).values()]
    return digest_of(source_digest(module), scale, task_of(module, scale), seed, replayed, versions_used())


def versions_used() -> dict[str, str]:
    """Versions of what makes the numbers and pictures."""
    return {"asyncsim": asyncsim.__version__, **{name: importlib.metadata.version(name) for name in VERSIONED}}


def digest_of(*parts: Any) -> str:
    """Hash of plain data."""
    return hash_of(json.dumps(parts, sort_keys=True).encode())


def hash_of(content: bytes) -> str:
    """Hash of bytes, 16 hexadecimal digits."""
    return files.digest(content)
