"""Flags made of a study's fields."""

from collections.abc import Iterable, Sequence
from typing import Any

import click

from asyncsim.scenario.catalogue import all_fields
from asyncsim.scenario.fields import Field

METAVARS = {
    "integer": "INTEGER",
    "number": "NUMBER",
    "switch": "true|false",
    "integers": "INTEGER,…",
    "numbers": "NUMBER,…",
    "text": "NAME",
    "names": "NAME[=N],…",
}
STUDY_FLAGS = ("--json", "--force", "--help")  # all other options take a value


class FieldType(click.ParamType):
    """Converts the text of a flag to the field's kind."""

    def __init__(self, field: Field) -> None:
        self.field, self.name = field, field.kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value that the text stands for, or a usage error."""
        try:
            return self.field.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def flag_of(name: str) -> str:
    """The flag of a field: "learning_rate" -> "--learning-rate"; underscores are understood as well."""
    return f"--{name.replace('_', '-')}"


def field_option(field: Field, hidden: bool = False) -> click.Option:
    """The flag of a field, its present value in the help."""
    help = field.help
    if field.name == "rule":
        help = f"{help} `asyncsim rules` lists them."
    elif field.choices:
        help = f"{help} One of {', '.join(field.choices)}."
    help = help if field.value is None else f"{help} [{field.show()}]"
    names = [flag_of(field.name), field.name]
    return click.Option(names, type=FieldType(field), metavar=METAVARS[field.kind], help=help, hidden=hidden)


def output_options(default: str) -> list[click.Option]:
    """Where results go."""
    out_help = f"Folder for the results; one that holds this very scenario is not computed again. [{default}]"
    return [
        click.Option(["--out"], metavar="DIR", help=out_help),
        click.Option(["--json", "as_json"], is_flag=True, help="Print the summary as one JSON object."),
        click.Option(["--force"], is_flag=True, help="Begin anew; what the folder holds is replaced at the end."),
    ]


class StudyCommand(click.Command):
    """A command whose help shows the fields in groups.

    Fields of other rules, laws and workloads are understood but not shown: with `--rule gem`, kappa is one.
    """

    def __init__(self, *, fields: Sequence[Field], options: Sequence[click.Option], **settings: Any) -> None:
        self.fields = fields
        shown = {field.name for field in fields}
        others = [field_option(field, hidden=True) for field in all_fields() if field.name not in shown]
        params: list[click.Parameter] = [*(field_option(field) for field in fields), *options, *others]
        context = {"token_normalize_func": lambda token: token.replace("_", "-")}
        super().__init__(params=params, context_settings=context, **settings)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One section a group, in the order in which the groups first appear."""
        groups = {field.name: field.group for field in self.fields}
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                sections.setdefault(groups.get(param.name or "", "Output"), []).append(record)
        for group, records in sections.items():
            with formatter.section(group):
                formatter.write_dl(records)


def find_script(arguments: Iterable[str]) -> int | None:
    """Place of the script among the arguments: the first that is neither a flag nor a flag's value.

    Example:
        >>> find_script(["--workers", "30", "--json", "study.py"]), find_script(["--workers", "30"])
        (3, None)
    """
    value_follows = False
    for place, argument in enumerate(arguments):
        if value_follows:
            value_follows = False
        elif argument.startswith("-"):
            value_follows = argument not in STUDY_FLAGS and "=" not in argument
        else:
            return place
    return None
