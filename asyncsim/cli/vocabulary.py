"""Every command, flag and value that a shell may complete, kept in the user's cache until asyncsim changes."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from asyncsim.files import read_json, write_json
from asyncsim.version import __version__

Words = dict[str, dict[str, Any]]

VARIABLE = "ASYNCSIM_CACHE"
LIBRARY = Path(__file__).parents[1]
OF_A_SCRIPT = ("run", "sweep")  # commands whose flags are the fields of a script
ROOMS = (
    "cli",
    "cli/sweep",
    "cluster",
    "compressors",
    "delays",
    "rules",
    "scenario",
    "workloads",
    "study",
)  # that the words are of
FILES = ("--out", "--store", "--csv", "--scheduler-file")  # options that take a path
FIELDS = ("--sort", "--x", "--y", "--by")  # options that take the name of a field


def vocabulary() -> Words:
    """Command, also as in "trace info", -> its line of help, its options, and what its argument is.

    The first call after asyncsim has changed takes two seconds.
    """
    file, stamp = _cache() / "completion.json", _stamp()
    kept: Any = read_json(file)
    if isinstance(kept, dict) and kept.get("stamp") == stamp:
        return kept["words"]
    words = make_vocabulary()
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, {"stamp": stamp, "words": words})
    return words


def make_vocabulary() -> Words:
    """The vocabulary from the commands themselves."""
    from asyncsim import compressors
    from asyncsim.cli import sweep
    from asyncsim.cli.app import COMMANDS, app
    from asyncsim.folders.summaries import KEYS
    from asyncsim.rules import CONSTRUCTORS
    from asyncsim.scenario.catalogue import all_fields

    names = [field.name for field in all_fields()]
    values = {flag: ["name", "when", *names, *KEYS] for flag in FIELDS}
    with click.Context(app) as context:
        words: Words = {}
        for name, help in COMMANDS.items():
            command = app.get_command(context, name)
            words[name] = {
                "help": help,
                "options": _options(command, name, values),
                "argument": _argument(command, name),
            }
            own = sweep.COMMANDS if name == "sweep" else getattr(command, "commands", {})
            for inner, one in own.items():
                key = f"{name} {inner}"
                line = one.get_short_help_str(limit=80)
                words[key] = {"help": line, "options": _options(one, key, values), "argument": _argument(one, key)}
    words["rules"]["argument"] = sorted([*CONSTRUCTORS, *compressors.CONSTRUCTORS])
    return words


def _options(command: Any, name: str, values: dict[str, list[str]]) -> dict[str, dict[str, Any]]:
    from asyncsim.cli.options import FieldType, field_option
    from asyncsim.scenario.catalogue import all_fields

    params = list(command.params)
    if name in OF_A_SCRIPT:
        from asyncsim.cli.run import output_options
        from asyncsim.cli.sweep.run import sweep_options

        params = [*map(field_option, all_fields()), *(output_options if name == "run" else sweep_options)("")]
    found: dict[str, dict[str, Any]] = {"--help": {"help": "Show this message and exit.", "is_flag": True}}
    for param in params:
        if not isinstance(param, click.Option):
            continue
        known: Any = None
        if isinstance(param.type, FieldType):
            field = param.type.field
            known = [*field.choices] or (["true", "false"] if field.kind == "switch" else None)
        elif isinstance(param.type, click.Choice):
            known = [*map(str, param.type.choices)]
        for flag in (flag for flag in param.opts if flag.startswith("--")):
            chosen = "file" if flag in FILES else values.get(flag, known)
            found[flag] = {"help": _line(param.help), "values": chosen, "is_flag": param.is_flag}
    if "--rule" in found and not found["--rule"]["values"]:
        from asyncsim.rules import CONSTRUCTORS

        found["--rule"]["values"] = sorted(CONSTRUCTORS)
    return found


def _argument(command: Any, name: str) -> Any:
    """What the first argument of a command is: "script", "run", "tag", "file", a list of words, or None."""
    from asyncsim.cli.found import RunFolder, TagName
    from asyncsim.cli.sweep.stored import StoreName
    from asyncsim.cli.trace import TraceFile

    if name in OF_A_SCRIPT:
        return "script"
    first = next((param.type for param in command.params if isinstance(param, click.Argument)), None)
    if isinstance(first, click.Choice):
        return [*map(str, first.choices)]
    kinds: dict[str, tuple[type, ...]] = {"run": (RunFolder, TraceFile, StoreName), "tag": (TagName,)}
    kinds["file"] = (click.Path,)
    return next((kind for kind, types in kinds.items() if isinstance(first, types)), None)


def _line(help: str | None) -> str:
    """The first sentence of a help."""
    return (help or "").partition(". ")[0].removesuffix(".")


def _cache() -> Path:
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    from platformdirs import user_cache_path

    return user_cache_path("asyncsim", appauthor=False)


def _stamp() -> str:
    """What changes whenever a file of the library does."""
    rooms = (LIBRARY / room for room in ROOMS)
    newest = max(entry.stat().st_mtime_ns for room in rooms for entry in os.scandir(room))
    return json.dumps([__version__, newest, str(LIBRARY)])
