"""`asyncsim sweep`: many runs of a script, here or on a Dask cluster. `results.py` shows what a store holds."""

import math
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from asyncsim import _memory as memory
from asyncsim._checks import brief, nearest
from asyncsim._metrics import counted
from asyncsim.calibration._priors import Prior
from asyncsim.cli._command import Interrupted, say, suggestion, wrong_usage
from asyncsim.cli._options import OTHER_FLAGS, FieldCommand, Whole, help_for_option
from asyncsim.cli._output import json_option, print_results
from asyncsim.cli._progress import CountBar
from asyncsim.cli._run import ScriptCommand, script_option
from asyncsim.cli._source import Source, find_source
from asyncsim.cli._sweep.axes import number_of_draws, parse_axes, parse_cases, parse_draw, parse_values
from asyncsim.cli._sweep.results import COMMANDS, as_records, show_settings
from asyncsim.files._json import read_json
from asyncsim.pool._queue import Stopped
from asyncsim.pool._slots import processes_of
from asyncsim.scenario import Scenario
from asyncsim.scenario._scenario import every_setting_of_scenarios, settings_of_regions
from asyncsim.study import _grid as grids
from asyncsim.study._batches import batches_of
from asyncsim.study._load import importable
from asyncsim.study._replay import compute
from asyncsim.study._store import open_store
from asyncsim.study._sweep import Sweep, sweep

LEAST_CONFIRMED = 5000  # runs from which the command asks before it starts
PROBE_COMMITS = 2000  # commits, at most, by which the time and the disk of a run are estimated
# An address such as tcp://host:8786 or host:8786.
ADDRESS = r"([a-z]+://)?[^/\s]+:\d+"
CONNECT_SECONDS = 5.0  # seconds in which a scheduler must answer
ONE_RUN = (
    "Note: neither --grid nor --sample is given, so this is a single run. Vary a field, such as "
    "--grid learning_rate=.05,.1 or --grid seed=0:5."
)
# Flags that are arguments of `asim.sweep` as they are.
SWEEP_OPTIONS = ("lanes", "patience", "run_limit", "shared_schedule", "retry_failed")


def sweep_options(default: str) -> list[click.Option]:
    """Return the flags for the varied fields, the processes and the store."""
    return [
        click.Option(["--grid"], multiple=True, metavar="FIELD=VALUES", help="Values of a field, in all combinations."),
        click.Option(
            ["--case"],
            multiple=True,
            metavar="NAME:FIELD=VALUES,…",
            help="A named case that sets some fields, such as sync:protocol=synchronous. Repeatable. Tables have the "
            "names in a column `case`.",
        ),
        click.Option(
            ["--sample"],
            multiple=True,
            metavar="FIELD=DRAW",
            help="Random values of a field: loguniform:LOW:HIGH, uniform:LOW:HIGH, or a list to choose from.",
        ),
        click.Option(["--count"], type=Whole(min=1), help="Number of draws of --sample."),
        click.Option(["--sample-seed"], type=Whole(min=0), default=0, help="Seed of the draws. [0]"),
        click.Option(["--store"], metavar="DIR", help=f"Folder for the results. [{default}]"),
        script_option(),
        click.Option(
            ["--jobs"],
            type=Whole(min=0),
            help="Processes to start, each with one thread. With 0 the command computes alone. [one for each core]",
        ),
        click.Option(["--scheduler"], metavar="ADDRESS", help="Address of a Dask scheduler, tcp://HOST:PORT."),
        click.Option(["--scheduler-file"], metavar="FILE", help="The file of a Dask scheduler."),
        click.Option(
            ["--lanes"],
            type=Whole(min=1),
            metavar="N",
            help="Compute up to N runs in one program, which is faster for small models and rounds differently. [1]",
        ),
        click.Option(
            ["--patience"],
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            help="Longest wait for other processes or for workers. [no limit]",
        ),
        click.Option(
            ["--run-limit"],
            type=click.FloatRange(min=0, min_open=True),
            metavar="SECONDS",
            help="Longest time of a run, beyond which it has failed. [no limit]",
        ),
        click.Option(["--shared-schedule"], is_flag=True, help="All seeds use the compute times of the first."),
        click.Option(["--retry-failed"], is_flag=True, help="Run the failed runs again."),
        click.Option(["--yes"], is_flag=True, help=f"Start {LEAST_CONFIRMED:,} runs or more without a question."),
        json_option("the table"),
    ]


def sweep_command(source: Source, base: Scenario) -> FieldCommand:
    """Return the command that sweeps a scenario, with a flag for each of its fields."""
    default = f"{source.folder},sweep"

    def callback(
        grid: Sequence[str],
        case: Sequence[str],
        sample: Sequence[str],
        count: int | None,
        sample_seed: int,
        store: str | None,
        jobs: int | None,
        scheduler: str | None,
        scheduler_file: str | None,
        yes: bool,
        as_json: bool,
        **flags: Any,
    ) -> None:
        changes = {key: value for key, value in flags.items() if value is not None and key not in SWEEP_OPTIONS}
        with wrong_usage():
            common = override_or_none(base, changes)
            named = base if common is None else common
            axes = {**parse_cases(named, case), **parse_axes("--grid", named, grid, parse_values)}
            draws = parse_axes("--sample", named, sample, parse_draw)
            changed = override_with_varied(base, changes, axes, draws) if common is None else common
            draws_per_case = number_of_draws(count, axes, draws)
            runs = math.prod(len(grids.alternatives(name, values)) for name, values in axes.items()) * draws_per_case
            place = open_store(store or default)
        with ExitStack() as stack:
            executor = None
            if scheduler is not None or scheduler_file is not None:
                executor = stack.enter_context(dask_executor(scheduler, scheduler_file))
            if runs >= LEAST_CONFIRMED and not yes:
                confirm(changed, runs, processes_here(jobs) if executor is None else processes_of(executor))
            with wrong_usage():
                scenarios = make_scenarios(changed, axes, draws, draws_per_case, sample_seed)
            if not axes and not draws:
                say(ONE_RUN)
            bar = stack.enter_context(CountBar("runs"))
            if source.script is not None:
                # Modules beside the script can be imported while the sweep runs.
                stack.enter_context(importable(source.script))
            stack.enter_context(redirect_stdout(sys.stderr))  # Standard output is for the results alone.
            try:
                result = sweep(
                    scenarios,
                    place.path,
                    jobs=jobs,
                    executor=executor,
                    progress=bar.update,
                    origin=source.origin.with_changes(changes),
                    **{name: flags[name] for name in SWEEP_OPTIONS},
                )
            except KeyboardInterrupt as interrupt:
                done = bar.done and f" after {bar.done}"
                message = f"Interrupted{done}; the same command continues from there."
                raise Interrupted(message, interrupt) from interrupt
            except Stopped as interrupt:
                raise click.ClickException(f"{interrupt}{bar.done and f' Done: {bar.done}.'}") from interrupt
        report(result, as_json)

    return FieldCommand(
        name="sweep",
        fields=base.fields,
        every_setting=lambda: {**every_setting_of_scenarios(), **settings_of_regions(base)},
        options=[*sweep_options(default), help_for_option()],
        help=f"Sweep the scenario of {source.argument}. Present values stand in brackets; `sweep --help` says more.",
        epilog=OTHER_FLAGS,
        callback=callback,
    )


def report(result: Sweep, as_json: bool) -> None:
    """Print the results of a sweep, and fail if a run failed."""
    table, place = result.table(), result.store.path
    results = f"Results in {place}: asyncsim sweep table {place}"
    print_results(as_records(table), as_json, partial(show_settings, table), results)
    # A sweep whose runs failed has results all the same, but a script must notice.
    failed = [scenario.digest for scenario in result.kept if not result.store.has(scenario.digest)]
    if failed:
        reason = result.troubles.get(failed[0]) or "see `asyncsim sweep status`"
        raise click.ClickException(f"{len(failed):,} of {len(result):,} runs failed, the first with: {reason}")


def make_scenarios(
    base: Scenario, axes: Mapping[str, Sequence[Any]], draws: Mapping[str, Any], count: int, seed: int
) -> tuple[Scenario, ...]:
    """Return the scenarios of a grid, of random draws, or of each draw with a grid."""
    if not draws:
        return grids.grid(base, **axes)
    drawn = grids.sample(base, count=count, seed=seed, seeds=axes.get("seed"), **draws)
    # All draws share their seeds, so `sample` takes this axis itself.
    rest = {name: values for name, values in axes.items() if name != "seed"}
    return tuple(scenario for each in drawn for scenario in grids.grid(each, **rest)) if rest else drawn


def override_or_none(base: Scenario, changes: Mapping[str, Any]) -> Scenario | None:
    """Return the scenario with the settings that all runs have in common, or None if they do not fit without others."""
    try:
        return base.override(**changes)
    except ValueError:  # To know whether settings fit together is to build what they describe.
        return None


def override_with_varied(
    base: Scenario, changes: Mapping[str, Any], axes: Mapping[str, Sequence[Any]], draws: Mapping[str, Any]
) -> Scenario:
    """Return the scenario with the settings that all runs have in common, and with some value of each varied field.

    A setting may belong to a rule or a law that only a varied field brings.
    """
    varied = {name: source for name, source in {**axes, **draws}.items() if name not in changes}
    examples = {
        name: source.sample(np.random.default_rng(0), 1).item() if isinstance(source, Prior) else source[0]
        for name, source in varied.items()
        if not isinstance(source, Mapping)  # Of the cases, some may lack the changes.
    }
    return base.override(**changes, **examples)


class Cost(NamedTuple):
    """The time and the disk of a run."""

    seconds: float  # of wall time, once its program is compiled
    compiling: float  # seconds to compile the program, once in each process
    size: float  # bytes in the store


def confirm(base: Scenario, runs: int, processes: int) -> None:
    """State the number of runs, their time and their disk space, and ask whether to start."""
    cost = probe(base)
    # Each process compiles once, all at the same time.
    seconds = cost.compiling + math.ceil(runs / processes) * cost.seconds
    estimate = (
        f"{counted(runs, 'run', ',')}: about {memory.duration(max(seconds, 1.0))} in {processes:,} "
        f"process{'es' * (processes > 1)}, "
        f"and {memory.size(runs * cost.size)} of disk, estimated from a piece of one run."
    )
    # Nobody could answer.
    if not sys.stdin.isatty():
        raise click.UsageError(f"{estimate} Add --yes to start.")
    if not click.confirm(f"{estimate} Start?", err=True):
        raise click.UsageError("Not started.")


def processes_here(jobs: int | None) -> int:
    """Return the number of processes that compute at once: more of them than cores share the cores."""
    return max(1, memory.cores() if jobs is None else min(jobs, memory.cores()))


def piece_of(base: Scenario) -> tuple[Scenario, float]:
    """Return the first commits of a run as a run of their own, and the number of all its commits, estimated."""
    total = base.expected_commits
    if total is None:
        assert base.seconds is not None
        try:
            # A scenario of simulated seconds: the first commits tell how many a second has.
            reached = base.override(commits=PROBE_COMMITS).schedule().seconds
        except ValueError:  # They never come, for example because a protocol waits for a worker that is down.
            reached = 0.0
        if not reached:
            return base, len(base.schedule())
        total = PROBE_COMMITS * base.seconds / reached
    return base.override(commits=int(max(1, min(total, PROBE_COMMITS)))), total


def probe(base: Scenario) -> Cost:
    """Measure the cost of a run like this one on its first commits."""
    short, total = piece_of(base)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        (batch,) = batches_of([short])
        trace = store.trace(short)
        ((_, first),) = compute(batch, trace)  # This call compiles, and the next one does not.
        ((result, seconds),) = compute(batch, trace)
        store.put(result, seconds)
        size = sum(path.stat().st_size for path in store.folder(short.digest).iterdir())
    share = total / len(trace) if len(trace) else 1.0
    spent = seconds["wall_seconds"] - seconds["compile_seconds"]
    return Cost(spent * share, max(0.0, first["wall_seconds"] - spent), size * share)


@contextmanager
def dask_executor(address: str | None, file: str | None) -> Iterator[Any]:
    """Connect to a Dask cluster and yield its executor."""
    if file is not None:
        if not Path(file).is_file():
            raise click.ClickException(f"`--scheduler-file` {file!r} is not a file. Has the scheduler been started?")
        content = read_json(Path(file))
        if not isinstance(content, dict) or "address" not in content:
            remedy = "Start the scheduler anew: dask scheduler --scheduler-file FILE."
            raise click.ClickException(f"`--scheduler-file` {file!r} is not one that Dask has written. {remedy}")
    elif address is not None and not re.fullmatch(ADDRESS, address):
        example = "such as tcp://localhost:8786"
        raise click.UsageError(f"`--scheduler` must be an address with a port, {example}; got {brief(address)}.")
    try:
        from distributed import Client
    except ImportError as error:
        raise click.ClickException(
            "a Dask cluster needs dask[distributed], which is not installed. Run: pip install 'asyncsim[cluster]'"
        ) from error
    import logging

    for name in ("distributed", "distributed.client", "distributed.core", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # The errors below say it in one line.
    # Each error names the flag that gave the address.
    where = f"`--scheduler-file` {file!r}" if file is not None else f"`--scheduler` {address!r}"
    try:
        client = Client(address, scheduler_file=file, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        reason = str(error).split("\n")[0]
        raise click.ClickException(f"{where} cannot be reached within {CONNECT_SECONDS:g} seconds: {reason}") from error
    try:
        # A sweep would wait for workers in silence, and a wrong scheduler is more likely.
        if not client.nthreads():
            raise click.ClickException(f"{where} has no workers yet. Start some: dask worker …")
        yield client.get_executor()
    finally:
        with suppress(Exception):
            # A scheduler that has gone must not turn a result into an error.
            client.close(timeout=CONNECT_SECONDS)


HELP = """Run a grid or random draws of a scenario, and write each result into a store.

\b
  asyncsim sweep SCENARIO.py --grid learning_rate=.01,.05,.1 --grid seed=0:10
  asyncsim sweep SCENARIO.py --sample learning_rate=loguniform:1e-3:1 \\
      --count 200 --grid seed=0:3
  asyncsim sweep SCENARIO.py --case async:protocol=asynchronous \\
      --case 4-async:protocol=k_async,k=4 --grid seed=0:12
  asyncsim sweep status STORE    runs done, running, failed and missing
  asyncsim sweep table STORE     a row for each run, as CSV with --csv FILE
  asyncsim sweep plot STORE --x learning_rate --y final_loss --by workers

Every combination of the values is a run, in each case if there are any. Values are a list `a,b,c`, or for whole numbers
a range `first:end` or `first:end:step`, which excludes the end. Separate values that are lists by `;`, and write a
value with one number per worker in brackets, as in `window=10,[10,20,40]`. Existing results are never computed again,
so the same command continues a sweep. Other commands can add runs to the store at the same time, also from several
machines that share the folder.

On a cluster that runs Dask, add `--scheduler tcp://HOST:8786` or `--scheduler-file FILE`. With Slurm, for example:

\b
  srun --ntasks=1 dask scheduler --scheduler-file sched.json &
  sbatch --array=1-20 --wrap 'dask worker --nthreads 1 --scheduler-file sched.json'
  asyncsim sweep SCENARIO.py --grid … --store DIR --scheduler-file sched.json

Without Dask, start the same `asyncsim sweep … --store DIR` on each of the nodes.
"""


class SweepCommand(ScriptCommand):
    """`asyncsim sweep`: one of its own commands, or a script with the flags of its fields."""

    def command_of(self, path: str, script: str | None) -> FieldCommand:
        """Return the command that sweeps the scenario of a script, unless that is a misspelt command."""
        meant = None if os.path.exists(path) or path.endswith(".py") else nearest(path.lower(), COMMANDS)
        if meant is not None:
            raise click.UsageError(f"No such command {path!r}.{suggestion(meant)}")
        source = find_source(path, script)
        if not isinstance(source.study, Scenario):
            kind = type(source.study).__name__.lower()
            raise click.UsageError(f"SCENARIO.py must define a `scenario` to be swept; {path!r} has a {kind}.")
        return sweep_command(source, source.study)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Take the first argument for a command, or else for a script."""
        # A script of such a name is run by its path, such as ./status.
        if args and args[0] in COMMANDS:
            return COMMANDS[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        try:
            return super().make_context(info_name, [*args], parent, **extra)
        # Somebody may give several values in another way than by --grid.
        except click.UsageError as error:
            if isinstance(error, click.BadParameter) and error.param is not None and "," in error.message:
                hint = f"Several values are given as --grid {error.param.name}=a,b,c."
            elif "extra argument" in error.message and ("--grid" in args or "--sample" in args):
                hint = "`--grid` and `--sample` take one word, FIELD=VALUES."
            else:
                raise
            raise click.UsageError(f"{error.format_message()} {hint}", error.ctx) from None


command = SweepCommand("sweep", HELP, sweep_options("runs/<name of the script>,sweep"))
