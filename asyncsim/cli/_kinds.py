"""`asyncsim staleness` and `stability` with `--cluster rollouts`, `areal`, … or `pipeline`: predicted and measured."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

import click
import numpy as np

from asyncsim._fields import Field, settings
from asyncsim._metrics import number
from asyncsim._parts import fields_of, refuse_unknown
from asyncsim.cli._output import print_table
from asyncsim.cluster import Pipeline, Rollouts, rollouts, simulate
from asyncsim.delays import Constant, LogNormal
from asyncsim.plots._systems import SYSTEM_SIZE, draw_rollouts_stability, draw_system_page
from asyncsim.reports import rollouts as systems
from asyncsim.scenario._parts import cluster_fields, cluster_part
from asyncsim.workloads import Bits


def preset_of(name: str, given: Mapping[str, Any]) -> Rollouts:
    """The usual engines in the words of a library, with some of its arguments."""
    own = {**PRESETS[name], **given}
    system = {field: getattr(ENGINES, field) for field in ("slots", "group", "batch", "generate", "train")}
    return cast(Rollouts, getattr(rollouts, name)(**{**system, **own}))


ENGINES = Rollouts(slots=96, group=4, batch=8, generate=LogNormal(mean=1.0, cv=1.0), train=Constant(0.25))
PRESETS: dict[str, dict[str, Any]] = {  # usual arguments of the functions in `asyncsim.rollouts`
    "areal": {"max_head_offpolicyness": 4.0},
    "nemo_rl": {"sampling": "in_order", "max_trajectory_age_steps": 1},
    "prime_rl": {"max_off_policy_steps": 8, "target_lag": 1.0},
    "queue": {"batches": 2, "batch": ENGINES.batch},
    "skyrl": {"max_staleness_steps": 4.0},
    "tinker": {"max_steps_off_policy": 4},
    "torchtitan": {"target_off_policy_steps": 2.0, "window": 16},
    "verl": {"staleness_threshold": 0.5, "trigger_parameter_sync_step": 4, "partial_rollout": True},
}
KINDS = {
    "rollouts": ENGINES,
    **{name: preset_of(name, {}) for name in PRESETS},
    "pipeline": Pipeline(stages=4, forward=Constant(1.0)),
}
HELP = "Kind of cluster: workers and a server, rollout engines and a trainer (also in the words of a library)"
KIND, KIND_OF_STABILITY = (
    Field("cluster", "text", f"{HELP}{last}.", "Cluster", "cluster", ("cluster", *kinds), "cluster")
    for last, kinds in ((", or a pipeline of stages", KINDS), ("", ("rollouts", *PRESETS)))
)
BITS = (
    Field("least", "integer", "Ones that the workload `bits` rewards.", "Workload", 6),
    Field("bits", "integer", "Bits of a sequence.", "Workload", 8),
    Field("penalty", "number", "Weight β of the divergence from uniform bits, positive.", "Workload", 0.1),
)
RUNS = (
    Field("steps", "integer", "Steps of each run.", "Study", 400),
    Field("seeds", "integer", "Number of schedules.", "Study", 4),
)
DRAWN = 10  # micro-batches in the picture of a pipeline
THEORY = {
    True: "the limit 2·sin(π/(2(2τ + 1))) is exact, because all groups have the same staleness τ.",
    False: "the limit 2·sin(π/(2(2τ + 1))) would be exact if all groups had the staleness τ. With the measured spread, "
    "it is approximately that of independent staleness with these shares.",
}
OTHER_WORKLOADS = (
    "Another workload, whose loss does not correct for stale data, has the same limit of step size × curvature: divide "
    "it by the largest curvature of the loss."
)
PERCENT = 0.1  # share of a run that is its warm-up


class Shown(NamedTuple):
    """A report as JSON, as a table on standard output, and as a picture of `size` inches."""

    numbers: dict[str, Any]
    print: Callable[[], None]
    draw: Callable[[Any], object]
    size: tuple[float, float]


def fields_of_kind(kind: str) -> list[Field]:
    """The flags of a kind of cluster, with usual values. A library has its own, and those that they do not decide."""
    found = cluster_part(KINDS[kind]).fields({})
    if kind in PRESETS:
        words = fields_of(getattr(rollouts, kind), "Cluster", PRESETS[kind])
        own = [field for field in words if field.name in PRESETS[kind]]
        usual = {field.name: field.value for field in cluster_part(ENGINES).fields({})}
        found = [*own, *(f for f in found if f.name not in PRESETS[kind] and f.value == usual[f.name])]
    return [KIND, *found]


def cluster_of_kind(kind: str, given: Mapping[str, Any]) -> Any:
    """The usual cluster of a kind with some fields changed."""
    changes, known = dict(given), [field.name for field in fields_of_kind(kind)]
    for name in changes:
        if name not in known:
            refuse_unknown(name, (), known, "a field of this scenario")
    own = {name: changes.pop(name) for name in PRESETS.get(kind, ()) if name in changes}
    return cluster_part(preset_of(kind, own) if own else KINDS[kind]).rebuild(changes)


def shown(kind: str, given: dict[str, Any], commits: int, seed: int) -> Shown:
    """The staleness of the usual cluster of a kind with some fields changed, simulated and predicted."""
    cluster = cluster_of_kind(kind, given)
    found: Callable[..., Any] = _of_pipeline if isinstance(cluster, Pipeline) else _of_rollouts
    measured, known, staleness, note, draw = found(cluster, commits, seed)
    predicted = {name: [one._asdict() for one in several] for name, several in known.items()}
    numbers = {"measured": measured, "predicted": predicted, "simulated": note, "seed": seed}
    shares, subtitle = np.bincount(staleness) / len(staleness), settings(cluster_part(cluster).fields({}))
    draw = partial(draw, shares=shares, subtitle=subtitle)
    return Shown(numbers, partial(print_answer, numbers), draw, SYSTEM_SIZE)


def _of_rollouts(engines: Rollouts, commits: int, seed: int) -> tuple[Any, ...]:
    """Measured and predicted numbers, the staleness of each trained group, what was simulated, and the picture."""
    ledger, warm_up = systems.simulated(engines, max(2, commits // engines.batch), seed)
    staleness = (ledger.trained_version - ledger.read_version)[ledger.trained_version >= warm_up]
    note = f"{len(ledger.steps.update):,} steps, of which the first {warm_up:,} do not count"
    measured = ledger.summary(warm_up=warm_up)
    first, title = simulate(engines, commits=12 * engines.batch, seed=seed), f"rollouts on {engines.slots} slots"
    draw = partial(draw_system_page, first=first, title=f"Staleness of {title}")
    return measured, systems.predictions(engines, measured), staleness, note, draw


def _of_pipeline(pipeline: Pipeline, commits: int, seed: int) -> tuple[Any, ...]:
    """The same of a pipeline, with the staleness of every stage in each micro-batch."""
    trace, warm_up = simulate(pipeline, commits=commits, seed=seed), int(PERCENT * commits)
    measured = systems.measured_of_pipeline(pipeline, trace, pipeline.timetable(commits, seed), warm_up)
    note = f"{commits:,} micro-batches, of which the first {warm_up:,} do not count"
    staleness = (trace.group_staleness if trace.groups else trace.staleness)[warm_up:].ravel()
    first, title = pipeline.timetable(DRAWN, seed), f"a pipeline of {pipeline.stages} stages"
    draw = partial(draw_system_page, first=first, title=f"Staleness of {title}")
    return measured, systems.predictions_of_pipeline(pipeline), staleness, note, draw


def print_answer(numbers: Mapping[str, Any]) -> None:
    """A table of predictions and simulated numbers, with the reasons."""
    rows = []
    for name, value in numbers["measured"].items():
        known = numbers["predicted"].get(name, [])
        said = ", ".join(f"{one['relation']} {number(one['value'])}" for one in known)
        rows.append((name.replace("_", " "), said, number(value), ", ".join(one["reason"] for one in known)))
    print_table(("", "predicted", "simulated", "by"), rows, flush=(0, 3), folded=(3,))
    click.echo(f"\nSimulated: {numbers['simulated']}")


def every_field(fields_of: Callable[[str], list[Field]], kinds: Iterable[str]) -> Iterable[Field]:
    """The flags of these kinds of clusters, without values for those that a `Cluster` has."""
    found = {field.name: field for kind in kinds for field in fields_of(kind)}
    return (found | {field.name: field for field in cluster_fields()}).values()


def stability_fields_of_kind(kind: str) -> list[Field]:
    """The flags of `asyncsim stability` for rollouts."""
    return [KIND_OF_STABILITY, *fields_of_kind(kind)[1:], *BITS, *RUNS]


def stability_shown(kind: str, given: dict[str, Any]) -> Shown:
    """The largest stable step size of stale policy gradients."""
    problem = {field.name: given.pop(field.name, field.value) for field in BITS}
    runs = {field.name: given.pop(field.name, field.value) for field in RUNS}
    report = systems.rollouts_stability(cluster_of_kind(kind, given), Bits(**problem), **runs)
    draw = partial(draw_rollouts_stability, report=report)
    return Shown(report, partial(print_stability, report), draw, SYSTEM_SIZE)


def print_stability(report: Mapping[str, Any]) -> None:
    """The limits of η·h and of the step size, and how they apply to other workloads."""
    predicted, measured, curvature = report["predicted"], report["measured"], report["curvature"]
    limit = measured["learning_rate"]
    rows = [
        ("mean staleness", number(predicted["staleness"]), number(report["staleness"]["mean"])),
        ("limit of step size × curvature", number(predicted["kappa"]), number(limit * curvature)),
        ("limit of the step size", number(predicted["learning_rate"]), f"{number(limit)} ± {measured['error']:.2g}"),
        ("  with the measured spread", number(predicted["mixture"]), ""),
    ]
    print_table(("", "predicted", "simulated"), rows)
    click.echo(f"\nThe curvature of bits is {number(curvature)}. Theory: {THEORY[report['same']]}")
    click.echo(OTHER_WORKLOADS)
