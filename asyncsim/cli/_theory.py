"""`asyncsim staleness` and `asyncsim stability`: predictions of theory next to a simulation.

Of workers and a server, or with `--cluster gossip`, `hierarchy`, `rollouts`, `areal`, … or `pipeline` of another kind.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple, cast

import click
import numpy as np

from asyncsim._checks import brief, did_you_mean, require_count, require_not_negative, require_positive
from asyncsim._metrics import counted, number, percent, spaced
from asyncsim.cli._answer import Answer, answer_options
from asyncsim.cli._command import wrong_usage
from asyncsim.cli._options import FieldCommand, flag_of
from asyncsim.cli._output import json_option, print_results, print_table
from asyncsim.cli._progress import StageBar
from asyncsim.cluster import Cluster, Gossip, Hierarchy, Network, Pipeline, Rollouts, rollouts, simulate
from asyncsim.cluster.rollouts._presets import DECIDED
from asyncsim.components._field import Field, describe_changes
from asyncsim.components._settings import every_setting, settings_of_class
from asyncsim.delays import Constant, Exponential, Gamma, LogNormal, fleet
from asyncsim.delays._per_worker import distinct
from asyncsim.engine import use_all_cores
from asyncsim.files._json import write_json
from asyncsim.plots._stability import MAP_SIZE, draw_rollouts_stability, draw_stability_page
from asyncsim.plots._staleness import PAGE_SIZES, SYSTEM_SIZE, draw_staleness_page, draw_system_page
from asyncsim.plots.style import save_png
from asyncsim.reports import rollouts as systems
from asyncsim.reports.gossip import consensus_report
from asyncsim.reports.hierarchy import commits_since_read, measured_of_hierarchy, predictions_of_hierarchy
from asyncsim.reports.outer import OUTER, OuterQuestion, outer_map, outer_report
from asyncsim.reports.stability import Progress, Question, limits_map, stability_report
from asyncsim.reports.staleness import StalenessReport, predicted_worker_means, staleness_report
from asyncsim.scenario._tree import changed_cluster, cluster_settings
from asyncsim.theory._parameters import WHERE, momentum_and_place
from asyncsim.workloads import Bits


class Report(NamedTuple):
    """A report in three forms: numbers for JSON, a table on standard output, and a picture of `size` inches."""

    numbers: dict[str, Any]
    print: Callable[[], None]
    draw: Callable[[Any], object]
    size: tuple[float, float]


def report_command(
    name: str,
    help: str,
    fields: Callable[..., list[Field]],
    answer: Callable[[dict[str, Any], Callable[[str, float], None]], Report],
) -> FieldCommand:
    """Return the command that answers a question about a cluster. A ValueError becomes wrong usage."""

    def callback(out: str | None, as_json: bool, force: bool, **flags: Any) -> None:
        use_all_cores()
        changed = {field: value for field, value in flags.items() if value is not None}
        with StageBar() as bar:
            with wrong_usage():
                # A law or a protocol that a flag names has defaults of its own, so the flags are listed again for
                # these choices.
                named = {
                    field.name: changed[field.name]
                    for field in fields()
                    if field.choices and field.name in changed and field.group == "Cluster"
                }
                usual = {field.name: field.value for field in fields(**named)}
                # A choice itself counts as changed only if it differs from the choice of the command without flags.
                before = usual | {field.name: field.value for field in fields() if field.name in named}
            owner = Answer(name, usual | changed)
            # Changes stand in the order of the help, so that one question always has one folder name.
            ordered = {field: changed[field] for field in (*usual, *changed) if field in changed}
            changes = {field: value for field, value in ordered.items() if value != before.get(field)}
            place = owner.place(out, changes, f"{name}.json", f"{name}.png")
            owner.require(place, force)
            with wrong_usage():
                report = answer(dict(changed), bar.update)
            with owner.lease(place, force) as folder:
                save_png(folder / f"{name}.png", report.draw, report.size)
                write_json(folder / f"{name}.json", report.numbers)
        print_results(report.numbers, as_json, report.print, f"Picture and numbers in {place.path}")

    def others() -> dict[str, Field]:
        """Return the flags of all kinds of clusters, without values for those that a `Cluster` has."""
        (kinds,) = (field.choices[1:] for field in fields() if field.name == KIND.name)
        settings_of_kinds = {field.name: field for kind in kinds for field in fields(cluster=kind)}
        return settings_of_kinds | every_setting(Cluster, "cluster.")

    return FieldCommand(
        name=name,
        fields=fields,
        others=others,
        options=[
            *answer_options(name, "the changed fields", "the picture and the numbers"),
            json_option("the numbers"),
        ],
        help=help,
        epilog="For the flags of another law or protocol, name it and ask for --help, as in `--compute pareto --help`.",
        callback=callback,
    )


def split(flags: Mapping[str, Any], fields: Iterable[Field]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values of some fields, the usual ones where a flag is missing, and all other flags."""
    values = {field.name: flags.get(field.name, field.value) for field in fields}
    return values, {name: value for name, value in flags.items() if name not in values}


def preset_of(name: str, changes: Mapping[str, Any]) -> Rollouts:
    """Return the usual engines in the words of a library, with some of its arguments."""
    arguments = {**PRESETS[name], **changes}
    system = {field: getattr(ENGINES, field) for field in ("slots", "group", "batch", "generate", "train")}
    return cast(Rollouts, getattr(rollouts, name)(**{**system, **arguments}))


# A cluster of rollout engines that the words of all libraries describe.
ENGINES = Rollouts(slots=96, group=4, batch=8, generate=LogNormal(mean=1.0, cv=1.0), train=Constant(0.25))
PRESETS: dict[str, dict[str, Any]] = {  # usual arguments of the functions in `asyncsim.rollouts`
    "areal": {"max_head_offpolicyness": 4.0},
    "blocking_queue": {"batches": 1},
    "nemo_rl": {"sampling": "in_order", "max_trajectory_age_steps": 1},
    "openrlhf": {"async_queue_size": 1, "partial_rollout_enable": False},
    "prime_rl": {"max_off_policy_steps": 8, "target_lag": 1.0},
    "queue": {"batches": 2, "batch": ENGINES.batch},
    "roll": {"async_generation_ratio": 1},
    "skyrl": {"max_staleness_steps": 4.0},
    "slime": {"num_steps_per_rollout": 1, "ahead": 1},
    "tinker": {"max_steps_off_policy": 4},
    "tinker_ahead": {"sampling_steps_ahead": 2.0},
    "torchtitan": {"target_off_policy_steps": 2.0, "window": 16},
    "trl": {"max_staleness": 4, "weight_sync_steps": 1},
    "verl": {"staleness_threshold": 0.5, "trigger_parameter_sync_step": 4, "partial_rollout": True},
}
# The usual cluster of each kind, whose numbers are the defaults of its flags.
KINDS = {
    "rollouts": ENGINES,
    **{name: preset_of(name, {}) for name in PRESETS},
    "pipeline": Pipeline(stages=4, forward=Constant(1.0)),
    "gossip": Gossip(workers=8, compute=Gamma(mean=1.0, cv=0.5), graph="ring"),
}
HIERARCHY = "hierarchy"  # a kind whose regions are equal, so that flags describe all of them
REGION = Cluster(workers=4, compute=Exponential(1.0))
REGIONS = Field("regions", "integer", "Number of regions, all of them with the workers below.", "Cluster", 4)
AROUND_REGIONS = Hierarchy([REGION], commits_per_push=8, network=Network(latency=Exponential(1.0)))
KIND_HELP = "Kind of cluster: workers and a server, rollout engines and a trainer (also in the words of a library)"
KIND, KIND_OF_STABILITY = (
    Field("cluster", "text", f"{KIND_HELP}{last}.", "Cluster", "cluster", ("cluster", *kinds), "cluster")
    for last, kinds in (
        (", a pipeline of stages, workers on a graph, or regions with servers of their own", (*KINDS, HIERARCHY)),
        ("", ("rollouts", *PRESETS)),
    )
)


def fields_of_kind(kind: str) -> list[Field]:
    """Return the flags of a kind of cluster, with usual values."""
    fields = [*cluster_settings(KINDS[kind]).values()]
    if kind not in PRESETS:
        return fields
    words = settings_of_class(getattr(rollouts, kind), PRESETS[kind]).values()
    words = [replace(field, group="Cluster") for field in words]
    usual = {field.name: field.value for field in cluster_settings(ENGINES).values()}
    # A library decides some of the general arguments, by its own or for all of them. The others stay flags.
    decided = {*PRESETS[kind], *DECIDED[kind]}
    named = [field for field in words if field.name in PRESETS[kind]]
    return [*named, *(f for f in fields if f.name not in decided and f.value == usual[f.name])]


def hierarchy_fields(**components: str) -> list[Field]:
    """Return the flags of regions and of the links between their servers and the global one."""
    regions = cluster_settings(REGION, **components)
    in_regions = [field for path, field in regions.items() if path.startswith(("cluster.workers", "cluster.compute"))]
    return [REGIONS, *in_regions, *cluster_settings(AROUND_REGIONS).values()]


def hierarchy_of(flags: Mapping[str, Any]) -> Hierarchy:
    """Return a hierarchy of equal regions that the flags ask for."""
    shape, flags = split(flags, [REGIONS])
    count = require_count("regions", shape["regions"], remedy="Give one region or more.")
    around = {field.name for field in cluster_settings(AROUND_REGIONS).values()}
    region = changed_cluster(REGION, {name: value for name, value in flags.items() if name not in around})
    outside = changed_cluster(AROUND_REGIONS, {name: value for name, value in flags.items() if name in around})
    return replace(outside, regions=[region] * count)


def cluster_of_kind(kind: str, flags: Mapping[str, Any]) -> Any:
    """Return the usual cluster of a kind with some fields changed."""
    if kind not in PRESETS:
        return changed_cluster(KINDS[kind], flags)
    names = [field.name for field in fields_of_kind(kind)]
    for name in flags:
        if name not in names:
            raise ValueError(f"`{name}` is not a field of this scenario.{did_you_mean(name, names)}")
    arguments = {name: value for name, value in flags.items() if name in PRESETS[kind]}
    changes = {name: value for name, value in flags.items() if name not in arguments}
    return changed_cluster(preset_of(kind, arguments) if arguments else KINDS[kind], changes)


STALENESS_HELP = """Predict how stale the gradients of a cluster are, and compare with a simulation.

Staleness counts the server's versions from a worker's read to its commit. For example:

\b
  asyncsim staleness --workers 40 --compute exponential --service 0.02

Of workers on a graph (gossip), it counts the changes of a worker's own variable by others, and the report says how fast
the variables agree:

\b
  asyncsim staleness --cluster gossip --graph torus --exchange pair

Of regions with servers of their own (hierarchy), it counts commits in a region and pushes at the global server:

\b
  asyncsim staleness --cluster hierarchy --regions 4 --workers 8
"""
CLUSTER = Cluster(workers=20, compute=Gamma(mean=1.0, cv=0.3))
FLEET = (
    Field("service", "number", "Mean service time of a commit at the server, in seconds, exponential.", "Cluster", 0.0),
    Field("slow", "integer", "Number of slow workers.", "Cluster", 0),
    Field("slowness", "number", "Mean compute time of slow workers, as a multiple of the others'.", "Cluster", 2.0),
)
STUDY = (
    Field("commits", "integer", "Number of commits after the warm-up.", "Study", 100_000),
    Field("seed", "integer", "Seed of the simulation.", "Study", 0),
)
ROWS = {"mean": "mean", "sd": "standard deviation", "median": "median", "p99": "99 %"}
PICTURED_BATCHES = 10  # micro-batches in the picture of a pipeline
WARM_UP = 0.1  # share of a run of a pipeline that does not count


def staleness_fields(**components: str) -> list[Field]:
    """Return every flag but those of the output, with usual values, for these components."""
    if components.get(KIND.name) == HIERARCHY:
        return [KIND, *hierarchy_fields(**{name: v for name, v in components.items() if name != KIND.name}), *STUDY]
    if components.get(KIND.name) in KINDS:
        return [KIND, *fields_of_kind(components[KIND.name]), *STUDY]
    components = {name: value for name, value in components.items() if name != KIND.name}
    # The law of the service times has a flag of its own in FLEET: its mean alone.
    fields = [field for field in cluster_settings(CLUSTER, **components).values() if field.name != "service"]
    return [KIND, *fields, *FLEET, *STUDY]


def cluster_of(flags: Mapping[str, Any]) -> Cluster:
    """Return the cluster that the flags ask for: the usual one with some fields changed."""
    values, changes = split(flags, FLEET)
    mean = require_not_negative("service", values["service"], remedy="Give a mean in seconds.")
    cluster = changed_cluster(CLUSTER, {**changes, "service": Exponential(mean)} if mean else changes)
    if values["slow"]:
        workers, slowness = cluster.workers, values["slowness"]
        cluster = replace(cluster, compute=fleet.two_classes(cluster.compute, workers, values["slow"], slowness))
    return cluster


def staleness_of(flags: Mapping[str, Any], progress: Callable[[str, float], None]) -> Report:
    """Report the staleness of the cluster that the flags ask for."""
    del progress  # The simulation takes a second or two.
    study, flags = split(flags, STUDY)
    kind, flags = split(flags, [KIND])
    if kind[KIND.name] == "gossip":
        return staleness_of_gossip(cluster_of_kind("gossip", flags), **study)
    if kind[KIND.name] == HIERARCHY:
        return staleness_of_kind(hierarchy_of(flags), **study)
    if kind[KIND.name] in KINDS:
        return staleness_of_kind(cluster_of_kind(kind[KIND.name], flags), **study)
    report = staleness_report(cluster_of(flags), **study)
    shares = np.bincount(report.staleness) / len(report.staleness)
    title, subtitle = headline(report)
    draw: Any = partial(draw_staleness_page, shares=shares, predicted=report.pmf, title=title, subtitle=subtitle)
    # Workers of different laws have a staleness each, which gets a panel of its own.
    unequal = len(distinct(cast(Cluster, report.cluster).laws)) > 1
    if unequal:
        # Panels of single workers need the trace itself.
        draw = partial(draw, trace=report.trace, worker_means=predicted_worker_means(report.cluster))
    return Report(report.numbers, partial(print_staleness, report), draw, PAGE_SIZES[unequal])


def print_staleness(report: StalenessReport) -> None:
    """Print a table of predictions and simulation, and below it the assumptions."""
    numbers, theory = report.numbers, report.known
    predicted = numbers["predicted"] or {"mean": theory.mean}
    rows = [(label, number(predicted.get(key)), number(numbers["simulated"][key])) for key, label in ROWS.items()]
    print_table(("staleness", "predicted", "simulated"), rows)
    click.echo()
    if report.pmf is not None:
        chance = f"as many independent commits would give about {number(numbers['total_variation_by_chance'])}"
        click.echo(f"Total variation between the two: {number(numbers['total_variation'])}; {chance}")
    click.echo(f"Theory: {theory.reason}")
    warm_up = f"after a warm-up of {numbers['warm_up']:,}"
    if numbers["warm_up"] < numbers["warm_up_needed"]:
        warm_up += f", which is too short: the common start matters for some {numbers['warm_up_needed']:,}"
    click.echo(f"Simulated: {numbers['commits']:,} commits, {warm_up}")


def staleness_of_gossip(gossip: Gossip, commits: int, seed: int) -> Report:
    """Report the staleness of workers on a graph, how fast their variables agree, and the noise that remains."""
    report = staleness_report(gossip, commits, seed)
    consensus = consensus_report(gossip, seed=seed)
    predicted = {name: [each._asdict() for each in several] for name, several in consensus["predicted"].items()}
    numbers = {**report.numbers, "consensus": {"measured": consensus["measured"], "predicted": predicted}}
    what = "predicted and simulated" if report.pmf is not None else "simulated; no distribution is known"
    shares, settings = np.bincount(report.staleness) / len(report.staleness), cluster_settings(gossip).values()
    title = f"Staleness of {counted(gossip.workers, 'worker')} on a graph, {what}"
    page = {"title": title, "subtitle": describe_changes(settings), "trace": report.trace}
    means = predicted_worker_means(gossip)
    draw = partial(draw_staleness_page, shares=shares, predicted=report.pmf, worker_means=means, **page)

    def show() -> None:
        print_staleness(report)
        click.echo()
        print_predictions(numbers["consensus"])
        click.echo("\nOf one round, as many commits as workers, and of noise at η·h = 0.1 in units of η²s².")

    return Report(numbers, show, draw, PAGE_SIZES[True])


def headline(report: StalenessReport) -> tuple[str, str]:
    """Return title and subtitle: the cluster that was simulated."""
    cluster = cast(Cluster, report.cluster)
    fields = cluster_settings(replace(cluster, compute=cluster.laws[0]))
    parts = [describe_changes(field for path, field in fields.items() if path.startswith("cluster.compute"))]
    if len(distinct(cluster.laws)) > 1:
        parts[0] += ", and others for other workers"
    if cluster.protocol != CLUSTER.protocol:
        parts.append(describe_changes(field for path, field in fields.items() if path.startswith("cluster.protocol")))
    if not cluster.server.is_instant:
        parts.append(f"service, mean {cluster.server.service.mean:g}")
    what = "predicted and simulated" if report.pmf is not None else "simulated; no distribution is known"
    return f"Staleness of {counted(cluster.workers, 'worker')}, {what}", "; ".join(parts)


def staleness_of_kind(cluster: Rollouts | Pipeline | Hierarchy, commits: int, seed: int) -> Report:
    """Report the staleness of trained groups of rollouts, of a pipeline's stages, or of regions and their pushes."""
    predictions: Mapping[str, Any]
    first: Any
    if isinstance(cluster, Hierarchy):
        trace, warm_up = simulate(cluster, commits=commits, seed=seed), int(WARM_UP * commits)
        measured = measured_of_hierarchy(cluster, trace, warm_up)
        predictions = predictions_of_hierarchy(cluster)
        staleness = commits_since_read(trace)[warm_up:][trace.from_variable[warm_up:] < 0]
        length = f"{commits:,} commits and pushes"
        title = f"Staleness of {counted(cluster.workers, 'worker')} in {counted(len(cluster.regions), 'region')}"
        first = simulate(cluster, commits=12 * cluster.workers, seed=seed)
    elif isinstance(cluster, Pipeline):
        trace, warm_up = simulate(cluster, commits=commits, seed=seed), int(WARM_UP * commits)
        measured = systems.measured_of_pipeline(cluster, trace, cluster.timetable(commits, seed), warm_up)
        predictions = systems.predictions_of_pipeline(cluster)
        # A pipeline whose stages differ in staleness has one parameter group for each stage.
        staleness = (trace.group_staleness if trace.groups else trace.staleness)[warm_up:].ravel()
        length, title = f"{commits:,} micro-batches", f"Staleness of a pipeline of {cluster.stages} stages"
        first = cluster.timetable(PICTURED_BATCHES, seed)
    else:
        ledger, warm_up = systems.simulated(cluster, max(2, commits // cluster.batch), seed)
        measured = ledger.summary(warm_up=warm_up)
        predictions = systems.predictions(cluster, measured)
        staleness = (ledger.trained_version - ledger.read_version)[ledger.trained_version >= warm_up]
        length, title = (
            counted(len(ledger.steps.update), "step", ","),
            f"Staleness of rollouts on {counted(cluster.slots, 'slot')}",
        )
        # The picture shows the first twelve batches.
        first = simulate(cluster, commits=12 * cluster.batch, seed=seed)
    predicted = {name: [prediction._asdict() for prediction in several] for name, several in predictions.items()}
    note = f"{length}, of which the first {warm_up:,} do not count"
    numbers = {"measured": measured, "predicted": predicted, "simulated": note, "seed": seed}
    bounds = predicted.get("samples_per_second", [])
    numbers["binding"] = min(bounds, key=itemgetter("value"))["reason"] if bounds else None
    numbers["bounds_leave_out"] = systems.bounds_leave_out(cluster) if bounds and isinstance(cluster, Rollouts) else []
    shares, subtitle = np.bincount(staleness) / len(staleness), describe_changes(cluster_settings(cluster).values())
    draw = partial(draw_system_page, first=first, shares=shares, title=title, subtitle=subtitle)
    return Report(numbers, partial(print_staleness_of_kind, numbers), draw, SYSTEM_SIZE)


def print_predictions(numbers: Mapping[str, Any]) -> None:
    """Print a table of predictions and simulated numbers, with the reasons."""
    rows = []
    for name, value in numbers["measured"].items():
        predictions = numbers["predicted"].get(name, [])
        predicted = ", ".join(f"{each['relation']} {number(each['value'])}" for each in predictions)
        reasons = ", ".join(each["reason"] for each in predictions)
        rows.append((name.replace("_", " "), predicted, number(value), reasons))
    print_table(("", "predicted", "simulated", "by"), rows, flush=(0, 3), folded=(3,))


def print_staleness_of_kind(numbers: Mapping[str, Any]) -> None:
    """Print predictions and simulated numbers, and the bound that binds."""
    print_predictions(numbers)
    click.echo(f"\nSimulated: {numbers['simulated']}")
    if numbers["binding"]:
        bounds = numbers["predicted"]["samples_per_second"]
        values = {"slots": "none", "trainer": "none", "lead": "none"}
        values |= {bound["reason"]: number(bound["value"]) for bound in bounds}
        rest = ", ".join(f"{name} {value}" for name, value in values.items())
        click.echo(f"Binding: {numbers['binding']}, the smallest of the bounds in samples per second ({rest})")
        if numbers["bounds_leave_out"]:
            click.echo(f"The bounds leave out {', '.join(numbers['bounds_leave_out'])}")


staleness = report_command("staleness", STALENESS_HELP, staleness_fields, staleness_of)


STABILITY_HELP = """Predict the stable step sizes and the noise that remains, and compare with a simulation.

The loss is a quadratic, so the limit depends on η·h = step size × curvature and on the shape of the compute times, but
not on their mean. The simulation takes about a minute. For example:

\b
  asyncsim stability --workers 16 --compute gamma

With --outer it is the largest step of an outer optimiser around windows of local steps, as in asynchronous DiLoCo:

\b
  asyncsim stability --workers 4 --outer nesterov --momentum .9 --window 20

With --cluster rollouts, areal, verl, …, it is the limit of stale policy gradients, measured with the workload bits.
"""
QUESTION = Question(workers=16, compute=Exponential(1.0))
OUTER_CHOICES = ("none", *OUTER)
OUTER_DEFAULTS = OuterQuestion._field_defaults
RULE = (
    Field("momentum", "number", "Momentum μ in [0, 1).", "Rule", QUESTION.momentum),
    Field("where", "text", "Who keeps the momentum.", "Rule", QUESTION.where, WHERE),
    Field("kappa", "number", "Another η·h for the noise floor, in addition to half the limit.", "Study"),
)
WINDOWS = (
    Field(
        "outer", "text", "Outer optimiser at the server, around windows of local steps.", "Rule", "none", OUTER_CHOICES
    ),
    Field("window", "integer", "Local steps in a window, with --outer.", "Rule", OUTER_DEFAULTS["window"]),
    Field(
        "local_learning_rate",
        "number",
        "Step size η of a local step, with --outer.",
        "Rule",
        OUTER_DEFAULTS["learning_rate"],
    ),
    Field("curvatures", "numbers", "Smallest and largest curvature of the loss, with --outer.", "Workload", [1.0]),
)
QUESTION_CLUSTER = Cluster(QUESTION.workers, QUESTION.compute)
KNOWN_PARTS = ("workers", "compute")  # parts of a cluster of which theory knows the limits
# Names of the flags of those parts of a cluster for which theory knows no limit.
UNKNOWN_SETTINGS = {
    path.rpartition(".")[2] for path in every_setting(Cluster) if path.partition(".")[0] not in KNOWN_PARTS
}
BITS = (
    Field("least", "integer", "Ones that the workload `bits` rewards.", "Workload", 6),
    Field("bits", "integer", "Bits of a sequence.", "Workload", 8),
    Field("penalty", "number", "Weight β of the divergence from uniform bits, positive.", "Workload", 0.1),
)
SIZE_OF_STUDY = (
    Field("steps", "integer", "Steps of each run.", "Study", 400),
    Field("seeds", "integer", "Number of schedules.", "Study", 4),
)
THEORY = {
    True: "the limit 2·sin(π/(2(2τ + 1))) is exact, because all groups have the same staleness τ.",
    False: "the limit 2·sin(π/(2(2τ + 1))) would be exact if all groups had the staleness τ. With the measured spread, "
    "it is approximately that of independent staleness with these shares.",
}
OTHER_WORKLOADS = (
    "Another workload, whose loss does not correct for stale data, has the same limit of step size × curvature: divide "
    "it by the largest curvature of the loss."
)


def stability_fields(**components: str) -> list[Field]:
    """Return every flag but those of the output, with usual values, for these components."""
    if components.get(KIND.name) in KIND_OF_STABILITY.choices[1:]:
        return [KIND_OF_STABILITY, *fields_of_kind(components[KIND.name]), *BITS, *SIZE_OF_STUDY]
    components = {name: value for name, value in components.items() if name != KIND.name}
    fields = [
        field
        for field in cluster_settings(QUESTION_CLUSTER, **components).values()
        if field.name not in UNKNOWN_SETTINGS
    ]
    return [KIND_OF_STABILITY, *fields, *RULE, *WINDOWS]


def stability_of(flags: Mapping[str, Any], progress: Progress) -> Report:
    """Report the stability of the cluster and the rule that the flags ask for."""
    kind, flags = split(flags, [KIND])
    if kind[KIND.name] in KINDS:
        problem, flags = split(flags, BITS)
        runs, flags = split(flags, SIZE_OF_STUDY)
        report = systems.rollouts_stability(cluster_of_kind(kind[KIND.name], flags), Bits(**problem), **runs)
        draw = partial(draw_rollouts_stability, report=report)
        return Report(report, partial(print_rollouts_stability, report), draw, SYSTEM_SIZE)
    if flags.get("outer", "none") != "none":
        outer = outer_question_of(flags)
        report = outer_report(outer, progress)
        draw = partial(draw_outer_map, outer, progress)
        return Report(report, partial(print_outer, report), draw, MAP_SIZE)
    windows, flags = split(flags, WINDOWS)
    for field in WINDOWS:
        if windows[field.name] != field.value:
            raise ValueError(
                f"`{field.name}` is of windows of local steps. Name their optimiser, as in --outer nesterov."
            )
    question, kappa = question_of(flags), flags.get("kappa")
    if kappa is not None:
        require_positive("kappa", kappa, remedy="Give η·h, the step size times the curvature.")
    report = stability_report(question, [] if kappa is None else [kappa], progress)
    return Report(report, partial(print_stability, report), partial(draw_map, question, progress), MAP_SIZE)


def question_of(flags: Mapping[str, Any]) -> Question:
    """Return the cluster and the rule that the flags ask for: the usual ones with some fields changed."""
    values, changes = split(flags, RULE)
    momentum, where = momentum_and_place(values["momentum"], values["where"])
    for name in changes:
        # Such flags are parsed all the same, so that the error can name the command that knows them.
        if name in UNKNOWN_SETTINGS:
            raise ValueError(
                f"`{name}` has no place here: theory knows the limits of workers that commit at once, without network, "
                f"queue or protocol. `asyncsim staleness {flag_of(name)} {changes[name]}` shows the staleness with it, "
                "and a sweep over `learning_rate` the step sizes that stay bounded."
            )
    cluster = changed_cluster(QUESTION_CLUSTER, changes)
    return Question(cluster.workers, cluster.compute, momentum, where)


def outer_question_of(flags: Mapping[str, Any]) -> OuterQuestion:
    """Return the cluster, the outer optimiser and the local steps that the flags ask for."""
    for name, reason in (("kappa", "there is no noise here"), ("where", "an outer optimiser is at the server")):
        if name in flags:
            raise ValueError(f"`{name}` must be left out with `outer`, because {reason}; got {brief(flags[name])}.")
    windows, changes = split(flags, WINDOWS)
    question = question_of({**changes, "where": "server"})
    return OuterQuestion(
        *(question.workers, question.compute, windows["outer"], question.momentum),
        *(windows["local_learning_rate"], windows["window"], windows["curvatures"]),
    )


def print_outer(report: Mapping[str, Any]) -> None:
    """Print a table of predictions and simulation, and below it the units and the notions of stability."""
    predicted, simulated, windows = report["predicted"], report["simulated"], report["window_curvature"]
    rows = [("c of a window, at the largest", number(windows["largest"]), "")]
    if windows["least"] != windows["largest"]:
        rows.append(("c of a window, at the smallest", number(windows["least"]), ""))
    for key, label in (("limit", "limit of α·c"), ("outer_step", "largest stable outer step α")):
        rows += [
            (f"{label}, in rounds", number(predicted[key]["fresh"]), ""),
            (f"{label}, of a round robin", number(predicted[key]["in_turn"]), ""),
            (f"{label}, of single runs", "", _with_error(simulated, key)),
        ]
    print_table(("", "predicted", "simulated"), rows)
    click.echo(
        "\nα is the outer step size, and c = 1 - (1 - η·h)^H the share of its distance from the minimum that a worker "
        "covers in a window of H local steps.\nLimits in rounds (fresh messages) and of a round robin (messages n - 1 "
        "commits late) are exact.\nSingle runs grow above theirs: the almost-sure limit, found by replay of windows."
    )


def draw_outer_map(question: OuterQuestion, progress: Progress, figure: Any) -> None:
    """Simulate the map over numbers of workers, and draw it with the limits of a round robin."""
    kind = question.kind.replace("_", " ")
    subtitle = f"{question.compute!r}, {kind} with momentum {question.momentum:g} at the server"
    what = "α·c, outer step × a window's curvature"
    draw_stability_page(figure, *outer_map(question, progress), subtitle=subtitle, what=what)


def print_stability(report: Mapping[str, Any]) -> None:
    """Print a table of predictions and simulation, and below it the units."""
    predicted, simulated = report["predicted"], report["simulated"]
    rows = [
        ("limit of η·h, in mean square", number(predicted["stability_limit"]), ""),
        ("limit of η·h, of single runs", "", _with_error(simulated, "almost_sure_limit")),
        ("limit of η·h, of a round robin", number(predicted["constant_delay_limit"]), ""),
    ]
    if predicted["mean_limit"] is not None:
        rows.append(("limit of η·h, of the mean only", number(predicted["mean_limit"]), ""))
    for kappa, share in zip(simulated["bounded_kappa"], simulated["bounded_share"], strict=True):
        rows.append((f"runs that stay bounded at η·h = {number(kappa)}", "", percent(share)))
    for place, kappa in enumerate(predicted["kappa"]):
        for key in ("noise_floor", "kinetic_energy"):
            label = f"{spaced(key)} at η·h = {number(kappa)}"
            rows.append((label, number(predicted[key][place]), _with_error(simulated, key, place)))
    print_table(("", "predicted", "simulated"), rows)
    click.echo("\nη·h is step size × curvature. Floors and energies: in units of the variance of an update's noise.")
    if report["note"] is not None:
        click.echo(f"Theory: {report['note']}")


def _with_error(simulated: Mapping[str, Any], key: str, place: int | None = None) -> str:
    mean, error = simulated[key], simulated[f"{key}_error"]
    if place is not None:
        mean, error = mean[place], error[place]
    # A quantity that was not simulated has no error either.
    return number(mean) if mean is None else f"{number(mean)} ± {error:.2g}"


def draw_map(question: Question, progress: Progress, figure: Any) -> None:
    """Simulate the map over numbers of workers, and draw it with the limits that theory knows."""
    momentum = f", momentum {question.momentum:g} kept by the {question.where}" if question.momentum else ""
    draw_stability_page(figure, *limits_map(question, progress), subtitle=f"{question.compute!r}{momentum}")


def print_rollouts_stability(report: Mapping[str, Any]) -> None:
    """Print the limits of η·h and of the step size, and how they apply to other workloads."""
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


stability = report_command("stability", STABILITY_HELP, stability_fields, stability_of)
