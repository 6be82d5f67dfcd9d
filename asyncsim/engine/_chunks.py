"""Prepare a chunk of commits for the compiled loop: columns padded to one length, examples and records."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from operator import add
from typing import Any, NamedTuple

import numpy as np

from asyncsim.engine._plan import Events, Mixes, Plan, waves
from asyncsim.workloads import Workload
from asyncsim.workloads._batches import Shuffles

CHUNK_WORK = 1e8  # parameters × batch × seeds × commits of a chunk: tenths of a second, for progress and Ctrl-C
CHUNK_BYTES = 8 * 2**20  # of noise drawn for a chunk: it should stay in the CPU's cache until it is used
RECORDED_BYTES = 256 * 2**20  # of a chunk, on the device until the chunk is done
FLOAT_BYTES = 4  # of a float32. In float64 the noise takes twice the room, which costs little
SHORTEST, LONGEST = 64, 65536  # commits of a chunk: shorter ones cost more to start, longer ones gain nothing


class Schedule(NamedTuple):
    """The trace's columns of one commit, or of several, and () for columns that no commit of the trace needs."""

    staleness: Any  # τ, int32
    version: Any = ()  # the server's version before the commit, int32, for rules with a schedule
    closes: Any = ()  # whether the commit closes its step
    collected: Any = ()  # commits in the step up to and including this one
    reads_at_commit: Any = ()  # whether the worker reads right after the commit
    late_pull: Any = ()  # whether it pulls just before the commit
    resumes_own: Any = ()  # whether it goes on from its own value after the commit
    group_staleness: Any = ()  # (groups,) τ of every parameter group
    variable: Any = ()  # the variable that it changes, of several


class When(NamedTuple):
    """The trace's columns of one event between commits, or of several, and () for columns that it does not need."""

    staleness: Any  # τ of the worker's last commit, int32
    version: Any = ()  # of that commit, int32, for rules with a schedule
    begins: Any = ()  # whether the worker begins with this job
    group_staleness: Any = ()  # (groups,) as `staleness`


class ChunkEvents(NamedTuple):
    start: Any  # (length,) int32, the first of the events below that follow each commit
    stop: Any  # (length,) int32, the end of their range
    worker: Any  # (length + workers,) int32: between two commits of a worker there is at most one event
    when: When  # columns of shape (length + workers,)
    variable: Any = ()  # (length + workers,) int32, the variable that is read, of several


class ChunkMixes(NamedTuple):
    start: Any  # (length,) int32, the first of the mixings below that follow each commit
    stop: Any  # (length,) int32, the end of their range
    target: Any  # (mixings, targets) int32
    source: Any  # (mixings, targets, sources) int32, or (mixings, sources)
    weight: Any  # (mixings, targets, sources) of the parameters' precision


class ChunkPushes(NamedTuple):
    region: Any  # (length,) int32, the variable whose change each commit pushes, or -1 for a gradient
    sent: Any  # (length,) int32, the slot of its value when it was sent, plus the number of variables
    base: Any  # (length,) int32, the same of its value after its last merge


class Chunk(NamedTuple):
    worker: Any  # (length,) int32
    job: Any  # (length,) int32, the worker's commits before this one
    schedule: Schedule  # columns of shape (length,)
    events: tuple[ChunkEvents, ...]  # one for each of `Layout.events`
    examples: Any  # (length, seeds, batch) int32 example numbers, or None for workloads without data
    keys: Any  # (length, seeds) random keys, or (length, seeds, longest window), or None where nothing uses them
    records_before: tuple[Any, ...]  # for each stride, (length + 1,) int32, the records before each commit
    wave_start: Any  # (waves,) int32, or None with one lane
    wave_size: Any  # (waves,) int32, or None with one lane
    mixes: ChunkMixes | None = None  # of several variables
    pushes: ChunkPushes | None = None  # of a hierarchy


def chunk_length(
    parameters: int, batch_size: int, seeds: int, window: int = 1, recorded: float = 0.0, drawn: int = 0
) -> int:
    """Return the number of commits in a chunk: a power of two, so that few programs are compiled."""
    by_work = CHUNK_WORK / (parameters * batch_size * seeds * window)
    numbers = max(parameters, drawn) * seeds * window
    by_memory = CHUNK_BYTES / (FLOAT_BYTES * numbers) if batch_size == 1 else by_work
    length = min(max(min(by_work, by_memory), SHORTEST), LONGEST)
    return 1 << int(np.log2(max(min(length, RECORDED_BYTES / max(recorded, 1.0)), 1)))


def room(length: int, every: int) -> int:
    """Return the number of records, one for each stride of commits, for which a chunk has room."""
    # More than there can be: the loop writes a record at each commit, and those that are not due go there.
    return 1 << (-(-length // every)).bit_length()


def chunk_end(start: int, length: int, total: int, pauses: Iterable[int]) -> int:
    """Return where the chunk with a commit ends. Chunks follow one another from 0, and from each evaluation, on.

    Evaluations are at the multiples of `pauses`. A resumed replay may start inside a chunk.
    """
    before = [start - start % every for every in pauses]
    from_pause = (start - max(before, default=0)) % length
    return min([start - from_pause + length, total, *map(add, before, pauses)])


def diverged_end(commit: int, length: int, total: int, pauses: Collection[int]) -> int:
    """Return where a replay stops whose last seed diverges at a commit.

    The results of a chunk are seen once the next one has begun, or at its own end if there is an evaluation.
    """
    end = chunk_end(commit, length, total, pauses)
    return end if any(end % every == 0 for every in pauses) else chunk_end(end, length, total, pauses)


@dataclass(frozen=True, eq=False)
class Feeder:
    plan: Plan  # the trace
    workload: Workload  # where mini-batches come from
    seeds: tuple[int, ...]  # seeds replayed together
    strides: tuple[int, ...]
    length: int  # commits in a chunk
    lanes: int  # gradients taken together
    versions: bool  # whether the rule needs the server's versions, for a schedule
    windows: np.ndarray | None = None  # (workers,) local steps, each with a mini-batch, or None without local steps

    @cached_property
    def shuffles(self) -> Shuffles | None:
        return self.workload.shuffles()

    def chunk(self, start: int, stop: int) -> tuple[int, Chunk]:
        """Return commits `start` to `stop`, at most `length`, and the loop's number of runs: commits or waves."""
        rows = slice(start, stop)
        worker, job = self.plan.worker[rows], self.plan.job[rows]
        begins, sizes = waves(self.plan.read_row[rows] - start, self.lanes) if self.lanes > 1 else (None, None)
        chunk = Chunk(
            worker=self.pad(worker),
            job=self.pad(job),
            schedule=Schedule(**self.columns(self.plan, Schedule._fields, rows)),
            events=tuple(self.events(events, start, stop) for events in self.plan.events.values()),
            # Pushes have no mini-batch. They get one, so that all commits of a chunk have.
            examples=self.examples(np.where(worker < self.plan.computing, worker, 0), job),
            keys=None,  # They are made on the device.
            # Before each commit of the chunk, and in all of it.
            records_before=tuple(
                ((start + np.arange(self.length + 1)) // every - start // every).astype(np.int32)
                for every in self.strides
            ),
            wave_start=self.pad(begins),
            wave_size=self.pad(sizes),
            mixes=self.mixes(start, stop),
            pushes=None if self.plan.pushes is None else ChunkPushes(*(self.pad(c[rows]) for c in self.plan.pushes)),
        )
        return (stop - start if begins is None else len(begins)), chunk

    def columns(self, of: Plan | Events, names: tuple[str, ...], rows: slice, length: int = 0) -> dict[str, Any]:
        """Return some rows of the columns of these names, padded, as far as the trace has them."""
        columns = {name: getattr(of, name) for name in names if name != "version" or self.versions}
        return {name: self.pad(column[rows], length) for name, column in columns.items() if column is not None}

    def events(self, events: Events, start: int, stop: int) -> ChunkEvents:
        edges = np.searchsorted(events.row, np.arange(start, stop + 1))
        return self.events_between(events, edges, self.length, self.length + self.plan.workers)

    def events_between(self, events: Events, edges: np.ndarray, length: int, most: int) -> ChunkEvents:
        rows = slice(edges[0], edges[-1])
        edges = (edges - edges[0]).astype(np.int32)
        return ChunkEvents(
            start=self.pad(edges[:-1], length),
            stop=self.pad(edges[1:], length),
            worker=self.pad(events.worker[rows], most),
            when=When(**self.columns(events, When._fields, rows, most)),
            **self.columns(events, ("variable",), rows, most),
        )

    @cached_property
    def most_mixes(self) -> int:
        """The most mixings in a chunk, wherever it begins: a power of two, so that few programs are compiled."""
        assert self.plan.mixes is not None
        rows = np.arange(len(self.plan.worker))
        edges = np.searchsorted(self.plan.mixes.row, np.append(rows, np.minimum(rows, rows[-1:]) + self.length))
        first, last = np.split(edges, 2)
        return 1 << int((last - first).max(initial=1) - 1).bit_length()

    def mixes(self, start: int, stop: int) -> ChunkMixes | None:
        if self.plan.mixes is None:
            return None
        edges = np.searchsorted(self.plan.mixes.row, np.arange(start, stop + 1))
        edges[-1] -= self.waiting(stop - 1)
        return self.mixes_between(self.plan.mixes, edges, self.length, self.most_mixes)

    def mixes_between(self, mixes: Mixes, edges: np.ndarray, length: int, most: int) -> ChunkMixes:
        rows = slice(edges[0], edges[-1])
        edges = (edges - edges[0]).astype(np.int32)
        columns = [self.pad(column[rows], most) for column in mixes[1:]]
        return ChunkMixes(self.pad(edges[:-1], length), self.pad(edges[1:], length), *columns)

    def waiting(self, row: int) -> int:
        """Return the number of mixings after a row that belong to the next one, or follow one that does."""
        if self.plan.mixes is None or self.plan.of_next is None:
            return 0
        return int(self.plan.of_next[slice(*np.searchsorted(self.plan.mixes.row, [row, row + 1]))].sum())

    def before(self, row: int) -> Chunk | None:
        """Return what is left to do of the row before this one: a chunk without commits, or None.

        A chunk ends where its last commit is complete. A mixing that is a part of the next one waits, so that it is in
        no record of this one, and workers that read between the two read once more after it.
        """
        waiting = self.waiting(row - 1)
        if not waiting or self.plan.mixes is None:
            return None
        end, zero = np.searchsorted(self.plan.mixes.row, row), np.zeros(1, np.int32)
        edges = np.array([end - waiting, end])
        events = tuple(
            self.events_between(events, np.searchsorted(events.row, [row - 1, row]), 1, self.plan.workers)
            for events in self.plan.events.values()
        )
        mixes = self.mixes_between(self.plan.mixes, edges, 1, 1 << (waiting - 1).bit_length())
        return Chunk(zero, zero, Schedule(zero), events, None, None, (), None, None, mixes)

    def pad(self, column: np.ndarray | None, length: int = 0) -> Any:
        """Return the column with zeros up to the chunk's length, or another one."""
        if column is None:
            return None
        zeros = np.zeros(((length or self.length) - len(column), *column.shape[1:]), column.dtype)
        return np.concatenate([column, zeros])

    def examples(self, worker: np.ndarray, job: np.ndarray) -> np.ndarray | None:
        """Return example numbers, (length, seeds, batch) or, with local steps, (length, seeds, longest, batch)."""
        if self.shuffles is None:
            return None
        if self.windows is None:
            return self.pad(np.stack([self.shuffles.take(seed, worker, job) for seed in self.seeds], axis=1))
        longest, window = int(self.windows.max()), self.windows[worker][:, None]
        # Beyond a worker's own window, where nobody looks, its last mini-batch is repeated.
        steps = (job[:, None].astype(np.int64) * window + np.minimum(np.arange(longest), window - 1)).ravel()
        rows_of_seeds = [self.shuffles.take(seed, worker.repeat(longest), steps) for seed in self.seeds]
        return self.pad(np.stack([rows.reshape(len(job), longest, -1) for rows in rows_of_seeds], axis=1))
