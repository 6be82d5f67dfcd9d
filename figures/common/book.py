"""All figures of one scale in one folder: numbers, pictures, claims. What is there is not made again."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from asyncsim.files import atomic_write, write_json
from asyncsim.plots.report import draw_title
from asyncsim.plots.style import save_figure
from figures.common.claims import Claim, claims_table
from figures.common.figure import FigureModule, all_names, find, source_digest, task_of
from figures.common.kept import Kept, Numbers, digest_of, hash_of, versions_used
from figures.common.runs import Runs
from figures.common.scales import scale_of
from figures.common.tables import columns_of, names_of, to_csv

SUMMARY, LABEL = "summary.md", "figures.json"
PICTURES = ("pdf", "png")


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
            together summary.md. `numbers` holds what was computed of each seed, `runs` what was replayed, and
            figures.json says what the files were made of.
        scale: "quick" or "paper".
        seeds: Seeds 0 to `seeds` - 1, each with a schedule, first parameters and mini-batches of its own.
    """

    out: Path
    scale: str = "quick"
    seeds: int = 3

    def open(self) -> None:
        """Make the folder, or find that it is one of this scale.

        Raises:
            ValueError: If it holds figures of another scale.
            OSError: If it cannot be made.
        """
        try:
            (self.out / "runs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise OSError(
                error.errno, f"`out` {str(self.out)!r} cannot be made: {reason}. Choose another folder."
            ) from error
        there = self._label()["scale"]
        if there != self.scale:
            raise ValueError(f"`out` {str(self.out)!r} holds figures of scale {there}. Choose another folder.")

    def missing(self, names: Sequence[str]) -> list[tuple[str, int]]:
        """Figures and seeds whose numbers are not there.

        Raises:
            ValueError: If there is no figure of one of these names.
        """
        pairs = [(name, seed) for name in names for seed in range(self.seeds)]
        return [(name, seed) for name, seed in pairs if self.kept.read(find(name), name, seed) is None]

    def forget(self, names: Sequence[str]) -> None:
        """Remove the numbers of figures and the runs that they need, which other figures may share."""
        for name in names:
            self.kept.forget(name)
            for seed in range(self.seeds):
                for scenario in find(name).scenarios(self.scale, seed).values():
                    self.runs().forget(scenario)

    def make(self, name: str, progress: Callable[..., None] | None = None) -> Made:
        """Compute, write and draw one figure, as far as that is not there.

        Args:
            name: Of the figure.
            progress: Called with the seed, the scenario and a `Progress(done, total, loss)` now and then.

        Raises:
            ValueError: If there is no such figure.
            OSError: If a file cannot be written.
            ReplayInterrupted: On Ctrl-C; the next call goes on from there.
        """
        module, computed = find(name), []
        numbers: dict[int, Numbers] = {}
        for seed in range(self.seeds):
            kept = self.kept.read(module, name, seed)
            if kept is None:
                runs = self.runs(None if progress is None else partial(progress, seed))
                kept = module.compute(self.scale, seed, runs)
                self.kept.write(module, name, seed, kept)
                computed.append(seed)
            numbers[seed] = kept
        claims = module.claims([*numbers.values()], self.scale)
        return Made(name, claims, computed, self._write(module, name, numbers))

    def conclude(self, made: Sequence[Made]) -> str:
        """Write the table of claims of these figures and of all others that are drawn; return it."""
        claims = {figure.name: figure.claims for figure in made}
        for name, entry in self._label()["figures"].items():
            if name in all_names() and name not in claims:
                module = find(name)
                kept = [self.kept.read(module, name, seed) for seed in range(entry["seeds"])]
                if all(kept):
                    claims[name] = module.claims([seed for seed in kept if seed], self.scale)
        ordered = {name: claims[name] for name in dict.fromkeys([*all_names(), *claims]) if name in claims}
        text = f"# Claims at scale {self.scale}\n\n{self._circumstances(ordered)}\n\n{claims_table(ordered)}\n"
        atomic_write(self.out / SUMMARY, lambda file: file.write(text.encode()))
        return text

    @property
    def kept(self) -> Kept:
        """The numbers that are there."""
        return Kept(self.out / "numbers", self.scale)

    def runs(self, progress: Callable[..., None] | None = None) -> Runs:
        """Where this book's runs are kept."""
        return Runs(self.out / "runs", progress)

    def _circumstances(self, names: Iterable[str]) -> str:
        """Tasks, seeds and versions."""
        usual = scale_of(self.scale).task
        others: dict[str, list[str]] = {}
        for name in names:
            others.setdefault(task_of(find(name), self.scale), []).append(name)
        tasks = [usual, *(f"{', '.join(names)}: {task}" for task, names in others.items() if task != usual)]
        versions = ", ".join(f"{name} {version}" for name, version in versions_used().items())
        return f"{'; '.join(tasks)}. Seeds 0, 1, …, as many as there are numbers. {versions}."

    def _write(self, module: FigureModule, name: str, numbers: dict[int, Numbers]) -> bool:
        """Write tables and pictures, unless those that are there are of these numbers, and whole."""
        tables = {f"{name}_{table}.csv": to_csv(columns_of(numbers, table)) for table in names_of(numbers[0])}
        made_of = digest_of(
            source_digest(module), task_of(module, self.scale), versions_used(), *map(hash_of, tables.values())
        )
        label = self._label()
        entry = label["figures"].get(name)
        files = [*tables, *(f"{name}.{kind}" for kind in PICTURES)]
        if entry and entry["made_of"] == made_of and entry["files"] == self._hashes(files):
            return False
        for file, content in tables.items():
            atomic_write(self.out / file, lambda opened, content=content: opened.write(content))
        self._draw(module, name, [*numbers.values()])
        entry = {"made_of": made_of, "seeds": len(numbers), "files": self._hashes(files)}
        write_json(self.out / LABEL, {**label, "figures": {**label["figures"], name: entry}})
        return True

    def _hashes(self, files: Sequence[str]) -> dict[str, str]:
        return {file: hash_of((self.out / file).read_bytes()) for file in files if (self.out / file).is_file()}

    def _draw(self, module: FigureModule, name: str, seeds: Sequence[Numbers]) -> None:
        def page(figure: Any) -> None:
            module.draw(figure, seeds, self.scale)
            draw_title(figure, module.TITLE, subtitle(module, self.scale, len(seeds)))

        save_figure([self.out / f"{name}.{kind}" for kind in PICTURES], page, module.SIZE)

    def _label(self) -> dict[str, Any]:
        """What figures.json says; that nothing is drawn where there is none or it is damaged."""
        try:
            label = json.loads((self.out / LABEL).read_text(encoding="utf-8"))
            return {"scale": label["scale"], "figures": dict(label["figures"])}
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return {"scale": self.scale, "figures": {}}


def subtitle(module: FigureModule, scale: str, seeds: int) -> str:
    """The line below the title: what was learned, and how many seeds are shown, and how."""
    shown = getattr(module, "SEEDS_SHOWN", "median, least and greatest")
    return f"{task_of(module, scale)}; {'1 seed' if seeds == 1 else f'{seeds} seeds: {shown}'}"
