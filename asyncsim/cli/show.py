"""What a person sees: the progress bar on standard error, the table on standard output."""

import time
from collections.abc import Mapping
from typing import Any

from rich import progress as rich_progress
from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from asyncsim.engine import Progress


class Bar:
    """A progress bar for one replay after another; use it as a context."""

    def __init__(self) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(compact=True),
        )
        console = Console(stderr=True)
        self.bar = rich_progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.done: tuple[int, int] | None = None  # commits done and wanted in the replay that is under way
        self._tasks: dict[str, tuple[TaskID, float, int]] = {}  # with the time and commits of the first report

    def __enter__(self) -> "Bar":
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def expect(self, name: str) -> None:
        """Show that work has begun."""
        self._tasks[name] = (self.bar.add_task(name, total=None, state="preparing"), 0.0, 0)

    def show(self, figure: str, seed: int, scenario: object, progress: Progress) -> None:
        """Take in how far one of a figure's replays is, which share a line."""
        del scenario  # The figure and the seed are enough.
        if self.done is None or progress.done <= self.done[0]:
            self.close(figure)  # another replay: its speed is counted anew
        self.update(f"{figure}, seed {seed}", progress)

    def close(self, name: str) -> None:
        """Take away the lines of what is done: those that begin with this name."""
        for task in [task for task in self._tasks if task.split(",")[0] == name]:
            self.bar.remove_task(self._tasks.pop(task)[0])

    def update(self, name: str, progress: Progress) -> None:
        """Take in how far a replay is."""
        self.done = (progress.done, progress.total)
        now = time.monotonic()
        if name not in self._tasks:
            self.expect(name)
        task, begun, first = self._tasks[name]
        if not begun:
            begun, first = now, progress.done
            self._tasks[name] = (task, begun, first)
        state = [f"{progress.done:,} of {progress.total:,} commits"]
        if now > begun:
            state.append(f"{(progress.done - first) / (now - begun):,.0f}/s")
        if progress.loss is not None:
            state.append(f"loss {progress.loss:.4g}")
        self.bar.update(task, completed=progress.done, total=progress.total, state="  ".join(state))


def show_summary(summary: Mapping[str, Any]) -> None:
    """A short table of one run."""
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for label, text in rows(summary):
        table.add_row(label, text)
    Console().print(table)


def rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The lines of the table: what it is, and its value."""
    return [
        ("commits", f"{summary['commits']:,}"),
        ("simulated seconds", number(summary["simulated_seconds"])),
        ("mean staleness", number(summary["mean_staleness"])),
        ("final training loss", f"{number(summary['final_loss'])}  (mean of each worker's last 50 commits, or fewer)"),
        ("test loss", number(summary["test_loss"])),
        ("test accuracy", percent(summary["test_accuracy"])),
        ("diverged", diverged(summary)),
        (
            "commits per second",
            f"{rate(summary)}  (real time; {summary['wall_seconds']:.1f} s with compiling)",
        ),
    ]


def show_comparison(summaries: Mapping[str, Mapping[str, Any]]) -> None:
    """One row a scenario, within 80 columns."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("scenario", no_wrap=True)
    for head in ("commits", "staleness", "final loss", "accuracy", "commits/s"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, summary in summaries.items():
        loss = number(summary["final_loss"]) if summary["diverged_at"] is None else "diverged"
        staleness, accuracy = number(summary["mean_staleness"]), percent(summary["test_accuracy"])
        table.add_row(name, f"{summary['commits']:,}", staleness, loss, accuracy, rate(summary))
    Console().print(table)


def show_numbers(summary: Mapping[str, Any]) -> None:
    """Lists of one length as the columns of a table, single values as lines below it."""
    columns = {name: [*map(cell, value)] for name, value in summary.items() if isinstance(value, list)}
    for group in side_by_side(columns) if columns else ():
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for name in group:
            table.add_column(name.replace("_", " "), justify="right")
        for entries in zip(*group.values(), strict=True):
            table.add_row(*entries)
        Console().print(table)
    for name, value in summary.items():
        if name not in columns:
            Console().print(f"{name.replace('_', ' ')}: {cell(value)}", highlight=False)


def side_by_side(columns: Mapping[str, list[str]], width: int = 80) -> list[dict[str, list[str]]]:
    """Columns in groups that fit a line; each group begins with the first column.

    Example:
        >>> [list(group) for group in side_by_side({"n": ["1"], "rate": ["0.5"], "wait": ["2"]}, width=12)]
        [['n', 'rate'], ['n', 'wait']]
    """
    first, *rest = columns
    groups = [{first: columns[first]}]
    for name in rest:
        group = {**groups[-1], name: columns[name]}
        if len(group) > 2 and sum(2 + _widest(title, column) for title, column in group.items()) > width:
            group = {first: columns[first], name: columns[name]}
            groups.append(group)
        groups[-1] = group
    return groups


def _widest(title: str, column: list[str]) -> int:
    return max(map(len, [*title.split("_"), *column]))


def cell(value: Any) -> str:
    """A number, text or dash."""
    return value if isinstance(value, str) else str(value) if isinstance(value, bool) else number(value)


def number(value: float | None) -> str:
    """Four digits, or a dash for what there is not."""
    return "–" if value is None else f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def percent(value: float | None) -> str:
    """A share in percent, or a dash."""
    return "–" if value is None else f"{value:.2%}"


def diverged(summary: Mapping[str, Any]) -> str:
    """Whether and where a run diverged."""
    return "no" if summary["diverged_at"] is None else f"at commit {summary['diverged_at']:,}"


def rate(summary: Mapping[str, Any]) -> str:
    """Commits per second of real time."""
    return "–" if summary["commits_per_second"] is None else f"{summary['commits_per_second']:,.0f}"
