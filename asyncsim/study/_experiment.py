"""Experiments: functions as studies, for questions that neither one scenario nor a comparison of several answers."""

import inspect
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from asyncsim._checks import brief, did_you_mean
from asyncsim._version import REVISION
from asyncsim.components import _code_hash as code
from asyncsim.components._checked import checked
from asyncsim.components._description import code_of, describe
from asyncsim.components._digest import hash_of
from asyncsim.components._environment import environment, environment_in
from asyncsim.components._field import Field, describe_changes
from asyncsim.components._frozen import frozen
from asyncsim.components._settings import settings_of_class
from asyncsim.files import _npz as npz
from asyncsim.files._atomic import require_folder, require_no_link, require_own
from asyncsim.files._hash import DIGEST_DIGITS
from asyncsim.files._json import to_plain
from asyncsim.plots._page import draw_title
from asyncsim.plots.style import keep_png
from asyncsim.store._entry import Folder, remove_store
from asyncsim.store._labels import EXPERIMENT as LABEL
from asyncsim.store._labels import GIF, NUMBERS, PAGE, REPORT, SUMMARY, Origin
from asyncsim.study._result_files import keep_summary

STORE = "store"  # name of the argument of `compute` that is the folder of a store
HIDDEN_STORE = ".store"  # name of that folder: one called `store` might be the user's
FILES = (NUMBERS, SUMMARY, REPORT)
FORMAT_VERSION = 1
SIZE = (7.2, 4.8)  # inches

Numbers = Mapping[str, np.ndarray]


def _inches(name: str, value: Any) -> Any:
    if np.shape(value) != (2,) or np.asarray(value).dtype.kind not in "iuf" or not (np.asarray(value) > 0).all():
        raise ValueError(f"`{name}` must be a width and a height in inches, both positive; got {brief(value)}.")
    return value


@checked
@dataclass(frozen=True, eq=False, repr=False)
class Experiment:
    """A function that computes numbers, its arguments, and a function that draws them.

    Attributes:
        compute: `(**arguments) -> {name: array}`. Every argument has a default, and an entry in the docstring's `Args:`
            that becomes the help of its flag. The first one-dimensional array and all others of its shape become the
            columns of the summary's table, single numbers the lines below it, and other arrays are only kept. An
            argument `store` is no field: it gets the folder of a store, for `asyncsim.sweep`, so that an interrupted
            experiment resumes. The store is removed once the numbers are there.
        draw: `(figure, numbers)`: draws on an empty figure.
        title: The line above the picture.
        size: Of the picture, in inches.
        values: Arguments that were overridden.
        movie: `(**arguments) -> asyncsim.Movie`, with every argument of `compute`: a movie that is kept next to the
            picture, as the page movie.html and as movie.gif. None for no movie.

    Raises:
        ValueError: If an argument has no default, or `values` names one that there is not.

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
        >>> experiment.override(count=3)
        Experiment(powers, count 3)
        >>> experiment.override(count=3).run().numbers["power"].tolist()
        [1.0, 2.0, 4.0]
    """

    compute: Callable[..., Mapping[str, Any]]
    draw: Callable[[Any, Numbers], object]
    title: str = "Experiment"
    size: Annotated[tuple[float, float], _inches] = SIZE
    values: Mapping[str, Any] = field(default_factory=dict)
    movie: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        # The digest would become wrong if a value changed.
        object.__setattr__(self, "values", frozen("values", dict(self.values)))
        for name, parameter in inspect.signature(self.compute).parameters.items():
            if parameter.default is parameter.empty:
                raise ValueError(f"`compute` must have a default for every argument; `{name}` has none.")
        names = {field.name for field in self.fields()}
        for name in self.values.keys() - names:
            raise ValueError(f"`{name}` is not a field of this experiment.{did_you_mean(name, names)}")

    def __repr__(self) -> str:
        return f"Experiment({', '.join(filter(None, (self.compute.__name__, describe_changes(self.fields()))))})"

    def fields(self) -> tuple[Field, ...]:
        """List its arguments, with their present values."""
        return tuple(field for name, field in settings_of_class(self.compute, self.values).items() if name != STORE)

    def override(self, **changes: Any) -> "Experiment":
        """Return the experiment with some arguments changed.

        Raises:
            ValueError: If there is no such argument. The nearest one is named.
        """
        return replace(self, values={**self.values, **changes})

    def describe(self) -> dict[str, Any]:
        """Describe the arguments as plain data, with hashes of the code and of the files that the arguments name."""
        return deepcopy(self.description)

    @cached_property
    def description(self) -> dict[str, Any]:
        """As `describe`, but not to be changed."""
        arguments = {field.name: _describe_argument(field.value) for field in self.fields()}
        functions = {"compute": self.compute, "draw": self.draw, "movie": self.movie}
        return {
            "experiment": self.compute.__name__,
            "arguments": arguments,
            "title": self.title,
            "code": code_of("experiment", functions),
            **environment(),
            "revision": REVISION,
        }

    @cached_property
    def digest(self) -> str:
        """Hash of the description."""
        return hash_of(self.description)

    def current(self) -> "Experiment":
        """Return the experiment with the present settings of JAX: itself, unless they have changed since."""
        return self if environment_in(self.description) == environment() else replace(self)

    def run(
        self, out: str | os.PathLike[str] | None = None, *, force: bool = False, origin: Origin | None = None
    ) -> "Findings":
        """Compute, and with a folder keep numbers.npz, summary.json and report.png there, and the movie if it has one.

        Args:
            out: Folder, created if missing. Existing numbers of the same experiment are reused.
            force: Start afresh and replace the folder's results once the new ones are complete.
            origin: Where the experiment came from, as in `asyncsim.run`.

        Raises:
            ValueError: If another process works in the folder, or it holds something else, or an argument does not fit.
            OSError: If a file cannot be written. Existing files stay whole.
        """
        self = self.current()
        if out is None:  # A sweep inside `compute` needs a folder, if only for this call.
            with tempfile.TemporaryDirectory() if self.has_store else nullcontext() as store:
                numbers = self._compute(store)
            return Findings(self, numbers, summary_of(numbers))
        films = () if self.movie is None else (PAGE, GIF)
        output = Folder(require_folder("out", out), LABEL, (*FILES, *films), scratch=HIDDEN_STORE)
        with output.lease(self, force, (origin or Origin()).describe()) as folder:
            numbers = npz.unless_damaged(partial(read_numbers, self.digest), folder / NUMBERS)
            again = numbers is None
            if numbers is None:  # If an earlier call was interrupted, its store has the finished runs.
                require_no_link(folder / HIDDEN_STORE)
                numbers = self._compute(folder / HIDDEN_STORE)
                npz.write(folder / NUMBERS, numbers, version=FORMAT_VERSION, notes={npz.OWNER: self.digest})
                remove_store(folder / HIDDEN_STORE)
            summary = summary_of(numbers)
            keep_summary(folder, summary, self.digest)

            # The summary comes before the pictures, so that an error while drawing loses no number.
            def page(figure: Any) -> None:
                self.draw(figure, numbers)
                draw_title(figure, self.title, describe_changes(self.fields()))

            keep_png(folder / REPORT, page, self.size, self.digest, layout=str((*map(float, self.size),)), again=again)
            if self.movie is not None and (again or not all(map(folder.has, films))):
                movie = self.movie(**{field.name: field.value for field in self.fields()})
                for name in films:  # Movies are written to any file that a person names, so they do not check it.
                    require_own(folder / name)
                movie.html(folder / PAGE)
                movie.gif(folder / GIF)
        return Findings(self, numbers, summary, output.path, again)

    @property
    def has_store(self) -> bool:
        """Whether its runs are kept until the numbers are there."""
        return STORE in inspect.signature(self.compute).parameters

    def _compute(self, store: str | os.PathLike[str] | None) -> dict[str, np.ndarray]:
        arguments = {**self.values, STORE: store} if self.has_store else self.values
        return {name: np.asarray(value) for name, value in self.compute(**arguments).items()}


@dataclass(frozen=True, eq=False, repr=False)
class Findings:
    """The results of an experiment.

    Attributes:
        experiment: The experiment, or None after `asyncsim.load`, because its function is of your own.
        numbers: Name -> array.
        summary: Name -> number, text or list of these (see `Experiment.compute`), with None for non-finite numbers.
        folder: The folder that keeps them, or None.
        recomputed: Whether the numbers were computed, rather than found in the folder.
    """

    experiment: Experiment | None
    numbers: Numbers
    summary: dict[str, Any]
    folder: Path | None = None
    recomputed: bool = True

    def __repr__(self) -> str:
        location = "" if self.folder is None else f"; in {self.folder}"
        study = "no experiment" if self.experiment is None else repr(self.experiment)
        return f"Findings({study}; {', '.join(self.numbers)}{location})"


def read_numbers(digest: str, path: Path) -> dict[str, np.ndarray]:
    """Read the numbers of the experiment with this digest."""
    numbers = npz.read(path, kind="experiment", version=FORMAT_VERSION)
    npz.read_own_notes(path, digest, kind="file of this experiment")
    return numbers


def summary_of(numbers: Numbers) -> dict[str, Any]:
    """Select single numbers, and the columns of the same length as the first one, in a form that JSON has."""
    shape = next((array.shape for array in numbers.values() if array.ndim == 1), ())
    return {name: to_plain(array) for name, array in numbers.items() if array.shape in ((), shape)}


def _describe_argument(value: Any) -> Any:
    if isinstance(value, str) and os.path.isfile(value):  # `Path.is_file` refuses texts that are too long for a name.
        return {"file": value, "hash": code.hash_array(np.fromfile(value, np.uint8)).hex()[:DIGEST_DIGITS]}
    return describe(value)
