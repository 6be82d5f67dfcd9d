"""`asyncsim staleness`: how stale the gradients of a cluster are, predicted beside simulated."""

from collections.abc import Callable
from functools import partial
from typing import Any

import click
import numpy as np

from asyncsim.checks import require_integer, require_not_negative
from asyncsim.cli.report import Shown, report_command
from asyncsim.cli.tables import number, print_table
from asyncsim.cluster import Cluster
from asyncsim.delays import Exponential, Gamma, fleet
from asyncsim.plots import draw_shares, draw_staleness_by_worker, draw_title
from asyncsim.reports.staleness import StalenessReport, predicted_worker_means, staleness_report
from asyncsim.scenario.components import (
    law_component,
    network_and_server_fields,
    protocol_component,
    rebuild_cluster,
)
from asyncsim.scenario.fields import Field, described_arguments, settings
from asyncsim.scenario.override import unknown_field

HELP = "Predict how stale the gradients of a cluster are, simulate it, and show both side by side."
USUAL = Cluster(workers=20, compute=Gamma(mean=1.0, cv=0.3))
FLEET = (
    Field("service", "number", "Mean seconds of a commit at the server, exponential; 0 takes no time.", "Cluster", 0.0),
    Field("slow", "integer", "Number of slow workers.", "Cluster", 0),
    Field("slowness", "number", "How many times as long as the others they take.", "Cluster", 2.0),
)
STUDY = (
    Field("commits", "integer", "Commits that count, after the warm-up.", "Study", 100_000),
    Field("seed", "integer", "Seed of the simulation.", "Study", 0),
)
ROWS = {"mean": "mean", "sd": "standard deviation", "median": "median", "p99": "99 %"}
SIZE = (7.2, 4.4)  # inches, of one panel
SIZE_OF_TWO = (9.6, 4.4)


def fields(**components: str) -> list[Field]:
    """Every flag but those of the output, with usual values: the cluster's, as `asyncsim run` has them, and a few more.

    The components are understood as by `Scenario.fields`.
    """
    workers = described_arguments(Cluster.__doc__ or "")["workers"]
    return [
        Field("workers", "integer", workers, "Cluster", USUAL.workers),
        *law_component(USUAL.compute).fields(components.get("compute")),
        *protocol_component(USUAL.protocol).fields(components.get("protocol")),
        *(field for field in network_and_server_fields(USUAL) if field.name != "service"),
        *FLEET,
        *STUDY,
    ]


def cluster_of(given: dict[str, Any]) -> Cluster:
    """The cluster that the flags ask for: the usual one with some fields changed.

    Raises:
        ValueError: If a value does not fit, or a field belongs to another law or protocol.

    Example:
        >>> cluster_of({"workers": 4, "compute": "exponential", "service": 0.5}).server.service
        Exponential(mean=0.5)
    """
    changes = dict(given)
    workers = require_integer("workers", changes.pop("workers", USUAL.workers), least=1, remedy="Use one or more.")
    law, protocol = law_component(USUAL.compute).rebuild(changes), protocol_component(USUAL.protocol).rebuild(changes)
    slow, slowness = changes.pop("slow", 0), changes.pop("slowness", 2.0)
    mean = require_not_negative("service", changes.pop("service", 0.0), remedy="Give a mean in seconds.")
    if mean:
        changes["service"] = Exponential(mean)
    compute = fleet.two_classes(law, workers, slow, slowness) if slow else law
    cluster = rebuild_cluster(USUAL, changes, workers=workers, compute=compute, protocol=protocol)
    for name in changes:
        known = [field.name for field in fields()]
        raise ValueError(unknown_field(name, (law_component(law), protocol_component(protocol)), known))
    return cluster


def answer(given: dict[str, Any], progress: Callable[[str, float], None]) -> Shown:
    """The staleness of the cluster that the flags ask for."""
    del progress  # It takes a second or two.
    study = {field.name: given.pop(field.name, field.value) for field in STUDY}
    report = staleness_report(cluster_of(given), **study)
    size = SIZE_OF_TWO if has_unequal_workers(report.cluster) else SIZE
    return Shown(report.numbers, partial(print_report, report), partial(draw, report), size)


def print_report(report: StalenessReport) -> None:
    """A table of what theory predicts and what the simulation gave, and below it on which assumption."""
    found, known = report.numbers, report.known
    predicted = found["predicted"] or {"mean": known.mean}
    rows = [(label, number(predicted.get(key)), number(found["simulated"][key])) for key, label in ROWS.items()]
    print_table(("staleness", "predicted", "simulated"), rows)
    click.echo()
    if report.pmf is not None:
        chance = f"as many independent commits would give about {number(found['total_variation_by_chance'])}"
        click.echo(f"Total variation between the two: {number(found['total_variation'])}; {chance}")
    click.echo(f"Theory: {known.reason}")
    warm_up = f"after a warm-up of {report.warm_up:,}"
    if report.warm_up < found["warm_up_needed"]:
        warm_up += f", which is too short: the common start matters for some {found['warm_up_needed']:,}"
    click.echo(f"Simulated: {found['commits']:,} commits, {warm_up}")


def draw(report: StalenessReport, figure: Any) -> None:
    """The distribution, and the means of the workers where their laws differ."""
    cluster = report.cluster
    unequal = has_unequal_workers(cluster)
    panels = figure.subplots(1, 2, squeeze=False)[0] if unequal else [figure.subplots()]
    shares = np.bincount(report.staleness) / len(report.staleness)
    draw_shares(panels[0], shares, predicted=report.pmf)
    if unequal:
        draw_staleness_by_worker(panels[1], report.trace, predicted=predicted_worker_means(cluster))
        panels[0].set_title("All commits")
        panels[1].set_title("Worker by worker")
    draw_title(figure, *headline(report))


def headline(report: StalenessReport) -> tuple[str, str]:
    """Two lines that say what was simulated."""
    cluster = report.cluster
    parts = [settings(law_component(cluster.laws[0]).fields())]
    if has_unequal_workers(cluster):
        parts[0] += ", and others for other workers"
    if cluster.protocol != USUAL.protocol:
        parts.append(settings(protocol_component(cluster.protocol).fields()))
    if not cluster.server.is_instant:
        parts.append(f"service, mean {cluster.server.service.mean:g}")
    what = "predicted and simulated" if report.pmf is not None else "simulated; no distribution is known"
    return f"Staleness of {cluster.workers} workers, {what}", "; ".join(parts)


def has_unequal_workers(cluster: Cluster) -> bool:
    """Whether some workers have another law than the first."""
    return any(law != cluster.laws[0] for law in cluster.laws)


command = report_command("staleness", HELP, fields, answer)
