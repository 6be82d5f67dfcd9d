"""`asyncsim staleness`: the predicted staleness of a cluster next to that of a simulation."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any, cast

import click
import numpy as np

from asyncsim._checks import require_not_negative
from asyncsim._metrics import counted, number
from asyncsim.cli._kinds import (
    HIERARCHY,
    KIND,
    KINDS,
    cluster_of_kind,
    fields_of_kind,
    hierarchy_fields,
    hierarchy_of,
    split,
)
from asyncsim.cli._output import print_table
from asyncsim.cli._theory import Report, report_command
from asyncsim.cluster import Cluster, Gossip, Hierarchy, Pipeline, Rollouts, simulate
from asyncsim.components._field import Field, describe_changes
from asyncsim.delays import Exponential, Gamma, fleet
from asyncsim.delays._per_worker import distinct
from asyncsim.plots._staleness import PAGE_SIZES, SYSTEM_SIZE, draw_staleness_page, draw_system_page
from asyncsim.reports import rollouts as systems
from asyncsim.reports.gossip import consensus_report
from asyncsim.reports.hierarchy import commits_since_read, measured_of_hierarchy, predictions_of_hierarchy
from asyncsim.reports.staleness import StalenessReport, predicted_worker_means, staleness_report
from asyncsim.scenario._tree import changed_cluster, cluster_settings

HELP = """Predict how stale the gradients of a cluster are, and compare with a simulation.

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
    parts = {name: value for name, value in components.items() if name != KIND.name}
    if components.get(KIND.name) == HIERARCHY:
        return [KIND, *hierarchy_fields(**parts), *STUDY]
    if components.get(KIND.name) in KINDS:
        return [KIND, *fields_of_kind(components[KIND.name]), *STUDY]
    # The law of the service times has a flag of its own in FLEET: its mean alone.
    fields = [field for field in cluster_settings(CLUSTER, **parts).values() if field.name != "service"]
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
    study, about_cluster = split(flags, STUDY)
    kind, settings = split(about_cluster, [KIND])
    if kind[KIND.name] == "gossip":
        return staleness_of_gossip(cluster_of_kind("gossip", settings), **study)
    if kind[KIND.name] == HIERARCHY:
        return staleness_of_kind(hierarchy_of(settings), **study)
    if kind[KIND.name] in KINDS:
        return staleness_of_kind(cluster_of_kind(kind[KIND.name], settings), **study)
    report = staleness_report(cluster_of(settings), **study)
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


command = report_command("staleness", HELP, staleness_fields, staleness_of)
