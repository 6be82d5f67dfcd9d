"""Rollouts and pipelines: their numbers and the limit of stability of rollouts, predicted and measured."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import require_count, require_integer
from asyncsim.cluster import Pipeline, Rollouts, simulate
from asyncsim.cluster._pipeline import SYNCHRONOUS, Timetable
from asyncsim.cluster.faults import Sessions
from asyncsim.cluster.rollouts._ledger import Ledger
from asyncsim.delays import Constant, Delay, Exponential
from asyncsim.delays._per_worker import expand, is_zero
from asyncsim.engine import replay
from asyncsim.reports.replicates import mean_on_grid
from asyncsim.rules import Downpour
from asyncsim.theory import pipeline_bubble, pipeline_staleness, preemption
from asyncsim.theory import rollouts as theory
from asyncsim.theory.rollouts._admission import UNBOUNDED
from asyncsim.trace import Trace
from asyncsim.workloads import Bits

__all__ = [
    "WARM_UP",
    "Prediction",
    "bounds_leave_out",
    "measured_of_pipeline",
    "predictions",
    "predictions_of_pipeline",
    "rollouts_report",
    "rollouts_stability",
    "simulated",
    "throughput_bounds",
]

WARM_UP = 0.1  # share of the steps
DISTANCE = 1e-3  # distance from the optimum at which runs begin
FAR = 0.1  # distance beyond which a run is unstable, even if it stays there
SETTLED = 1e-5  # distance that counts as the optimum in single precision
GRID = 32  # step sizes in one pass of the search for the limit
FURTHEST = 8.0  # factor of the predicted limit, up to which the search looks, and down to its inverse
FREQUENCIES = 20_000  # frequencies among which the limit of a mixture of delays is searched


class Prediction(NamedTuple):
    """A prediction: exact for the relation "=", a bound for "≤", an approximation for "≈", with its law as reason."""

    value: float
    relation: str
    reason: str


def rollouts_report(rollouts: Rollouts, steps: int = 1000, seed: int = 0) -> dict[str, Any]:
    """Simulate rollouts, and predict each number of the summary for which theory has a result.

    The first tenth of the steps is left out. The result holds `measured`, name -> value, and `predicted`, name -> list
    of `Prediction`.
    """
    ledger, warm_up = simulated(rollouts, steps, seed)
    measured = ledger.summary(warm_up=warm_up)
    return {"measured": measured, "predicted": predictions(rollouts, measured)}


def simulated(rollouts: Rollouts, steps: int, seed: int) -> tuple[Ledger, int]:
    """Return the ledger of some steps, and the number of them in the warm-up."""
    steps = require_integer("steps", steps, least=2, remedy="Simulate two steps or more.")
    return rollouts.ledger(commits=steps * rollouts.batch, seed=seed), max(1, int(WARM_UP * steps))


def predictions(rollouts: Rollouts, measured: Mapping[str, float]) -> dict[str, list[Prediction]]:
    """Return name in the summary -> predictions, of every law whose assumptions these rollouts meet."""
    predicted: dict[str, list[Prediction]] = {}
    for name, prediction in _predictions(rollouts, measured):
        predicted.setdefault(name, []).append(prediction)
    return predicted


def _predictions(rollouts: Rollouts, measured: Mapping[str, float]) -> Iterator[tuple[str, Prediction]]:
    late = rollouts.during_sync == "continue" and not is_zero(rollouts.sync)
    drops = rollouts.capacity is not None or rollouts.max_age is not None
    drops = drops or rollouts.signal < 1 or bool(rollouts.faults)
    every = rollouts.sync_every
    if not drops and not late and every == 1:
        samples = rollouts.batch * rollouts.group
        mean = theory.conserved_staleness(measured["outstanding"], samples=samples)
        yield "staleness", Prediction(mean, "=", "conservation: measured outstanding samples over those of a step")
    if rollouts.lead is not None and not late:
        mean = theory.staleness_bound(rollouts.lead, sync_every=every)
        yield "group_staleness", Prediction(mean, "≤", "admission fixes the mean, up to noise")
        window = rollouts.window if rollouts.order == "window" else 1
        settings: dict[str, Any] = {"lead": rollouts.lead, "batch": rollouts.batch, "sync_every": every}
        most = theory.largest_staleness(rollouts.order, window=window, **settings)
        if not drops and math.isfinite(most):
            yield "staleness_max", Prediction(most, "≤", "the order of opening")
    if rollouts.max_age is not None:
        # Groups that are taken together grow older until their step.
        most = rollouts.max_age + rollouts.steps_per_take - 1
        yield "staleness_max", Prediction(float(most), "≤", "the age bound")
    if isinstance(rollouts.generate, Delay) and rollouts.prompt is None:
        yield from _of_equal_slots(rollouts, rollouts.generate, measured, drops)


def _of_equal_slots(
    rollouts: Rollouts, generate: Delay, measured: Mapping[str, float], drops: bool
) -> Iterator[tuple[str, Prediction]]:
    slots, samples, train = rollouts.slots, rollouts.batch * rollouts.group, rollouts.train.mean
    pause = _pause(rollouts)
    bounds = throughput_bounds(rollouts)
    for name, bound in bounds._asdict().items():
        if math.isfinite(bound):
            yield "samples_per_second", Prediction(bound, "≤", name)
    if rollouts.during_sync == "drain" or not is_zero(rollouts.reward):
        return
    together = rollouts.steps_per_take
    synchronous = rollouts.lead == 0 and rollouts.sync_every == together and is_zero(rollouts.sync)
    if synchronous and slots >= together * samples and not drops:
        times = {"train": together * train, "samples": together * samples}
        period = theory.synchronous_period(generate=generate, **times) / together
        yield "steps_per_second", Prediction(1 / period, "=", "synchronous steps")
    if rollouts.sync_every > 1 or together > 1:
        return
    free = rollouts.lead is None and rollouts.capacity is None and rollouts.max_age is None
    useful = rollouts.signal * slots / generate.mean  # samples per second that are generated and trained
    if free and not rollouts.faults and rollouts.refill == "sample" and useful * train < samples:
        reason = "generation is the bottleneck" + (", and pauses" if pause else "")
        yield "steps_per_second", Prediction(1 / (samples / useful + pause), "=", reason)
    if not is_zero(rollouts.sync):
        return
    poisson = isinstance(generate, Exponential) and isinstance(rollouts.train, Constant)
    if rollouts.lead == samples == 1 and slots > 1 and rollouts.order == "submission" and poisson and not drops:
        period = theory.in_order_period(mean=generate.mean, train=train)
        yield "steps_per_second", Prediction(1 / period, "=", "one sample a step, in order")
    if rollouts.lead is None and rollouts.group == 1 and rollouts.order in UNBOUNDED:
        of_faults = _of_faults(rollouts, generate) if rollouts.faults and free else iter(())
        yield from of_faults if rollouts.faults else _of_single_samples(rollouts, generate, measured, poisson)


def _pause(rollouts: Rollouts) -> float:
    """Return the mean seconds of a pause of the trainer for each step."""
    return 0.0 if rollouts.during_sync == "continue" else rollouts.sync.mean / rollouts.sync_every


def throughput_bounds(rollouts: Rollouts) -> theory.ThroughputBounds:
    """Return the bounds of slots, trainer and lead, of rollouts whose slots have one law."""
    same = ("slots", "group", "batch", "generate", "lead", "refill", "sync_every", "steps_per_take", "signal")
    settings: Any = {name: getattr(rollouts, name) for name in same}
    return theory.throughput_bounds(**settings, train=rollouts.train.mean + _pause(rollouts))


def bounds_leave_out(rollouts: Rollouts) -> list[str]:
    """Return what slows these rollouts down and is in none of the bounds."""
    reasons = {
        "the wait for the last sample before new weights": rollouts.during_sync == "drain",
        "the wait for the oldest group": rollouts.order not in UNBOUNDED,
        "groups that are dropped": rollouts.capacity is not None or rollouts.max_age is not None,
        "the time of rewards": not is_zero(rollouts.reward),
        "faults of engines": bool(rollouts.faults),
    }
    return [reason for reason, holds in reasons.items() if holds]


def _of_faults(rollouts: Rollouts, generate: Delay) -> Iterator[tuple[str, Prediction]]:
    """Predict groups of one sample on engines that all come and go alike, where generation is the bottleneck."""
    fault = rollouts.faults[0]
    if len(rollouts.faults) > 1 or not isinstance(fault, Sessions) or fault.worker is not None:
        return
    if not isinstance(fault.online, Exponential):
        return
    slot = preemption(compute=generate, preemption_rate=1 / fault.online.mean, down=fault.offline.mean)
    trained = rollouts.signal * rollouts.slots * slot.commits_per_second
    if trained * rollouts.train.mean >= rollouts.batch:
        return
    reason = "generation is the bottleneck, and engines come and go"
    yield "steps_per_second", Prediction(trained / rollouts.batch, "=", reason)
    yield "trained_length", Prediction(slot.useful * slot.available / slot.commits_per_second, "=", reason)
    if rollouts.signal == 1:
        yield "wasted", Prediction(1 - slot.useful, "=", reason)


def _of_single_samples(
    rollouts: Rollouts, generate: Delay, measured: Mapping[str, float], poisson: bool
) -> Iterator[tuple[str, Prediction]]:
    """Predict groups of one sample without a lead, for which a step never waits for a certain group."""
    slots, samples, train, signal = rollouts.slots, rollouts.batch, rollouts.train.mean, rollouts.signal
    rate = signal * slots / generate.mean / samples  # steps per second, where generation is the bottleneck
    load = rate * train
    system = {"train": train, "slots": slots, "samples": samples}
    if rollouts.capacity is None and rollouts.max_age is None and load < 1:
        versions = theory.versions_per_sample(generate=generate, steps_per_second=rate)
        yield "versions", Prediction(versions, "=", "slots are never idle")
        if signal < 1:
            yield "wasted", Prediction(1 - signal, "=", "groups without a signal are as long as others")
        elif rollouts.order == "completion":
            lag = theory.token_lag(generate=generate, slots=slots, samples=samples, in_queue=measured["in_queue"])
            yield "token_lag", Prediction(lag, "≈", "slots are never idle, and the measured staleness in the queue")
        if poisson:
            queue = theory.unbounded_queue(mean=generate.mean, signal=signal, **system)
            yield "queue", Prediction(queue.queue, "=", "Poisson arrivals")
            yield "staleness", Prediction(queue.staleness, "=", "Poisson arrivals")
            yield "trainer_idle", Prediction(queue.idle, "=", "Poisson arrivals")
    if signal < 1 or rollouts.order != "completion":
        return
    if rollouts.capacity is not None and rollouts.max_age is None and rollouts.capacity % samples == 0:
        batches = rollouts.capacity // samples
        if load > 0:
            limit = theory.fluid(slots=slots, samples=samples, load=load, batches=batches)
            yield "staleness", Prediction(limit.pre_queue + limit.in_queue, "≈", "fluid limit")
        if poisson:
            bounded = theory.bounded_queue(mean=generate.mean, batches=batches, **system)
            yield "queue", Prediction(bounded.queue, "=", "Poisson arrivals")
            yield "steps_per_second", Prediction(bounded.steps_per_second, "=", "Poisson arrivals")
            if not math.isnan(bounded.in_queue):
                yield "in_queue", Prediction(bounded.in_queue, "=", "Poisson arrivals")
    if rollouts.max_age is not None and rollouts.capacity is None and rollouts.stale == "drop" and load < 1:
        cut = theory.age_cutoff(generate=generate, max_age=rollouts.max_age, **system)
        for name, value in (("trained_length", cut.trained_length), ("wasted", cut.wasted)):
            yield name, Prediction(value, "≈", "age bound, fluid limit")


def rollouts_stability(
    rollouts: Rollouts, workload: Bits | None = None, *, steps: int = 400, seeds: int = 4
) -> dict[str, Any]:
    """Predict and measure the largest stable step size of uncorrected stale policy gradients.

    With a baseline that makes the mean advantage 0, the expected gradient is that at the *old* parameters, so training
    on data of staleness τ is stable below (2/h)·sin(π/(2(2τ + 1))), h the largest curvature at the optimum. τ is the
    bound of the admission, or the measured mean without one. The limit is exact if all groups have this staleness.
    `mixture` is that of the mean for independent staleness of the measured distribution.

    Measured is the step size from which the distance from the optimum is larger in the last quarter than in the second
    (`growth`, of the first schedule), by replay with exact expectations. `workload` has one context and a penalty.
    """
    steps = require_integer("steps", steps, least=40, remedy="Quarters of a shorter run say nothing.")
    seeds = require_count("seeds", seeds, remedy="Simulate one schedule or more.")
    workload = Bits(least=6, penalty=0.1) if workload is None else workload
    theta, curvature = workload.optimum()
    near = replace(workload, start=theta + DISTANCE, samples=None, estimator="none", baseline="mean")
    traces = [simulate(rollouts, commits=steps * rollouts.batch, seed=seed) for seed in range(seeds)]
    staleness = np.concatenate([trace.staleness[int(WARM_UP * len(trace)) :] for trace in traces])
    shares = np.bincount(staleness) / len(staleness)
    delay = mean = float(staleness.mean())
    if rollouts.lead is not None and (rollouts.during_sync != "continue" or is_zero(rollouts.sync)):
        delay = theory.staleness_bound(rollouts.lead, sync_every=rollouts.sync_every)
    kappa = 2 * math.sin(math.pi / (2 * (2 * delay + 1)))
    mixture = _limit_of_mixture(shares)
    searches = [_search_limit(trace, near, theta, mixture / curvature, rollouts.batch) for trace in traces]
    limit = mean_on_grid([limit for limit, _ in searches], (FURTHEST ** (2 / GRID)) ** (2 / GRID) - 1)
    rates = {"kappa": kappa, "learning_rate": kappa / curvature, "mixture": mixture / curvature}
    return {
        "staleness": {"mean": mean, "shares": shares.tolist()},
        "same": bool(np.ptp(staleness) == 0),
        "curvature": curvature,
        "predicted": {"staleness": delay, **rates},
        "measured": {"learning_rate": limit.value, "error": limit.error},
        "growth": searches[0][1],
    }


def _limit_of_mixture(shares: NDArray[np.float64]) -> float:
    """Return the least κ > 0 with a root of z - 1 + κ·Σ_s p_s z^-s on the unit circle, for z = e^(iω)."""
    angle = np.linspace(0, math.pi, FREQUENCIES + 1)[1:]
    z = np.exp(1j * angle)
    kappa = (1 - z) / np.polynomial.polynomial.polyval(1 / z, shares)
    crosses = np.flatnonzero(np.diff(np.sign(kappa.imag)) != 0)
    real = np.append(kappa.real[crosses], kappa.real[-1])  # at z = -1, κ is real
    return float(real[real > 0].min())


def _search_limit(
    trace: Trace, workload: Bits, theta: NDArray[np.floating], guess: float, batch: int
) -> tuple[float, list[tuple[float, float]]]:
    """Return the step size from which runs grow, and the growth at each step size of the first pass."""
    rates = np.geomspace(guess / FURTHEST, guess * FURTHEST, GRID)
    coarse = _growth(trace, workload, theta, rates, batch)
    grows = coarse > 1
    if grows[0] or not grows.any():
        raise ValueError(
            f"`steps` must show the limit near a step size of {guess:.3g}; {trace.steps} steps do not. Use more."
        )
    first = int(grows.argmax())
    fine = np.geomspace(rates[first - 1], rates[first], GRID)
    grows_again = _growth(trace, workload, theta, fine, batch) > 1
    first_growing = int(grows_again.argmax()) if grows_again.any() else GRID - 1
    growth = list(zip(rates.tolist(), coarse.tolist(), strict=True))
    return float(np.sqrt(fine[max(first_growing - 1, 0)] * fine[first_growing])), growth


def _growth(
    trace: Trace, workload: Bits, theta: NDArray[np.floating], rates: NDArray[np.float64], batch: int
) -> NDArray[np.float64]:
    """Return the last quarter's largest distance from the optimum over the second's, (rates,), above 1 if far away."""
    seeds = [0] * len(rates)
    run = replay(trace, Downpour(rates), workload, seed=seeds, record={"central": batch}, stop_on_divergence=False)
    distance = np.abs(run.records["central"] - theta).max(axis=-1)
    _, second, _, last = np.array_split(np.nan_to_num(distance, nan=np.inf), 4, axis=1)
    late = np.maximum(last.max(axis=1), SETTLED)
    return np.maximum(late / np.maximum(second.max(axis=1), SETTLED), late / FAR)  # far away it grows no more


def measured_of_pipeline(pipeline: Pipeline, trace: Trace, timetable: Timetable, warm_up: int) -> dict[str, Any]:
    """Measure every stage's mean staleness after a warm-up, micro-batches per second, and the stages' idle share."""
    names = [f"stage{stage}" for stage in range(pipeline.stages)]
    rows = trace.group_staleness[warm_up:] if trace.groups else trace.staleness[warm_up:, None].repeat(len(names), 1)
    means = {name: float(mean) for name, mean in zip(names, rows.mean(axis=0), strict=True)}
    times = trace.commit_time[warm_up:]
    rate = (len(times) - 1) / float(times[-1] - times[0]) if len(times) > 1 else float("nan")
    return {**means, "commits_per_second": rate, "idle": timetable.idle}


def predictions_of_pipeline(pipeline: Pipeline) -> dict[str, list[Prediction]]:
    """Return name of a measured number -> predictions, of the results whose assumptions this pipeline meets."""
    forward, backward = (expand(law, pipeline.stages) for law in (pipeline.forward, pipeline.backward_law))
    laws = [law for law in (*forward, *backward, pipeline.transfer) if isinstance(law, Delay)]
    alike = len(set(forward)) == len(set(backward)) == 1
    constant = alike and all(law.variance == 0 for law in laws)
    predicted: dict[str, list[Prediction]] = {}
    if pipeline.schedule != "concurrent" or (constant and laws[0].mean >= laws[pipeline.stages].mean):
        times = {} if pipeline.schedule != "concurrent" else {"forward": laws[0].mean, "backward": laws[-2].mean}
        transfer = pipeline.transfer.mean if times else 0.0
        stale = pipeline_staleness(pipeline.stages, pipeline.schedule, **times, transfer=transfer)
        reason = "for any law, once the pipeline is full" if not times else "constant times, once the pipeline is full"
        predicted = {f"stage{stage}": [Prediction(float(value), "=", reason)] for stage, value in enumerate(stale)}
    if pipeline.schedule in SYNCHRONOUS and constant and pipeline.transfer.mean == 0:
        assert pipeline.micro_batches is not None
        bubble = pipeline_bubble(pipeline.stages, pipeline.micro_batches)
        predicted["idle"] = [Prediction(bubble, "=", "equal constant passes, whole mini-batches")]
    return predicted
