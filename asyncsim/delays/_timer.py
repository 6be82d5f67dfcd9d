"""How long work takes at a speed that changes with time."""

import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator

from asyncsim._checks import require_not_negative, require_positive

# Until when, in seconds, and at what speed. Segments follow one another from time 0 on and never end.
Segment = tuple[float, float]


class Timer:
    """How long work takes one worker: work W started at s ends at e if the integral of the speed from s to e is W.

    It keeps only the segments from the last start on, so that memory does not grow with time.

    Args:
        segments: Pairs of the time until which a speed holds and that speed, from time 0 on; the times do not decrease
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
        """How long work takes.

        Args:
            start: When it starts, in seconds; not before the start of the work of an earlier call, but possibly
                before its end (a job that was stopped).
            work: Seconds that it would take at speed 1.

        Returns:
            Seconds from start to end; 0 for no work, even if the speed is 0.

        Raises:
            ValueError: If `start` is before that of an earlier call, or `work` is negative, NaN or infinite.
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
        """Hand over the segments that are kept and all that follow; this timer must not be used afterwards."""
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
    """A timer whose speed is always 1: durations are equal to the work, to the last bit.

    Example:
        >>> steady().duration(7.0, 0.1)
        0.1
    """
    return Timer([(math.inf, 1.0)])


def slowed(timer: Timer, windows: Iterable[tuple[float, float, float]]) -> Timer:
    """The same worker, slower in some windows of time: its speed is divided by `factor` from start to end.

    Args:
        timer: The worker's timer, which must not be used afterwards.
        windows: Triples (start, end, factor), times in seconds; 0 <= start < end, and the end may be infinity. The
            factor is positive; infinity is a pause, which must end. Where windows overlap, factors multiply.

    Returns:
        A timer.

    Raises:
        ValueError: If a number of a window is out of range.

    Example:
        >>> timer = slowed(steady(), [(1.0, 5.0, 2.0)])
        >>> timer.duration(0.0, 1.0), timer.duration(0.0, 2.0), timer.duration(0.0, 3.5)
        (1.0, 3.0, 5.5)
    """
    segments = timer.segments()
    for window in windows:
        segments = _divided(segments, *_checked(*window))
    return Timer(segments)


def _divided(segments: Iterator[Segment], start: float, end: float, factor: float) -> Iterator[Segment]:
    """The segments, cut at start and end, and slower between them."""
    begin = 0.0
    for until, speed in segments:
        cuts = (cut for cut in (start, end, until) if begin < cut <= until)
        for cut in cuts:
            yield cut, speed / factor if start < cut <= end else speed
        begin = until


def _checked(start: float, end: float, factor: float) -> tuple[float, float, float]:
    start = require_not_negative("start", start, remedy="Give the beginning of the window in seconds.")
    if not end > start:
        raise ValueError(f"`end` must be after `start`, {start}; got {end}. Give the end of the window in seconds.")
    if not (factor == math.inf and end < math.inf):
        factor = require_positive("factor", factor, remedy="2 makes jobs twice as long; infinity is a pause.")
    return start, float(end), factor
