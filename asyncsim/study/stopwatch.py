"""Wall time of a replay, with the time that JAX takes to compile counted separately."""

import time
from types import TracebackType

import jax.monitoring

COMPILING = "/jax/core/compile/"  # tracing, lowering and compiling report under this name, each when it ends


class Stopwatch:
    """Measures a block of code.

    Attributes:
        seconds: Wall time spent in the block so far.
        compiling: The part of it in which JAX traced or compiled.

    Example:
        >>> import jax
        >>> with Stopwatch() as watch:
        ...     _ = jax.jit(lambda x: x + 1.0)(1.0)
        >>> 0 < watch.compiling <= watch.seconds
        True
    """

    def __enter__(self) -> "Stopwatch":
        self._start = time.perf_counter()
        self._end: float | None = None
        self._spans: list[tuple[float, float]] = []
        jax.monitoring.register_event_duration_secs_listener(self._listen)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end = time.perf_counter()
        jax.monitoring.unregister_event_duration_listener(self._listen)

    @property
    def seconds(self) -> float:
        """Wall time since the block began, up to its end."""
        return (self._end or time.perf_counter()) - self._start

    @property
    def compiling(self) -> float:
        """Length of the union of all reported spans: one function may be traced while another is."""
        total, last = 0.0, self._start
        for start, end in sorted(self._spans):
            total += max(0.0, end - max(start, last))
            last = max(last, end)
        return total

    def _listen(self, event: str, duration_secs: float, **kwargs: str | int) -> None:
        del kwargs  # Which function it was does not matter.
        if event.startswith(COMPILING):
            now = time.perf_counter()
            self._spans.append((now - duration_secs, now))
