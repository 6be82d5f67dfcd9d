"""The frame of the commands that show what theory predicts beside a simulation: `staleness` and `stability`."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import click

from asyncsim.cli.options import FieldCommand
from asyncsim.cli.output import json_option, out_option, print_results
from asyncsim.cli.progress import StageBar
from asyncsim.engine.devices import use_all_cores
from asyncsim.files import write_json
from asyncsim.plots.style import save_png
from asyncsim.scenario.catalogue import all_fields
from asyncsim.scenario.fields import Field
from asyncsim.study.keep import make_folder


class Shown(NamedTuple):
    """A report in the three forms in which a command gives it.

    Attributes:
        numbers: As JSON can hold them.
        print: Prints a table on standard output.
        draw: `(figure) -> anything`, draws on an empty figure.
        size: Of the figure, in inches.
    """

    numbers: dict[str, Any]
    print: Callable[[], None]
    draw: Callable[[Any], object]
    size: tuple[float, float]


def report_command(
    name: str,
    help: str,
    fields: Callable[..., Iterable[Field]],
    answer: Callable[[dict[str, Any], Callable[[str, float], None]], Shown],
) -> FieldCommand:
    """The command that answers a question about a cluster, and keeps picture and numbers in a folder.

    Args:
        name: Of the command, its files and its default folder.
        help: What it does.
        fields: `(**components) -> fields` with their usual values, as in `FieldCommand`.
        answer: `(given, progress) -> report` from the fields that were given; a ValueError is wrong usage. Whatever
            takes long calls `progress(stage, share)`.
    """
    default = Path("runs", name)

    def callback(out: str | None, as_json: bool, **given: Any) -> None:
        use_all_cores()
        with StageBar() as bar:
            try:
                report = answer({field: value for field, value in given.items() if value is not None}, bar.update)
            except ValueError as error:
                raise click.UsageError(str(error)) from error
            folder = Path(out or default)
            make_folder(folder)
            save_png(folder / f"{name}.png", report.draw, report.size)
        write_json(folder / f"{name}.json", report.numbers)

        def show() -> None:
            report.print()
            click.echo(f"\nPicture and numbers in {folder}")

        print_results(report.numbers, as_json, show)

    return FieldCommand(
        name=name,
        fields=fields,
        others=[field for field in all_fields() if field.group == "Cluster"],
        options=[out_option(str(default), "Folder for the picture and the numbers."), json_option("the numbers")],
        help=help,
        epilog="For the flags of another law or protocol, name it and ask for --help, as in `--compute pareto --help`.",
        callback=callback,
    )
