"""`asyncsim stability`: how large a step may be and what noise leaves, predicted beside simulated."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from asyncsim.checks import require_integer, require_positive
from asyncsim.cli.options import field_option
from asyncsim.cli.show import number, percent
from asyncsim.delays import CONSTRUCTORS, Exponential
from asyncsim.files import write_json
from asyncsim.reports.stability import Question, momentum_rule, predict_limits, stability_map, stability_report
from asyncsim.scenario.catalogue import all_fields
from asyncsim.scenario.components import law_component
from asyncsim.scenario.fields import Field, arguments
from asyncsim.scenario.override import unknown_field
from asyncsim.theory.arguments import WHERE, momentum_and_place

HELP = """Predict how large a step may be and what noise leaves of x, and show it beside a simulation.

On a quadratic only κ = step size times curvature counts, and of the compute times only the shape, not the mean.
"""
OUT = str(Path("runs", "stability"))
PICTURE, NUMBERS = "stability.png", "stability.json"
PRESENT = {"workers": 16, "compute": "exponential", "mean": 1.0}
RULE = (
    Field("momentum", "number", "Momentum μ in [0, 1).", "Rule", 0.0),
    Field("where", "text", "Who keeps the momentum.", "Rule", "none", WHERE),
    Field("kappa", "number", "A κ at which the floor is given too, besides half the limit.", "Study"),
)
COLUMNS, CELLS = 12, 28  # of the map
MAP_SCHEDULES = 12
MAP_SIZE = (6.6, 5.0)  # inches


def question_of(given: Mapping[str, Any]) -> Question:
    """The cluster and the rule that the flags ask for: the usual ones with some fields changed.

    Raises:
        ValueError: If a value does not fit, or a field belongs to another law.

    Example:
        >>> question_of({"workers": 4, "compute": "gamma", "cv": 0.5, "momentum": None})
        Question(workers=4, compute=Gamma(mean=1.0, cv=0.5), momentum=0.0, where='none')
    """
    changes = {name: value for name, value in given.items() if value is not None}
    workers = require_integer("workers", changes.pop("workers", PRESENT["workers"]), least=1, remedy="Use one or more.")
    momentum, where = momentum_and_place(changes.pop("momentum", 0.0), changes.pop("where", "none"))
    compute = law_component(Exponential(1.0)).rebuild(changes)
    for name in changes:
        raise ValueError(unknown_field(name, (law_component(compute),), PRESENT))
    return Question(workers, compute, momentum, where)


def show(report: Mapping[str, Any]) -> None:
    """A table of what is predicted and what was simulated, and below it what the numbers are."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for head in ("", "predicted", "simulated"):
        table.add_column(head, justify="right" if head else "left", no_wrap=True)
    for row in rows(report):
        table.add_row(*row)
    Console().print(table)
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


def _with_error(simulated: Mapping[str, Any], key: str, place: int | None = None) -> str:
    mean, error = simulated[key], simulated[f"{key}_error"]
    if place is not None:
        mean, error = mean[place], error[place]
    return number(mean) if mean is None else f"{number(mean)} ± {error:.2g}"


def keep(report: Mapping[str, Any], question: Question, out: str) -> None:
    """Write the numbers and the picture."""
    from asyncsim.plots.style import save_png

    Path(out).mkdir(parents=True, exist_ok=True)
    write_json(Path(out, NUMBERS), dict(report))
    workers = np.unique(np.geomspace(1, 4 * question.workers, COLUMNS).round().astype(int)).tolist()
    limits = [predict_limits(question._replace(workers=n))[0] for n in workers]
    lowest = min(row["constant_delay_limit"] or 0.0 for row in limits)
    kappas = np.geomspace(lowest / 2, 4 * (1 + question.momentum), CELLS)
    rule = momentum_rule(question.momentum, question.where)
    share = stability_map(workers, kappas, question.compute, rule, seeds=MAP_SCHEDULES)
    save_png(Path(out, PICTURE), lambda figure: draw(figure, question, workers, kappas, share, limits), MAP_SIZE)


def draw(
    figure: Any,
    question: Question,
    workers: Sequence[int],
    kappas: np.ndarray,
    share: np.ndarray,
    limits: Sequence[Mapping[str, float | None]],
) -> None:
    """The map over numbers of workers, with the limits that theory knows."""
    from asyncsim.plots import draw_stability
    from asyncsim.plots.page import draw_title

    names = {"mean square": "stability_limit", "round robin": "constant_delay_limit"}
    lines = {label: np.array([row[name] for row in limits], float) for label, name in names.items()}
    known = {label: line for label, line in lines.items() if np.isfinite(line).any()}
    draw_stability(figure.subplots(), workers, kappas, share, limits=known)
    kept = f", momentum {question.momentum:g} kept by the {question.where}" if question.momentum else ""
    draw_title(figure, "Which step sizes stay bounded", f"{question.compute!r}{kept}")


def _callback(out: str | None, as_json: bool, kappa: float | None, **given: Any) -> None:
    if out is not None and not out.strip():
        raise click.UsageError(f"`--out` must name a folder; got {out!r}. Leave it out for {OUT}.")
    try:
        question = question_of(given)
        if kappa is not None:
            require_positive("kappa", kappa, remedy="Give step size times curvature.")
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    report = stability_report(question, [] if kappa is None else [kappa])
    keep(report, question, out or OUT)
    if as_json:
        click.echo(json.dumps(report, allow_nan=False))
        return
    show(report)
    click.echo(f"\nPicture and numbers in {out or OUT}")


def _fields() -> list[Field]:
    """The number of workers, the law and the arguments of every law, and the rule."""
    names = {"workers", "compute", *(name for law in CONSTRUCTORS.values() for name in arguments(law))}
    cluster = [field for field in all_fields() if field.group == "Cluster" and field.name in names]
    return [*(replace(field, value=PRESENT.get(field.name)) for field in cluster), *RULE]


stability = click.Command(
    "stability",
    params=[
        *(field_option(field) for field in _fields()),
        click.Option(["--out"], metavar="DIR", help=f"Folder for the picture and the numbers. [{OUT}]"),
        click.Option(["--json", "as_json"], is_flag=True, help="Print the numbers as one JSON object."),
    ],
    help=HELP,
    callback=_callback,
    context_settings={"token_normalize_func": lambda token: token.replace("_", "-")},
)
