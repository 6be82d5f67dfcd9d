"""`asyncsim stability`: how large a step may be and what noise leaves, predicted beside simulated."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import click
import numpy as np

from asyncsim.checks import require_integer, require_positive
from asyncsim.cli.options import flag_of
from asyncsim.cli.report import Shown, report_command
from asyncsim.cli.tables import number, percent, print_table
from asyncsim.cluster import Cluster
from asyncsim.delays import Exponential
from asyncsim.plots import draw_stability, draw_title
from asyncsim.reports.stability import LimitsMap, Progress, Question, limits_map, stability_report
from asyncsim.scenario.components import PROTOCOL, law_component, network_and_server_fields
from asyncsim.scenario.fields import Field, described_arguments
from asyncsim.scenario.override import unknown_field
from asyncsim.theory.arguments import WHERE, momentum_and_place

HELP = """Predict how large a step may be and what noise leaves of x, and show it beside a simulation.

On a quadratic only κ = step size times curvature counts, and of the compute times only the shape, not the mean.
"""
USUAL = Question(workers=16, compute=Exponential(1.0))
RULE = (
    Field("momentum", "number", "Momentum μ in [0, 1).", "Rule", USUAL.momentum),
    Field("where", "text", "Who keeps the momentum.", "Rule", USUAL.where, WHERE),
    Field("kappa", "number", "Another κ at which to give the floor, besides half the limit.", "Study"),
)
SIZE = (6.6, 5.0)  # inches
NOT_HERE = {field.name for field in (*network_and_server_fields(), *PROTOCOL.argument_fields("k_async"))} | {"protocol"}
LINES = {"mean square": "stability_limit", "round robin": "constant_delay_limit"}  # of the picture: label -> limit


def fields(**components: str) -> list[Field]:
    """Every flag but those of the output, with usual values; the components are understood as by `Scenario.fields`."""
    workers = described_arguments(Cluster.__doc__ or "")["workers"]
    law = law_component(USUAL.compute).fields(components.get("compute"))
    return [Field("workers", "integer", workers, "Cluster", USUAL.workers), *law, *RULE]


def question_of(given: Mapping[str, Any]) -> Question:
    """The cluster and the rule that the flags ask for: the usual ones with some fields changed.

    Raises:
        ValueError: If a value does not fit, or a field belongs to another law.

    Example:
        >>> question_of({"workers": 4, "compute": "gamma", "cv": 0.5})
        Question(workers=4, compute=Gamma(mean=1.0, cv=0.5), momentum=0.0, where='none')
    """
    changes = dict(given)
    workers = require_integer("workers", changes.pop("workers", USUAL.workers), least=1, remedy="Use one or more.")
    momentum, where = momentum_and_place(changes.pop("momentum", USUAL.momentum), changes.pop("where", USUAL.where))
    compute = law_component(USUAL.compute).rebuild(changes)
    for name in changes:
        if name in NOT_HERE:
            raise ValueError(
                f"`{name}` has no place here: theory knows the limits of workers that commit at once, without network, "
                f"queue or protocol. `asyncsim staleness {flag_of(name)} {changes[name]}` shows the staleness with it, "
                "and a sweep over `learning_rate` the step sizes that stay bounded."
            )
        raise ValueError(unknown_field(name, (law_component(compute),), [field.name for field in fields()]))
    return Question(workers, compute, momentum, where)


def answer(given: dict[str, Any], progress: Progress) -> Shown:
    """The stability of the cluster and the rule that the flags ask for."""
    kappa = given.pop("kappa", None)
    question = question_of(given)
    if kappa is not None:
        require_positive("kappa", kappa, remedy="Give step size times curvature.")
    report = stability_report(question, [] if kappa is None else [kappa], progress)
    return Shown(report, partial(print_report, report), partial(draw, question, progress), SIZE)


def print_report(report: Mapping[str, Any]) -> None:
    """A table of what is predicted and what was simulated, and below it what the numbers are."""
    print_table(("", "predicted", "simulated"), list(rows(report)))
    click.echo("\nκ is step size × curvature. Floors and energies: per unit of the variance of a raw update's noise.")
    if report["note"] is not None:
        click.echo(f"Theory: {report['note']}")


def rows(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The lines of the table: what it is, predicted, simulated."""
    predicted, simulated = report["predicted"], report["simulated"]
    yield "limit of κ, in mean square", number(predicted["stability_limit"]), ""
    yield "limit of κ, of single runs", "", _with_error(simulated, "almost_sure_limit")
    yield "limit of κ, of a round robin", number(predicted["constant_delay_limit"]), ""
    if predicted["mean_limit"] is not None:
        yield "limit of κ, of the mean only", number(predicted["mean_limit"]), ""
    for kappa, share in zip(simulated["bounded_kappa"], simulated["bounded_share"], strict=True):
        yield f"runs that stay bounded at κ = {number(kappa)}", "", percent(share)
    for place, kappa in enumerate(predicted["kappa"]):
        for key in ("noise_floor", "kinetic_energy"):
            label = f"{key.replace('_', ' ')} at κ = {number(kappa)}"
            yield label, number(predicted[key][place]), _with_error(simulated, key, place)


def draw(question: Question, progress: Progress, figure: Any) -> None:
    """The map over numbers of workers, with the limits that theory knows."""
    found: LimitsMap = limits_map(question, progress)
    lines = {label: np.array([row[name] for row in found.limits], float) for label, name in LINES.items()}
    known = {label: line for label, line in lines.items() if np.isfinite(line).any()}
    draw_stability(figure.subplots(), found.workers, found.kappas, found.share, limits=known)
    momentum = f", momentum {question.momentum:g} kept by the {question.where}" if question.momentum else ""
    draw_title(figure, "Which step sizes stay bounded", f"{question.compute!r}{momentum}")


def _with_error(simulated: Mapping[str, Any], key: str, place: int | None = None) -> str:
    mean, error = simulated[key], simulated[f"{key}_error"]
    if place is not None:
        mean, error = mean[place], error[place]
    return number(mean) if mean is None else f"{number(mean)} ± {error:.2g}"


command = report_command("stability", HELP, fields, answer)
