"""From the log of an asynchronous reinforcement learning system to the columns of its trace."""

from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncsim.trace._columns import (
    COMMIT_COLUMNS,
    NEVER,
    Fate,
    Faults,
    TimeColumn,
    Unfinished,
    refuse,
    require_length,
    reworded,
)
from asyncsim.trace._log import ROLLOUTS, Log, note_others, note_units, require_columns, units_of
from asyncsim.trace._presence import find_pauses
from asyncsim.trace._rollout_findings import (
    find_losses,
    note_clocks,
    note_doubled,
    note_order,
    note_pauses,
    note_sizes,
    note_skipped,
)
from asyncsim.trace._values import PER_SECOND, Times, Units, as_numbers, as_seconds, start_in_seconds

COLUMNS = ("opened", "ready", "taken", "trained", "version", "read_version")
VERSIONS = ("version", "read_version")
SAME = 0.02  # of a step's time: stamps that are nearer are of one step
LEAST_STEPS = 3  # of one size, which then is no accident
RECORDED = {  # column of a log -> those of the trace that it records
    "opened": {"read_time", "start_time"},
    "ready": {"finish_time", "arrive_time"},
    "taken": {"serve_time"},
    "trained": {"commit_time"},
    "version": {"version", "pull_version", "closes_step"},
    "read_version": {"read_version"},
}


def from_log(make: type[Any], log: Log, start: float | str | None, unit: Units) -> Any:
    """Return the checked trace of a log of rollouts (see `Trace.from_rollouts`)."""
    with reworded(log.with_location):
        require_columns(log, ROLLOUTS, "Record when each group was opened, and when its step ended.")
        stamped = {name: column for name, column in log.columns.items() if name not in VERSIONS}
        units, about_names = units_of(log, unit, stamped)
        times = as_seconds(stamped, units)
        logged = {name: as_numbers(name, log.columns[name]) for name in VERSIONS if name in log.columns}
        numbers, about_units = count_by_ones(logged)
        per_second = 1 if times.are_dates else PER_SECOND[units["opened"]]
        begin = None if start in (None, "first") else start_in_seconds(start, per_second) - times.origin
        tickets, columns, rest, about_versions = _rows(times, numbers, begin)
        # Doubled rows explain other sizes of steps, and rows out of order.
        others = [*note_sizes(columns["version"]), *note_order(log, times, numbers)]
        about_rows = note_doubled(log, times, numbers) or others
        about_skipped = note_skipped(numbers)
    about_groups = (*about_units, *about_versions, *about_rows, *about_skipped)
    jobs = columns["commit_time"] - columns["read_time"]
    job = float(jobs.mean()) if len(jobs) else 0.0
    about_times = note_units(times.columns, job, units.values(), are_dates=times.are_dates)
    notes = (
        *note_others(log),
        *about_names,
        *times.notes,
        *about_times,
        *about_groups,
        *note_clocks(columns, "read_version" in numbers),
    )
    recorded = set[str]().union(*(RECORDED[name] for name in (*times.columns, *numbers)))
    derived = tuple(name for name in COMMIT_COLUMNS if name not in recorded)
    parts = {"unfinished": Unfinished(**rest), "faults": Faults(), "notes": notes, "derived": derived}
    trace = make(workers=tickets, **parts, **columns)
    trace.check()
    return trace


def _rows(
    logged: Times, numbers: dict[str, TimeColumn], begin: float | None
) -> tuple[int, dict[str, Any], dict[str, Any], list[str]]:
    """Return the tickets, the columns of the trained groups and of the others, and notes on versions."""
    columns = {name: np.where(np.isnan(column), np.inf, column) for name, column in logged.columns.items()}
    end = columns["trained"]
    start_of_step = columns.get("taken", end)
    ready_or_taken = columns.get("ready", start_of_step)
    times = {"opened": columns["opened"], "ready": ready_or_taken, "taken": start_of_step, "trained": end}
    for name, column in times.items():
        require_length(name, column, len(times["opened"]))
    first = times["opened"].min(initial=np.inf) if begin is None else begin
    counted = {name: column - (first if np.isfinite(first) else 0.0) for name, column in times.items()}
    _check(counted)
    version, steps = _steps(counted, numbers, "taken" in columns)
    trained = np.append(steps, np.inf)[version]
    stamps = {name: np.minimum(counted[name], trained) for name in ("opened", "ready", "taken")}
    by_time = np.searchsorted(steps, stamps["opened"], side="right").astype(np.int32)
    read, notes = _read_versions(version, by_time, numbers) if "read_version" in numbers else (by_time, [])
    # A logged version wins over the time, which is moved to when the trainer had it.
    ends = np.concatenate([[0.0], steps, [np.inf]])
    opened = np.clip(stamps["opened"], ends[read], np.nextafter(ends[read + 1], 0.0))
    ready = np.maximum(stamps["ready"], opened)
    taken = np.maximum(stamps["taken"], ready)
    tickets, ticket = _tickets(opened, trained)
    pauses = find_pauses(*_in_order(ticket, trained), tickets)
    lost = find_losses(opened, stamps["ready"], trained, pauses)
    if np.isfinite(lost).any():  # Others take their places.
        tickets, ticket = _tickets(opened, np.minimum(trained, lost))
    done, never = np.flatnonzero(np.isfinite(trained)), np.flatnonzero(np.isinf(trained))
    rest = never[np.argsort(lost[never], kind="stable")]
    in_order = done[np.lexsort((ready[done], version[done]))]
    of_all = {"worker": ticket, "read_version": read, "read_time": opened, "finish_time": ready}
    of_commits = {"version": version, "pull_version": version, "start_time": opened, "arrive_time": ready}
    jobs = of_all | of_commits | {"serve_time": taken, "commit_time": trained}
    commits = {name: column[in_order] for name, column in jobs.items()}
    closes_step = np.append(np.diff(commits["version"]) > 0, True)[: len(done)]
    others = {name: column[rest] for name, column in of_all.items()} | _fates(lost[rest], steps)
    about_pauses = note_pauses(pauses, int(np.isfinite(lost).sum()))
    return tickets, commits | {"closes_step": closes_step}, others, [*notes, *about_pauses]


def _in_order(ticket: NDArray[np.int32], trained: TimeColumn) -> tuple[NDArray[np.int32], TimeColumn]:
    """Return the tickets and the times of the trained groups, in the order of their steps."""
    order = np.argsort(trained, kind="stable")[: np.count_nonzero(np.isfinite(trained))]
    return ticket[order], trained[order]


def _fates(lost: TimeColumn, steps: TimeColumn) -> dict[str, Any]:
    """Return how the groups ended that were never trained: lost at a time, or still in flight."""
    is_lost = np.isfinite(lost)
    version = np.where(is_lost, np.searchsorted(steps, lost, side="right"), NEVER)
    return {"end_time": lost, "end_version": version, "fate": np.where(is_lost, Fate.LOST, Fate.IN_FLIGHT)}


def count_by_ones(numbers: dict[str, TimeColumn]) -> tuple[dict[str, TimeColumn], list[str]]:
    """Return versions that count steps, where those of a log count several updates in each, and a note."""
    version = np.unique(numbers.get("version", np.zeros(0)))
    known = {name: values[np.isfinite(values)] for name, values in numbers.items()}
    are_whole = all((values % 1 == 0).all() for values in known.values())
    if np.isfinite(version).sum() <= LEAST_STEPS or not are_whole or np.abs(version[:-1]).max() > 2**53:
        return numbers, []
    apart = np.unique(np.concatenate([*known.values()])) - version[0]
    unit = int(np.gcd.reduce(apart.astype(np.int64)))
    if unit <= 1:
        return numbers, []
    note = (
        f"`version` grows by {unit} in a step, and was counted in steps. If the log lacks the steps in between, "
        f"staleness is {unit} times as large."
    )
    return {name: (values - version[0] % unit) / unit for name, values in numbers.items()}, [note]


def _read_versions(
    version: NDArray[np.int32], by_time: NDArray[np.int32], numbers: dict[str, TimeColumn]
) -> tuple[NDArray[np.int32], list[str]]:
    """Return the version that each group read, where one that is not logged follows from its time, and notes."""
    logged = numbers["read_version"]
    first, known = _first_version(version, by_time, numbers), np.isfinite(logged)
    read = by_time.copy()
    # Without any step, nobody has read a later version than the first.
    read[known] = np.maximum(logged[known] - first, 0).astype(np.int32) if np.isfinite(first) else 0
    remedy = "A group is opened before its step. Correct it or `version`."
    refuse(read > version, "read_version", logged, "not exceed `version`", remedy)
    return read, _note_versions(numbers, first)


def _first_version(step: NDArray[np.int32], by_time: NDArray[np.int32], numbers: dict[str, TimeColumn]) -> float:
    """Return the number by which a log calls the version that its first step reads.

    A log may call a version by the step that made it: its reads begin at 0, and its steps at 1.
    """
    reads = numbers["read_version"]
    if "version" in numbers:
        return 0.0 if _is_made(by_time, numbers) else float(numbers["version"][step == 0].min(initial=np.inf))
    known = np.isfinite(reads)
    # Without numbers of steps, reads that do not begin at 0 are counted as the times say it of most groups.
    return float(np.round(np.median((reads - by_time)[known]))) if known.any() and reads[known].min() > 0 else 0.0


def _is_made(by_time: NDArray[np.int32], numbers: dict[str, TimeColumn]) -> bool:
    """Return whether `version` is the one that a step made: steps count from 1, and reads from 0 as the times do."""
    version, read = (numbers[name] for name in VERSIONS)
    known = np.isfinite(read)
    counts_from_1 = version[np.isfinite(version)].min(initial=np.inf) == 1 and read[known].min(initial=np.inf) == 0
    return bool(counts_from_1 and not (read >= version).any() and np.median((read - by_time)[known]) == 0)


def _steps(
    times: dict[str, TimeColumn], numbers: dict[str, TimeColumn], taken_is_known: bool
) -> tuple[NDArray[np.int32], TimeColumn]:
    """Return the step of each group, or the number of steps if none trained it, and when the steps ended.

    One trainer has one step at a time: groups whose intervals from `taken` to `trained` nearly agree are of one step,
    which ended before their first stamp. Where the version of each step is logged, it decides.
    """
    trained, taken, number = times["trained"], times["taken"], numbers.get("version")
    done = np.flatnonzero(np.isfinite(trained))
    step = np.zeros(len(done), np.int64)
    if number is not None:
        refuse(
            np.isfinite(trained) & np.isnan(number), "version", number, "be known for a trained group", "Fill it in."
        )
        done = done[np.lexsort((trained[done], number[done]))]
        growth = np.diff(number[done], prepend=number[done[:1]])
        if "read_version" in numbers:
            lost = np.zeros(len(trained), np.bool_)
            lost[done] = growth > 1
            rule = "grow by one at most from step to step, where `read_version` is logged"
            refuse(lost, "version", number, rule, "Add the groups of the steps before, or leave out `read_version`.")
        step = np.cumsum(growth != 0)
    elif len(done):
        done = done[np.lexsort((taken[done], trained[done]))]
        if taken_is_known:
            near = SAME * (trained[done] - taken[done])[:-1]
            apart = (np.diff(trained[done]) > near) | (np.abs(np.diff(taken[done])) > near)
        else:
            apart = _stamps_apart(np.diff(trained[done]))
        step = np.append(0, np.cumsum(apart))
        _require_one_step_at_a_time(times, done, step)
    count = int(step.max(initial=-1)) + 1
    ends, last, begin = np.full(count, np.inf), np.zeros(count), np.zeros(count)
    np.minimum.at(ends, step, trained[done])
    np.maximum.at(last, step, trained[done])
    np.maximum.at(begin, step, taken[done])
    if not taken_is_known:
        begin = np.append(0.0, ends[:-1])
    # Stamps of one step differ, so that it may have ended as long before the first of them as they are ever apart.
    blur = float((last - ends).max(initial=0.0))
    ends = np.maximum(ends - np.minimum(blur, SAME * (ends - begin)), np.minimum(begin, ends))
    late = np.append(False, np.diff(ends) <= 0)[step] if len(step) else np.zeros(0, np.bool_)
    backwards = np.zeros(len(trained), np.bool_)
    backwards[done[late]] = True
    _require_one_run(done, step, trained, ends, last, number)
    refuse(
        backwards, "trained", trained, "grow with `version`", "A step ends after the one before it. Correct a clock."
    )
    version = np.full(len(trained), len(ends), np.int32)
    version[done] = step
    return version, ends


def _require_one_run(
    done: NDArray[np.intp],
    step: NDArray[np.int64],
    trained: TimeColumn,
    ends: TimeColumn,
    last: TimeColumn,
    number: TimeColumn | None,
) -> None:
    """Refuse a version of which groups were trained after two later ones had been made, as by another run."""
    if number is None:
        return
    again = np.append(last[:-2] > ends[2:], [False, False])[: len(ends)]
    bad = np.zeros(len(trained), np.bool_)
    bad[done] = again[step] & (trained[done] == last[step])
    remedy = "Does the log hold two runs, or one that went back to a checkpoint? Read each part by itself."
    refuse(bad, "version", number, "be trained before the versions after the next", remedy)


def _stamps_apart(gaps: TimeColumn) -> NDArray[np.bool_]:
    """Return which times between sorted stamps are between steps, where nobody logged when a step began.

    Stamps that differ are of one step if all their differences are far shorter than those between steps, and if most
    steps get batches of one size by it, while those with equal stamps are not.
    """
    apart = gaps > 0
    sorted_gaps = np.sort(gaps[apart])
    ratios = sorted_gaps[1:] * SAME / sorted_gaps[:-1]
    if not len(ratios) or ratios.max() < 1 or _have_one_size(apart):
        return apart
    merged = gaps > sorted_gaps[int(ratios.argmax())]
    return merged if _have_one_size(merged) else apart


def _have_one_size(apart: NDArray[np.bool_]) -> bool:
    """Return whether most of several steps have the same number of groups, two or more."""
    sizes = np.bincount(np.append(0, np.cumsum(apart)))
    times = np.bincount(sizes)
    return len(sizes) >= LEAST_STEPS and int(times.argmax()) > 1 and 2 * int(times.max()) > len(sizes)


def _require_one_step_at_a_time(times: dict[str, TimeColumn], done: NDArray[np.intp], step: NDArray[np.int64]) -> None:
    """Refuse a step that begins while another one is under way. Several may begin with one batch, one after another."""
    trained, taken = times["trained"][done], times["taken"][done]
    first = np.flatnonzero(np.diff(step, prepend=-1))
    begin, end = taken[first], trained[first]
    overlap = end[:-1] - begin[1:] > SAME * (end - begin)[1:]
    overlap &= np.abs(np.diff(begin)) > SAME * (end - begin)[1:]
    bad = np.zeros(len(times["taken"]), np.bool_)
    bad[done[first[1:][overlap]]] = True
    remedy = "One trainer has one step at a time: give the groups of a step one `trained`, or log `version`."
    refuse(bad, "taken", times["taken"], "not precede the end of the step before", remedy)


def _note_versions(numbers: dict[str, TimeColumn], first: float) -> list[str]:
    """Say how versions were understood, of which the first step reads the one that the log calls `first`."""
    version, read = numbers.get("version", np.zeros(0)), numbers["read_version"]
    is_made = bool((version > first).any() and not (version == first).any())
    early = int((read < first).sum())
    groups = "1 group" if early == 1 else f"{early:,} groups"
    return [
        *["`version` was taken for the one that a step made, which groups read next."] * is_made,
        *[f"{groups} had read before the log began, and count as read at its beginning."] * bool(early),
    ]


def _check(times: dict[str, TimeColumn]) -> None:
    opened = times["opened"]
    remedy = "Every group was opened, and none before the start."
    refuse(~(np.isfinite(opened) & (opened >= 0)), "opened", opened, "be finite and not negative", remedy)
    bad = np.isfinite(opened) & (times["trained"] <= opened)
    later = "A step ends after its groups were opened: did a clock step back, or do the columns have other units?"
    refuse(bad, "trained", times["trained"], "be later than `opened`", later)
    remedy = "A group is opened, complete, taken by a step and trained, in this order."
    for before, after in (("opened", "ready"), ("ready", "taken"), ("taken", "trained")):
        missing = np.isinf(times[before]) & np.isfinite(times[after])
        filling = f"{remedy} Fill it in, or leave out the column."
        refuse(missing, before, None, f"be known where `{after}` is", filling)
        refuse(times[after] < times[before], after, times[after], f"not precede `{before}`", remedy)


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
