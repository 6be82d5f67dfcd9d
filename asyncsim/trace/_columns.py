"""The three tables of a trace, column by column: commits, jobs that never committed, and faults. No job is missing."""

import enum
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import brief, refuse_mask, require_count, truncate
from asyncsim.components._frozen import Frozen, frozen, owned

IntColumn = NDArray[np.int32]
ByteColumn = NDArray[np.int8]
BoolColumn = NDArray[np.bool_]
TimeColumn = NDArray[np.float64]

MOST_COMMITS = 2**31 - 1  # the most that an int32 version can count
MOST_LISTED = 12  # workers in a sentence
MOST_OF_NAME = 20  # characters of a worker's name in a picture
NOW = -1  # `source_version` of a value that is no older than its mixing
NEVER = 2**31 - 1  # `end_version` of a job in flight: the integer that stands for infinity

GROUP_READS = "group_read_version"
BY_WORKER = ("local_steps", "worker_variable", "pushes_from")  # columns with one entry per worker, or None
OPTIONAL_COLUMNS = (GROUP_READS, "variable", "from_version")  # columns of the commits that most traces do not have
_COLUMN = re.compile(r"read_version\[(.+)\]")
_REMEDY = "Give each group a name of its own, without brackets or commas."


@dataclass(eq=False, repr=False)
class TraceError(ValueError):
    """A trace, or a log that should become one, breaks a rule."""

    column: str | None
    rule: str
    remedy: str
    _: KW_ONLY
    found: str = ""
    row: int | None = None
    value: object = None
    unit: str = "row"
    source: str = ""
    written: str = ""  # the name of the column in a log where it is another one
    text: str | None = None  # the value as it stands in a log

    def __post_init__(self) -> None:
        subject = "it" if self.column is None else f"`{self.column}`"
        subject += f" (`{self.written}` in the log)" if self.written else ""
        received = self.found if self.row is None else f"{self.unit} {self.row} has {self._received()}"
        super().__init__(f"{self.source}{subject} {self.rule}{received and '; '}{received}. {self.remedy}")

    def replace(self, **changes: Any) -> "TraceError":
        """Return the same error with other fields."""
        return replace(self, **changes)

    def renumber(self, rows: NDArray[np.int64], **changes: Any) -> "TraceError":
        """Return the same error in another table, in which row i of this table is row `rows[i]`, with other fields."""
        return self.replace(row=None if self.row is None else int(rows[self.row]), **changes)

    def _received(self) -> str:
        if self.text is None:
            return "nothing" if self.value is None else brief(self.value)
        is_number = re.fullmatch(r"[-+.\d]+(e[-+]?\d+)?", self.text, re.IGNORECASE) is not None
        return truncate(self.text) if is_number else brief(self.text) if self.text else "nothing"

    def __reduce__(self) -> Any:  # an exception is pickled by its message alone
        return partial(TraceError, **{field.name: getattr(self, field.name) for field in fields(self)}), ()


TraceError.__module__ = "asyncsim"  # the name in tracebacks, and where users find it


def refuse(
    bad: NDArray[np.bool_],
    column: str,
    values: NDArray[Any] | None,
    rule: str,
    remedy: str,
    convert: Callable[[Any], Any] = lambda value: value,
) -> None:
    """Raise for the first row in which `bad` holds, with its value as `convert` gives it."""
    if bad.any():
        row = int(bad.argmax())
        value = None if values is None else convert(values[row].item())
        raise TraceError(column, f"must {rule}", remedy, row=row, value=value)


@contextmanager
def reworded(change: Callable[[TraceError], TraceError]) -> Iterator[None]:
    """Raise the changed error where one is raised inside, say with the line of a file, as if it were the first."""
    try:
        yield
    except TraceError as error:
        raise change(error) from None


def order_of(numbers: IntColumn) -> NDArray[np.intp]:
    """Return the rows sorted by their numbers, equal ones in their order."""
    # NumPy sorts short integers by their digits, ten times as fast as others.
    is_small = len(numbers) and -1 <= numbers.min() <= numbers.max() < 2**15
    return np.argsort(numbers.astype(np.int16) if is_small else numbers, kind="stable")


def previous_of_worker(worker: IntColumn, *keys: NDArray[Any]) -> NDArray[np.intp]:
    """Return for each row the same worker's row before it, -1 for its first, sorted by the last of the keys first."""
    order = np.lexsort((*keys, worker)) if keys else order_of(worker)
    before, after = order[:-1], order[1:]
    same_worker = worker[before] == worker[after]
    previous = np.full(len(worker), -1)
    previous[after[same_worker]] = before[same_worker]
    return previous


def previous_own_row(worker: IntColumn) -> IntColumn:
    """Return for each row the row of the same worker's previous commit, or -1 for its first."""
    return previous_of_worker(worker).astype(np.int32)


def count_earlier(worker: IntColumn) -> IntColumn:
    """Return for each row the number of earlier rows of the same worker, such as its earlier commits."""
    order = order_of(worker)
    begins = np.diff(worker[order], prepend=-1) != 0
    rank, number = np.arange(len(order)), np.empty(len(order), np.int32)
    number[order] = rank - np.maximum.accumulate(np.where(begins, rank, 0))
    return number


class Fate(enum.IntEnum):
    """Why a job never committed. The numbers are in files, so add new ones and never change one."""

    IN_FLIGHT = 0
    """It is still running when the trace ends."""
    CANCELLED = 1
    """Stopped by the protocol: its gradient was no longer wanted."""
    DROPPED = 2
    """It arrived, and the server ignored it as too old."""
    LOST = 3
    """Its message never arrived, and the worker gave up sending it."""
    CRASHED = 4
    """Its worker went down."""


class Fault(enum.IntEnum):
    """The kinds of faults. The numbers are in files, so add new ones and never change one."""

    SLOWDOWN = 0
    """A worker computes more slowly."""
    CRASH = 1
    """A worker is down, after a crash."""
    OFFLINE = 2
    """A worker is away, between two sessions."""
    MESSAGE_LOST = 3
    """A commit on its way to the server is lost; the end is when the worker notices."""
    SERVER_PAUSE = 4
    """The server takes up no new commit; the worker is -1."""


def _columns_of(table: type[Any]) -> dict[str, type[np.generic]]:
    """Return names and types of the columns of a table, by its annotations."""
    types = {IntColumn: np.int32, ByteColumn: np.int8, BoolColumn: np.bool_, TimeColumn: np.float64}
    return {f.name: types[f.type] for f in fields(table) if f.type in types and f.name not in OPTIONAL_COLUMNS}


def _set_columns(table: Any, types: Mapping[str, type[np.generic]], prefix: str, **defaults: Any) -> None:
    """Replace the fields of a frozen table by read-only columns of the right types and equal length.

    A default is a column, or one value for all rows.
    """
    rows = None
    for name, dtype in types.items():
        values, default = getattr(table, name), defaults.get(name)
        if values is None:
            values = np.full(rows or 0, default) if default is not None and np.ndim(default) == 0 else default
        column = _column(prefix + name, values, dtype)
        rows = len(column) if rows is None else rows
        require_length(prefix + name, column, rows)
        object.__setattr__(table, name, column)


def require_length(name: str, column: NDArray[Any], rows: int) -> None:
    """Refuse a column that does not have one entry per row."""
    if len(column) != rows:
        received = f"got {len(column)} for {rows} rows"
        raise TraceError(name, "must have one entry per row", "Give columns of equal length.", found=received)


def require_one_dimension(name: str, column: NDArray[Any]) -> None:
    """Refuse a column that is not one-dimensional."""
    if column.ndim != 1:
        received = f"got shape {column.shape}"
        raise TraceError(name, "must be one-dimensional", "Give one entry per row.", found=received)


def _column(name: str, values: Any, dtype: type[np.generic]) -> NDArray[Any]:
    array = np.asarray(refuse_mask(name, values))
    require_one_dimension(name, array)
    # NumPy makes floats of an empty list.
    if array.size == 0:
        array = array.astype(dtype)
    if not np.can_cast(array.dtype, dtype, casting="same_kind"):
        rule = f"must be a column of {np.dtype(dtype).name}"
        raise TraceError(name, rule, "Convert it first.", found=f"got {array.dtype}")
    column = array.astype(dtype, copy=False)
    if column.dtype.kind == "i" and not np.array_equal(column, array):
        refuse(column != array, name, array, f"fit {column.dtype}", "Number from 0.")
    # An array of the caller is copied. One that was converted belongs to nobody else.
    return frozen(name, column) if column is array else owned(column)


def column_of(group: str) -> str:
    """Return name of a group's column in a flat table."""
    return f"read_version[{group}]"


def group_of(column: str) -> str | None:
    """Return the group of a column of a flat table, or None for any other column."""
    match = _COLUMN.fullmatch(column)
    return match[1] if match else None


def checked_names(groups: Any) -> tuple[str, ...]:
    """Return names of groups, each once."""
    if isinstance(groups, str) or not isinstance(groups, Sequence | np.ndarray):
        raise TraceError("groups", "must be a sequence of names", _REMEDY, found=f"got {type(groups).__name__}")
    names = tuple(np.atleast_1d(groups).tolist() if isinstance(groups, np.ndarray) else groups)
    for name in names:
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or set(name) & set('[],"'):
            raise TraceError("groups", "must be names", _REMEDY, found=f"got {brief(name)}")
        if names.count(name) > 1:
            raise TraceError("groups", "must not name a group twice", _REMEDY, found=f"got {brief(name)} twice")
    return names


def checked_worker_names(names: Any, workers: int) -> tuple[str, ...]:
    """Return the names of the workers, one for each, or none at all."""
    names = _checked_texts("names", names, "Give one name per worker, or ().")
    if names and len(names) != workers:
        received = f"got {len(names)} for {workers} workers"
        raise TraceError("names", "must have one entry per worker", "Give one name for each.", found=received)
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        remedy = "Give each worker a name of its own."
        raise TraceError("names", "must not name two workers alike", remedy, found=f"got {brief(name)} twice")
    return names


def _checked_texts(field: str, values: Any, remedy: str) -> tuple[str, ...]:
    texts = tuple(np.atleast_1d(values).tolist() if isinstance(values, np.ndarray) else values)
    for text in texts:
        # NumPy drops zero bytes at the end of a text, so that a file would hold another one.
        if not isinstance(text, str) or not text.strip() or "\0" in text:
            raise TraceError(field, "must be strings that are not empty", remedy, found=f"got {brief(text)}")
    return texts


def name_of(trace: "Tables", worker: int) -> str:
    """Return the name of a worker, or "worker 3" where workers are numbers.

    Example:
        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1, 0])
        >>> name_of(trace, 1), name_of(replace(trace, names=("gpu-a", "gpu-b")), 1)
        ('worker 1', 'gpu-b')
    """
    return trace.names[worker] if trace.names else f"worker {worker}"


def list_workers(names: Sequence[str], workers: Sequence[int] | NDArray[Any], word: str = "worker") -> str:
    """Return some workers for a sentence, the first ones of many, by the `names` of a trace or by their numbers.

    Example:
        >>> list_workers((), [4, 5]), list_workers(("gpu-a", "gpu-b"), [1], "Worker")
        ('workers 4, 5', 'gpu-b')
    """
    if len(workers) == 1:
        return names[workers[0]] if names else f"{word} {workers[0]}"
    first = [names[worker] if names else str(worker) for worker in workers[:MOST_LISTED]]
    return f"{word}s {', '.join(first)}{', …' if len(workers) > MOST_LISTED else ''}"


def tick_of(trace: "Tables", worker: int) -> str:
    """Return the name of a worker, shortened, or its number, for the axis "worker" of a picture."""
    return truncate(trace.names[worker], MOST_OF_NAME) if trace.names else str(worker)


@dataclass(frozen=True, kw_only=True, eq=False)
class Unfinished(Frozen):
    """Jobs that read but never committed, one row each, in the order in which they ended.

    With the defaults, jobs are in flight and began to compute when they read.

    Attributes:
        worker: (jobs,) int32.
        read_version: (jobs,) int32, server version that the job read.
        read_time: (jobs,) float64, in seconds.
        start_time: (jobs,) float64, when it began to compute, infinite if it never did.
        finish_time: (jobs,) float64, when it had computed, infinite if it never finished.
        end_version: (jobs,) int32, server version at the end, `NEVER` for jobs in flight.
        end_time: (jobs,) float64, when it was cancelled, dropped or lost, infinite for jobs in flight.
        fate: (jobs,) int8, values of `Fate`.
        resumes_own: (jobs,) bool, whether the worker went on from a value of its own, by default never.
    """

    worker: IntColumn
    read_version: IntColumn
    read_time: TimeColumn
    start_time: TimeColumn = None  # type: ignore[assignment]
    finish_time: TimeColumn = None  # type: ignore[assignment]
    end_version: IntColumn = None  # type: ignore[assignment]
    end_time: TimeColumn = None  # type: ignore[assignment]
    fate: ByteColumn = None  # type: ignore[assignment]
    resumes_own: BoolColumn = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        _set_columns(
            self,
            UNFINISHED_COLUMNS,
            prefix="unfinished.",
            start_time=self.read_time,
            finish_time=np.inf,
            end_version=NEVER,
            end_time=np.inf,
            fate=Fate.IN_FLIGHT,
            resumes_own=False,
        )

    @property
    def begin_time(self) -> TimeColumn:
        """(jobs,) float64, in seconds: as for the commits."""
        return np.where(self.resumes_own, self.start_time, self.read_time)

    def __len__(self) -> int:
        return len(self.worker)


@dataclass(frozen=True, kw_only=True, eq=False)
class Faults(Frozen):
    """The faults that happened, one row each, in the order in which they began.

    Attributes:
        kind: (faults,) int8, values of `Fault`.
        worker: (faults,) int32, the affected worker, or -1 for the server.
        start_time: (faults,) float64, in seconds.
        end_time: (faults,) float64, in seconds, infinite if the fault has no end.
    """

    kind: ByteColumn = None  # type: ignore[assignment]
    worker: IntColumn = None  # type: ignore[assignment]
    start_time: TimeColumn = None  # type: ignore[assignment]
    end_time: TimeColumn = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        _set_columns(self, FAULT_COLUMNS, prefix="faults.", **dict.fromkeys(FAULT_COLUMNS, ()))

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True, kw_only=True, eq=False)
class Mixings(Frozen):
    """The mixings of a trace with several variables, in the order in which they happened.

    All rows of one event follow one another, sorted by their target, and happen at once: its targets become
    x_target = Σ weight · x_source over their rows, with the values that the sources had before, or had when a message
    with them was sent (`source_version`). A pair that averages has four rows with weights of ½.

    Attributes:
        event: (rows,) int32, the number of the event, from 0 on.
        before: (rows,) int32, the commit before which it happens, by the number of its row, or the number of commits
            for an event after the last.
        time: (rows,) float64, when, in seconds.
        target: (rows,) int32, the variable that changes.
        source: (rows,) int32, a variable that it is made of.
        weight: (rows,) float64, the source's weight in it. The weights of a target sum to 1.
        own: (rows,) bool, whether the change belongs to the target's next commit. It is then a part of that commit's
            change, and no version of its own.
        source_version: (rows,) int32, the version of the source whose value a message brings, or -1 for the value just
            before the event.
    """

    event: IntColumn = None  # type: ignore[assignment]
    before: IntColumn = None  # type: ignore[assignment]
    time: TimeColumn = None  # type: ignore[assignment]
    target: IntColumn = None  # type: ignore[assignment]
    source: IntColumn = None  # type: ignore[assignment]
    weight: TimeColumn = None  # type: ignore[assignment]
    own: BoolColumn = None  # type: ignore[assignment]
    source_version: IntColumn = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        defaults = dict.fromkeys(MIXING_COLUMNS, ()) | {"source_version": NOW}
        _set_columns(self, MIXING_COLUMNS, prefix="mixings.", **defaults)

    def __len__(self) -> int:
        return len(self.event)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Tables(Frozen):
    """The columns of a trace, without the ways in and out that `Trace` adds. See there for the attributes."""

    workers: int
    worker: IntColumn
    read_version: IntColumn
    version: IntColumn
    pull_version: IntColumn
    closes_step: BoolColumn
    read_time: TimeColumn
    start_time: TimeColumn
    finish_time: TimeColumn
    arrive_time: TimeColumn
    serve_time: TimeColumn = None  # type: ignore[assignment]  # by default, service takes no time
    commit_time: TimeColumn
    state_lost: BoolColumn = None  # type: ignore[assignment]  # by default, never
    resumes_own: BoolColumn = None  # type: ignore[assignment]  # by default, never
    unfinished: Unfinished
    faults: Faults = field(default_factory=lambda: Faults())  # a type checker refuses the class itself
    groups: tuple[str, ...] = ()
    group_read_version: NDArray[np.int32] = None  # type: ignore[assignment]  # by default, of no group
    local_steps: NDArray[np.int32] | None = None
    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    derived: tuple[str, ...] = ()
    variables: int = 1
    variable: NDArray[np.int32] = None  # type: ignore[assignment]  # by default, the only one
    worker_variable: NDArray[np.int32] | None = None
    pushes_from: NDArray[np.int32] | None = None
    from_version: NDArray[np.int32] = None  # type: ignore[assignment]  # by default, there are no pushes
    mixings: Mixings = field(default_factory=lambda: Mixings())

    def __post_init__(self) -> None:
        workers = require_count("workers", self.workers, remedy="Use one worker or more.")
        object.__setattr__(self, "workers", workers)
        _set_columns(self, COMMIT_COLUMNS, prefix="", serve_time=self.commit_time, state_lost=False, resumes_own=False)
        variables = require_count("variables", self.variables, remedy="There is one variable or more.")
        object.__setattr__(self, "variables", variables)
        optional = {"worker": np.int32, "variable": np.int32, "from_version": np.int32}
        _set_columns(self, optional, prefix="", variable=0, from_version=-1)
        object.__setattr__(self, "groups", checked_names(self.groups))
        shape = len(self), len(self.groups)
        reads = np.asarray([] if self.group_read_version is None else self.group_read_version)
        if not self.groups and reads.size == 0:
            reads = np.zeros(shape, np.int32)  # also where rows of a trace without groups were left out
        if reads.shape != shape:
            rule = f"must have one row per commit and one column per group, shape {shape}"
            remedy = "Name every group in `groups`." if self.groups else "Name the groups in `groups`."
            raise TraceError(GROUP_READS, rule, remedy, found=f"got shape {reads.shape}")
        object.__setattr__(self, GROUP_READS, _column(GROUP_READS, reads.ravel(), np.int32).reshape(shape))
        for name in BY_WORKER:
            if (values := getattr(self, name)) is not None:
                column = _column(name, values, np.int32)
                if len(column) != workers:
                    received = f"got {len(column)} for {workers} workers"
                    raise TraceError(name, "must have one entry per worker", "Give one for each.", found=received)
                object.__setattr__(self, name, column)
        object.__setattr__(self, "names", checked_worker_names(self.names, workers))
        object.__setattr__(self, "notes", _checked_texts("notes", self.notes, "Give sentences."))
        derived = _checked_texts("derived", self.derived, "Give names of columns.")
        if unknown := [name for name in derived if name not in COMMIT_COLUMNS]:
            rule, remedy = "must name columns of the commits", "Correct it or leave it out."
            raise TraceError("derived", rule, remedy, found=f"got {brief(unknown[0])}")
        object.__setattr__(self, "derived", tuple(name for name in COMMIT_COLUMNS if name in derived))

    def __len__(self) -> int:
        return len(self.worker)

    @property
    def staleness(self) -> IntColumn:
        """(commits,) int32: server versions between the read and the application, version - read_version."""
        return self.version - self.read_version

    @property
    def group_staleness(self) -> NDArray[np.int32]:
        """(commits, groups) int32: the same for each parameter group. The largest of a row is its `staleness`."""
        return self.version[:, None] - self.group_read_version

    @property
    def begin_time(self) -> TimeColumn:
        """(commits,) float64, in seconds: when the job began, at its read.

        One that goes on from the worker's own value knows the value pulled for the job before it, and begins where that
        one ends.
        """
        return np.where(self.resumes_own, self.start_time, self.read_time)

    @property
    def from_variable(self) -> IntColumn:
        """(commits,) int32: the variable whose change the commit pushes, -1 for commits of a gradient."""
        return np.full(len(self), -1, np.int32) if self.pushes_from is None else self.pushes_from[self.worker]

    @property
    def computing(self) -> int:
        """Number of workers that compute gradients: all but those that push the changes of a region's variable."""
        return self.workers if self.pushes_from is None else int(np.count_nonzero(self.pushes_from < 0))

    @property
    def started_before(self) -> IntColumn:
        """(commits,) int32: the worker's jobs that began to compute before this one, also those that never committed.

        Of jobs that took no time and began at one moment, those that never committed are taken to be the earlier ones.
        """
        rest = self.unfinished
        began = np.isfinite(rest.start_time)
        worker = np.concatenate([rest.worker[began], self.worker])
        start = np.concatenate([rest.start_time[began], self.start_time])
        end = np.concatenate([rest.end_time[began], self.commit_time])
        order = np.lexsort((end, start, worker))
        firsts = np.searchsorted(worker[order], np.arange(self.workers))
        number = np.empty(len(order), np.int32)
        number[order] = np.arange(len(order)) - firsts[worker[order]]
        return number[began.sum() :]

    @property
    def steps(self) -> int:
        """Steps that the server made: commits that close one."""
        return int(np.count_nonzero(self.closes_step))

    @property
    def seconds(self) -> float:
        """Time of the last commit, or 0 without commits."""
        return float(self.commit_time[-1]) if len(self) else 0.0


def end_of_trace(trace: Tables) -> float:
    """Return the last finite time in any table, in seconds: later than `seconds` if a job or fault came after."""
    rest = trace.unfinished
    times = (trace.commit_time[-1:], rest.read_time, rest.start_time, rest.finish_time, rest.end_time)
    seconds = np.concatenate([*times, trace.faults.start_time])
    # Times that never came are infinite.
    return float(np.max(seconds[np.isfinite(seconds)], initial=0.0))


COMMIT_COLUMNS, UNFINISHED_COLUMNS, FAULT_COLUMNS = map(_columns_of, (Tables, Unfinished, Faults))
MIXING_COLUMNS = _columns_of(Mixings)
COMMIT_TIMES, UNFINISHED_TIMES = (  # in the order of a job
    tuple(name for name, dtype in columns.items() if dtype is np.float64)
    for columns in (COMMIT_COLUMNS, UNFINISHED_COLUMNS)
)
