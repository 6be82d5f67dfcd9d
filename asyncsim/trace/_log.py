"""The log of a real system: its columns under the names of a trace, and findings about it, for commits and rollouts."""

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping
from difflib import SequenceMatcher
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import brief, did_you_mean, require_one_of
from asyncsim.trace._columns import TraceError, group_of
from asyncsim.trace._source import SUFFIXES, Contents, Source, of_frame, read_file, wrong_count
from asyncsim.trace._values import PER_SECOND

HEAD = 1000  # characters in which some column is named
MOST_SHOWN = 20  # names in a message
LEAST_ROWS = 10  # of a log about whose units something can be said
SECONDS_PER_DAY = 86_400.0
ALIKE = 0.8  # of 1: "read_tme" and "read_time" are alike
TIMED = ("read", "start", "finish", "arrive", "serve", "commit")
STEMS = {  # beginnings of a word -> the column that may be meant
    **{stem: f"{word}_time" for word in TIMED for stem in {word, word.rstrip("e")}},
    "worker": "worker",
    "opened": "opened",
    "trained": "trained",
    "ready": "ready",
    "taken": "taken",
}
SAME_SPAN = 0.02  # in powers of 1000: columns of one clock span times that differ by less, some 15 %
OF_TIME = ("time", "timestamp", "ts", "at", "date", "s", "ms", "us", "ns", "sec", "seconds")
ROLLOUTS = ("opened", "trained")  # columns by which a log of rollouts is recognised


NEEDED = ("worker", "commit_time")
UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "seconds"), "s"),
    **dict.fromkeys(("ms", "msec", "millis", "milliseconds"), "ms"),
    **dict.fromkeys(("us", "µs", "μs", "usec", "micros", "microseconds"), "us"),
    **dict.fromkeys(("ns", "nsec", "nanos", "nanoseconds"), "ns"),
}


class Log(NamedTuple):
    """The columns that a trace takes from a log."""

    source: Source
    columns: dict[str, Any]  # name in the trace -> values as they stand in the log
    written: dict[str, str]  # name in the trace -> name in the log
    others: tuple[str, ...]  # columns of the log that no trace has
    named: frozenset[str]  # those of the trace for which the user says the name in the log
    accepted: tuple[str, ...]  # columns that the trace may have

    @property
    def is_of_rollouts(self) -> bool:
        """Whether a row is a group of samples, not a commit."""
        return self.columns.keys() >= {*ROLLOUTS}

    def with_location(self, error: TraceError, **changes: Any) -> TraceError:
        """Return the error with the place and the value as they stand in the log."""
        column = (error.column or "").removeprefix("unfinished.").removeprefix("faults.").removeprefix("mixings.")
        written = self.written.get(column, "")
        names = {"written": written} if written != column else {}
        if error.row is None or error.unit != "row":
            return error.replace(**changes, **names)
        unit, number, cells = self.source.locate(error.row)
        if self.source.kind == "a CSV file" and 0 < len(cells) < len(self.source.columns):
            return wrong_count(len(self.source.columns), number, len(cells)).replace(source=error.source)
        text = {"text": _as_text(cells[written])} if written in cells else {}
        return error.replace(row=number, unit=unit, **changes, **names, **text)


def _as_text(cell: Any) -> str:
    """Return a value as somebody would write it, and nothing for a missing one."""
    if cell is None or (isinstance(cell, float) and np.isnan(cell)) or str(cell) in ("<NA>", "NaT", "--"):
        return ""
    return cell if isinstance(cell, str) else str(cell)


def read_log(
    contents: Contents, names: Mapping[str, str] | None, accepted: Collection[str], of_rollouts: Collection[str] = ()
) -> Log:
    """Read the log in a file.

    Args:
        contents: Those of the file.
        names: Columns of a trace -> those of the log.
        accepted: Columns that a trace may have.
        of_rollouts: The same for rollouts, if the log may be one of them.
    """
    written = dict(names or {})
    texts = {written.get(name, name) for name in ("worker", "fate", "kind", "text")}
    source = read_file(contents, {*accepted, *of_rollouts, *written.values()}, texts)
    alike = alike_names(source.columns, written, of_rollouts)
    present = {*source.columns} - {*written.values()} | {*written} | {*alike}
    return rename(source, written, of_rollouts if of_rollouts and present >= {*ROLLOUTS} else accepted)


def refuse_log(contents: Contents) -> None:
    """Refuse a file in place of a trace, with the remedy for a log, unless it is a damaged trace."""
    if contents.is_archive:
        return
    path, kind = str(contents.path), contents.kind
    is_parquet = kind == "a parquet file"
    head = "" if is_parquet else contents.open(errors="replace").read(HEAD)
    if is_parquet or any(all(name in head for name in needed) for needed in (("worker", "commit_time"), ROLLOUTS)):
        remedy = f"Read it by `Trace.from_csv`; for the command line, let its name end in {SUFFIXES[kind]}."
        raise ValueError(f"`path` {path!r} is {kind}. {remedy}")
    if contents.path.suffix != ".npz":
        remedy = "Give a file made by `Trace.save`, or a log whose first line begins worker,commit_time."
        raise ValueError(f"`path` {path!r} is neither a trace (.npz) nor a log. {remedy}")


def log_of(frame: Any, names: Mapping[str, str] | None, accepted: Collection[str]) -> Log:
    """Return the log in a mapping or a data frame."""
    return rename(of_frame(frame), dict(names or {}), accepted)


def rename(source: Source, names: Mapping[str, str], accepted: Collection[str]) -> Log:
    """Give columns of a log the names that they have in a trace."""
    present, named = list(source.columns), frozenset(names)
    names = {**names, **alike_names(present, names, accepted)}
    for name, column in names.items():
        if name not in accepted and not group_of(name):
            hint = did_you_mean(name, accepted) if meant_by(name) else ""
            known = hint or f" Known: {_list(accepted)}."
            raise ValueError(f"`columns` must name columns of a trace; got {brief(name)}.{known}")
        if column not in present:
            remedy = did_you_mean(column, present) or " Correct the name."
            lacking = f"`columns` names {brief(column)} for `{name}`, which the log does not have"
            raise ValueError(f"{lacking}; got {_list(present)}.{remedy}")
    same = {name: name for name in present if (name in accepted or group_of(name)) and name not in names.values()}
    written = same | dict(names)
    others = tuple(name for name in present if name not in written.values())
    columns = {name: source.columns[at] for name, at in written.items()}
    return Log(source, columns, written, others, named, tuple(accepted))


def alike_names(present: Collection[str], names: Mapping[str, str], accepted: Collection[str]) -> dict[str, str]:
    """Return columns of a trace -> those of the log that have this name but for capitals, blanks and a unit.

    There are none if the log has all necessary ones as they are.
    """
    needed = ROLLOUTS if "opened" in accepted else NEEDED
    known = {*present} - {*names.values()} | {*names}
    if not {*needed} <= {*accepted} or {*needed} <= known:
        return {}
    plain = [(split_unit(name)[0], name) for name in present if name not in names.values()]
    counts = Counter(name for name, _ in plain)
    return {name: column for name, column in plain if name in accepted and name not in known and counts[name] == 1}


def split_unit(name: str) -> tuple[str, str | None]:
    """Return a name as a trace would have it, and the unit at its end.

    Example:
        >>> split_unit("Commit Time (ms)"), split_unit("# worker"), split_unit("data.readTimeNs"), split_unit("ms")
        (('commit_time', 'ms'), ('worker', None), ('read_time', 'ns'), ('ms', None))
    """
    words = re.findall(r"[a-zµμ]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.rpartition(".")[2]).lower())
    unit = UNITS.get(words[-1]) if len(words) > 1 else None
    return "_".join(words[:-1] if unit else words), unit


def units_of(log: Log, unit: Any, times: Collection[str]) -> tuple[dict[str, str], list[str]]:
    """Return the units of columns of times, as the user or, by default, their names say, and notes."""
    if isinstance(unit, Mapping):
        for name, each in unit.items():
            require_one_of(f"unit[{name!r}]", each, choices=PER_SECOND)
            if name not in times:
                had = _list(sorted(times))
                raise ValueError(
                    f"`unit` must name columns of times that the log has; got {brief(name)}. It has {had}."
                )
    elif unit is not None:
        require_one_of("unit", unit, choices=PER_SECOND)
        return {name: str(unit) for name in times}, []
    units: dict[str, str] = dict(unit or {})
    by_name = {name: split_unit(log.written[name])[1] or "s" for name in times if name not in units}
    read_in = [(log.written[name], each) for name, each in by_name.items() if each != "s"]
    return units | by_name, [f"{name!r} was read in {each}, as its name says." for name, each in read_in]


def note_others(log: Log) -> tuple[str, ...]:
    """Say which columns are ignored, with a guess where a name is nearly that of a column of a trace."""
    alike = {name: at for name, at in log.written.items() if name != at and name not in log.named}
    read_as = [f"{at!r} was read as `{name}`." for name, at in alike.items()]
    return (*read_as, *_note_ignored(log))


def _note_ignored(log: Log) -> tuple[str, ...]:
    if not log.others:
        return ()
    which = f"Column {_list(log.others)} was" if len(log.others) == 1 else f"Columns {_list(log.others)} were"
    guesses = {
        name: meant for name in log.others if (meant := meant_by(name)) in log.accepted and meant not in log.columns
    }
    questions = "".join(f" Is {name} `{meant}`? Then {give_columns(meant, name)}." for name, meant in guesses.items())
    return (f"{which} ignored.{questions}",)


def note_units(
    columns: Mapping[str, NDArray[np.float64]], job: float, units: Collection[str], *, are_dates: bool
) -> list[str]:
    """Say where times of a log, in seconds, may count in another unit. `job` is the length of a mean job."""
    finite = [values[np.isfinite(values)] for values in columns.values()]
    rows = max(map(len, finite), default=0)
    if rows < LEAST_ROWS:
        return []
    notes = []
    other = "" if are_dates else ' If they are not seconds, give `unit`, for example "ms" (`--unit ms`).'
    if job > SECONDS_PER_DAY:
        notes.append(f"A mean job takes {job:.3g} s, more than a day.{other.replace('they', 'times')}")
    notes += _note_mixed(columns)
    # Whole numbers of another unit are nothing special.
    if {*units} == {"s"} and all(((values - values[:1]) % 1 == 0).all() for values in finite):
        rounded = "If they were rounded, stages below a second and the order within a second are lost."
        notes.append(f"All times differ by whole numbers.{other} {rounded}")
    return notes


def _note_mixed(columns: Mapping[str, NDArray[np.float64]]) -> list[str]:
    """Say if a column spans a thousand times as long as another, or a power of it, as in another unit."""
    spans = {name: float(np.ptp(values[np.isfinite(values)])) for name, values in columns.items() if len(values)}
    longest, shortest = (choose(spans, key=lambda name: spans[name]) for choose in (max, min))
    if not spans[shortest] or not spans[longest]:
        return []
    powers = math.log(spans[longest] / spans[shortest], 1000)
    if round(powers) < 1 or abs(powers - round(powers)) > SAME_SPAN:
        return []
    return [
        f"`{longest}` spans {1000 ** round(powers):,} times as long as `{shortest}`: if their units differ, give "
        f'`unit`, as in `unit={{"{longest}": "ms"}}` (`--unit {longest}=ms`).'
    ]


def give_columns(name: str, written: str) -> str:
    """Return the remedy for a column of another name."""
    pair = f"{name}={written}"
    flag = f'"{pair}"' if " " in pair else pair
    return f"give `columns={json.dumps({name: written}, ensure_ascii=False)}` (`--columns {flag}`)"


def meant_by(name: str) -> str | None:
    """Return the column of a trace that a name with the same stem may mean.

    Example:
        >>> meant_by("worker_id"), meant_by("read_tme"), meant_by("committed_at"), meant_by("read_bytes")
        ('worker', 'read_time', 'commit_time', None)
    """
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
    for column in dict.fromkeys(
        (*STEMS.values(), "read_version", "version", "pull_version", "staleness", "closes_step")
    ):
        if SequenceMatcher(None, name.lower(), column).ratio() >= ALIKE:
            return column
    stem = next((stem for stem in STEMS if words and words[0].startswith(stem)), None)
    is_time = all(word in OF_TIME for word in words[1:])
    return STEMS[stem] if stem and (is_time or stem == "worker") else None


def require_columns(log: Log, needed: Collection[str], remedy: str) -> None:
    """Refuse a log without the columns that every log needs."""
    missing = [name for name in needed if name not in log.columns]
    if missing:
        alike = [name for name in log.others if meant_by(name) == missing[0]]
        of_time = [name for name in log.others if missing[0] == "commit_time" and name.lower() in OF_TIME]
        if meant := next(iter((*alike, *of_time)), ""):
            advice = f"Rename `{meant}`, or {give_columns(missing[0], meant)}, if that is it."
        else:
            other = f" If it has another name, {give_columns(missing[0], 'NAME')}."
            advice = remedy + other * bool(log.others)
        raise TraceError(missing[0], "is missing", advice, found=f"got {_list(log.source.columns)}")


def _list(names: Collection[str]) -> str:
    more = len(names) - MOST_SHOWN
    listed = ", ".join(map(repr, islice(names, MOST_SHOWN))) or "no columns"
    return listed + (f" and {more} more" if more > 0 else "")
