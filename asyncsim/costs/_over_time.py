"""Bytes, energy and money spent by certain times, as an axis for curves."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim._checks import require_integer
from asyncsim.costs._budget import down_spells
from asyncsim.costs._power import Power
from asyncsim.costs._price import Price
from asyncsim.costs._traffic import messages_by, shows_pulls
from asyncsim.trace import Trace
from asyncsim.trace._spans import Spans, jobs
from asyncsim.trace._tables import end_of_trace

FloatArray = NDArray[np.float64]


def cost_over_time(
    trace: Trace,
    times: ArrayLike | None = None,
    *,
    message_bytes: int,
    parameter_bytes: int,
    power: Power | None = None,
    price: Price | None = None,
    pulls: bool | None = None,
) -> dict[str, np.ndarray]:
    """Bytes, energy and money spent by certain times: an axis against which a loss can be drawn.

    Money is not rounded up to a billing unit here, so that at the end it may be less than that of `cost`.

    Args:
        trace: The trace.
        times: (times,) in seconds; by default the time of each commit.
        message_bytes, parameter_bytes, power, price, pulls: As for `cost`.

    Returns:
        "seconds", "bytes", with a `Power` "joules", and with a `Price` "money" -> (times,) arrays.

    Raises:
        ValueError: If a size is out of range, or a time is not finite and positive or zero.

    Example:
        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1, 0, 1])
        >>> spent = cost_over_time(trace, message_bytes=1, parameter_bytes=10, power=asim.Power(busy=3, idle=1))
        >>> spent["bytes"].tolist(), spent["joules"].tolist()
        ([11, 22, 33, 44], [6.0, 12.0, 18.0, 24.0])
    """
    message = require_integer("message_bytes", message_bytes, least=0, remedy="Give the bytes of an update.")
    size = require_integer("parameter_bytes", parameter_bytes, least=0, remedy="Give the bytes of all parameters.")
    at = trace.commit_time if times is None else np.asarray(times, np.float64)
    if at.ndim != 1 or not (np.isfinite(at) & (at >= 0)).all():
        raise ValueError(f"`times` must be finite seconds, not negative; got {times!r:.60}. Use `np.linspace`.")
    end = end_of_trace(trace)
    at = np.minimum(at, end)
    up, down = messages_by(trace, at, shows_pulls(trace) if pulls is None else pulls)
    sent = message * up + size * down
    spent: dict[str, np.ndarray] = {"seconds": at, "bytes": sent}
    if power is not None:
        busy = _lasted(jobs(trace, end).stage(1), at)
        spent["joules"] = power.joules(workers=trace.workers, duration=at, busy_seconds=busy, bytes_sent=sent)
    if price is not None:
        paid = trace.workers * at - (_lasted(down_spells(trace, end), at) if price.spot else 0.0)
        spent["money"] = price.money_so_far(up_seconds=paid, duration=at, bytes_sent=sent)
    return spent


def _lasted(spans: Spans, at: FloatArray) -> FloatArray:
    """Seconds for which all intervals together had lasted by each time."""
    return _past(spans.start, at) - _past(spans.end, at)


def _past(moments: FloatArray, at: FloatArray) -> FloatArray:
    """Σ max(t - moment, 0) at each time t."""
    ordered = np.sort(moments)
    before = np.searchsorted(ordered, at, side="right")
    return before * at - np.append(0.0, np.cumsum(ordered))[before]
