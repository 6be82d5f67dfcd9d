"""Speeds that change with time, the duration of work at such speeds, and the compute law of such a worker."""

import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from asyncsim._checks import brief, require_not_negative, require_positive
from asyncsim.components._checked import Checked, checked
from asyncsim.delays._law import Delay, require_law, sum_of

# The end of a segment, in seconds, and its speed. Segments follow one another from time 0 on and never end.
Segment = tuple[float, float]
_BLOCK = 64  # periods of each kind drawn at once: as with delays, one call for many is much faster


@checked
class Timer:
    """The time that work takes one worker: work W from s on ends at e if the integral of the speed from s to e is W.

    It stores only the segments from the last start on, so that memory does not grow with time.

    Args:
        segments: Pairs of the time until which a speed holds and that speed, from time 0 on. The times do not decrease
            and have no bound (the last one may be infinity).

    Example:
        >>> timer = Timer([(2.0, 1.0), (3.0, 0.0), (float("inf"), 0.5)])
        >>> timer.duration(1.0, 0.5), timer.duration(1.0, 1.5)
        (0.5, 3.0)
    """

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._coming = iter(segments)
        self._kept: deque[Segment] = deque()
        self._latest = 0.0

    def duration(self, start: float, work: float) -> float:
        """Compute the duration of some work.

        Args:
            start: Start of the work, in seconds: not before the start of an earlier call's work, but possibly before
                its end, if that job was stopped.
            work: Seconds that it would take at speed 1, at least 0.

        Returns:
            Seconds from start to end, or 0 for no work, even if the speed is 0.
        """
        if not 0 <= work < math.inf:
            require_not_negative("work", work, remedy="Give the seconds that it takes at speed 1.")
        elapsed = 0.0
        for until, speed in self._from(start):
            room = until - start - elapsed
            if work <= speed * room:
                return elapsed + work / speed if work else elapsed
            work -= speed * room
            elapsed = until - start
        raise ValueError(
            f"`segments` must go on for ever; got an end at {start + elapsed}. Make infinity the last time."
        )

    def segments(self) -> Iterator[Segment]:
        """Return the present and all later segments. This timer must not be used afterwards."""
        return itertools.chain(tuple(self._kept), self._coming)

    def _from(self, start: float) -> Iterator[Segment]:
        if not self._latest <= start < math.inf:
            raise ValueError(
                f"`start` must be finite and not before {self._latest}, the last one; got {start}. "
                "Ask in the order of time, and use a new timer for another run."
            )
        self._latest = start
        while self._kept and self._kept[0][0] <= start:
            self._kept.popleft()
        yield from tuple(self._kept)
        for segment in self._coming:
            if segment[0] > start:
                self._kept.append(segment)
                yield segment


def steady() -> Timer:
    """Return a timer whose speed is always 1: durations are equal to the work, to the last bit.

    Example:
        >>> steady().duration(7.0, 0.1)
        0.1
    """
    return Timer([(math.inf, 1.0)])


@checked
def slowed(timer: Timer, windows: Iterable[tuple[float, float, float]]) -> Timer:
    """Slow a worker down in some windows of time: its speed is divided by `factor` from start to end.

    Args:
        timer: The worker's timer, which must not be used afterwards.
        windows: Triples (start, end, factor), with times in seconds and 0 <= start < end <= infinity. The factor is
            positive. An infinite factor is a pause, which must end. Where windows overlap, factors multiply.

    Returns:
        A timer.

    Example:
        >>> timer = slowed(steady(), [(1.0, 5.0, 2.0)])
        >>> timer.duration(0.0, 1.0), timer.duration(0.0, 2.0), timer.duration(0.0, 3.5)
        (1.0, 3.0, 5.5)
    """
    segments = timer.segments()
    for start, end, factor in windows:
        start = require_not_negative("start", start, remedy="Give the beginning of the window in seconds.")
        if not end > start:
            raise ValueError(f"`end` must be after `start`, {start}; got {end}. Give the end of the window in seconds.")
        if not (factor == math.inf and end < math.inf):
            factor = require_positive("factor", factor, remedy="2 makes jobs twice as long; infinity is a pause.")
        segments = _divide(segments, start, float(end), factor)
    return Timer(segments)


def _divide(segments: Iterator[Segment], start: float, end: float, factor: float) -> Iterator[Segment]:
    """Cut the segments at start and end, and slow them down between these."""
    begin = 0.0
    for until, speed in segments:
        cuts = (cut for cut in (start, end, until) if begin < cut <= until)
        for cut in cuts:
            yield cut, speed / factor if start < cut <= end else speed
        begin = until


@runtime_checkable
class Speed(Protocol):
    """A worker's speed as a piecewise constant function of time. Work is measured in seconds at speed 1."""

    @property
    def mean(self) -> float:
        """Long-run mean speed."""
        ...

    def segments(self, generator: np.random.Generator, /) -> Iterator[Segment]:
        """Yield pairs (end, speed) from time 0 on, drawn only when they are needed. See `Timer`."""
        ...


def _speed(name: str, value: Any) -> Speed:
    if not isinstance(value, Speed) or isinstance(value, type):
        raise ValueError(f"`{name}` must be a speed; got {brief(value)}. Use a `Profile` or `SlowPeriods`.")
    return value


def _numbers(name: str, values: Sequence[float]) -> tuple[float, ...]:
    if not isinstance(values, (Sequence, np.ndarray)):
        raise ValueError(f"`{name}` must be a sequence of numbers; got {brief(values)}. Give one per segment.")
    return tuple(require_not_negative(name, value, remedy="Give one per segment.") for value in values)


@dataclass(frozen=True)
class Profile(Checked):
    """A given speed: `speeds[i]` from `times[i]` on, repeated after `period` if there is one.

    Args:
        times: When each speed begins, in seconds, increasing from 0 (kept as a tuple).
        speeds: The speeds, at least 0 (kept as a tuple). The last one (with a period, any of them) must be above 0.
        period: Seconds after which the profile begins again, None if the last speed has no end.

    Example:
        >>> nights = Profile(times=(0.0, 16.0), speeds=(1.0, 0.25), period=24.0)
        >>> nights.mean
        0.75
        >>> from asyncsim.delays import Constant
        >>> VariableSpeed(Constant(10.0), nights).timer(np.random.default_rng(0)).duration(8.0, 10.0)
        16.0
    """

    times: Annotated[Sequence[float], _numbers]
    speeds: Annotated[Sequence[float], _numbers]
    period: Annotated[float, require_positive, "Leave it out for a profile that does not repeat."] | None = None

    def check(self) -> None:
        """Refuse segments that do not follow one another, or in which work never ends."""
        times, speeds, period = self.times, self.speeds, self.period
        if len(times) != len(speeds):
            raise ValueError(
                f"`times` and `speeds` must be as many; got {len(times)} and {len(speeds)}. "
                "Give one of each per segment."
            )
        if not times or times[0] != 0 or any(later <= sooner for sooner, later in itertools.pairwise(times)):
            raise ValueError(f"`times` must increase from 0; got {times}. Give the beginnings of the segments.")
        if period is not None and period <= times[-1]:
            raise ValueError(f"`period` must be after the last of `times`, {times[-1]}; got {period}. Make it longer.")
        if not (speeds[-1] if period is None else max(speeds)):
            raise ValueError(f"`speeds` must let all work end; got {speeds}. End with a speed above 0.")

    @property
    def mean(self) -> float:
        """Mean over a period, or the last speed."""
        if self.period is None:
            return self.speeds[-1]
        lengths = np.diff([*self.times, self.period])
        return float(np.dot(self.speeds, lengths)) / self.period

    def segments(self, generator: np.random.Generator, /) -> Iterator[Segment]:
        """Yield pairs (end, speed). The generator does not change."""
        del generator  # Unused.
        if self.period is None:
            yield from zip((*self.times[1:], math.inf), self.speeds, strict=True)
            return
        ends = (*self.times[1:], self.period)
        for cycle in itertools.count():
            for end, speed in zip(ends, self.speeds, strict=True):
                yield cycle * self.period + end, speed


@dataclass(frozen=True)
class SlowPeriods(Checked):
    """Fast periods at speed 1 alternate with slow ones at speed 1 / factor, each of a random length.

    With exponential lengths, the worker is Markov-modulated. Every worker begins at the start of a fast period and
    draws its own lengths from there. With constant lengths, all workers are slow at the same times.

    Args:
        factor: Duration of work in a slow period relative to a fast one, positive.
        fast: Law of the lengths of the fast periods, in seconds.
        slow: Law of the lengths of the slow periods, in seconds. One of the two must take time.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> SlowPeriods(factor=4.0, fast=Exponential(mean=3.0), slow=Exponential(mean=1.0)).mean
        0.8125
    """

    factor: Annotated[float, require_positive, "4 makes work in a slow period four times as long."]
    fast: Annotated[Delay, require_law]
    slow: Annotated[Delay, require_law]

    def check(self) -> None:
        """Refuse periods that all have length 0."""
        if self.fast.mean + self.slow.mean == 0:
            raise ValueError(
                f"`fast` and `slow` must not both be 0; got {brief(self.fast)} and {self.slow!r}. Give lengths in "
                "seconds."
            )

    @property
    def mean(self) -> float:
        """(fast.mean + slow.mean / factor) / (fast.mean + slow.mean), by renewal reward."""
        return (self.fast.mean + self.slow.mean / self.factor) / (self.fast.mean + self.slow.mean)

    def segments(self, generator: np.random.Generator, /) -> Iterator[Segment]:
        """Yield pairs (end, speed), drawn from the generator."""
        now = 0.0
        while True:
            lengths = np.stack([law.sample(generator, _BLOCK) for law in (self.fast, self.slow)], axis=1)
            for length, speed in zip(lengths.ravel().tolist(), itertools.cycle((1.0, 1 / self.factor))):
                now += require_not_negative("length", length, remedy=f"Correct {self!r}.")
                yield now, speed


@dataclass(frozen=True)
class VariableSpeed(Checked):
    """A compute law in which a job with work W from `work` ends when the integral of the speed reaches W.

    A job's duration depends on when it starts, so this is not a `Delay`, because it has no distribution function.
    The simulator draws the work from `work`, and the worker's own timer gives its duration.

    Args:
        work: Law of the work of a job, in seconds at speed 1.
        speed: The worker's speed over time: a `Profile`, `SlowPeriods`, or any `Speed`.

    Example:
        >>> from asyncsim.delays import Constant, Exponential
        >>> law = VariableSpeed(Constant(1.0), SlowPeriods(4.0, fast=Exponential(3.0), slow=Exponential(1.0)))
        >>> round(law.mean, 6)
        1.230769
    """

    work: Annotated[Delay, require_law]
    speed: Annotated[Speed, _speed]
    in_seconds: ClassVar[tuple[str, ...]] = ("work",)

    @property
    def mean(self) -> float:
        """Long-run mean duration of a job of a worker that is always busy, work.mean / speed.mean."""
        return self.work.mean / self.speed.mean

    def timer(self, generator: np.random.Generator, /) -> Timer:
        """Return the timer of one worker. Give each worker a generator of its own."""
        return Timer(self.speed.segments(generator))

    def sum_of(self, count: int) -> "VariableSpeed":
        """Return the law of jobs with the work of `count` jobs."""
        return replace(self, work=sum_of(self.work, count))
