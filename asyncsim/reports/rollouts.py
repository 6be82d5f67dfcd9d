"""Rollouts: what theory predicts of their summary, beside what a simulation measured."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from asyncsim._checks import require_integer
from asyncsim.cluster import Rollouts
from asyncsim.cluster.rollouts._ledger import Ledger
from asyncsim.delays import Constant, Delay, Exponential
from asyncsim.delays._per_worker import is_zero
from asyncsim.theory import rollouts as theory

__all__ = ["WARM_UP", "Prediction", "predictions", "rollouts_report", "simulated"]

WARM_UP = 0.1  # share of the steps


class Prediction(NamedTuple):
    """What theory says of one number of a ledger's summary.

    Attributes:
        value: The prediction.
        relation: "=" if it is exact, "≤" if it is a bound, "≈" if it is an approximation.
        reason: Which law it is.
    """

    value: float
    relation: str
    reason: str


def rollouts_report(rollouts: Rollouts, steps: int = 1000, seed: int = 0) -> dict[str, Any]:
    """The summary of simulated rollouts, and every prediction that theory has for it.

    Args:
        rollouts: The rollouts.
        steps: Length of the simulation in steps, of which the first tenth is left out.
        seed: Seed of the simulation.

    Returns:
        `measured`, name -> value of the summary, and `predicted`, name -> predictions of it.

    Raises:
        ValueError: If an argument does not fit.

    Example:
        >>> from asyncsim.delays import Constant, Exponential
        >>> rollouts = Rollouts(slots=40, group=2, batch=4, generate=Exponential(1.0), train=Constant(0.5), lead=1)
        >>> report = rollouts_report(rollouts, steps=100)
        >>> report["predicted"]["group_staleness"]
        [Prediction(value=1.0, relation='≤', reason='admission fixes the mean')]
        >>> abs(report["measured"]["group_staleness"] - 1.0) < 0.1
        True
    """
    ledger, warm_up = simulated(rollouts, steps, seed)
    return {"measured": ledger.summary(warm_up=warm_up), "predicted": predictions(rollouts)}


def simulated(rollouts: Rollouts, steps: int, seed: int) -> tuple[Ledger, int]:
    """The ledger of some steps, and how many of them are the warm-up."""
    steps = require_integer("steps", steps, least=2, remedy="Simulate two steps or more.")
    return rollouts.ledger(commits=steps * rollouts.batch, seed=seed), max(1, int(WARM_UP * steps))


def predictions(rollouts: Rollouts) -> dict[str, list[Prediction]]:
    """Name in the summary -> predictions, of every law whose assumptions these rollouts meet."""
    predicted: dict[str, list[Prediction]] = {}
    for name, prediction in _predictions(rollouts):
        predicted.setdefault(name, []).append(prediction)
    return predicted


def _predictions(rollouts: Rollouts) -> Iterator[tuple[str, Prediction]]:
    late = rollouts.during_sync == "continue" and not is_zero(rollouts.sync)
    drops = rollouts.capacity is not None or rollouts.max_age is not None
    if rollouts.lead is not None and not late:
        mean = theory.staleness_bound(rollouts.lead)
        yield "group_staleness", Prediction(mean, "≤", "admission fixes the mean")
        window = rollouts.window if rollouts.order == "window" else 1
        most = theory.largest_staleness(rollouts.order, lead=rollouts.lead, batch=rollouts.batch, window=window)
        if not drops and math.isfinite(most):
            yield "staleness_max", Prediction(most, "≤", "the order of opening")
    if rollouts.max_age is not None:
        yield "staleness_max", Prediction(float(rollouts.max_age), "≤", "the age bound")
    if isinstance(rollouts.generate, Delay) and rollouts.prompt is None:
        yield from _of_equal_slots(rollouts, rollouts.generate, drops)


def _of_equal_slots(rollouts: Rollouts, generate: Delay, drops: bool) -> Iterator[tuple[str, Prediction]]:
    pauses = rollouts.during_sync == "pause"
    train = rollouts.train.mean + (rollouts.sync.mean if pauses else 0.0)
    settings = {"slots": rollouts.slots, "group": rollouts.group, "batch": rollouts.batch}
    bound = theory.throughput_bound(
        **settings, generate=generate, train=train, lead=rollouts.lead, refill=rollouts.refill
    )
    yield "samples_per_second", Prediction(bound, "≤", "slots, trainer and lead")
    if not is_zero(rollouts.sync) or not is_zero(rollouts.reward):
        return
    samples = rollouts.batch * rollouts.group
    if rollouts.lead == 0 and rollouts.slots >= samples and not drops:
        period = theory.synchronous_period(generate=generate, train=train, samples=samples)
        yield "steps_per_second", Prediction(1 / period, "=", "synchronous steps")
    if rollouts.lead is None and rollouts.group == 1 and rollouts.order == "completion":
        yield from _of_single_samples(rollouts, generate)


def _of_single_samples(rollouts: Rollouts, generate: Delay) -> Iterator[tuple[str, Prediction]]:
    """Groups of one sample without a lead, those first that are complete first."""
    slots, samples, train = rollouts.slots, rollouts.batch, rollouts.train.mean
    load = slots / generate.mean * train / samples
    system = {"train": train, "slots": slots, "samples": samples}
    poisson = isinstance(generate, Exponential) and isinstance(rollouts.train, Constant)
    if rollouts.capacity is None and rollouts.max_age is None and load < 1:
        yield "steps_per_second", Prediction(slots / generate.mean / samples, "=", "slots are never idle")
        versions = theory.versions_per_sample(generate=generate, steps_per_second=slots / generate.mean / samples)
        yield "versions", Prediction(versions, "=", "slots are never idle")
        if poisson:
            queue = theory.unbounded_queue(mean=generate.mean, **system)
            yield "queue", Prediction(queue.queue, "=", "Poisson arrivals")
            yield "staleness", Prediction(queue.staleness, "=", "Poisson arrivals")
    if rollouts.capacity is not None and rollouts.max_age is None and rollouts.capacity % samples == 0:
        batches = rollouts.capacity // samples
        fluid = theory.fluid(slots=slots, samples=samples, load=load, batches=batches) if load > 0 else None
        if fluid is not None:
            yield "staleness", Prediction(fluid.pre_queue + fluid.in_queue, "≈", "fluid limit")
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
