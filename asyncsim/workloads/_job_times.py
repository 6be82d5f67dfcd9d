"""Jobs that take as long as their data: laws of compute times that follow the mini-batches of a workload."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim._checks import brief, require_all_counts, require_count, require_integer, require_not_negative
from asyncsim.components._checked import checked
from asyncsim.delays import ByJob, Constant, Delay, FloatArray
from asyncsim.delays._per_worker import expand, require_laws, require_one_per_worker
from asyncsim.workloads._batches import Shuffles
from asyncsim.workloads._workload import JOBS, Workload


@checked
def job_times(
    workload: Workload,
    per_example: ArrayLike,
    workers: Annotated[int, require_count, "Use one worker or more."],
    *,
    overhead: Annotated[float, require_not_negative, "Give seconds."] = 0.0,
    padded: bool = False,
    noise: Delay | Sequence[Delay] | None = None,
    window: Annotated[int | Sequence[int], require_all_counts, "1 for rules without local steps."] = 1,
    seed: Annotated[int, require_integer, "Give that of the replay."] = 0,
) -> tuple[ByJob, ...]:
    """Return laws of workers whose jobs take as long as their mini-batches: one per worker, for `Cluster(compute=…)`.

    Which examples are in the j-th mini-batch of worker w is a function of (seed, w, j) alone, so that event times are
    known before anything is learned, and slow data are stale data. Replay with the same seed, whose mini-batches these
    are.

    Every job that begins to compute takes the next mini-batch, and those of jobs that never commit are left out: the
    workload must count jobs (`counts="jobs"`). So a protocol that stops or drops late jobs selects: long examples are
    used less often than others.

    Args:
        workload: The workload, which determines the examples of every mini-batch.
        per_example: (examples,) seconds for each training example, for example its length in tokens times the time for
            one, or a scalar.
        workers: Number of workers.
        overhead: Seconds that each mini-batch takes in addition.
        padded: Whether each mini-batch is padded to its longest example, so that all of its examples take as long.
        noise: Law of a factor, one for all workers or one per worker: of mean 1 for a spread, `Constant(2.0)` for a
            worker that takes twice as long. By default there is none.
        window: Mini-batches of a job: local steps of the rule, one number or one per worker.
        seed: Seed of the replay.

    Returns:
        `workers` laws, `delays.ByJob`.

    Raises:
        ValueError: If the workload has no data, counts commits or is made for another number of workers, or another
            argument does not fit.

    Example:
        Four examples, of which one takes nine seconds, in mini-batches of two:

        >>> import dataclasses, asyncsim as asim
        >>> def loss(params, batch, key):
        ...     return ((params - batch) ** 2).mean()
        >>> data = np.arange(4.0)
        >>> workload = Workload(lambda key: np.zeros(()), loss, data=data, batch_size=2, counts="jobs")
        >>> laws = job_times(workload, [1.0, 1.0, 1.0, 9.0], workers=2)
        >>> laws[0].mean
        6.0
        >>> trace = asim.simulate(asim.Cluster(2, laws), commits=6)
        >>> sorted(set((trace.commit_time - trace.read_time).tolist()))
        [2.0, 10.0]
    """
    if workload.data is None:
        raise ValueError(f"`workload` must have data for `job_times`; {brief(workload)} draws its mini-batches.")
    if workload.counts != JOBS:
        raise ValueError(
            f"`workload` must count jobs, as each job's time is that of its own mini-batch; it counts "
            f"{workload.counts!r}. Give dataclasses.replace(workload, counts='jobs')."
        )
    workload.require_workers(workers)
    law = require_laws("noise", Constant(1.0) if noise is None else noise)
    require_one_per_worker("noise", law, workers)
    require_one_per_worker("window", window, workers, what="number")
    times = _Times(
        seconds=_checked_seconds(per_example, workload.examples),
        parts=workload.parts,
        batch_size=workload.batch_size,
        overhead=overhead,
        padded=bool(padded),
        window=window,
        seed=seed,
    )
    return tuple(ByJob(_OfWorker(times, worker), factor) for worker, factor in enumerate(expand(law, workers)))


@dataclass(frozen=True, eq=False)
class _Times:
    seconds: FloatArray
    parts: Any
    batch_size: int
    overhead: float
    padded: bool
    window: int | Sequence[int]
    seed: int

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "shuffles"}

    @cached_property
    def shuffles(self) -> Shuffles:
        return Shuffles(self.parts or len(self.seconds), self.batch_size)

    def of(self, worker: int, job: NDArray[np.int64]) -> FloatArray:
        """Return the (jobs,) seconds of a worker's jobs."""
        window = self.window if isinstance(self.window, int) else self.window[worker]
        steps = (np.asarray(job)[:, None] * window + np.arange(window)).ravel()
        each = self.seconds[self.shuffles.take(self.seed, np.full(len(steps), worker), steps)]
        batch = each.max(axis=1) * self.batch_size if self.padded else each.sum(axis=1)
        return (batch + self.overhead).reshape(len(job), window).sum(axis=1)


@dataclass(frozen=True)
class _OfWorker:
    times: _Times
    worker: int

    def __repr__(self) -> str:
        return f"<mini-batches of worker {self.worker}>"

    def __call__(self, job: NDArray[np.int64]) -> FloatArray:
        return self.times.of(self.worker, job)


def _checked_seconds(per_example: ArrayLike, examples: int) -> FloatArray:
    seconds = np.asarray(per_example, np.float64)
    if seconds.ndim and seconds.shape != (examples,):
        raise ValueError(
            f"`per_example` must be one number or one per training example, {examples}; got shape "
            f"{seconds.shape}. Give seconds."
        )
    if not (np.isfinite(seconds) & (seconds >= 0)).all():
        raise ValueError(f"`per_example` must be finite and not negative; got {seconds.min()} to {seconds.max()}.")
    return np.ascontiguousarray(np.broadcast_to(seconds, (examples,)))
