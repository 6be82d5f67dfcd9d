"""An experiment: a study that is a function, for whatever is not one scenario or several side by side."""

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim import npz
from asyncsim.checks import did_you_mean
from asyncsim.files import to_plain, write_json
from asyncsim.scenario import fingerprint
from asyncsim.scenario.fields import Field, fields_of, settings
from asyncsim.study.keep import REPORT, SUMMARY, Folder

LABEL, NUMBERS = "experiment.json", "numbers.npz"
FILES = (NUMBERS, SUMMARY, REPORT)
FORMAT_VERSION = 1
SIZE = (7.2, 4.8)  # inches

Numbers = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Experiment:
    """What is computed, from which arguments, and how it is drawn.

    Attributes:
        compute: `(**arguments) -> {name: array}`. Every argument has a default, and a line in the docstring's `Args:`
            that becomes the help of its flag. The first array of one axis and all others of its shape become the
            columns of the summary's table, single numbers lines below it; the rest is kept with the numbers only.
        draw: `(figure, numbers)`, draws on an empty figure.
        title: A line above the picture.
        size: Of the picture, in inches.
        values: Arguments that differ from the defaults.

    Raises:
        ValueError: If an argument has no default.

    Example:
        >>> def powers(base: float = 2.0, count: int = 4) -> dict[str, np.ndarray]:
        ...     '''Powers of a number.
        ...
        ...     Args:
        ...         base: The number.
        ...         count: How many.
        ...     '''
        ...     return {"power": base ** np.arange(count)}
        >>> experiment = Experiment(powers, draw=lambda figure, numbers: figure.subplots().plot(numbers["power"]))
        >>> experiment.override(count=3).run().numbers["power"].tolist()
        [1.0, 2.0, 4.0]
    """

    compute: Callable[..., Mapping[str, Any]]
    draw: Callable[[Any, Numbers], object]
    title: str = "Experiment"
    size: tuple[float, float] = SIZE
    values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, parameter in inspect.signature(self.compute).parameters.items():
            if parameter.default is parameter.empty:
                raise ValueError(f"`compute` must have a default for every argument; `{name}` has none.")

    def fields(self) -> tuple[Field, ...]:
        """Its arguments, with present values."""
        return tuple(fields_of(self.compute, "Study", self.values))

    def override(self, **changes: Any) -> "Experiment":
        """The experiment with some arguments changed.

        Raises:
            ValueError: If there is no such argument; the nearest is named.
        """
        known = {field.name for field in self.fields()}
        for name in changes.keys() - known:
            raise ValueError(f"`{name}` is not a field of this experiment.{did_you_mean(name, known)}")
        return replace(self, values={**self.values, **changes})

    def describe(self) -> dict[str, Any]:
        """Arguments as plain data, and hashes of the code and of the files that arguments name."""
        arguments = {field.name: _described(field.value) for field in self.fields()}
        code = fingerprint.code_of(self.compute, self.draw)
        return {"experiment": self.compute.__name__, "arguments": arguments, "title": self.title, "code": code}

    @cached_property
    def digest(self) -> str:
        """Hash of the description."""
        return fingerprint.digest(self.describe())

    def run(self, out: str | os.PathLike[str] | None = None, *, force: bool = False) -> "Findings":
        """Compute, and with a folder keep numbers.npz, summary.json and report.png there.

        Args:
            out: Folder; made if missing. Numbers of the same experiment that are there are not computed again.
            force: Begin anew and replace what the folder holds.

        Raises:
            ValueError: If the folder holds something else, or an argument does not fit.
            OSError: If a file cannot be written; those that were there stay whole.
        """
        if out is None:
            numbers = self._compute()
            return Findings(self, numbers, summary_of(numbers))
        place = Folder(out, LABEL, FILES)
        folder = place.claim(self.digest, self.describe(), force)
        found = folder.has(NUMBERS)
        numbers = npz.read(folder / NUMBERS, kind="experiment", version=FORMAT_VERSION) if found else self._compute()
        if not found:
            npz.write(folder / NUMBERS, numbers, version=FORMAT_VERSION)
        summary = summary_of(numbers)
        write_json(folder / SUMMARY, summary)
        if not found or not folder.has(REPORT):
            from asyncsim.plots.style import save_png

            save_png(folder / REPORT, lambda figure: self._draw_page(figure, numbers), self.size)
        place.take(folder)
        return Findings(self, numbers, summary, place.path, not found)

    def _draw_page(self, figure: Any, numbers: Numbers) -> None:
        from asyncsim.plots.page import draw_title

        self.draw(figure, numbers)
        draw_title(figure, self.title, settings(self.fields()))

    def _compute(self) -> dict[str, np.ndarray]:
        return {name: np.asarray(value) for name, value in self.compute(**self.values).items()}


@dataclass(frozen=True, eq=False)
class Findings:
    """What an experiment gave.

    Attributes:
        experiment: The experiment.
        numbers: Name -> array.
        summary: Name -> number, text or list of these, see `Experiment.compute`; what is not finite is None.
        folder: Where it is kept, or None.
        recomputed: Whether it was computed, and not found in the folder.
    """

    experiment: Experiment
    numbers: Numbers = field(repr=False)
    summary: dict[str, Any]
    folder: Path | None = None
    recomputed: bool = True


def summary_of(numbers: Numbers) -> dict[str, Any]:
    """Single numbers, and the columns as long as the first one, as JSON can hold them.

    Example:
        >>> summary_of({"rate": np.array([0.5, np.nan]), "curve": np.zeros(9), "best": np.array(2)})
        {'rate': [0.5, None], 'best': 2}
    """
    shape = next((array.shape for array in numbers.values() if array.ndim == 1), ())
    return {name: to_plain(array) for name, array in numbers.items() if array.shape in ((), shape)}


def _described(value: Any) -> Any:
    if isinstance(value, str) and value and Path(value).is_file():
        return {"file": value, "hash": fingerprint.hash_array(np.fromfile(value, np.uint8))}
    return fingerprint.plain(value)
