"""The `asyncsim` command: a group whose commands are imported when they are called, since JAX takes a second."""

import importlib

import click

from asyncsim._version import __version__
from asyncsim.cli._command import HINT, Group
from asyncsim.cli._interrupts import raise_from_now_on

# Name, which is also that of its module unless `MODULES` names another, and a line of help.
COMMANDS = {
    "run": "Simulate and replay the scenario that a script defines.",
    "sweep": "Run many scenarios made of one, and keep each result.",
    "rules": "List the update rules, or explain one of them.",
    "figures": "Draw the paper's figures and judge its claims.",
    "staleness": "Compare predicted staleness with a simulation.",
    "stability": "Compare predicted step-size limits with a simulation.",
    "calibrate": "Fit a cluster to the log of a real one, with intervals.",
    "trace": "Check a trace, compare it with theory, or export it.",
    "cost": "Account for idle time, bytes, energy and money of a run.",
    "runs": "List the runs below a folder.",
    "show": "Print the summary and the scenario of a run.",
    "compare": "Compare runs, in a table and a picture.",
    "animate": "Show a run moving, as a page, a GIF or an MP4.",
    "explore": "Write a page with sliders to explore staleness.",
    "tag": "Name a run.",
    "untag": "Remove a tag.",
    "retag": "Rename a tag.",
    "tags": "List the tags and where they lead.",
    "path": "Print the folder of a tag, as for `cd`.",
    "completion": "Print the shell-completion script.",
}
MODULES = {
    "show": "runs",
    "cost": "trace",
    **dict.fromkeys(("tag", "untag", "retag", "path"), "tags"),
    **dict.fromkeys(("staleness", "stability"), "theory"),
}
FILES = {".py": "asyncsim run", ".npz": "asyncsim trace info", ".csv": "asyncsim trace info"}


class App(Group):
    """The group of all commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command, from its module."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"asyncsim.cli._{MODULES.get(cmd_name, cmd_name)}")
        return module.command if cmd_name not in MODULES else getattr(module, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is about to run: from here on, there may be something to save when a signal comes."""
        found = super().resolve_command(ctx, args)
        raise_from_now_on()
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Their names and lines of help, which ask for no import."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=App, files=FILES, epilog=HINT)
@click.version_option(__version__, prog_name="asyncsim", message="%(prog)s %(version)s")
def app() -> None:
    """Simulate asynchronous SGD: schedule a cluster, then replay what it would have learned.

    `asyncsim COMMAND --help` explains a command.
    """
