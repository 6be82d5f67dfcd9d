"""From a log to a cluster, by the exact likelihood of its durations."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncsim.calibration.choose import Choice, choose, require_family
from asyncsim.calibration.predictive import summary
from asyncsim.calibration.result import MOST_CHECKED, QUANTILES, Calibration, StageFit
from asyncsim.calibration.shape import dependences, law_check
from asyncsim.calibration.stages import Stage, Stages, stages_of
from asyncsim.checks import one_of, require_integer
from asyncsim.trace import Trace

METHODS = ("likelihood",)
LAW_MISFIT = 0.01


def calibrate(
    log: Trace,
    *,
    method: str = "likelihood",
    law: Any = None,
    by_worker: bool = True,
    seed: int = 0,
) -> Calibration:
    """Fit a cluster to a log, with intervals for every parameter.

    Each stage that the log tells is fitted by maximum likelihood: computing, from `start_time` to `finish_time`; the
    latency of messages, from `read_time` to `start_time` and from `finish_time` to `arrive_time`; service, from
    `serve_time` to `commit_time`. Jobs in flight at the end count as censored. The law is that of least AIC among ten;
    workers get one law, two classes of laws, or each its own, by likelihood ratios at the 1 % level. Standard errors
    come from the observed information.

    A log of commits alone tells whole jobs only: then "compute" contains network, queue and service, which
    `fit.hidden` and the parameters say, and a cluster simulated with more workers queues less than the real one will.

    Args:
        log: The trace of an asynchronous cluster; see `Trace.from_csv`.
        method: "likelihood", the only one there is as yet.
        law: Law of the compute times, as a class of `asyncsim.delays` or its name, or a mapping from "compute",
            "latency" and "service" to one; by default that of least AIC.
        by_worker: Whether workers may differ.
        seed: Of what is drawn for intervals and p-values.

    Returns:
        A `Calibration`.

    Raises:
        ValueError: If the log has fewer than 30 commits, no time passes, it is not asynchronous, or a named law cannot
            produce its durations.

    Example:
        >>> import asyncsim as asim
        >>> hidden = asim.Cluster(8, asim.delays.Gamma(mean=2.0, cv=0.5))
        >>> fit = asim.calibrate(asim.simulate(hidden, commits=2000, seed=1), law="gamma")
        >>> fit.cluster.compute.mean.__round__(1), fit.hidden
        (2.0, ('latency', 'service'))
        >>> parameter = fit.parameters["compute.cv"]
        >>> bool(parameter.low < 0.5 < parameter.high), parameter.identifiable
        (True, True)

    References:
        Akaike 1974, "A new look at the statistical model identification".
        Wilks 1938, "The large-sample distribution of the likelihood ratio for testing composite hypotheses".
    """
    if not isinstance(log, Trace):
        remedy = "Read a file by `asyncsim.Trace.from_csv(path)`."
        raise ValueError(f"`log` must be a trace; got {type(log).__name__}. {remedy}")
    one_of("method", method, METHODS)
    seed = require_integer("seed", seed, least=0, remedy="Give another one.")
    laws = _laws(law)
    found = stages_of(log)
    notes = list(found.notes)
    fitted = {
        name: _fit(name, stage, log.workers, laws.get(name), by_worker and name == "compute", seed, notes)
        for name, stage in (("compute", found.compute), ("latency", found.latency), ("service", found.service))
        if stage is not None
    }
    for name in laws.keys() - fitted.keys():
        raise ValueError(f"`law` of {name!r} must be left out; the log does not tell its durations.")
    notes += dependences(found.compute, fitted["compute"].groups, log.workers, _middle(log, found))
    if found.hidden and found.compute.contains:
        notes.append(_hidden(found))
    checked = min(len(log), MOST_CHECKED)
    return Calibration(
        workers=log.workers,
        commits=len(log),
        seconds=log.seconds,
        stages=fitted,
        slots=found.slots,
        separate=found.separate,
        hidden=found.hidden,
        notes=tuple(notes),
        log=summary(_beginning(log, checked)),
        checked=checked,
        method=method,
        seed=seed,
    )


def _laws(law: Any) -> dict[str, str]:
    if law is None:
        return {}
    if not isinstance(law, Mapping):
        return {"compute": require_family("law", law)}
    return {one_of("law", name, ("compute", "latency", "service")): require_family("law", law[name]) for name in law}


def _fit(
    name: str, stage: Stage, workers: int, law: str | None, by_worker: bool, seed: int, notes: list[str]
) -> StageFit:
    choice = choose(stage, workers, law, by_worker=by_worker)
    check = law_check(stage, choice.groups, workers, seed)
    if check is not None and check.p_value < LAW_MISFIT:
        family = choice.groups[0].estimate.family
        notes.append(
            f"No law fits {name}: the {'named' if law else 'best'}, {family}, has a p-value of {check.p_value:.1g}; "
            "`delays.Empirical` takes the durations as they are."
        )
    notes += _unequal(name, choice)
    return StageFit(
        groups=choice.groups,
        contains=stage.contains,
        aic=choice.aic,
        refused=choice.refused,
        p_equal=choice.p_equal,
        p_classes=choice.p_classes,
        law=check,
        quantiles=_quantiles(stage, choice),
    )


def _unequal(name: str, choice: Choice) -> list[str]:
    groups = choice.groups
    if len(groups) == 1:
        return []
    ratio = "p-value of equal workers " + (f"{choice.p_equal:.1g}" if choice.p_equal >= 1e-12 else "below 1e-12")
    if len(groups) == 2 and groups[1].label == "slow":
        slow = ", ".join(map(str, groups[1].workers[:12])) + (", …" if len(groups[1].workers) > 12 else "")
        factor = groups[1].estimate.law.mean / groups[0].estimate.law.mean
        return [f"Two classes of workers: {slow} take {factor:.2g} times as long as the others ({ratio})."]
    means = [group.estimate.law.mean for group in groups]
    return [f"Workers differ: means of {name} from {min(means):.3g} to {max(means):.3g} s ({ratio})."]


def _hidden(found: Stages) -> str:
    inside = ", ".join(found.compute.contains)
    return (
        f"Not told by the log: {' and '.join(found.hidden)}. No time passes there, or compute contains it ({inside}); "
        "log `start_time`, `finish_time`, `arrive_time` and `serve_time` to tell them apart."
    )


def _quantiles(stage: Stage, choice: Choice) -> Any:
    """(2, shares) of the durations and of their laws, each worker's with the weight of its durations."""
    shares = (np.arange(QUANTILES) + 0.5) / QUANTILES
    measured = np.quantile(stage.durations, shares)
    counts = [int(np.isin(stage.worker, group.workers).sum()) for group in choice.groups]
    # Quantiles of a mixture: those of a sample of each law at equal shares, as large as the group.
    fine = (np.arange(2000) + 0.5) / 2000
    points, weights = [], []
    for group, count in zip(choice.groups, counts, strict=True):
        points.append(_inverse(group.estimate.law, fine))
        weights.append(np.full(len(fine), count / len(fine)))
    values, mass = np.concatenate(points), np.concatenate(weights)
    order = np.argsort(values)
    middle = np.cumsum(mass[order]) - mass[order] / 2
    return np.stack([measured, np.interp(shares, middle / mass.sum(), values[order])])


def _inverse(law: Any, shares: Any) -> Any:
    """Quantiles; for mixtures, which have none in closed form, from the cdf on a fine grid."""
    if hasattr(law, "quantile"):
        return law.quantile(shares)
    spread = law.mean + 60 * np.sqrt(law.variance)
    grid = np.concatenate([[0.0], np.geomspace(law.mean * 1e-4, spread, 20_000)])
    return np.interp(shares, law.cdf(grid), grid)


def _middle(log: Trace, found: Stages) -> Any:
    """The middle of each job that `found.compute` holds, in its order."""
    middle = (log.start_time + log.finish_time) / 2
    extra = len(found.compute.durations) - len(log)
    if extra < 0:
        first = np.zeros(len(log), np.bool_)
        first[np.unique(log.worker, return_index=True)[1]] = True
        middle, extra = middle[~first], len(found.compute.durations) - int((~first).sum())
    return np.append(middle, np.full(max(extra, 0), log.seconds))


def _beginning(log: Trace, commits: int) -> Trace:
    """The first commits, with the columns that are compared."""
    if commits == len(log):
        return log
    return Trace.from_commits(log.worker[:commits], log.commit_time[:commits], workers=log.workers, start=0.0)
