"""From the log of an asynchronous reinforcement learning system to the columns of its trace."""

import os
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import require_array
from asyncsim.trace._columns import TimeColumn, refuse, require_length, require_one_dimension, restated
from asyncsim.trace._csv import read_cells

COLUMNS = ("opened", "ready", "taken", "trained")
NEEDED = {"opened", "trained"}


def from_rollouts(
    opened: ArrayLike,
    trained: ArrayLike,
    ready: ArrayLike | None,
    taken: ArrayLike | None,
    start: float | Literal["first"],
) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Return the tickets, and the columns of the trained groups and of the others (see `Trace.from_rollouts`)."""
    end = _column("trained", trained)
    times = {
        "opened": _column("opened", opened),
        "ready": _column("ready", end if ready is None and taken is None else taken if ready is None else ready),
        "taken": _column("taken", end if taken is None else taken),
        "trained": end,
    }
    for name, column in times.items():
        require_length(name, column, len(times["opened"]))
    first = times["opened"].min(initial=np.inf) if start == "first" else float(start)
    times = {name: column - (first if np.isfinite(first) else 0.0) for name, column in times.items()}
    _check(times)
    steps = np.unique(times["trained"][np.isfinite(times["trained"])])
    version = np.searchsorted(steps, times["trained"]).astype(np.int32)
    read = np.searchsorted(steps, times["opened"], side="right").astype(np.int32)
    tickets, ticket = _tickets(times["opened"], times["trained"])
    done = np.flatnonzero(np.isfinite(times["trained"]))
    done = done[np.lexsort((times["ready"][done], version[done]))]
    rest = np.flatnonzero(np.isinf(times["trained"]))
    jobs = {"worker": ticket, "read_version": read, "read_time": times["opened"], "finish_time": times["ready"]}
    others = {name: column[rest] for name, column in jobs.items()}
    jobs |= {"version": version, "pull_version": version, "start_time": times["opened"], "arrive_time": times["ready"]}
    jobs |= {"serve_time": times["taken"], "commit_time": times["trained"]}
    commits = {name: column[done] for name, column in jobs.items()}
    commits["closes_step"] = np.append(np.diff(version[done]) > 0, True)[: len(done)]
    return tickets, commits, others


def _column(name: str, values: Any) -> TimeColumn:
    """Return the times, infinite where there is none."""
    column = require_array(name, values).astype(np.float64)
    require_one_dimension(name, column)
    column[np.isnan(column)] = np.inf
    return column


def _check(times: dict[str, TimeColumn]) -> None:
    opened = times["opened"]
    remedy = "Every group was opened, and none before the start."
    refuse(~(np.isfinite(opened) & (opened >= 0)), "opened", opened, "be finite and not negative", remedy)
    bad = np.isfinite(opened) & (times["trained"] <= opened)
    refuse(bad, "trained", times["trained"], "be later than `opened`", "A step ends after its groups were opened.")
    remedy = "A group is opened, complete, taken by a step and trained, in this order."
    for before, after in (("opened", "ready"), ("ready", "taken"), ("taken", "trained")):
        refuse(times[after] < times[before], after, times[after], f"not precede `{before}`", remedy)
        missing = np.isinf(times[before]) & np.isfinite(times[after])
        refuse(missing, before, times[before], f"be finite where `{after}` is", remedy)


def _tickets(opened: TimeColumn, trained: TimeColumn) -> tuple[int, np.ndarray]:
    """Return the largest number of groups that are open at the same time, and the ticket that each group holds."""
    ticket = np.zeros(len(opened), np.int32)
    held: list[tuple[float, int]] = []
    tickets = 0
    for group in np.argsort(opened, kind="stable").tolist():
        if held and held[0][0] <= opened[group]:
            ticket[group] = heappop(held)[1]
        else:
            ticket[group] = tickets
            tickets += 1
        heappush(held, (float(trained[group]), int(ticket[group])))
    return max(tickets, 1), ticket


def is_log(path: str | os.PathLike[str]) -> bool:
    """Return whether the first line of a CSV file names the columns of a rollout log."""
    return Path(path).is_file() and _names(path) >= NEEDED


def _names(path: str | os.PathLike[str]) -> set[str]:
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        return {name.strip() for name in file.readline(10_000).split(",")}


def from_csv(make: type[Any], path: str | os.PathLike[str], start: float | Literal["first"] | None) -> Any:
    """Return the trace of a CSV file."""
    with restated(lambda error: error.replace(source=f"{str(path)!r} holds no valid log: ")):
        cells = read_cells(Path(path), lambda names: None, text=_names(path).difference(COLUMNS))
        with restated(cells.in_lines):
            return make.from_rollouts(**cells.numbers, start="first" if start is None else start)
