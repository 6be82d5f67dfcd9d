"""`asyncsim sweep`: many runs of a script, computed and reported."""

import math
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout
from functools import partial
from typing import Any

import click

from asyncsim._checks import nearest
from asyncsim.cli._command import Interrupted, suggestion, wrong_usage
from asyncsim.cli._options import OTHER_FLAGS, FieldCommand, help_for_option
from asyncsim.cli._output import json_option, print_results
from asyncsim.cli._progress import CountBar
from asyncsim.cli._run import ScriptCommand
from asyncsim.cli._source import Source, find_source
from asyncsim.cli._sweep.resources import MANY, confirm, dask_executor, processes_here
from asyncsim.cli._sweep.results import COMMANDS, as_records, show_settings
from asyncsim.cli._sweep.values import axes_of, changed_scenario, draws_of, made, number_of_draws, without_varied
from asyncsim.pool._queue import Stopped
from asyncsim.pool._slots import processes_of
from asyncsim.scenario import Scenario
from asyncsim.scenario._scenario import all_fields
from asyncsim.study._load import importable
from asyncsim.study._store import open_store
from asyncsim.study._sweep import Sweep, SweepProgress, sweep

ONE_RUN = (
    "Note: neither --grid nor --sample is given, so this is a single run. Vary a field, such as "
    "--grid learning_rate=.05,.1 or --grid seed=0:5."
)
PASSED_ON = ("lanes", "patience", "run_limit", "shared_schedule", "retry_failed")  # to `asim.sweep` as they are


def sweep_options(default: str) -> list[click.Option]:
    """The flags for the varied fields, the processes and the store."""
    return [
        click.Option(["--grid"], multiple=True, metavar="FIELD=VALUES", help="Values of a field, in all combinations."),
        click.Option(
            ["--sample"],
            multiple=True,
            metavar="FIELD=DRAW",
            help="Random values of a field: loguniform:LOW:HIGH, uniform:LOW:HIGH, or a list to choose from.",
        ),
        click.Option(["--count"], type=int, help="Number of draws of --sample."),
        click.Option(["--sample-seed"], type=int, default=0, help="Seed of the draws. [0]"),
        click.Option(["--store"], metavar="DIR", help=f"Folder for the results. [{default}]"),
        click.Option(
            ["--jobs"],
            type=click.IntRange(min=0),
            help="Processes to start, each with one thread. With 0 the command computes alone. [one for each core]",
        ),
        click.Option(["--scheduler"], metavar="ADDRESS", help="Address of a Dask scheduler, tcp://HOST:PORT."),
        click.Option(["--scheduler-file"], metavar="FILE", help="The file of a Dask scheduler."),
        click.Option(
            ["--lanes"],
            type=click.IntRange(min=1),
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
        click.Option(["--yes"], is_flag=True, help=f"Start {MANY:,} runs or more without a question."),
        json_option("the table"),
    ]


def sweep_command(source: Source, base: Scenario) -> FieldCommand:
    """The command that sweeps a scenario, with a flag for each of its fields."""
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
        yes: bool,
        as_json: bool,
        **given: Any,
    ) -> None:
        passed_on = {name: given.pop(name) for name in PASSED_ON}
        changes = {key: value for key, value in given.items() if value is not None}
        with wrong_usage():
            named = without_varied(base, changes)
            axes, draws = axes_of(named, grid), draws_of(named, sample)
            changed = changed_scenario(base, changes, axes, draws)
            drawn = number_of_draws(count, axes, draws)
            runs = math.prod(map(len, axes.values())) * drawn
            place = open_store(store or default)
        with ExitStack() as stack:
            executor = None
            if scheduler is not None or scheduler_file is not None:
                executor = stack.enter_context(dask_executor(scheduler, scheduler_file))
            if runs >= MANY and not yes:
                confirm(changed, runs, processes_here(jobs) if executor is None else processes_of(executor))
            with wrong_usage():
                scenarios = made(changed, axes, draws, drawn, sample_seed)
            if not axes and not draws:
                click.echo(ONE_RUN, err=True)
            bar = stack.enter_context(CountBar("runs"))
            if source.origin.script is not None:
                stack.enter_context(importable(str(source.origin.script)))
            stack.enter_context(redirect_stdout(sys.stderr))  # results alone go to standard output
            try:
                found = sweep(
                    scenarios,
                    place.path,
                    jobs=jobs,
                    executor=executor,
                    progress=bar.update,
                    origin=source.origin.with_changes(changes),
                    **passed_on,
                )
            except KeyboardInterrupt as stopped:
                done = "" if bar.latest is None else f" after {_done(bar.latest)}"
                raise Interrupted(f"Interrupted{done}; the same command continues from there.", stopped) from stopped
            except Stopped as stopped:
                done = "" if bar.latest is None else f" Done: {_done(bar.latest)}."
                raise click.ClickException(f"{stopped}{done}") from stopped
        report(found, as_json)

    return FieldCommand(
        name="sweep",
        fields=base.fields,
        others=all_fields,
        options=[*sweep_options(default), help_for_option()],
        help=f"Sweep the scenario of {source.shown}. Present values stand in brackets; `sweep --help` says more.",
        epilog=OTHER_FLAGS,
        callback=callback,
    )


def _done(progress: SweepProgress) -> str:
    return f"{progress.done:,} of {progress.total:,} runs"


def report(found: Sweep, as_json: bool) -> None:
    """Print the results of a sweep, and fail if a run failed."""
    table, place = found.table(), found.store.path
    results = f"Results in {place}: asyncsim sweep table {place}"
    print_results(as_records(table), as_json, partial(show_settings, table), results)
    lost = [scenario.digest for scenario in found.kept if not found.store.has(scenario.digest)]
    if lost:
        reason = found.troubles.get(lost[0]) or "see `asyncsim sweep status`"
        raise click.ClickException(f"{len(lost):,} of {len(found):,} runs failed, the first with: {reason}")


HELP = """Run a grid or random draws of a scenario, and write each result into a store.

\b
  asyncsim sweep SCENARIO.py --grid learning_rate=.01,.05,.1 --grid seed=0:10
  asyncsim sweep SCENARIO.py --sample learning_rate=loguniform:1e-3:1 \\
      --count 200 --grid seed=0:3
  asyncsim sweep status STORE    runs done, running, failed and missing
  asyncsim sweep table STORE     a row for each run, as CSV with --csv FILE
  asyncsim sweep plot STORE --x learning_rate --y final_loss --by workers

Every combination of the values is a run. Values are a list `a,b,c`, or for whole numbers a range `first:end` or
`first:end:step`, which excludes the end. Separate values that are lists by `;`. Existing results are never computed
again, so the same command continues a sweep. Other commands can add runs to the store at the same time, also from
several machines that share the folder.

On a cluster that runs Dask, add `--scheduler tcp://HOST:8786` or `--scheduler-file FILE`. With Slurm, for example:

\b
  srun --ntasks=1 dask scheduler --scheduler-file sched.json &
  sbatch --array=1-20 --wrap 'dask worker --nthreads 1 --scheduler-file sched.json'
  asyncsim sweep SCENARIO.py --grid … --store DIR --scheduler-file sched.json

Without Dask, start the same `asyncsim sweep … --store DIR` on each of the nodes.
"""


class SweepCommand(ScriptCommand):
    """`asyncsim sweep`: one of its own commands, or a script with the flags of its fields."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Take the first argument for a command, or else for a script."""
        if args and args[0] in COMMANDS:
            return COMMANDS[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        try:
            return super().make_context(info_name, [*args], parent, **extra)
        except click.UsageError as error:
            hint = _hint(error, args)
            if not hint:
                raise
            raise click.UsageError(f"{error.format_message()}{hint}", error.ctx) from None


def _hint(error: click.UsageError, args: list[str]) -> str:
    """For somebody who gives several values in another way than by `--grid FIELD=VALUES`."""
    if isinstance(error, click.BadParameter) and error.param is not None and "," in error.message:
        return f" Several values are given as --grid {error.param.name}=a,b,c."
    if "extra argument" in error.message and ("--grid" in args or "--sample" in args):
        return " `--grid` and `--sample` take one word, FIELD=VALUES."
    return ""


def _command_of(path: str) -> FieldCommand:
    """The command that sweeps the scenario of a script, unless that is a misspelt command."""
    meant = None if os.path.exists(path) or path.endswith(".py") else nearest(path.lower(), COMMANDS)
    if meant is not None:
        raise click.UsageError(f"No such command {path!r}.{suggestion(meant)}")
    source = find_source(path)
    if not isinstance(source.study, Scenario):
        kind = type(source.study).__name__.lower()
        raise click.UsageError(f"SCENARIO.py must define a `scenario` to be swept; {path!r} has a {kind}.")
    return sweep_command(source, source.study)


command = SweepCommand("sweep", HELP, sweep_options("runs/<name of the script>,sweep"), _command_of)
