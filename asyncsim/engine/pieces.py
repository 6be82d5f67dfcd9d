"""The host's share of a piece: its columns, padded to one length, with example numbers and what is due."""

from typing import Any

import numpy as np

from asyncsim.engine.batches import Shuffles
from asyncsim.engine.plan import Plan, waves
from asyncsim.engine.state import Columns
from asyncsim.workloads import Workload

PIECE_WORK = 1e8  # parameters × batch × seeds × commits of a piece: tenths of a second, for progress and Ctrl-C
PIECE_BYTES = 8 * 2**20  # of noise drawn for a piece: it should stay in the cache until it is used
SHORTEST, LONGEST = 64, 65536  # commits of a piece


def piece_length(parameters: int, batch_size: int, seeds: int) -> int:
    """Commits in a piece: a power of two, so that few programs are compiled.

    Example:
        >>> piece_length(163_790, 64, seeds=1), piece_length(650, 32, seeds=1), piece_length(10, 1, seeds=1)
        (64, 4096, 65536)
    """
    by_work = PIECE_WORK / (parameters * batch_size * seeds)
    by_memory = PIECE_BYTES / (4 * parameters * seeds) if batch_size == 1 else by_work
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
    """

    def __init__(
        self,
        plan: Plan,
        workload: Workload,
        seeds: tuple[int, ...],
        strides: tuple[int, ...],
        length: int,
        lanes: int,
    ) -> None:
        self.plan, self.seeds, self.strides, self.length, self.lanes = plan, seeds, strides, length, lanes
        self.shuffles = Shuffles(workload.examples, workload.batch_size) if workload.examples else None

    def piece(self, start: int, stop: int) -> tuple[int, Columns]:
        """Columns of commits start to stop, and the loop's count."""
        rows = slice(start, stop)
        worker, job = self.plan.worker[rows], self.plan.job[rows]
        begins, sizes = waves(worker, self.lanes) if self.lanes > 1 else (None, None)
        columns = Columns(
            worker=self.pad(worker),
            job=self.pad(job),
            staleness=self.pad(self.plan.staleness[rows]),
            examples=self.examples(worker, job),
            due=tuple(self.pad(np.arange(start + 1, stop + 1) % every == 0) for every in self.strides),
            wave_start=self.pad(begins),
            wave_size=self.pad(sizes),
        )
        return (stop - start if begins is None else len(begins)), columns

    def pad(self, column: np.ndarray | None) -> Any:
        """The column with zeros up to the piece's length."""
        if column is None:
            return None
        return np.concatenate([column, np.zeros((self.length - len(column), *column.shape[1:]), column.dtype)])

    def examples(self, worker: np.ndarray, job: np.ndarray) -> np.ndarray | None:
        """(length, seeds, batch) example numbers, or None for workloads without data."""
        if self.shuffles is None:
            return None
        return self.pad(np.stack([self.shuffles.take(seed, worker, job) for seed in self.seeds], axis=1))
