"""`asyncsim rules`: every update rule in one line."""

import inspect
import json
from typing import Any

import click

from asyncsim.rules import CONSTRUCTORS
from asyncsim.rules.citations import KEYS
from asyncsim.scenario.fields import arguments


@click.command("rules")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def rules(as_json: bool) -> None:
    """List the update rules: name and arguments, what each does, and the key of its publication.

    Any of them can be named by the flag --rule of a scenario, and its arguments are flags there.
    """
    listed = {name: describe(name) for name in sorted(CONSTRUCTORS)}
    if as_json:
        click.echo(json.dumps(listed, allow_nan=False))
        return
    for name, described in listed.items():
        click.echo(line(name, described))


def describe(name: str) -> dict[str, Any]:
    """Arguments that must be given, the others with their defaults, the first line of the docstring, and the key.

    Example:
        >>> found = describe("momentum_sgd")
        >>> found["required"], found["defaults"], found["citation"]
        (['learning_rate'], {'momentum': 0.9}, 'polyak1964methods')
    """
    constructor = CONSTRUCTORS[name]
    defaults = {key: parameter.default for key, parameter in arguments(constructor).items()}
    return {
        "required": [key for key, value in defaults.items() if value is inspect.Parameter.empty],
        "defaults": {key: value for key, value in defaults.items() if value is not inspect.Parameter.empty},
        "summary": (inspect.getdoc(constructor) or "").partition("\n")[0],
        "citation": KEYS.get(name),
    }


def line(name: str, described: dict[str, Any]) -> str:
    """The rule in one line.

    Example:
        >>> line("sgd", {"required": ["rate"], "defaults": {"window": 1}, "summary": "Descend.", "citation": "me2026"})
        'sgd(rate, window=1): Descend. [me2026]'
    """
    taken = [*described["required"], *(f"{key}={value}" for key, value in described["defaults"].items())]
    key = "" if described["citation"] is None else f" [{described['citation']}]"
    return f"{name}({', '.join(taken)}): {described['summary']}{key}"
