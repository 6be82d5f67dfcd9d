"""All figures of one scale in one folder: numbers, pictures, claims. What is there is not made again."""

import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import asyncsim
from asyncsim import npz
from asyncsim.files import atomic_write
from asyncsim.plots.report import draw_title
from asyncsim.plots.style import save_figure
from asyncsim.study.summary import write_json

from .claims import Claim, claims_table
from .figure import FigureModule, all_names, find, source_digest
from .runs import Progress, Runs
from .setup import scale_of
from .tables import columns_of, names_of, to_csv

FORMAT_VERSION = 1
SUMMARY, LABEL = "summary.md", "figures.json"
PICTURES = ("pdf", "png")
VERSIONED = ("jax", "numpy", "matplotlib")  # whose version a number or a picture may depend on

Numbers = dict[str, np.ndarray]


@dataclass(frozen=True)
class Made:
    """One figure of the book.

    Attributes:
        name: Of the figure.
        claims: What it says of the paper.
        computed: Seeds whose numbers were computed and not found.
        drawn: Whether the picture was drawn and not found.
    """

    name: str
    claims: list[Claim]
    computed: list[int]
    drawn: bool


@dataclass(frozen=True)
class Book:
    """A folder of figures.

    Attributes:
        out: The folder: for each figure NAME.pdf, NAME.png and a CSV file for each table of numbers, and of all
            together summary.md. `numbers` holds what was computed of each seed, `runs` what was replayed.
        scale: "quick" or "paper".
        seeds: Seeds 0 to `seeds` - 1, each with a schedule, first parameters and mini-batches of its own.
        force: Whether to compute numbers again that are there.
    """

    out: Path
    scale: str = "quick"
    seeds: int = 3
    force: bool = False

    def runs(self, progress: Progress | None = None) -> Runs:
        """Where this book's runs are kept; the folder is made if missing."""
        return Runs(self._folder("runs"), progress)

    def missing(self, names: Sequence[str]) -> list[tuple[str, int]]:
        """Figures and seeds whose numbers are not there.

        Raises:
            ValueError: If there is no figure of one of these names.
        """
        pairs = [(name, seed) for name in names for seed in range(self.seeds)]
        return [(name, seed) for name, seed in pairs if self._kept(find(name), name, seed) is None]

    def make(self, name: str, progress: Callable[..., None] | None = None) -> Made:
        """Compute, write and draw one figure, as far as that is not there.

        Args:
            name: Of the figure.
            progress: Called with the seed, the scenario and its `Replayer` after every piece of a replay.

        Raises:
            ValueError: If there is no such figure.
            OSError: If a file cannot be written.
            ReplayInterrupted: On Ctrl-C; the next call goes on from there.
        """
        module, numbers, computed = find(name), {}, []
        for seed in range(self.seeds):
            report = None if progress is None else partial(progress, seed)
            kept = self._kept(module, name, seed)
            numbers[seed] = self._compute(module, name, seed, report) if kept is None else kept
            computed += [seed] if kept is None else []
        claims = module.claims([*numbers.values()], self.scale)
        drawn = self._write(module, name, numbers)
        return Made(name, claims, computed, drawn)

    def conclude(self, made: Sequence[Made]) -> str:
        """Write the table of claims of these figures and of all others whose numbers are there; return it."""
        claims = {figure.name: figure.claims for figure in made}
        for name in (name for name in all_names() if name not in claims):
            module = find(name)
            kept = [self._kept(module, name, seed) for seed in range(self.seeds)]
            if all(kept):
                claims[name] = module.claims([seed for seed in kept if seed], self.scale)
        ordered = {name: claims[name] for name in dict.fromkeys([*all_names(), *claims]) if name in claims}
        text = f"# Claims at scale {self.scale}\n\n{self.circumstances()}\n\n{claims_table(ordered)}\n"
        atomic_write(self.out / SUMMARY, lambda file: file.write(text.encode()))
        return text

    def circumstances(self) -> str:
        """Task, seeds and versions in a line."""
        versions = ", ".join(f"{name} {version}" for name, version in versions_used().items())
        return f"{scale_of(self.scale).task}; seeds 0 to {self.seeds - 1}; {versions}."

    def _kept(self, module: FigureModule, name: str, seed: int) -> Numbers | None:
        """The numbers of a seed that are there and were made by this code, or None."""
        path = self._file(name, seed)
        if self.force or not path.is_file():
            return None
        kept = npz.read(path, kind="figure", version=FORMAT_VERSION)
        return kept if kept.pop("digest", np.array("")).item() == self._digest(module, seed) else None

    def _compute(self, module: FigureModule, name: str, seed: int, progress: Progress | None) -> Numbers:
        """Compute and keep the numbers of a seed."""
        numbers, path = module.compute(self.scale, seed, self.runs(progress)), self._file(name, seed)
        self._folder(path.parent.name)
        npz.write(path, {**numbers, "digest": self._digest(module, seed)}, version=FORMAT_VERSION)
        return numbers

    def _folder(self, name: str) -> Path:
        """A folder of the book, made if missing."""
        folder = self.out / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise OSError(
                error.errno, f"`out` {str(self.out)!r} cannot be made: {reason}. Choose another folder."
            ) from error
        return folder

    def _file(self, name: str, seed: int) -> Path:
        return self.out / "numbers" / f"{name}_seed{seed}.npz"

    def _digest(self, module: FigureModule, seed: int) -> str:
        return digest_of(source_digest(module), self.scale, seed, versions_used())

    def _write(self, module: FigureModule, name: str, numbers: dict[int, Numbers]) -> bool:
        """Write tables and pictures, unless those that are there are of these numbers."""
        tables = {table: to_csv(columns_of(numbers, table)) for table in names_of(numbers[0])}
        digest = digest_of(source_digest(module), self.scale, versions_used(), *map(hash_of, tables.values()))
        files = [*(f"{name}_{table}.csv" for table in tables), *(f"{name}.{kind}" for kind in PICTURES)]
        label = self._label()
        if label.get(name) == digest and all((self.out / file).is_file() for file in files):
            return False
        for table, content in tables.items():
            atomic_write(self.out / f"{name}_{table}.csv", lambda file, content=content: file.write(content))
        self._draw(module, name, [*numbers.values()])
        write_json(self.out / LABEL, {**label, name: digest})
        return True

    def _draw(self, module: FigureModule, name: str, seeds: Sequence[Numbers]) -> None:
        def page(figure: Any) -> None:
            module.draw(figure, seeds, self.scale)
            draw_title(figure, module.TITLE, subtitle(module, self.scale, len(seeds)))

        save_figure([self.out / f"{name}.{kind}" for kind in PICTURES], page, module.SIZE)

    def _label(self) -> dict[str, Any]:
        """Figure -> digest of what was drawn; {} where there is nothing or it is damaged."""
        try:
            label = json.loads((self.out / LABEL).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return label if isinstance(label, dict) else {}


def subtitle(module: FigureModule, scale: str, seeds: int) -> str:
    """The line below the title: what was learned, and how many seeds are shown, and how."""
    task = getattr(module, "task", lambda scale: scale_of(scale).task)(scale)
    shown = getattr(module, "SEEDS_SHOWN", "median, least and greatest")
    return f"{task}; 1 seed" if seeds == 1 else f"{task}; {seeds} seeds: {shown}"


def versions_used() -> dict[str, str]:
    """Versions of what makes the numbers and pictures."""
    return {"asyncsim": asyncsim.__version__, **{name: importlib.metadata.version(name) for name in VERSIONED}}


def digest_of(*parts: Any) -> str:
    """Hash of plain data."""
    return hash_of(json.dumps(parts, sort_keys=True).encode())


def hash_of(content: bytes) -> str:
    """Hash of bytes, 16 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()[:16]
