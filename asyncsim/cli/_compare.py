"""`asyncsim compare`: differences between runs, in a table and a picture."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from asyncsim._checks import truncate
from asyncsim._metrics import KEYS, field_text, metric, metric_text, spaced
from asyncsim.cli._answer import Answer, answer_options
from asyncsim.cli._command import RUN, Command, echo
from asyncsim.cli._output import json_option, print_columns, print_results
from asyncsim.cli._trace import cost_options
from asyncsim.components._digest import digest
from asyncsim.costs import Power, Price, cost_over_time
from asyncsim.costs._usage import sizes_in
from asyncsim.engine import _run_file as run_file
from asyncsim.files import _npz as npz
from asyncsim.files._json import write_json
from asyncsim.plots._comparison import Curve, draw_side_by_side, size_of
from asyncsim.plots.style import save_png
from asyncsim.scenario._tree import LENGTHS
from asyncsim.store import _labels as labels
from asyncsim.store._labels import RunInfo
from asyncsim.store._listing import flat
from asyncsim.store._places import find_run
from asyncsim.study._columns import SEEDS, column
from asyncsim.study._over_seeds import differences
from asyncsim.study.table import SweepTable, require_one_length, spent_in
from asyncsim.trace import Trace

NAME = "compare"
TIMES = ("wall_seconds", "commits_per_second")  # entries of a summary that depend on the machine
LONGEST = 24  # characters of a value, so that three runs fit a line
HELP = """Compare runs: their scenarios, their results, and their losses in a picture.

Give two or more RUNs, each a tag or the folder of a run or of a comparison. For example:

\b
  asyncsim compare runs/gem runs/downpour
"""


Values = dict[str, dict[str, Any]]  # field of a scenario, or entry of a summary -> run -> value


@click.command(
    NAME,
    cls=Command,
    help=HELP,
    params=[
        click.Argument(["run"], nargs=-1, required=True, type=RUN),
        *answer_options(NAME, "the runs", "the picture and the numbers"),
        *cost_options(),
        json_option("the differences"),
    ],
)
def command(
    run: tuple[str, ...], out: str | None, force: bool, power: Power | None, price: Price | None, as_json: bool
) -> None:
    """Compare runs."""
    folders = short_names([(text, find_run(text)) for text in dict.fromkeys(run)])
    runs = members(folders)
    digests = {name: info.digest for name, info in runs.items()}
    # The question is about the studies, wherever their folders lie.
    owner = Answer(NAME, {"runs": digests, "power": power, "price": price})
    prices = {"power": power, "price": price}
    # A folder name cannot hold a power or a price, so its digest stands for it.
    changes = {"runs": "_".join(folders), **{name: digest(rate) for name, rate in prices.items() if rate is not None}}
    place = owner.place(out, changes, f"{NAME}.json", f"{NAME}.png")
    owner.require(place, force)
    scenarios, results, same = contrast(runs, power, price)
    title = f"{len(runs)} runs" if len(runs) > 2 else " and ".join(runs)
    lines = curves(runs, power, price)
    # Records change no result.
    fields = [field.rpartition(".")[2] for field in scenarios if not field.startswith("record.")]
    subtitle = f"They differ in {', '.join(dict.fromkeys(fields))}." if fields else ""
    page = partial(draw_side_by_side, curves=lines, title=title, subtitle=subtitle)
    places = {name: str(info.folder.absolute()) for name, info in runs.items()}
    verdicts = compared_over_seeds(runs, scenarios)
    numbers = {"runs": places, "scenarios": scenarios, "results": results, "verdicts": verdicts}
    with owner.lease(place, force) as folder:
        save_png(folder / f"{NAME}.png", page, size_of(lines))
        write_json(folder / f"{NAME}.json", numbers)
    show = partial(print_contrast, [*runs], scenarios, results, same, verdicts)
    print_results(numbers, as_json, show, f"Picture and numbers in {place.path}")


def print_contrast(
    names: Sequence[str], scenarios: Values, results: Values, same: int, verdicts: Sequence[str]
) -> None:
    """Print the fields in which the scenarios differ, the results, and paired differences over seeds."""
    fields = {field: [field_text(values[name]) for name in names] for field, values in scenarios.items()}
    entries = {metric(key).label: [metric_text(key, values[name]) for name in names] for key, values in results.items()}
    for head, table in (("scenario", fields), ("result", entries)):
        if not table:
            echo(f"The {head}s are the same.\n")
            continue
        rows = [[truncate(value, LONGEST) for value in row] for row in table.values()]
        # Heads are broken at blanks, and the names of folders have commas only.
        heads = [name.replace(",", ", ") for name in names]
        columns = dict(zip(heads, map(list, zip(*rows, strict=True)), strict=True))
        print_columns({head: [*table], **columns}, [head])
        echo()
    if verdicts:
        echo("Final loss, paired differences at equal seeds:")
        for line in verdicts:
            echo(line)
        echo()
    times = [metric(name).label for name in TIMES if name in results]
    echo(f"The same in all: {same} fields. Of real time: {', '.join(times)}.")


def compared_over_seeds(runs: Mapping[str, RunInfo], scenarios: Values) -> list[str]:
    """Return the differences of the other settings from the first one, over the seeds that they have in common."""
    # A setting is named by as few fields as tell the runs apart, the rule first.
    fields = sorted((name for name in scenarios if name not in SEEDS), key=lambda name: name != "rule")
    settings = dict.fromkeys(runs, "")
    for field in fields:
        # The name of a rule says what it is, and other values need the name of their field.
        head = "" if field == "rule" else f"{spaced(field.rpartition('.')[2])} "
        parts = {name: f"{head}{field_text(value)}" for name, value in scenarios[field].items()}
        longer = {name: f"{text}, {parts[name]}" if text else parts[name] for name, text in settings.items()}
        if len({*longer.values()}) > len({*settings.values()}):
            settings = longer
    if len({*settings.values()}) < 2:
        return []
    columns: dict[str, Any] = {"setting": column([*settings.values()])}
    columns |= {name: column([values[run] for run in runs]) for name, values in scenarios.items() if name in SEEDS}
    for name in ("final_loss", "diverged_at"):
        columns[name] = column([info.summary.get(name) for info in runs.values()], numbers=True)
    lengths = {name: column([scenarios[name][run] for run in runs]) for name in LENGTHS if name in scenarios}
    try:
        require_one_length(lengths)
        table = SweepTable(columns, [name for name in columns if name not in ("final_loss", "diverged_at")])
        return [f"{words}." for words in differences(table, "setting")["verdict"].tolist()]
    except ValueError as error:
        # Runs of several lengths, or without a seed in common, have no paired differences.
        return [f"No verdict: {str(error).split('. ')[0]}."]


def members(runs: Mapping[str, Path]) -> dict[str, RunInfo]:
    """Return the runs of scenarios by name, those of a comparison in its place."""
    infos: dict[str, RunInfo] = {}
    for name, folder in runs.items():
        info = labels.read_info(folder)
        if info is not None and info.kind == "comparison":
            inside = {member: labels.read_info(path) for member, path in labels.members_of(folder).items()}
            infos |= {f"{name}/{member}": each for member, each in inside.items() if each is not None}
        elif info is not None and info.kind == "scenario":
            infos[name] = info
        else:
            kind = "none" if info is None else f"one of an {info.kind}"
            raise ValueError(f"`RUN` must be the folder of a scenario or a comparison; {str(folder)!r} is {kind}.")
    if len(infos) < 2:
        raise ValueError(f"`RUN` must name two runs or more; got {', '.join(infos) or 'none'}.")
    for info in infos.values():
        if info.digest is None:
            label = str(info.folder / labels.SCENARIO)
            raise ValueError(f"{label!r} is damaged. Compute the folder again (`--force`).")
    return infos


def contrast(runs: Mapping[str, RunInfo], power: Power | None, price: Price | None) -> tuple[Values, Values, int]:
    """Return the fields in which runs differ, their results, and the number of fields that are equal."""
    settings = {name: dict(flat(info.settings)) for name, info in runs.items()}
    # A field that only some of the runs have, such as an argument of one rule, is empty for the others.
    fields = dict.fromkeys(field for values in settings.values() for field in values)
    side_by_side = {field: {name: values.get(field) for name, values in settings.items()} for field in fields}
    first = next(iter(runs))
    differing = {
        field: values for field, values in side_by_side.items() if any(v != values[first] for v in values.values())
    }
    summaries = {
        name: {**info.summary, **spent_in(info.folder, info.summary, power, price)} for name, info in runs.items()
    }
    # The usual entries come first, then the metrics of the user's own workloads.
    entries = dict.fromkeys([*KEYS, *(entry for summary in summaries.values() for entry in summary)])
    results = {entry: {name: summary.get(entry) for name, summary in summaries.items()} for entry in entries}
    results = {entry: values for entry, values in results.items() if any(v is not None for v in values.values())}
    return differing, results, len(fields) - len(differing)


def curves(runs: Mapping[str, RunInfo], power: Power | None, price: Price | None) -> list[Curve]:
    """Return the losses of the runs that have any yet, with power or prices also over bytes, energy and money."""
    lines = []
    for name, info in runs.items():
        folder = info.folder
        # A run that was interrupted before its first checkpoint has no losses yet.
        if not all((folder / file).is_file() for file in (labels.TRACE, labels.RUN)):
            continue
        names = "loss", "commits", "workers", "diverged_at"
        run = npz.read(folder / labels.RUN, names, kind="run", version=run_file.FORMAT_VERSION)
        # Several seeds of one run share its schedule, so their mean has one time axis.
        loss = np.atleast_2d(run["loss"]).mean(axis=0)
        trace = Trace.load(folder / labels.TRACE)
        # In files, -1 stands for never.
        diverged = bool((run["diverged_at"] >= 0).any())
        with_costs = power is not None or price is not None
        spent = spent_over_commits(trace, info.summary, power, price) if with_costs else {}
        steps = np.ones(trace.workers, int) if trace.local_steps is None else trace.local_steps
        gradients = np.cumsum(steps[trace.worker[: len(loss)]])
        workers, seconds = int(run["workers"]), trace.commit_time[: len(loss)]
        lines.append(Curve(name, workers, loss, seconds, gradients, diverged, spent))
    return lines


def spent_over_commits(
    trace: Trace, summary: Mapping[str, Any], power: Power | None, price: Price | None
) -> dict[str, Any]:
    """Return bytes, and energy and money if asked for, by each replayed commit."""
    sizes = sizes_in(trace, summary)
    if not sizes:
        return {}
    # An interrupted run has a schedule that is longer than its replay.
    done = trace.commit_time[: int(summary["commits"])]
    del sizes["seconds"]  # The whole run's length; here each commit has a time of its own.
    spent = cost_over_time(trace, done, **sizes, power=power, price=price)
    return {name: values for name, values in spent.items() if name != "seconds"}


def short_names(folders: Sequence[tuple[str, Path]]) -> dict[str, Path]:
    """Return a name for each folder: the last part of its path if that is unique, or else the typed text."""
    # A path may end in a slash or a dot.
    ends = [Path(os.path.normpath(text)).name for text, _ in folders]
    names = [end if ends.count(end) == 1 else text for end, (text, _) in zip(ends, folders, strict=True)]
    return {name: folder for name, (_, folder) in zip(names, folders, strict=True)}
