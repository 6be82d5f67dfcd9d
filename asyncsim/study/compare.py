"""A comparison: several scenarios side by side, one table and one picture."""

import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim.checks import did_you_mean
from asyncsim.cluster.simulation import Simulated
from asyncsim.engine import Progress
from asyncsim.files import read_owned, require_folder, write_owned
from asyncsim.folders.labels import COMPARISON as LABEL
from asyncsim.folders.labels import MEMBERS, REPORT, RUNS, SUMMARY, label_of
from asyncsim.plots import side_by_side
from asyncsim.plots.side_by_side import Curve
from asyncsim.scenario import fingerprint
from asyncsim.scenario.fields import Field, settings
from asyncsim.scenario.rebuild import hints
from asyncsim.scenario.scenario import Scenario
from asyncsim.study.keep import PATIENCE_OF_MANY, Folder, is_picture_of, locked, owner_of
from asyncsim.study.origin import Origin
from asyncsim.study.patience import Patience, holders_of
from asyncsim.study.run import Result, keep_report, run
from asyncsim.study.store import open_store
from asyncsim.study.summary import loss_before_training
from asyncsim.study.sweep_table import asked_for, remember
from asyncsim.study.work import PATIENCE, try_to_obtain

LISTED = 8  # names in one line


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
        >>> one = asim.Scenario(cluster, asim.rules.GEM(0.1), asim.workloads.quadratic([1.0]), commits_per_worker=10)
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
        named = scenarios if isinstance(scenarios, Mapping) else named_by_fields(tuple(scenarios))
        object.__setattr__(self, "scenarios", named)
        object.__setattr__(self, "title", title)
        self._check()

    def _check(self) -> None:
        if not self.scenarios:
            raise ValueError("`scenarios` must hold at least one scenario; got an empty mapping.")
        for name, scenario in self.scenarios.items():
            if not isinstance(name, str) or name != Path(name).name or name.startswith("."):
                raise ValueError(f"`scenarios` must have names that are possible for a folder; got {name!r}.")
            if not isinstance(scenario, Scenario):
                raise ValueError(f"`scenarios` must be scenarios; {name!r} is a {type(scenario).__name__}.")

    def __repr__(self) -> str:
        names = [*self.scenarios]
        more = ", …" if len(names) > LISTED else ""
        return f"Comparison({len(names)} scenarios: {', '.join(names[:LISTED])}{more})"

    @cached_property
    def digest(self) -> str:
        """Hash of all scenarios under their names."""
        return fingerprint.digest(self.describe())

    def describe(self) -> dict[str, Any]:
        """Name -> description of the scenario."""
        return {"scenarios": {name: scenario.describe() for name, scenario in self.scenarios.items()}}

    def fields(self, **components: str) -> tuple[Field, ...]:
        """Everything that `override` takes: the fields of any scenario in whose values the scenarios do not differ.

        Names of other components are understood as by `Scenario.fields`.
        """
        found: dict[str, list[Field]] = {}
        for scenario in self.scenarios.values():
            for field in scenario.fields(**components):
                found.setdefault(field.name, []).append(field)
        return tuple(fields[0] for fields in found.values() if _alike(fields))

    def override(self, **changes: Any) -> "Comparison":
        """The comparison with some fields changed in every scenario that has them.

        Raises:
            ValueError: If no scenario has such a field (the nearest is named), if the scenarios differ in it, because
                it is what they compare, or if a value does not fit.
        """
        has = {n: {field.name for field in scenario.fields()} for n, scenario in self.scenarios.items()}
        allowed = {field.name for field in self.fields()}
        for name in changes.keys() - allowed:
            if any(name in names for names in has.values()):
                raise ValueError(f"`{name}` is what is compared here; run one scenario to change it.")
            raise ValueError(f"`{name}` is not a field of these scenarios.{did_you_mean(name, allowed)}")
        changed = {
            name: scenario.override(**{key: value for key, value in changes.items() if key in has[name]})
            for name, scenario in self.scenarios.items()
        }
        return Comparison(changed, self.title)


def named_by_fields(scenarios: Sequence[Scenario]) -> dict[str, Scenario]:
    """Scenarios by the values of the first fields that tell them apart, the number of workers last.

    Raises:
        ValueError: If two of them are the same.
    """
    for one in scenarios:
        if not isinstance(one, Scenario):
            raise ValueError(f"`scenarios` must be scenarios; got {type(one).__name__}.")
    asked = asked_for(scenarios) if scenarios else {"fields": [], "rows": []}
    rows = [dict(zip(asked["fields"], row[1:], strict=True)) for row in asked["rows"]]
    chosen: list[str] = []
    for name in sorted(asked["fields"], key=lambda name: (name != "workers", name != "rule")):
        if len({_name(row, [*chosen, name]) for row in rows}) > len({_name(row, chosen) for row in rows}):
            chosen.append(name)
    chosen.sort(key=lambda name: name == "workers")
    names = [_name(row, chosen) or "all" for row in rows]
    if len(set(names)) == len(names):
        return dict(zip(names, scenarios, strict=True))
    raise ValueError("`scenarios` must differ from each other; two of them are the same. Give them names.")


def _name(row: Mapping[str, Any], fields: Sequence[str]) -> str:
    return "_".join(str(row[name]) for name in fields if row[name] is not None)


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

    The folder `runs` is a store, as sweeps have them: a run that is there is never computed again, and any number of
    processes may make the same comparison in the same folder at once. Beside it are summary.json (name -> summary),
    report.png and, where the file system has symbolic links, each scenario's folder under its name.

    Args:
        comparison: What to run.
        out: Folder; created if missing. By default nothing is kept.
        progress: Called with the scenario's name and a `Progress(done, total, loss)` now and then.
        simulating: The same for the schedule, before it: called with a name and a `Simulated(commits, seconds, share)`.
        force: Start afresh and replace the folder's results once the new ones are complete.
        origin: Where the comparison came from, as in `asyncsim.run`.

    Returns:
        Name -> result.

    Raises:
        As `asyncsim.run` does.
    """
    comparison = replace(comparison, scenarios={name: one.current() for name, one in comparison.scenarios.items()})
    for scenario in comparison.scenarios.values():
        scenario.require_memory()  # of the last one before the first one begins
    if out is None:
        return {
            name: run(scenario, progress=_named(progress, name), simulating=_named(simulating, name))
            for name, scenario in comparison.scenarios.items()
        }
    place = Folder(require_folder("out", out), LABEL, (SUMMARY, REPORT), store=RUNS)
    origin = origin or Origin()
    with place.claim(comparison, force, _told(comparison, origin)) as folder:
        store = open_store(folder / RUNS)
        if not store.sweeps():
            remember(store, [*comparison.scenarios.values()])
        results: dict[str, Result] = {}
        patience = Patience()
        while left := [name for name in comparison.scenarios if name not in results]:
            done = len(results)
            for name in left:
                result = try_to_obtain(
                    comparison.scenarios[name],
                    store,
                    progress=_named(progress, name),
                    simulating=_named(simulating, name),
                    origin=origin.of_member(name).describe(),
                )
                if result is not None:  # else another process computes it, and this one goes on with the next
                    keep_report(result)
                    results[name] = result
            if len(results) == done:
                time.sleep(PATIENCE)
                waited_for = [comparison.scenarios[name].digest for name in left]
                patience.wait(lambda digests=waited_for: holders_of(store, digests))
            else:
                patience.end()
        results = {name: results[name] for name in comparison.scenarios}
        with locked(folder.path, PATIENCE_OF_MANY):
            _write(folder, comparison, results)
    store = open_store(place / RUNS)
    _link_all(place.path, {name: store.folder(scenario.digest) for name, scenario in comparison.scenarios.items()})
    return {name: replace(result, folder=store.folder(result.scenario.digest)) for name, result in results.items()}


def _named(report: Callable[[str, Any], None] | None, name: str) -> Callable[[Any], None] | None:
    return None if report is None else partial(report, name)


def _told(comparison: Comparison, origin: Origin) -> dict[str, Any]:
    """What the label says beside the description."""
    rebuilt = {name: hints(scenario) for name, scenario in comparison.scenarios.items()}
    digests = {name: scenario.digest for name, scenario in comparison.scenarios.items()}
    return {**origin.describe(), "title": comparison.title, "rebuild": rebuilt, MEMBERS: digests}


def _link_all(folder: Path, members: Mapping[str, Path]) -> None:
    """Each scenario's folder under its name, for people; the comparison's label says as much.

    Nothing that is there is replaced or removed, but links of an earlier call whose runs are gone.
    """
    for place in folder.iterdir():
        if place.is_symlink() and place.readlink().parts[:-1] == (RUNS,) and label_of(place) is None:
            place.unlink()
    for name, member in members.items():
        place, target = folder / name, Path(os.path.relpath(member, folder))
        if not os.path.lexists(place):
            with suppress(OSError, NotImplementedError):  # a file system without links
                place.symlink_to(target, target_is_directory=True)
        elif not (place.is_symlink() and place.readlink() == target):
            message = (
                f"{str(place)!r} was there before and stays; the results of {name!r} are in {str(folder / target)!r}."
            )
            warnings.warn(message, stacklevel=3)


def final_losses(results: Mapping[str, Result]) -> dict[str, list[tuple[int, float | None]]]:
    """Line of the picture -> (workers, final training loss) of each of its scenarios.

    "gem_5" and "gem_10", with 5 and 10 workers, are one line, "gem"; a name without such an ending is its own line.
    """
    losses: dict[str, list[tuple[int, float | None]]] = {}
    for name, result in results.items():
        workers = result.scenario.cluster.workers
        losses.setdefault(line_of(name, workers), []).append((workers, result.summary["final_loss"]))
    return losses


def line_of(name: str, workers: int) -> str:
    """A scenario's name without the number of its workers at the end.

    Example:
        >>> line_of("gem_kappa_2_20", 20), line_of("gem_kappa_2", 20)
        ('gem_kappa_2', 'gem_kappa_2')
    """
    return re.sub(rf"(?<=.)_0*{workers}$", "", name)


def subtitle(comparison: Comparison) -> str:
    """The settings that the scenarios have in common and that differ from the defaults."""
    everywhere = [{field.name for field in scenario.fields()} for scenario in comparison.scenarios.values()]
    common = set.intersection(*everywhere) - {"record", "workload"}
    return settings(field for field in comparison.fields() if field.name in common)


def _write(folder: Folder, comparison: Comparison, results: Mapping[str, Result]) -> None:
    recomputed = any(result.recomputed for result in results.values())
    summary = {name: result.summary for name, result in results.items()}
    if recomputed or read_owned(folder / SUMMARY, comparison.digest) != summary:
        write_owned(folder / SUMMARY, summary, comparison.digest)
    if recomputed or not is_picture_of(comparison, folder / REPORT):
        from asyncsim.plots.comparison import SIZE, draw_comparison
        from asyncsim.plots.style import save_png

        words, owner = (comparison.title, subtitle(comparison)), owner_of(comparison)
        if len({result.scenario.cluster.workers for result in results.values()}) == 1:  # nothing to draw against n
            curves = [_curve(name, result) for name, result in results.items()]
            page = side_by_side.draw_side_by_side
            save_png(folder / REPORT, lambda figure: page(figure, curves, *words), side_by_side.SIZE, owner)
            return
        first = float(np.mean([loss_before_training(result.trace, result.run) for result in results.values()]))
        start = first if np.isfinite(first) else None
        losses = final_losses(results)
        save_png(folder / REPORT, lambda figure: draw_comparison(figure, losses, start, *words), SIZE, owner)


def _curve(name: str, result: Result) -> Curve:
    run = result.run
    return Curve(
        name, run.workers, run.loss, result.trace.commit_time[: run.commits], result.summary["diverged_at"] is not None
    )


def _alike(fields: list[Field]) -> bool:
    """Whether a field may be overridden: a field in which the scenarios differ is what they compare."""
    return fields[0].name == "record" or all(field.value == fields[0].value for field in fields)
