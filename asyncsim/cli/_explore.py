"""`asyncsim explore`: the page with sliders."""

import webbrowser
from pathlib import Path

import click

from asyncsim.animation._explore import make_explorable
from asyncsim.cli._command import Command
from asyncsim.store._files import atomic_write

PAGE = "explore.html"
HELP = """Write a page with sliders, on which you explore staleness, stability and waiting.

The page shows a simulated cluster that follows the sliders for workers, spread of compute times, step size and server
rate. It is one file, works without a network, and also on a phone. For example: asyncsim explore --out staleness.html
"""


@click.command(
    "explore",
    cls=Command,
    help=HELP,
    params=[
        click.Option(
            ["--out"],
            type=click.Path(dir_okay=False, path_type=Path),
            default=PAGE,
            metavar="FILE",
            help=f"The page, a file that ends in .html. [{PAGE}]",
        ),
        click.Option(["--open", "show"], is_flag=True, help="Open it in the browser."),
    ],
)
def command(out: Path, show: bool) -> None:
    """Write the page."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise click.UsageError(f"`--out` must end in .html; got {str(out)!r}. Give {PAGE!r}, say.")
    text = make_explorable()
    atomic_write(out, lambda file: file.write(text.encode()))
    click.echo(f"Page in {out}")
    if show:
        webbrowser.open(out.resolve().as_uri())
