"""The cost of a trace, of a rollout ledger or of a pipeline's timetable, as a whole and up to certain times."""

from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import brief, require_count, require_integer, require_not_negative
from asyncsim.cluster._pipeline import Timetable
from asyncsim.cluster.rollouts._ledger import Ledger
from asyncsim.components._checked import checked
from asyncsim.costs._result import PARTS, Cost, Power, Price
from asyncsim.costs._usage import bytes_by, down_spells, far_messages, time_budget, trains_together
from asyncsim.delays import FloatArray
from asyncsim.trace import Trace
from asyncsim.trace._columns import end_of_trace
from asyncsim.trace._spans import Spans, find_jobs, union
from asyncsim.trace._statistics import hidden_stages

_Message = Annotated[int, require_integer, "Give the bytes of an update."]
_Parameters = Annotated[int, require_integer, "Give those of all parameters."]
_Collective = Literal["none", "ring"]


@checked
def cost(
    trace: Trace | Ledger | Timetable,
    *,
    message_bytes: _Message,
    parameter_bytes: _Parameters,
    power: Power | None = None,
    price: Price | None = None,
    seconds: Annotated[float, require_not_negative, "Give seconds from the start of the run."] | None = None,
    pulls: bool | None = None,
    collective: _Collective = "none",
    machines: Annotated[int, require_count, "Give the number of machines that are paid."] | None = None,
) -> Cost:
    """Count the bytes, idle time, energy and money of a run, from its trace alone.

    *Time.* Each worker's time is split into waiting, download, compute, upload, queue, service and down. The sum is n·T
    exactly, up to rounding. A part that a recorded log does not show is within another one: see
    `Cost.contains`. All jobs count, also those that never committed.

    *Bytes.* Up: an update for each commit, each message that was dropped on arrival and each that was lost on its way.
    Down: the parameters for each read but the first of a worker (at the beginning everyone has them) and those where
    the worker resumes from its own value, and once more for each update sent if workers pull in a request of its own.
    In a ring of n workers a round takes 2(n - 1) updates in all, which count as up, and nothing down. Workers on a
    graph (`Gossip`) send one another their variables, of `parameter_bytes`: two for each pair that averages, one for a
    push, and one in each direction of an edge in each round. They count as up, too, when they arrive.

    *Energy and money.* See `Power` and `Price`.

    The workers of a trace of a `Pipeline` or of `Rollouts` are places for micro-batches or groups, not machines. The
    log of a real system (`Trace.from_rollouts`) therefore has a price only with the number of its `machines`, and no
    energy, because it does not show when they compute. Of a simulation, give the timetable or the ledger instead, whose
    workers are the stages or the slots:

    - `Pipeline.timetable`: a stage computes or waits. Activations go up and gradients go down, both of `message_bytes`,
      between neighbouring stages, but `parameter_bytes` is not used.
    - `Rollouts.ledger`: a slot generates ("compute"), pauses for new weights ("download") or waits, until the last
      step. `message_bytes` is the size of a sample, sent when its group is complete. `parameter_bytes` is the size of
      one update to all engines together. The trainer is the server of `Power` and `Price`. One step then costs
      (n_T·p_T + n_R·p_R)·period, with `server_per_hour` n_T·p_T and `per_hour` n_R·p_R over the number of slots.

    Args:
        trace: The trace, or a rollout ledger, or a pipeline's timetable.
        message_bytes: Size of an update, an integer (see `sizes`).
        parameter_bytes: Size of the parameters, an integer.
        power: The power of the machines, without which `joules` is None.
        price: The prices, without which `money` is None.
        seconds: When to stop counting, by default at the end of the trace, its last finite time.
        pulls: Whether workers pull before they commit, in a request of its own, by default whether the trace shows it,
            which it does unless no commit of another worker ever came between the pull and the commit.
        collective: "ring" if the workers exchanged their updates by a ring all-reduce (see `asyncsim.Network`).
        machines: Number of machines that are paid `per_hour`, by default the workers. It must be given with a price for
            a trace whose groups are trained together, as rollouts are.

    Returns:
        See `Cost`.

    Raises:
        ValueError: If a size or `seconds` is out of range, or `seconds`, `pulls` or `collective` is given for anything
            but a trace, or a trace of rollouts has a price without `machines`, or energy.

    Example:
        >>> import asyncsim as asim
        >>> network = asim.Network(latency=asim.delays.Constant(0.125))
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0), network=network)
        >>> power, price = asim.Power(busy=300, idle=60), asim.Price(per_hour=2.0)
        >>> spent = asim.cost(
        ...     asim.simulate(cluster, commits=20), message_bytes=10, parameter_bytes=1000, power=power, price=price
        ... )
        >>> spent
        Cost(2 workers for 12.38 s; 80.8% computing; 200 bytes up, 20,000 down; 6285 J; money 0.01375)
        >>> {name: round(float(part.sum()), 9) for name, part in spent.seconds.items() if part.any()}
        {'download': 2.25, 'compute': 20.0, 'upload': 2.5}
    """
    sizes = {"message_bytes": message_bytes, "parameter_bytes": parameter_bytes}
    _require_machines(trace, machines, power, price)
    if isinstance(trace, Trace):
        spent = _of_trace(trace, seconds, pulls, collective, **sizes)
    else:
        for name, value in (("seconds", seconds), ("pulls", pulls), ("collective", collective)):
            if value not in (None, "none"):
                kind = type(trace).__name__
                raise ValueError(f"`{name}` must be left out for a {kind}; got {brief(value)}. Give a trace.")
        spent = _of_ledger(trace, **sizes) if isinstance(trace, Ledger) else _of_timetable(trace, message_bytes)
    # Power and price are applied last, to numbers that every kind of run has.
    of_run = {"duration": spent.duration, "bytes_sent": spent.bytes_sent}
    joules = money = None
    if power is not None:
        busy = float(spent.seconds["compute"].sum())
        joules = float(power.joules(workers=spent.workers, busy_seconds=busy, **of_run))
    if price is not None:
        down = spent.seconds["down"] if machines is None else np.zeros(machines)
        money = price.money(down=down, **of_run)
    return replace(spent, joules=joules, money=money)


def _require_machines(trace: Any, machines: int | None, power: Power | None, price: Price | None) -> None:
    """Refuse a price for places of groups, which are no machines, and energy where the busy machines are not known."""
    places = isinstance(trace, Trace) and trains_together(trace)
    if power is not None and (places or machines is not None):
        raise ValueError(
            "`power` must be left out for a trace of rollouts or with `machines`, because the time for which machines "
            f"compute is not known; got {brief(power)}. Give the ledger of a simulation."
        )
    if places and price is not None and machines is None:
        raise ValueError(
            f"`machines` must be given with a price for a trace of rollouts, whose {trace.workers} workers are places "
            "of groups; got None. Give the number of machines, or the ledger of a simulation."
        )


def _of_trace(
    trace: Trace, seconds: float | None, pulls: bool | None, collective: str, message_bytes: int, parameter_bytes: int
) -> Cost:
    end = end_of_trace(trace)
    if seconds is not None:
        end = min(end, seconds)
    up, down = bytes_by(trace, end, message_bytes, parameter_bytes, pulls, collective)
    return Cost(
        workers=trace.computing,
        duration=end,
        commits=int(np.count_nonzero(trace.commit_time <= end)),
        seconds={name: part[: trace.computing] for name, part in time_budget(trace, end).items()},
        contains=hidden_stages(trace),
        bytes_up=up,
        bytes_down=down,
        names=trace.names[: trace.computing],
        bytes_far=None if trace.pushes_from is None else far_messages(trace, end)[2] * parameter_bytes,
    )


def _of_ledger(ledger: Ledger, message_bytes: int, parameter_bytes: int) -> Cost:
    update, stopped = ledger.steps.update, ledger.steps.stopped
    end = float(update[-1]) if len(update) else 0.0
    generated = np.bincount(ledger.slot, ledger.seconds_between(0.0, end), ledger.slots)
    # All slots stop together, until the new weights are there.
    paused = np.full(ledger.slots, float((update - stopped).sum()))
    return Cost(
        workers=ledger.slots,
        duration=end,
        # The samples of a group are trained together.
        commits=int(np.count_nonzero(ledger.trained_version >= 0)) // ledger.group_size,
        seconds=_parts(end, compute=generated, download=paused),
        contains=(),
        bytes_up=int(np.count_nonzero(ledger.ready_version >= 0)) * message_bytes,
        bytes_down=int(np.count_nonzero(np.isfinite(ledger.steps.weights))) * parameter_bytes,
    )


def _of_timetable(table: Timetable, message_bytes: int) -> Cost:
    micro_batches, stages = table.forward_start.shape
    stage = np.tile(np.arange(stages, dtype=np.int32), 2 * micro_batches)
    starts = np.concatenate([table.forward_start, table.backward_start]).ravel()
    ends = np.concatenate([table.forward_end, table.backward_end]).ravel()
    busy = union(Spans(stage, starts, ends), np.arange(stages, dtype=np.int32), 0.0, table.seconds)
    # Each micro-batch passes each boundary of two stages once in each direction.
    sent = micro_batches * (stages - 1) * message_bytes
    return Cost(
        workers=stages,
        duration=table.seconds,
        commits=micro_batches,
        seconds=_parts(table.seconds, compute=np.bincount(busy.worker, busy.end - busy.start, stages)),
        contains=(),
        bytes_up=sent,
        bytes_down=sent,
    )


def _parts(end: float, **parts: np.ndarray) -> dict[str, np.ndarray]:
    """Return all parts of the time: those that are not given are zero, and the rest is waiting."""
    waiting = np.maximum(end - np.sum([*parts.values()], axis=0), 0.0)
    seconds = {**{name: np.zeros(len(waiting)) for name in PARTS}, **parts, "waiting": waiting}
    return {name: seconds[name] for name in PARTS}


@checked
def cost_over_time(
    trace: Trace,
    times: ArrayLike | None = None,
    *,
    message_bytes: _Message,
    parameter_bytes: _Parameters,
    power: Power | None = None,
    price: Price | None = None,
    pulls: bool | None = None,
    collective: _Collective = "none",
) -> dict[str, np.ndarray]:
    """Count the bytes, energy and money spent by certain times: an axis against which a loss can be drawn.

    Money is not rounded up to a billing unit here, so that at the end it may be less than that of `cost`.

    Args:
        trace: The trace.
        times: (times,) in seconds, by default the time of each commit.
        message_bytes, parameter_bytes, power, price, pulls, collective: As for `cost`.

    Returns:
        "seconds", "bytes", with a `Power` "joules", and with a `Price` "money" -> (times,) arrays.

    Raises:
        ValueError: If a size is out of range, a time is not finite and positive or zero, or a trace of rollouts has a
            price or energy.

    Example:
        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1, 0, 1])
        >>> spent = cost_over_time(trace, message_bytes=1, parameter_bytes=10, power=asim.Power(busy=3, idle=1))
        >>> spent["bytes"].tolist(), spent["joules"].tolist()
        ([11, 22, 33, 44], [6.0, 12.0, 18.0, 24.0])
    """
    at = trace.commit_time if times is None else np.asarray(times, np.float64)
    if at.ndim != 1 or not (np.isfinite(at) & (at >= 0)).all():
        raise ValueError(f"`times` must be finite seconds, not negative; got {brief(times)}. Use `np.linspace`.")
    _require_machines(trace, None, power, price)
    end = end_of_trace(trace)
    # After the end of the trace nothing more is spent.
    at = np.minimum(at, end)
    up, down = bytes_by(trace, at, message_bytes, parameter_bytes, pulls, collective)
    sent = up + down
    spent: dict[str, np.ndarray] = {"seconds": at, "bytes": sent}
    if power is not None:
        # Of the stages of a job, number 1 is its computation.
        computing = find_jobs(trace, end).stage(1)
        busy = _sum_lengths(computing.rows(computing.worker < trace.computing), at)
        spent["joules"] = power.joules(workers=trace.computing, duration=at, busy_seconds=busy, bytes_sent=sent)
    if price is not None:
        # A spot machine costs nothing while it is down.
        paid = trace.computing * at - (_sum_lengths(down_spells(trace, end), at) if price.spot else 0.0)
        spent["money"] = price.money_so_far(up_seconds=paid, duration=at, bytes_sent=sent)
    return spent


def _sum_lengths(spans: Spans, at: FloatArray) -> FloatArray:
    """Return the seconds for which all intervals together had lasted by each time."""
    return _sum_since(spans.start, at) - _sum_since(spans.end, at)


def _sum_since(moments: FloatArray, at: FloatArray) -> FloatArray:
    """Return Σ max(t - moment, 0) at each time t."""
    ordered = np.sort(moments)
    # Of k moments before t, the sum is k·t less the sum of the moments.
    before = np.searchsorted(ordered, at, side="right")
    return before * at - np.append(0.0, np.cumsum(ordered))[before]
