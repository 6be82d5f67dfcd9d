"""The host's share of a piece: its columns, padded to one length, with example numbers and what is due."""

from typing import Any

import numpy as np

from asyncsim.engine.batches import Shuffles
from asyncsim.engine.plan import Events, Plan, waves
from asyncsim.engine.state import Circumstances, Columns, PieceEvents
from asyncsim.workloads import Workload

PIECE_WORK = 1e8  # parameters × batch × seeds × commits of a piece: tenths of a second, for progress and Ctrl-C
PIECE_BYTES = 8 * 2**20  # of noise drawn for a piece: it should stay in the cache until it is used
SHORTEST, LONGEST = 64, 65536  # commits of a piece


def piece_length(parameters: int, batch_size: int, seeds: int, window: int = 1) -> int:
    """Commits in a piece: a power of two, so that few programs are compiled.

    Example:
        >>> piece_length(163_790, 64, seeds=1), piece_length(650, 32, seeds=1), piece_length(10, 1, seeds=1)
        (64, 4096, 65536)
    """
    by_work = PIECE_WORK / (parameters * batch_size * seeds * window)
    by_memory = PIECE_BYTES / (4 * parameters * seeds * window) if batch_size == 1 else by_work
    length = min(max(min(by_work, by_memory), SHORTEST), LONGEST)
    return 1 << int(np.log2(length))


class Feeder:
    """Makes the columns of any stretch of a plan.

    Args:
        plan: The trace.
        workload: Where mini-batches come from.
        seeds: Seeds replayed side by side.
        strides: Every how many commits each group of `Layout.rarely` is due.
        length: Commits in a piece.
        lanes: Gradients taken together.
        window: Local steps of a commit, each with a mini-batch; None for rules without local steps.
    """

    def __init__(
        self,
        plan: Plan,
        workload: Workload,
        seeds: tuple[int, ...],
        strides: tuple[int, ...],
        length: int,
        lanes: int,
        window: int | None = None,
    ) -> None:
        self.window = window
        self.plan, self.seeds, self.strides, self.length, self.lanes = plan, seeds, strides, length, lanes
        self.shuffles = Shuffles(workload.examples, workload.batch_size) if workload.examples else None

    def piece(self, start: int, stop: int) -> tuple[int, Columns]:
        """Columns of commits start to stop, and the loop's count."""
        rows = slice(start, stop)
        worker, job = self.plan.worker[rows], self.plan.job[rows]
        begins, sizes = waves(self.plan.read_row[rows] - start, self.lanes) if self.lanes > 1 else (None, None)
        columns = Columns(
            worker=self.pad(worker),
            job=self.pad(job),
            circumstances=self.circumstances(rows),
            events=tuple(self.events(events, start, stop) for events in self.plan.events.values()),
            examples=self.examples(worker, job),
            due=tuple(self.pad(np.arange(start + 1, stop + 1) % every == 0) for every in self.strides),
            wave_start=self.pad(begins),
            wave_size=self.pad(sizes),
        )
        return (stop - start if begins is None else len(begins)), columns

    def circumstances(self, rows: slice) -> Circumstances:
        """What the trace says of these commits."""
        columns = {name: getattr(self.plan, name) for name in Circumstances._fields}
        return Circumstances(**{name: self.pad(c[rows]) for name, c in columns.items() if c is not None})

    def events(self, events: Events, start: int, stop: int) -> PieceEvents:
        """The events that follow commits start to stop."""
        edges = np.searchsorted(events.row, np.arange(start, stop + 1))
        here = slice(edges[0], edges[-1])
        edges = (edges - edges[0]).astype(np.int32)
        most = self.length + self.plan.workers
        return PieceEvents(
            start=self.pad(edges[:-1]),
            stop=self.pad(edges[1:]),
            worker=self.pad(events.worker[here], most),
            staleness=self.pad(events.staleness[here], most),
        )

    def pad(self, column: np.ndarray | None, length: int = 0) -> Any:
        """The column with zeros up to the piece's length, or another."""
        if column is None:
            return None
        zeros = np.zeros(((length or self.length) - len(column), *column.shape[1:]), column.dtype)
        return np.concatenate([column, zeros])

    def examples(self, worker: np.ndarray, job: np.ndarray) -> np.ndarray | None:
        """(length, seeds, batch) example numbers, (…, window, batch) with local steps; None without data."""
        if self.shuffles is None:
            return None
        if self.window is None:
            return self.pad(np.stack([self.shuffles.take(seed, worker, job) for seed in self.seeds], axis=1))
        steps = (job[:, None].astype(np.int64) * self.window + np.arange(self.window)).ravel()
        taken = [self.shuffles.take(seed, worker.repeat(self.window), steps) for seed in self.seeds]
        return self.pad(np.stack([rows.reshape(len(job), self.window, -1) for rows in taken], axis=1))
