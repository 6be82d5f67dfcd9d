"""A set of figures in one folder: their numbers, their pictures, and the claims that the numbers support or refute."""

import importlib.metadata
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from asyncsim._checks import did_you_mean
from asyncsim._version import __version__
from asyncsim.cluster import Cluster, simulate
from asyncsim.components._description import code_of
from asyncsim.components._digest import hash_of
from asyncsim.delays import Constant
from asyncsim.engine import Progress, replay
from asyncsim.files import _npz as npz
from asyncsim.files._atomic import atomic_write, is_foreign, make_folder, remove_temporary_files
from asyncsim.files._hash import hash_parts
from asyncsim.files._json import read_owned, write_owned
from asyncsim.plots._page import draw_title
from asyncsim.plots.style import save_figure
from asyncsim.rules import Downpour
from asyncsim.scenario._scenario import Scenario
from asyncsim.store._entry import locked
from asyncsim.store._labels import HOLDER, label_of, refuse_stores
from asyncsim.store._lease import is_lease
from asyncsim.study._result_files import Result
from asyncsim.study._run import run
from asyncsim.study._store import Store, open_store
from asyncsim.study._sweep import SweepProgress, sweep
from asyncsim.study._work import obtain
from asyncsim.workloads import Workload
from figures.common.tables import Numbers, columns_of, names_of, to_csv

__all__ = [
    "PICTURES",
    "UNCACHED",
    "CachedRun",
    "Claim",
    "FigureModule",
    "FigureSet",
    "MadeFigure",
    "RunCache",
    "claims_table",
    "each",
    "each_n",
    "estimate",
    "in_words",
    "numbers",
]

ANSWERS = {True: "holds", False: "does not hold", None: "cannot be judged here"}


class Claim(NamedTuple):
    """A claim and its judgement."""

    says: str
    judged: str
    measured: str
    holds: bool | None

    @property
    def answer(self) -> str:
        """Whether it holds, in words."""
        return ANSWERS[self.holds]


def claims_table(claims: Mapping[str, Iterable[Claim]]) -> str:
    """A Markdown table with one row per claim, which begins with the name of its figure."""
    lines = ["| figure | claim | judged by | measured, all seeds | |", "|---|---|---|---|---|"]
    for figure, rows in claims.items():
        for row in rows:
            answer = f"**{row.answer}**" if row.holds is False else row.answer
            cells = (cell.replace("|", r"\|") for cell in (figure, row.says, row.judged, row.measured, answer))
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def numbers(values: Iterable[float]) -> str:
    """Numbers for a cell of the table, three digits each."""
    texts = (f"{value:.3g}" if np.isfinite(value) else "–" for value in map(float, values))
    return " ".join(text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text for text in texts)


def each(labels: Iterable[object], columns: np.ndarray) -> str:
    """The numbers of all seeds, column by column."""
    return "; ".join(f"{label}: {numbers(column)}" for label, column in zip(labels, columns.T, strict=True))


def each_n(workers: Iterable[int], columns: np.ndarray) -> str:
    """The numbers of all seeds, (seeds, numbers of workers), as `each` shows them."""
    return each((f"n = {n}" for n in workers), columns)


VERSIONS = f"asyncsim-{__version__},jax-{jax.__version__}"  # name of a folder: runs of other versions are not used
COMPILING = 8.0  # seconds that one of the larger networks' programs takes to compile
PROBED = 8  # workers in a probe of the speed, and commits of each
SLOWER = 1.3  # the time of GEM with its records over that of DOWNPOUR


@dataclass(frozen=True, eq=False, repr=False)
class CachedRun:
    """The part of a run that figures need, without its parameters."""

    workers: int
    loss: np.ndarray
    commit_time: np.ndarray
    records: Mapping[str, np.ndarray]
    recorded_at: Mapping[str, np.ndarray]
    diverged_at: int | None
    test_accuracy: float
    final_loss: float

    @property
    def commits_per_worker(self) -> int:
        """Commits of each worker on average, rounded down."""
        return len(self.loss) // self.workers


@dataclass(frozen=True)
class RunCache:
    """Where runs come from: the cache if it holds them, otherwise a replay."""

    folder: Path | None = None
    progress: Callable[[Scenario, Progress], None] | None = None

    def has(self, scenario: Scenario) -> bool:
        """Whether the cache holds the run of a scenario."""
        return self.folder is not None and Store(self.folder / VERSIONS).has(scenario.digest)

    def get(self, scenario: Scenario) -> CachedRun:
        """The run of a scenario, replayed if the cache does not hold it."""
        if self.folder is None:
            return cached_run(run(scenario, progress=self.progress and partial(self.progress, scenario)))
        ((_, result),) = obtain({scenario: scenario}, open_store(self.folder / VERSIONS), progress=self.progress)
        return cached_run(result)

    def forget(self, scenario: Scenario) -> None:
        """Remove a run and its checkpoints, so that the next `get` replays it from the start."""
        if self.folder is not None and (self.folder / VERSIONS).is_dir():
            open_store(self.folder / VERSIONS).discard(scenario.digest)

    def unused(self) -> list[Path]:
        """Runs of other versions in the folder, which this cache does not use and which may be deleted."""
        found = [] if self.folder is None or not self.folder.is_dir() else self.folder.iterdir()
        return sorted(path for path in found if path.name != VERSIONS)


UNCACHED = RunCache()  # replays whatever it is asked for


def cached_run(result: Result) -> CachedRun:
    """The part of a result that is cached."""
    trace, replayed, summary = result.trace, result.run, result.summary
    loss = np.full(len(trace), np.nan, np.float32)
    loss[: replayed.commits] = replayed.loss
    if replayed.diverged_at is not None:
        loss[replayed.diverged_at :] = np.nan
    return CachedRun(
        workers=trace.workers,
        loss=loss,
        commit_time=trace.commit_time,
        records=replayed.records,
        recorded_at=replayed.recorded_at,
        diverged_at=replayed.diverged_at,  # type: ignore[arg-type]  # one seed
        test_accuracy=_or_nan(summary["test_accuracy"]),
        final_loss=np.nan if replayed.diverged_at is not None else _or_nan(summary["final_loss"]),
    )


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else float(value)


class Estimate(NamedTuple):
    """The work that the cache does not spare."""

    runs: int
    commits: int
    seconds: float


def estimate(scenarios: Iterable[Scenario], cache: RunCache) -> Estimate:
    """Count the runs that the cache lacks, and estimate their time from a few commits of each workload."""
    missing = {scenario.digest: scenario for scenario in scenarios if not cache.has(scenario)}
    workloads = {id(scenario.workload): scenario.workload for scenario in missing.values()}
    cost = {key: SLOWER * _seconds_per_commit(workload) for key, workload in workloads.items()}
    commits = sum(scenario.total or 0 for scenario in missing.values())
    seconds = sum((scenario.total or 0) * cost[id(scenario.workload)] for scenario in missing.values())
    programs = len({(s.rule.name, s.workers, id(s.workload)) for s in missing.values()})
    return Estimate(len(missing), commits, seconds + COMPILING * programs)


def _seconds_per_commit(workload: Workload) -> float:
    """Wall time per commit of DOWNPOUR with a few workers, measured when the program has been compiled."""
    trace = simulate(Cluster(PROBED, Constant(1.0)), commits=PROBED * PROBED)
    for _ in range(2):
        begun = time.perf_counter()
        replay(trace, Downpour(0.0), workload)
        spent = time.perf_counter() - begun
    return spent / len(trace)  # type: ignore[possibly-undefined]  # the loop ran


def in_words(seconds: float) -> str:
    """A duration, in words."""
    if seconds < 60:
        return "less than a minute"
    return f"about {seconds / 60:.0f} minutes" if seconds < 5400 else f"about {seconds / 3600:.1f} hours"


SUMMARY, LABEL = "summary.md", "figures.json"
NUMBERS, RUNS = "numbers", "runs"  # folders inside
PICTURES = ("pdf", "png")
HEADING = "# Claims at scale"  # with which the summary begins
FORMAT_VERSION = 2  # of the files of numbers; 2: their owner is a note
VERSIONED = ("jax", "numpy", "matplotlib")  # whose version may decide a number or a picture


class FigureModule(Protocol):
    """A module that computes, judges and draws one figure.

    Attributes:
        TITLE: The line above the picture.
        SIZE: Of the picture, in inches.
        task: Optional, `scale -> str`: the task, if it differs from that of the set.
        note: Optional, `scale -> str`: a remark for the line below the title, or "" for none.
        SEEDS_SHOWN: Optional: how the seeds are shown, if not by their median and range.
    """

    @property
    def TITLE(self) -> str: ...  # noqa: D102

    @property
    def SIZE(self) -> tuple[float, float]: ...  # noqa: D102

    def scenarios(self, scale: str, seed: int) -> Mapping[Any, Scenario]:
        """The runs that one seed needs, under any keys, or {} if it needs none."""
        ...

    def compute(self, scale: str, seed: int, runs: RunCache) -> Numbers:
        """The numbers of one seed: tables, made by `figures.common.tables.pack`, for the picture and the claims."""
        ...

    def claims(self, seeds: Sequence[Numbers], scale: str) -> list[Claim]:
        """The claims, judged by the numbers of all seeds."""
        ...

    def draw(self, figure: Any, seeds: Sequence[Numbers], scale: str) -> object:
        """Draw the numbers of all seeds on an empty figure."""
        ...


@dataclass(frozen=True)
class MadeFigure:
    """One figure of a set, after `FigureSet.make`."""

    name: str
    claims: list[Claim]
    computed: list[int]
    drawn: bool


@dataclass(frozen=True)
class FigureSet:
    """Figures whose results share a folder. Existing results are reused."""

    out: Path
    figures: Mapping[str, FigureModule]
    scale: str
    task: str
    seeds: int = 3

    @contextmanager
    def lease(self) -> Iterator[None]:
        """Create the folder, or check that it holds figures of this scale, and lock it until the end of the block."""
        refuse_stores("out", self.out)
        if label_of(self.out) is not None:
            raise ValueError(f"`out` {str(self.out)!r} holds the results of a run. Choose another folder.")
        self._refuse_foreign([])
        make_folder(self.out)
        with locked(self.out):
            found = self._label()["scale"]
            if found != self.scale:
                raise ValueError(f"`out` {str(self.out)!r} holds figures of scale {found}. Choose another folder.")
            for folder in filter(Path.is_dir, (self.out, self.out / NUMBERS)):
                remove_temporary_files(folder)
            yield

    def find(self, name: str) -> FigureModule:
        """The module of a figure."""
        if name not in self.figures:
            hint = did_you_mean(name, self.figures)
            raise ValueError(f"There is no figure {name!r}.{hint} The figures are {', '.join(self.figures)}.")
        return self.figures[name]

    def estimate(self, names: Sequence[str]) -> Estimate:
        """The replays that figures still need, and roughly how long they will take."""
        return estimate(self.scenarios(names), self.cache())

    def scenarios(self, names: Sequence[str]) -> list[Scenario]:
        """The runs of figures whose numbers are not there."""
        pairs = [(name, seed) for name in names for seed in range(self.seeds) if self.read(name, seed) is None]
        return [scenario for name, seed in pairs for scenario in self._runs(name, seed)]

    def _runs(self, name: str, seed: int) -> list[Scenario]:
        return [*self.find(name).scenarios(self.scale, seed).values()]

    def replay(self, names: Sequence[str], jobs: int, progress: Callable[[SweepProgress], None] | None = None) -> None:
        """Compute the missing runs of figures in processes of this machine, for `make`.

        Raises:
            RuntimeError: If some of them failed. The others are kept.
        """
        missing = [scenario for scenario in self.scenarios(names) if not self.cache().has(scenario)]
        if missing:
            found = sweep(missing, self.out / RUNS / VERSIONS, jobs=jobs, retry_failed=True, progress=progress)
            for reason in found.troubles.values():
                raise RuntimeError(f"{len(found.troubles)} of the figures' runs failed, the first with: {reason}")

    def forget(self, names: Sequence[str]) -> None:
        """Remove the numbers of figures and the runs that they need, which other figures may share."""
        for name in names:
            for path in (self.out / NUMBERS).glob(f"{name}_seed*.npz"):
                if path.stem.removeprefix(f"{name}_seed").isdecimal() and not is_foreign(path):
                    path.unlink()
            for scenario in (one for seed in range(self.seeds) for one in self._runs(name, seed)):
                self.cache().forget(scenario)

    def make(self, name: str, progress: Callable[[int, Scenario, Progress], None] | None = None) -> MadeFigure:
        """Compute, write and draw one figure, as far as the folder does not hold it already."""
        module, computed = self.find(name), []
        self._refuse_foreign(_pictures(name))
        numbers: dict[int, Numbers] = {}
        for seed in range(self.seeds):
            found = self.read(name, seed)
            if found is None:
                cache = self.cache(None if progress is None else partial(progress, seed))
                found = module.compute(self.scale, seed, cache)
                self._file(name, seed).parent.mkdir(parents=True, exist_ok=True)
                notes = {npz.OWNER: self._made_of(name, seed)}
                npz.write(self._file(name, seed), found, version=FORMAT_VERSION, notes=notes)
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
        others: dict[str, list[str]] = {}
        for name in ordered:
            others.setdefault(self.task_of(name), []).append(name)
        tasks = [self.task, *(f"{', '.join(names)}: {task}" for task, names in others.items() if task != self.task)]
        versions = ", ".join(f"{name} {version}" for name, version in _versions_used().items())
        told = f"{'; '.join(tasks)}. Seeds 0, 1, …, as many as there are numbers. {versions}."
        text = f"{HEADING} {self.scale}\n\n{told}\n\n{claims_table(ordered)}\n"
        atomic_write(self.out / SUMMARY, lambda file: file.write(text.encode()))
        return text

    def cache(self, progress: Callable[[Scenario, Progress], None] | None = None) -> RunCache:
        """The cache of this set's runs."""
        return RunCache(self.out / RUNS, progress)

    def read(self, name: str, seed: int) -> Numbers | None:
        """The numbers of one seed of a figure, or None unless the figure would compute the same with these versions."""
        made_of = self._made_of(name, seed)
        return npz.read_if_whole(self._file(name, seed), kind="figure", version=FORMAT_VERSION, owner=made_of)

    def task_of(self, name: str) -> str:
        """The task of a figure's runs, in words."""
        own = getattr(self.find(name), "task", None)
        return self.task if own is None else own(self.scale)

    def subtitle(self, name: str, seeds: int) -> str:
        """The line below the title: the task, how the seeds are shown, and the figure's own note."""
        module = self.find(name)
        shown = getattr(module, "SEEDS_SHOWN", "median and range")
        note = module.note(self.scale) if hasattr(module, "note") else ""  # type: ignore[attr-defined]
        parts = (self.task_of(name), "1 seed" if seeds == 1 else f"{seeds} seeds: {shown}", note)
        return "; ".join(part for part in parts if part)

    def _file(self, name: str, seed: int) -> Path:
        return self.out / NUMBERS / f"{name}_seed{seed}.npz"

    def _made_of(self, name: str, seed: int) -> str:
        """Digest of everything that decides a figure's numbers: its code, its runs, and versions."""
        module, replayed = self.find(name), [scenario.digest for scenario in self._runs(name, seed)]
        code = code_of("figure", {"compute": module.compute, "scenarios": module.scenarios})
        return hash_of([code, self.scale, self.task_of(name), seed, replayed, _versions_used()])

    def _write(self, name: str, numbers: Mapping[int, Numbers]) -> bool:
        """Write tables and pictures, unless the folder holds those of these numbers, undamaged."""
        tables = {f"{name}_{table}.csv": to_csv(columns_of(numbers, table)) for table in names_of(numbers[0])}
        content = [hash_parts(csv) for csv in tables.values()]
        module = self.find(name)
        looks = module.TITLE, module.SIZE, self.subtitle(name, len(numbers)), _versions_used()
        made_of = hash_of([code_of("figure", {"draw": module.draw}), *looks, *content])
        entry = self._label()["figures"].get(name)
        files = [*tables, *_pictures(name)]
        if entry and entry["made_of"] == made_of and entry["files"] == self._digests(files):
            return False
        self._refuse_foreign(files)
        begun = {"made_of": "", "seeds": len(numbers), "files": dict.fromkeys(files, "")}  # whose files are asyncsim's
        self._remember(name, begun)
        for file, csv in tables.items():
            atomic_write(self.out / file, lambda opened, csv=csv: opened.write(csv))

        def page(figure: Any) -> None:
            module.draw(figure, [*numbers.values()], self.scale)
            draw_title(figure, module.TITLE, self.subtitle(name, len(numbers)))

        save_figure([self.out / f"{name}.{kind}" for kind in PICTURES], page, module.SIZE)
        self._remember(name, {"made_of": made_of, "seeds": len(numbers), "files": self._digests(files)})
        return True

    def _remember(self, name: str, entry: Mapping[str, Any]) -> None:
        label = self._label()
        write_owned(self.out / LABEL, {**label, "figures": {**label["figures"], name: entry}}, self.scale)

    def _refuse_foreign(self, files: Sequence[str]) -> None:
        """Refuse a folder in which a file that asyncsim did not write has the name of one that it writes."""
        own = {file for entry in self._label()["figures"].values() for file in entry["files"]}
        is_damaged = (self.out / LABEL).is_file() and read_owned(self.out / LABEL) is None  # so that it names no files
        foreign = [file for file in files if not is_damaged and file not in own and os.path.lexists(self.out / file)]
        foreign += [LABEL] if is_foreign(self.out / LABEL) else []
        foreign += [HOLDER] if os.path.lexists(self.out / HOLDER) and not is_lease(self.out / HOLDER) else []
        summary = self.out / SUMMARY
        if os.path.lexists(summary) and not (summary.is_file() and summary.read_bytes().startswith(HEADING.encode())):
            foreign.append(SUMMARY)
        if foreign:
            where = f"`out` {str(self.out)!r} holds {foreign[0]!r}, which asyncsim did not write"
            raise ValueError(f"{where}. Move it elsewhere, or choose another folder.")

    def _digests(self, files: Sequence[str]) -> dict[str, str]:
        return {file: hash_parts((self.out / file).read_bytes()) for file in files if (self.out / file).is_file()}

    def _label(self) -> dict[str, Any]:
        """The content of figures.json, without figures if the file is missing or damaged."""
        return read_owned(self.out / LABEL) or {"scale": self.scale, "figures": {}}


def _pictures(name: str) -> list[str]:
    return [f"{name}.{kind}" for kind in PICTURES]


def _versions_used() -> dict[str, str]:
    """Versions of the packages that make the numbers and pictures."""
    return {"asyncsim": __version__, **{name: importlib.metadata.version(name) for name in VERSIONED}}
