"""Pipelines of stages in closed form: staleness, and the bubble of synchronous ones."""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import one_of
from asyncsim._component import not_negative, positive, whole

SCHEDULES = ("pipedream", "concurrent", "1f1b", "gpipe")
TOLERANCE = 1e-9  # relative: a quotient that is a whole number up to rounding


def pipeline_staleness(
    stages: Annotated[int, whole(1, "Use one stage or more.")],
    schedule: str = "pipedream",
    *,
    forward: Annotated[float, positive("Give seconds of a forward pass.")] = 1.0,
    backward: Annotated[float, positive("Give seconds of a backward pass.")] = 1.0,
    transfer: Annotated[float, not_negative("Give seconds of a transfer, or 0.")] = 0.0,
) -> NDArray[np.int64]:
    """Staleness of each stage of a full pipeline, in updates of that stage, which are one per micro-batch.

    Stage s = 0, …, S - 1 begins micro-batch m's forward pass before the updates of the micro-batches that are still
    behind it: those that it has forwarded and not yet seen come back.

    "pipedream":      τ_s = S - 1 - s, for any law of the times: as many are always under way once it is full.
    "concurrent":     τ_s = ⌈((S - s)(f + b) + 2(S - 1 - s)c)/f⌉ - 1, for constant times f of a forward pass, b <= f
                      of a backward pass and c of a transfer. The numerator is the time from the start of a forward
                      pass at s to the end of its backward pass there. PipeMare's 2(S - 1 - s) + 1 if f = b, c = 0.
    "1f1b", "gpipe":  τ_s = 0: all updates of a mini-batch are made when it is through.

    Args:
        stages: Number of stages S, at least 1.
        schedule: One of the names above, as in `asyncsim.Pipeline`.
        forward, backward, transfer: f, b and c, in seconds (they matter for "concurrent" only).

    Returns:
        τ_0, …, τ_{S-1}, shape (stages,). While the pipeline fills up, staleness is smaller.

    Raises:
        ValueError: If an argument is out of range, or a backward pass takes longer than a forward pass with
            "concurrent": gradients then wait in queues, for which there is no closed form here.

    Example:
        >>> pipeline_staleness(4).tolist(), pipeline_staleness(4, "concurrent").tolist()
        ([3, 2, 1, 0], [7, 5, 3, 1])

    References:
        Narayanan et al. 2019, "PipeDream: Generalized Pipeline Parallelism for DNN Training" (n - s versions of stage
        s, from 1 on, in its equation of weight stashing).
        Yang et al. 2021, "PipeMare: Asynchronous Pipeline Parallel DNN Training", arXiv 1910.05124.
    """
    one_of("schedule", schedule, SCHEDULES)
    behind = np.arange(stages - 1, -1, -1)
    f, b, c = forward, backward, transfer
    if schedule == "pipedream":
        return behind
    if schedule != "concurrent":
        return np.zeros(stages, np.int64)
    if b > f:
        raise ValueError(
            f"`backward` must be at most `forward` with the schedule 'concurrent'; got {b:g} > {f:g}. Simulate it with "
            "`asyncsim.Pipeline`."
        )
    back = (behind + 1) * (f + b) + 2 * behind * c
    return np.ceil(back / f * (1 - TOLERANCE)).astype(np.int64) - 1


def pipeline_bubble(
    stages: Annotated[int, whole(1, "Use one stage or more.")],
    micro_batches: Annotated[int, whole(1, "Use one micro-batch or more.")],
) -> float:
    """Share of the time in which a stage of a synchronous pipeline computes nothing.

    (S - 1)/(M + S - 1), for passes that take the same time at every stage and transfers that take none: a mini-batch
    of M micro-batches is through after M + S - 1 times the duration of one at a stage, forwards and backwards, of which
    every stage works M. It holds for "1f1b" and "gpipe" alike. An asynchronous pipeline that is full has no bubble.

    Args:
        stages: Number of stages S, at least 1.
        micro_batches: Micro-batches in a mini-batch M, at least 1.

    Returns:
        The share b, from 0 to less than 1. The throughput is 1 - b times that of a full pipeline.

    Example:
        >>> pipeline_bubble(4, 12)
        0.2

    References:
        Huang et al. 2019, "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism".
    """
    return (stages - 1) / (micro_batches + stages - 1)
