"""`asyncsim stability`: the predicted limits of step sizes next to those of a simulation."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from asyncsim._checks import brief, require_positive
from asyncsim._metrics import number, percent, spaced
from asyncsim.cli._kinds import KIND, KIND_OF_STABILITY, KINDS, cluster_of_kind, fields_of_kind, split
from asyncsim.cli._options import flag_of
from asyncsim.cli._output import print_table
from asyncsim.cli._theory import Report, report_command
from asyncsim.cluster import Cluster
from asyncsim.components._field import Field
from asyncsim.components._settings import every_setting
from asyncsim.delays import Exponential
from asyncsim.plots._stability import MAP_SIZE, draw_rollouts_stability, draw_stability_page
from asyncsim.plots._staleness import SYSTEM_SIZE
from asyncsim.reports import rollouts as systems
from asyncsim.reports.outer import OUTER, OuterQuestion, outer_map, outer_report
from asyncsim.reports.stability import Progress, Question, limits_map, stability_report
from asyncsim.scenario._tree import changed_cluster, cluster_settings
from asyncsim.theory._parameters import WHERE, require_momentum
from asyncsim.workloads import Bits

HELP = """Predict the stable step sizes and the noise that remains, and compare with a simulation.

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
    parts = {name: value for name, value in components.items() if name != KIND.name}
    fields = cluster_settings(QUESTION_CLUSTER, **parts).values()
    of_cluster = [field for field in fields if field.name not in UNKNOWN_SETTINGS]
    return [KIND_OF_STABILITY, *of_cluster, *RULE, *WINDOWS]


def stability_of(flags: Mapping[str, Any], progress: Progress) -> Report:
    """Report the stability of the cluster and the rule that the flags ask for."""
    kind, about_study = split(flags, [KIND])
    if kind[KIND.name] in KINDS:
        problem, about_runs = split(about_study, BITS)
        runs, settings = split(about_runs, SIZE_OF_STUDY)
        report = systems.rollouts_stability(cluster_of_kind(kind[KIND.name], settings), Bits(**problem), **runs)
        draw = partial(draw_rollouts_stability, report=report)
        return Report(report, partial(print_rollouts_stability, report), draw, SYSTEM_SIZE)
    if about_study.get("outer", "none") != "none":
        outer = outer_question_of(about_study)
        report = outer_report(outer, progress)
        draw = partial(draw_outer_map, outer, progress)
        return Report(report, partial(print_outer, report), draw, MAP_SIZE)
    windows, about_rule = split(about_study, WINDOWS)
    for field in WINDOWS:
        if windows[field.name] != field.value:
            raise ValueError(
                f"`{field.name}` is of windows of local steps. Name their optimiser, as in --outer nesterov."
            )
    question, kappa = question_of(about_rule), about_rule.get("kappa")
    if kappa is not None:
        require_positive("kappa", kappa, remedy="Give η·h, the step size times the curvature.")
    report = stability_report(question, [] if kappa is None else [kappa], progress)
    return Report(report, partial(print_stability, report), partial(draw_map, question, progress), MAP_SIZE)


def question_of(flags: Mapping[str, Any]) -> Question:
    """Return the cluster and the rule that the flags ask for: the usual ones with some fields changed."""
    values, changes = split(flags, RULE)
    momentum, where = require_momentum(values["momentum"], values["where"])
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


command = report_command("stability", HELP, stability_fields, stability_of)
