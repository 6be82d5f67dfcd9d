"""What a figure is, and where it is found."""

import importlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast

import numpy as np

from asyncsim import Scenario
from asyncsim.files import digest
from asyncsim.scenario.override import did_you_mean
from figures.common.claims import Claim
from figures.common.runs import Runs
from figures.common.scales import scale_of

PACKAGE = __name__.split(".")[0]
FOLDER = Path(__file__).parents[1]
OTHER_FIGURES = re.compile(r"^from figures\.(\w+) import|^from figures import (\w+)", re.MULTILINE)
Numbers = Mapping[str, np.ndarray]


class FigureModule(Protocol):
    """A module of this package that draws a figure.

    Attributes:
        TITLE: Above the picture.
        SIZE: Of the picture in inches.
        task, SEEDS_SHOWN: Optional: `scale -> str`, what is learned, where it is not the scale's usual task; and how
            the seeds are shown, where it is not by their median, least and greatest.
    """

    TITLE: str
    SIZE: tuple[float, float]

    def scenarios(self, scale: str, seed: int) -> Mapping[str, Scenario]:
        """What has to be replayed for one seed, by names of its own; {} for nothing."""
        ...

    def compute(self, scale: str, seed: int, runs: Runs) -> dict[str, np.ndarray]:
        """The numbers of one seed: tables, made by `pack`, of what is drawn and judged."""
        ...

    def claims(self, seeds: Sequence[Numbers], scale: str) -> list[Claim]:
        """What the paper says and the numbers of all seeds say."""
        ...

    def draw(self, figure: Any, seeds: Sequence[Numbers], scale: str) -> None:
        """Draw the numbers of all seeds on an empty figure."""
        ...


def find(name: str) -> FigureModule:
    """The module of a figure.

    Raises:
        ValueError: If there is none of that name; the nearest is named.

    Example:
        >>> find("figur3")
        Traceback (most recent call last):
        ValueError: There is no figure 'figur3'. Did you mean `figure3`? ...
    """
    names = all_names()
    if name not in names:
        raise ValueError(f"There is no figure {name!r}.{did_you_mean(name, names)} They are: {', '.join(names)}.")
    return cast(FigureModule, importlib.import_module(f"{PACKAGE}.{name}"))


def all_names() -> tuple[str, ...]:
    """Names of all figures, in order."""
    return importlib.import_module(PACKAGE).NAMES


def task_of(module: FigureModule, scale: str) -> str:
    """What a figure's runs learn, in words."""
    own = getattr(module, "task", None)
    return scale_of(scale).task if own is None else own(scale)


def source_digest(module: FigureModule) -> str:
    """Hash of the code that makes a figure's numbers: its module, the figures that it imports from, and the kit."""
    own = _sources(Path(cast(ModuleType, module).__file__ or ""))
    return digest(*(path.read_bytes() for path in (*own, *sorted((FOLDER / "common").glob("*.py")))))


def _sources(path: Path) -> list[Path]:
    """A figure's file, and those of the figures that it imports, one in a line."""
    found = [path]
    for source in found:
        for names in OTHER_FIGURES.findall(source.read_text(encoding="utf-8")):
            other = source.with_name(f"{''.join(names)}.py")
            found += [other] if other.is_file() and other not in found else []
    return found
