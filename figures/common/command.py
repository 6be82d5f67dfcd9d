"""What `asyncsim figures` does, in the clone that holds the figures."""

from functools import partial
from pathlib import Path

import click

from asyncsim.cli._command import Interrupted, say, wrong_usage
from asyncsim.cli._output import print_lines, print_results
from asyncsim.cli._progress import Bar, CountBar
from asyncsim.engine._devices import use_all_cores
from figures.catalogue import figure_set
from figures.common.figure_set import SUMMARY, FigureSet, MadeFigure, in_words


def make_all(figures: FigureSet, names: tuple[str, ...], jobs: int | None) -> list[MadeFigure]:
    """Make the figures under a progress bar that names figure and seed, and summary.md even if a figure fails."""
    made: list[MadeFigure] = []
    ahead = figures.estimate(names) if figures.scale == "paper" else None
    if ahead is not None and ahead.runs:
        words = in_words(ahead.seconds)
        say(f"{ahead.runs} runs, {ahead.commits:,} commits to replay: {words} on this machine.")
    if jobs is not None:
        with CountBar("runs") as bar:
            figures.replay(names, jobs, bar.update)
    try:
        with Bar() as bar:
            for name in names:
                bar.expect(name)
                made.append(figures.make(name, partial(bar.update_figure, name)))
                bar.close(name)
                seeds, state = len(made[-1].computed), "drawn again" if made[-1].drawn else "there already"
                state = f"computed {seeds} seed{'s' * (seeds > 1)}" if seeds else state
                say(f"{name}: {state}")
    finally:
        figures.conclude(made)
    return made


def command(
    names: tuple[str, ...],
    listed: bool,
    scale: str,
    place: str,
    seeds: int,
    jobs: int | None,
    as_json: bool,
    force: bool,
) -> None:
    """Make figures, or list them."""
    figures = figure_set(Path(place), scale, seeds)
    with wrong_usage():
        names = tuple(dict.fromkeys(names)) or tuple(figures.figures)
        titles = {name: figures.find(name).TITLE for name in names}
    if listed:
        print_results(titles, as_json, lambda: print_lines([*titles.items()]))
        return
    use_all_cores()
    try:
        with figures.lease():
            if unused := figures.cache().unused():
                words = "runs of other versions, which are not used and may be deleted"
                say(f"{unused[0].parent} holds {words}: {unused[0].name}, {len(unused)} in all.")
            if force:
                figures.forget(names)
            made = make_all(figures, names, jobs)
    except RuntimeError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt as stopped:
        again = "without --force, the same command" if force else "the same command"
        raise Interrupted(f"Interrupted; {again} continues from there.", stopped) from stopped
    answers = [(figure.name, claim.answer, claim.says) for figure in made for claim in figure.claims]
    found = {figure.name: {"claims": [claim._asdict() for claim in figure.claims]} for figure in made}
    places = f"Pictures and numbers in {place}, the numbers of the claims in {Path(place, SUMMARY)}"
    print_results(found, as_json, partial(print_lines, answers), places)
