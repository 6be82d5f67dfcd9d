"""The reference of the command line, made of the parser."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping

import click

from asyncsim.cli import _sweep as sweep
from asyncsim.cli._command import COMMANDS, CONTEXT, app
from asyncsim.cli._kinds import KIND
from asyncsim.cli._options import FieldCommand, field_option
from tools.docstrings import escaped
from tools.reference import titled

INTRODUCTION = """``asyncsim COMMAND --help`` prints the same. If you misspell a command, a flag or a value, the error
names the nearest one. The exit status is 0, 1 for a failed check or run, 2 for wrong usage, 130 after Ctrl-C and 143
after SIGTERM. With ``--json`` you get one JSON object on standard output, and progress goes to standard error.
``asyncsim run`` also has a flag for every field of the scenario. ``asyncsim run SCRIPT --help`` lists them with their
values, and ``asyncsim run --help-for NAME`` lists those of a law, a protocol, a rule or a model. Most laws have flags
of their own, such as ``--cv`` with ``--compute gamma``. They are not listed below, because they depend on the law.
You see them with
``asyncsim staleness --compute gamma --help``.

"""


def page() -> str:
    """All commands, and the commands of commands."""
    context = click.Context(app, info_name="asyncsim", **CONTEXT)
    return titled("The command line") + INTRODUCTION + "".join(_sections(context))


def _sections(context: click.Context) -> Iterator[str]:
    for name in COMMANDS:
        command = app.get_command(context, name)
        assert command is not None
        inner = command.make_context(name, [], context, resilient_parsing=True)
        yield section(inner.command, inner, "-")
        if isinstance(command, FieldCommand):
            yield from _kinds(command, inner)
        for below, nested in commands_of(command).items():
            yield section(nested, click.Context(nested, info_name=below, parent=inner), "~")


def commands_of(command: click.Command) -> Mapping[str, click.Command]:
    """The commands of a command."""
    if isinstance(command, click.Group):
        return command.commands
    return sweep.COMMANDS if isinstance(command, sweep.SweepCommand) else {}


def section(command: click.Command, context: click.Context, mark: str) -> str:
    """One command: usage, what it does, its flags."""
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    help = "\n\n".join(map(_paragraph, inspect.cleandoc(command.help or command.short_help or "").split("\n\n")))
    options = command.get_params(context)
    if isinstance(command, FieldCommand):
        options = _with_help(command, options)
    return f"{titled(context.command_path, mark)}``{usage}``\n\n{help}\n\n{_flags(options, context)}"


def _with_help(command: FieldCommand, options: Iterable[click.Parameter]) -> list[click.Parameter]:
    """The options, where those of fields have the meaning, choices and default that `--help` looks up."""
    fields = {field.name: field_option(field) for field in command.fields()}
    return [fields.get(option.name or "", option) for option in options]


def _kinds(command: FieldCommand, context: click.Context) -> Iterator[str]:
    """A section for each other kind of cluster; a library names the flags that it shares with `--cluster rollouts`."""
    choices = next(field.choices for field in command.fields() if field.name == KIND.name)
    known = {field.name: field.help for field in command.fields(cluster="rollouts")}
    known |= {field.name: field.help for field in command.fields() if field.group == "Study"}
    for kind in choices[1:]:
        options = [field_option(field) for field in command.fields(cluster=kind) if field.name != KIND.name]
        own = [option for option in options if kind == "rollouts" or option.name not in known]
        shared = ", ".join(f"``{option.opts[0]}``" for option in options if option not in own)
        text = _flags(own, context)
        if shared:
            text = f"{text}These flags are the same as with ``--cluster rollouts``: {shared}.\n\n"
        yield titled(f"{context.command_path} --cluster {kind}", "~") + text


def _flags(options: Iterable[click.Parameter], context: click.Context) -> str:
    """Each option with its meaning. Arguments are in the usage, and the text of the command describes them."""
    records = [record for option in options if (record := option.get_help_record(context)) and record[1]]
    lines = [f"``{flags}``\n   {_text(' '.join(meaning.split()))}\n" for flags, meaning in records]
    return "".join([*lines, "\n"])


def _paragraph(words: str) -> str:
    """A paragraph of a help; one that click is told not to wrap stays as it is."""
    if words.startswith("\b\n"):
        return "::\n\n" + "\n".join(f"   {line}" for line in words.splitlines()[1:])
    return _text(words)


def _text(words: str) -> str:
    plain = "\n".join(escaped([line.strip() for line in words.splitlines()]))
    plain = plain.replace("`", "``").replace("````", "``")
    # An example of an address is no link.
    return re.sub(r"(``.+?``)|\btcp://[\w:]+", lambda found: found[1] or f"``{found[0]}``", plain)
