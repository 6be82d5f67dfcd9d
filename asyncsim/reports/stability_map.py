"""Which step sizes stay bounded, by replay of a quadratic with curvature 1, so that the step size is κ itself."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim import checks, rules
from asyncsim.cluster import Cluster, simulate
from asyncsim.delays import Constant, Delay
from asyncsim.engine import replay
from asyncsim.reports.warm_up import settling_commits
from asyncsim.rules import Rule
from asyncsim.rules.downpour import raw_update
from asyncsim.rules.momentum import at_rest
from asyncsim.theory.arguments import momentum_and_place
from asyncsim.trace import Trace
from asyncsim.workloads import quadratic

FloatArray = NDArray[np.float64]
MakeRule = Callable[[Any], Rule]  # step sizes, one a replayed seed -> rule

LOST = 1e-12  # of the first loss: a run that fell so low is bounded, whatever rounding makes of it there
MOST_LEFT_OUT = 500  # commits of a worker at the start: enough for a coefficient of variation down to .05
GRID = 32  # values of κ in one pass of a search


def momentum_rule(momentum: float = 0.0, where: str = "none") -> MakeRule:
    """The rule of which `theory.stability_limit` speaks, as a function of the step size.

    Args:
        momentum: μ in [0, 1).
        where: Who keeps it: "none", "server" (heavy ball on what arrives) or "worker" (each its own moment).

    Raises:
        ValueError: If the momentum is out of range, or there is no place for it.

    Example:
        >>> momentum_rule(0.9, "worker")(0.1).describe()
        {'name': 'momentum_sgd', 'learning_rate': 0.1, 'momentum': 0.9}
    """
    momentum, where = momentum_and_place(momentum, where)
    if where == "none":
        return rules.downpour
    return partial(rules.momentum_sgd if where == "worker" else _heavy_ball, momentum=momentum)


def stability_map(
    workers: Sequence[int],
    kappas: ArrayLike,
    compute: Delay,
    rule: MakeRule = rules.downpour,
    *,
    seeds: int = 32,
    cycles: int = 100,
) -> FloatArray:
    """Share of runs that stay bounded, for every number of workers and every κ, by replay.

    Each run is a quadratic without noise from x = 1 on a schedule of its own; all κ share the schedules. A run grows
    if its largest |x| in the last quarter of its commits exceeds the one in the second quarter, or is not finite:
    the sign of its mean growth, which neither the size of x nor the first overshoot changes. So the share falls from
    1 to 0 about the *almost-sure* limit. Between the mean-square limit and that, a single run mostly looks stable and
    E x² grows all the same, by rare and huge excursions: a map cannot show the mean-square limit of random schedules.

    Args:
        workers: Numbers of workers.
        kappas: (k,) values of κ.
        compute: The law of every worker; equal constants have but one schedule.
        rule: Step sizes -> rule.
        seeds: Schedules for each number of workers.
        cycles: Commits of a worker in a run, on average.

    Returns:
        (workers, k) shares in [0, 1].

    Raises:
        ValueError: If an argument is out of range.

    Example:
        One worker is stable below κ = 2:

        >>> from asyncsim.delays import Exponential
        >>> stability_map([1], [0.1, 1.9, 2.1], Exponential(1.0), seeds=2).tolist()
        [[1.0, 1.0, 0.0]]
    """
    most = max(checks.require_integer("workers", n, least=1, remedy="Use one worker or more.") for n in workers)
    options = {"seeds": seeds, "cycles": cycles, "most": most}
    return np.array([1 - _grown(n, kappas, compute, rule, **options).mean(axis=0) for n in workers])


class SimulatedLimit(NamedTuple):
    """The κ at which runs begin to grow: mean over schedules and its standard error, which counts the grid in."""

    value: float
    error: float


def simulated_limit(
    workers: int,
    compute: Delay,
    rule: MakeRule = rules.downpour,
    *,
    low: float,
    high: float,
    seeds: int = 32,
    cycles: int = 200,
) -> SimulatedLimit:
    """The κ above which runs grow: the almost-sure limit, by replay; approximate.

    A geometric grid from `low` to `high`, then a finer one from the first κ at which a run grows to the first at which
    all do. The limit of a schedule is the share of the fine grid on which it stays bounded, so that growth too early
    and too late cancel: finite runs blur the limit of each schedule, and hardly the mean.

    Args:
        workers, compute, rule, seeds, cycles: As in `stability_map`.
        low, high: Where to look: every run must be bounded at `low`, and all must grow somewhere up to `high`.

    Returns:
        A `SimulatedLimit`.

    Raises:
        ValueError: If `low` and `high` do not enclose the limit of every schedule.

    Example:
        >>> limit = simulated_limit(3, Constant(1.0), low=0.1, high=2.0)  # 2 sin(π/10) = 0.618
        >>> abs(limit.value - 0.618) < 2 * limit.error < 0.02
        True
    """
    options = {"seeds": seeds, "cycles": cycles}
    coarse = np.geomspace(low, high, GRID)
    grown = _grown(workers, coarse, compute, rule, **options)
    if grown[:, 0].any() or not grown.all(axis=0).any():
        what = "a run grows at `low`" if grown[:, 0].any() else "a run stays bounded up to `high`"
        raise ValueError(f"`low`, `high` must enclose the limit; {what}, got {low:.4g} and {high:.4g}.")
    first, last = grown.any(axis=0).argmax(), grown.all(axis=0).argmax()
    fine = np.geomspace(coarse[first - 1], coarse[last], GRID)
    bounded = ~_grown(workers, fine, compute, rule, **options)
    step = fine[1] / fine[0]
    limits = fine[0] * step ** (bounded.sum(axis=1) - 0.5)
    scatter = limits.std(ddof=1) / np.sqrt(len(limits)) if len(limits) > 1 else 0.0
    return SimulatedLimit(float(limits.mean()), float(np.hypot(scatter, (step - 1) * limits.mean() / np.sqrt(12))))


def _grown(
    workers: int,
    kappas: ArrayLike,
    compute: Delay,
    rule: MakeRule,
    *,
    seeds: int,
    cycles: int,
    most: int | None = None,
) -> NDArray[np.bool_]:
    """(schedules, κ) whether the run grew."""
    seeds = checks.require_integer("seeds", seeds, least=1, remedy="Simulate one schedule or more.")
    cycles = checks.require_integer("cycles", cycles, least=8, remedy="Quarters of fewer say nothing.")
    kappas, commits = checked_kappas(kappas), cycles * workers
    schedules = range(1 if isinstance(compute, Constant) else seeds)
    traces = (schedule(workers, compute, commits, seed, most) for seed in schedules)
    return ~np.array([stays_bounded(trace, kappas, rule) for trace in traces])


def stays_bounded(trace: Trace, kappas: FloatArray, rule: MakeRule = rules.downpour) -> NDArray[np.bool_]:
    """For each κ whether the largest |x| in the last quarter of the trace is at most that in the second."""
    loss = replay(trace, rule(kappas), quadratic([1.0]), seed=[0] * len(kappas)).loss
    early, late = loss[:, len(trace) // 4 : len(trace) // 2].max(axis=1), loss[:, -(len(trace) // 4) :].max(axis=1)
    return np.isfinite(late) & (late <= np.maximum(early, LOST * loss[:, 0]))


def schedule(workers: int, compute: Delay, commits: int, seed: int, most: int | None) -> Trace:
    """Who commits when, once the common start is forgotten (after `MOST_LEFT_OUT` cycles at most).

    There is room for `most` workers, because every other number would be compiled anew.
    """
    cluster = Cluster(workers, compute)
    left_out = min(settling_commits(cluster), MOST_LEFT_OUT * workers)
    trace = simulate(cluster, commits=left_out + commits, seed=seed)
    return Trace.from_commits(trace.worker[left_out:], trace.commit_time[left_out:], workers=most or workers)


def checked_kappas(kappas: ArrayLike) -> FloatArray:
    """The values of κ as an array, or an error."""
    values = np.asarray(checks.finite("kappas", kappas), float)
    if values.ndim != 1 or not len(values) or (values <= 0).any():
        raise ValueError(f"`kappas` must be positive numbers in one row; got {kappas!r}. Give one or more.")
    return values


def _heavy_ball(learning_rate: Any, momentum: float) -> Rule:
    """Plain updates, and momentum at the server: v ← μv - ηg, θ ← θ + v."""
    hyper = {"learning_rate": checks.finite("learning_rate", learning_rate), "momentum": momentum}
    return Rule(hyper=hyper, name="heavy_ball", send=raw_update, start_server=at_rest, apply=_accelerate_server)


def _accelerate_server(hyper: Any, central: Any, server: Any, message: Any, view: Any) -> Any:
    del view  # A heavy ball does not look back.
    velocity = jax.tree.map(lambda v, u: hyper["momentum"] * v + u, server, message)
    return jax.tree.map(lambda theta, v: theta + v, central, velocity), velocity
