"""From a log to a cluster: by the exact likelihood of its durations, or by simulation."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from asyncsim._checks import brief, require_integer, require_one_of
from asyncsim.calibration._fit import Fit, Log
from asyncsim.calibration._laws import LIKELIHOOD, NOT_OBSERVED, Laws, fit_laws
from asyncsim.calibration._likelihood import fit_by_likelihood
from asyncsim.calibration._model import Clusters, Evidence, Model, default_model
from asyncsim.calibration._npe import LEAST_PER_WORKER, NPE, fit_by_simulation, has_flowjax, limit_simulated
from asyncsim.calibration._rollouts import FittedRollouts, fit_rollouts
from asyncsim.calibration._simulations import Report
from asyncsim.calibration._stages import LEAST_COMMITS, merge_workers, one_step_per_commit, stages_of
from asyncsim.calibration._statistics import REPLICATES, recorded_columns, shorten, steady_part, takes_time
from asyncsim.calibration._waiting import IN_TURN, TURN, takes_turns
from asyncsim.cluster import Rollouts
from asyncsim.components._checked import checked
from asyncsim.trace import Trace
from asyncsim.trace._presence import presence
from asyncsim.trace._statistics import previous_commit
from asyncsim.trace._variables import require_one_variable

METHODS = (LIKELIHOOD, NPE)
SIMULATIONS = 5000
COMMITS_ALONE = ("commit_time",)
FittedModel = Laws | Clusters | FittedRollouts


@checked
def calibrate(
    log: Trace,
    model: Model | Rollouts | None = None,
    *,
    method: Annotated[str, partial(require_one_of, choices=METHODS)] | None = None,
    law: Any = None,
    by_worker: bool = True,
    simulations: int = SIMULATIONS,
    seed: Annotated[int, require_integer, "Give another one."] = 0,
    jobs: Annotated[int, require_integer, "Give 0 to simulate in this process."] | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: Report | None = None,
) -> Fit:
    """Fit a cluster to a log, with intervals for every parameter.

    **Likelihood.** Each stage that the log identifies is fitted by maximum likelihood: computing (from `start_time` to
    `finish_time`), messages (from `read_time` to `start_time` and from `finish_time` to `arrive_time`) and service
    (from `serve_time` to `commit_time`). Without the last two columns, service is identified only if a queue alone can
    have made the times from finish to commit. Otherwise "upload" is this whole time, as one law. Jobs in flight at the
    end count as censored. Of a worker that seems to have left there is none, and the first job of one that joined late
    and the jobs across a pause do not count. The law is that of least AIC among ten, and a mixture only if it is
    significantly better than the law that it contains. Workers get one law, two classes of laws, or one each, by AIC
    and tests at the 1 % level. Intervals of mean and cv, and samples, count the other families by Akaike weights. Of
    durations that may contain another stage, the mean has the interval of its standard error, and the cv at least. From
    commits alone only whole jobs are fitted, so "compute" contains network, queue and service, as `fit.hidden` and the
    parameters say.

    **Likelihood of a model** (``method="likelihood"``). The likelihood of the same durations, each under the laws that
    ``model.cluster(p)`` gives its worker, is maximised over all parameters together. Priors are bounds, and say where
    the search begins. Intervals come from the observed information, in logarithms or logits of the parameters. They are
    one-sided where a parameter is at an end of its prior or is the shortest duration, and as wide as the rounding where
    a constant determines it. Durations must be independent and have a density: no faults, no speeds that change with
    time.

    **Simulation** ("npe", neural posterior estimation). Clusters drawn from the prior of a `Model` are simulated, each
    for the log's number of commits, and normalising flows learn the parameters from statistics of the log's columns.
    The level of the intervals is set so that 90 % hold the truth on simulations that were held back
    (`fit.evidence.coverage`: how often they did before). A parameter whose interval is more than half as wide as that
    of the prior is not identifiable. It takes flowjax: `pip install 'asyncsim[calibrate]'`.

    **Rollouts as the model**, for a log of `Trace.from_rollouts`. The laws of generation and of steps are those of
    least AIC, and other arguments stay. The log shows the longest sample of each group, from which the law of one
    sample follows. `fit.cluster` is then the fitted `Rollouts`.

    Args:
        log: The trace of an asynchronous cluster (see `Trace.from_csv`), whose server may collect commits into steps.
        model: The `Model` to be fitted, or the `Rollouts` of the log. By default "npe" fits equal workers with gamma
            compute times, exponential latency and a constant service.
        method: "likelihood" or "npe". By default "npe" for a `model`, and for a log of commits alone that equal workers
            who only compute could not have made (if flowjax is installed and no `law` is named). For any other log the
            default is the likelihood.
        law: Law of the compute times, as a class of `asyncsim.delays` or its name, or a mapping from "compute",
            "latency", "service" and "upload" to one, by default that of least AIC. For the likelihood.
        by_worker: Whether workers may differ. For the likelihood.
        simulations: Number of simulations, 500 or more. More of them make narrower and more reliable intervals.
        seed: Seed of all random draws.
        jobs: Processes that simulate, by default one for each core. With 0, only this process simulates.
        store: Folder for the simulations and the posterior learned from them, by default none. With it, an interrupted
            call resumes, and another log of the same model and number of commits takes seconds. For "npe".
        progress: Called with `.done`, `.total` and `.seconds` whenever simulations are finished.

    Returns:
        A `Fit`: cluster, parameters with intervals, draws, notes and evidence.

    Raises:
        ValueError: If the log has fewer than 30 commits (by "npe" 10 for each worker) or no times, no time
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
        Papamakarios and Murray 2016, "Fast ε-free inference of simulation models with Bayesian conditional density
        estimation".
        Hermans et al. 2022, "A trust crisis in simulation-based inference?".
    """
    require_one_variable(log, "Fit the compute times by `Gamma.fit(log.finish_time - log.start_time)`, say.")
    if isinstance(model, Rollouts):
        if method not in (None, LIKELIHOOD):
            raise ValueError(f"`method` must be 'likelihood' for rollouts; got {brief(method)}. Leave it out.")
        return _assemble(log, shorten(log), LIKELIHOOD, seed, *fit_rollouts(log, model, law, seed))
    one_per_step, collected, may_wait = one_step_per_commit(log)
    steps = replace(one_per_step, notes=(*one_per_step.notes, *collected, *_describe_local_steps(one_per_step, model)))
    present = presence(steps.worker, steps.commit_time, steps.workers)
    merged, place_of_worker = merge_workers(steps, present)
    compared = shorten(steady_part(merged, present, LEAST_COMMITS))
    if law is not None and (model is not None or method == NPE):
        raise ValueError("`law` must be left out where a `model` or a simulation is fitted: the model says which laws.")
    shown = stages_of(steps, present)
    compute = shown.compute.with_part("waiting") if may_wait else shown.compute
    in_turn = _has_commits_alone(merged) and takes_turns(steps)
    if in_turn:
        shown, compute = shown._replace(notes=(IN_TURN, *shown.notes)), compute.with_part(TURN)
    if model is not None and method == LIKELIHOOD:
        by_place = shown._replace(compute=compute.at(place_of_worker))
        fitted = fit_by_likelihood(merged, compared, by_place, model, seed)
        return _assemble(merged, compared, LIKELIHOOD, seed, *fitted, shown.idle)
    if model is None and method != NPE:
        chosen = fit_laws(steps, shown._replace(compute=compute), place_of_worker, law, by_worker, seed)
        fit = _assemble(merged, compared, LIKELIHOOD, seed, *chosen, shown.idle)
        if method == LIKELIHOOD or law is not None or may_wait or in_turn or not _hides_stages(fit, merged):
            return fit
        if obstacle := _describe_obstacle(fit):
            return replace(fit, notes=(obstacle, *fit.notes))
    steady = steady_part(merged, present, LEAST_PER_WORKER * merged.workers)
    simulated = shorten(steady, limit_simulated(merged.workers))
    prior = default_model(merged.workers) if model is None else model
    clusters, notes, evidence = fit_by_simulation(merged, simulated, prior, simulations, seed, jobs, store, progress)
    fitted_clusters = clusters.unidentified() if in_turn else clusters
    return _assemble(merged, simulated, NPE, seed, fitted_clusters, (*shown.notes, *notes), evidence, shown.idle)


def _describe_local_steps(log: Trace, model: Model | None) -> list[str]:
    """Say that a fit is of whole jobs where the log's jobs are known to have several local steps."""
    if log.local_steps is None or not (log.local_steps > 1).any():
        return []
    if model is not None and model.middle().local_steps is not None:
        return []  # Its laws are those of one step.
    least, most = int(log.local_steps.min()), int(log.local_steps.max())
    steps = f"{least}" if least == most else f"{least} to {most}"
    return [
        f"Jobs of this log have {steps} local steps, and the fit is of whole jobs: a scenario whose rule has a window "
        "refuses it, because each local step would take the time of a job. Give it a law of one step, with 1/H of the "
        "mean and √H times the cv."
    ]


def _assemble(
    log: Trace,
    used: Trace,
    method: str,
    seed: int,
    model: FittedModel,
    notes: Sequence[str],
    evidence: Evidence,
    idle: float = 0.0,
) -> Fit:
    """Put a fitted model and the facts about its log together, with notes on intervals as wide as the prior.

    A check compares the commits of `used`, a part of the log in which all workers are there.
    """
    facts = Log(log.workers, len(log), log.seconds, recorded_columns(used), model.statistics(used), len(used), idle)
    wide = [
        f"{name} is not identifiable from the log: its interval is {evidence.widths[name]:.2f} times as wide as that "
        "of the prior."
        for name in model.hidden
        if name in evidence.widths and model.parameters[name].method != NOT_OBSERVED
    ]
    sentences = tuple(dict.fromkeys((*log.notes, *notes, *wide)))  # Notes of the log may be findings of the fit too.
    return Fit(method, model, facts, sentences, evidence, seed)


def _has_commits_alone(log: Trace) -> bool:
    """Return whether a log has the times of commits alone, so that workers read when they commit."""
    reads_at_commits = not takes_time(log, log.begin_time - previous_commit(log))
    return recorded_columns(log) == COMMITS_ALONE and reads_at_commits


def _hides_stages(fit: Fit, log: Trace) -> bool:
    """Return whether a log of commits alone, long enough for simulations, is of no cluster that only computes."""
    is_enough = log.workers > 1 and len(log) >= LEAST_PER_WORKER * log.workers
    varies = fit.model.stages["compute"].law is not None  # A constant has nothing to compare.
    return _has_commits_alone(log) and is_enough and varies and bool(fit.check(REPLICATES).refuted)


def _describe_obstacle(fit: Fit) -> str:
    """Say why the stages that a log hides are not found by simulation, or "" if they can be."""
    whole = "The log has commits alone, and no cluster that only computes makes such ones: "
    if len(fit.model.stages["compute"].groups) > 1:
        return f"{whole}give a `model` of such workers, with a network and a server, to identify these."
    if not has_flowjax():
        return f"{whole}simulation identifies network and server (pip install 'asyncsim[calibrate]')."
    return ""
