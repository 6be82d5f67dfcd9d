"""`asyncsim rules`: update rules, what changes them, and rules around rules in tables, or one of them in detail."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import click

from asyncsim._checks import did_you_mean
from asyncsim.cli._command import Command
from asyncsim.cli._output import json_option, print_results, print_table
from asyncsim.components._families import FAMILIES
from asyncsim.components._help import described_arguments
from asyncsim.rules import WithProxy, compressed, hierarchical, local, scheduled, weighted
from asyncsim.rules._citations import entry_of

SECTION = re.compile(r"^(Args|Returns|Raises|Example|References):$", re.MULTILINE)
COMPRESSED = "--compressor NAME compresses the messages of a rule:"
WEIGHTED = "--weight NAME multiplies gradients by a weight of their age:"
SCHEDULED = "--step-schedule NAME changes the step size with the server's steps:"
COMBINED = "Rules around rules, in a script, as in rules.local(rules.Downpour(1.0), …):"
AROUND = {
    "compressed": compressed,
    "hierarchical": hierarchical,
    "local": local,
    "scheduled": scheduled,
    "weighted": weighted,
    "with_proxy": WithProxy,
}
CHANGES = {"compressors": COMPRESSED, "weights": WEIGHTED, "step_schedules": SCHEDULED}  # family -> title of its table
NOTE = """`asyncsim rules NAME` explains one, with its arguments;
`asyncsim run SCENARIO.py --rule NAME` runs it."""


def describe(name: str) -> dict[str, Any]:
    """Return the arguments that must be given, the others with their defaults, the first line of the docstring."""
    constructor = constructors()[name]
    parameters = inspect.signature(constructor).parameters
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    return {
        "required": [name for name, default in defaults.items() if default is inspect.Parameter.empty],
        "defaults": {name: default for name, default in defaults.items() if default is not inspect.Parameter.empty},
        "summary": (inspect.getdoc(constructor) or "").partition("\n")[0].replace("`", ""),
        "made_for": getattr(constructor, "purpose", None),
        "citation": getattr(constructor, "publication", None),
    }


def constructors() -> dict[str, Callable[..., Any]]:
    """Return name -> constructor, of all that can be explained."""
    changes = {name: kind for family in CHANGES for name, kind in FAMILIES[family].items()}
    return {**FAMILIES["rules"], **changes, **AROUND}


def explain(name: str) -> dict[str, Any]:
    """Explain one in full: as `describe`, with formula, remarks, the meaning of each argument, and the publication."""
    constructor, description = constructors()[name], describe(name)
    helps = described_arguments(constructor)
    sections = SECTION.split(inspect.getdoc(constructor) or "")
    titled = dict(zip(sections[1::2], sections[2::2], strict=True))
    return {
        "name": name,
        **description,
        "description": sections[0].partition("\n")[2].strip(),
        "arguments": {key: helps.get(key, "") for key in inspect.signature(constructor).parameters},
        "references": " ".join(titled.get("References", "").split()),
        "bibtex": entry_of(description["citation"]),
    }


def show_table(described: dict[str, dict[str, Any]]) -> None:
    """Print a table of rules, and those of what changes them."""
    look: dict[str, Any] = {"flush": (0, 1, 2), "folded": (1, 2), "most": {2: 21}}
    rules = [(name, entry["summary"], entry["made_for"] or "") for name, entry in described.items()]
    print_table(("rule", "summary", "made for"), rules, **look)
    others = [(family.rpartition("_")[2].removesuffix("s"), CHANGES[family], FAMILIES[family]) for family in CHANGES]
    for kind, title, names in (*others, ("wrapper", COMBINED, AROUND)):
        click.echo(f"\n{title}\n")
        entries = {name: describe(name) for name in sorted(names)}
        rows = []
        for name, entry in entries.items():
            rows.append((name, entry["summary"], ", ".join([*entry["required"], *entry["defaults"]])))
        print_table((kind, "summary", "arguments"), rows, **look)
    click.echo(f"\n{NOTE}")


def show_rule(explanation: dict[str, Any]) -> None:
    """Print everything about one rule."""
    formatter = click.get_current_context().make_formatter()
    formatter.write(_wrap(f"{explanation['name']}: {explanation['summary']}", formatter.width))
    if explanation["made_for"]:
        formatter.write(f"\n\n{_wrap('Made for: ' + explanation['made_for'] + '.', formatter.width)}")
    formatter.write(f"\n\n{paragraphs(explanation['description'], formatter.width)}\n")
    defaults = {key: explanation["defaults"].get(key, "must be given") for key in explanation["arguments"]}
    texts = {key: str(value).lower() if isinstance(value, bool) else value for key, value in defaults.items()}
    if texts:
        with formatter.section("Arguments"):
            meanings = explanation["arguments"]
            formatter.write_dl([(name, f"{meaning} [{texts[name]}]") for name, meaning in meanings.items()])
    with formatter.section("Source"):
        formatter.write_text(explanation["references"])
    click.echo("\n".join(filter(None, (formatter.getvalue(), explanation["bibtex"]))))


def paragraphs(text: str, width: int) -> str:
    """Break the paragraphs of a docstring anew to a width, where lists keep a line for each item."""
    blocks = []
    for block in text.replace("`", "").split("\n\n"):
        items = re.split(r"\n(?=- )", block)
        blocks.append("\n".join(_wrap(item, width) for item in items))
    return "\n\n".join(blocks)


def _wrap(text: str, width: int) -> str:
    hanging = "  " if text.startswith("- ") else ""
    return click.wrap_text(" ".join(text.split()), width, subsequent_indent=hanging)


@click.command("rules", cls=Command, params=[json_option("the rules")])
@click.argument("name", required=False)
def command(name: str | None, as_json: bool) -> None:
    """List update rules and what changes them, or explain the one with this NAME.

    A scenario has the flags --rule, --compressor, --weight and --step-schedule, and flags for the arguments. For
    example: asyncsim rules gem
    """
    if name is None:
        listed = {name: describe(name) for name in sorted(FAMILIES["rules"])}
        print_results(listed, as_json, lambda: show_table(listed))
        return
    explained = constructors()
    if name not in explained:
        hint = did_you_mean(name.lower().replace("-", "_"), explained, quote="'")
        raise click.UsageError(f"There is no rule {name!r}.{hint} `asyncsim rules` lists them.")
    explanation = explain(name)
    print_results(explanation, as_json, lambda: show_rule(explanation))
