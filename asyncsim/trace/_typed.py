"""The columns of a log in their types, counted from the start of its run, each row possible by itself."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import nearest
from asyncsim._metrics import counted as count_of
from asyncsim.trace._columns import (
    COMMIT_COLUMNS,
    UNFINISHED_COLUMNS,
    IntColumn,
    TimeColumn,
    TraceError,
    checked_names,
    group_of,
    previous_own_row,
    refuse,
    require_length,
)
from asyncsim.trace._durations import DURATION, add_stamps, touch
from asyncsim.trace._findings import MOST_TIES
from asyncsim.trace._flat import (
    COLUMNS,
    COMMIT_TYPES,
    COMMITTED,
    EMPTY,
    FATES,
    IDLE,
    KNOWN,
    TIMES,
    TYPES,
    Table,
    empty_of,
    fates,
    in_type,
)
from asyncsim.trace._log import NEEDED, Log, note_others, note_units, require_columns, units_of
from asyncsim.trace._values import (
    EPOCH,
    PER_SECOND,
    Times,
    Units,
    as_array,
    as_numbers,
    as_seconds,
    as_texts,
    start_in_seconds,
)

Start = float | str | None  # a time, "first", or a date

LATEST = 2.0**53  # seconds: beyond it, a float64 cannot tell one second from the next
# A log in which every worker commits this often does not begin this many times as late as it is long.
FAR = 10
SECONDS_OF_TODAY = 1e11  # Unix times in seconds are below
LONGEST_NAME = 200  # characters of a worker
LEAST_RUN = 5  # rows, on average, of parts in order: rows at random have 2
BEGINS = frozenset({"read_time", "start_time", "finish_time"})  # with a duration, each gives the time of the commit
ENDED_MUST_HAVE = ("read_version", "read_time")
WORKER_REMEDY = "Say who committed, or remove the row."
COMMIT_REMEDY = (
    "Fill it in, remove the row, or give `fate`, which is in_flight for a job that had read and not committed."
)
REPEATED = "Remove the row; or, if it is another commit, give `read_time`, or number the commits in `version`"
ROUNDED = (
    "The clock is coarse, so that it may be another commit: number the rows, in the order of the commits, in `version` "
    "(0, 1, 2, …), or log times with their fractions. Remove the row only if it was logged twice"
)


class Typed(NamedTuple):
    """The columns of a log in their types, each row possible by itself, with times from the start of the run."""

    table: Table
    names: tuple[str, ...]  # of the workers
    begin: float  # seconds, when the run began, in the log's own time
    notes: tuple[str, ...]
    derived: tuple[str, ...]  # columns of commits that the log does not have


def read_columns(log: Log, workers: int | None, start: Start, unit: Units) -> Typed:
    """Return the columns of a log in their types."""
    units, about_units = units_of(log, unit, [name for name in log.columns if name in TIMES or name == DURATION])
    _require_names(log)
    worker, names, about_names = parse_workers(log.columns["worker"], workers)
    labels = {"worker": worker} | ({"fate": _parse_fates(log)} if "fate" in log.columns else {})
    times = as_seconds({name: values for name, values in log.columns.items() if name in TIMES}, units)
    added, about_durations = (
        add_stamps(times.columns, worker, log.columns[DURATION], units[DURATION], is_named=DURATION in log.named)
        if DURATION in log.columns
        else ({}, [])
    )
    numbers = {name: as_numbers(name, values) for name, values in log.columns.items() if _is_number(name)}
    stamps = {**times.columns, **added}
    if (added or len({*units.values()}) > 1) and "commit_time" in stamps:
        stamps = touch(stamps, worker)
    measured = {**numbers, **stamps}
    missing = _find_missing(measured, labels)
    typed = labels | {name: _in_type(name, values, labels) for name, values in measured.items() if name not in missing}
    log_columns, about_versions = count_versions(typed)
    # Without times, the commits are one second apart. See `_require_names` for when times may be missing.
    is_timed = "commit_time" in log_columns
    table = log_columns if is_timed else log_columns | {"commit_time": np.arange(1.0, len(worker) + 1)}
    origin = times.origin if is_timed else 0.0
    require_plausible(table, origin)
    about_order = _note_order(log, table)
    _require_different_commits(table)
    per_second = PER_SECOND[units.get("commit_time", next(iter(units.values()), "s"))]
    begin = start_of(table, start, origin, 1 if times.are_dates else per_second, dated=times.are_dates)
    _require_fates(table)
    _require_what_applies(table)
    about_missing = [f"`{name}` has no values, and is taken to be missing." for name in missing]
    about_columns = (
        *note_others(log),
        *about_units,
        *about_durations,
        *about_names,
        *times.notes,
        *about_missing,
        *about_versions,
    )
    about_times = (*_note_units(log, table, times, units), *_note_dates(times, start, begin + origin))
    notes = (*about_columns, *about_order, *about_times)
    # Versions read by group determine `read_version`, so it is not derived from times.
    has_reads = "read_version" in log_columns or any(map(group_of, log_columns))
    derived = tuple(c for c in COMMIT_COLUMNS if c not in log_columns and not (c == "read_version" and has_reads))
    return Typed(count_from(begin, table), names, begin + origin, notes, derived)


def _note_units(log: Log, table: Table, times: Times, units: Mapping[str, str]) -> list[str]:
    """Say where times may count in another unit, but of our own files, which hold no findings."""
    if log.columns.keys() >= {*COLUMNS}:
        return []
    done = table["commit_time"][np.isfinite(table["commit_time"])]
    job = np.ptp(done) * len(np.unique(table["worker"])) / len(done) if len(done) else 0.0
    columns = {name: table[name] for name in times.columns if name in table}
    return note_units(columns, job, units.values(), are_dates=times.are_dates)


def _note_dates(times: Times, start: Start, begin: float) -> list[str]:
    """Say from which date times count, if that is the earliest one of the log."""
    if not (times.are_dates and start is None and begin):
        return []
    return [f"Times count from the earliest date, {np.datetime64(round(begin * 1e6), 'us')} UTC."]


def _parse_fates(log: Log) -> NDArray[Any]:
    codes, texts = as_texts("fate", log.columns["fate"])
    return np.array([*texts, ""])[codes]


def _find_missing(columns: Table, labels: Table) -> list[str]:
    """Find the columns of a log that have no values at all. Our own files, with fates, may have such columns."""
    for name, values in columns.items():
        require_length(name, values, len(labels["worker"]))
    if "fate" in labels or not len(labels["worker"]):
        return []
    return [name for name, values in columns.items() if name not in NEEDED and np.isnan(values).all()]


def _in_type(name: str, values: NDArray[np.float64], labels: Table) -> NDArray[Any]:
    """Return a column in its type, in which empty cells have the value that stands for them."""
    empty = np.isnan(values)
    # Whether a commit closes its step cannot be left open.
    may_be_empty = fates(labels) != COMMITTED if TYPES.get(name) is np.bool_ else True
    return in_type(name, np.where(empty & may_be_empty, empty_of(name), values))


def count_versions(table: Table) -> tuple[Table, tuple[str, ...]]:
    """Return a table whose versions begin at 0, each the one to which a commit was applied, and notes on what changed.

    The versions of a log may begin at 1, or in the middle of a run. Then each worker's first job may have read before
    the log. `version` may also be the one that a commit made: a worker that reads next, sees this number.
    """
    done = np.flatnonzero(fates(table) == COMMITTED)
    version = table["version"][done] if "version" in table else np.zeros(0, np.int32)
    if not len(version) or version.min() < 1:
        return table, ()
    worker, previous = table["worker"][done], previous_own_row(table["worker"][done])
    read = table["read_version"][done] if "read_version" in table else np.full(len(done), -1)
    # In a step of several commits, whoever reads before its end sees the version to which it committed.
    steps = bool((np.diff(version) > 0).all())
    is_made = steps and bool((read == version[previous])[(previous >= 0) & (read >= 0)].any())
    begin = int(version.min()) - is_made
    reads = [name for name in table if name in ("read_version", "pull_version") or group_of(name)]
    before = (
        np.any([(table[name] >= 0) & (table[name] < begin) for name in reads], axis=0)[done] if reads else version < 0
    )
    if np.bincount(worker[before], minlength=1).max() > 1 or (previous[before] >= 0).any():
        return table, ()  # No job of a worker reads before its previous one ends: the checks say what is wrong.
    counted = {
        name: np.where(table[name] < 0, table[name], np.maximum(table[name] - begin, 0)).astype(np.int32)
        for name in (*reads, "end_version")
        if name in table
    }
    applied_to = {"version": np.where(table["version"] < 0, table["version"], table["version"] - begin - is_made)}
    notes = (
        *["`version` was taken for the one that a commit made, which its worker read next."] * is_made,
        *[f"Versions of the log begin at {begin}, and were counted from there."] * (begin > 0),
        *[f"{count_of(int(before.sum()), 'job')} had read before the log began, and count as read at its beginning."]
        * bool(before.any()),
    )
    return table | counted | applied_to, notes


def _is_number(name: str) -> bool:
    return (name in KNOWN or group_of(name) is not None) and name not in {"worker", "fate", *TIMES}


def _note_order(log: Log, table: Table) -> list[str]:
    """Say that rows were sorted, if they were, and where a clock may have stepped back."""
    done = np.flatnonzero((fates(table) == COMMITTED) & np.isfinite(table["commit_time"]))
    time = table["commit_time"][done]
    first = np.append(0, np.flatnonzero(np.diff(time) < 0) + 1)  # rows of each part that is in order
    if "version" in table or len(first) == 1:
        return []
    steps = _find_steps_back(table["worker"][done], time, first)
    row = int(steps[0]) if len(steps) else int(first[1])
    location = log.source.locate(int(done[row]))
    at = f"{location.unit} {location.number}"
    if not len(steps):
        sorted_by = f"Rows are not in the order of `commit_time`, first in {at}: they were sorted by it."
        # A second part of the same workers that lies before the first may be the later one, by a clock set far back.
        before, after = (table["worker"][done][rows] for rows in (slice(first[1]), slice(first[1], None)))
        goes_on = len(first) == 2 and len(time) >= 2 * LEAST_RUN and time[-1] < time[0] and np.isin(after, before).any()
        set_back = " If a clock was set back there, as times of day are at midnight, correct the times first."
        return [sorted_by + set_back * bool(goes_on)]
    others = f", as it does {len(steps) - 1} times more" if len(steps) > 1 else ""
    by = f"{time[row - 1] - time[row]:.3g} s"
    return [
        f"`commit_time` steps back by {by} in {at}{others}, and workers commit again at times before their last: a "
        "clock was set back, or the log holds two runs. Rows were sorted by it, which mixes the commits around it. "
        "Correct the times, or read each run by itself."
    ]


def _find_steps_back(worker: IntColumn, time: TimeColumn, first: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the first row of each part in which times of the part before come again, also of one worker.

    Parts of a log that were joined in another order have other times, files of each worker have other workers, and one
    wrong time, or one late row, is no clock.
    """
    if len(first) * LEAST_RUN > len(time):  # Rows are in no order at all.
        return first[:0]
    previous, last = previous_own_row(worker), np.append(first[1:], len(time)) - 1
    part = np.repeat(np.arange(len(first)), last - first + 1)
    back = (previous >= 0) & (time < time[previous]) & (part[previous] == part - 1)
    again = np.append(False, time[last[1:]] > time[first[:-1]])
    padded = np.concatenate([[-np.inf], time, [np.inf]])
    alone = (padded[first - 1] <= time[first]) | (padded[first + 2] >= time[first - 1])
    return first[again & ~alone & (np.bincount(part[back], minlength=len(first)) > 0)]


def _require_different_commits(table: Table) -> None:
    """Refuse a commit that stands in the table twice."""
    done = np.flatnonzero(fates(table) == COMMITTED)
    # Equal rows are neighbours among those of their worker, sorted by time.
    order = done[np.lexsort((table["commit_time"][done], table["worker"][done]))]
    first, second = order[:-1], order[1:]
    alike = np.all([values[first] == values[second] for name, values in table.items() if name != "fate"], axis=0)
    # Jobs that take no time may be equal.
    same = alike & (table["read_time"][second] < table["commit_time"][second]) if "read_time" in table else alike
    if not same.any():
        return
    repeated = np.zeros(len(table["worker"]), bool)
    repeated[second[same]] = True
    among = f" ({np.count_nonzero(same):,} rows are repeated)" if np.count_nonzero(same) > 1 else ""
    if "read_time" in table or "version" in table:
        other = "Remove the row"
    else:
        different = np.sort(table["commit_time"][np.setdiff1d(order, second[same])])
        ties = np.count_nonzero(np.diff(different) == 0)  # of several workers
        other = ROUNDED if ties > MOST_TIES * len(different) else REPEATED
    rule = f"differ from that of an otherwise equal row{among}"
    refuse(repeated, "commit_time", table["commit_time"], rule, f"{other}.")


def _require_names(log: Log) -> None:
    """Refuse a log that lacks a column which every trace needs."""
    checked_names([group for name in log.columns if (group := group_of(name))])
    # Versions say which commits came before a pull, so that rows in their order need no times.
    order_is_known = "pull_version" in log.columns and not TIMES.intersection(log.columns)
    commits_are_known = DURATION in log.columns and not BEGINS.isdisjoint(log.columns)
    require_columns(log, NEEDED[:1] if order_is_known or commits_are_known else NEEDED, "Record who commits, and when.")


def _require_fates(table: Table) -> None:
    """Refuse a fate that no job has."""
    bad = ~np.isin(fates(table), FATES)
    if bad.any():
        row = int(bad.argmax())
        value = str(table["fate"][row])
        near = nearest(value, FATES)
        remedy = f"Did you mean {near!r}?" if near else "Leave out the column if every row is a commit."
        raise TraceError("fate", f"must be one of {', '.join(FATES)}", remedy, row=row, value=value)


def _require_what_applies(table: Table) -> None:
    """Check that a commit has everything, a job without a commit has no commit, and a worker without a job nothing."""
    fate = fates(table)
    committed = fate == COMMITTED
    idle = fate == IDLE
    ended = ~(committed | idle)
    for name in [name for name in (*TYPES, *filter(group_of, table)) if name in table and name != "worker"]:
        known_as = "read_version" if group_of(name) else name
        values = table[name]
        filled = values != EMPTY[known_as]
        if known_as in COMMIT_TYPES and TYPES[known_as] is not np.bool_:  # an empty cell of these reads as False
            remedy = COMMIT_REMEDY if name in NEEDED else "Fill it in, or leave out the column."
            refuse(committed & ~filled, name, None, "be known for a commit", remedy)
        if name in ENDED_MUST_HAVE:
            refuse(ended & ~filled, name, None, "be known for a job that began", "Fill it in.")
        # Columns of commits alone are empty for a job that ended without one.
        empty = idle | (committed & (known_as not in COMMIT_TYPES)) | (ended & (name not in UNFINISHED_COLUMNS))
        refuse(empty & filled, name, values, "be empty where it does not apply", "Correct it or `fate`.")


def parse_workers(values: Any, workers: int | None) -> tuple[NDArray[np.int32], tuple[str, ...], tuple[str, ...]]:
    """Return the numbers of workers, their names, which are none where they are numbered from 0, and notes."""
    array = as_array("worker", values) if getattr(values, "dtype", np.dtype(object)).kind in "biuf" else None
    # Whole numbers beyond those of a float64 would be merged. They are names.
    if array is not None and not (array.dtype.kind in "iu" and array.max(initial=0) > np.iinfo(np.int32).max):
        numbers = as_numbers("worker", values)
        refuse(np.isnan(numbers), "worker", None, "be known", WORKER_REMEDY)
    else:
        codes, texts = as_texts("worker", values if array is None else array)
        refuse(codes < 0, "worker", None, "be known", WORKER_REMEDY)
        long = np.array([len(text) > LONGEST_NAME for text in texts], bool)
        rule = f"have at most {LONGEST_NAME} characters"
        refuse(np.append(long, False)[codes], "worker", np.array([*texts, ""])[codes], rule, "Shorten it.")
        ranks, names = number_workers(texts, codes)
        if names:
            return ranks, names, ()
        numbers = ranks.astype(np.float64)
    is_whole = np.isfinite(numbers) & (numbers == np.trunc(numbers))
    if workers is None and is_whole.all() and len(numbers) and numbers.min() > 0:
        # Process identifiers, or ranks from 1: names, since no worker has the numbers that are left out.
        different, places = np.unique(numbers.astype(np.int64), return_inverse=True)
        labels = tuple(map(str, different.tolist()))
        have = (
            f"Workers have numbers from {labels[0]} to {labels[-1]}"
            if len(different) > 1
            else f"A worker is {labels[0]}"
        )
        return places.astype(np.int32), labels, (f"{have}, and none the number 0: they were read as names.",)
    return in_type("worker", numbers), (), ()


def number_workers(names: list[str], codes: NDArray[np.intp]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Return the numbers of workers given by name, and their names in this order.

    Names that are whole numbers stand for themselves, and are not names, unless zeros before them tell two apart.
    """
    whole = np.array([re.fullmatch(r"\s*-?\d+(\.0*)?\s*", name) is not None for name in names], dtype=bool)
    integers = [name.partition(".")[0] for name in names] if whole.all() else []
    numbers = [*map(int, integers)]
    are_names = max(numbers, default=0) > np.iinfo(np.int32).max or len({*numbers}) < len({*integers})
    # Names are ranked in natural order, so that w10 follows w9.
    if (not whole.any() or are_names) and all(names):
        rank, order = np.empty(len(names), np.int32), sorted(range(len(names)), key=lambda n: _natural(names[n]))
        rank[order] = np.arange(len(names))
        return rank[codes], tuple(names[place] for place in order)
    refuse((~whole)[codes], "worker", np.array(names)[codes], "be all numbers or all names", "Correct it.")
    return np.array(numbers, np.int32)[codes], ()


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a key that sorts w2 before w10."""
    parts = re.split(r"(\d+)", name)
    return [(True, int(part), part) if part.isdecimal() else (False, 0, part) for part in parts]


def start_of(
    table: Mapping[str, NDArray[Any]], start: Start, origin: float = 0.0, per_second: int = 1, *, dated: bool = False
) -> float:
    """Return the time at which the run began, in seconds from `origin`, as the times of the table are.

    `start` is not, and `per_second` of its units are a second.
    """
    if start is not None and start != "first":
        return start_in_seconds(start, per_second) - origin
    # Empty cells are NaN and times that never came are infinite. Neither is a beginning.
    starts = {name: np.where(np.isfinite(values), values, np.inf) for name, values in _times(table).items()}
    column = min(starts, key=lambda name: starts[name].min(initial=np.inf), default="")
    first = float(starts[column].min(initial=np.inf)) if starts else np.inf
    if first == np.inf:
        return 0.0
    # A date cannot count from the start of a run.
    if start == "first" or dated:
        return first
    if _counts_from_elsewhere(first, table, origin):
        remedy = 'Give `start` (`--start`): when the run began, "first" for this very time, or 0 if it is right.'
        unit = f' Unix times of today are below {SECONDS_OF_TODAY:.0e} s: if it is one, give `unit`, say "ms", too.'
        time, row = first + origin, int(starts[column].argmin())
        whole = f"{remedy}{unit}" if time > SECONDS_OF_TODAY else remedy
        raise TraceError(column, "must count from the start of the run", whole, row=row, value=time)
    return -origin


def _counts_from_elsewhere(first: float, table: Mapping[str, NDArray[Any]], origin: float) -> bool:
    """Return whether the earliest time is too late to be one of a run that began at 0."""
    done = table["commit_time"][np.isfinite(table["commit_time"])]
    span = done.max(initial=first) - first
    earliest = first + origin
    # A log in Unix time begins some decades after 0.
    if earliest > max(EPOCH, span):
        return True
    # With few commits per worker, a late first one proves nothing: the workers may be slow.
    return span > 0 and earliest > FAR * span and len(done) >= FAR * len(np.unique(table["worker"]))


def require_plausible(table: Mapping[str, NDArray[Any]], origin: float = 0.0) -> None:
    """Refuse times beyond `LATEST`."""
    for name, values in _times(table).items():
        bad = np.isfinite(values) & (np.abs(values + origin) > LATEST)
        remedy = 'Correct it, or give the `unit` of the log, say "ns" (`--unit ns`).'
        refuse(bad, name, values, f"be at most {LATEST:.1g} seconds", remedy)


def count_from(start: float, table: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the columns with times counted from `start`."""
    return dict(table) | {name: values - start for name, values in _times(table).items() if start}


def _times(table: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: values for name, values in table.items() if name.endswith("_time")}
