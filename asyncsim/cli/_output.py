"""Results as a person or a program reads them: the folder they go to, JSON, and tables."""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import click

from asyncsim._metrics import KEYS, NOTABLE, SHORT, is_notable, metric, metric_text, own_metrics
from asyncsim.cli._command import Checked, echo, printable, say
from asyncsim.cli._streams import Closed
from asyncsim.store._labels import refuse_stores

WIDTH = 80  # characters of a line where nobody says how wide it is
NARROWEST = 40  # characters below which a table is not squeezed any more
LEAST_FOLDED = 12  # characters to which a column of text is squeezed


def out_option(default: str, help: str = "Folder for the results.") -> click.Option:
    """Return the flag `--out`, whose value is None where it is not given."""

    def named(value: str) -> str:
        if not value.strip():
            raise ValueError(f"`--out` must name a folder; got {value!r}. Leave it out for {default}.")
        if reason := _why_no_folder(value):
            raise ValueError(f"`--out` must name a folder; {value!r} {reason}. Choose another name.")
        # A run that is written into a store would look like one of its entries.
        refuse_stores("--out", Path(value))
        return value

    return click.Option(["--out"], type=Checked("folder", named), metavar="DIR", help=f"{help} [{default}]")


def _why_no_folder(value: str) -> str:
    """Return why there can be no such folder, as far as that can be seen before anything is computed."""
    for place in (Path(value), *Path(value).parents):
        try:
            os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            continue  # The folder above decides.
        except OSError as error:
            return f"cannot be one: {error.strerror}"
        except ValueError:
            return "holds a NUL byte"
        if place.is_dir():
            break
        return "is a file" if place == Path(value) else f"would be in the file {str(place)!r}"
    return ""


def json_option(what: str) -> click.Option:
    """Return the flag `--json`, passed on as `as_json`."""
    return click.Option(["--json", "as_json"], is_flag=True, help=f"Print {what} as one JSON object.")


def print_results(results: Any, as_json: bool, show: Callable[[], None], last: str = "") -> None:
    """Print one JSON object and nothing else, or call `show`, which prints for people, and end with a `last` line.

    Where standard output is closed, the last line, which says where the results are, is all that people need to know.
    """
    if as_json:
        # JSON has no NaN, so results hold None in its place.
        click.echo(json.dumps(results, allow_nan=False))
        return
    if last and isinstance(sys.stdout, Closed):
        say(last)
        return
    show()
    if last:
        echo(f"\n{last}")


def print_lines(rows: Sequence[Sequence[str]]) -> None:
    """Print rows whose cells stand below each other, without wrapping the last one."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        echo("  ".join(map(str.ljust, row, widths)).rstrip())


def print_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    flush: Iterable[int] = (0,),
    folded: Iterable[int] = (),
    broken: bool = True,
    most: Mapping[int, int] | None = None,
) -> None:
    """Print a table without lines, where numbers are never cut, whatever the width of the terminal."""
    flush, folded, heads = set(flush), set(folded), heads or [""] * len(rows[0])
    gap = " " * (3 if len(heads) <= 3 else 2)
    full = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    widths = [min(width, (most or {}).get(place, width)) for place, width in enumerate(full)]
    words = [head.split() if broken else [head] for head in heads]
    least = [max(map(len, [*head, *column]), default=0) for head, *column in zip(words, *rows, strict=True)]
    # A column of text may be folded at blanks, whereas a number that is cut would be another number.
    least = [min(width, LEAST_FOLDED) if place in folded else width for place, width in enumerate(least)]
    room = max(NARROWEST, width()) - len(gap) * (len(heads) - 1)
    # The widest column gives way first, character by character, down to its longest word.
    while sum(widths) > room:
        spare = [width - smallest for width, smallest in zip(widths, least, strict=True)]
        if max(spare) <= 0:
            break
        widths[spare.index(max(spare))] -= 1
    # https://no-color.org: any value counts, the empty one too.
    bold = "NO_COLOR" not in os.environ
    for number, row in enumerate([heads, *rows] if any(heads) else rows):
        for line in _lines(row, widths, flush, gap):
            line = printable(line)
            click.echo(click.style(line, bold=True) if bold and number == 0 and any(heads) else line)


def _lines(row: Sequence[str], widths: Sequence[int], flush: Collection[int], gap: str) -> Iterator[str]:
    """Yield the lines of a row whose cells are broken at blanks."""
    wrap = partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False)
    cells = [wrap(cell, max(width, 1)) for cell, width in zip(row, widths, strict=True)]
    # Numbers stand at the right of their columns, so that their digits stand below each other.
    pads = [str.ljust if place in flush else str.rjust for place in range(len(widths))]
    for parts in zip_longest(*cells, fillvalue=""):
        yield gap.join(pad(part, width) for pad, part, width in zip(pads, parts, widths, strict=True)).rstrip()


def print_columns(columns: Mapping[str, Sequence[str]], texts: Collection[str] = (), repeated: int = 1) -> None:
    """Print columns as one table, or as several that each begin with the first `repeated` ones if they do not fit."""
    for part, group in enumerate(parts(columns, repeated=repeated)):
        if part:
            echo()
        flush = [place for place, name in enumerate(group) if name in texts]
        print_table([*group], list(zip(*group.values(), strict=True)), flush=flush, folded=range(len(group)))


def parts(columns: Mapping[str, Sequence[str]], repeated: int = 1) -> list[dict[str, Sequence[str]]]:
    """Return columns in groups that fit a line, each of which begins with the first `repeated` columns."""
    first = {name: columns[name] for name in [*columns][:repeated]}
    groups = [first]
    for name in [*columns][repeated:]:
        group = {**groups[-1], name: columns[name]}
        # A group has at least one column besides the repeated ones, however narrow the terminal is.
        if len(group) > repeated + 1 and width_of(group) > width():
            group = {**first, name: columns[name]}
            groups.append(group)
        groups[-1] = group
    return groups


def width_of(columns: Mapping[str, Sequence[str]]) -> int:
    """Return the characters that columns take, with the space between them."""
    return sum(2 + max(map(len, [*title.split(), *column])) for title, column in columns.items())


def width() -> int:
    """Return the characters of a line: those of the terminal or of COLUMNS, 80 where there is neither."""
    return shutil.get_terminal_size((WIDTH, 24)).columns


def print_summary(summary: Mapping[str, Any]) -> None:
    """Print a line for each number of a run, with its meaning."""
    metrics = [(name, metric(name)) for name in (*KEYS, *own_metrics([summary]))]
    rows = [(each.label, metric_text(name, summary[name]), each.meaning) for name, each in metrics]
    # A narrow terminal has no room for the meanings.
    rows = rows if width() >= WIDTH else [row[:2] for row in rows]
    print_table((), rows, flush=range(3))


def print_comparison(summaries: Mapping[str, Mapping[str, Any]]) -> None:
    """Print a row for each scenario."""
    names = ["commits", "mean_staleness", *SHORT, *own_metrics(summaries.values()), "commits_per_second"]
    columns = {"scenario": [*summaries]}
    for name in names:
        values = [summary.get(name) for summary in summaries.values()]
        # A column in which no run has news, such as "diverged", is left out.
        if any(is_notable(name, value) for value in values):
            columns[metric(name).label] = [metric_text(name, value) for value in values]
    print_columns(columns, ["scenario", *(metric(name).label for name in NOTABLE)])


def print_numbers(summary: Mapping[str, Any]) -> None:
    """Print lists of one length as the columns of a table, and single values as lines below it."""
    lists = {name: value for name, value in summary.items() if isinstance(value, list)}
    columns = {metric(name).label: [metric_text(name, item) for item in value] for name, value in lists.items()}
    if any(columns.values()):
        print_columns(columns)
    for name, value in summary.items():
        if name not in lists:
            echo(f"{metric(name).label}: {metric_text(name, value)}")
