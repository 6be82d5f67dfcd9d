"""The `asyncsim` command, whose commands are imported on demand, with errors and warnings of one line each."""

import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import click

from asyncsim._checks import nearest, truncate
from asyncsim._version import __version__
from asyncsim.cli import _interrupts as interrupts
from asyncsim.cli._streams import Closed

TRACEBACK = "ASYNCSIM_TRACEBACK"  # the environment variable that asks for tracebacks
MOST_LETTERS = 1000  # in a message, which may quote a long argument
HINT = f"Set {TRACEBACK}=1 to see where an error comes from."
# Ending of a file -> the command that somebody has left out in front of it.
FILES = {".py": "asyncsim run", ".npz": "asyncsim trace info", ".csv": "asyncsim trace info"}
CONTEXT: dict[str, Any] = {
    "help_option_names": ["-h", "--help"],
    # `--learning_rate` is `--learning-rate`.
    "token_normalize_func": lambda token: token.replace("_", "-"),
}


class Command(click.Command):
    """A command that suggests a flag for one that it does not have."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, with better suggestions."""
        words = list(args)  # Click consumes the list.
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            # Of "-lr", click names only "-l".
            word = next((word for word in words if word.startswith(error.option_name)), error.option_name)
            option = word.partition("=")[0]
            visible = [param for param in self.get_params(ctx) if isinstance(param, click.Option) and not param.hidden]
            # Hidden flags are those of other components, which the line did not name.
            flags = [flag.removeprefix("--") for param in visible for flag in param.opts if flag.startswith("--")]
            meant = nearest(option.strip("-"), flags)
            raise click.UsageError(f"No such option {option!r}.{suggestion(meant and f'--{meant}')}", ctx) from None
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # Click leaves it out where a flag lacks its value.
            raise


class Group(click.Group):
    """A group that suggests a command for one that it does not have."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command as click does, with better suggestions."""
        name, commands = args[0], self.list_commands(ctx)
        if name in commands or name.startswith("-"):
            return super().resolve_command(ctx, args)
        meant = f"--{name}" if name in ("help", "version") else nearest(name.lower(), commands)
        # Who gives a file has left out the command that reads it.
        for suffix, forgotten in FILES.items():
            if name.endswith(suffix):
                meant = f"{forgotten} {name}"
        raise click.UsageError(f"No such command {name!r}.{suggestion(meant)}", ctx)


class Checked(click.ParamType):
    """A text that a function converts, whose ValueError becomes a usage error."""

    def __init__(self, name: str, parse: Callable[[str], Any], completed: str = "") -> None:
        self.name, self.parse = name, parse
        self.completed = completed  # What a shell offers: "tags", "files", or both.

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value, or raise a usage error."""
        with wrong_usage():
            return self.parse(value)


RUN = Checked("run", str, "tags files")  # the text that names a run, which the command looks up


@contextmanager
def wrong_usage() -> Iterator[None]:
    """Turn a ValueError into an error of usage, with status 2."""
    try:
        yield
    except ValueError as error:
        # Click prints it with the command line that would help.
        raise click.UsageError(str(error)) from error


# Control characters except tab and line feed, and the marks that reverse the direction of a line.
HIDDEN = (*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
ESCAPES = {code: chr(code).encode("unicode_escape").decode() for code in HIDDEN}


def printable(text: str) -> str:
    """Escape characters that move the cursor, colour or reorder others: a folder may be somebody else's."""
    return text.translate(ESCAPES)


def echo(message: object = "") -> None:
    """Print a line for people."""
    click.echo(printable(str(message)))


def suggestion(meant: str | None) -> str:
    """Return the question that ends an error message, or nothing."""
    return "" if meant is None else f" Did you mean {meant!r}?"


class Interrupted(click.ClickException):
    """Ctrl-C or SIGTERM, with a line that says how to continue."""

    def __init__(self, message: str, error: KeyboardInterrupt) -> None:
        super().__init__(message)
        # The shell learns by the status which signal it was.
        self.status = interrupts.exit_status(error)


def exit_status(command: click.Command, name: str, arguments: Sequence[str]) -> int:
    """Run a command and return its exit status. An error becomes one line on standard error."""
    status = _invoke(command, name, arguments)
    if status == 0 and isinstance(sys.stdout, Closed) and sys.stdout.lost:
        # A script that reads nothing must not take this for a success.
        say("Error: standard output is closed, so that nothing could be printed.")
        return 1
    return status


def _invoke(command: click.Command, name: str, arguments: Sequence[str]) -> int:
    try:
        with warnings.catch_warnings():
            # A user of the command cannot change the line of code from which a warning comes.
            warnings.showwarning = partial(_show_warning, warnings.showwarning)
            # Not `command.main`, which prints an empty line on Ctrl-C. Commands of commands have the same settings.
            with command.make_context(name, list(arguments), **CONTEXT) as context:
                command.invoke(context)
        sys.stdout.flush()
        return 0
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except BrokenPipeError:  # The reader, such as `head`, has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python would complain on its way out.
        return 1
    except (Exception, KeyboardInterrupt) as error:
        interrupts.quit_from_now_on()  # Everything that can be kept has been kept.
        # An error of asyncsim itself is easier to report with its traceback.
        if os.environ.get(TRACEBACK):
            say(traceback.format_exc().rstrip())
        message, status = explain(error)
        say(f"Error: {in_one_line(message)}")
        return status


def say(text: str) -> None:
    """Print a line on standard error, if anything can be written there: a full disk below it ends no computation."""
    with suppress(OSError):
        click.echo(printable(text), err=True)


def _show_warning(
    show_other: Callable[..., None], message: Warning | str, category: type[Warning], *place: Any, **options: Any
) -> None:
    """Show a warning to the user without the place in the code that it comes from, and others as Python does."""
    # Others, such as a DeprecationWarning of a dependency, keep the form that Python gives them.
    if category is UserWarning:
        say(f"Warning: {in_one_line(str(message))}")
    else:
        show_other(message, category, *place, **options)


def in_one_line(message: str) -> str:
    """Return a message without line breaks, and without its middle if it is very long: the remedy stands at the end."""
    return truncate(printable(message), MOST_LETTERS, tail=MOST_LETTERS // 2)


def explain(error: BaseException) -> tuple[str, int]:
    """Return the line and the exit status for an error."""
    if isinstance(error, click.UsageError):
        # A usage error names the help of the command in which it came up.
        where = error.ctx.command_path if error.ctx is not None else "asyncsim"
        message = error.format_message()
        return f"{message}{'' if message.endswith(('.', '?')) else '.'} See: {where} --help", error.exit_code
    if isinstance(error, click.ClickException):
        return error.format_message(), error.status if isinstance(error, Interrupted) else error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted.", interrupts.exit_status(error)
    # The system's own words, without the number of the error.
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.strerror}: {error.filename!r}", 1
    if isinstance(error, MemoryError):
        return f"Out of memory. {error}".strip(), 1
    # These are the errors that asyncsim words for its users. Any other one may be a mistake of asyncsim.
    if isinstance(error, (OSError, ValueError, ImportError)):
        return str(error), 1
    return f"{type(error).__name__}: {error}. {HINT}", 1


# Name -> line of help. The module has the same name unless `MODULES` gives another.
COMMANDS = {
    "run": "Simulate and replay the scenario of a script.",
    "sweep": "Run a grid or random draws of a scenario.",
    "rules": "List the update rules, or explain one of them.",
    "figures": "Draw the paper's figures and check its claims.",
    "staleness": "Compare predicted staleness with a simulation.",
    "stability": "Compare predicted step-size limits with a simulation.",
    "calibrate": "Fit a cluster model to the log of a real cluster.",
    "trace": "Check, summarise or export a trace.",
    "cost": "Account for the idle time, bytes, energy and money of a run.",
    "runs": "List the runs below a folder.",
    "show": "Print the summary and the scenario of a run.",
    "compare": "Compare runs in a table and a picture.",
    "animate": "Animate a run as a page, a GIF or an MP4.",
    "explore": "Write a page with sliders to explore staleness.",
    "tag": "Name a run.",
    "untag": "Remove a tag.",
    "retag": "Rename a tag.",
    "tags": "List the tags and their folders.",
    "path": "Print the folder of a tag.",
    "completion": "Print the shell-completion script.",
}
MODULES = {
    "cost": "trace",
    "explore": "animate",
    **dict.fromkeys(("show", "tag", "untag", "retag", "tags", "path"), "runs"),
}


class App(Group):
    """The group of all commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command from its module."""
        if cmd_name not in COMMANDS:
            return None
        # JAX and matplotlib take seconds to import, so a command that needs neither does not.
        module = importlib.import_module(f"asyncsim.cli._{MODULES.get(cmd_name, cmd_name)}")
        return getattr(module, cmd_name if cmd_name in MODULES else "command")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is about to run."""
        resolved = super().resolve_command(ctx, args)
        # From here on, there may be something to save when a signal comes.
        interrupts.raise_from_now_on()
        return resolved

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names of the commands and their lines of help, which ask for no import."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=App, no_args_is_help=False, epilog=HINT)
@click.version_option(__version__, prog_name="asyncsim", message="%(prog)s %(version)s")
def app() -> None:
    """Simulate asynchronous SGD: schedule a cluster, then replay the training on it.

    For example: `asyncsim run scenarios/gem_digits.py --workers 30`. `asyncsim COMMAND --help` explains a command.
    """
