"""`asyncsim staleness --cluster rollouts` and `--cluster pipeline`: measured numbers, with the predictions for each."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import click
import numpy as np

from asyncsim._fields import Field, settings
from asyncsim._metrics import number
from asyncsim.cli._output import print_table
from asyncsim.cluster import Pipeline, Rollouts, simulate
from asyncsim.delays import Constant, LogNormal
from asyncsim.plots import draw_shares, draw_timeline, draw_timetable, draw_title
from asyncsim.plots._page import draw_legend_below
from asyncsim.reports import _pipeline as pipelines
from asyncsim.reports import rollouts as systems
from asyncsim.reports.rollouts import Prediction
from asyncsim.scenario._clusters import cluster_fields, rebuilt
from asyncsim.scenario._override import unknown_field

KIND = Field(
    "cluster",
    "text",
    "Kind of cluster: workers and a server, rollout engines and a trainer, or a pipeline of stages.",
    "Cluster",
    "cluster",
    ("cluster", "rollouts", "pipeline"),
    "cluster",
)
KINDS = {
    "rollouts": Rollouts(slots=96, group=4, batch=8, generate=LogNormal(mean=1.0, cv=1.0), train=Constant(0.25)),
    "pipeline": Pipeline(stages=4, forward=Constant(1.0)),
}
DRAWN = 10  # micro-batches in the picture of a pipeline
SIZE = (9.6, 4.4)  # inches
PERCENT = 0.1  # share of a run that is its warm-up


class Answer(NamedTuple):
    """Measured and predicted numbers of a cluster of another kind, and what is drawn of it."""

    cluster: Any
    measured: dict[str, Any]
    predicted: dict[str, list[Prediction]]
    shares: np.ndarray
    note: str
    seed: int

    @property
    def numbers(self) -> dict[str, Any]:
        """As JSON has them."""
        predicted = {name: [one._asdict() for one in found] for name, found in self.predicted.items()}
        return {"measured": self.measured, "predicted": predicted, "simulated": self.note, "seed": self.seed}


def fields_of_kind(kind: str) -> list[Field]:
    """The flags of a kind of cluster, with usual values."""
    return [KIND, *cluster_fields(KINDS[kind])]


def answer(kind: str, changes: Mapping[str, Any], commits: int, seed: int) -> Answer:
    """Simulate the usual cluster of a kind with some fields changed, and compare it with what theory knows."""
    rest = dict(changes)
    cluster = rebuilt(KINDS[kind], rest)
    for name in rest:
        raise ValueError(unknown_field(name, (), [field.name for field in fields_of_kind(kind)]))
    return _of_rollouts(cluster, commits, seed) if kind == "rollouts" else _of_pipeline(cluster, commits, seed)


def _of_rollouts(rollouts: Rollouts, commits: int, seed: int) -> Answer:
    ledger, warm_up = systems.simulated(rollouts, max(2, commits // rollouts.batch), seed)
    trained = ledger.trained_version >= warm_up
    staleness = (ledger.trained_version - ledger.read_version)[trained]
    note = f"{len(ledger.steps.update):,} steps, of which the first {warm_up:,} do not count"
    shares = np.bincount(staleness) / len(staleness)
    return Answer(rollouts, ledger.summary(warm_up=warm_up), systems.predictions(rollouts), shares, note, seed)


def _of_pipeline(pipeline: Pipeline, commits: int, seed: int) -> Answer:
    trace, warm_up = simulate(pipeline, commits=commits, seed=seed), int(PERCENT * commits)
    found = pipelines.measured(pipeline, trace, pipeline.timetable(commits, seed), warm_up)
    note = f"{commits:,} micro-batches, of which the first {warm_up:,} do not count"
    staleness = (trace.group_staleness if trace.groups else trace.staleness)[warm_up:].ravel()
    return Answer(pipeline, found, pipelines.predictions(pipeline), np.bincount(staleness) / len(staleness), note, seed)


def print_answer(found: Answer) -> None:
    """A table of what theory predicts and what the simulation gave, and why."""
    rows = []
    for name, value in found.measured.items():
        known = found.predicted.get(name, [])
        said = ", ".join(f"{one.relation} {number(one.value)}" for one in known)
        rows.append((name.replace("_", " "), said, number(value), ", ".join(one.reason for one in known)))
    print_table(("", "predicted", "simulated", "by"), rows, flush=(0, 3), folded=(3,))
    click.echo(f"\nSimulated: {found.note}")


def draw_answer(found: Answer, figure: Any) -> None:
    """The distribution of staleness, and the first seconds."""
    left, right = figure.subplots(1, 2)
    draw_shares(left, found.shares)
    if isinstance(found.cluster, Pipeline):
        left.set(xlabel="staleness of a stage, in its updates", ylabel="share of stages and micro-batches")
        draw_legend_below(right, draw_timetable(right, found.cluster.timetable(DRAWN, found.seed)))
        title = f"Staleness of a pipeline of {found.cluster.stages} stages"
    else:
        left.set(xlabel="staleness of a trained sample, in versions", ylabel="share of trained samples")
        steps = 12 * found.cluster.batch
        draw_timeline(right, simulate(found.cluster, commits=steps, seed=found.seed))
        right.set_ylabel("group under way")
        title = f"Staleness of rollouts on {found.cluster.slots} slots"
    left.set_title("All stages" if isinstance(found.cluster, Pipeline) else "Trained samples")
    right.set_title("The first seconds")
    draw_title(figure, title, settings(cluster_fields(found.cluster)))


def shown(kind: str, given: dict[str, Any], commits: int, seed: int) -> tuple[Any, ...]:
    """Numbers, printing and drawing, as `cli.theory.Shown` has them."""
    found = answer(kind, given, commits, seed)
    return found.numbers, partial(print_answer, found), partial(draw_answer, found), SIZE
