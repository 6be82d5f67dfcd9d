"""Tables and numbers as a person reads them, within 80 columns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from asyncsim.folders.summaries import own_metrics

WIDTH = 80


def print_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    text: Iterable[int] = (0,),
    folded: Iterable[int] = (),
    widths: Mapping[int, int] | None = None,
) -> None:
    """Print a table without lines.

    Args:
        heads: Of the columns; empty for a table without a head.
        rows: At least one, of cells.
        text: Columns of text, which are set flush left; the others hold numbers.
        folded: Columns that may be broken into several lines.
        widths: Column -> the most that it may take, in characters.
    """
    space = 3 if len(rows[0]) <= 3 else 2  # between columns
    table = Table(box=None, pad_edge=False, padding=(0, space, 0, 0), header_style="bold", show_header=bool(heads))
    for place in range(len(rows[0])):
        head = heads[place] if heads else ""
        justify: Literal["left", "right"] = "left" if place in text else "right"
        width = None if widths is None else widths.get(place)
        table.add_column(head, justify=justify, no_wrap=place not in folded, max_width=width)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def print_summary(summary: Mapping[str, Any]) -> None:
    """A short table of one run."""
    before = f"yes: the loss was {number(summary['initial_loss'])} before training"
    stuck = [("stuck", before)] if summary["stuck"] else []
    rows = [
        ("commits", f"{summary['commits']:,}"),
        ("simulated seconds", number(summary["simulated_seconds"])),
        ("mean staleness", number(summary["mean_staleness"])),
        ("final training loss", f"{number(summary['final_loss'])}  (each worker's last quarter, at most 50 commits)"),
        ("test loss", number(summary["test_loss"])),
        ("test accuracy", percent(summary["test_accuracy"])),
        *((spaced(name), number(value)) for name, value in own_metrics(summary).items()),
        ("diverged", "no" if summary["diverged_at"] is None else f"at commit {summary['diverged_at']:,}"),
        *stuck,
        ("commits per second", f"{rate(summary)}  (real time; {summary['wall_seconds']:.1f} s with compiling)"),
    ]
    print_table((), rows, text=(0, 1), folded=(0, 1))


def print_comparison(summaries: Mapping[str, Mapping[str, Any]]) -> None:
    """One row per scenario."""
    rows = []
    for name, summary in summaries.items():
        loss = loss_text(summary)
        staleness, accuracy = number(summary["mean_staleness"]), percent(summary["test_accuracy"])
        rows.append((name, f"{summary['commits']:,}", staleness, loss, accuracy, rate(summary)))
    print_table(("scenario", "commits", "staleness", "final loss", "accuracy", "commits/s"), rows)
    _print_own_metrics(summaries)


def _print_own_metrics(summaries: Mapping[str, Mapping[str, Any]]) -> None:
    """One row per scenario, one column per metric that is not in the table of all."""
    own = {name: own_metrics(summary) for name, summary in summaries.items()}
    metrics = dict.fromkeys(metric for measured in own.values() for metric in measured)
    columns = {metric: [number(measured.get(metric)) for measured in own.values()] for metric in metrics}
    for group in side_by_side({"scenario": [*own], **columns})[: len(columns)]:
        Console().print()
        print_table([spaced(name) for name in group], list(zip(*group.values(), strict=True)))


def print_numbers(summary: Mapping[str, Any]) -> None:
    """Lists of one length as the columns of a table, single values as lines below it."""
    columns = {name: [*map(cell, value)] for name, value in summary.items() if isinstance(value, list)}
    for group in side_by_side(columns) if columns else ():
        heads = [spaced(name) for name in group]
        rows = list(zip(*group.values(), strict=True))
        if rows:
            print_table(heads, rows, text=(), folded=range(len(heads)))
    for name, value in summary.items():
        if name not in columns:
            Console().print(f"{spaced(name)}: {cell(value)}", highlight=False)


def side_by_side(columns: Mapping[str, list[str]], width: int = WIDTH, repeated: int = 1) -> list[dict[str, list[str]]]:
    """Columns in groups that fit a line; each group begins with the first `repeated` columns.

    Example:
        >>> [list(group) for group in side_by_side({"n": ["1"], "rate": ["0.5"], "wait": ["2"]}, width=12)]
        [['n', 'rate'], ['n', 'wait']]
    """
    first = {name: columns[name] for name in [*columns][:repeated]}
    groups = [first]
    for name in [*columns][repeated:]:
        group = {**groups[-1], name: columns[name]}
        if len(group) > repeated + 1 and width_of(group) > width:
            group = {**first, name: columns[name]}
            groups.append(group)
        groups[-1] = group
    return groups


def width_of(columns: Mapping[str, list[str]]) -> int:
    """Characters that columns take, with the space between them."""
    return sum(2 + _widest(title, column) for title, column in columns.items())


def _widest(title: str, column: list[str]) -> int:
    return max(map(len, [*title.split("_"), *column]))


def spaced(name: str) -> str:
    """A name in words."""
    return name.replace("_", " ")


def cell(value: Any) -> str:
    """A number, a text or a dash."""
    return value if isinstance(value, str) else str(value) if isinstance(value, bool) else number(value)


def number(value: float | None) -> str:
    """Four digits; a dash for None."""
    return "–" if value is None else f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def percent(value: float | None) -> str:
    """A share in percent; a dash for None."""
    return "–" if value is None else f"{value:.2%}"


def loss_text(summary: Mapping[str, Any]) -> str:
    """The final loss, or that the run diverged; with a mark if it did not learn.

    Example:
        >>> loss_text({"final_loss": 2.305, "diverged_at": None, "stuck": True})
        '2.305 (stuck)'
    """
    loss = number(summary["final_loss"]) if summary["diverged_at"] is None else "diverged"
    return f"{loss} (stuck)" if summary["stuck"] else loss


def rate(summary: Mapping[str, Any]) -> str:
    """Commits per second of real time."""
    return "–" if summary["commits_per_second"] is None else f"{summary['commits_per_second']:,.0f}"
