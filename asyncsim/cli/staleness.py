"""`asyncsim staleness`: how old the gradients of a cluster are, predicted beside simulated."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from asyncsim.checks import require_integer, require_not_negative
from asyncsim.cli.options import field_option
from asyncsim.cli.show import number
from asyncsim.cluster import Cluster
from asyncsim.delays import Exponential, Gamma, fleet
from asyncsim.files import write_json
from asyncsim.reports.staleness import StalenessReport, predicted_worker_means, staleness_report
from asyncsim.scenario.catalogue import all_fields
from asyncsim.scenario.components import law_component, protocol_component, rebuild_cluster
from asyncsim.scenario.fields import Field, settings
from asyncsim.scenario.override import unknown_field

USUAL = Cluster(workers=20, compute=Gamma(mean=1.0, cv=0.3))
PRESENT = {"workers": 20, "compute": "gamma", "mean": 1.0, "cv": 0.3, "protocol": "asynchronous"}
OUT = str(Path("runs", "staleness"))
PICTURE, SUMMARY = "staleness.png", "staleness.json"
FLEET = (
    Field("service", "number", "Mean seconds of a commit at the server, exponential; 0 takes no time.", "Cluster", 0.0),
    Field("slow", "integer", "How many workers are slow.", "Cluster", 0),
    Field("slowness", "number", "How many times as long these take.", "Cluster", 2.0),
)
STUDY = (
    Field("commits", "integer", "Commits that count, after the start.", "Study", 100_000),
    Field("seed", "integer", "Seed of the simulation.", "Study", 0),
)
ROWS = {"mean": "mean", "sd": "standard deviation", "median": "median", "p99": "99 %"}


def cluster_of(given: dict[str, Any]) -> Cluster:
    """The cluster that the flags ask for: the usual one with some fields changed.

    Raises:
        ValueError: If a value does not fit, or a field belongs to another law or protocol.

    Example:
        >>> cluster_of({"workers": 4, "compute": "exponential", "service": 0.5}).server.service
        Exponential(mean=0.5)
    """
    changes = {name: value for name, value in given.items() if value is not None}
    workers = require_integer("workers", changes.pop("workers", USUAL.workers), least=1, remedy="Use one or more.")
    law, protocol = law_component(USUAL.compute).rebuild(changes), protocol_component(USUAL.protocol).rebuild(changes)
    slow, slowness = changes.pop("slow", 0), changes.pop("slowness", 2.0)
    mean = require_not_negative("service", changes.pop("service", 0.0), remedy="Give a mean in seconds.")
    if mean:
        changes["service"] = Exponential(mean)
    compute = fleet.two_classes(law, workers, slow, slowness) if slow else law
    cluster = rebuild_cluster(USUAL, changes, workers=workers, compute=compute, protocol=protocol)
    for name in changes:
        raise ValueError(unknown_field(name, (law_component(law), protocol_component(protocol)), PRESENT))
    return cluster


def show(report: StalenessReport) -> None:
    """A table of what theory predicts and what the simulation gave, and below it on which assumption."""
    found, known = report.numbers, report.known
    predicted = found["predicted"] or {"mean": known.mean}
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for head in ("staleness", "predicted", "simulated"):
        table.add_column(head, justify="left" if head == "staleness" else "right", no_wrap=True)
    for key, label in ROWS.items():
        table.add_row(label, number(predicted.get(key)), number(found["simulated"][key]))
    Console().print(table)
    if report.pmf is not None:
        chance = f"as many independent commits would give about {number(found['total_variation_by_chance'])}"
        click.echo(f"\nTotal variation between the two: {number(found['total_variation'])}; {chance}")
    click.echo(f"{'' if report.pmf is not None else chr(10)}Theory: {known.reason}")
    warm_up = f"after a warm-up of {report.warm_up:,}"
    if report.warm_up < found["warm_up_needed"]:
        warm_up += f", which is too short: the common start matters for some {found['warm_up_needed']:,}"
    click.echo(f"Simulated: {found['commits']:,} commits, {warm_up}")


def draw(figure: Any, report: StalenessReport) -> None:
    """The distribution, and the means of the workers where their laws differ."""
    from asyncsim.plots import draw_shares, draw_staleness_by_worker, draw_title

    cluster = report.cluster
    different = _different(cluster)
    panels = figure.subplots(1, 2, squeeze=False)[0] if different else [figure.subplots()]
    shares = np.bincount(report.staleness) / len(report.staleness)
    draw_shares(panels[0], shares, predicted=report.pmf)
    if different:
        draw_staleness_by_worker(panels[1], report.trace, predicted=predicted_worker_means(cluster))
        panels[0].set_title("All commits")
        panels[1].set_title("Worker by worker")
    draw_title(figure, *headline(report))


def headline(report: StalenessReport) -> tuple[str, str]:
    """Two lines that say what was simulated."""
    cluster, waiting = report.cluster, ""
    law = settings(law_component(cluster.laws[0]).fields()[:4])
    if cluster.protocol != USUAL.protocol:
        waiting = f"; {settings(protocol_component(cluster.protocol).fields())}"
    if not cluster.server.is_instant:
        waiting += f"; service, mean {cluster.server.service.mean:g}"
    what = "predicted and simulated" if report.pmf is not None else "simulated; no distribution is known"
    different = ", and others for other workers" if _different(cluster) else ""
    return f"Staleness of {cluster.workers} workers, {what}", f"{law}{different}{waiting}"


def keep(report: StalenessReport, out: str) -> None:
    """Write the picture and the numbers."""
    from asyncsim.plots.style import save_png

    os.makedirs(out, exist_ok=True)
    size = (9.6, 4.4) if _different(report.cluster) else (7.2, 4.4)
    save_png(Path(out, PICTURE), lambda figure: draw(figure, report), size)
    write_json(Path(out, SUMMARY), report.numbers)


def _different(cluster: Cluster) -> bool:
    return any(law != cluster.laws[0] for law in cluster.laws)


def _callback(out: str | None, as_json: bool, **given: Any) -> None:
    if out is not None and not out.strip():
        raise click.UsageError(f"`--out` must name a folder; got {out!r}. Leave it out for {OUT}.")
    try:
        study = {name: given.pop(name) for name in ("commits", "seed")}
        study = {field.name: field.value for field in STUDY} | {k: v for k, v in study.items() if v is not None}
        report = staleness_report(cluster_of(given), **study)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    keep(report, out or OUT)
    if as_json:
        click.echo(json.dumps(report.numbers, allow_nan=False))
        return
    show(report)
    click.echo(f"\nPicture and numbers in {out or OUT}")


def _fields() -> list[Field]:
    """Every flag but those of the output: those of a cluster, as `asyncsim run` has them, and a few more."""
    cluster = [field for field in all_fields() if field.group == "Cluster" and field.name != "service"]
    usual = [replace(field, value=PRESENT.get(field.name)) for field in cluster]
    return [*usual, *FLEET, *STUDY]


staleness = click.Command(
    "staleness",
    params=[
        *(field_option(field) for field in _fields()),
        click.Option(["--out"], metavar="DIR", help=f"Folder for the picture and the numbers. [{OUT}]"),
        click.Option(["--json", "as_json"], is_flag=True, help="Print the numbers as one JSON object."),
    ],
    help="Predict how stale the gradients of a cluster are, simulate it, and show both side by side.",
    callback=_callback,
    context_settings={"token_normalize_func": lambda token: token.replace("_", "-")},
)
