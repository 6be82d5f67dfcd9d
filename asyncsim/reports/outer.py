"""The largest stable outer step around windows of local steps, predicted and simulated by replay.

A window of H local steps with η·h each covers c = 1 - (1 - η·h)^H of the distance from a quadratic's minimum, so that
stability depends on the product of the outer step size α and c alone.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from asyncsim import _checks as checks
from asyncsim import rules, theory
from asyncsim.cluster import Cluster
from asyncsim.cluster._simulation import require_workers
from asyncsim.delays import Delay
from asyncsim.reports import stability
from asyncsim.reports.stability import (
    MakeRule,
    Progress,
    count_schedules,
    simulated_limit,
    stability_map,
    watch_schedules,
)
from asyncsim.rules import Rule
from asyncsim.theory._parameters import fraction

__all__ = ["OUTER", "OuterQuestion", "WindowRange", "outer_map", "outer_report", "window_range"]

OUTER: dict[str, Callable[..., Rule]] = {  # kind of `theory.outer_limit` -> the rule of that step
    "nesterov": rules.SharedNesterov,
    "damped": rules.DampedNesterov,
    "heavy_ball": rules.HeavyBall,
}
SMALLEST, LARGEST = 1 / 8, 200  # factors of the limit of a round robin between which the limit of a law is looked for


class OuterQuestion(NamedTuple):
    """The cluster, the outer optimiser, the local steps, and the smallest and the largest curvature of a loss."""

    workers: int
    compute: Delay
    kind: str = "nesterov"
    momentum: float = 0.9
    learning_rate: float = 0.1  # η, of a local step
    window: int = 1  # H
    curvatures: Sequence[float] = (1.0,)


class WindowRange(NamedTuple):
    """The least and the largest c of windows over a range of curvatures, and the η·h that has the largest."""

    least: float
    largest: float
    step: float


def window_range(learning_rate: float, window: int, curvatures: Sequence[float]) -> WindowRange:
    """Return the range of c over all curvatures from the smallest to the largest, or refuse local steps that grow."""
    values = checks.require_array("curvatures", curvatures)
    if values.ndim != 1 or not values.size or (values <= 0).any():
        raise ValueError(
            f"`curvatures` must be positive, one or more; got {checks.brief(curvatures)}. Give the extreme ones."
        )
    learning_rate = checks.require_positive("learning_rate", learning_rate, remedy="Give that of a local step.")
    least, largest = learning_rate * values.min(), learning_rate * values.max()
    if largest >= 2:
        raise ValueError(
            f"`learning_rate` times the largest curvature must be less than 2; got {largest:g}. The local steps grow "
            "by themselves. Use smaller ones."
        )
    # c grows with η·h, but with an even window only up to η·h = 1, where every local step reaches the minimum.
    step = min(largest, max(least, 1.0)) if window % 2 == 0 else largest
    ends = [theory.window_curvature(product, window) for product in (least, largest)]
    return WindowRange(min(ends), theory.window_curvature(step, window), step)


def outer_report(question: OuterQuestion, progress: Progress | None = None) -> dict[str, Any]:
    """Predict and simulate the largest stable outer step on quadratics with these curvatures, as plain data.

    The limits of rounds, whose messages are fresh, and of a round robin, with its delay of n - 1, are exact. Above the
    simulated limit single runs grow (the almost-sure limit): it is that of the law of compute times, by replay of the
    rule around windows of local steps at the curvature with the largest c.
    """
    workers, compute, kind, momentum = question[:4]
    require_workers(Cluster(workers, compute))
    momentum = fraction("momentum", momentum)
    windows = window_range(question.learning_rate, question.window, question.curvatures)
    limits = {
        "fresh": theory.outer_limit(momentum, 0, kind),
        "in_turn": theory.outer_limit(momentum, workers - 1, kind),
    }
    seeds = stability.REPORT_SCHEDULES
    watch = watch_schedules(progress, "limit of the outer step", 2 * count_schedules(compute, seeds))

    def around_windows(products: Any) -> Rule:
        outer = OUTER[kind](np.asarray(products) / windows.largest, momentum=momentum)
        return rules.local(outer, window=question.window, learning_rate=windows.step)

    # The search is around the limit of a round robin, which has the same mean staleness.
    low, high = SMALLEST * limits["in_turn"], LARGEST * limits["in_turn"]
    simulated = simulated_limit(workers, compute, around_windows, low=low, high=high, seeds=seeds, watch=watch)
    return {
        **question._asdict(),
        "compute": repr(compute),
        "curvatures": [*map(float, question.curvatures)],
        "window_curvature": {"least": windows.least, "largest": windows.largest},
        "predicted": {"limit": limits, "outer_step": {name: limit / windows.largest for name, limit in limits.items()}},
        "simulated": {
            "limit": simulated.value,
            "limit_error": simulated.error,
            "outer_step": simulated.value / windows.largest,
            "outer_step_error": simulated.error / windows.largest,
        },
    }


def outer_map(question: OuterQuestion, progress: Progress | None = None) -> tuple[Any, ...]:
    """Map the share of bounded runs over workers, up to four times as many, and α·c, with the limits of a round robin.

    Each window is one step with the curvature c here, which is the same on a quadratic and takes less time.
    """
    workers = np.geomspace(1, 4 * question.workers, stability.MAP_COLUMNS).round().astype(int)
    workers = np.unique(workers).tolist()
    limits = [theory.outer_limit(question.momentum, n - 1, question.kind) for n in workers]
    products = np.geomspace(min(limits) / 4, 2 * max(limits), stability.MAP_ROWS)
    rule: MakeRule = partial(OUTER[question.kind], momentum=question.momentum)
    schedules = len(workers) * count_schedules(question.compute, stability.MAP_SCHEDULES)
    watch = watch_schedules(progress, "map of workers and α·c", schedules)
    share = stability_map(workers, products, question.compute, rule, seeds=stability.MAP_SCHEDULES, watch=watch)
    return workers, products, share, [{"constant_delay_limit": limit} for limit in limits]
