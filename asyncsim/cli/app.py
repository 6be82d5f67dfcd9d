"""The commands, and what becomes of their errors: one line each, never a traceback."""

import json
import os
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

import asyncsim
from asyncsim.cli.cores import use_all_cores
from asyncsim.cli.figures import figures
from asyncsim.cli.options import StudyCommand, find_script, output_options
from asyncsim.cli.rules import rules
from asyncsim.cli.script import Study, load
from asyncsim.cli.show import Bar, show_comparison, show_numbers, show_summary
from asyncsim.cli.stability import stability
from asyncsim.cli.staleness import staleness
from asyncsim.cli.trace import trace
from asyncsim.engine import ReplayInterrupted
from asyncsim.scenario.catalogue import all_fields
from asyncsim.study import Comparison, Experiment, compare, run

TRACEBACK = "ASYNCSIM_TRACEBACK"
RUN_HELP = """Simulate a scenario, replay it, and keep its summary, its numbers and a picture.

SCENARIO.py is a script that defines `scenario = asim.Scenario(...)`. Every field of it can be set by a
flag. With a script, --help shows its own fields and their present values.
"""
EPILOG = f"Set {TRACEBACK}=1 to see where an error comes from."


@click.group(epilog=EPILOG, no_args_is_help=False)
@click.version_option(asyncsim.__version__, prog_name="asyncsim", message="%(prog)s %(version)s")
def app() -> None:
    """Simulate asynchronous SGD: schedule a cluster, replay what it would have learned."""


class RunCommand(click.Command):
    """`asyncsim run`: its flags are those of the script it is given."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Load the script, and parse the rest of the line with the flags that its fields ask for."""
        place = find_script(args)
        if place is None:
            command: click.Command = StudyCommand(
                name="run",
                fields=all_fields(),
                options=output_options("runs/<name of the script>"),
                help=RUN_HELP,
                options_metavar="SCENARIO.py [OPTIONS]",
                callback=_without_script,
            )
        else:
            path, args = args[place], [*args[:place], *args[place + 1 :]]
            with click.Context(self, parent, info_name):  # so that errors can name the command
                command = study_command(load(path), path)
            info_name = f"{info_name} {path}"
        return command.make_context(info_name, args, parent, **extra)


app.add_command(RunCommand("run", help=RUN_HELP))
app.add_command(figures)
app.add_command(rules)
app.add_command(trace)
app.add_command(stability)
app.add_command(staleness)


def study_command(study: Study, path: str) -> StudyCommand:
    """The command that runs a study, with a flag for each of its fields."""
    name = Path(path).stem
    default = str(Path("runs", name))

    def callback(out: str | None, as_json: bool, force: bool, **given: Any) -> None:
        if out is not None and not out.strip():
            raise click.UsageError(f"`--out` must name a folder; got {out!r}. Leave it out for {default}.")
        changes = {key: value for key, value in given.items() if value is not None}
        try:
            changed = study.override(**changes)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        run_study(changed, name, out or default, as_json, force)

    return StudyCommand(
        name=name,
        fields=study.fields(),
        options=output_options(default),
        help=f"Run the scenario in {path}. Present values stand in brackets.",
        callback=callback,
    )


def run_study(study: Study, name: str, out: str, as_json: bool, force: bool) -> None:
    """Run a study with a progress bar, and show what it gave."""
    if isinstance(study, Experiment):
        run_experiment(study, name, out, as_json, force)
        return
    again = "without --force, the same command goes on" if force else "the same command goes on"
    with Bar() as bar:
        bar.expect(next(iter(study.scenarios)) if isinstance(study, Comparison) else name)
        try:
            if isinstance(study, Comparison):
                results = compare(study, out, progress=bar.update, force=force)
            else:
                results = {name: run(study, out, progress=partial(bar.update, name), force=force)}
        except ReplayInterrupted as stopped:
            total = bar.done[1] if bar.done else stopped.run.commits
            done = f"Interrupted after {stopped.run.commits:,} of {total:,} commits"
            raise click.ClickException(f"{done}; {again} from there.") from stopped
        except KeyboardInterrupt as stopped:
            if bar.done is None:
                raise click.ClickException("Interrupted. Nothing has been replayed by this command.") from stopped
            raise click.ClickException(f"Interrupted; {again} from what has been saved.") from stopped
    summaries = {key: result.summary for key, result in results.items()}
    shown = summaries if isinstance(study, Comparison) else summaries[name]
    if as_json:
        click.echo(json.dumps(shown, allow_nan=False))
        return
    (show_comparison if isinstance(study, Comparison) else show_summary)(shown)
    say_where(out, recomputed=any(result.recomputed for result in results.values()))


def run_experiment(experiment: Experiment, name: str, out: str, as_json: bool, force: bool) -> None:
    """Run an experiment, and show its numbers."""
    with Bar() as bar:
        bar.expect(name)
        try:
            findings = experiment.run(out, force=force)
        except KeyboardInterrupt as stopped:
            raise click.ClickException("Interrupted. An experiment begins anew; nothing was kept.") from stopped
    if as_json:
        click.echo(json.dumps(findings.summary, allow_nan=False))
        return
    show_numbers(findings.summary)
    say_where(out, findings.recomputed)


def say_where(out: str, recomputed: bool) -> None:
    """Where the results are, and whether they were there already."""
    click.echo(f"\nResults in {out}" + ("" if recomputed else ", found there (--force computes again)"))


def run_command_line(study: Study | None, arguments: Sequence[str]) -> int:
    """Run the `asyncsim` command, or a study's own, and return the exit status."""
    use_all_cores()
    if study is None:
        return guarded(app, "asyncsim", arguments)
    return guarded(study_command(study, sys.argv[0]), f"python {sys.argv[0]}", arguments)


def guarded(command: click.Command, name: str, arguments: Sequence[str]) -> int:
    """Run a command; turn its errors into one line on standard error and an exit status."""
    try:
        # Not `command.main`, which prints an empty line on Ctrl-C.
        with command.make_context(name, list(arguments)) as context:
            command.invoke(context)
        sys.stdout.flush()
        return 0
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except BrokenPipeError:  # the reader, say `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains when it leaves
        return 1
    except (Exception, KeyboardInterrupt) as error:
        if os.environ.get(TRACEBACK):
            traceback.print_exc()
        message, status = explain(error)
        click.echo(f"Error: {' '.join(message.split())}", err=True)
        return status


def explain(error: BaseException) -> tuple[str, int]:
    """The line and the exit status for an error."""
    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx is not None else "asyncsim"
        return f"{error.format_message()} See: {where} --help", error.exit_code
    if isinstance(error, click.ClickException):
        return error.format_message(), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted.", 1
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.strerror}: {error.filename!r}", 1
    if isinstance(error, (OSError, ValueError, ImportError)):
        return str(error), 1
    return f"{type(error).__name__}: {error}. Set {TRACEBACK}=1 to see where it comes from.", 1


def _without_script(**given: Any) -> None:
    raise click.UsageError("Missing argument SCENARIO.py: the script that defines a scenario.")
