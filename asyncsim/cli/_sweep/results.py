"""`asyncsim sweep status`, `table` and `plot`: the results of a store as tables, JSON and a picture."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import click
import numpy as np

from asyncsim._checks import brief, did_you_mean, require_one_of
from asyncsim._metrics import (
    ABSENT,
    COST_METRICS,
    METRICS,
    SHORT,
    counted,
    field_text,
    is_notable,
    metric,
    metric_text,
    sort_key,
    spaced,
)
from asyncsim.cli._command import Checked, Command, echo, say, wrong_usage
from asyncsim.cli._output import json_option, parts, print_columns, print_results, print_table, width, width_of
from asyncsim.cli._trace import cost_options
from asyncsim.components._digest import hash_of
from asyncsim.costs import Power, Price
from asyncsim.files._json import to_plain
from asyncsim.scenario._rebuild import LANES
from asyncsim.scenario._tree import LENGTHS
from asyncsim.store import _places as places
from asyncsim.store._entries import DONE, FAILURE, MISSING, RUNNING
from asyncsim.store._listing import condition
from asyncsim.study._columns import SEEDS, STATUS, distinct, require_numbers, rows_by, values_in
from asyncsim.study._means import DEFAULT_COLUMNS, ERROR, mean_text
from asyncsim.study._over_seeds import at_best_settings, differences
from asyncsim.study._store import Store, open_store
from asyncsim.study.table import (
    DIGEST,
    SweepTable,
    best,
    edges,
    is_larger_better,
    medians,
    require_one_length,
    table_of,
)

QUARTILES = {"lower_quartile": "lower", "median": "median", "upper_quartile": "upper"}  # column -> its head
MOST_CHOSEN = 4  # values of a field in a line
MOST_PRINTED = 40  # rows of a table in a terminal
STATE_WORDS = {FAILURE: "failed", RUNNING: "still running", MISSING: "missing"}  # state -> its name in a sentence


# The argument of all commands on a store: its folder, or a tag of it.
STORE = Checked("folder", lambda text: open_store(places.find(text, what="STORE"), create=False), "tags files")


def store_command(
    name: str,
    callback: Callable[..., None],
    *options: click.Option,
    y_help: str = "Column by which the best run is chosen.",
) -> Command:
    """Return a command on a store, which takes a measured column y and whether larger is better."""
    return Command(
        name,
        params=[
            click.Argument(["store"], type=STORE, metavar="STORE"),
            *options,
            click.Option(["--y"], default="final_loss", metavar="COLUMN", help=f"{y_help} [final_loss]"),
            click.Option(
                ["--largest/--smallest", "largest"],
                default=None,
                help="Which value of --y is the best. [known for a loss, an error and an accuracy]",
            ),
            json_option("the results"),
        ],
        callback=callback,
        help=callback.__doc__,
    )


WHERE_OPTION = click.Option(
    ["--where"], multiple=True, metavar="CONDITION", help="Take runs that satisfy it, such as commits=400. Repeatable."
)
ANY_LENGTH = click.Option(["--any-length"], is_flag=True, help="Compare runs of different length with each other.")


def read_table(
    store: Store, where: Sequence[str] = (), power: Power | None = None, price: Price | None = None
) -> SweepTable:
    """Return the table of all scenarios that sweeps of a store had, of those that satisfy some conditions."""
    if not (sweeps := store.sweeps()):
        raise click.ClickException(f"The store {str(store.path)!r} was asked for nothing yet.")
    table = table_of(store, sweeps, power, price)
    with wrong_usage():
        for each in map(condition, where):
            require_one_of("--where", each.field, choices=list(table))
            rows = [row for row, value in enumerate(values_in(table[each.field])) if each.holds({each.field: value})]
            if not rows:
                raise ValueError(f"`--where` {each.field!r} has this value in none of {table.rows:,} runs.")
            table = select_rows(table, rows)
    return table


def select_rows(table: SweepTable, rows: Any) -> SweepTable:
    """Return some rows of a table, with the fields in which they differ."""
    columns = {name: column[rows] for name, column in table.items()}
    return SweepTable(columns, [name for name in table.fields if len(distinct(columns[name])) > 1])


def show_settings(table: SweepTable, by: str = "final_loss") -> None:
    """Print a row for each setting: quartiles over the seeds."""
    settings = medians(table, by)
    echo(f"{metric(by).label.capitalize()}, quartiles over the seeds:")
    fields = varying_fields(settings)
    rows = sorted(range(settings.rows), key=lambda row: [sort_key(settings[name][row]) for name in settings.fields])
    print_rows({name: settings[name][rows] for name in (*fields, "runs", *QUARTILES)}, fields, by)


def describe_best(table: SweepTable, by: str, largest: bool | None) -> str:
    """Return a line with the best setting of the runs that are done, or an empty text if none has a value."""
    finished = select_rows(table, table[STATUS] == DONE)
    with wrong_usage():
        require_numbers("--y", by, table)
        # A longer run ends lower, whatever its setting.
        if lengths := [spaced(name) for name in LENGTHS if name in finished.fields]:
            return f"No run is the best, because they differ in {' and '.join(lengths)}. See: --where, --by."
        chosen = best(finished, by, largest=largest) if finished.rows else finished
        word = "highest" if is_larger_better(by, largest) else "lowest"
    # Runs of a sweep that goes on may have no results yet.
    if not chosen.rows or math.isnan(chosen["median"][0]):
        return ""
    values = {name: chosen[name][0].item() for name in chosen.fields}
    setting = ", ".join(
        f"{spaced(name)} {field_text(value)}" for name, value in values.items() if value not in ("", None)
    )
    runs = int(chosen["runs"][0])
    source = f", median of {counted(runs, 'run', ',')}" if runs > 1 else ""
    where = f": {setting}" if setting else ""
    return f"The {word} {metric(by).label} so far, {metric_text(by, chosen['median'][0].item())}{source}{where}."


def print_rows(table: Mapping[str, np.ndarray], fields: Sequence[str], by: str) -> None:
    """Print the first rows of a table whose quartiles are of `by`. Parts of a wide one begin with the fields."""
    rows = len(next(iter(table.values())))
    is_done = table[STATUS] == DONE if STATUS in table else np.ones(rows, bool)
    columns: dict[str, list[str]] = {}
    texts: list[str] = []
    for name, column in table.items():
        label = QUARTILES.get(name) or (spaced(name) if name in fields else metric(name).label)
        show_value = field_text if name in fields else partial(metric_text, by if name in QUARTILES else name)
        is_measured = is_done if name in METRICS else np.ones(rows, bool)
        values = zip(column.tolist(), is_measured, strict=True)
        cells = [(show_value(value) if present else "") or ABSENT for value, present in values]
        columns[label] = cells[:MOST_PRINTED]
        texts += [label] if column.dtype.kind not in "iuf" else []
    repeated = len(fields)
    if len(parts(columns)) > 1 and width_of(dict([*columns.items()][:repeated])) > width() / 2:
        # The fields leave no room for results, so the parts of a wide table share the number of the row.
        columns = {"row": [str(number + 1) for number in range(min(rows, MOST_PRINTED))], **columns}
        repeated = 1
    print_columns(columns, texts, max(repeated, 1))
    if rows > MOST_PRINTED:
        echo(f"… and {rows - MOST_PRINTED:,} more rows (--csv FILE for all)")


def as_records(table: SweepTable) -> dict[str, Any]:
    """Return the table as JSON can hold it."""
    return {"fields": table.fields, "columns": {name: to_plain(column) for name, column in table.items()}}


def drop_incomplete(table: SweepTable, names: Sequence[str]) -> tuple[SweepTable, dict[str, int]]:
    """Return the runs that have all of these fields, which some rules lack, and field -> number of runs without it."""
    present = {name: has_value(table[name]) for name in names}
    complete = np.logical_and.reduce(list(present.values()))
    columns = {name: column[complete] for name, column in table.items()}
    fields = [name for name in table.fields if name in names or len(distinct(columns[name])) > 1]
    return SweepTable(columns, fields), {name: int((~has).sum()) for name, has in present.items() if not has.all()}


def optimised_fields(settings: SweepTable, axes: Sequence[str]) -> list[str]:
    """Return the other fields of which a point of the picture has several values, so that the best of them is drawn."""
    other_fields = [name for name in settings.fields if name not in axes]
    chosen: set[str] = set()
    for rows in rows_by(settings, axes).values():
        values = {name: distinct(settings[name][rows]) for name in other_fields}
        # A field that only one of the rules has varies because the rule does, so it is not listed as a choice.
        several = [name for name in other_fields if len(values[name] - {None, ""}) > 1]
        chosen.update(several or [name for name in other_fields if len(values[name]) > 1])
    return [name for name in other_fields if name in chosen]


def describe_choices(points: SweepTable, name: str) -> str:
    """Return the values of a field that are the best at some points."""
    # The most frequent choices come first, with the number of points at which each is the best.
    counts = Counter(field_text(value) or ABSENT for value in points[name].tolist())
    if len(counts) == 1:
        return f"{spaced(name)} {next(iter(counts))}"
    several = " or ".join(f"{value} ({count}×)" for value, count in counts.most_common(MOST_CHOSEN))
    return f"{spaced(name)} {several}{', …' * (len(counts) > MOST_CHOSEN)}"


def has_value(column: np.ndarray) -> np.ndarray:
    """Return where a column holds anything: a number that exists, or a text."""
    if column.dtype.kind == "f":
        return ~np.isnan(column)
    return column != "" if column.dtype.kind == "U" else np.ones(len(column), bool)


def count_unmeasured(table: SweepTable, y: str) -> dict[str, int]:
    """Return the state of runs without a value -> their number. They count as the worst."""
    # A run may have no value because it diverged, failed, is not done, or does not measure it.
    without = ~has_value(table[y])
    states, diverged = table[STATUS][without], has_value(table["diverged_at"])[without]
    done = states == DONE
    groups = {
        "diverged": done & diverged,
        **{word: states == state for state, word in STATE_WORDS.items()},
        f"without {metric(y).label}": done & ~diverged,
    }
    return {words: int(which.sum()) for words, which in groups.items() if which.any()}


def describe_omissions(incomplete: Mapping[str, int], unmeasured: Mapping[str, int]) -> str:
    """Return runs that are left out, and runs that count as worst, in words, or empty if there are neither."""
    omitted = [f"{counted(count, 'run', ',')} without {spaced(name)} left out" for name, count in incomplete.items()]
    worst = " and ".join(f"{count:,} {words}" for words, count in unmeasured.items())
    return "; ".join([*omitted, *([f"{worst}, which counts as worst"] if worst else [])])


def status(store: Store, y: str, largest: bool | None, as_json: bool) -> None:
    """Count the runs of a sweep that are done, running, failed and missing, and say why some failed."""
    table = read_table(store)
    counts = {state: int((table[STATUS] == state).sum()) for state in (DONE, RUNNING, FAILURE, MISSING)}
    failed = [str(digest) for digest in table[DIGEST][table[STATUS] == FAILURE]]
    reasons = {digest: (store.read_failure(digest) or {}).get("reason") for digest in failed}

    best_setting = "" if as_json else describe_best(table, y, largest)

    def show() -> None:
        print_table((), [(state, f"{count:,}") for state, count in counts.items()])
        # A mistake in the scenario makes all runs fail in the same way.
        by_reason: dict[str, list[str]] = {}
        for digest, reason in reasons.items():
            by_reason.setdefault(str(reason or "for an unknown reason"), []).append(digest)
        for reason, digests in list(by_reason.items())[:MOST_PRINTED]:
            count = f" ({counted(len(digests), 'run', ',')}, of which this is the first)" if len(digests) > 1 else ""
            row = table[DIGEST].tolist().index(digests[0])
            values = ((spaced(name), field_text(table[name][row].item())) for name in table.fields)
            setting = ", ".join(f"{name} {value}" for name, value in values if value not in ("", ABSENT))
            echo(f"\nfailed: {setting or digests[0]}\n  {reason}{count}")
        if failed:
            echo("\nThe whole tracebacks are in the folder `failed`; --retry-failed tries again.")
        if best_setting:
            echo(f"\n{best_setting}")

    print_results({**counts, "reasons": reasons}, as_json, show)


STATUS_COMMAND = store_command("status", status)


def show_table(
    store: Store,
    csv: str | None,
    where: Sequence[str],
    mean: bool,
    by: str | None,
    baseline: str | None,
    at_best: bool,
    tex: bool,
    power: Power | None,
    price: Price | None,
    y: str,
    largest: bool | None,
    as_json: bool,
) -> None:
    """Print a row for each run: the fields in which the runs differ, its results, and its state.

    With --mean, print a row for each setting, with means and standard errors over the seeds. With --by FIELD, also
    compare the values of a field (or the cases) by their paired differences at equal seeds. For example:

    \b
      asyncsim sweep table STORE --by rule --best
      asyncsim sweep table STORE --by case --baseline sync --latex > table.tex
    """
    if by is None and (at_best or baseline is not None):
        raise click.UsageError("`--best` and `--baseline` need `--by FIELD`, the field whose values are compared.")
    if tex and as_json:
        raise click.UsageError("`--latex` and `--json` are two forms of one table. Leave one of them out.")
    table = read_table(store, where, power, price)
    if mean or by is not None or tex:
        show_means(table, csv, by, baseline, at_best, tex, y, largest, as_json)
        return
    if csv is not None:
        table.to_csv(csv)
        (say if as_json else echo)(f"{counted(table.rows, 'row', ',')} in {csv}")
        if not as_json:
            return

    best_setting = "" if as_json else describe_best(table, y, largest)

    def show() -> None:
        measured = [name for name in dict.fromkeys((y, *SHORT)) if any(map(partial(is_notable, name), table[name]))]
        lanes = [LANES] if LANES in table and LANES not in table.fields else []
        spent = [name for name in COST_METRICS if name in table]
        fields = varying_fields(table)
        names = dict.fromkeys([*fields, *measured, *spent, *lanes, STATUS, DIGEST])
        print_rows({name: table[name] for name in names}, fields, y)
        if best_setting:
            echo(f"\n{best_setting}")

    print_results(as_records(table), as_json, show)


def show_means(
    table: SweepTable,
    csv: str | None,
    by: str | None,
    baseline: str | None,
    at_best: bool,
    tex: bool,
    y: str,
    largest: bool | None,
    as_json: bool,
) -> None:
    """Print means and standard errors over the seeds, and the differences between the values of a field."""
    compared = None
    with wrong_usage():
        require_numbers("--y", y, table)
        if by is not None:
            options: dict[str, Any] = {"baseline": baseline, "largest": largest}
            compared = differences(table, by, y, at_best=at_best, **options)
            table = at_best_settings(table, by, y, is_larger_better(y, largest)) if at_best else table
        measured = [name for name in dict.fromkeys((y, *DEFAULT_COLUMNS)) if has_value(table[name]).any()]
        means = table.means(*(measured or [y]))
    if csv is not None:
        means.to_csv(csv)
        (say if as_json or tex else echo)(f"{counted(means.rows, 'row', ',')} in {csv}")
    verdicts = [] if compared is None else [_verdict(row, varying_fields(table)) for row in _row_dicts(compared)]
    hidden = [] if by is None else implied_fields(means, by)
    if tex:
        columns = {name: values for name, values in means.items() if name not in hidden}
        echo(SweepTable(columns, means.fields).latex().rstrip("\n"))
        for line in verdicts:
            echo(f"% {line}")
        return

    def show() -> None:
        columns = {name: values for name, values in means.items() if not name.endswith(ERROR) and name not in hidden}
        cells: dict[str, list[str]] = {}
        for name in columns:
            if name in ("diverged", "missing") and not columns[name].any():
                continue
            label = spaced(name) if name in means.fields else metric(name).label
            cells[label] = [mean_text(row, name) for row in _row_dicts(means)][:MOST_PRINTED]
        echo("Means and standard errors over the seeds:")
        fields = [name for name in means.fields if name not in hidden]
        texts = [spaced(name) for name in fields if means[name].dtype.kind not in "iuf"]
        print_columns(cells, texts, max(len(fields), 1))
        if verdicts:
            echo(f"\n{metric(y).label.capitalize()}, paired differences at equal seeds:")
            for line in verdicts:
                echo(line)

    records = as_records(means) | ({} if compared is None else {"differences": as_records(compared)})
    print_results(records, as_json, show)


def implied_fields(table: SweepTable, by: str) -> list[str]:
    """Return the fields that some settings lack and that have one value wherever `by` has one. They widen a table."""
    # An argument of one rule is empty for the others.
    incomplete = [name for name in table.fields if name != by and not has_value(table[name]).all()]
    groups = rows_by(table, [by]).values()
    return [name for name in incomplete if all(len(distinct(table[name][rows])) == 1 for rows in groups)]


def varying_fields(table: SweepTable) -> list[str]:
    """Return the fields in which runs differ, without arguments of single rules that do not vary there."""
    return [name for name in table.fields if "rule" not in table.fields or name not in implied_fields(table, "rule")]


def _row_dicts(table: SweepTable) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    columns = [column.tolist() for column in table.values()]
    return [dict(zip(table, row, strict=True)) for row in zip(*columns, strict=True)]


def _verdict(row: Mapping[str, Any], fields: Sequence[str]) -> str:
    """Return a verdict, with the setting in which it holds and other fields, of these, in which the two differ."""
    names = [*row]
    setting = [f"{spaced(name)} {field_text(row[name])}" for name in names[: names.index("baseline") - 1]]
    others = [spaced(name) for name in filter(None, row["also"].split(", ")) if name in fields]
    also = f" (they also differ in {', '.join(others)})" if others else ""
    return f"{', '.join(setting)}{': ' * bool(setting)}{row['verdict']}{also}."


CSV = click.Option(["--csv"], metavar="FILE", help="Write the table with all digits to FILE, such as all.csv.")
OVER_SEEDS = (
    click.Option(["--mean"], is_flag=True, help="Print means and standard errors over the seeds."),
    click.Option(["--by"], metavar="FIELD", help="Compare its values by paired differences with 95 % intervals."),
    click.Option(["--baseline"], metavar="VALUE", help="The value of --by from which the others differ. [the first]"),
    click.Option(["--best", "at_best"], is_flag=True, help="Compare each value of --by at its best setting."),
    click.Option(["--latex", "tex"], is_flag=True, help="Print the means as a LaTeX table, for the package booktabs."),
)
TABLE_COMMAND = store_command("table", show_table, CSV, WHERE_OPTION, *OVER_SEEDS, *cost_options())


def plot(
    store: Store,
    x: str,
    y: str,
    by: Sequence[str],
    where: Sequence[str],
    any_length: bool,
    heat: bool,
    largest: bool | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Draw a measured quantity against a field, with quartiles over the seeds."""
    from asyncsim.plots._sweep import SIZE, draw_sweep_page
    from asyncsim.plots.style import save_png

    table = read_table(store, where)
    names = [name for text in by for name in text.split(",") if name]
    with wrong_usage():
        _require_axes(table, x, y, names, heat)
        table, incomplete = drop_incomplete(table, [x, *names])
        _require_values(table, x, y, names)
        unmeasured = count_unmeasured(table, y)
        larger = is_larger_better(y, largest)
        if not any_length:
            lengths = [name for name in LENGTHS if name in table.fields and name not in (x, *names)]
            require_one_length({name: table[name] for name in lengths})
        settings = medians(table, y, largest=larger)
        points = best(table, y, per=[x, *names], largest=larger, any_length=True)
    name = f"{y}_against_{'_'.join([x, *names])}"
    options = {"heat": heat, "where": "_".join(where), "any_length": any_length}
    changes = {key: value for key, value in options.items() if value}
    path = out or str(store.path / f"{places.folder_name(name, changes, hash_of(changes))}.png")

    # Seeds may be missing at some points while a sweep goes on.
    run_counts = sorted({int(count) for count in settings["runs"]})
    seeds = f"{run_counts[0]:,}" if len(run_counts) == 1 else f"{run_counts[0]:,} to {run_counts[-1]:,}"
    notable = varying_fields(settings)
    optimised = [name for name in optimised_fields(settings, [x, *names]) if name in notable]
    best_of = ""
    if optimised:
        values = ", ".join(describe_choices(points, name) for name in optimised)
        best_of = f"best of {', '.join(map(spaced, optimised))}; chosen: {values}"
        remedy = f"--by {optimised[0]} draws each of them, --where {optimised[0]}=VALUE one."
        say(f"Note: each point is the {best_of}. {remedy}")
    omissions = describe_omissions(incomplete, unmeasured)
    details = [f"{seeds} run{'s' * (run_counts[-1] != 1)} at each point", best_of, omissions]
    draw = partial(draw_sweep_page, settings=settings, x=x, y=y, by=names, heat=heat, largest=larger)
    save_png(path, partial(draw, subtitle="; ".join(filter(None, details))), SIZE)
    # The table below the picture has a row for each line of the picture.
    per = [name for name in names if name in settings.fields]
    chosen = best(table, y, per=per, largest=larger, any_length=True)
    # The x axis ends in the picture as well, so its ends are news only where no other field was chosen.
    at_edge = [not set(names).isdisjoint(optimised or [x]) for names in edges(settings, per, chosen)]
    chosen = SweepTable({**chosen, "at_the_edge": np.array(at_edge)}, chosen.fields)
    records = {"picture": path, "best": as_records(chosen), "left_out": incomplete, "worst": unmeasured}
    records |= {"chosen": as_records(points)} if optimised else {}
    fields = [name for name in chosen.fields if name in notable]
    show = partial(_show_best, chosen, fields, y, larger, omissions)
    print_results(records, as_json, show, f"Picture in {path}")


def _show_best(chosen: SweepTable, fields: Sequence[str], y: str, larger: bool, remark: str) -> None:
    echo(f"The {'highest' if larger else 'lowest'} {metric(y).label}, quartiles over the seeds:")
    names = [*fields, "runs", *QUARTILES, "at_the_edge"]
    print_rows({name: chosen[name] for name in names}, fields, y)
    if remark:
        echo(f"\n{remark[0].upper()}{remark[1:]}.")


def _require_axes(table: SweepTable, x: str, y: str, names: Sequence[str], heat: bool) -> None:
    require_numbers("--y", y, table)
    fields = [name for name in table.fields if name not in SEEDS]
    for flag, name in (("--x", x), *(("--by", name) for name in names)):
        if name not in fields:
            listed = ", ".join(fields) or "none"
            hint = did_you_mean(name, fields)
            raise ValueError(
                f"`{flag}` must be a field in which the runs differ, here {listed}; got {brief(name)}.{hint}"
            )
    if x in names or len(set(names)) < len(names):
        raise ValueError(f"`--x` and `--by` must name different fields; got {', '.join([x, *names])}.")
    if heat and len(names) != 1:
        raise ValueError(f"`--heat` needs one other field for the vertical axis, `--by FIELD`; got {len(names)}.")


def _require_values(table: SweepTable, x: str, y: str, names: Sequence[str]) -> None:
    if not table.rows:
        raise ValueError(
            f"`--x` and `--by` must be fields that some run has together; none has {', '.join([x, *names])}."
        )
    if not has_value(table[y]).any():
        states = ", ".join(f"{count:,} {words}" for words, count in count_unmeasured(table, y).items())
        raise ValueError(f"`--y` {y!r} is not there in any of these {table.rows:,} runs: {states}.")


PLOT_COMMAND = store_command(
    "plot",
    plot,
    click.Option(["--x"], required=True, metavar="FIELD", help="Field on the horizontal axis, such as learning_rate."),
    click.Option(["--by"], multiple=True, metavar="FIELD", help="Field of which each value is a line. Repeatable."),
    WHERE_OPTION,
    ANY_LENGTH,
    click.Option(["--heat"], is_flag=True, help="Draw colours over two fields, --x and --by, instead of lines."),
    click.Option(["--out"], metavar="FILE", help="The picture. [<y>_against_<x>.png in STORE]"),
    y_help="Column on the vertical axis.",
)
COMMANDS = {"status": STATUS_COMMAND, "table": TABLE_COMMAND, "plot": PLOT_COMMAND}
