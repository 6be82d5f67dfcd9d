"""`asyncsim sweep`: many runs of a script, and what came of them."""

import math
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import click
import numpy as np

from asyncsim import memory
from asyncsim.checks import did_you_mean
from asyncsim.cli.command import Command
from asyncsim.cli.errors import Interrupted
from asyncsim.cli.options import OTHER_FLAGS, FieldCommand, help_for_option
from asyncsim.cli.output import json_option, print_results
from asyncsim.cli.progress import SweepBar
from asyncsim.cli.run import find_script
from asyncsim.cli.source import Source, find_source
from asyncsim.cli.tables import number, print_table, side_by_side, spaced
from asyncsim.files import to_plain
from asyncsim.folders import places
from asyncsim.priors import LogUniform, Prior, Uniform
from asyncsim.scenario import Scenario
from asyncsim.scenario.catalogue import all_fields
from asyncsim.scenario.fields import Field
from asyncsim.study.best import best, is_better_larger, medians, require_numbers
from asyncsim.study.grid import grid, sample
from asyncsim.study.store import DONE, FAILURE, MISSING, RUNNING, Store, open_store
from asyncsim.study.sweep import Sweep, SweepProgress, sweep
from asyncsim.study.sweep_table import DIGEST, SweepTable, table_of
from asyncsim.study.units import compute, units_of

HELP = """Run many scenarios made of one, and keep each result in a store.

\b
  asyncsim sweep SCENARIO.py --grid learning_rate=.01,.05,.1 --grid seed=0:10
  asyncsim sweep SCENARIO.py --sample learning_rate=loguniform:1e-3:1 \\
      --count 200 --grid seed=0:3
  asyncsim sweep status STORE    what is done, running, failed or missing
  asyncsim sweep table STORE     one row a run, as CSV with --csv FILE
  asyncsim sweep plot STORE --x learning_rate --y final_loss --by workers

Every combination of the values is a run: a list `a,b,c`, or for whole numbers a range `first:end` or
`first:end:step`, whose end is left out. Values that are lists themselves are separated by `;`. Results that the store
holds are never computed again: the same command continues a sweep, and other ones add to it, also at the same time,
from several machines that share the folder.

On a cluster that runs Dask, add `--scheduler tcp://HOST:8786` or `--scheduler-file FILE`. With Slurm, for example:

\b
  srun --ntasks=1 dask scheduler --scheduler-file sched.json &
  sbatch --array=1-20 --wrap 'dask worker --nthreads 1 --scheduler-file sched.json'
  asyncsim sweep SCENARIO.py --grid … --store DIR --scheduler-file sched.json

or, without Dask, start the same `asyncsim sweep … --store DIR` on each of the nodes.
"""
MANY = 5000  # runs that are worth a question beforehand
PROBED = 2000  # commits, at most, by which the time and the disk of a run are estimated
LARGE = 1e6  # numbers from which on the digits of a table are not written out
QUARTILES = {"lower_quartile": "lower", "median": "median", "upper_quartile": "upper"}  # column -> its head
SHOWN = 40  # rows of a table in a terminal
REACHED = 5.0  # seconds in which a scheduler must answer
DRAWS = {"uniform": Uniform, "loguniform": LogUniform}
FLAGS = ("--json", "--help", "-h", "--yes", "--shared-schedule", "--retry-failed")  # all other options take a value


class SweepCommand(click.Command):
    """`asyncsim sweep`: one of its own commands, or a script with the flags of its fields."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Take the first argument for a command, or else for a script."""
        if args and args[0] in COMMANDS:
            return COMMANDS[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        place = find_script(args, FLAGS)
        if place is None:
            return _without_script().make_context(info_name, args, parent, **extra)
        path, args = args[place], [*args[:place], *args[place + 1 :]]
        with click.Context(self, parent, info_name):  # so that errors can name the command
            made = sweep_command(_scenario_of(path))
        return made.make_context(f"{info_name} {path}", args, parent, **extra)


def _without_script() -> Command:
    def missing(**given: Any) -> None:
        raise click.UsageError("Missing argument SCENARIO.py: the script that defines a scenario.")

    return Command(
        name="sweep",
        params=[*sweep_options("runs/<name of the script>,sweep"), help_for_option()],
        help=HELP,
        options_metavar="SCENARIO.py [OPTIONS]",
        callback=missing,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


command = SweepCommand("sweep", help=HELP)


def sweep_options(default: str) -> list[click.Option]:
    """What is swept, where it is computed, and where results go."""
    return [
        click.Option(["--grid"], multiple=True, metavar="FIELD=VALUES", help="Values of a field: all combinations."),
        click.Option(
            ["--sample"],
            multiple=True,
            metavar="FIELD=DRAW",
            help="Random values of a field: loguniform:LOW:HIGH, uniform:LOW:HIGH, or a list to choose from.",
        ),
        click.Option(["--count"], type=int, help="Number of draws, with --sample."),
        click.Option(["--sample-seed"], type=int, default=0, help="Seed of the draws. [0]"),
        click.Option(["--store"], metavar="DIR", help=f"Folder of the results. [{default}]"),
        click.Option(["--jobs"], type=click.IntRange(min=0), help="Processes. [one for each core]"),
        click.Option(["--scheduler"], metavar="ADDRESS", help="Compute on a Dask cluster, tcp://HOST:PORT."),
        click.Option(["--scheduler-file"], metavar="FILE", help="The same, by the scheduler's file."),
        click.Option(["--shared-schedule"], is_flag=True, help="Seeds share the compute times of the first."),
        click.Option(["--retry-failed"], is_flag=True, help="Try again what failed before."),
        click.Option(["--yes"], is_flag=True, help=f"Do not ask, however many runs there are (from {MANY:,} on)."),
        json_option("the table"),
    ]


def _scenario_of(path: str) -> Source:
    source = find_source(path)
    if not isinstance(source.study, Scenario):
        kind = type(source.study).__name__.lower()
        raise click.UsageError(f"SCENARIO.py must define a `scenario` to be swept; {path!r} has a {kind}.")
    return source


def sweep_command(source: Source) -> FieldCommand:
    """The command that sweeps a scenario, with a flag for each of its fields."""
    base = source.study
    assert isinstance(base, Scenario)
    default = f"{source.folder},sweep"

    def callback(
        grid: Sequence[str],
        sample: Sequence[str],
        count: int | None,
        sample_seed: int,
        store: str | None,
        jobs: int | None,
        scheduler: str | None,
        scheduler_file: str | None,
        shared_schedule: bool,
        retry_failed: bool,
        yes: bool,
        as_json: bool,
        **given: Any,
    ) -> None:
        changes = {key: value for key, value in given.items() if value is not None}
        try:
            changed = base.override(**changes)
            axes, draws = axes_of(changed, grid), draws_of(changed, sample)
            runs = math.prod(map(len, axes.values())) * (_count(count, draws) if draws else 1)
            place = open_store(store or default)
            if runs >= MANY and not yes:
                confirm(changed, runs)
            scenarios = made(changed, axes, draws, count or 1, sample_seed)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        with ExitStack() as stack:
            executor = None
            if scheduler is not None or scheduler_file is not None:
                executor = stack.enter_context(dask_executor(scheduler, scheduler_file))
            bar = stack.enter_context(SweepBar())
            stack.enter_context(_importable(source.origin.script))
            try:
                found = sweep(
                    scenarios,
                    place.path,
                    jobs,
                    executor,
                    shared_schedule=shared_schedule,
                    retry_failed=retry_failed,
                    progress=bar.update,
                    origin=source.origin.with_changes(changes),
                )
            except KeyboardInterrupt as stopped:
                raise Interrupted(_stopped(bar.latest), stopped) from stopped
        report(found, as_json)

    return FieldCommand(
        name="sweep",
        fields=base.fields,
        others=all_fields(),
        options=[*sweep_options(default), help_for_option()],
        help=f"Sweep the scenario of {source.shown}. Present values stand in brackets; `sweep --help` says more.",
        epilog=OTHER_FLAGS,
        callback=callback,
    )


def made(
    base: Scenario, axes: Mapping[str, Sequence[Any]], draws: Mapping[str, Any], count: int, seed: int
) -> tuple[Scenario, ...]:
    """The scenarios of a grid, of random draws, or of each draw with a grid."""
    if not draws:
        return grid(base, **axes)
    drawn = sample(base, count=count, seed=seed, seeds=axes.get("seed"), **draws)
    rest = {name: values for name, values in axes.items() if name != "seed"}
    return tuple(one for each in drawn for one in grid(each, **rest)) if rest else drawn


def axes_of(base: Scenario, texts: Iterable[str]) -> dict[str, list[Any]]:
    """Field -> values, of texts such as "learning_rate=.01,.1" and "seed=0:10".

    Raises:
        ValueError: If a field is unknown (the nearest is named), given twice, or has no values, or a value is not of
            its kind (named by its place).
    """
    known = {field.name: field for field in (*all_fields(), *base.fields())}
    axes: dict[str, list[Any]] = {}
    for text in texts:
        name, values = _split("--grid", text, known, axes)
        axes[name] = parse_values(known[name], values)
    return axes


def draws_of(base: Scenario, texts: Iterable[str]) -> dict[str, Prior | list[Any]]:
    """Field -> distribution or choices, of texts such as "learning_rate=loguniform:1e-3:1"."""
    known = {field.name: field for field in (*all_fields(), *base.fields())}
    draws: dict[str, Prior | list[Any]] = {}
    for text in texts:
        name, values = _split("--sample", text, known, draws)
        kind, *numbers = values.split(":")
        if kind.lower() not in DRAWS:
            draws[name] = parse_values(known[name], values)
            continue
        try:
            low, high = map(float, numbers)
        except ValueError:
            raise ValueError(f"`--sample {text}` must end in {kind}:LOW:HIGH, two numbers.") from None
        draws[name] = DRAWS[kind.lower()](low, high)
    return draws


def _split(flag: str, text: str, known: Mapping[str, Field], taken: Mapping[str, Any]) -> tuple[str, str]:
    name, equals, values = text.partition("=")
    name = name.strip().lstrip("-").replace("-", "_")
    if name not in known:
        raise ValueError(f"`{flag}` names {name!r}, which is not a field.{did_you_mean(name, known)}")
    if not equals:
        raise ValueError(f"`{flag} {text}` must be FIELD=VALUES, such as {name}=…; it has no `=`.")
    if name in taken:
        raise ValueError(f"`{flag}` names {name!r} twice. Give all its values at once, separated by commas.")
    return name, values


def parse_values(field: Field, text: str) -> list[Any]:
    """The values that a text lists for a field.

    Raises:
        ValueError: If there are none, or one is not of the field's kind; names its place.

    Example:
        >>> seed, hidden = Field("seed", "integer", ""), Field("hidden", "integers", "")
        >>> parse_values(seed, "0:3"), parse_values(seed, "0:10:5,20"), parse_values(hidden, "64,32;16")
        ([0, 1, 2], [0, 5, 20], [[64, 32], [16]])
    """
    lists = field.kind in ("integers", "numbers", "names")
    values: list[Any] = []
    for place, part in enumerate(part.strip() for part in text.split(";" if lists else ",")):
        if not part:
            raise ValueError(f"`{field.name}` has an empty value number {place + 1} in {text!r}.")
        try:
            values += _range(field, part) if field.kind == "integer" and ":" in part else [field.parse(part)]
        except ValueError as error:
            hint = " A range first:end is for whole numbers." if ":" in part and field.kind != "integer" else ""
            raise ValueError(f"`{field.name}` does not take its value number {place + 1}: {error}{hint}") from None
    return values


def _range(field: Field, text: str) -> list[int]:
    ends = [field.parse(part) for part in text.split(":")]
    if len(ends) > 3 or (len(ends) == 3 and ends[2] == 0):
        raise ValueError(f"{text!r} is not a range first:end or first:end:step.")
    if not range(*ends):
        raise ValueError(f"{text!r} is an empty range; its end is left out.")
    return list(range(*ends))


def _count(count: int | None, draws: Mapping[str, Any]) -> int:
    if count is None:
        raise ValueError(f"`--count` must be given with `--sample {next(iter(draws))}=…`: the number of draws.")
    return count


def confirm(base: Scenario, runs: int) -> None:
    """Say how many runs these are, how long they take and how much disk, and ask.

    Raises:
        click.UsageError: If the answer is no, or there is nobody to ask.
    """
    seconds, size = probe(base)
    processes = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    told = (
        f"{runs:,} runs: some {memory.duration(max(runs * seconds / processes, 1.0))} on the {processes} cores here, "
        f"and {memory.size(runs * size)} of disk, judging by a piece of one."
    )
    if not sys.stdin.isatty():
        raise click.UsageError(f"{told} Add --yes to start.")
    if not click.confirm(f"{told} Start?", err=True):
        raise click.UsageError("Not started.")


def probe(base: Scenario) -> tuple[float, float]:
    """Seconds and bytes that a run like this one takes, measured on its first commits."""
    total = base.total or PROBED
    short = base.override(commits=min(total, PROBED))
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        (unit,) = units_of([short])
        trace = store.trace(short)
        compute(unit, trace)  # which compiles
        begun = time.perf_counter()
        ((result, seconds),) = compute(unit, trace)
        store.put(result, seconds)
        spent = time.perf_counter() - begun
        size = sum(path.stat().st_size for path in store.folder(short.digest).iterdir())
    share = total / len(trace)
    return spent * share, size * share


@contextmanager
def dask_executor(address: str | None, file: str | None) -> Any:
    """The executor of a Dask cluster.

    Raises:
        click.ClickException: If Dask is not installed, or the scheduler does not answer.
    """
    if file is not None and not Path(file).is_file():
        raise click.ClickException(f"`--scheduler-file` {file!r} is not a file. Has the scheduler been started?")
    try:
        from distributed import Client
    except ImportError as error:
        raise click.ClickException(
            "a Dask cluster needs dask[distributed], which is not installed. Run: pip install 'asyncsim[cluster]'"
        ) from error
    import logging

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what is worth knowing is said here
    where = f"`--scheduler-file` {file!r}" if file is not None else f"`--scheduler` {address!r}"
    try:
        client = Client(address, scheduler_file=file, timeout=REACHED, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        reason = str(error).split("\n")[0]
        raise click.ClickException(f"{where} cannot be reached within {REACHED:g} seconds: {reason}") from error
    try:
        if not client.nthreads():
            raise click.ClickException(f"{where} has no workers yet. Start some: dask worker …")
        yield client.get_executor()
    finally:
        with suppress(Exception):
            client.close(timeout=REACHED)


@contextmanager
def _importable(script: Path | None) -> Any:
    """Let other processes import what stands beside the script."""
    if script is None:
        yield
        return
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        del sys.path[0]


def _stopped(progress: SweepProgress | None) -> str:
    done = "" if progress is None else f" after {progress.done:,} of {progress.total:,} runs"
    return f"Interrupted{done}; the same command continues from there."


def report(found: Sweep, as_json: bool) -> None:
    """Print what came of a sweep; fail if any of it failed."""
    table = found.table()

    def show() -> None:
        show_settings(table)
        click.echo(f"\nResults in {found.store.path}: asyncsim sweep table {found.store.path}")

    print_results(as_records(table), as_json, show)
    lost = [scenario.digest for scenario in found.scenarios if not found.store.has(scenario.digest)]
    if lost:
        reason = found.troubles.get(lost[0]) or "see `asyncsim sweep status`"
        raise click.ClickException(f"{len(lost):,} of {len(found):,} runs failed, the first with: {reason}")


def show_settings(table: SweepTable, by: str = "final_loss") -> None:
    """A row for each setting: quartiles over the seeds."""
    settings = medians(table, by)
    click.echo(f"{spaced(by).capitalize()}, quartiles over the seeds:")
    names = [*settings.fields, "runs", *QUARTILES]
    rows = sorted(range(settings.rows), key=lambda row: [_in_order(settings[name][row]) for name in settings.fields])
    cells = [[_cell(settings[name][row].item()) for name in names] for row in rows]
    texts = [place for place, name in enumerate(settings.fields) if settings[name].dtype.kind not in "iuf"]
    _print([QUARTILES.get(name, name) for name in names], cells, texts)


def _in_order(value: Any) -> Any:
    """What a column is sorted by; a number that does not exist comes last."""
    return (math.inf if value != value else value) if isinstance(value, np.floating) else value


def _print(heads: Sequence[str], rows: Sequence[Sequence[str]], texts: Sequence[int]) -> None:
    """The first rows of a table, in several parts if it is too wide."""
    columns = {spaced(head): [row[place] for row in rows[:SHOWN]] for place, head in enumerate(heads)}
    for part, group in enumerate(side_by_side(columns)):
        if part:
            click.echo()
        names = list(group)
        flush = [place for place, name in enumerate(names) if list(columns).index(name) in texts]
        print_table(names, list(zip(*group.values(), strict=True)), text=flush, folded=range(len(names)))
    _tell_rest(len(rows))


def as_records(table: SweepTable) -> dict[str, Any]:
    """The table as JSON can hold it."""
    return {"fields": table.fields, "columns": {name: to_plain(column) for name, column in table.items()}}


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) >= LARGE else number(None if math.isnan(value) else value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _tell_rest(rows: int) -> None:
    if rows > SHOWN:
        click.echo(f"… and {rows - SHOWN:,} more rows (--csv FILE for all)")


class StoreName(click.ParamType):
    """The folder of a store that exists."""

    name = "folder"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Store:
        """The store, or a usage error."""
        try:
            return open_store(places.find(value, what="STORE"), create=False)
        except ValueError as error:
            raise click.UsageError(str(error), ctx) from error


def _store_argument() -> click.Argument:
    return click.Argument(["store"], type=StoreName(), metavar="STORE")


def asked(store: Store) -> SweepTable:
    """The table of all that a store was asked for.

    Raises:
        click.ClickException: If that is nothing.
    """
    sweeps = store.sweeps()
    if not sweeps:
        raise click.ClickException(f"The store {str(store.path)!r} was asked for nothing yet.")
    return table_of(store, sweeps)


def status(store: Store, as_json: bool) -> None:
    """How many runs are done, running, failed and missing, and why they failed."""
    table = asked(store)
    counts = {state: int((table["status"] == state).sum()) for state in (DONE, RUNNING, FAILURE, MISSING)}
    failed = {str(one): store.failure(str(one)) or {} for one in table[DIGEST][table["status"] == FAILURE]}

    def show() -> None:
        print_table((), [(state, f"{count:,}") for state, count in counts.items()])
        for digest, failure in list(failed.items())[:SHOWN]:
            row = table[DIGEST].tolist().index(digest)
            setting = ", ".join(f"{name} {_cell(table[name][row].item())}" for name in table.fields)
            click.echo(f"\nfailed: {setting or digest}\n  {failure.get('reason', 'for an unknown reason')}")
        if failed:
            click.echo("\nThe whole tracebacks are in the folder `failed`; --retry-failed tries again.")

    reasons = {digest: failure.get("reason") for digest, failure in failed.items()}
    print_results({**counts, "reasons": reasons}, as_json, show)


def show_table(store: Store, csv: str | None, as_json: bool) -> None:
    """One row a run: the fields in which the runs differ, the summary, the state."""
    table = asked(store)
    if csv is not None:
        table.to_csv(csv)
        click.echo(f"{table.rows:,} rows in {csv}", err=as_json)
        if not as_json:
            return

    def show() -> None:
        names = [*table.fields, "final_loss", "test_accuracy", "diverged_at", "status", DIGEST]
        cells = [[_cell(value) for value in table[name].tolist()] for name in names]
        rows = list(zip(*cells, strict=True))
        texts = [place for place, name in enumerate(names) if table[name].dtype.kind not in "iuf"]
        _print(names, rows, texts)

    print_results(as_records(table), as_json, show)


def plot(store: Store, x: str, y: str, by: Sequence[str], heat: bool, out: str | None, as_json: bool) -> None:
    """Draw a measured quantity against a field."""
    from asyncsim.plots.page import draw_legend_beside, draw_title
    from asyncsim.plots.style import save_png
    from asyncsim.plots.sweep import SIZE, draw_heat, draw_sweep

    table = asked(store)
    names = [name for one in by for name in one.split(",") if name]
    try:
        require_numbers("--y", y, table)
        settings = medians(table, y)
        for flag, name in (("--x", x), *(("--by", name) for name in names)):
            _require_field(flag, name, settings)
        if heat and len(names) != 1:
            raise ValueError(f"`--heat` needs one other field for the vertical axis, `--by FIELD`; got {len(names)}.")
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    place = out or str(store.path / f"{y}_against_{'_'.join([x, *names])}.png")

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        if heat:
            draw_heat(ax, settings, x, names[0], y)
        else:
            lines = draw_sweep(ax, settings, x, y, names)
            if names:
                draw_legend_beside(ax, [(str(line.get_label()), line) for line in lines])
        over = sorted({int(count) for count in settings["runs"]})
        seeds = f"{over[0]}" if len(over) == 1 else f"{over[0]} to {over[-1]}"
        free = [name for name in settings.fields if name not in (x, *names)]
        best_of = f"; best of {', '.join(free)}" if free else ""
        draw_title(figure, f"{y} against {x}".replace("_", " "), f"{seeds} runs at each point{best_of}")

    save_png(place, draw, SIZE)
    chosen = best(table, y, per=[name for name in names if name in settings.fields])
    print_results({"picture": place, "best": as_records(chosen)}, as_json, lambda: _show_best(chosen, y, place))


def _show_best(chosen: SweepTable, y: str, place: str) -> None:
    word = "highest" if is_better_larger(y) else "lowest"
    click.echo(f"The {word} {spaced(y)}, quartiles over the seeds:")
    names = [*chosen.fields, "runs", *QUARTILES, "at_the_edge"]
    rows = list(zip(*([_cell(value) for value in chosen[name].tolist()] for name in names), strict=True))
    _print([QUARTILES.get(name, name) for name in names], rows, ())
    click.echo(f"\nPicture in {place}")


def _require_field(flag: str, name: str, settings: SweepTable) -> None:
    if name not in settings.fields:
        known = ", ".join(settings.fields) or "none"
        hint = did_you_mean(name, settings.fields)
        raise ValueError(f"`{flag}` must be a field in which the runs differ, here {known}; got {name!r}.{hint}")


COMMANDS = {
    "status": Command("status", params=[_store_argument(), json_option("it")], callback=status, help=status.__doc__),
    "table": Command(
        "table",
        params=[
            _store_argument(),
            click.Option(["--csv"], metavar="FILE", help="Write the table with all digits there."),
            json_option("the table"),
        ],
        callback=show_table,
        help=show_table.__doc__,
    ),
    "plot": Command(
        "plot",
        params=[
            _store_argument(),
            click.Option(["--x"], required=True, metavar="FIELD", help="The field on the horizontal axis."),
            click.Option(["--y"], default="final_loss", metavar="COLUMN", help="What is measured. [final_loss]"),
            click.Option(["--by"], multiple=True, metavar="FIELD", help="Fields of which each value is a line."),
            click.Option(["--heat"], is_flag=True, help="Colours over two fields, --x and --by."),
            click.Option(["--out"], metavar="FILE", help="The picture. [in the store]"),
            json_option("the best settings"),
        ],
        callback=plot,
        help=plot.__doc__,
    ),
}
