"""Shell-completion scripts for bash, zsh and fish, as `asyncsim completion` prints them: templates, and their words.

A script holds every word that the commands know, and a function `warp` that changes into the folder of a tag. Only tags
are looked up when somebody completes a line.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import click

from asyncsim._metrics import KEYS
from asyncsim.cli._command import COMMANDS, RUN, Checked, Command, app
from asyncsim.components._families import FAMILIES

SCRIPT_COMMANDS = ("run", "sweep")  # commands whose flags are the fields of a script
FILE_OPTIONS = ("--out", "--store", "--csv", "--scheduler-file", "--plot", "--model")  # options that take a path
FIELDS = ("--sort", "--x", "--y", "--by")  # options that take the name of a field
FILES = "/files/"  # stands for the names of files, which the shell itself lists
HELP = """Print the shell-completion script for commands, fields, rules and tags.

The script also defines `warp NAME`, which changes into the folder of a tag. Save it once, and again after an upgrade:

\b
  asyncsim completion bash > ~/.asyncsim.bash  # and in ~/.bashrc:
                                               # . ~/.asyncsim.bash
  asyncsim completion zsh > ~/.asyncsim.zsh    # and in ~/.zshrc, after
                                               # compinit: . ~/.asyncsim.zsh
  asyncsim completion fish > ~/.config/fish/conf.d/asyncsim.fish
"""
SETTINGS = """\
        [[ -z "$command" ]] && command="$word" && continue
        case "$command $word" in @PAIRS@) command="$command $word" ;; esac
        break
    done
    case "$command" in
@COMMANDS@
    esac
    case "$command $last" in
@VALUES@
    esac"""  # sets flags, switches and so on, at the end of a loop over the words of a line
BASH = """\
_asyncsim() {
    local IFS=$'\\n' cur="${COMP_WORDS[COMP_CWORD]}" last="${COMP_WORDS[COMP_CWORD-1]}"
    local command= word flags= switches= inner= takes= values= name
    [ "$cur" = = ] && cur=  # bash takes `--rule=gem` for three words
    [ "$last" = = ] && last="${COMP_WORDS[COMP_CWORD-2]}"
    last="${last//_/-}"
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$word" in -* | =) continue ;; esac
@SETTINGS@
    COMPREPLY=()
    if [[ " $flags " == *" $last "* && " $switches " != *" $last "* ]]; then
        [ "$values" = @FILES@ ] && takes=files || takes=
        inner="$values"
    elif [[ "$cur" == -* ]]; then
        inner="$flags" takes= cur="${cur//_/-}"
    fi
    for word in ${inner// /$IFS}; do
        [[ "$word" == "$cur"* ]] && COMPREPLY+=("$word")
    done
    [ -n "$takes" ] && compopt -o filenames
    [[ "$takes" == tags* ]] && for name in $("$1" tags --names 2>/dev/null); do
        [[ "$name" == "$cur"* ]] && COMPREPLY+=("$name")
    done
    [[ "$takes" == *files ]] && COMPREPLY+=($(compgen -f -- "$cur"))
}
complete -o nosort -F _asyncsim asyncsim
"""
ZSH = """\
_asyncsim() {
    local command= word last="${words[CURRENT-1]}" switches= takes= values=
    local -a flags inner tags
    [[ "$PREFIX" == --*=* ]] && last="${PREFIX%%=*}" && compset -P '*='
    last="${last//_/-}"
    for word in "${(@)words[2,CURRENT-1]}"; do
        [[ "$word" == -* ]] && continue
@SETTINGS@
    if (( ${flags[(I)$last(|:*)]} )) && [[ " $switches " != *" $last "* ]]; then
        if [[ "$values" == @FILES@ ]]; then _files; else compadd -- ${=values}; fi
    elif [[ "$PREFIX" == -* ]]; then
        _describe -o option flags
    else
        (( $#inner )) && _describe word inner
        [[ "$takes" == tags* ]] && tags=(${(f)"$(asyncsim tags --names 2>/dev/null)"}) && compadd -a tags
        [[ "$takes" == *files ]] && _files
    fi
}
compdef _asyncsim asyncsim
"""
FISH = """\
function __asyncsim_at --description 'Whether the command is one of these'
    set -l names (string match --invert -- '-*' (commandline -opc)[2..])
    set -l command "$names[1]"
    if contains -- "$names[1] $names[2]" @PAIRS@
        set command "$names[1] $names[2]"
    end
    contains -- "$command" $argv
end
function __asyncsim_tags
    string match --quiet -- '-*' (commandline -ct); or asyncsim tags --names 2>/dev/null
end
complete --command asyncsim --erase
complete --command asyncsim --no-files
@COMMANDS@
"""
WARP = """\
warp() {  # change into the folder of a tag
    local place
    place="$(asyncsim path "$@")" || return
    [ -d "$place" ] || place="$(dirname "$place")"
    cd "$place"
}
"""
WARPS = {
    "bash": WARP
    + """\
_warp_completion() {  # as of `asyncsim path`
    COMP_WORDS=(asyncsim path "${COMP_WORDS[@]:1}") COMP_CWORD=$((COMP_CWORD + 1))
    _asyncsim asyncsim
}
complete -F _warp_completion warp
""",
    "zsh": WARP
    + """\
_warp_completion() {
    local -a names
    names=(${(f)"$(asyncsim tags --names 2>/dev/null)"})
    compadd -a names
}
compdef _warp_completion warp
""",
    "fish": """\
function warp --description 'Change into the folder of a tag'
    set -l place (asyncsim path $argv); or return
    test -d "$place"; or set place (dirname "$place")
    cd "$place"
end
complete --command warp --erase
complete --command warp --no-files --arguments '(asyncsim tags --names 2>/dev/null)'
""",
}


class Entry(NamedTuple):
    """The words that may follow a command."""

    flags: dict[str, tuple[str, list[str] | None]]  # flag -> help, and its values or None if it takes no value
    inner: dict[str, str]  # argument -> help
    takes: str  # "tags", "files", or both


def entries() -> dict[str, Entry]:
    """Return command, as in "trace info", or "" for none yet -> the words that may follow it."""
    from asyncsim.cli import _sweep as sweep
    from asyncsim.cli._rules import constructors

    table = {"": Entry(dict.fromkeys(("--help", "--version"), ("", None)), COMMANDS, "")}
    with click.Context(app) as context:
        for name in COMMANDS:
            command = app.get_command(context, name)
            inner = sweep.COMMANDS if name == "sweep" else getattr(command, "commands", {})
            helps = {below: nested.get_short_help_str(limit=80) for below, nested in inner.items()}
            table[name] = _entry(command, name, helps)
            table |= {f"{name} {below}": _entry(nested, f"{name} {below}", {}) for below, nested in inner.items()}
    table["rules"].inner.update(dict.fromkeys(sorted(constructors()), ""))
    return table


def _entry(command: Any, name: str, inner: dict[str, str]) -> Entry:
    """Return the words that may follow a command, of which `inner` are its own commands."""
    from asyncsim.cli._options import field_option
    from asyncsim.scenario._scenario import all_fields

    fields = all_fields()
    # What `--sort` and the axes of a picture may name.
    names = ["name", "when", *(field.name for field in fields), *KEYS]
    values = {flag: [FILES] for flag in FILE_OPTIONS} | dict.fromkeys(FIELDS, names)
    params = [*(map(field_option, fields) if name in SCRIPT_COMMANDS else ()), *command.params]
    flags: dict[str, tuple[str, list[str] | None]] = {"--help": ("Show this message and exit.", None)}
    for param in (each for each in params if isinstance(each, click.Option)):
        field = getattr(param.type, "field", None)
        choices = [*map(str, getattr(field or param.type, "choices", ()))]
        if field is not None and field.kind == "switch":
            choices = choices or ["true", "false"]
        for flag in (flag for flag in param.opts if flag.startswith("--")):
            # A script may define rules of its own, so `--rule` takes any text, and the library's are offered.
            choices_of_flag = sorted(FAMILIES["rules"]) if flag == "--rule" and not choices else choices
            first_sentence = (param.help or "").partition(". ")[0].removesuffix(".")
            flags[flag] = (first_sentence, None if param.is_flag else values.get(flag, choices_of_flag))
    arguments = (param.type for param in command.params if isinstance(param, click.Argument))
    # The argument of `run` and `sweep` is taken by the command itself, before click sees it.
    first = RUN if name in SCRIPT_COMMANDS else next(arguments, None)
    words = dict.fromkeys(map(str, getattr(first, "choices", ())), "")
    takes = first.completed if isinstance(first, Checked) else "files" if isinstance(first, click.Path) else ""
    return Entry(flags, inner | words, takes)


def bash(table: dict[str, Entry]) -> str:
    """Return the script for bash."""
    return _fill_script(BASH, table, lambda words: _quote(" ".join(words)))


def zsh(table: dict[str, Entry]) -> str:
    """Return the script for zsh, which shows explanations too."""

    def listed(words: dict[str, str]) -> str:
        return f"({' '.join(_quote(f'{word}:{help}' if help else word) for word, help in words.items())})"

    return _fill_script(ZSH, table, listed)


def _fill_script(script: str, table: dict[str, Entry], listed: Callable[[dict[str, str]], str]) -> str:
    commands, where = [], {}
    for name, entry in table.items():
        # A shell must know which flags take no value, to complete the word after the others.
        switches = " ".join(flag for flag, (_, values) in entry.flags.items() if values is None)
        parts = [f"flags={listed({flag: help for flag, (help, _) in entry.flags.items()})}"]
        parts += [f"switches={_quote(switches)}"]
        parts += [f"inner={listed(entry.inner)}"] if entry.inner else []
        parts += [f"takes={_quote(entry.takes)}"] if entry.takes else []
        commands.append(f"        {_quote(name)}) {' '.join(parts)} ;;")
        for flag, (_, values) in entry.flags.items():
            if values:
                where.setdefault(" ".join(values), []).append(_quote(f"{name} {flag}"))
    cases = [f"        {' | '.join(places)}) values={_quote(values)} ;;" for values, places in where.items()]
    pairs = " | ".join(_quote(name) for name in table if " " in name)
    parts = {"PAIRS": pairs, "COMMANDS": "\n".join(commands), "VALUES": "\n".join(cases), "FILES": _quote(FILES)}
    return _with(script, SETTINGS=SETTINGS, **parts)


def fish(table: dict[str, Entry]) -> str:
    """Return the script for fish, in whose own language every option is a line."""
    # Commands that share an option share its line, because fish reads them all at each start.
    where: dict[str, list[str]] = {}
    for name, entry in table.items():
        lines = []
        for flag, (help, values) in entry.flags.items():
            of = f"--long-option {flag.removeprefix('--')}{_describe_flag(help)}"
            if values == [FILES]:
                of += " --require-parameter --force-files"
            elif values is not None:
                of += " --exclusive" + (f" --arguments {_quote(' '.join(values))}" if values else "")
            lines.append(of)
        lines += [f"--arguments {_quote(word)}{_describe_flag(help)}" for word, help in entry.inner.items()]
        lines += ["--arguments '(__asyncsim_tags)'"] if "tags" in entry.takes else []
        lines += ["--force-files"] if "files" in entry.takes else []
        for line in lines:
            where.setdefault(line, []).append(f'"{name}"')
    rules = [
        f"complete --command asyncsim --condition '__asyncsim_at {' '.join(names)}' {line}"
        for line, names in where.items()
    ]
    pairs = " ".join(_quote(name) for name in table if " " in name)
    return _with(FISH, PAIRS=pairs, COMMANDS="\n".join(rules))


def _describe_flag(help: str) -> str:
    return f" --description {_quote(help)}" if help else ""


def _with(script: str, **parts: str) -> str:
    # The scripts are full of braces, so placeholders have another form than those of `str.format`.
    for name, text in parts.items():
        script = script.replace(f"@{name}@", text)
    return script


def _quote(text: str) -> str:
    """Return the text in single quotes, in which no shell replaces anything."""
    return "'{}'".format(text.replace("\\", "").replace("'", "’"))


SHELLS: dict[str, Callable[[dict[str, Entry]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}


@click.command("completion", cls=Command, help=HELP, params=[click.Argument(["shell"], type=click.Choice([*SHELLS]))])
def command(shell: str) -> None:
    """Print the script for a shell."""
    click.echo(SHELLS[shell](entries()) + WARPS[shell], nl=False)
