"""Workers on a graph: how fast their variables agree, and the noise that remains, predicted and measured."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np

from asyncsim import theory
from asyncsim._checks import require_count, require_positive
from asyncsim.cluster import Gossip, graphs, simulate
from asyncsim.cluster._gossip import ROUNDS
from asyncsim.components._checked import checked
from asyncsim.delays import Exponential
from asyncsim.delays._per_worker import distinct
from asyncsim.engine import replay
from asyncsim.reports.rollouts import Prediction
from asyncsim.rules import Downpour
from asyncsim.trace import Trace
from asyncsim.workloads import Quadratic

__all__ = ["consensus_report", "distance_left"]

KAPPA = 0.1  # η·h of the quadratic on which noise is measured
MOST_ROUNDS = 200  # over which the distance left is averaged
COPIES, SEEDS = 64, 32  # independent coordinates and seeds of noise


@checked
def consensus_report(gossip: Gossip, rounds: int = 400, seed: int = 0, kappa: float = KAPPA) -> dict[str, Any]:
    """Measure how fast variables agree and how far noise keeps them apart, next to each prediction of theory.

    A round is as many commits as there are workers. `distance_left` is the share of Σ |x_i - x̄|² that the mixings of
    one round leave, without gradients, from independent values, where no message brings an older value. `noise_apart`,
    (1/n) Σ |x_i - x̄|², and `noise_of_mean`, |x̄|², are measured at the end of a replay of DOWNPOUR on ½hx², in units of
    the variance of an update's noise, η²s².

    Args:
        gossip: The workers and their graph.
        rounds: Number of simulated rounds, over the first 200 of which `distance_left` is averaged.
        seed: Seed of the schedule.
        kappa: η·h, step size times curvature, no unit.

    Returns:
        `measured`, name -> value, and `predicted`, name -> list of `Prediction` (value, relation, reason).

    Example:
        >>> import asyncsim as asim
        >>> gossip = asim.Gossip(workers=4, compute=asim.delays.Constant(1.0), graph="ring", exchange="rounds")
        >>> report = consensus_report(gossip, rounds=100)
        >>> round(report["measured"]["distance_left"], 4), round(report["predicted"]["distance_left"][0].value, 4)
        (0.1111, 0.1111)
    """
    kappa = require_positive("kappa", kappa, remedy="Give η·h, the step size times the curvature.")
    require_count("rounds", rounds, remedy="Simulate some hundred rounds.")
    # The trace ends with a round: a replay that stops before the end includes the mixing before the next commit.
    trace = simulate(gossip, commits=rounds * gossip.workers, seed=seed)
    events = max(1, round(len(np.unique(trace.mixings.event)) / rounds))
    measured = {} if _has_messages(trace) else {"distance_left": float(distance_left(trace, events).mean())}
    measured |= _noise(trace, kappa)
    predicted: dict[str, list[Prediction]] = {}
    for name, prediction in _predictions(gossip, kappa):
        predicted.setdefault(name, []).append(prediction)
    return {"measured": measured, "predicted": predicted}


@checked
def distance_left(trace: Trace, events: int) -> np.ndarray:
    """Return the shares of Σ |x_i - x̄|² that every so many mixings leave, without gradients.

    Variables begin independent with equal variances, so that a share is |P W P|²/(v - 1) with W the product of the
    mixings, v the number of variables and P = I - 11ᵀ/v.

    Args:
        trace: A trace of several variables.
        events: Number of mixings, each of all variables that are mixed at once.

    Returns:
        (at most 200,) shares, of as many mixings one after another as the trace has.

    Example:
        >>> import asyncsim as asim
        >>> gossip = asim.Gossip(workers=4, compute=asim.delays.Constant(1.0), graph="complete", exchange="rounds")
        >>> distance_left(asim.simulate(gossip, commits=12), events=1).round(12).tolist()
        [0.0, 0.0, 0.0]
    """
    require_count("events", events, remedy="Give the number of mixings.")
    mixings, variables = trace.mixings, trace.variables
    if variables == 1:
        raise ValueError("`trace` must have several variables; got one with 1. Simulate a `Gossip`.")
    if _has_messages(trace):
        raise ValueError(
            "`trace` must have mixings of the values of one moment; here messages bring older ones. Simulate without "
            "a network."
        )
    cuts = np.append(np.flatnonzero(np.diff(mixings.event, prepend=-1)), len(mixings))
    shares = np.empty(min((len(cuts) - 1) // events, MOST_ROUNDS))
    apart = np.eye(variables) - 1 / variables
    for number in range(len(shares)):
        product = np.eye(variables)
        for first, last in pairwise(cuts[number * events : (number + 1) * events + 1]):
            targets, target_index = np.unique(mixings.target[first:last], return_inverse=True)
            sums = np.zeros((len(targets), variables))
            np.add.at(sums, target_index, mixings.weight[first:last, None] * product[mixings.source[first:last]])
            product[targets] = sums
        shares[number] = np.sum((apart @ product @ apart) ** 2) / (variables - 1)
    return shares


def _has_messages(trace: Trace) -> bool:
    """Return whether mixings use values of an earlier moment."""
    return bool((trace.mixings.source_version >= 0).any())


def _noise(trace: Trace, kappa: float) -> dict[str, float]:
    """Measure the noise of the variables and of their mean, in units of η²s²."""
    workload = Quadratic([1.0] * COPIES, noise=1.0, start=0.0)
    run = replay(trace, Downpour(kappa), workload, tuple(range(SEEDS)))
    variables = np.asarray(run.variables["x"], np.float64)  # (seeds, variables, copies)
    mean = variables.mean(1)
    apart = np.mean((variables - mean[:, None]) ** 2)
    return {"noise_apart": float(apart) / kappa**2, "noise_of_mean": float(np.mean(mean**2)) / kappa**2}


def _predictions(gossip: Gossip, kappa: float) -> Iterator[tuple[str, Prediction]]:
    graph: Any = gossip.graph
    laws = gossip.around_a_server().laws
    # A push and its answer average the two as a pair does.
    averages = gossip.exchange in ("pair", "push_pull") and gossip.network.is_instant
    if averages and len(distinct(laws)) == 1:
        with suppress(ValueError):  # of too many workers
            share = theory.pair_consensus(graph.adjacency(gossip.workers), gossip.workers)
            if isinstance(laws[0], Exponential):
                yield "distance_left", Prediction(share, "=", "random pairs")
            else:
                yield "distance_left", Prediction(share, "≈", "random pairs; these times spread commits more evenly")
        if isinstance(graph, graphs.Complete) and gossip.exchange == "pair":
            floor = theory.pair_noise_floor(kappa, gossip.workers)
            yield "noise_apart", Prediction(floor.consensus, "≈", "random pairs without staleness")
            yield "noise_of_mean", Prediction(floor.mean, "≈", "random pairs without staleness")
    if gossip.exchange in ROUNDS and gossip.exchange != "push_sum" and graph.period(gossip.workers) == 1:
        weights = graph.weights(gossip.workers)
        share = np.sum((weights - 1 / len(weights)) ** 2) / (len(weights) - 1)
        yield "distance_left", Prediction(float(share), "=", "the mixing matrix")
        if np.allclose(weights, weights.T):  # not where edges have a direction
            floor = theory.rounds_noise_floor(kappa, weights, adapt_first=gossip.exchange == "adapt_then_combine")
            yield "noise_apart", Prediction(floor.consensus, "=", "eigenvalues of the mixing matrix")
            yield "noise_of_mean", Prediction(floor.mean, "=", "one server's recursion, whatever the graph")
