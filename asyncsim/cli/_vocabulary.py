"""Every command, flag and value that a shell may complete."""

from typing import Any

import click

Words = dict[str, dict[str, Any]]

OF_A_SCRIPT = ("run", "sweep")  # commands whose flags are the fields of a script
FILES = ("--out", "--store", "--csv", "--scheduler-file")  # options that take a path
FIELDS = ("--sort", "--x", "--y", "--by")  # options that take the name of a field


def make_vocabulary() -> Words:
    """Command, as in "trace info" -> its line of help, its options, and the kind of its argument."""
    from asyncsim._families import FAMILIES
    from asyncsim._metrics import KEYS
    from asyncsim.cli import _sweep as sweep
    from asyncsim.cli._command import COMMANDS, app
    from asyncsim.scenario._scenario import all_fields

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
    words["rules"]["argument"] = sorted([*FAMILIES["rules"], *FAMILIES["compressors"]])
    return words


def _options(command: Any, name: str, values: dict[str, list[str]]) -> dict[str, dict[str, Any]]:
    from asyncsim.cli._options import FieldType, field_option
    from asyncsim.scenario._scenario import all_fields

    params = list(command.params)
    if name in OF_A_SCRIPT:
        from asyncsim.cli._run import output_options
        from asyncsim.cli._sweep import sweep_options

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
        from asyncsim._families import FAMILIES

        found["--rule"]["values"] = sorted(FAMILIES["rules"])
    return found


def _argument(command: Any, name: str) -> Any:
    """What the first argument of a command is: "script", "run", "tag", "file", a list of words, or None."""
    from asyncsim.cli._sweep.results import StoreName
    from asyncsim.cli._tags import RunFolder, TagName
    from asyncsim.cli._trace import TraceFile

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
