"""`asyncsim figures`: the paper's figures, their numbers, and the claims that hold."""

from pathlib import Path

import click

from asyncsim.cli._command import Command
from asyncsim.cli._options import Whole
from asyncsim.cli._output import json_option, out_option
from asyncsim.cli._source import import_from_clone

SCALES = ("quick", "paper")
DEFAULT_FOLDER = str(Path("runs", "figures", "SCALE"))
HELP = """Compute and draw the paper's figures, and check its claims against the numbers.

NAME is figure1 to figure10, energy, stability, staleness, assumptions, gap or gap_runs; the default is all of them.
Existing results are reused, and an interrupted run continues where it stopped. For example: asyncsim figures figure1

At scale quick, a small network learns digits, in minutes. At scale paper, the paper's network learns MNIST, from the
folder that ASYNCSIM_DATA names, in hours. Figures 7, 9 and 10 then use images in ImageNet's format from the folder that
ASYNCSIM_IMAGENET names, or without it a small network on MNIST.
"""


@click.command(
    "figures",
    cls=Command,
    help=HELP,
    params=[
        click.Argument(["names"], nargs=-1, metavar="[NAME]..."),
        click.Option(["--list", "listed"], is_flag=True, help="List the figures and exit."),
        click.Option(["--scale"], type=click.Choice(SCALES), default="quick", help="Small or full size. [quick]"),
        out_option(DEFAULT_FOLDER),
        click.Option(["--seeds"], type=Whole(min=1), default=3, help="Number of seeds: 0, 1, … [3]"),
        click.Option(["--jobs"], type=Whole(min=1), help="Number of processes. [1, with all cores for each large run]"),
        json_option("the claims, or with --list the titles,"),
        click.Option(["--force"], is_flag=True, help="Discard the results of these figures and compute again."),
    ],
)
def command(
    names: tuple[str, ...],
    listed: bool,
    scale: str,
    out: str | None,
    seeds: int,
    jobs: int | None,
    as_json: bool,
    force: bool,
) -> None:
    """Make figures, or list them."""
    place = out or DEFAULT_FOLDER.replace("SCALE", scale)
    # The figures are part of the repository and not of the installed library.
    import_from_clone("figures.common.command").command(names, listed, scale, place, seeds, jobs, as_json, force)
