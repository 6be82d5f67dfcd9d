"""A law of jobs that are known beforehand: a worker's j-th job takes the time of its own work."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim._checks import brief, require_count
from asyncsim.components._checked import Checked
from asyncsim.delays._bounded import Constant
from asyncsim.delays._law import Delay, FloatArray, from_zero, log_outlasted, require_law

ALWAYS = Constant(1.0)
TYPICAL = 1000


def _function(name: str, value: Any) -> Any:
    if not callable(value):
        remedy = "Give a function of the numbers of jobs."
        raise ValueError(f"`{name}` must be a function; got {brief(value)}. {remedy}")
    return value


@dataclass(frozen=True)
class ByJob(Checked):
    """The j-th job that a worker begins to compute takes times(j), multiplied by a factor drawn from `noise`.

    A simulation asks for job after job. Jobs that are cancelled or lost count as well. Everywhere else the law is that
    of a job picked at random from the first `typical` ones, with its mean, variance, distribution and samples.

    Args:
        times: (m,) numbers of jobs, from 0, int64 -> (m,) seconds.
        noise: Law of the factor: of mean 1 for a spread, `Constant(2.0)` for a worker that takes twice as long.
        typical: Number of first jobs that define mean, variance and distribution.

    Example:
        >>> import asyncsim as asim
        >>> law = ByJob(lambda job: 1.0 + job % 2)
        >>> law.mean
        1.5
        >>> asim.simulate(asim.Cluster(workers=1, compute=law), commits=4).commit_time.tolist()
        [1.0, 3.0, 4.0, 6.0]
    """

    times: Annotated[Callable[[NDArray[np.int64]], FloatArray], _function]
    noise: Annotated[Delay, require_law] = ALWAYS
    typical: Annotated[int, require_count, "1000 is usual."] = TYPICAL
    in_seconds: ClassVar[tuple[str, ...]] = ("noise",)  # `scaled` multiplies the law of the factor

    def __getstate__(self) -> dict[str, Any]:
        """Return the arguments without the cache."""
        return {name: value for name, value in vars(self).items() if name != "_typical"}

    @property
    def mean(self) -> float:
        """Mean of the typical jobs."""
        return float(self._typical.mean()) * self.noise.mean

    @property
    def variance(self) -> float:
        """Variance of the typical jobs and of the noise, E t² E f² - (E t E f)²."""
        second = float((self._typical**2).mean()) * (self.noise.variance + self.noise.mean**2)
        return max(second - self.mean**2, 0.0)

    def cdf(self, t: ArrayLike, /) -> FloatArray:
        """Return the probability that one of the typical jobs takes at most `t`."""
        at = from_zero(t)
        values, counts = np.unique(self._typical, return_counts=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = self.noise.cdf(np.where(values > 0, at[..., None] / values, np.inf))
        return np.where(np.asarray(t) >= 0, shares @ counts / counts.sum(), 0.0)

    def log_survival(self, t: ArrayLike, /) -> FloatArray:
        """Return the logarithm of the probability that one of the typical jobs takes longer than `t`."""
        at = from_zero(t)
        values, counts = np.unique(self._typical, return_counts=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            longer = log_outlasted(self.noise, np.where(values > 0, at[..., None] / values, np.inf))
        together = np.logaddexp.reduce(longer + np.log(counts / counts.sum()), axis=-1)
        return np.where(np.asarray(t) >= 0, together, 0.0)

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw the times of jobs picked at random, shape (size,)."""
        # Each job takes its two random numbers in turn, so that the sizes of blocks do not matter.
        if not isinstance(self.noise, Constant) and size > 1:
            return np.concatenate([self.sample(generator, 1) for _ in range(size)])
        picked = (generator.random(size) * len(self._typical)).astype(np.int64)
        return self._typical[picked] * self._factors(generator, size)

    def sum_of(self, count: int) -> "ByJob":
        """Return the law itself, because its times are those of whole jobs, however many local steps they have."""
        del count  # Unused.
        return self

    def at(self, job: NDArray[np.int64]) -> FloatArray:
        """Return the seconds of these jobs without noise, shape (m,)."""
        seconds = np.asarray(self.times(job), np.float64)
        if seconds.shape != job.shape:
            remedy = "Return one time for each job."
            raise ValueError(
                f"`times` must return shape {job.shape} for {len(job)} jobs; got {seconds.shape}. {remedy}"
            )
        return seconds

    def _factors(self, generator: np.random.Generator, size: int) -> FloatArray | float:
        return self.noise.value if isinstance(self.noise, Constant) else self.noise.sample(generator, size)

    @cached_property
    def _typical(self) -> FloatArray:
        return self.at(np.arange(self.typical))


class _Counting:
    """A `ByJob` whose samples are those of one job after another."""

    def __init__(self, law: ByJob) -> None:
        self.law = law
        self.mean, self.variance, self.cdf = law.mean, law.variance, law.cdf
        self.done = 0

    def __repr__(self) -> str:
        return repr(self.law)

    def sample(self, generator: np.random.Generator, size: int, /) -> FloatArray:
        """Draw the times of the next `size` jobs."""
        jobs = np.arange(self.done, self.done + size)
        self.done += size
        return self.law.at(jobs) * self.law._factors(generator, size)


def from_start(law: Delay) -> Delay:
    """Return the law as a worker draws from it, from its first job on."""
    return _Counting(law) if isinstance(law, ByJob) else law
