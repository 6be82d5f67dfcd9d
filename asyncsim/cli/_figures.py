"""`asyncsim figures`: the paper's figures, their numbers, and the claims that hold."""

from functools import partial
from pathlib import Path

import click

from asyncsim.cli._command import Command, Interrupted, wrong_usage
from asyncsim.cli._output import json_option, out_option, print_lines, print_results
from asyncsim.cli._progress import Bar, CountBar
from asyncsim.cli._source import import_from_clone
from asyncsim.engine._devices import use_all_cores
from asyncsim.study.figures import SUMMARY, FigureSet, MadeFigure, in_words

SCALES = ("quick", "paper")
OUT = str(Path("runs", "figures", "SCALE"))
HELP = """Compute and draw the paper's figures, and check its claims against the numbers.

NAME is figure1 to figure10, energy, stability, staleness, assumptions, gap or gap_runs; the default is all of them.
Existing results are reused, and an interrupted run continues where it stopped. For example: asyncsim figures figure1

At scale quick, a small network learns digits, in minutes. At scale paper, the paper's network learns MNIST, from the
folder that ASYNCSIM_DATA names, in hours. Figures 7, 9 and 10 then use images in ImageNet's format from the folder that
ASYNCSIM_IMAGENET names, or without it a small network on MNIST.
"""


def make_all(figure_set: FigureSet, names: tuple[str, ...], jobs: int | None) -> list[MadeFigure]:
    """Make the figures under a progress bar that names figure and seed, and summary.md even if a figure fails."""
    made: list[MadeFigure] = []
    ahead = figure_set.estimate(names) if figure_set.scale == "paper" else None
    if ahead is not None and ahead.runs:
        words = in_words(ahead.seconds)
        click.echo(f"{ahead.runs} runs, {ahead.commits:,} commits to replay: {words} on this machine.", err=True)
    if jobs is not None:
        with CountBar("runs") as bar:
            figure_set.replay(names, jobs, bar.update)
    try:
        with Bar() as bar:
            for name in names:
                bar.expect(name)
                made.append(figure_set.make(name, partial(bar.update_figure, name)))
                bar.close(name)
                seeds, state = len(made[-1].computed), "drawn again" if made[-1].drawn else "there already"
                state = f"computed {seeds} seed{'s' * (seeds > 1)}" if seeds else state
                click.echo(f"{name}: {state}", err=True)
    finally:
        figure_set.conclude(made)
    return made


@click.command(
    "figures",
    cls=Command,
    help=HELP,
    params=[
        click.Argument(["names"], nargs=-1, metavar="[NAME]..."),
        click.Option(["--list", "listed"], is_flag=True, help="List the figures and exit."),
        click.Option(["--scale"], type=click.Choice(SCALES), default="quick", help="Small or full size. [quick]"),
        out_option(OUT),
        click.Option(["--seeds"], type=click.IntRange(min=1), default=3, help="Number of seeds: 0, 1, … [3]"),
        click.Option(
            ["--jobs"], type=click.IntRange(min=1), help="Number of processes. [1, with all cores for each large run]"
        ),
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
    place = out or OUT.replace("SCALE", scale)
    figure_set = import_from_clone("figures.catalogue").figure_set(Path(place), scale, seeds)
    with wrong_usage():
        names = tuple(dict.fromkeys(names)) or tuple(figure_set.figures)
        titles = {name: figure_set.find(name).TITLE for name in names}
    if listed:
        print_results(titles, as_json, lambda: print_lines([*titles.items()]))
        return
    use_all_cores()
    try:
        with figure_set.lease():
            if unused := figure_set.cache().unused():
                words = "runs of other versions, which are not used and may be deleted"
                click.echo(f"{unused[0].parent} holds {words}: {unused[0].name}, {len(unused)} in all.", err=True)
            if force:
                figure_set.forget(names)
            made = make_all(figure_set, names, jobs)
    except RuntimeError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt as stopped:
        again = "without --force, the same command" if force else "the same command"
        raise Interrupted(f"Interrupted; {again} continues from there.", stopped) from stopped
    answers = [(figure.name, claim.answer, claim.says) for figure in made for claim in figure.claims]
    found = {figure.name: {"claims": [claim._asdict() for claim in figure.claims]} for figure in made}
    places = f"Pictures and numbers in {place}, the numbers of the claims in {Path(place, SUMMARY)}"
    print_results(found, as_json, partial(print_lines, answers), places)
