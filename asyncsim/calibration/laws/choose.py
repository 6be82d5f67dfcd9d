"""Which law, and one for all workers, two classes of them, or each: Akaike's criterion and likelihood ratios."""

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim.calibration.coordinates import CLASSES, FloatArray, degrees
from asyncsim.calibration.laws.average import Rival, rivals
from asyncsim.calibration.laws.estimate import Estimate, estimate
from asyncsim.calibration.laws.stages import Stage
from asyncsim.checks import one_of

LAWS = tuple(name for name in CLASSES if name not in ("constant", "erlang"))  # those that are compared
SIGNIFICANT = 0.01  # of a likelihood ratio, below which workers differ
LEAST_PER_WORKER = 10  # durations of a worker whose own law is fitted
TRIED = 3  # laws, the best for all workers together, that are also tried worker by worker
ALWAYS_TRIED = ("gamma", "lognormal")  # what a mixture of unequal workers hides
EQUAL = 1e-6  # relative spread of durations that are told by rounding only


class Group(NamedTuple):
    """Workers with one law.

    Attributes:
        label: "" for all workers, "fast" and "slow" for classes, "[3]" for worker 3.
        workers: Their numbers.
        estimate: Their law.
    """

    label: str
    workers: tuple[int, ...]
    estimate: Estimate


class Choice(NamedTuple):
    """What was chosen for a stage.

    Attributes:
        groups: All workers, two classes, or each worker.
        aic: Family -> criterion of one law for all workers, the smaller the better.
        refused: Family -> why it cannot produce the durations.
        p_equal: p-value of the likelihood ratio of one law for all against one per worker; NaN if not tested.
        p_classes: The same of two classes against one law per worker; NaN if not tested.
        rivals: The families that may have made the durations of these groups; none if the law was named.
    """

    groups: tuple[Group, ...]
    aic: dict[str, float]
    refused: dict[str, str]
    p_equal: float
    p_classes: float
    rivals: tuple[Rival, ...] = ()


def choose(stage: Stage, workers: int, law: str | None, *, by_worker: bool = True) -> Choice:
    """Fit a stage.

    Args:
        stage: Its durations.
        workers: Number of workers.
        law: Name of the family, or None for that of least AIC.
        by_worker: Whether workers may differ.

    Raises:
        ValueError: If the named law cannot produce the durations, or no law can.

    Example:
        >>> from asyncsim.delays import Gamma
        >>> durations = Gamma(1.0, 0.3).sample(np.random.default_rng(0), 600)
        >>> found = choose(Stage(durations, np.repeat([0, 1], 300)), 2, None)
        >>> found.groups[0].estimate.family, found.p_equal > 0.01
        ('gamma', True)
    """
    everyone = tuple(range(workers))
    spread = float(stage.durations.max() - stage.durations.min())
    if law in (None, "constant") and spread <= EQUAL * float(stage.durations.max()):
        value = np.full(len(stage.durations), np.median(stage.durations))
        return Choice((Group("", everyone, estimate("constant", value)),), {}, {}, math.nan, math.nan)
    pooled, refused = _pooled(stage, LAWS if law is None else (law,))
    if not pooled:
        raise ValueError("; ".join(refused.values()))
    aic = {family: found.aic for family, found in pooled.items()}
    best = min(aic, key=aic.__getitem__)
    beside = rivals({name: [one] for name, one in pooled.items()}) if law is None else ()
    alone = Choice((Group("", everyone, pooled[best]),), aic, refused, math.nan, math.nan, beside)
    counts = np.bincount(stage.worker, minlength=workers)
    if not by_worker or workers == 1 or counts.min() < LEAST_PER_WORKER:
        return alone
    tried = dict.fromkeys(sorted(aic, key=aic.__getitem__)[:TRIED] + [name for name in ALWAYS_TRIED if name in aic])
    each = {family: found for family in tried if (found := _each(stage, workers, family)) is not None}
    if not each:
        return alone
    family = min(each, key=lambda name: sum(one.aic for one in each[name]))
    apart = each[family]
    if sum(one.aic for one in apart) > aic[best]:
        family = best if best in each else family
        apart = each[family]
    p_equal = _p_value(pooled[family].log_likelihood, apart, 1)
    if p_equal >= SIGNIFICANT:
        return alone._replace(p_equal=p_equal)
    classes = _two_classes(stage, workers, family, apart) if workers > 2 else None
    p_classes = math.nan
    if classes is not None:
        p_classes = _p_value(sum(group.estimate.log_likelihood for group in classes), apart, 2)
    if classes is not None and p_classes >= SIGNIFICANT:
        beside = rivals(_of_classes(stage, [group.workers for group in classes], each)) if law is None else ()
        return Choice(classes, aic, refused, p_equal, p_classes, beside)
    groups = tuple(Group(f"[{w}]", (w,), one) for w, one in enumerate(apart))
    return Choice(groups, aic, refused, p_equal, p_classes, rivals(each) if law is None else ())


def require_family(name: str, law: object) -> str:
    """The name of a family: as given, or that of a class of `asyncsim.delays`.

    Raises:
        ValueError: If it is none; the nearest is named.

    Example:
        >>> from asyncsim import delays
        >>> require_family("law", delays.LogNormal), require_family("law", "gamma")
        ('lognormal', 'gamma')
    """
    for family, known in CLASSES.items():
        if law is known:
            return family
    return one_of(name, law if isinstance(law, str) else getattr(law, "__name__", repr(law)), CLASSES)


def _pooled(stage: Stage, laws: Sequence[str]) -> tuple[dict[str, Estimate], dict[str, str]]:
    found, refused = {}, {}
    for family in laws:
        try:
            one = estimate(family, stage.durations, stage.censored)
        except ValueError as error:
            refused[family] = str(error)
            continue
        if math.isnan(one.log_likelihood):
            refused[family] = f"`law` {family!r} cannot produce these durations."
            continue
        found[family] = one
    return found, refused


def _each(stage: Stage, workers: int, family: str) -> list[Estimate] | None:
    """One law per worker; None if one of them cannot be fitted."""
    try:
        return [_of(stage, family, [w]) for w in range(workers)]
    except ValueError:
        return None


def _of(stage: Stage, family: str, workers: Sequence[int]) -> Estimate:
    mine, unended = np.isin(stage.worker, workers), np.isin(stage.censored_worker, workers)
    return estimate(family, stage.durations[mine], stage.censored[unended])


def _of_classes(stage: Stage, members: Sequence[Sequence[int]], families: Iterable[str]) -> dict[str, list[Estimate]]:
    """The laws of some classes of workers in each family that can have made their durations."""
    found = {}
    for family in families:
        with suppress(ValueError):
            found[family] = [_of(stage, family, who) for who in members]
    return found


def _two_classes(stage: Stage, workers: int, family: str, apart: Sequence[Estimate]) -> tuple[Group, ...] | None:
    """A mixture of two classes of workers, each worker in that which explains its durations better."""
    means = np.log([one.law.mean for one in apart])
    jobs = np.array([one.jobs for one in apart])
    slow = _split(means, jobs)
    laws: list[Estimate] = []
    for _ in range(workers):
        try:
            laws = [_of(stage, family, np.flatnonzero(slow == side).tolist()) for side in (False, True)]
        except ValueError:
            return None
        scores = np.stack(
            [
                _by_worker(stage, one, workers) + math.log((slow == side).mean())
                for side, one in zip((False, True), laws, strict=True)
            ]
        )
        better = scores[1] > scores[0]
        if (better == slow).all() or better.all() or not better.any():
            break
        slow = better
    members = [tuple(np.flatnonzero(slow == side).tolist()) for side in (False, True)]
    return tuple(Group(label, who, one) for label, who, one in zip(("fast", "slow"), members, laws, strict=True))


def _split(means: FloatArray, jobs: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The split of the sorted means that leaves the least spread within the two parts."""
    order = np.argsort(means)
    losses = []
    for cut in range(1, len(order)):
        parts = (order[:cut], order[cut:])
        losses.append(
            sum(jobs[part] @ (means[part] - np.average(means[part], weights=jobs[part])) ** 2 for part in parts)
        )
    slow = np.zeros(len(order), np.bool_)
    slow[order[int(np.argmin(losses)) + 1 :]] = True
    return slow


def _by_worker(stage: Stage, one: Estimate, workers: int) -> FloatArray:
    """Log-likelihood of each worker's durations."""
    law: object = one.law
    densities = law.log_density(stage.durations)  # type: ignore[attr-defined]
    rest = np.log(np.maximum(1 - one.law.cdf(stage.censored), 1e-300))
    whole = np.bincount(stage.worker, np.maximum(densities, -1e300), workers)
    return np.asarray(whole + np.bincount(stage.censored_worker, rest, workers), np.float64)


def _p_value(log_likelihood: float, apart: Sequence[Estimate], laws: int) -> float:
    """Wilks, and Hogg for ends: twice the gain of one law per worker is chi-squared, with the degrees of the others."""
    from scipy.stats import chi2

    gain = 2 * (sum(one.log_likelihood for one in apart) - log_likelihood)
    return float(chi2.sf(max(gain, 0.0), (len(apart) - laws) * degrees(apart[0].family)))
