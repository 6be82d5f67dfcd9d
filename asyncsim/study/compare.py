"""A comparison: several scenarios side by side, one table and one picture."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from asyncsim.checks import did_you_mean
from asyncsim.cluster.simulation import Simulated
from asyncsim.engine import Progress, Run
from asyncsim.files import read_json, require_folder, write_json
from asyncsim.folders.labels import COMPARISON as LABEL
from asyncsim.folders.labels import REPORT, SCENARIO, SUMMARY
from asyncsim.scenario import fingerprint
from asyncsim.scenario.fields import Field, settings
from asyncsim.scenario.rebuild import hints
from asyncsim.scenario.scenario import Scenario
from asyncsim.study.keep import Folder, is_picture_of, owner_of
from asyncsim.study.origin import Origin
from asyncsim.study.run import FILES, Result, run
from asyncsim.trace import Trace

LISTED = 8  # names in one line


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Scenarios by name.

    Attributes:
        scenarios: Name -> scenario; each one's results are kept in a sub-folder of its name.
        title: The line above the picture.

    Raises:
        ValueError: If there are no scenarios, or a name cannot be that of a folder.

    Example:
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
        >>> one = asim.Scenario(cluster, asim.rules.gem(0.1), asim.workloads.quadratic([1.0]), commits_per_worker=10)
        >>> both = asim.Comparison({"gem": one, "downpour": one.override(rule="downpour")})
        >>> both
        Comparison(2 scenarios: gem, downpour)
        >>> both.override(learning_rate=0.2).scenarios["downpour"].rule.hyper
        {'learning_rate': 0.2}
    """

    scenarios: Mapping[str, Scenario]
    title: str = "Comparison"

    def __post_init__(self) -> None:
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


def compare(
    comparison: Comparison,
    out: str | os.PathLike[str] | None = None,
    *,
    progress: Callable[[str, Progress], None] | None = None,
    simulating: Callable[[str, Simulated], None] | None = None,
    force: bool = False,
    origin: Origin | None = None,
) -> dict[str, Result]:
    """Run every scenario of a comparison, as `asyncsim.run` does, each in a sub-folder of its name.

    Args:
        comparison: What to run.
        out: Folder; summary.json (name -> summary) and report.png are written beside the sub-folders. By default
            nothing is kept.
        progress: Called with the scenario's name and a `Progress(done, total, loss)` now and then.
        simulating: The same for the schedule, before it: called with a name and a `Simulated(commits, seconds, share)`.
        force: Start afresh and replace the folder's results once the new ones are complete.
        origin: Where the comparison came from, as in `asyncsim.run`.

    Returns:
        Name -> result.

    Raises:
        As `asyncsim.run` does.
    """
    for scenario in comparison.scenarios.values():
        scenario.require_memory()  # of the last one before the first one begins
    if out is None:
        return _run_all(comparison, None, progress, simulating, force, Origin())
    place = Folder(require_folder("out", out), LABEL, (SUMMARY, REPORT))
    origin = origin or Origin()
    written = {name: hints(scenario) for name, scenario in comparison.scenarios.items()}
    told = {**origin.describe(), "title": comparison.title, "rebuild": written}
    with place.claim(comparison, force, told) as folder:
        results = _run_all(comparison, folder, progress, simulating, force, origin)
        _write(folder, comparison, results)
        for name in results:
            Folder(place / name, SCENARIO, FILES).take(Folder(folder / name, SCENARIO, FILES))
    return {name: replace(result, folder=place / name) for name, result in results.items()}


def _run_all(
    comparison: Comparison,
    folder: Folder | None,
    progress: Callable[[str, Progress], None] | None,
    simulating: Callable[[str, Simulated], None] | None,
    force: bool,
    origin: Origin,
) -> dict[str, Result]:
    results = {}
    for name, scenario in comparison.scenarios.items():
        results[name] = run(
            scenario,
            folder and folder / name,
            progress=None if progress is None else partial(progress, name),
            simulating=None if simulating is None else partial(simulating, name),
            force=force,
            origin=origin.of_member(name),
        )
    return results


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


def loss_before_training(trace: Trace, run: Run) -> float:
    """Mean loss of the workers' first gradients, all of which are taken at the initial central variable."""
    return float(run.loss[np.unique(trace.worker[: run.commits], return_index=True)[1]].mean())


def subtitle(comparison: Comparison) -> str:
    """The settings that the scenarios have in common and that differ from the defaults."""
    everywhere = [{field.name for field in scenario.fields()} for scenario in comparison.scenarios.values()]
    common = set.intersection(*everywhere) - {"record", "workload"}
    return settings(field for field in comparison.fields() if field.name in common)


def _write(folder: Folder, comparison: Comparison, results: Mapping[str, Result]) -> None:
    recomputed = any(result.recomputed for result in results.values())
    summary = {name: result.summary for name, result in results.items()}
    if recomputed or read_json(folder / SUMMARY) != summary:
        write_json(folder / SUMMARY, summary)
    if recomputed or not is_picture_of(comparison, folder / REPORT):
        from asyncsim.plots.comparison import SIZE, draw_comparison
        from asyncsim.plots.style import save_png

        start = float(np.mean([loss_before_training(result.trace, result.run) for result in results.values()]))
        losses = final_losses(results)
        words, owner = (comparison.title, subtitle(comparison)), owner_of(comparison)
        save_png(folder / REPORT, lambda figure: draw_comparison(figure, losses, start, *words), SIZE, owner)


def _alike(fields: list[Field]) -> bool:
    """Whether a field may be overridden: a field in which the scenarios differ is what they compare."""
    return fields[0].name == "record" or all(field.value == fields[0].value for field in fields)
