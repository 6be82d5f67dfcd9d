"""The step-size limit and the noise floor of one cluster, predicted and simulated by replay.

The workload is a quadratic with curvature 1, so that the step size is η·h itself.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim import _checks as checks
from asyncsim import rules, theory
from asyncsim.cluster import Cluster, simulate
from asyncsim.cluster._simulation import require_workers
from asyncsim.delays import Constant, Delay, Exponential, FloatArray
from asyncsim.engine import replay
from asyncsim.files._json import to_plain
from asyncsim.reports.replicates import Limit, mean_and_error, mean_on_grid
from asyncsim.reports.staleness import warm_up_commits
from asyncsim.rules import Rule
from asyncsim.theory._parameters import require_momentum
from asyncsim.theory._phases import count_phases
from asyncsim.trace import Trace
from asyncsim.workloads import Quadratic

__all__ = [
    "COPIES",
    "Floor",
    "MakeRule",
    "Progress",
    "Question",
    "limits_map",
    "momentum_rule",
    "predict_limits",
    "schedule",
    "simulated_floor",
    "simulated_limit",
    "stability_map",
    "stability_report",
    "stays_bounded",
]

MakeRule = Callable[[Any], Rule]  # step sizes, one per replayed seed -> rule
Progress = Callable[[str, float], None]  # stage, and the share of it that is done
Watch = Callable[[Iterable[int]], Iterable[int]]  # the seeds of schedules -> the same, one after another

UNKNOWN = (
    "no limit in mean square, floor or energy is known for this law. They are known for exponential times and those "
    "made of exponential phases: gamma with whole 1/cv², Erlang, hyper-exponential and mixtures."
)
UNSOLVED = "the equations for {:,} workers with so many exponential phases are too many to be solved."
NEAR_LIMIT = 0.8, 1.2  # factors of a limit at which a report looks at single runs
FURTHEST_LIMIT = 400  # in units of half the limit of a round robin: no law's limit is further away
REPORT_SCHEDULES, FLOOR_SCHEDULES = 32, 8
MAP_COLUMNS, MAP_ROWS = 12, 28  # numbers of workers and values of η·h
MAP_SCHEDULES = 12
NEGLIGIBLE = 1e-12  # share of the first loss below which a run is bounded, whatever rounding makes of it there
MOST_WARM_UP_CYCLES = 500  # jobs of a worker, enough for a coefficient of variation down to 0.05
SEARCH_GRID = 32  # values of η·h in one pass of a search
COPIES = 32  # coordinates of equal curvature: independent noise on one schedule
WARM_UP_SHARE = 0.2  # share of the commits of a noisy run


class Question(NamedTuple):
    """The cluster and the rule that a report is about, as arguments of `theory.stability_limit`."""

    workers: int
    compute: Delay
    momentum: float = 0.0
    where: str = "none"


def watch_schedules(progress: Progress | None, stage: str, total: int) -> Watch:
    """Return a function that passes on seeds of schedules, and reports the share of `total` schedules that is done."""
    done = count(1)

    def watch(seeds: Iterable[int]) -> Iterator[int]:
        for seed in seeds:
            yield seed
            if progress is not None:
                progress(stage, min(next(done) / total, 1.0))

    return watch


def stability_report(
    question: Question, kappas: Sequence[float] = (), progress: Progress | None = None
) -> dict[str, Any]:
    """Predict and simulate limits of η·h and noise floors of asynchronous SGD on a quadratic, as plain data.

    E x² grows above `stability_limit`, E x above `mean_limit`, and single runs above `almost_sure_limit`. The floors
    are at half the limit (the almost-sure one if theory has none) and at `kappas`: Var x and the kinetic energy, per
    unit of the variance of a raw update's noise. Numbers that do not exist are None, and `note` says why theory has
    none.
    """
    momentum, where = require_momentum(question.momentum, question.where)
    require_workers(Cluster(question.workers, question.compute))
    question, rule = question._replace(momentum=momentum, where=where), momentum_rule(momentum, where)
    predicted, note = predict_limits(question)
    simulated = _simulate_limits(question, rule, predicted, progress)
    limit = predicted["stability_limit"] or simulated["almost_sure_limit"]
    kappas = [limit / 2, *kappas]
    floors: dict[str, Any] = {"kappa": kappas}
    for name, predict in (("noise_floor", theory.noise_floor), ("kinetic_energy", theory.kinetic_energy)):
        floors[name] = to_plain([math.nan if note else predict(kappa, **question._asdict()) for kappa in kappas])
    # Beyond the limit a run has no floor: the lane replays a stable η·h instead, and its result is discarded.
    stable = np.array(kappas) < simulated["almost_sure_limit"]
    replayed = np.where(stable, kappas, simulated["almost_sure_limit"] / 2)
    watch = watch_schedules(progress, "floors of noise", FLOOR_SCHEDULES)
    floor = simulated_floor(question.workers, replayed, question.compute, rule, seeds=FLOOR_SCHEDULES, watch=watch)
    simulated["kappa"] = [*kappas]
    for error in ("", "_error"):
        for name, field in (("noise_floor", "variance"), ("kinetic_energy", "energy")):
            simulated[name + error] = to_plain(np.where(stable, getattr(floor, field + error), np.nan))
    arguments = {**question._asdict(), "compute": repr(question.compute)}
    return {**arguments, "predicted": {**predicted, **floors}, "simulated": simulated, "note": note}


def predict_limits(question: Question) -> tuple[dict[str, float | None], str | None]:
    """Return the limits from theory, and the reason in words if it has no mean-square limit."""
    n, compute, momentum, where = question
    limit = mean = note = None
    try:
        limit = theory.stability_limit(**question._asdict())
    except ValueError:
        # Theory refuses a law for either of two reasons.
        note = UNSOLVED.format(n) if _has_phases(compute) else UNKNOWN
    if isinstance(compute, Exponential) and where != "server":
        mean = theory.mean_stability_limit(workers=n, worker_momentum=momentum)
    constant = theory.constant_delay_limit(n - 1, momentum, where)
    return {"stability_limit": limit, "mean_limit": mean, "constant_delay_limit": constant}, note


def _has_phases(compute: Delay) -> bool:
    """Return whether a law is made of exponential phases."""
    try:
        return count_phases(compute) > 0
    except ValueError:
        return False


def limits_map(question: Question, progress: Progress | None = None) -> tuple[Any, ...]:
    """Map the share of bounded runs over workers, up to four times as many, and η·h, with the predicted limits."""
    # Few columns suffice on a logarithmic axis, and one number of workers may come twice.
    workers = np.unique(np.geomspace(1, 4 * question.workers, MAP_COLUMNS).round().astype(int)).tolist()
    limits = [predict_limits(question._replace(workers=n))[0] for n in workers]
    lowest = min(row["constant_delay_limit"] or 0.0 for row in limits)
    kappas = np.geomspace(lowest / 2, 4 * (1 + question.momentum), MAP_ROWS)
    rule = momentum_rule(question.momentum, question.where)
    watch = watch_schedules(
        progress, "map of workers and η·h", len(workers) * count_schedules(question.compute, MAP_SCHEDULES)
    )
    share = stability_map(workers, kappas, question.compute, rule, seeds=MAP_SCHEDULES, watch=watch)
    return workers, kappas, share, limits


def momentum_rule(momentum: float = 0.0, where: str = "none") -> MakeRule:
    """Return the rule that `theory.stability_limit` describes, as a function of the step size."""
    momentum, where = require_momentum(momentum, where)
    if where == "none":
        return rules.Downpour
    return partial(rules.MomentumSGD if where == "worker" else rules.HeavyBall, momentum=momentum)


def stability_map(
    workers: Sequence[int],
    kappas: ArrayLike,
    compute: Delay,
    rule: MakeRule = rules.Downpour,
    *,
    seeds: int = 32,
    cycles: int = 100,
    watch: Watch = iter,
) -> FloatArray:
    """Return the share of runs that stay bounded for all numbers of workers and all η·h, shape (workers, k), by replay.

    Each run minimises a quadratic without noise from x = 1, and all η·h share the `seeds` schedules, in which a worker
    makes `cycles` commits on average. A run grows if its largest |x| in the last quarter of its commits exceeds the
    largest in the second quarter, or is not finite. So the share falls from 1 to 0 around the *almost-sure* limit.
    Between the mean-square limit and that one, most runs look stable while E x² grows by rare and huge excursions.
    """
    most = max(checks.require_count("workers", n, remedy="Use one worker or more.") for n in workers)
    options = {"seeds": seeds, "cycles": cycles, "most": most, "watch": watch}
    return np.array([1 - _grown(n, kappas, compute, rule, **options).mean(axis=0) for n in workers])


def simulated_limit(
    workers: int,
    compute: Delay,
    rule: MakeRule = rules.Downpour,
    *,
    low: float,
    high: float,
    seeds: int = 32,
    cycles: int = 200,
    watch: Watch = iter,
) -> Limit:
    """Search [low, high] for the η·h above which runs grow, the almost-sure limit, by replay, with its standard error.

    A geometric grid from `low` to `high`, then a finer one from the first η·h at which a run grows to the first at
    which all do. The limit of a schedule is the share of the fine grid on which it stays bounded, so that growth too
    early and too late cancel: finite runs blur the limit of each schedule, and hardly the mean.
    """
    options = {"seeds": seeds, "cycles": cycles, "watch": watch}
    coarse = np.geomspace(low, high, SEARCH_GRID)
    grown = _grown(workers, coarse, compute, rule, **options)
    if grown[:, 0].any() or not grown.all(axis=0).any():
        reason = "a run grows at `low`" if grown[:, 0].any() else "a run stays bounded up to `high`"
        raise ValueError(f"`low`, `high` must enclose the limit; {reason}, got {low:.4g} and {high:.4g}.")
    first, last = grown.any(axis=0).argmax(), grown.all(axis=0).argmax()
    fine = np.geomspace(coarse[first - 1], coarse[last], SEARCH_GRID)
    bounded = ~_grown(workers, fine, compute, rule, **options)
    step = fine[1] / fine[0]
    limits = fine[0] * step ** (bounded.sum(axis=1) - 0.5)
    return mean_on_grid(limits, step - 1)


def stays_bounded(trace: Trace, kappas: FloatArray, rule: MakeRule = rules.Downpour) -> NDArray[np.bool_]:
    """Return for each η·h whether the largest |x| in the trace's last quarter is at most that in its second quarter."""
    loss = replay(trace, rule(kappas), Quadratic([1.0]), seed=[0] * len(kappas)).loss
    early, late = loss[:, len(trace) // 4 : len(trace) // 2].max(axis=1), loss[:, -(len(trace) // 4) :].max(axis=1)
    return np.isfinite(late) & (late <= np.maximum(early, NEGLIGIBLE * loss[:, 0]))


def schedule(workers: int, compute: Delay, commits: int, seed: int, most: int | None) -> Trace:
    """Simulate who commits when, after the warm-up (of at most `MOST_WARM_UP_CYCLES` jobs per worker).

    The trace has room for `most` workers, so that one compiled program serves all numbers of workers.
    """
    cluster = Cluster(workers, compute)
    warm_up = min(warm_up_commits(cluster), MOST_WARM_UP_CYCLES * workers)
    trace = simulate(cluster, commits=warm_up + commits, seed=seed)
    return Trace.from_commits(trace.worker[warm_up:], trace.commit_time[warm_up:], workers=most or workers, start=0.0)


def _check_kappas(kappas: ArrayLike) -> FloatArray:
    """Return the values of η·h as an array of shape (k,), or raise a ValueError if one is not positive."""
    values = np.asarray(checks.require_all_finite("kappas", kappas), float)
    if values.ndim != 1 or not len(values) or (values <= 0).any():
        raise ValueError(
            f"`kappas` must be positive numbers in one dimension; got {checks.brief(kappas)}. Give one or more."
        )
    return values


class Floor(NamedTuple):
    """Var x over commits and the kinetic energy, per unit of η²σ², with standard errors over schedules, one per η·h."""

    variance: FloatArray
    energy: FloatArray
    variance_error: FloatArray
    energy_error: FloatArray


def simulated_floor(
    workers: int,
    kappas: ArrayLike,
    compute: Delay,
    rule: MakeRule = rules.Downpour,
    *,
    seeds: int = FLOOR_SCHEDULES,
    commits: int = 10_000,
    most: int | None = None,
    watch: Watch = iter,
) -> Floor:
    """Measure the stationary variance and kinetic energy on a quadratic with noise, by replay.

    Exactly one worker reads each version, so the mean loss over commits is the mean over versions. The first fifth of
    the commits is the warm-up. Close to the stability limit, rare excursions dominate the mean, and the standard error
    is too small. Calls with the same `most`, the workers that a compiled program has room for, share one program.
    """
    seeds = checks.require_integer("seeds", seeds, least=2, remedy="Give two or more, whose scatter is the error.")
    commits = checks.require_integer("commits", commits, least=10, remedy="Give some thousands.")
    kappas, first = _check_kappas(kappas), int(WARM_UP_SHARE * commits)
    workload, results = Quadratic([1.0] * COPIES, noise=1.0, start=0.0), []
    # Every number of workers has seeds of its own, so that the errors are independent.
    for seed in watch(range(seeds * workers, seeds * (workers + 1))):
        trace = schedule(workers, compute, commits, seed, most)
        same = [seed] * len(kappas)
        run = replay(trace, rule(kappas), workload, seed=same, record=("energy_central",))
        variance, energy = 2 * run.loss[:, first:].mean(axis=1), run.records["energy_central"][:, first:].mean(axis=1)
        results.append(np.array([variance, energy], float) / COPIES / kappas**2)
    mean, error = mean_and_error(results)
    return Floor(*mean, *error)


def _simulate_limits(
    question: Question, rule: MakeRule, predicted: Mapping[str, Any], progress: Progress | None
) -> dict[str, Any]:
    workers, compute = question.workers, question.compute
    low = predicted["constant_delay_limit"] / 2
    schedules = count_schedules(compute, REPORT_SCHEDULES)
    options: dict[str, Any] = {
        "seeds": REPORT_SCHEDULES,
        "watch": watch_schedules(progress, "limits of η·h", 3 * schedules),
    }
    search = simulated_limit(workers, compute, rule, low=low, high=FURTHEST_LIMIT * low, **options)
    limits = [limit for limit in (predicted["stability_limit"], search.value) if limit is not None]
    kappas = sorted(factor * limit for limit in limits for factor in NEAR_LIMIT)
    share = stability_map([workers], kappas, compute, rule, **options)[0]
    return {
        "almost_sure_limit": search.value,
        "almost_sure_limit_error": search.error,
        "bounded_kappa": kappas,
        "bounded_share": share.tolist(),
    }


def _grown(
    workers: int,
    kappas: ArrayLike,
    compute: Delay,
    rule: MakeRule,
    *,
    seeds: int,
    cycles: int,
    most: int | None = None,
    watch: Watch = iter,
) -> NDArray[np.bool_]:
    """Return whether each run grew, shape (schedules, k)."""
    seeds = checks.require_count("seeds", seeds, remedy="Simulate one schedule or more.")
    cycles = checks.require_integer("cycles", cycles, least=8, remedy="Quarters of a shorter run say nothing.")
    kappas, commits = _check_kappas(kappas), cycles * workers
    schedules = watch(range(count_schedules(compute, seeds)))
    traces = (schedule(workers, compute, commits, seed, most) for seed in schedules)
    return ~np.array([stays_bounded(trace, kappas, rule) for trace in traces])


def count_schedules(compute: Delay, seeds: int) -> int:
    """Count the different schedules from a number of seeds: equal constants have only one."""
    return 1 if isinstance(compute, Constant) else seeds
