"""`asyncsim staleness` and `asyncsim stability`: predictions of theory next to a simulation."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from asyncsim._checks import require_not_negative, require_positive
from asyncsim._fields import Field, settings
from asyncsim._metrics import number, percent, spaced
from asyncsim._parts import choices_of, chosen, every_name, refuse_unknown
from asyncsim.cli._command import wrong_usage
from asyncsim.cli._kinds import (
    KIND,
    KIND_OF_STABILITY,
    KINDS,
    Shown,
    every_field,
    fields_of_kind,
    shown,
    stability_fields_of_kind,
    stability_shown,
)
from asyncsim.cli._options import FieldCommand, flag_of
from asyncsim.cli._output import json_option, out_option, print_results, print_table
from asyncsim.cli._progress import StageBar
from asyncsim.cluster import Cluster, Network, Server
from asyncsim.delays import Exponential, Gamma, fleet
from asyncsim.engine._devices import use_all_cores
from asyncsim.plots._stability import MAP_SIZE, draw_stability_page
from asyncsim.plots._staleness import PAGE_SIZES, draw_staleness_page
from asyncsim.plots.style import save_png
from asyncsim.reports.stability import Progress, Question, limits_map, stability_report
from asyncsim.reports.staleness import StalenessReport, predicted_worker_means, staleness_report
from asyncsim.scenario._parts import cluster_part
from asyncsim.store._files import make_folder, write_json
from asyncsim.theory._arguments import WHERE, momentum_and_place


def report_command(
    name: str,
    help: str,
    fields: Callable[..., Iterable[Field]],
    answer: Callable[[dict[str, Any], Callable[[str, float], None]], Shown],
    others: Callable[[], Iterable[Field]],
) -> FieldCommand:
    """The command that answers a question about a cluster with numbers and a picture. A ValueError is wrong usage."""
    default = Path("runs", name)

    def callback(out: str | None, as_json: bool, **given: Any) -> None:
        use_all_cores()
        with StageBar() as bar:
            with wrong_usage():
                report = answer({field: value for field, value in given.items() if value is not None}, bar.update)
            folder = Path(out or default)
            make_folder(folder)
            save_png(folder / f"{name}.png", report.draw, report.size)
        write_json(folder / f"{name}.json", report.numbers)
        print_results(report.numbers, as_json, report.print, f"Picture and numbers in {folder}")

    return FieldCommand(
        name=name,
        fields=fields,
        others=others,
        options=[out_option(str(default), "Folder for the picture and the numbers."), json_option("the numbers")],
        help=help,
        epilog="For the flags of another law or protocol, name it and ask for --help, as in `--compute pareto --help`.",
        callback=callback,
    )


STALENESS_HELP = """Predict how stale the gradients of a cluster are, and compare with a simulation.

Staleness counts the server's versions from a worker's read to its commit. For example:

\b
  asyncsim staleness --workers 40 --compute exponential --service 0.02
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


def staleness_fields(**components: str) -> list[Field]:
    """Every flag but those of the output, with usual values, for these components."""
    if components.get(KIND.name) in KINDS:
        return [*fields_of_kind(components[KIND.name]), *STUDY]
    own = [field for field in cluster_part(CLUSTER).fields(components) if field.name != "service"]
    return [KIND, *own, *FLEET, *STUDY]


def cluster_of(given: dict[str, Any]) -> Cluster:
    """The cluster that the flags ask for: the usual one with some fields changed."""
    changes = dict(given)
    slow, slowness = changes.pop("slow", 0), changes.pop("slowness", 2.0)
    mean = require_not_negative("service", changes.pop("service", 0.0), remedy="Give a mean in seconds.")
    if mean:
        changes["service"] = Exponential(mean)
    cluster = cluster_part(CLUSTER).rebuild(changes)
    for name in changes:
        known = [field.name for field in staleness_fields()]
        refuse_unknown(name, cluster_part(cluster).choices, known, "a field of this scenario")
    if slow:
        cluster = replace(cluster, compute=fleet.two_classes(cluster.compute, cluster.workers, slow, slowness))
    return cluster


def staleness_of(given: dict[str, Any], progress: Callable[[str, float], None]) -> Shown:
    """The staleness of the cluster that the flags ask for."""
    del progress  # It takes a second or two.
    study = {field.name: given.pop(field.name, field.value) for field in STUDY}
    kind = given.pop(KIND.name, KIND.value)
    if kind in KINDS:
        return shown(kind, given, **study)
    report = staleness_report(cluster_of(given), **study)
    shares = np.bincount(report.staleness) / len(report.staleness)
    title, subtitle = headline(report)
    draw: Any = partial(draw_staleness_page, shares=shares, predicted=report.pmf, title=title, subtitle=subtitle)
    unequal = has_unequal_workers(report.cluster)
    if unequal:
        draw = partial(draw, trace=report.trace, worker_means=predicted_worker_means(report.cluster))
    return Shown(report.numbers, partial(print_staleness, report), draw, PAGE_SIZES[unequal])


def print_staleness(report: StalenessReport) -> None:
    """A table of predictions and simulation, and below it the assumptions."""
    found, known = report.numbers, report.known
    predicted = found["predicted"] or {"mean": known.mean}
    rows = [(label, number(predicted.get(key)), number(found["simulated"][key])) for key, label in ROWS.items()]
    print_table(("staleness", "predicted", "simulated"), rows)
    click.echo()
    if report.pmf is not None:
        chance = f"as many independent commits would give about {number(found['total_variation_by_chance'])}"
        click.echo(f"Total variation between the two: {number(found['total_variation'])}; {chance}")
    click.echo(f"Theory: {known.reason}")
    warm_up = f"after a warm-up of {found['warm_up']:,}"
    if found["warm_up"] < found["warm_up_needed"]:
        warm_up += f", which is too short: the common start matters for some {found['warm_up_needed']:,}"
    click.echo(f"Simulated: {found['commits']:,} commits, {warm_up}")


def headline(report: StalenessReport) -> tuple[str, str]:
    """Title and subtitle: the cluster that was simulated."""
    cluster = report.cluster
    choices = choices_of(Cluster)
    parts = [settings(chosen(choices["compute"], cluster.laws[0]).fields({}))]
    if has_unequal_workers(cluster):
        parts[0] += ", and others for other workers"
    if cluster.protocol != CLUSTER.protocol:
        parts.append(settings(chosen(choices["protocol"], cluster.protocol).fields({})))
    if not cluster.server.is_instant:
        parts.append(f"service, mean {cluster.server.service.mean:g}")
    shown = "predicted and simulated" if report.pmf is not None else "simulated; no distribution is known"
    return f"Staleness of {cluster.workers} workers, {shown}", "; ".join(parts)


def has_unequal_workers(cluster: Cluster) -> bool:
    """Whether some workers have another law than the first."""
    return any(law != cluster.laws[0] for law in cluster.laws)


EVERY_FIELD = partial(every_field, fields_of_kind, KINDS)
staleness = report_command("staleness", STALENESS_HELP, staleness_fields, staleness_of, EVERY_FIELD)


STABILITY_HELP = """Predict the stable step sizes and the noise that remains, and compare with a simulation.

The loss is a quadratic, so the limit depends on η·h = step size × curvature and on the shape of the compute times, but
not on their mean. The simulation takes about a minute. For example:

\b
  asyncsim stability --workers 16 --compute gamma

With --cluster rollouts, areal, verl, …, it is the limit of stale policy gradients, measured with the workload bits.
"""
QUESTION = Question(workers=16, compute=Exponential(1.0))
RULE = (
    Field("momentum", "number", "Momentum μ in [0, 1).", "Rule", QUESTION.momentum),
    Field("where", "text", "Who keeps the momentum.", "Rule", QUESTION.where, WHERE),
    Field("kappa", "number", "Another η·h for the noise floor, in addition to half the limit.", "Study"),
)
ALONE = cluster_part(Cluster(QUESTION.workers, QUESTION.compute))
NOT_HERE = every_name(Network) | every_name(Server) | {f.name for f in choices_of(Cluster)["protocol"].every()}


def stability_fields(**components: str) -> list[Field]:
    """Every flag but those of the output, with usual values, for these components."""
    if components.get(KIND.name) in KIND_OF_STABILITY.choices[1:]:
        return stability_fields_of_kind(components[KIND.name])
    own = [field for field in ALONE.fields(components) if field.name not in NOT_HERE]
    return [KIND_OF_STABILITY, *own, *RULE]


def question_of(given: Mapping[str, Any]) -> Question:
    """The cluster and the rule that the flags ask for: the usual ones with some fields changed."""
    changes = dict(given)
    momentum, where = changes.pop("momentum", QUESTION.momentum), changes.pop("where", QUESTION.where)
    momentum, where = momentum_and_place(momentum, where)
    for name in changes:
        if name in NOT_HERE:
            raise ValueError(
                f"`{name}` has no place here: theory knows the limits of workers that commit at once, without network, "
                f"queue or protocol. `asyncsim staleness {flag_of(name)} {changes[name]}` shows the staleness with it, "
                "and a sweep over `learning_rate` the step sizes that stay bounded."
            )
    cluster = ALONE.rebuild(changes)
    for name in changes:
        known = [field.name for field in stability_fields()]
        refuse_unknown(name, cluster_part(cluster).choices[:1], known, "a field of this scenario")
    return Question(cluster.workers, cluster.compute, momentum, where)


def stability_of(given: dict[str, Any], progress: Progress) -> Shown:
    """The stability of the cluster and the rule that the flags ask for."""
    kind = given.pop(KIND.name, KIND.value)
    if kind in KINDS:
        return stability_shown(kind, given)
    kappa = given.pop("kappa", None)
    question = question_of(given)
    if kappa is not None:
        require_positive("kappa", kappa, remedy="Give η·h, the step size times the curvature.")
    report = stability_report(question, [] if kappa is None else [kappa], progress)
    return Shown(report, partial(print_stability, report), partial(draw_map, question, progress), MAP_SIZE)


def print_stability(report: Mapping[str, Any]) -> None:
    """A table of predictions and simulation, and below it the units."""
    print_table(("", "predicted", "simulated"), list(stability_rows(report)))
    click.echo("\nη·h is step size × curvature. Floors and energies: in units of the variance of an update's noise.")
    if report["note"] is not None:
        click.echo(f"Theory: {report['note']}")


def stability_rows(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The lines of the table: label, predicted, simulated."""
    predicted, simulated = report["predicted"], report["simulated"]
    yield "limit of η·h, in mean square", number(predicted["stability_limit"]), ""
    yield "limit of η·h, of single runs", "", _with_error(simulated, "almost_sure_limit")
    yield "limit of η·h, of a round robin", number(predicted["constant_delay_limit"]), ""
    if predicted["mean_limit"] is not None:
        yield "limit of η·h, of the mean only", number(predicted["mean_limit"]), ""
    for kappa, share in zip(simulated["bounded_kappa"], simulated["bounded_share"], strict=True):
        yield f"runs that stay bounded at η·h = {number(kappa)}", "", percent(share)
    for place, kappa in enumerate(predicted["kappa"]):
        for key in ("noise_floor", "kinetic_energy"):
            label = f"{spaced(key)} at η·h = {number(kappa)}"
            yield label, number(predicted[key][place]), _with_error(simulated, key, place)


def draw_map(question: Question, progress: Progress, figure: Any) -> None:
    """Simulate the map over numbers of workers, and draw it with the limits that theory knows."""
    momentum = f", momentum {question.momentum:g} kept by the {question.where}" if question.momentum else ""
    draw_stability_page(figure, *limits_map(question, progress), subtitle=f"{question.compute!r}{momentum}")


def _with_error(simulated: Mapping[str, Any], key: str, place: int | None = None) -> str:
    mean, error = simulated[key], simulated[f"{key}_error"]
    if place is not None:
        mean, error = mean[place], error[place]
    return number(mean) if mean is None else f"{number(mean)} ± {error:.2g}"


EVERY_STABILITY_FIELD = partial(every_field, stability_fields_of_kind, KIND_OF_STABILITY.choices[1:])
stability = report_command("stability", STABILITY_HELP, stability_fields, stability_of, EVERY_STABILITY_FIELD)
