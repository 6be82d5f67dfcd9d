"""`asyncsim completion`: what makes a shell complete commands, fields, rules and tags, and a function `warp`."""

from collections.abc import Iterator, Sequence

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from asyncsim.cli.command import Command
from asyncsim.cli.found import tags_like
from asyncsim.cli.vocabulary import Words, vocabulary

PROGRAM, VARIABLE = "asyncsim", "_ASYNCSIM_COMPLETE"
SCRIPT, RUN, TAG, ANY_FILE = "script", "run", "tag", "file"  # what an argument is
BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' response line value
    response=$(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD="$COMP_CWORD" %(complete_var)s=bash_complete "$1")
    COMPREPLY=()
    while IFS= read -r line; do
        value="${line#*,}"
        case "${line%%%%,*}" in
            file|dir)
                compopt -o filenames
                COMPREPLY+=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
                ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done <<< "$response"
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""
# As click's function for fish, but for a comma in a value or in its explanation, and a word that is quoted.
FISH = """\
function %(complete_func)s
    set -l words (commandline -cp | string collect)
    set -l word (commandline -ct | string collect)
    for completion in (env %(complete_var)s=fish_complete COMP_WORDS="$words" COMP_CWORD="$word" %(prog_name)s)
        set -l metadata (string split -m 1 , -- $completion)
        switch $metadata[1]
            case dir
                __fish_complete_directories $metadata[2]
            case file
                __fish_complete_path $metadata[2]
            case plain
                echo $metadata[2]
        end
    end
end
complete --command %(prog_name)s --erase
complete --command %(prog_name)s --no-files --keep-order --arguments '(%(complete_func)s)'
"""
# As click's function for zsh, whose variables stay in the user's shell.
ZSH = ZshComplete.source_template.replace("for type key descr in", "local type key descr\n    for type key descr in")
WARP = {
    "bash": """\
warp() {  # change into the folder of a tag
    local place
    place="$(asyncsim path "$@")" || return
    [ -d "$place" ] || place="$(dirname "$place")"
    cd "$place"
}
_warp_completion() {
    local IFS=$'\\n' name
    COMPREPLY=()
    compopt -o filenames
    for name in $(asyncsim tags --names 2>/dev/null); do
        [[ "$name" == "${COMP_WORDS[COMP_CWORD]}"* ]] && COMPREPLY+=("$name")
    done
}
complete -F _warp_completion warp
""",
    "zsh": """\
warp() {  # change into the folder of a tag
    local place
    place="$(asyncsim path "$@")" || return
    [ -d "$place" ] || place="$(dirname "$place")"
    cd "$place"
}
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
HELP = """Print what makes a shell complete commands, fields, rules and tags, and a function `warp NAME` that changes
into the folder of a tag.

\b
  eval "$(asyncsim completion bash)"       # in ~/.bashrc
  eval "$(asyncsim completion zsh)"        # in ~/.zshrc, after compinit
  asyncsim completion fish | source        # in ~/.config/fish/config.fish

What there is to complete is kept in the user's cache, or where ASYNCSIM_CACHE says.
"""


class Lookup:
    """Completes from the vocabulary, which is kept in a file: JAX and SciPy take a second to import."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """What the word under the cursor may become."""
        return list(completions(args, incomplete, vocabulary()))


class Bash(Lookup, BashComplete):
    """Files beside tags, and names with blanks, which click's own function for bash does not have."""

    source_template = BASH

    @staticmethod
    def _check_version() -> None:
        """Nothing: what is used here is older than what click's function needs."""


class Zsh(Lookup, ZshComplete):
    """Leaves nothing behind in the user's shell."""

    source_template = ZSH


class Fish(Lookup, FishComplete):
    """Names and explanations with commas."""

    source_template = FISH


SHELLS: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}


@click.command("completion", cls=Command, help=HELP, params=[click.Argument(["shell"], type=click.Choice([*SHELLS]))])
def command(shell: str) -> None:
    """Print the source of the completion for a shell."""
    click.echo(_shell(shell).source().rstrip())
    click.echo()
    click.echo(WARP[shell].rstrip())


def answer(instruction: str) -> int:
    """Print what a shell asks for, as in "bash_complete", and return the exit status."""
    shell, _, what = instruction.partition("_")
    if shell not in SHELLS or what != "complete":
        return 1
    click.echo(_shell(shell).complete())
    return 0


def completions(before: Sequence[str], incomplete: str, words: Words) -> Iterator[CompletionItem]:
    """What a word may become.

    Args:
        before: The words before it, without the program's name.
        incomplete: Its letters so far.
        words: The vocabulary.

    Example:
        >>> words: Words = {"run": {"help": "Run.", "options": {"--rule": {"help": "", "values": ["gem", "agn"]}}}}
        >>> [item.value for item in completions(["run", "--rule"], "g", words)]
        ['gem']
        >>> [item.value for item in completions(["run"], "--r", words)]
        ['--rule']
    """
    before = [word for word in before if word != "="]  # bash takes `--rule=gem` for three words
    if incomplete == "=":
        incomplete = ""
    names = [word for word in before if not word.startswith("-")]
    if not names:
        known = {name: entry["help"] for name, entry in words.items() if " " not in name}
        yield from _like(incomplete, {**known, "--help": "", "--version": ""} if incomplete.startswith("-") else known)
        return
    name = " ".join(names[:2]) if " ".join(names[:2]) in words else names[0]
    entry = words.get(name, {})
    options = entry.get("options", {})
    last = before[-1].replace("_", "-")
    flag, equals, begun = incomplete.partition("=")
    if equals and flag in options:
        for item in _values(options[flag].get("values"), begun):
            yield CompletionItem(f"{flag}={item.value}", type=item.type) if item.type == "plain" else item
    elif last in options and not options[last].get("is_flag"):
        yield from _values(options[last].get("values"), incomplete)
    elif incomplete.startswith("-"):
        yield from _like(incomplete, {flag: option["help"] for flag, option in options.items()})
    else:
        yield from _arguments(name, entry, words, incomplete)


def _arguments(name: str, entry: dict, words: Words, incomplete: str) -> Iterator[CompletionItem]:
    inside = {key.removeprefix(f"{name} "): one["help"] for key, one in words.items() if key.startswith(f"{name} ")}
    yield from _like(incomplete, inside)
    kind = entry.get("argument")
    if kind in (SCRIPT, RUN, TAG):
        yield from tags_like(incomplete)
    if kind in (SCRIPT, RUN, ANY_FILE):
        yield CompletionItem(incomplete, type="file")
    if isinstance(kind, list):
        yield from _like(incomplete, dict.fromkeys(kind, ""))


def _values(values: object, incomplete: str) -> Iterator[CompletionItem]:
    """The values of an option: those that are known, or else files where it takes them."""
    if isinstance(values, list):
        yield from _like(incomplete, dict.fromkeys(values, ""))
    elif values == ANY_FILE:
        yield CompletionItem(incomplete, type="file")


def _like(incomplete: str, known: dict[str, str]) -> Iterator[CompletionItem]:
    wanted = incomplete.replace("_", "-") if incomplete.startswith("--") else incomplete
    return (CompletionItem(name, help=help or None) for name, help in known.items() if name.startswith(wanted))


def _shell(name: str) -> ShellComplete:
    from asyncsim.cli.app import app

    return SHELLS[name](app, {}, PROGRAM, VARIABLE)
