"""A set of figures in one folder: their numbers, their pictures, and the claims that the numbers support or refute."""

import ast
import importlib.metadata
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from asyncsim import npz
from asyncsim.checks import did_you_mean
from asyncsim.engine import Progress
from asyncsim.files import atomic_write, digest, read_owned, remove_temporary_files, write_owned
from asyncsim.plots.page import draw_title
from asyncsim.plots.style import save_figure
from asyncsim.scenario.scenario import Scenario
from asyncsim.study.cache import Estimate, RunCache, estimate
from asyncsim.study.claims import Claim, claims_table
from asyncsim.study.keep import locked, make_folder
from asyncsim.study.tables import Numbers, columns_of, names_of, to_csv
from asyncsim.version import __version__

SUMMARY, LABEL = "summary.md", "figures.json"
NUMBERS, RUNS = "numbers", "runs"  # folders inside
PICTURES = ("pdf", "png")
FORMAT_VERSION = 1  # of the files of numbers
VERSIONED = ("jax", "numpy", "matplotlib")  # whose version may decide a number or a picture


class FigureModule(Protocol):
    """A module that computes, judges and draws one figure.

    Attributes:
        TITLE: The line above the picture, which says what it shows.
        SIZE: Of the picture, in inches.
        task: Optional, `scale -> str`: what is learned, if it differs from the task of the set.
        note: Optional, `scale -> str`: a remark for the line below the title; "" for none.
        SEEDS_SHOWN: Optional: how the seeds are shown, if not by their median and range.
    """

    @property
    def TITLE(self) -> str: ...  # noqa: D102

    @property
    def SIZE(self) -> tuple[float, float]: ...  # noqa: D102

    @property
    def __file__(self) -> str | None: ...

    def scenarios(self, scale: str, seed: int) -> Mapping[Any, Scenario]:
        """The runs that one seed needs, under any keys; {} if it needs none."""
        ...

    def compute(self, scale: str, seed: int, runs: RunCache) -> Numbers:
        """The numbers of one seed: tables, made by `tables.pack`, of what is drawn and judged."""
        ...

    def claims(self, seeds: Sequence[Numbers], scale: str) -> list[Claim]:
        """The claims, judged by the numbers of all seeds."""
        ...

    def draw(self, figure: Any, seeds: Sequence[Numbers], scale: str) -> object:
        """Draw the numbers of all seeds on an empty figure."""
        ...


@dataclass(frozen=True)
class MadeFigure:
    """One figure of a set, after `FigureSet.make`.

    Attributes:
        name: Its name.
        claims: Its claims, judged.
        computed: The seeds whose numbers were computed; the others were in the folder already.
        drawn: Whether the picture was drawn; otherwise it was in the folder already.
    """

    name: str
    claims: list[Claim]
    computed: list[int]
    drawn: bool


@dataclass(frozen=True)
class FigureSet:
    """Figures whose results share a folder; existing results are reused.

    Attributes:
        out: The folder. It holds, for each figure, NAME.pdf, NAME.png and a CSV file per table of numbers, and
            summary.md with the claims of all of them. `numbers` holds what was computed of each seed, `runs` what was
            replayed, and figures.json says from what the files were made.
        figures: Name -> module, in the order of summary.md.
        scale: The name of a set of sizes, which the modules understand.
        task: What is learned at this scale, in words.
        seeds: The figures show seeds 0 to `seeds` - 1, each with a schedule, initial parameters and mini-batches of
            its own.
    """

    out: Path
    figures: Mapping[str, FigureModule]
    scale: str
    task: str
    seeds: int = 3

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Create the folder, or check that it holds figures of this scale, and lock it until the end of the block.

        Raises:
            ValueError: If it holds figures of another scale, or another process makes figures in it.
            OSError: If it cannot be created.
        """
        make_folder(self.out)
        with locked(self.out):
            found = self._label()["scale"]
            if found != self.scale:
                raise ValueError(f"`out` {str(self.out)!r} holds figures of scale {found}. Choose another folder.")
            for folder in filter(Path.is_dir, (self.out, self.out / NUMBERS)):
                remove_temporary_files(folder)
            yield

    def find(self, name: str) -> FigureModule:
        """The module of a figure.

        Raises:
            ValueError: If there is no figure of that name; the most similar name is suggested.
        """
        if name not in self.figures:
            hint = did_you_mean(name, self.figures)
            raise ValueError(f"There is no figure {name!r}.{hint} The figures are {', '.join(self.figures)}.")
        return self.figures[name]

    def estimate(self, names: Sequence[str]) -> Estimate:
        """The replays that figures still need, and roughly how long they will take.

        Raises:
            ValueError: If there is no figure of one of these names.
        """
        pairs = [(name, seed) for name in names for seed in range(self.seeds) if self.read(name, seed) is None]
        scenarios = [s for name, seed in pairs for s in self.find(name).scenarios(self.scale, seed).values()]
        return estimate(scenarios, self.cache())

    def forget(self, names: Sequence[str]) -> None:
        """Remove the numbers of figures and the runs that they need, which other figures may share."""
        for name in names:
            for path in (self.out / NUMBERS).glob(f"{name}_seed*.npz"):
                path.unlink()
            for seed in range(self.seeds):
                for scenario in self.find(name).scenarios(self.scale, seed).values():
                    self.cache().forget(scenario)

    def make(self, name: str, progress: Callable[[int, Scenario, Progress], None] | None = None) -> MadeFigure:
        """Compute, write and draw one figure, as far as the folder does not hold it already.

        Args:
            name: Its name.
            progress: Called with the seed, the scenario and an `asyncsim.engine.Progress` after every chunk of a
                replay.

        Raises:
            ValueError: If there is no such figure.
            OSError: If a file cannot be written.
            ReplayInterrupted: On Ctrl-C; the next call resumes from there.
        """
        module, computed = self.find(name), []
        numbers: dict[int, Numbers] = {}
        for seed in range(self.seeds):
            found = self.read(name, seed)
            if found is None:
                cache = self.cache(None if progress is None else partial(progress, seed))
                found = module.compute(self.scale, seed, cache)
                self._keep(name, seed, found)
                computed.append(seed)
            numbers[seed] = found
        claims = module.claims([*numbers.values()], self.scale)
        return MadeFigure(name, claims, computed, self._write(name, numbers))

    def conclude(self, made: Sequence[MadeFigure]) -> str:
        """Write summary.md, the claims of these figures and of all others in the folder, and return its text."""
        claims = {figure.name: figure.claims for figure in made}
        for name, entry in self._label()["figures"].items():
            if name in self.figures and name not in claims:
                seeds = [self.read(name, seed) for seed in range(entry["seeds"])]
                if all(seeds):
                    claims[name] = self.find(name).claims([seed for seed in seeds if seed], self.scale)
        ordered = {name: claims[name] for name in self.figures if name in claims}
        text = f"# Claims at scale {self.scale}\n\n{self._circumstances(ordered)}\n\n{claims_table(ordered)}\n"
        atomic_write(self.out / SUMMARY, lambda file: file.write(text.encode()))
        return text

    def cache(self, progress: Callable[[Scenario, Progress], None] | None = None) -> RunCache:
        """The cache of this set's runs."""
        return RunCache(self.out / RUNS, progress)

    def read(self, name: str, seed: int) -> Numbers | None:
        """The numbers of one seed of a figure; None unless the figure would compute the same with these versions.

        A damaged file counts as missing, because its numbers can be computed again.
        """
        try:
            numbers = npz.read(self._file(name, seed), kind="figure", version=FORMAT_VERSION)
        except (FileNotFoundError, ValueError):
            return None
        return numbers if numbers.pop("made_of", np.array("")).item() == self._made_of(name, seed) else None

    def task_of(self, name: str) -> str:
        """What the runs of a figure learn, in words."""
        own = getattr(self.find(name), "task", None)
        return self.task if own is None else own(self.scale)

    def subtitle(self, name: str, seeds: int) -> str:
        """The line below the title: what was learned, how the seeds are shown, and the figure's own note."""
        module = self.find(name)
        shown = getattr(module, "SEEDS_SHOWN", "median and range")
        note = module.note(self.scale) if hasattr(module, "note") else ""  # type: ignore[attr-defined]
        parts = (self.task_of(name), "1 seed" if seeds == 1 else f"{seeds} seeds: {shown}", note)
        return "; ".join(part for part in parts if part)

    def _keep(self, name: str, seed: int, numbers: Numbers) -> None:
        """Keep numbers, with a digest of everything that decides them."""
        arrays = {**numbers, "made_of": self._made_of(name, seed)}
        self._file(name, seed).parent.mkdir(parents=True, exist_ok=True)
        npz.write(self._file(name, seed), arrays, version=FORMAT_VERSION)

    def _file(self, name: str, seed: int) -> Path:
        return self.out / NUMBERS / f"{name}_seed{seed}.npz"

    def _made_of(self, name: str, seed: int) -> str:
        """Digest of everything that decides a figure's numbers: its code, what it replays, and versions.

        Of the library, only the version counts: after a change of its code, forget the figure.
        """
        module = self.find(name)
        replayed = [scenario.digest for scenario in module.scenarios(self.scale, seed).values()]
        return digest_of(source_digest(module), self.scale, self.task_of(name), seed, replayed, versions_used())

    def _circumstances(self, names: Iterable[str]) -> str:
        """Tasks, seeds and versions, in words."""
        others: dict[str, list[str]] = {}
        for name in names:
            others.setdefault(self.task_of(name), []).append(name)
        tasks = [self.task, *(f"{', '.join(names)}: {task}" for task, names in others.items() if task != self.task)]
        versions = ", ".join(f"{name} {version}" for name, version in versions_used().items())
        return f"{'; '.join(tasks)}. Seeds 0, 1, …, as many as there are numbers. {versions}."

    def _write(self, name: str, numbers: Mapping[int, Numbers]) -> bool:
        """Write tables and pictures, unless the folder holds those of these numbers, undamaged."""
        tables = {f"{name}_{table}.csv": to_csv(columns_of(numbers, table)) for table in names_of(numbers[0])}
        content = map(digest, tables.values())
        made_of = digest_of(source_digest(self.find(name)), self.task_of(name), versions_used(), *content)
        label = self._label()
        entry = label["figures"].get(name)
        files = [*tables, *(f"{name}.{kind}" for kind in PICTURES)]
        if entry and entry["made_of"] == made_of and entry["files"] == self._digests(files):
            return False
        for file, csv in tables.items():
            atomic_write(self.out / file, lambda opened, csv=csv: opened.write(csv))
        self._draw(name, [*numbers.values()])
        entry = {"made_of": made_of, "seeds": len(numbers), "files": self._digests(files)}
        write_owned(self.out / LABEL, {**label, "figures": {**label["figures"], name: entry}}, self.scale)
        return True

    def _digests(self, files: Sequence[str]) -> dict[str, str]:
        return {file: digest((self.out / file).read_bytes()) for file in files if (self.out / file).is_file()}

    def _draw(self, name: str, seeds: Sequence[Numbers]) -> None:
        module = self.find(name)

        def page(figure: Any) -> None:
            module.draw(figure, seeds, self.scale)
            draw_title(figure, module.TITLE, self.subtitle(name, len(seeds)))

        save_figure([self.out / f"{name}.{kind}" for kind in PICTURES], page, module.SIZE)

    def _label(self) -> dict[str, Any]:
        """The content of figures.json; without figures if the file is missing or damaged."""
        return read_owned(self.out / LABEL) or {"scale": self.scale, "figures": {}}


def versions_used() -> dict[str, str]:
    """Versions of the packages that make the numbers and pictures."""
    return {"asyncsim": __version__, **{name: importlib.metadata.version(name) for name in VERSIONED}}


def digest_of(*values: Any) -> str:
    """Digest of plain values, such as numbers, strings, lists and dictionaries."""
    return digest(json.dumps(values, sort_keys=True))


def source_digest(module: FigureModule) -> str:
    """Digest of the code behind a figure: its module, and all modules of the same package that it depends on."""
    return digest(*(path.read_bytes() for path in source_files(Path(module.__file__ or ""))))


def source_files(path: Path) -> list[Path]:
    """A module's file and those of all modules of the same top-level package that it imports, also indirectly."""
    package = path.parent
    while (package.parent / "__init__.py").is_file():
        package = package.parent
    found = [path]
    for source in found:  # grows meanwhile
        for name in _imported_names(source.read_text(encoding="utf-8")):
            place = package.parent.joinpath(*name.split("."))
            file = place.with_suffix(".py") if place.with_suffix(".py").is_file() else place / "__init__.py"
            if file.is_file() and file.is_relative_to(package) and file not in found:
                found.append(file)
    return found


@cache
def _imported_names(source: str) -> tuple[str, ...]:
    """Dotted names of what some code imports: modules, and names in them, which may be modules as well."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(names)
