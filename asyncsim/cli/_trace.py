"""`asyncsim trace`: check a trace, compare it with theory, account for its cost, and write it in another format."""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from asyncsim._checks import did_you_mean, finite
from asyncsim._metrics import ABSENT, SPENT, counted, metric, number, percent
from asyncsim.cli._command import Checked, Group, echo, suggestion
from asyncsim.cli._options import Whole
from asyncsim.cli._output import json_option, print_results, print_table
from asyncsim.cluster import Rollouts
from asyncsim.cluster._pipeline import Timetable
from asyncsim.cluster.rollouts._ledger import Ledger
from asyncsim.components._component import Component
from asyncsim.components._description import from_description
from asyncsim.components._settings import parameters_of
from asyncsim.costs import Cost, Power, Price
from asyncsim.costs import cost as cost_of
from asyncsim.costs._result import JOULES_PER_KILOWATT_HOUR
from asyncsim.costs._usage import sizes_in
from asyncsim.plots import draw_time_budget
from asyncsim.plots.style import save_png
from asyncsim.reports._trace import TraceReport, trace_report
from asyncsim.store import _places as places
from asyncsim.store._labels import TRACE, read_info
from asyncsim.trace import Statistics, Trace
from asyncsim.trace._table import Start

MEANINGS = {
    "waiting": "until it may read, and between jobs",
    "download": "from the read to the computation",
    "compute": "of all jobs, also those in vain",
    "upload": "to the server, pulls and losses included",
    "queue": "at the server, or for a turn",
    "service": "at the server",
    "down": "after a crash, or offline",
}
SWITCHES = {"true": True, "false": False}


def component_of(kind: type[Component], value: str) -> Component:
    """The component that `name=value,…` describes."""
    given: dict[str, Any] = {}
    known = parameters_of(kind)
    for word in value.split(","):
        name, equals, text = (part.strip() for part in word.partition("="))
        if name not in known or not equals:
            raise click.BadParameter(f"got {word!r}; give {'=…, '.join(known)}=….{did_you_mean(name, known)}")
        try:
            given[name] = SWITCHES[text] if text in SWITCHES else float(text)
        except ValueError:
            raise click.BadParameter(f"`{name}` must be a number, or true or false; got {text!r}.") from None
    if missing := [name for name, one in known.items() if one.default is one.empty and name not in given]:
        raise click.BadParameter(f"{' and '.join(missing)} must be given too, as {missing[0]}=NUMBER.")
    return kind(**given)


def cost_options() -> list[click.Option]:
    """The flags `--power` and `--price`."""
    power = "Power in watts, for example busy=300,idle=60. Optional: server=, joules_per_byte=."
    price = "Prices, for example per_hour=2.5. Optional: egress_per_gigabyte=, billing_seconds=, server_per_hour=, "
    price += "spot=true."
    settings = [Checked("settings", partial(component_of, kind)) for kind in (Power, Price)]
    return [
        click.Option(["--power"], type=settings[0], metavar="NAME=W,…", help=power),
        click.Option(["--price"], type=settings[1], metavar="NAME=X,…", help=price),
    ]


def show_cost(found: Cost, sizes_known: bool) -> None:
    """Print the time in parts, and a line for each other number."""
    rows = []
    for name, seconds in found.seconds.items():
        least, most = (percent(float(value) / (found.duration or math.nan)) for value in (min(seconds), max(seconds)))
        total, share = number(float(seconds.sum())), percent(found.shares[name])
        rows.append((name, total, share, f"{least} to {most}", MEANINGS[name]))
    rows.append(("sum", number(found.workers * found.duration), percent(1.0), "", ""))
    print_table(("time", "seconds", "share", "of a worker", ""), rows, flush=(0, 4), folded=(4,))
    if found.contains:
        echo(f"\nThe trace does not separate these from compute: {', '.join(found.contains)}.")
    echo()
    bytes_sent = [f"{value:,}" if sizes_known else ABSENT for value in (found.bytes_up, found.bytes_down)]
    lines = [("workers", f"{found.workers:,}"), ("seconds", number(found.duration))]
    lines += zip(("bytes up", "bytes down"), bytes_sent, strict=True)
    if found.joules is not None:
        kilowatt_hours = number(found.joules / JOULES_PER_KILOWATT_HOUR)
        lines.append((SPENT["joules"].label, f"{number(found.joules)} J, {kilowatt_hours} kWh"))
    if found.money is not None:
        lines.append((metric("money").label, number(found.money)))
    print_table((), lines)
    if not sizes_known:
        echo("\nFor bytes, give --message-bytes and --parameter-bytes.")


FORMATS = {"csv": (".csv", Trace.to_csv), "chrome": (".json", Trace.to_chrome), "npz": (".npz", Trace.save)}

ALL_STAGES = ("download", "upload", "queue", "service")  # in the computations of a log of commits alone
PLOT_SIZE = (7.2, 4.4)  # inches

LABELS = {
    "mean_staleness": metric("mean_staleness").label,
    "staleness_sd": "sd of staleness",
    "commits_per_second": "commits per second",
    "at_server": "commits at the server, mean",
    "utilisation": "workers computing, share of time",
    "knee": "workers that saturate the server",
}


def trace_file(text: str) -> str:
    """The path of a trace, .npz or .csv, or of that in the folder of a run, by its path or its tag."""
    place = places.find(text, what="FILE")
    if not place.is_dir():
        return str(place)
    if not (place / TRACE).is_file():
        inside = sorted(place.glob(f"*/{TRACE}"))
        hint = suggestion(str(inside[0].parent) if inside else None)
        raise ValueError(f"FILE must be a trace, .npz or .csv; {text!r} has no {TRACE}.{hint}")
    return str(place / TRACE)


def start_time(text: str) -> float | str:
    """A number of seconds, or the word first."""
    try:
        return text if text == "first" else finite("start", float(text))
    except ValueError:
        remedy = "Give a number of seconds, or first for the log's earliest time."
        raise ValueError(f"`--start` must be a time; got {text!r}. {remedy}") from None


FILE = click.argument("file", type=Checked("file", trace_file, "tags files"))
START = click.option(
    "--start",
    type=Checked("seconds", start_time),
    metavar="SECONDS|first",
    help="When the run of a CSV log began, in the log's own time, such as Unix time, or first for its earliest time. "
    "[0, where that can be]",
)


@click.group("trace", cls=Group, no_args_is_help=False)
def command() -> None:
    """Check a trace, compare it with theory, or export it.

    FILE is a trace as asyncsim writes it (.npz), the folder of a run or its tag, or a CSV file: an exported trace, or
    the log of a real cluster. A log needs the columns worker and commit_time, and may have any of the others.
    """


@command.command()
@FILE
@START
def check(file: str, start: Start) -> None:
    """Check every invariant of the trace in FILE, and exit with status 1 if one is violated."""
    trace = load(file, start)
    staleness = f", mean staleness {number(float(trace.staleness.mean()))}" if len(trace) else ""
    rest = f"jobs not committed: {len(trace.unfinished):,}, faults: {len(trace.faults):,}"
    parts = ((len(trace), "commit"), (trace.steps, "step"), (trace.workers, "worker"))
    commits, steps, workers = (counted(number, noun, ",") for number, noun in parts)
    size = f"{commits} in {steps} by {workers}"
    echo(f"ok: {size}, {number(trace.seconds)} s{staleness}; {rest}")


@command.command(params=[json_option("the report")])
@FILE
@START
def info(file: str, start: Start, as_json: bool) -> None:
    """Summarise the trace in FILE next to predictions of theory."""
    report = trace_report(load(file, start))
    print_results(report.as_json(), as_json, lambda: show_report(report))


@command.command()
@FILE
@click.argument("out")
@click.option("--format", "format_name", type=click.Choice([*FORMATS]), help="Format. [from the suffix of OUT]")
@START
def export(file: str, out: str, format_name: str | None, start: Start) -> None:
    """Write the trace in FILE to OUT: .csv, .json (Chrome trace events, for Perfetto) or .npz."""
    suffix = Path(out).suffix.lower()
    name = format_name or next((name for name, (own, _) in FORMATS.items() if own == suffix), None)
    if name is None:
        raise click.UsageError(f"OUT must end in .csv, .json or .npz; got {out!r}. Or give --format.")
    FORMATS[name][1](load(file, start), out)
    echo(f"Wrote {out}")


PLOT = click.Option(["--plot"], metavar="FILE", help="Draw each worker's time in parts, as a PNG file.")
SIZES = [
    click.Option([flag], type=Whole(min=0), metavar="N", help=f"Bytes of {what}. [known of a run]")
    for flag, what in (("--message-bytes", "an update"), ("--parameter-bytes", "all parameters"))
]


@command.command(params=[*SIZES, *cost_options(), PLOT, json_option("the cost")])
@FILE
@START
def cost(
    file: str,
    start: Start,
    power: Power | None,
    price: Price | None,
    plot: str | None,
    as_json: bool,
    **given: int | None,
) -> None:
    """Account for the cost of the run in FILE: the workers' time in parts, bytes, energy and money.

    Of a run of rollouts or of a pipeline, the slots or the stages are the workers. Give the bytes of a sample and of
    the weights for all engines, or those of activations and gradients, by --message-bytes and --parameter-bytes.
    """
    trace = load(file, start)
    kept = read_info(Path(file).parent) if Path(file).name == TRACE else None
    sizes: dict[str, Any] = {} if kept is None else sizes_in(trace, kept.summary)
    sizes |= {name: size for name, size in given.items() if size is not None}
    known = all(name in sizes for name in given)
    machines = trace if kept is None else machines_of(trace, kept.description)
    found = cost_of(machines, **{**dict.fromkeys(given, 0), **sizes}, power=power, price=price)
    if plot is not None:
        save_png(plot, lambda figure: draw_time_budget(figure.subplots(), found), PLOT_SIZE)
    unknown = {} if known else {"bytes_up": None, "bytes_down": None}
    by_worker = {name: list(map(float, seconds)) for name, seconds in found.seconds.items()}
    numbers = {**found.summary(), **unknown, "by_worker": by_worker}
    print_results(numbers, as_json, lambda: show_cost(found, known))


def machines_of(trace: Trace, description: Mapping[str, Any]) -> Trace | Ledger | Timetable:
    """The ledger of rollouts or the timetable of a pipeline, whose workers are machines, or another run's trace."""
    described = description.get("cluster")
    if not isinstance(described, Mapping) or described.get("kind") not in ("cluster.Rollouts", "cluster.Pipeline"):
        return trace
    cluster = from_description(described)
    seed = int(description.get("schedule_seed", description.get("seed", 0)))
    return cluster.ledger(len(trace), seed) if isinstance(cluster, Rollouts) else cluster.timetable(len(trace), seed)


def load(file: str, start: Start = None) -> Trace:
    """The trace in a file, which is CSV if its name says so. The times of a CSV file count from `start`."""
    if Path(file).suffix.lower() == ".csv":
        return Trace.from_csv(file, start=start)
    if start is not None:
        raise click.UsageError(f"`--start` is for CSV logs; got {file!r}, whose times begin at 0. Leave it out.")
    return Trace.load(file)


def show_report(report: TraceReport) -> None:
    """Print a table of measured and predicted numbers, and the assumptions below it."""
    found = report.statistics
    counts = {"workers": found.workers, "commits": found.commits, "steps": found.steps, "seconds": found.seconds}
    rows = [(name, number(value), "") for name, value in counts.items()]
    assumptions: list[str] = []
    for key, label in LABELS.items():
        written, predicted = percent if key == "utilisation" else number, report.predicted.get(key)
        note = ""
        if predicted is not None:
            assumptions += [predicted.assumes] * (predicted.assumes not in assumptions)
            note = f"{written(predicted.value)} ({assumptions.index(predicted.assumes) + 1})"
        if key in report.measured or note:
            rows.append((label, written(report.measured.get(key)), note))
    print_table(("", "measured", "predicted"), [*rows, *((*line, "") for line in _details(found))], folded=(0,))
    if assumptions:
        echo("\nPredicted where the trace does not contradict these assumptions:")
    for place, assumes in enumerate(assumptions, start=1):
        echo(f"({place}) {assumes}")


def _details(found: Statistics) -> list[tuple[str, str]]:
    tau = found.staleness
    quantiles = ", ".join(number(value) for value in (tau.median, tau.q90, tau.q99, tau.max))
    share, times = found.by_worker.share, found.compute
    by_group = found.by_group.items()
    lines = [("compute time: mean, cv", f"{number(times.mean)}, {number(times.cv)}")]
    if times.contains:
        others = times.contains if len(times.contains) < len(ALL_STAGES) else ("network", "queue", "service")
        lines.append(("may be in compute time", ", ".join(others)))
    for label, of_workers in (("mean", times.by_worker_mean), ("cv", times.by_worker_cv)):
        known = of_workers[np.isfinite(of_workers)]
        if found.workers > 1 and len(known):
            lines.append((f"{label} of compute time, by worker", f"{number(known.min())} to {number(known.max())}"))
    lines += [
        ("steps per second", number(found.steps_per_second)),
        ("staleness: median, 90, 99, 100 %", quantiles),
        *((f"staleness of {name}: mean, max", f"{number(own.mean)}, {number(own.max)}") for name, own in by_group),
        ("commits waiting, in service, mean", f"{number(found.waiting)}, {number(found.in_service)}"),
        ("wasted computation, share of time", percent(found.wasted)),
        ("a worker's share of the commits", f"{percent(float(share.min()))} to {percent(float(share.max()))}"),
    ]
    for what, counts in (("jobs not committed", found.fates), ("faults", found.faults)):
        text = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count)
        lines.append((what, text or "0"))
    return lines
