"""The trace itself: its tables, and every way in and out."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._metrics import counted
from asyncsim.components._checked import checked
from asyncsim.components._frozen import owned
from asyncsim.files import _npz as npz
from asyncsim.files._hash import hash_parts
from asyncsim.trace import _chrome as chrome
from asyncsim.trace import _csv as csv
from asyncsim.trace import _flat as flat
from asyncsim.trace import _invariants as invariants
from asyncsim.trace import _log as logs
from asyncsim.trace import _rollout_log as rollout_log
from asyncsim.trace import _table as table
from asyncsim.trace._columns import (
    COMMIT_COLUMNS,
    FAULT_COLUMNS,
    GROUP_READS,
    MIXING_COLUMNS,
    UNFINISHED_COLUMNS,
    Faults,
    Mixings,
    Tables,
    TraceError,
    Unfinished,
    reworded,
)
from asyncsim.trace._flat import Table
from asyncsim.trace._source import contents_of
from asyncsim.trace._typed import Start
from asyncsim.trace._values import Units
from asyncsim.trace._variables import reported

FORMAT_VERSION, OLDEST_FORMAT = 7, 6
PARTS = {"unfinished": (Unfinished, UNFINISHED_COLUMNS), "faults": (Faults, FAULT_COLUMNS)}  # next to the commits
TEXTS = ("names", "notes", "derived")
PUSHES = ("worker_variable", "pushes_from", "from_version")
# Columns that a file may lack, with their values then.
OPTIONAL: dict[str, Any] = {
    **dict.fromkeys(TEXTS, ()),
    "variables": 1,
    "variable": None,
    **dict.fromkeys(PUSHES),
    **{f"mixings.{name}": () for name in MIXING_COLUMNS},
    "mixings.source_version": None,
}


@checked
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Trace(Tables):
    """One row per commit, in the order in which the server applied them.

    `simulate`, `from_…` and `load` return checked traces. A trace that is put together column by column is not
    checked, so that a damaged one can be examined: call `check()`. Columns are read-only copies.

    Attributes:
        workers: Number of workers n.
        worker: (commits,) int32, who committed, 0 to n - 1.
        read_version: (commits,) int32, server version at which the gradient was taken. Where `resumes_own`, it is the
            version that the worker pulled for its previous commit, with this commit as a step of its own.
        version: (commits,) int32, server version just before this commit is applied.
        pull_version: (commits,) int32, server version that a rule which pulls just before committing saw.
            It equals `version` where pull and commit are atomic.
        closes_step: (commits,) bool, whether the server's version grows with this row.
        read_time: (commits,) float64, in seconds, when the worker read.
        start_time: (commits,) float64, in seconds, when it began to compute.
        finish_time: (commits,) float64, in seconds, when it had computed.
        arrive_time: (commits,) float64, in seconds, when the server received the commit.
        serve_time: (commits,) float64, in seconds, when the server took it up.
        commit_time: (commits,) float64, in seconds, when the server applied it.
        state_lost: (commits,) bool, whether the worker had lost its rule's state when it read for this job.
        resumes_own: (commits,) bool, whether the worker went on from a value of its own: the one pulled for its
            previous commit, plus its own message. It knows nothing fresher, so that `read_time` is the time of that
            pull and staleness counts from there.
        unfinished: Jobs that never committed.
        faults: The faults that happened.
        groups: Names of the parameter groups that are read at versions of their own, say the stages of a pipeline.
            By default there are none, and all parameters are read at `read_version`.
        group_read_version: (commits, groups) int32, server version at which each group was read. `read_version`, with
            which the job begins, is the smallest of a row.
        local_steps: (n,) int32, number of gradients of each worker's jobs, or None if it is not known: then any rule
            can be replayed, whatever its window.
        variables: Number of variables, 1 unless workers on a graph have variables of their own (`asyncsim.Gossip`).
            Then `read_version`, `version` and `staleness` count the changes of the commit's variable by others.
        variable: (commits,) int32, the variable that the commit changes.
        worker_variable: (n,) int32, the variable that each worker reads and changes, or None where the commits say it.
        pushes_from: (n,) int32, for the server of a region, which pushes the change of the region's variable to the
            global server as one of its workers, the number of that variable, and -1 for workers that compute. The
            servers come last. None without regions (`asyncsim.Hierarchy`).
        from_variable: (commits,) int32, `pushes_from` of the worker: the variable whose change the commit pushes.
        from_version: (commits,) int32, the version of that variable that was sent, and -1 for other commits. The push
            carries the change since the variable's last merge, its last mixing up to that version.
        mixings: The mixings of several variables, between commits.
        names: Names of the workers, n different texts, or () where workers are numbers.
        notes: Findings about a log that the trace was read from, in sentences.
        derived: Names of the columns of commits that the log did not record, so that they were filled in from the
            others (see `from_columns`), in the order above. () means that all were recorded, as in a simulation.

        Names, notes and `derived` are stored with the trace and are no part of its digest.

    Example:
        >>> trace = Trace.from_commits([0, 1, 1, 0])
        >>> trace
        Trace(4 commits by 2 workers in 4.0 s)
        >>> trace.staleness.tolist()
        [0, 1, 0, 2]
    """

    def __repr__(self) -> str:
        return f"Trace({counted(len(self), 'commit')} by {counted(self.workers, 'worker')} in {self.seconds} s)"

    @cached_property
    def digest(self) -> str:
        """Hash of the whole trace, 16 hexadecimal digits, equal for equal traces whatever file they are from.

        Example:
            >>> Trace.from_commits([0, 1]).digest == Trace.from_commits([0, 1]).digest
            True
        """
        tables = [(self, COMMIT_COLUMNS), *((getattr(self, part), names) for part, (_, names) in PARTS.items())]
        columns = [(name, getattr(table, name)) for table, names in tables for name in names]
        columns += [("groups", np.array(self.groups)), (GROUP_READS, self.group_read_version)] if self.groups else []
        columns += [] if self.local_steps is None else [("local_steps", self.local_steps)]
        if self.variables > 1:
            columns += [("variables", np.array([self.variables])), ("variable", self.variable)]
            columns += self._mixing_columns.items()
        columns += self._push_columns.items()
        parts = [part for name, column in columns for part in (f" {name} {column.dtype.str} {len(column)} ", column)]
        return hash_parts(f"{self.workers}", *parts)

    @cached_property
    def reported(self) -> Any:
        """(commits,) bool, whether a push of the trace carries the change that the commit made (`asyncsim.Hierarchy`).

        Commits between the sending of a push and the region's merge are in none, nor are those after the last push.
        """
        return owned(reported(self))

    @property
    def _mixing_columns(self) -> dict[str, Any]:
        """Name -> column of the mixings, without versions where all sources have their values of that moment."""
        columns = {f"mixings.{name}": getattr(self.mixings, name) for name in MIXING_COLUMNS}
        if not (self.mixings.source_version >= 0).any():
            del columns["mixings.source_version"]
        return columns

    @property
    def _push_columns(self) -> dict[str, Any]:
        """Name -> column of a trace whose workers push the changes of regions, or name their variable."""
        names = [name for name in PUSHES if getattr(self, name) is not None]
        return {name: getattr(self, name) for name in names if name != "from_version" or self.pushes_from is not None}

    def stand_in(self) -> dict[str, Any]:
        """Return the trace in a description: its length and its digest."""
        return {"workers": self.workers, "commits": len(self), "trace": self.digest}

    def check(self) -> None:
        """Check every invariant. A million rows take about 0.1 s.

        Times are finite, not negative, in order within a job, and they do not decrease from row to row. Versions count
        the closed steps. Worker numbers are in range, and a worker's jobs do not overlap. Every read and every end of
        a job saw the steps closed by then, so that staleness obeys the conservation law in exact integers.

        Raises:
            TraceError: For the first row that breaks an invariant, naming column, row, value and remedy.

        Example:
            >>> import dataclasses
            >>> trace = Trace.from_commits([0, 1, 0])
            >>> dataclasses.replace(trace, version=[0, 1, 1]).check()
            Traceback (most recent call last):
            asyncsim.TraceError: `version` must count the rows before it that close a step; row 2 has 1. \
It starts at 0 and grows by one after each row where `closes_step` is true.
        """
        invariants.check(self)

    @classmethod
    @checked
    def from_commits(
        cls,
        worker: ArrayLike,
        commit_time: ArrayLike | None = None,
        *,
        workers: int | None = None,
        start: Start = None,
        groups: Mapping[str, ArrayLike] | None = None,
    ) -> "Trace":
        """Make a trace from the order of commits alone, say that of a real cluster.

        Each worker reads right after its own commit, and version 0 at time 0 before its first, so that the order
        determines every version: a commit's staleness is the number of commits by others since the worker's last.
        A worker whose first commit comes far later than those of the others joined late: it has read as long before
        that commit as its jobs usually take, and a note says so.

        Args:
            worker: (commits,) who committed, in the order of application, numbered from 0.
            commit_time: (commits,) when, in seconds, by default 1, 2, 3, …
            workers: Number of workers. By default it is the largest number in `worker` plus one, where every smaller
                number occurs. Workers that never commit count among the jobs in flight.
            start: When the run began, and all workers read, in the log's own time, or a date (ISO 8601) if that is Unix
                time. It is subtracted from every time. "first" is the earliest time in the log, here the first commit,
                whose job then takes no time. By default times must count from the start of the run already, and Unix
                time, for example, is refused.
            groups: Name of a parameter group -> (commits,) the server version at which it was read for each commit:
                after the worker's previous commit, and no later than its own. The job then begins with the oldest of
                them. By default all parameters are read at once.

        Returns:
            A checked trace in which every row closes a step and the computation fills the whole time from
            read to commit.

        Raises:
            TraceError: If a worker number or a time does not fit. You get the row and the value.
            ValueError: If `workers` or `start` is out of range.

        Example:
            >>> trace = Trace.from_commits([0, 1, 0, 1], commit_time=[0.5, 0.6, 1.0, 1.3])
            >>> trace.read_version.tolist(), trace.read_time.tolist()
            ([0, 0, 1, 2], [0.0, 0.0, 0.5, 0.6])

            Two workers in turn read the second half of the parameters one commit later than the first half:

            >>> reads = {"first half": [0, 0, 1, 2, 3], "second half": [0, 1, 2, 3, 4]}
            >>> trace = Trace.from_commits([0, 1, 0, 1, 0], groups=reads)
            >>> trace.staleness.tolist(), trace.group_staleness.T.tolist()
            ([0, 1, 1, 1, 1], [[0, 1, 1, 1, 1], [0, 0, 0, 0, 0]])
        """
        return table.from_commits(cls, worker, commit_time, workers, start, groups)

    @classmethod
    @checked
    def from_rollouts(
        cls,
        log: Any = None,
        *,
        opened: Any = None,
        trained: Any = None,
        ready: Any = None,
        taken: Any = None,
        version: Any = None,
        read_version: Any = None,
        start: float | str = "first",
        columns: Mapping[str, str] | None = None,
        unit: Units = None,
    ) -> "Trace":
        """Make a trace from the log of an asynchronous reinforcement learning system. A row is a group of samples.

        Groups with one `trained` time are one step. The version grows at that time, and a group that is opened at that
        time reads the new one. A worker of the trace is a ticket that a group holds from its opening to its step's end.

        Args:
            log: A data frame or a mapping with these columns, or the path of a file that `from_csv` reads. Or give the
                columns themselves:
            opened: (groups,) when the first sample of each group started, in seconds.
            trained: (groups,) when the step that trained the group ended. NaN for groups that were not trained.
            ready: (groups,) when the group was complete and in the queue, NaN where it was not, by default `taken`.
            taken: (groups,) when its step began, NaN where there was none, by default `trained`.
            version: (groups,) number of the step that trained the group, NaN where there was none. By default groups
                with one `trained`, or nearly the same `taken` and `trained`, are one step.
            read_version: (groups,) version of the weights that generated the group, counted as `version` is, by default
                the steps that had ended when it was opened. Versions win over times.
            start: When the run began, in the log's own time, which is subtracted from every time. With "first" it is
                the first opening.
            columns, unit: As in `from_csv`.

        Returns:
            A checked trace, in which groups that were not trained are in flight.

        Raises:
            TraceError: If a time is missing, negative or out of order, or a step begins before the one before it ends.
                You get the group and the value.

        Example:
            >>> trace = Trace.from_rollouts(
            ...     opened=[10.0, 10.0, 11.0, 14.0], ready=[12.0, 13.0, 15.0, 16.0], taken=[13.0, 13.0, 16.0, 16.0],
            ...     trained=[14.0, 14.0, 18.0, 18.0],
            ... )
            >>> trace.steps, trace.staleness.tolist(), trace.commit_time.tolist()
            (2, [0, 0, 1, 0], [4.0, 4.0, 8.0, 8.0])
        """
        values = {"opened": opened, "ready": ready, "taken": taken, "trained": trained}
        values |= {"version": version, "read_version": read_version}
        values = {name: value for name, value in values.items() if value is not None}
        if log is not None and values:
            raise ValueError(
                f"`log` must be left out where `{next(iter(values))}` is given; got both. Give one of them."
            )
        if isinstance(log, str | os.PathLike):
            return cls.from_csv(log, start=start, columns=columns, unit=unit)
        groups = logs.log_of(values if log is None else log, columns, rollout_log.COLUMNS)
        return rollout_log.from_log(cls, groups, start, unit)

    def save(
        self, path: str | os.PathLike[str], attributes: Mapping[str, Any] | None = None, *, sync: bool = True
    ) -> None:
        """Write the trace as `.npz`, atomically.

        Args:
            path: The file, whose name is used as it is.
            attributes: Name -> number, string or array, stored beside the columns of the trace.
            sync: Whether to wait for the disk, so that the file survives a power cut.

        Raises:
            OSError: If the file cannot be written, say on a full disk. An existing file stays as it is.
        """
        columns: dict[str, Any] = {"workers": self.workers, **{name: getattr(self, name) for name in COMMIT_COLUMNS}}
        for part, (_, names) in PARTS.items():
            columns |= {f"{part}.{name}": getattr(getattr(self, part), name) for name in names}
        columns |= {"groups": np.array(self.groups, np.str_), GROUP_READS: self.group_read_version}
        columns["local_steps"] = np.zeros(0, np.int32) if self.local_steps is None else self.local_steps
        columns |= {name: np.array(getattr(self, name), np.str_) for name in TEXTS}
        if not self.derived:  # Files of simulated traces are the same as before this column existed.
            del columns["derived"]
        if self.variables > 1:
            columns |= {"variables": self.variables, "variable": self.variable, **self._mixing_columns}
        columns |= self._push_columns
        npz.write(path, columns, version=FORMAT_VERSION, notes=attributes, sync=sync)

    @classmethod
    @checked
    def load(cls, path: str | os.PathLike[str]) -> "Trace":
        """Read and check a trace that `save` wrote.

        Raises:
            FileNotFoundError: If there is no such file.
            TraceError: If the trace in it breaks an invariant.
            ValueError: If the file is CSV (for `from_csv`), damaged, not a trace, of another format, lacks a column, or
                has an unknown one.

        Example:
            >>> import pathlib, tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder, "trace.npz")
            ...     Trace.from_commits([0, 1, 0]).save(path)
            ...     Trace.load(path)
            Trace(3 commits by 2 workers in 3.0 s)
        """
        names = [f"{part}.{name}" for part, (_, columns) in PARTS.items() for name in columns]
        needed = ("workers", *COMMIT_COLUMNS, *names, "groups", GROUP_READS, "local_steps")
        source = f"{str(path)!r} holds no valid trace: "
        try:
            versions = {"version": FORMAT_VERSION, "oldest": OLDEST_FORMAT}
            read = npz.read(path, needed, optional=OPTIONAL, kind="trace", **versions)
        except ValueError:  # A file is looked at as a log only where it is no trace, because that takes it whole.
            with reworded(lambda error: error.replace(source=source)):
                logs.refuse_log(contents_of(path))
            raise
        columns: dict[str, Any] = owned(OPTIONAL | read)
        try:
            parts = {
                part: kind(**{name: columns[f"{part}.{name}"] for name in names})
                for part, (kind, names) in (PARTS | {"mixings": (Mixings, MIXING_COLUMNS)}).items()
            }
            numbers = {"workers": columns["workers"].tolist(), "variables": np.asarray(columns["variables"]).item()}
            local_steps = columns["local_steps"] if len(columns["local_steps"]) else None
            rest = {name: column for name, column in columns.items() if "." not in name}
            arguments: dict[str, Any] = rest | parts | numbers | {"local_steps": local_steps}
            trace = cls(**arguments)
            trace.check()
        except TraceError as error:
            raise error.replace(source=source) from None
        except ValueError as error:
            raise ValueError(f"{source}{error}") from error
        return trace

    def to_columns(self, *, unfinished: bool = False) -> Table:
        """Return the commits as columns of one length, which pandas, polars and Parquet take as they are.

        Args:
            unfinished: Whether the jobs that never committed follow the commits. A column `fate` then holds
                "committed" or the name of a `Fate` in small letters, and a worker that never read has one row with
                fate "idle". Only then does `from_columns` give the whole trace back, except for faults.

        Returns:
            Name to array: one row per commit, in the order of application, with `worker`, `staleness` and the other
            columns of the commits, then one column `read_version[NAME]` for each parameter group, and `local_steps` if
            they are known. With `unfinished`, also `fate`, `end_version` and `end_time`. A cell that does not apply is
            then infinite for times, -1 for whole numbers and False for booleans.

        Example:
            >>> trace = Trace.from_commits([0, 1, 0])
            >>> trace.to_columns()["staleness"].tolist()
            [0, 1, 1]
            >>> trace.to_columns(unfinished=True)["fate"].tolist()
            ['committed', 'committed', 'committed', 'in_flight', 'in_flight']

            As a table: ``pandas.DataFrame(trace.to_columns())``.
        """
        return flat.to_columns(self, unfinished)

    @classmethod
    @checked
    def from_columns(
        cls,
        frame: Any,
        workers: int | None = None,
        *,
        faults: Faults | None = None,
        start: Start = None,
        resume: str = "central",
        columns: Mapping[str, str] | None = None,
        unit: Units = None,
    ) -> "Trace":
        """Make a trace from a flat table: one that `to_columns` gave, or the log of a real cluster.

        Only `worker` and `commit_time` are needed. Missing columns are filled in:

        - `fate`: every row is a commit.
        - `closes_step`: every commit closes a step or, if `version` is given and repeats, the last one of a version.
          `version`: the steps closed by the rows before.
        - `read_time`: the end of the worker's previous job, or 0 for its first. A worker that joined late read as long
          before its first commit as its jobs usually take. If `read_version` is given and later, the time at which the
          server had that version. If `fate` is missing too, each worker also has a job in flight in the end, as in
          `from_commits`.
        - `read_version`: the steps closed by `read_time`. Commits of others at that very time count, unless the
          worker itself commits then, because it reads right after its own commit. A first read at time 0 sees version
          0. So you need `read_version` only if times tie and the server is not atomic.
        - `start_time`: `read_time`. `finish_time`, `arrive_time`, `serve_time`: the next later one that is known. A
          column `duration` gives the `finish_time` of a `start_time` or the other way round, and without these the
          `commit_time` of a `read_time`. A job whose commit was not logged commits when it finishes.
        - `pull_version`: `version`. `state_lost`: never. `end_version`: the steps closed by `end_time`.
        - `read_version[NAME]`, of a parameter group: there are no groups. If there are, `read_version` is by default
          the smallest of its row, and `read_time` the earliest time at which the server had that version.
        - `resumes_own`: never. With `resume="own"`, for each job that follows a commit of its worker. Such a job read
          when the worker pulled for that commit: `read_version` is its `pull_version` and its own step, `read_time` is
          the earliest that fits, and `start_time` is the end of the worker's previous job.
        - `commit_time`: 1, 2, 3, …, if `pull_version` is given and no time is: the rows are in order of application.
        - `staleness`: it follows from the versions, and must agree with them.
        - `local_steps`: not known. If it is given, it is the same in all rows of a worker.

        Rows with `version` must come in the order of application. Others are sorted by `commit_time`, ties as given. A
        note then names the first row that is not in order, and says if a clock seems to have stepped back there.
        Two equal rows are refused, because one commit is logged twice, and with `version` a time before that of the row
        before and versions that rows skip: lines are lost.

        Times are numbers, dates or durations. Workers are numbers from 0, or names of any kind, which are numbered in
        their natural order ("worker-2" before "worker-10") and stay in `trace.names`. Masked and missing entries count
        as missing. Other columns are ignored, and listed in `trace.notes`.

        Args:
            frame: Name to column, or a data frame (pandas, polars, pyarrow).
            workers, start: As in `from_commits`. `start` is subtracted from every time in `frame`. By default, dates
                count from the earliest.
            faults: The faults that happened, by default none. Their times count from the start of the run.
            resume: Where a worker goes on after its commit: from the "central" variable that it reads, or from its
                "own" value, which is the value that it had pulled plus its own message (see `asyncsim.Server`).
            columns: Column of a trace -> its name in `frame`, where they differ, as in
                ``{"worker": "host", "commit_time": "pushed_at"}``.
            unit: In which times count that are numbers: "s", "ms", "us" or "ns", or columns of a trace -> their
                units, as in ``{"duration": "ms"}``. By default seconds, unless a name in the log ends in another unit,
                as "Commit Time (ms)" does. `start` counts as the commits do.

        Returns:
            A checked trace, with findings about the log in its `notes`.

        Raises:
            TraceError: If a column is missing, of another length or kind, or the trace breaks an invariant. You get
                column, row, value and remedy.
            ValueError: If `workers`, `start`, `resume`, `columns` or `unit` is out of range.
            ImportError: If pandas is needed, say for dates that are texts, and not installed.

        Example:
            >>> log = {"worker": ["b", "a", "b"], "read_time": [0.0, 0.2, 1.0], "commit_time": [1.0, 1.5, 2.5]}
            >>> trace = Trace.from_columns(log)
            >>> trace.worker.tolist(), trace.read_version.tolist(), trace.staleness.tolist()
            ([1, 0, 1], [0, 0, 1], [0, 1, 1])
            >>> trace.names
            ('a', 'b')

            The order of two workers whose every pull missed the commit before its own:

            >>> order = {"worker": [0, 1, 0, 1], "pull_version": [0, 0, 1, 2]}
            >>> trace = Trace.from_columns(order, resume="own")
            >>> trace.read_version.tolist(), trace.staleness.tolist()
            ([0, 0, 1, 1], [0, 1, 1, 2])
        """
        return table.from_columns(cls, frame, workers, faults, start, resume, columns, unit)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the columns of `to_columns(unfinished=True)` as CSV, so that `from_csv` gives the same trace exactly.

        A cell is empty where a time never came or a number does not apply. Faults, if there are any, are written to a
        second file, run.faults.csv next to run.csv, and `notes` and `derived` to a third one, run.notes.csv, with the
        columns `kind` ("note" or "derived") and `text`. A trace of several variables has the columns `variable` and
        `variables` (their number), and its mixings are in run.mixings.csv, one row for each of their entries. A file
        beside it that would be empty is removed, because it would belong to another trace. Each file is complete or
        absent.

        Args:
            path: The file, whose name is used as it is.

        Raises:
            OSError: If a file cannot be written. An existing file stays whole.

        Example:
            >>> import pathlib, tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder, "run.csv")
            ...     Trace.from_commits([0, 1]).to_csv(path)
            ...     print(path.read_text()[:60])
            worker,fate,staleness,read_version,version,pull_version,clos
        """
        csv.write(self, path)

    @classmethod
    @checked
    def from_csv(
        cls,
        path: str | os.PathLike[str],
        workers: int | None = None,
        *,
        start: Start = None,
        resume: str = "central",
        columns: Mapping[str, str] | None = None,
        unit: Units = None,
    ) -> "Trace":
        """Read a trace that `to_csv` wrote, or the log of a real cluster.

        The file is CSV with any separator and a decimal point or comma, JSON lines, a JSON array of records, or
        parquet, the texts also compressed by gzip. Its kind follows from its contents. The first line of a CSV file
        names the columns. Only `worker` and `commit_time` are needed. The others are filled in as in `from_columns`,
        which also says how dates, names and missing values are read.

        Faults are read from a second file (run.faults.csv next to run.csv) if there is one, with the columns `kind`
        (the name of a `Fault` in small letters), `worker` (empty for the server), `start_time` and `end_time` (empty if
        the fault has no end), and notes from run.notes.csv.

        A file with the columns `opened` and `trained`, and perhaps `ready` and `taken`, is the log of an asynchronous
        reinforcement learning system: see `from_rollouts`.

        Args:
            path: The file.
            workers: As in `from_commits`.
            start: As in `from_columns`, also for faults. With 0, times stay as they are.
            resume: As in `from_columns`, if the file has no column `resumes_own`.
            columns: Column of a trace -> its name in the file, where they differ, as in
                ``{"worker": "host", "commit_time": "pushed_at"}``.
            unit: In which times count that are numbers: "s", "ms", "us" or "ns", or columns of a trace -> their
                units, as in ``{"duration": "ms"}``. By default seconds, unless a name in the log ends in another unit,
                as "Commit Time (ms)" does. `start` counts as the commits do.

        Returns:
            A checked trace, with findings about the log in its `notes`.

        Raises:
            FileNotFoundError: If there is no such file.
            TraceError: If it holds no valid trace. You get line, column, value and remedy.
            ValueError: If `workers`, `start`, `resume`, `columns` or `unit` is out of range.
            ImportError: If pandas is not installed (`pip install 'asyncsim[logs]'`), or pyarrow for a parquet file.

        Example:
            >>> import pathlib, tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder, "log.csv")
            ...     _ = path.write_text("host;commit_time;loss\\ngpu-1;1002,5;3\\ngpu-0;1002;2\\ngpu-1;1004,25;1\\n")
            ...     trace = Trace.from_csv(path, start=1000.0, columns={"worker": "host"})
            >>> trace.worker.tolist(), trace.commit_time.tolist(), trace.staleness.tolist()
            ([0, 1, 1], [2.0, 2.5, 4.25], [0, 1, 0])
            >>> trace.names, trace.notes[0]
            (('gpu-0', 'gpu-1'), "Column 'loss' was ignored.")
        """
        return csv.read(cls, contents_of(path), workers, start, resume, columns, unit)[0]

    def to_chrome(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as Chrome trace-event JSON, for Perfetto.

        Each worker is a thread with a slice per job, named "commit" or after the job's fate, whose arguments are its
        row, versions and staleness. Inside it lie the phases that take time: download (or wait), compute, upload, queue
        and service, of the category "unfinished" for jobs that never committed. The server is a process with a thread
        for each slot, and with counters of commits in the queue, of commits in service, and of jobs in flight. Faults
        are asynchronous events.

        Args:
            path: The file, whose name is used as it is.

        Raises:
            TraceError: If the trace is longer than about 285 years.
            OSError: If the file cannot be written. An existing file stays whole.

        Example:
            >>> import json, pathlib, tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder, "trace.json")
            ...     Trace.from_commits([0, 1, 0]).to_chrome(path)
            ...     events = json.loads(path.read_text())["traceEvents"]  # Google, "Trace Event Format"
            >>> [event["args"]["staleness"] for event in events if event["name"] == "commit"]
            [0, 1, 1]
        """
        chrome.write(self, path)
