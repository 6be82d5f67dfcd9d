"""What becomes of a command's errors and warnings: one line each and an exit status, never a traceback."""

import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from asyncsim.cli import interrupts

TRACEBACK = "ASYNCSIM_TRACEBACK"
MOST_LETTERS = 1000  # of a message, which may quote what somebody typed
HINT = f"Set {TRACEBACK}=1 to see where an error comes from."


class Interrupted(click.ClickException):
    """Ctrl-C or SIGTERM, with a line that says how to continue.

    Args:
        message: The line.
        error: What the signal raised.
    """

    def __init__(self, message: str, error: KeyboardInterrupt) -> None:
        super().__init__(message)
        self.status = interrupts.exit_status(error)


def exit_status(command: click.Command, name: str, arguments: Sequence[str]) -> int:
    """Run a command and return its exit status; an error becomes one line on standard error."""
    try:
        # Not `command.main`, which prints an empty line on Ctrl-C.
        with warnings_in_one_line(), command.make_context(name, list(arguments)) as context:
            command.invoke(context)
        sys.stdout.flush()
        return 0
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except BrokenPipeError:  # the reader, say `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains on its way out
        return 1
    except (Exception, KeyboardInterrupt) as error:
        interrupts.quit_from_now_on()  # all that can be kept is
        if os.environ.get(TRACEBACK):
            traceback.print_exc()
        message, status = explain(error)
        click.echo(f"Error: {in_one_line(message)}", err=True)
        return status


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Show a warning to the user without the place in the code that it comes from; others as Python does."""
    shown = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **further: Any) -> None:
        if category is UserWarning:
            click.echo(f"Warning: {in_one_line(str(message))}", err=True)
        else:
            shown(message, category, *where, **further)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = shown


def in_one_line(message: str) -> str:
    """A message without line breaks, and without its middle if it is very long: the remedy stands at the end.

    Example:
        >>> in_one_line("two\\nlines"), len(in_one_line("9" * 5000))
        ('two lines', 1000)
    """
    line, half = " ".join(message.split()), MOST_LETTERS // 2
    return line if len(line) <= MOST_LETTERS else f"{line[: half - 1]}…{line[-half:]}"


def explain(error: BaseException) -> tuple[str, int]:
    """The line and the exit status for an error."""
    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx is not None else "asyncsim"
        message = error.format_message()
        return f"{message}{'' if message.endswith(('.', '?')) else '.'} See: {where} --help", error.exit_code
    if isinstance(error, Interrupted):
        return error.format_message(), error.status
    if isinstance(error, click.ClickException):
        return error.format_message(), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted.", interrupts.exit_status(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.strerror}: {error.filename!r}", 1
    if isinstance(error, MemoryError):
        return f"Out of memory. {error}".strip(), 1
    if isinstance(error, (OSError, ValueError, ImportError)):
        return str(error), 1
    return f"{type(error).__name__}: {error}. {HINT}", 1
