"""From the log of an asynchronous reinforcement learning system to the columns of its trace."""

from heapq import heappop, heappush
from typing import Any

import numpy as np

from asyncsim._checks import require_one_of
from asyncsim.trace._columns import Faults, TimeColumn, Unfinished, refuse, require_length, restated
from asyncsim.trace._log import ROLLOUTS, Log, note_others, note_units, require_columns
from asyncsim.trace._values import PER_SECOND, Times, as_seconds, start_in_seconds

COLUMNS = ("opened", "ready", "taken", "trained")


def from_log(make: type[Any], log: Log, start: float | str | None, unit: str) -> Any:
    """Return the checked trace of a log of rollouts (see `Trace.from_rollouts`)."""
    with restated(log.in_place):
        require_one_of("unit", unit, choices=PER_SECOND)
        require_columns(log, ROLLOUTS, "Record when each group was opened, and when its step ended.")
        times = as_seconds(log.columns, unit)
        begin = None
        if start is not None and start != "first":
            begin = start_in_seconds(start, 1 if times.are_dates else PER_SECOND[unit]) - times.origin
        tickets, columns, rest = _rows(times, begin)
    jobs = columns["commit_time"] - columns["read_time"]
    job = float(jobs.mean()) if len(jobs) else 0.0
    units = note_units([*times.columns.values()], job, unit, are_dates=times.are_dates)
    notes = (*note_others(log), *times.notes, *units)
    trace = make(workers=tickets, unfinished=Unfinished(**rest), faults=Faults(), notes=notes, **columns)
    trace.check()
    return trace


def _rows(logged: Times, begin: float | None) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Return the tickets, and the columns of the trained groups and of the others."""
    columns = {name: np.where(np.isnan(column), np.inf, column) for name, column in logged.columns.items()}
    end = columns["trained"]
    taken = columns.get("taken", end)
    times = {"opened": columns["opened"], "ready": columns.get("ready", taken), "taken": taken, "trained": end}
    for name, column in times.items():
        require_length(name, column, len(times["opened"]))
    first = times["opened"].min(initial=np.inf) if begin is None else begin
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
