"""From a log to a cluster: by the exact likelihood of its durations, or by simulation."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from asyncsim.calibration.adversarial.on_logs import METHOD as AVO
from asyncsim.calibration.adversarial.on_logs import fit_by_avo
from asyncsim.calibration.laws.choose import SIGNIFICANT, Choice, choose, require_family
from asyncsim.calibration.laws.shape import dependences, law_check
from asyncsim.calibration.laws.stages import Stage, Stages, stages_of
from asyncsim.calibration.likelihood.fit import fit_by_likelihood
from asyncsim.calibration.model import Model, default_model
from asyncsim.calibration.model_fit import LEAST_PER_WORKER
from asyncsim.calibration.predictive import REPLICATES, summary
from asyncsim.calibration.result import LIKELIHOOD, MOST_CHECKED, QUANTILES, STAGES, Calibration, StageFit
from asyncsim.calibration.simulated.estimator import require_flowjax
from asyncsim.calibration.simulated.npe import fit_by_simulation
from asyncsim.calibration.simulated.posterior import METHOD as NPE
from asyncsim.calibration.simulated.simulations import Report
from asyncsim.calibration.simulated.summaries import seen_columns
from asyncsim.checks import one_of, require_integer
from asyncsim.trace import Trace

METHODS = (LIKELIHOOD, NPE, AVO)
SIMULATIONS = 5000
COMMITS_ALONE = ("commit_time",)
LAW_MISFIT = 0.01


def calibrate(
    log: Trace,
    model: Model | None = None,
    *,
    method: str | None = None,
    law: Any = None,
    by_worker: bool = True,
    simulations: int = SIMULATIONS,
    seed: int = 0,
    jobs: int | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: Report | None = None,
) -> Calibration:
    """Fit a cluster to a log, with intervals for every parameter.

    **Likelihood.** Each stage that the log tells is fitted by maximum likelihood: computing, from `start_time` to
    `finish_time`; the latency of messages, from `read_time` to `start_time` and from `finish_time` to `arrive_time`;
    service, from `serve_time` to `commit_time`. Without `arrive_time` and `serve_time`, service is told only if a queue
    alone can have made the times from finish to commit; otherwise "upload" is this whole time, as one law. Jobs in
    flight at the end count as censored. The law is that of least AIC among ten, and a mixture only if it is
    significantly better than the law that it contains; workers get one law, two classes of laws, or each its own, by
    AIC, likelihood ratios and ranks at the 1 % level. Standard errors come from the observed information; intervals of
    mean and cv, and samples, count the other families by Akaike weights. Of commits alone it knows whole jobs only:
    "compute" then contains network, queue and service, which `fit.hidden` and the parameters say.

    **Likelihood of a `model`** (``method="likelihood"``). The exact likelihood of the same durations, each under the
    laws that ``model.cluster(p)`` gives its worker, is maximised over all parameters together, so that laws may share
    them. It is the maximum of the likelihood, not of a posterior: priors are bounds, and say where the search begins;
    a density would make the estimate depend on the coordinates. Intervals come from the observed information, in
    logarithms or logits of the parameters; they are one-sided where a parameter is at an end of its prior or is the
    shortest duration, and points where a constant tells it. What the log does not show is no part of it; a parameter on
    which nothing else depends is not identifiable, and the middle of its prior is taken. `fit.check()` has the distance
    of each stage from the model's law. Durations must be independent and have a density: no faults, no speeds that
    change with time.

    **Simulation** ("npe", neural posterior estimation). Clusters drawn from the prior of a `Model` are simulated, each
    for as many commits as the log has, and normalising flows learn the parameters from statistics of the columns that
    the log has. Simulations that were held back tell how often 90 % of the posterior hold the truth (`fit.coverage`),
    and the level of the intervals is set so that 90 % do. A parameter whose interval is more than half as wide as that
    of the prior is not identifiable. It takes flowjax: `pip install 'asyncsim[calibrate]'`.

    **Adversarial** ("avo"). Version 2 of `calibration.avo` over the model's coordinates, with 16 simulated blocks of
    commits a step against the log's blocks; the estimate is the proposal's mean, averaged over the last quarter of the
    way, which `fit.avo.history` has. **The proposal is no posterior**, and its intervals are none. It does not compete
    with "npe": after 5000 simulations the root mean square errors of mean, cv and latency were 10, 3 and 9 times the
    exact standard errors on four logs with all columns, where the standard deviations of "npe", after 15 008, are equal
    to these; of commits alone they were 2.6, 1.7 and 1.1 times those of "npe" (three logs). A constant service, which
    "npe" finds, was wrong by a sixth to a third of the prior's width.

    Args:
        log: The trace of an asynchronous cluster; see `Trace.from_csv`.
        model: What is to be fitted; by default, by simulation, gamma compute times, exponential latency and a constant
            service, of equal workers.
        method: "likelihood", "npe" or "avo". By default "npe" for a `model`, and for a log of commits alone that
            workers who only compute, and do not differ, could not have made (if flowjax is there and no `law` is
            named); the likelihood for any other.
        law: Law of the compute times, as a class of `asyncsim.delays` or its name, or a mapping from "compute",
            "latency", "service" and "upload" to one; by default that of least AIC. For the likelihood.
        by_worker: Whether workers may differ. For the likelihood.
        simulations: How many, 500 or more; of one block of the log each, for "avo". More make narrower and
            surer intervals.
        seed: Of what is drawn.
        jobs: Processes that simulate; by default one for each core, and 0 for none but this one.
        store: Folder that keeps simulations, and what was learned from them. A call that was stopped goes on, and
            another log with as many commits, of the same model, takes seconds. By default nothing is kept. For "npe".
        progress: Called with `.done`, `.total` and `.seconds` whenever simulations have come.

    Returns:
        A `Calibration`; of a model a `ModelFit`, which is one, and by "npe" a `Posterior`.

    Raises:
        ValueError: If the log has fewer than 30 commits (by "npe" 10 for each worker, by "avo" 64) or no times, no time
            passes, it is not asynchronous, a named law or a model cannot produce its durations, or an argument does not
            fit.

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
        Papamakarios and Murray 2016, "Fast ε-free inference of simulation models with Bayesian conditional density
        estimation".
        Durkan et al. 2019, "Neural spline flows".
        Louppe, Hermans and Cranmer 2019, "Adversarial variational optimization of non-differentiable simulators".
        Hermans et al. 2022, "A trust crisis in simulation-based inference? Your posterior approximations can be
        unfaithful".
    """
    seed = require_integer("seed", seed, least=0, remedy="Give another one.")
    if jobs is not None:
        jobs = require_integer("jobs", jobs, least=0, remedy="Give 0 to simulate in this process.")
    _require_consistent(model, method, law)
    if method == LIKELIHOOD and model is not None:
        return fit_by_likelihood(log, model, seed=seed)
    if method == LIKELIHOOD or (model is None and method is None):
        found = _by_likelihood(log, law, by_worker, seed)
        if method == LIKELIHOOD or law is not None or not _hides_a_queue(found, log):
            return found
        why = _instead(found)
        if why is not None:
            return replace(found, notes=(why, *found.notes))
    chosen = default_model(log.workers) if model is None else model
    if method == AVO:
        return fit_by_avo(log, chosen, count=simulations, seed=seed, progress=progress)
    return fit_by_simulation(log, chosen, count=simulations, seed=seed, jobs=jobs, store=store, progress=progress)


def _require_consistent(model: Any, method: str | None, law: Any) -> None:
    if method is not None:
        one_of("method", method, METHODS)
    if model is not None and not isinstance(model, Model):
        remedy = "Give `asyncsim.calibration.Model(build, prior)`."
        raise ValueError(f"`model` must be a calibration model; got {type(model).__name__}. {remedy}")
    if law is not None and (model is not None or method in (NPE, AVO)):
        raise ValueError("`law` must be left out where a `model` or a simulation is fitted: the model says which laws.")


def _hides_a_queue(found: Calibration, log: Trace) -> bool:
    """Whether a log of commits alone is not that of workers who only compute, as far as enough commits tell."""
    if log.workers == 1 or len(log) < LEAST_PER_WORKER * log.workers or seen_columns(log) != COMMITS_ALONE:
        return False
    if found.stages["compute"].law is None:  # constants, which leave nothing to compare
        return False
    return bool(found.check(REPLICATES).refuted)


def _instead(found: Calibration) -> str | None:
    """Why whole jobs are kept although the log hides a queue; None if simulation can tell more."""
    whole = "The log has commits alone, and no cluster that only computes makes such ones: "
    if len(found.stages["compute"].groups) > 1:
        return f"{whole}give a `model` of such workers, with a network and a server, to tell these apart."
    try:
        require_flowjax()
    except ValueError:
        return f"{whole}simulation tells network and server apart (pip install 'asyncsim[calibrate]')."
    return None


def _by_likelihood(log: Trace, law: Any, by_worker: bool, seed: int) -> Calibration:
    laws = _laws(law)
    found = stages_of(log)
    notes = list(found.notes)
    fitted = {
        name: _fit(name, stage, log.workers, laws.get(name), by_worker and name == "compute", seed, notes)
        for name in STAGES
        if (stage := getattr(found, name)) is not None
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
        method=LIKELIHOOD,
        seed=seed,
    )


def _laws(law: Any) -> dict[str, str]:
    if law is None:
        return {}
    if not isinstance(law, Mapping):
        return {"compute": require_family("law", law)}
    return {one_of("law", name, STAGES): require_family("law", law[name]) for name in law}


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
        rivals=choice.rivals,
    )


def _unequal(name: str, choice: Choice) -> list[str]:
    groups = choice.groups
    ratio = "p-value of equal workers " + (f"{choice.p_equal:.1g}" if choice.p_equal >= 1e-12 else "below 1e-12")
    if len(groups) == 1:
        few = f"Workers differ in {name}, but have too few jobs to tell how: one law is fitted to all ({ratio})."
        return [few] if choice.p_equal < SIGNIFICANT else []
    if len(groups) == 2 and groups[1].label == "slow":
        slow = ", ".join(map(str, groups[1].workers[:12])) + (", …" if len(groups[1].workers) > 12 else "")
        who = f"worker {slow} takes" if len(groups[1].workers) == 1 else f"workers {slow} take"
        factor = groups[1].estimate.law.mean / groups[0].estimate.law.mean
        return [f"Two classes of workers: {who} {factor:.2g} times as long as the others ({ratio})."]
    means = [group.estimate.law.mean for group in groups]
    return [f"Workers differ: means of {name} from {min(means):.3g} to {max(means):.3g} s ({ratio})."]


def _hidden(found: Stages) -> str:
    inside = f"compute contains it ({', '.join(found.compute.contains)})"
    if found.upload is not None:
        inside += f", or upload ({', '.join(found.upload.contains)})"
    return (
        f"Not told by the log: {' and '.join(found.hidden)}. No time passes there, or {inside}; "
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
