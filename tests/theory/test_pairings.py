"""Random groups, drift in windows, and NoLoCo: closed forms against replays. Tolerances are 3.5 standard errors."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import graphs, theory
from tests.problems import refusals

CONSTANT = asim.delays.Constant(1.0)
COPIES = 24  # independent coordinates of a quadratic


def replayed(workers, rule, rounds, record, graph=None, seed=0, window=1, noise=1.0):
    """What a rule records, (rounds, workers, copies), on ½x² with noise."""
    cluster = asim.Gossip(
        workers, CONSTANT, graph=graph or graphs.RandomGroups(), exchange="adapt_then_combine", local_steps=window
    )
    trace = asim.simulate(cluster, commits=rounds * workers, seed=seed)
    workload = asim.workloads.Quadratic([1.0] * COPIES, noise=noise, start=0.0)
    values = asim.replay(trace, rule, workload, seed, record=(record,)).records[record]
    ordered = np.empty((rounds, workers, COPIES))
    ordered[np.arange(len(trace)) // workers, trace.worker] = values
    return ordered


def consensus(values):
    """(1/n) Σ |x_i - x̄|² of each coordinate, from an axis of workers before the last."""
    return values.var(axis=-2)


def batches(values, count=20):
    """Means of parts of a run, which are nearly independent."""
    return np.array([part.mean() for part in np.array_split(values, count)])


def assert_within_errors(samples, expected):
    assert abs(samples.mean() - expected) < 3.5 * samples.std(ddof=1) / np.sqrt(len(samples))


@pytest.mark.parametrize(("workers", "size", "groups"), [(8, 2, 4), (9, 3, 3), (7, 2, 4), (10, 4, 3)])
def test_random_groups_leave_the_share_of_theory_whatever_their_sizes(workers, size, groups):
    start = np.arange(workers) ** 2.0
    graph = graphs.RandomGroups(size).drawn(1)
    left = np.array([(graph.weights(workers, number) @ start).var() for number in range(3000)]) / start.var()
    assert_within_errors(left, theory.partition_consensus(groups, workers))


@pytest.mark.parametrize("size", [2, 3, 5])
def test_groups_of_a_round_are_a_partition_into_groups_of_their_size(size):
    graph = graphs.RandomGroups(size, seed=4)
    for number in range(5):
        weights = graph.weights(8, number)
        np.testing.assert_allclose(weights @ weights, weights, atol=1e-15)  # The mean of a group is its own mean.
        members = np.sort((weights > 0).sum(1))[::-1]
        expected = [size] * (8 // size * size) + [8 % size] * (8 % size)
        assert members.tolist() == expected
    assert not np.array_equal(graph.weights(8, 0), graph.weights(8, 1))
    assert not np.array_equal(graph.weights(8, 0), graph.drawn(1).weights(8, 0))


@pytest.mark.parametrize(("step", "window", "workers"), [(0.1, 8, 6), (0.5, 3, 4), (0.3, 20, 9)])
def test_workers_drift_apart_in_a_window_as_theory_says(step, window, workers):
    rule = asim.rules.local(asim.rules.Downpour(1.0), window=window, learning_rate=step)
    values = replayed(workers, rule, 150, "central", graphs.Complete(), window=window)
    expected = theory.local_drift(step, window, workers) * step**2
    assert_within_errors(consensus(values).mean(1), expected)


NOLOCO = [(8, 0.7, 0.5, 0.3), (4, 0.5, 0.3, 0.2), (6, 0.9, 0.6, 0.5)]


@pytest.mark.parametrize(("workers", "outer", "momentum", "curvature"), NOLOCO)
def test_the_outer_weights_of_noloco_are_as_far_apart_as_theory_says(workers, outer, momentum, curvature):
    rule = asim.rules.NoLoCo(curvature, window=1, server_learning_rate=outer, momentum=momentum, optimiser="sgd")
    values = replayed(workers, rule, 2100, "read")[100:]
    expected = theory.noloco_noise_floor(outer, momentum, curvature, workers) * curvature**2
    assert_within_errors(batches(consensus(values)), expected)


def test_noloco_is_its_formulas_with_the_means_of_pairs():
    """An independent recursion m ← μm + α·mean(Δ) + α(mean(φ) - φ), φ ← φ + m, over windows of two local steps."""
    workers, outer, momentum, step, rounds = 6, 0.7, 0.5, 0.2, 12
    rule = asim.rules.NoLoCo(step, window=2, server_learning_rate=outer, momentum=momentum, optimiser="sgd")
    cluster = asim.Gossip(workers, CONSTANT, graph=graphs.RandomGroups(), exchange="adapt_then_combine", local_steps=2)
    trace = asim.simulate(cluster, commits=rounds * workers, seed=5)
    minima = np.arange(workers) ** 2.0
    workload = asim.workloads.Quadratic([1.0], start=1.0, minima=minima[:, None].tolist())
    read = asim.replay(trace, rule, workload, record=("read",)).records["read"]
    phi, velocity = np.ones(workers), np.zeros(workers)
    for number in range(rounds):
        expected = phi[trace.worker[number * workers : (number + 1) * workers]]
        np.testing.assert_allclose(read[number * workers : (number + 1) * workers, 0], expected, rtol=1e-4, atol=1e-5)
        pairs = graphs.RandomGroups().drawn(5).weights(workers, number)
        moved = (1 - step) ** 2 * (phi - minima) + minima - phi
        velocity = momentum * velocity + outer * (pairs @ moved) + outer * (pairs @ phi - phi)
        phi = phi + velocity


@pytest.mark.parametrize(("workers", "expected"), [(4, 0.867), (8, 0.832), (16, 0.818), (10**6, 0.806)])
def test_noloco_diverges_beyond_its_momentum_and_not_below(workers, expected):
    limit = theory.noloco_limit(0.7, workers)
    assert limit == pytest.approx(expected, abs=5e-4)
    assert np.isfinite(theory.noloco_noise_floor(0.7, limit - 1e-3, 0.0, workers))
    assert np.isinf(theory.noloco_noise_floor(0.7, limit + 1e-3, 0.0, workers))


def test_more_momentum_than_the_limit_drives_workers_apart():
    """Flat directions: gradients are noise alone."""
    left = {}
    for momentum in (0.7, 0.95):
        rule = asim.rules.NoLoCo(1e-6, window=1, server_learning_rate=0.7, momentum=momentum, optimiser="sgd")
        values = consensus(replayed(8, rule, 500, "read", noise=1e6)).mean(1)
        left[momentum] = values[-50:].mean() / values[50:100].mean()
    assert left[0.7] < 3
    assert left[0.95] > 1e3


def test_a_round_of_a_group_waits_for_its_own_members_only():
    law = asim.delays.Gamma(1.0, 1.0)
    seconds = {
        size: asim.simulate(
            asim.Gossip(12, law, graph=graphs.RandomGroups(size), exchange="adapt_then_combine"), commits=12 * 200
        ).seconds
        for size in (2, 4, 12)
    }
    complete = asim.simulate(asim.Gossip(12, law, graph="complete", exchange="adapt_then_combine"), commits=12 * 200)
    assert seconds[2] < 0.9 * seconds[4] < 0.9**2 * seconds[12]
    assert seconds[12] == pytest.approx(complete.seconds)


def test_a_longer_run_begins_with_the_shorter_one_in_groups():
    cluster = asim.Gossip(8, asim.delays.Exponential(1.0), graph=graphs.RandomGroups(), exchange="adapt_then_combine")
    short, long = (asim.simulate(cluster, commits=commits, seed=2) for commits in (37, 90))
    assert np.array_equal(long.commit_time[:37], short.commit_time)
    assert np.array_equal(long.worker[:37], short.worker)


def gossip(exchange="adapt_then_combine", graph=None):
    return asim.simulate(
        asim.Gossip(4, asim.delays.Exponential(1.0), graph=graph or graphs.Complete(), exchange=exchange), commits=40
    )


NOLOCO_RULE = asim.rules.NoLoCo(0.1, window=1, optimiser="sgd")
test_exchanges_that_a_commit_of_noloco_would_undo_are_refused = refusals(
    *(
        (name, "`trace` must mix a variable between .* Simulate it with `exchange='adapt_then_combine'")
        for name in ("pair", "push", "rounds")
    ),
    call=lambda name: asim.replay(gossip(name), NOLOCO_RULE, asim.workloads.Quadratic([1.0])),
)
test_pairings_that_cannot_be_are_refused = refusals(
    (lambda: theory.noloco_limit(0.7, 7), "`workers` must be even"),
    (lambda: theory.noloco_limit(0.0, 8), "`outer_step` must be positive"),
    (lambda: theory.noloco_noise_floor(0.7, 1.0, 0.1, 8), "`momentum`"),
    (lambda: theory.partition_consensus(9, 8), "`groups` must be at most 8"),
    (lambda: theory.partition_consensus(1, 1), "`workers` must be at least 2"),
    (lambda: graphs.RandomGroups(1), "`size` must be at least 2; got 1"),
    (lambda: gossip(graph=graphs.RandomGroups(5)), "`size` must be at most the number of workers, 4; got 5"),
    (lambda: gossip("pair", graphs.RandomGroups()), "`exchange` must be in rounds for RandomGroups"),
    call=lambda call: call(),
)
