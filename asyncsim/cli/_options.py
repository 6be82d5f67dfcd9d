"""Flags of the command line: one for each field of a study. `components._parse` turns their text into values.

A line has the flags of its own study. Those of rules, laws and protocols that it could choose instead are hundreds, so
they exist only on a line that uses one, and the help shows those of the choices that the line makes.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import pairwise
from typing import Any

import click

from asyncsim.cli._command import CONTEXT, Command, wrong_usage
from asyncsim.components._address import paths_named, shorten
from asyncsim.components._field import Field
from asyncsim.components._parse import parse_whole
from asyncsim.scenario._scenario import all_fields
from asyncsim.scenario._tree import settings_of_choice

# How the help writes the value of a field, by the field's kind.
METAVARS = {
    "integer": "INTEGER",
    "number": "NUMBER",
    "law": "MEAN|LAW",
    "switch": "true|false",
    "integers": "INTEGER,…",
    "numbers": "NUMBER,…",
    "integer by worker": "INTEGER[,…]",
    "number by worker": "NUMBER[,…]",
    "text": "NAME",
    "names": "NAME[=N],…",
}
ENTRY = re.compile(r"_+\d+_")  # number of a component in a tuple of them, within the name of a setting
OTHER_FLAGS = """For the flags of another rule, law, protocol or workload, name it and ask for --help, as in
`--rule agn --help`, or use --help-for NAME."""


class Whole(click.IntRange):
    """A whole number in a range, written as digits or as 1e7."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or raise a usage error."""
        try:
            number = parse_whole(value) if isinstance(value, str) else value
        except ValueError:
            self.fail(f"{value!r} is not a whole number.", param, ctx)
        return super().convert(number, param, ctx)


class FieldType(click.ParamType):
    """Converts the text of a flag to the field's kind."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.name = field.kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value that the text stands for, or raise a usage error."""
        try:
            return self.field.parse(value)
        except ValueError as error:
            if self.field.choices:  # The message of a choice names the field already.
                raise click.UsageError(str(error), ctx) from error
            self.fail(str(error), param, ctx)


class FieldCommand(Command):
    """A command with a flag for each field of something, whose help shows them in groups.

    `fields(**choices)` returns the fields with these components chosen, and `every_setting()` path -> field of every
    component that could be.
    """

    def __init__(
        self,
        *,
        fields: Callable[..., Iterable[Field]],
        every_setting: Callable[[], Mapping[str, Field]],
        options: Sequence[click.Option],
        **settings: Any,
    ) -> None:
        self.own_fields = list(fields())
        self.fields, self.every_setting = fields, every_setting
        self.choices: Mapping[str, str] = {}  # field -> the component that a line chooses
        super().__init__(params=[*map(field_flag, self.own_fields), *options], **settings)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse as click does, by the command of this line."""
        # The flags of a line depend on its words, and click knows them only once the context is made.
        words = [_dashed(word) for word in args]
        return super(FieldCommand, self._command_of(words)).make_context(info_name, words, parent, **extra)

    def _command_of(self, args: list[str]) -> "FieldCommand":
        """Return the command of a line: with the flags of other components where it gives one, and with its choices."""
        command = copy(self)
        command.params = [*self.params, *self._flags_of_others(args)]
        command.choices = self._choices_in(args)
        return command

    def _flags_of_others(self, args: list[str]) -> list[click.Option]:
        """Return the flags of other components: there are hundreds, so none for a line that has only its own flags."""
        own_flags = {flag for param in self.params for flag in param.opts}.union(CONTEXT["help_option_names"])
        unknown = {word.partition("=")[0] for word in args if word.startswith("--")} - own_flags
        if not unknown:
            return []
        fields, own_names = self.every_setting(), {param.name for param in self.params}
        # Flags have the shortest names that are unique among all settings. A longer one has more of the path.
        shortest = {name: fields[path] for path, name in shorten(fields).items()}
        words = {flag.removeprefix("--").replace("-", "_").replace(".", "_") for flag in unknown}
        longer = {name: fields[paths[0]] for name in words if (paths := paths_named(name, fields))}
        # An entry that a tuple of components lacks is refused by `override`, which knows how many it has.
        first = {name: ENTRY.sub("_0_", name) for name in words if name not in longer}
        longer |= {name: fields[paths[0]] for name in first if (paths := paths_named(first[name], fields))}
        flags = {name: field for name, field in {**shortest, **longer}.items() if name not in own_names}
        return [field_flag(replace(field, name=name), hidden=True) for name, field in flags.items()]

    def _choices_in(self, args: list[str]) -> dict[str, str]:
        """Return field -> the component that a line chooses, whose flags the help shows."""
        flags = {flag_of(field.name): field.name for field in self.own_fields if field.choices}
        pairs = [(*word.partition("="), following) for word, following in pairwise([*args, ""])]
        return {
            flags[flag]: value if equals else following for flag, equals, value, following in pairs if flag in flags
        }

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section per group, in the order in which the groups first appear, then the options."""
        with wrong_usage():
            fields = list(self.fields(**self.choices))
        for group in dict.fromkeys(field.group for field in fields):
            write_options(group, [field_option(field) for field in fields if field.group == group], ctx, formatter)
        names = {field.name for field in (*fields, *self.own_fields)}
        rest = [param for param in self.get_params(ctx) if param.name not in names]
        write_options("Options", rest, ctx, formatter)


def _dashed(word: str) -> str:
    """Return a word of the line, where a flag may be a path, as in --cluster.regions.0.workers."""
    flag, equals, value = word.partition("=")
    return f"{flag.replace('.', '-')}{equals}{value}" if flag.startswith("--") else word


def write_options(
    title: str, options: Iterable[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write a section of a help, without hidden options."""
    records = [record for option in options if (record := option.get_help_record(ctx)) is not None]
    with formatter.section(title):
        formatter.write_dl(records)


def flag_of(name: str) -> str:
    """Return the flag of a field."""
    return f"--{name.replace('_', '-')}"


def field_flag(field: Field, help: str | None = None, hidden: bool = False) -> click.Option:
    """Return the option of a field, without its choices and its present value."""
    # The second is the name under which the callback receives the value.
    names = [flag_of(field.name), field.name]
    return click.Option(names, type=FieldType(field), metavar=METAVARS[field.kind], help=help, hidden=hidden)


def field_option(field: Field) -> click.Option:
    """Return the option of a field, with its choices and its present value in the help."""
    # There are more rules than a help has room for.
    listed = "`asyncsim rules` lists them" if field.name == "rule" else f"One of {', '.join(field.choices)}"
    choices = f" {listed}." if field.choices else ""
    value = "" if field.value is None else f" [{field.show()}]"
    return field_flag(field, f"{field.help}{choices}{value}")


def help_for_option() -> click.Option:
    """Return the flag `--help-for NAME`, which prints the flags of a rule, law, protocol or workload and leaves."""

    def show(ctx: click.Context, param: click.Parameter, name: str | None) -> None:
        # Shells parse lines that are not finished, and must not get a help as an answer.
        if name is None or ctx.resilient_parsing:
            return
        if name == "all":
            every = all_fields()
            groups = dict.fromkeys(field.group for field in every)
            sections = {group: [field for field in every if field.group == group] for group in groups}
        else:
            with wrong_usage():
                of_choice = settings_of_choice(name)
            sections = {f"With {flag_of(field)} {name}": fields for field, fields in of_choice.items()}
        formatter = ctx.make_formatter()
        for title, fields in sections.items():
            if fields:
                write_options(title, map(field_option, fields), ctx, formatter)
            else:
                formatter.write_text(f"{title}: no flags of its own.")
        click.echo(formatter.getvalue().strip())
        ctx.exit()

    text = "Show the flags of a rule, law, protocol or workload, or with `all` every flag there is, and exit."
    # Eager: it answers before click misses the script or looks at other flags.
    return click.Option(["--help-for"], metavar="NAME", is_eager=True, expose_value=False, callback=show, help=text)
