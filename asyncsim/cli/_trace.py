"""`asyncsim trace`: check a trace, compare it with theory, account for its cost, and write it in another format."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

from asyncsim._checks import brief, did_you_mean, require_all_finite
from asyncsim._metrics import ABSENT, COST_METRICS, counted, metric, number, percent
from asyncsim.cli._command import Checked, Group, echo, suggestion, wrong_usage
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
from asyncsim.trace import _csv as csv
from asyncsim.trace._source import Contents, contents_of
from asyncsim.trace._typed import Start
from asyncsim.trace._values import PER_SECOND, Units, start_in_seconds
from asyncsim.trace._variables import is_on_graph

# The parts of a worker's time, in the order of the table.
MEANINGS = {
    "waiting": "until it may read, and between jobs",
    "download": "from the read to the computation",
    "compute": "of all jobs, also those in vain",
    "upload": "to the server, pulls and losses included",
    "queue": "at the server, or for a turn",
    "service": "at the server",
    "down": "after a crash, or offline",
}
# Of workers on a graph, which have no server.
GRAPH_MEANINGS = {name: MEANINGS[name] for name in MEANINGS if name not in ("queue", "service")}
GRAPH_MEANINGS["upload"] = "of exchanges, until the commit"
# How somebody writes a switch inside --power or --price.
SWITCHES = {"true": True, "false": False}


def component_of(kind: type[Component], value: str) -> Component:
    """Return the component that `name=value,…` describes."""
    arguments: dict[str, Any] = {}
    parameters = parameters_of(kind)
    for word in value.split(","):
        name, equals, text = (part.strip() for part in word.partition("="))
        if name not in parameters or not equals:
            raise click.BadParameter(
                f"got {brief(word)}; give {'=…, '.join(parameters)}=….{did_you_mean(name, parameters)}"
            )
        try:
            arguments[name] = SWITCHES[text] if text in SWITCHES else float(text)
        except ValueError:
            raise click.BadParameter(f"`{name}` must be a number, or true or false; got {brief(text)}.") from None
    required = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    if missing := [name for name in required if name not in arguments]:
        raise click.BadParameter(f"{' and '.join(missing)} must be given too, as {missing[0]}=NUMBER.")
    return kind(**arguments)


def cost_options() -> list[click.Option]:
    """Return the flags `--power` and `--price`."""
    power = "Power in watts, for example busy=300,idle=60. Optional: server=, joules_per_byte=."
    price = "Prices, for example per_hour=2.5. Optional: egress_per_gigabyte=, billing_seconds=, server_per_hour=, "
    price += "spot=true."
    settings = [Checked("settings", partial(component_of, kind)) for kind in (Power, Price)]
    return [
        click.Option(["--power"], type=settings[0], metavar="NAME=W,…", help=power),
        click.Option(["--price"], type=settings[1], metavar="NAME=X,…", help=price),
    ]


def show_cost(costs: Cost, sizes_known: bool, trace: Trace) -> None:
    """Print the time in parts, and a line for each other number."""
    rows, on_graph = [], is_on_graph(trace)
    meanings = GRAPH_MEANINGS if on_graph else MEANINGS
    for name, meaning in meanings.items():
        seconds = costs.seconds[name]
        # A trace without commits has no duration, and then no share either.
        least, most = (percent(float(value) / (costs.duration or math.nan)) for value in (min(seconds), max(seconds)))
        total, share = number(float(seconds.sum())), percent(costs.shares[name])
        rows.append((name, total, share, f"{least} to {most}", of_servers(meaning, trace)))
    rows.append(("sum", number(costs.workers * costs.duration), percent(1.0), "", ""))
    print_table(("time", "seconds", "share", "of a worker", ""), rows, flush=(0, 4), folded=(4,))
    if contains := [name for name in costs.contains if name in meanings]:
        echo(f"\nThe trace does not separate these from compute: {', '.join(contains)}.")
    echo()
    bytes_sent = [f"{value:,}" if sizes_known else ABSENT for value in (costs.bytes_up, costs.bytes_down)]
    lines = [("workers", f"{costs.workers:,}"), ("seconds", number(costs.duration))]
    lines += [("bytes between workers", bytes_sent[0])] if on_graph else zip(BYTES, bytes_sent, strict=True)
    if costs.joules is not None:
        kilowatt_hours = number(costs.joules / JOULES_PER_KILOWATT_HOUR)
        lines.append((COST_METRICS["joules"].label, f"{number(costs.joules)} J, {kilowatt_hours} kWh"))
    if costs.money is not None:
        lines.append((metric("money").label, number(costs.money)))
    print_table((), lines)
    if not sizes_known:
        echo("\nFor bytes, give --message-bytes and --parameter-bytes.")


FORMATS = {"csv": (".csv", Trace.to_csv), "chrome": (".json", Trace.to_chrome), "npz": (".npz", Trace.save)}

BYTES = ("bytes up", "bytes down")
MOST_NAMED = 8  # workers whose names are printed
SERVER_NUMBERS = ("at_server", "knee")  # numbers that workers on a graph do not have
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
    """Return the path of a trace, .npz or .csv, or of that in the folder of a run, by its path or its tag."""
    place = places.find(text, what="FILE")
    if not place.is_dir():
        return str(place)
    if not (place / TRACE).is_file():
        # A comparison and a store have a trace in each of their folders, of which the error names one.
        inside = sorted(place.glob(f"*/{TRACE}"))
        hint = suggestion(str(inside[0].parent) if inside else None)
        raise ValueError(f"FILE must be a trace or a log; {text!r} has no {TRACE}.{hint}")
    return str(place / TRACE)


def start_time(text: str) -> float | str:
    """Return a number, a date, or the word first."""
    try:
        number = float(text)
    except ValueError:
        if text != "first":
            start_in_seconds(text)  # refuses what is no date
        return text
    return require_all_finite("start", number)  # NaN and infinity are numbers to `float`, and no times


@dataclass(frozen=True)
class LogFile:
    """A trace or a log, and how it is read."""

    path: str
    start: Start = None
    columns: str | None = None
    unit: str | None = None

    @cached_property
    def contents(self) -> Contents:
        """Those of the file."""
        return contents_of(self.path)

    def read(self) -> tuple[Trace, bool]:
        """Read the trace. Also whether it is the log of rollouts."""
        if Path(self.path).suffix.lower() != ".npz" and not self.contents.is_archive:
            names = None if self.columns is None else columns_of(self.columns)
            return csv.read(Trace, self.contents, start=self.start, columns=names, unit=units_of(self.unit))
        for flag in ("start", "columns", "unit"):
            if getattr(self, flag) is not None:
                raise click.UsageError(f"`--{flag}` is for logs; got {self.path!r}, which is a trace. Leave it out.")
        return Trace.load(self.path), False


def units_of(text: str | None) -> Units:
    """Return the unit of all times, or column -> unit, that `ms` or `duration=ms,…` says."""
    if text is None or "=" not in text:
        return cast(Units, text)
    return cast(Units, dict(word.strip().split("=", 1) for word in text.split(",")))


def checked_units(text: str) -> str:
    """Return the text that names units, if all of them are."""
    for word in text.split(",") if "=" in text else [f"={text}"]:
        name, _, unit = (part.strip() for part in word.partition("="))
        if unit not in PER_SECOND or not (name or "=" not in text):
            choices = ", ".join(map(repr, PER_SECOND))
            raise ValueError(f"`--unit`: {brief(unit)} is not one of {choices}. Give one, or NAME=UNIT,….")
    return ",".join(sorted(word.replace(" ", "") for word in text.split(",")))


def columns_of(text: str) -> dict[str, str]:
    """Return the columns of a log that `worker=host,…` names."""
    names = dict[str, str]()
    for word in text.split(","):
        name, equals, written = (part.strip() for part in word.partition("="))
        if not (name and equals and written) or name in names:
            remedy = "Give each column of a trace and its name in the log, as in worker=host,commit_time=pushed_at."
            raise ValueError(f"`--columns` must be NAME=COLUMN,…; got {brief(word)}. {remedy}")
        names[name] = written
    return names


def checked_columns(text: str) -> str:
    """Return the text that names columns, sorted, so that every order is the same question."""
    return ",".join(f"{name}={written}" for name, written in sorted(columns_of(text).items()))


def log_file(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the argument FILE, and the options that say how a log is read, as its argument `log`."""

    @wraps(function)
    def call(file: str, start: Start, columns: str | None, unit: str | None, **settings: Any) -> None:
        function(log=LogFile(file, start, columns, unit), **settings)

    for parameter in (UNIT, COLUMNS, START, FILE):
        parameter(call)
    return call


FILE = click.argument("file", type=Checked("file", trace_file, "tags files"))
START = click.option(
    "--start",
    type=Checked("seconds", start_time),
    metavar="TIME|first",
    help="When the run of a log began: a number in the log's own time and unit, such as Unix time, a date, or first "
    "for the earliest time. [0, where that can be; first for dates]",
)
COLUMNS = click.option(
    "--columns",
    type=Checked("names", checked_columns),
    metavar="NAME=COLUMN,…",
    help="Columns that have other names in a log, such as worker=host,commit_time=pushed_at.",
)
UNIT = click.option(
    "--unit",
    type=Checked("units", checked_units),
    metavar="UNIT|NAME=UNIT,…",
    help="Unit of times in a log that are numbers, s, ms, us or ns, or those of some columns, such as duration=ms. [s, "
    "unless the name of a column ends in another]",
)


@click.group("trace", cls=Group, no_args_is_help=False)
def command() -> None:
    """Check a trace, compare it with theory, or export it.

    FILE is a trace as asyncsim writes it (.npz), the folder of a run or its tag, or a log: an exported trace, or the
    log of a real cluster, as CSV with any separator, JSON lines, JSON records or parquet. A log needs the columns
    worker and commit_time, and may have any of the others. Name those that are called otherwise. For example:

    \b
      asyncsim trace info log.jsonl --unit ms \\
          --columns worker=host,commit_time=pushed_at
    """


@command.command()
@log_file
def check(log: LogFile) -> None:
    """Check every invariant of the trace in FILE, and exit with status 1 if one is violated."""
    trace = log.read()[0]
    staleness = f", mean staleness {number(float(trace.staleness.mean()))}" if len(trace) else ""
    rest = f"jobs not committed: {len(trace.unfinished):,}, faults: {len(trace.faults):,}"
    parts = ((len(trace), "commit"), (trace.steps, "step"), (trace.workers, "worker"))
    commits, steps, workers = (counted(number, noun, ",") for number, noun in parts)
    size = f"{commits} in {steps} by {workers}"
    echo(f"ok: {size}, {number(trace.seconds)} s{staleness}; {rest}")
    for note in trace.notes:
        echo(f"\n{note}")


@command.command(params=[json_option("the report")])
@log_file
def info(log: LogFile, as_json: bool) -> None:
    """Summarise the trace in FILE next to predictions of theory."""
    trace = log.read()[0]
    report = trace_report(trace)
    content = report.as_json() | {"names": list(trace.names), "notes": list(trace.notes)}
    print_results(content, as_json, lambda: show_report(report, trace))


@command.command()
@log_file
@click.argument("out")
@click.option("--format", "format_name", type=click.Choice([*FORMATS]), help="Format. [from the suffix of OUT]")
def export(log: LogFile, out: str, format_name: str | None) -> None:
    """Write the trace in FILE to OUT: .csv, .json (Chrome trace events, for Perfetto) or .npz."""
    suffix = Path(out).suffix.lower()
    # The suffix decides unless --format does.
    name = format_name or next((name for name, (ending, _) in FORMATS.items() if ending == suffix), None)
    if name is None:
        raise click.UsageError(f"OUT must end in .csv, .json or .npz; got {out!r}. Or give --format.")
    FORMATS[name][1](log.read()[0], out)
    echo(f"Wrote {out}")


PLOT = click.Option(["--plot"], metavar="FILE", help="Draw each worker's time in parts, as a PNG file.")
SIZES = [
    click.Option([flag], type=Whole(min=0), metavar="N", help=f"Bytes of {what}. [known of a run]")
    for flag, what in (("--message-bytes", "an update"), ("--parameter-bytes", "all parameters"))
]


MACHINES = click.Option(
    ["--machines"],
    type=Whole(min=1),
    metavar="N",
    help="Machines that are paid, which the log of a system of rollouts does not show. [the workers]",
)


@command.command(params=[*SIZES, *cost_options(), MACHINES, PLOT, json_option("the cost")])
@log_file
def cost(
    log: LogFile,
    power: Power | None,
    price: Price | None,
    machines: int | None,
    plot: str | None,
    as_json: bool,
    **sizes: int | None,
) -> None:
    """Account for the cost of the run in FILE: the workers' time in parts, bytes, energy and money.

    Of a run of rollouts or of a pipeline, the slots or the stages are the workers. Give the bytes of a sample and of
    the weights for all engines, or those of activations and gradients, by --message-bytes and --parameter-bytes. The
    workers of the log of rollouts are places of groups: a price also needs --machines.
    """
    (trace, is_rollouts), file = log.read(), Path(log.path)
    if is_rollouts and price is not None and machines is None:
        raise click.UsageError(
            f"`--machines` must be given with --price for the log of rollouts, whose {trace.workers:,} workers are "
            "places of groups. Give the number of machines that are paid."
        )
    info = read_info(file.parent) if file.name == TRACE else None
    # A run has counted its messages; the flags come before what its summary says.
    usual: dict[str, Any] = {} if info is None else sizes_in(trace, info.summary)
    usual |= {name: size for name, size in sizes.items() if size is not None}
    sizes_known = all(name in usual for name in sizes)
    run = trace if info is None else machines_of(trace, info.description)
    with wrong_usage():
        costs = cost_of(run, **{**dict.fromkeys(sizes, 0), **usual}, power=power, price=price, machines=machines)
    if plot is not None:
        save_png(plot, lambda figure: draw_time_budget(figure.subplots(), costs), PLOT_SIZE)
    # Sizes of 0 stand in for unknown ones, so that the totals in bytes mean nothing.
    unknown = {} if sizes_known else {"bytes_up": None, "bytes_down": None}
    by_worker = {name: list(map(float, seconds)) for name, seconds in costs.seconds.items()}
    numbers = {**costs.summary(), **unknown, "by_worker": by_worker}
    numbers |= {} if machines is None else {"machines": machines}
    print_results(numbers, as_json, lambda: show_cost(costs, sizes_known, trace))


def machines_of(trace: Trace, description: Mapping[str, Any]) -> Trace | Ledger | Timetable:
    """Return the ledger of rollouts or the timetable of a pipeline, whose workers are machines, or the trace itself."""
    described = description.get("cluster")
    if not isinstance(described, Mapping) or described.get("kind") not in ("cluster.Rollouts", "cluster.Pipeline"):
        return trace
    # A trace of rollouts has one worker for each slot or group, and not for each machine that is paid.
    cluster = from_description(described)
    # A scenario without a seed for its schedule uses that of its replay.
    seed = int(description.get("schedule_seed", description.get("seed", 0)))
    return cluster.ledger(len(trace), seed) if isinstance(cluster, Rollouts) else cluster.timetable(len(trace), seed)


def show_report(report: TraceReport, trace: Trace) -> None:
    """Print a table of measured and predicted numbers, the assumptions below it, and the notes about the log."""
    measured = report.statistics
    counts = {
        "workers": measured.workers,
        "commits": measured.commits,
        "steps": measured.steps,
        "seconds": measured.seconds,
    }
    rows = [(name, number(value), "") for name, value in counts.items()]
    assumptions: list[str] = []
    for key, label in LABELS.items():
        if key in SERVER_NUMBERS and is_on_graph(trace):
            continue
        written, predicted = percent if key == "utilisation" else number, report.predicted.get(key)
        note = ""
        if predicted is not None:
            # Predictions that assume the same share a note.
            assumptions += [predicted.assumes] * (predicted.assumes not in assumptions)
            note = f"{written(predicted.value)} ({assumptions.index(predicted.assumes) + 1})"
        if key in report.measured or note:
            rows.append((of_servers(label, trace), written(report.measured.get(key)), note))
    rows += [(*line, "") for line in _details(measured, is_on_graph(trace))]
    print_table(("", "measured", "predicted"), rows, folded=(0,))
    if assumptions:
        echo("\nPredicted where the trace does not contradict these assumptions:")
    for place, assumes in enumerate(assumptions, start=1):
        echo(f"({place}) {assumes}")
    if trace.names:
        more = trace.workers - MOST_NAMED
        echo(f"\nWorkers: {', '.join(trace.names[:MOST_NAMED])}{f' and {more:,} more' if more > 0 else ''}")
    for note in trace.notes:
        echo(f"\n{note}")


def of_servers(text: str, trace: Trace) -> str:
    """Return a text about the server for a trace that may have several."""
    return text.replace("the server", "a server") if trace.variables > 1 else text


def _details(measured: Statistics, on_graph: bool) -> list[tuple[str, str]]:
    tau = measured.staleness
    quantiles = ", ".join(number(value) for value in (tau.median, tau.q90, tau.q99, tau.max))
    share, times = measured.by_worker.share, measured.compute
    by_group, waiting = measured.by_group.items(), number(measured.waiting)
    lines = [("compute time: mean, cv", f"{number(times.mean)}, {number(times.cv)}")]
    if times.contains:
        # If the log has commits alone, the stages are everything between two commits.
        others = times.contains if len(times.contains) < len(ALL_STAGES) else ("network", "queue", "service")
        others = ("network",) if on_graph else others
        lines.append(("may be in compute time", ", ".join(others)))
    for label, of_workers in (("mean", times.by_worker_mean), ("cv", times.by_worker_cv)):
        values = of_workers[np.isfinite(of_workers)]
        if measured.workers > 1 and len(values):
            spread = f"{number(values.min())} to {number(values.max())}"
            lines.append((f"{label} of compute time, by worker", spread))
    lines += [
        ("steps per second", number(measured.steps_per_second)),
        ("staleness: median, 90, 99, 100 %", quantiles),
        *(
            (f"staleness of {name}: mean, max", f"{number(tau_g.mean)}, {number(tau_g.max)}")
            for name, tau_g in by_group
        ),
        *([] if on_graph else [("commits waiting, in service, mean", f"{waiting}, {number(measured.in_service)}")]),
        ("wasted computation, share of time", percent(measured.wasted)),
        ("a worker's share of the commits", f"{percent(float(share.min()))} to {percent(float(share.max()))}"),
    ]
    for what, counts in (("jobs not committed", measured.fates), ("faults", measured.faults)):
        text = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count)
        lines.append((what, text or "0"))
    return lines
