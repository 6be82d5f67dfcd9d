"""`asyncsim sweep`: many runs of a script, and what came of them."""

import os
from typing import Any

import click

from asyncsim._checks import nearest
from asyncsim.cli._command import Command, suggestion
from asyncsim.cli._options import help_for_option
from asyncsim.cli._run import find_script
from asyncsim.cli._source import Source, find_source
from asyncsim.cli._sweep.results import COMMANDS
from asyncsim.cli._sweep.run import sweep_command, sweep_options
from asyncsim.scenario import Scenario

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
            _require_no_command(path)
            made = sweep_command(_scenario_of(path))
        try:
            return made.make_context(f"{info_name} {path}", list(args), parent, **extra)
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


def _require_no_command(path: str) -> None:
    """Refuse a misspelt command, which would be taken for the name of a script."""
    meant = None if os.path.exists(path) or path.endswith(".py") else nearest(path.lower(), COMMANDS)
    if meant is not None:
        raise click.UsageError(f"No such command {path!r}.{suggestion(meant)}")


def _scenario_of(path: str) -> Source:
    source = find_source(path)
    if not isinstance(source.study, Scenario):
        kind = type(source.study).__name__.lower()
        raise click.UsageError(f"SCENARIO.py must define a `scenario` to be swept; {path!r} has a {kind}.")
    return source


command = SweepCommand("sweep", help=HELP)
