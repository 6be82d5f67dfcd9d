"""A comparison: several scenarios side by side, one table and one picture."""

import os
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim._checks import brief, did_you_mean
from asyncsim.cluster._simulation import Simulated
from asyncsim.components._address import paths_named, shorten
from asyncsim.components._checked import checked
from asyncsim.components._digest import hash_of
from asyncsim.components._field import Field, describe_changes
from asyncsim.engine import Progress
from asyncsim.files._atomic import require_folder
from asyncsim.plots._comparison import SIDE_SIZE, SIZE, Curve, draw_comparison, draw_side_by_side
from asyncsim.plots.style import keep_png
from asyncsim.scenario._rebuild import hints
from asyncsim.scenario._scenario import Scenario
from asyncsim.store import _labels as labels
from asyncsim.store._entry import WRITE_TIMEOUT, Folder, locked
from asyncsim.store._labels import Origin
from asyncsim.study._grid import require_scenarios
from asyncsim.study._result_files import Result, keep_summary
from asyncsim.study._run import keep_report, run
from asyncsim.study._store import open_store
from asyncsim.study._summary import loss_before_training
from asyncsim.study._work import obtain
from asyncsim.study.table import record_sweep, settings_of_sweep

MOST_NAMES = 8  # names that one line shows


@checked
@dataclass(frozen=True, eq=False, repr=False, init=False)
class Comparison:
    """Scenarios by name.

    Attributes:
        scenarios: Name -> scenario. Scenarios without names, such as `asyncsim.grid` gives, are named after the fields
            that tell them apart, as in "gem_5".
        title: The line above the picture.

    Raises:
        ValueError: If there are no scenarios, or a name cannot be that of a folder.

    Example:
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
        >>> one = asim.Scenario(cluster, asim.rules.GEM(0.1), asim.workloads.Quadratic([1.0]), commits_per_worker=10)
        >>> both = asim.Comparison({"gem": one, "downpour": one.override(rule="downpour")})
        >>> both
        Comparison(2 scenarios: gem, downpour)
        >>> both.override(learning_rate=0.2).scenarios["downpour"].rule.numbers
        {'learning_rate': 0.2}
        >>> Comparison(asim.grid(one, rule=["gem", "downpour"], workers=[2, 4]))
        Comparison(4 scenarios: gem_2, gem_4, downpour_2, downpour_4)
    """

    scenarios: Mapping[str, Scenario]
    title: str = "Comparison"

    def __init__(self, scenarios: Mapping[str, Scenario] | Iterable[Scenario], title: str = "Comparison") -> None:
        named = scenarios if isinstance(scenarios, Mapping) else named_by_fields(require_scenarios(scenarios))
        if not named:
            raise ValueError("`scenarios` must hold at least one scenario; got an empty mapping.")
        for name, scenario in named.items():
            if not isinstance(name, str) or name != Path(name).name or name.startswith("."):
                raise ValueError(f"`scenarios` must have names that are possible for a folder; got {brief(name)}.")
            if not isinstance(scenario, Scenario):
                raise ValueError(f"`scenarios` must be scenarios; {name!r} is a {type(scenario).__name__}.")
        object.__setattr__(self, "scenarios", dict(named))  # A frozen dataclass refuses plain assignments.
        object.__setattr__(self, "title", title)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Comparison) and (self.title, self.digest) == (other.title, other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        names = [*self.scenarios]
        ellipsis = ", …" if len(names) > MOST_NAMES else ""
        return f"Comparison({len(names)} scenarios: {', '.join(names[:MOST_NAMES])}{ellipsis})"

    @cached_property
    def digest(self) -> str:
        """Hash of all scenarios under their names."""
        return hash_of(self.describe())

    def current(self) -> "Comparison":
        """Return the comparison of scenarios with the present values that their code reaches."""
        return replace(self, scenarios={name: scenario.current() for name, scenario in self.scenarios.items()})

    def describe(self) -> dict[str, Any]:
        """Describe each scenario under its name."""
        return {"scenarios": {name: scenario.describe() for name, scenario in self.scenarios.items()}}

    def fields(self, **components: str) -> tuple[Field, ...]:
        """List what `override` takes: the fields of any scenario in whose values the scenarios do not differ.

        Names of other components are understood as by `Scenario.fields`.
        """
        paths, differing = self._settings(components)
        # What is recorded differs between rules by default, and may be set for all of them nevertheless.
        return tuple(field for path, field in paths.items() if path == "record" or path not in differing)

    def _settings(self, components: Mapping[str, str]) -> tuple[dict[str, Field], set[str]]:
        """Return path -> field, of all scenarios, and the paths in whose values they differ."""
        by_path: dict[str, list[Field]] = {}
        for scenario in self.scenarios.values():
            for path, field in scenario.settings(**components).items():
                by_path.setdefault(path, []).append(field)
        short = shorten({path: fields[0] for path, fields in by_path.items()})
        first = {path: replace(fields[0], name=short[path]) for path, fields in by_path.items()}
        return first, {path for path, fields in by_path.items() if any(f.value != fields[0].value for f in fields)}

    def override(self, **changes: Any) -> "Comparison":
        """Return the comparison with some fields changed in every scenario that has them.

        Raises:
            ValueError: If no scenario has such a field (the nearest is named), if the scenarios differ in it, because
                they compare it, or if a value does not fit.
        """
        paths, differing = self._settings({})
        for name in changes:
            meant = paths_named(name, paths)
            if not meant:
                names = [field.name for path, field in paths.items() if path not in differing]
                raise ValueError(f"`{name}` is not a field of these scenarios.{did_you_mean(name, names)}")
            if differing.issuperset(meant) and meant != ["record"]:
                raise ValueError(f"`{name}` is compared here. Run one scenario to change it.")
        changed = {}
        for name, scenario in self.scenarios.items():
            paths = scenario.settings()
            shared = {key: value for key, value in changes.items() if paths_named(key, paths)}
            changed[name] = scenario.override(**shared)
        return Comparison(changed, self.title)


def named_by_fields(scenarios: Sequence[Scenario]) -> dict[str, Scenario]:
    """Name scenarios by the values of the first fields that tell them apart, the number of workers last."""
    sweep = settings_of_sweep(scenarios)
    rows = [settings for _, settings in sweep.scenarios()]
    chosen: list[str] = []

    # Labels come first, because a person chose them, then what most comparisons are about.
    def early(path: str) -> tuple[bool, ...]:
        return path not in sweep.labels, path != "cluster.workers", path != "rule"

    for name in sorted(sweep.fields, key=early):
        if len({_name(row, [*chosen, name]) for row in rows}) > len({_name(row, chosen) for row in rows}):
            chosen.append(name)
    chosen.sort(key=lambda path: path == "cluster.workers")  # The picture reads the number of workers off the end.
    names = [_name(row, chosen) or "all" for row in rows]
    if len(set(names)) == len(names):
        return dict(zip(names, scenarios, strict=True))
    raise ValueError("`scenarios` must differ from each other; two of them are the same. Give them names.")


def _name(row: Mapping[str, Any], fields: Sequence[str]) -> str:
    return "_".join(str(row[name]) for name in fields if row[name] is not None)


@checked
def compare(
    comparison: Comparison,
    out: str | os.PathLike[str] | None = None,
    *,
    progress: Callable[[str, Progress], None] | None = None,
    simulating: Callable[[str, Simulated], None] | None = None,
    force: bool = False,
    origin: Origin | None = None,
) -> dict[str, Result]:
    """Run every scenario of a comparison, as `asyncsim.run` does.

    The folder `runs` is a store, as sweeps have them: existing runs are never recomputed, and any number of processes
    may make the same comparison in the same folder at once. Next to it are summary.json (name -> summary), report.png
    and, where the file system has symbolic links, each scenario's folder under its name.

    Args:
        comparison: The scenarios to run.
        out: Folder, created if missing. By default nothing is kept.
        progress: Called with the scenario's name and a `Progress(done, total, loss)` now and then.
        simulating: The same for the schedule, before it: called with a name and a `Simulated(commits, seconds, share)`.
        force: Start afresh and replace the folder's results once the new ones are complete.
        origin: Where the comparison came from, as in `asyncsim.run`.

    Returns:
        Name -> result.

    Raises:
        ValueError: If this machine does not have the memory, or the folder holds another comparison or a damaged file.
        OSError: If a file cannot be written. Existing files stay whole.
        ReplayInterrupted: On Ctrl-C. With a folder, the next call resumes from a checkpoint.
    """
    comparison = comparison.current()
    for scenario in comparison.scenarios.values():
        scenario.require_memory()  # No scenario begins if the last one will not fit.
    if out is None:
        return {
            name: run(
                scenario,
                progress=progress and partial(progress, name),
                simulating=simulating and partial(simulating, name),
            )
            for name, scenario in comparison.scenarios.items()
        }
    output = Folder(require_folder("out", out), labels.COMPARISON, (labels.SUMMARY, labels.REPORT), store=labels.RUNS)
    origin, before = origin or Origin(), labels.members_of(output.path)
    with output.lease(comparison, force, _origin_of(comparison, origin)) as folder:
        store = open_store(folder / labels.RUNS)
        if not store.sweeps():  # Another process, or an earlier call, may have written it.
            record_sweep(store, [*comparison.scenarios.values()])
        origins = {name: replace(origin, member=name).describe() for name in comparison.scenarios}
        results: dict[str, Result] = {}
        for name, result in obtain(
            comparison.scenarios, store, progress=progress, simulating=simulating, origins=origins
        ):
            keep_report(result, store.folder(result.require_scenario().digest) / labels.REPORT)
            results[name] = result
        results = {name: results[name] for name in comparison.scenarios}  # Results arrive in any order.
        with locked(folder.path, WRITE_TIMEOUT):  # Other processes may write the files of the same comparison.
            _write(folder, comparison, results)
    store = open_store(output / labels.RUNS)  # The store moves if the results were assembled in another folder.
    folders = {name: store.folder(scenario.digest) for name, scenario in comparison.scenarios.items()}
    _link_all(output.path, folders, {*before, *folders})
    return {name: replace(result, folder=folders[name]) for name, result in results.items()}


def _origin_of(comparison: Comparison, origin: Origin) -> dict[str, Any]:
    """Describe the origin of a comparison for its label."""
    rebuilt = {name: hints(scenario) for name, scenario in comparison.scenarios.items()}
    digests = {name: scenario.digest for name, scenario in comparison.scenarios.items()}
    return {**origin.describe(), "title": comparison.title, "rebuild": rebuilt, labels.MEMBERS: digests}


def _link_all(folder: Path, members: Mapping[str, Path], names: Collection[str]) -> None:
    """Link each scenario's folder under its name, for people. Links of these names that lead nowhere are removed."""
    for link in (folder / Path(name).name for name in names):
        if link.is_symlink() and link.readlink().parts[:-1] == (labels.RUNS,) and labels.label_of(link) is None:
            link.unlink()
    for name, member in members.items():
        link, target = folder / name, Path(os.path.relpath(member, folder))
        if not os.path.lexists(link):
            with suppress(OSError, NotImplementedError):  # Some file systems have no links, which only people need.
                link.symlink_to(target, target_is_directory=True)
        elif not (link.is_symlink() and link.readlink() == target):
            message = (
                f"{str(link)!r} was there before and stays; the results of {name!r} are in {str(folder / target)!r}."
            )
            warnings.warn(message, stacklevel=3)


def final_losses(results: Mapping[str, Result]) -> dict[str, list[tuple[int, float | None]]]:
    """Return line of the picture -> (workers, final training loss) of each of its scenarios."""
    losses: dict[str, list[tuple[int, float | None]]] = {}
    for name, result in results.items():
        workers = result.run.workers
        line = re.sub(rf"(?<=.)_0*{workers}$", "", name)  # The number of workers at the end is its place on the axis.
        losses.setdefault(line, []).append((workers, result.summary["final_loss"]))
    return losses


def subtitle(comparison: Comparison) -> str:
    """List the settings that scenarios have in common and that differ from the defaults, and say if lengths differ."""
    # A field that only some scenarios have says nothing about the comparison.
    everywhere = [{field.name for field in scenario.fields()} for scenario in comparison.scenarios.values()]
    common = set.intersection(*everywhere) - {"record", "workload"}
    shared = describe_changes(field for field in comparison.fields() if field.name in common)
    return "; ".join(filter(None, [shared, unequal_lengths(comparison.scenarios.values())]))


def unequal_lengths(scenarios: Iterable[Scenario]) -> str:
    """Remark that final losses are those of runs of different length, unless all are as long in some measure."""
    lengths = [(scenario.total, scenario.seconds, scenario.commits_per_worker) for scenario in scenarios]
    if any(len({*measure}) == 1 and None not in measure for measure in zip(*lengths, strict=True)):
        return ""
    words = [f"{seconds:g} s" if total is None else f"{total:,} commits" for total, seconds, _ in lengths]
    several = [*dict.fromkeys(words)]
    return f"lengths differ: {', '.join(several[:MOST_NAMES])}{', …' * (len(several) > MOST_NAMES)}"


def _write(folder: Folder, comparison: Comparison, results: Mapping[str, Result]) -> None:
    keep_summary(folder, {name: result.summary for name, result in results.items()}, comparison.digest)
    one_size = len({result.run.workers for result in results.values()}) == 1  # One number of workers is no axis.
    size = SIDE_SIZE if one_size else SIZE
    again = any(result.recomputed for result in results.values())

    def page(figure: Any) -> None:
        if one_size:
            curves = []
            for name, result in results.items():
                run, diverged = result.run, result.summary["diverged_at"] is not None
                seconds = result.trace.commit_time[: run.commits]
                curves.append(Curve(name, run.workers, run.loss, seconds, run.gradients, diverged))
            draw_side_by_side(figure, curves, comparison.title, subtitle(comparison))
        else:
            first = float(np.mean([loss_before_training(result.trace, result.run) for result in results.values()]))
            start = first if np.isfinite(first) else None
            draw_comparison(figure, final_losses(results), start, comparison.title, subtitle(comparison))

    keep_png(folder / labels.REPORT, page, size, comparison.digest, layout=comparison.title, again=again)
