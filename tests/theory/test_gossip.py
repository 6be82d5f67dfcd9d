"""Noise and bias of gossip: closed forms against replays. Tolerances are 3.5 standard errors of batch means."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import graphs, theory

WORKERS, SEEDS = 6, tuple(range(64))
CONSTANT = asim.delays.Constant(1.0)


def final(exchange, graph, kappa, rounds=200, rule=asim.rules.Downpour, **quadratic):
    """The variables at the end, (seeds, workers), on ½x² with noise of variance 1."""
    cluster = asim.Gossip(workers=WORKERS, compute=CONSTANT, graph=graph, exchange=exchange)
    trace = asim.simulate(cluster, commits=rounds * WORKERS)
    workload = asim.workloads.Quadratic([1.0], **{"noise": 1.0, "start": 0.0, **quadratic})
    return asim.replay(trace, rule(kappa), workload, SEEDS).variables["x"][..., 0]


def assert_within_errors(samples, expected):
    assert abs(samples.mean() - expected) < 3.5 * samples.std() / np.sqrt(len(samples))


@pytest.mark.parametrize(("kappa", "graph"), [(0.1, graphs.Ring()), (0.3, graphs.Star()), (0.5, graphs.Complete())])
@pytest.mark.parametrize("adapt_first", [False, True])
def test_the_noise_of_rounds_is_that_of_theory(kappa, graph, adapt_first):
    values = final("adapt_then_combine" if adapt_first else "rounds", graph, kappa)
    floor = theory.rounds_noise_floor(kappa, graph.weights(WORKERS), adapt_first=adapt_first)
    mean = values.mean(1)
    assert_within_errors(mean**2, floor.mean * kappa**2)
    assert_within_errors(((values - mean[:, None]) ** 2).mean(1), floor.consensus * kappa**2)


@pytest.mark.parametrize("kappa", [0.05, 0.3, 0.6])
@pytest.mark.parametrize("graph", [graphs.Ring(), graphs.Star()])
def test_different_minima_leave_the_bias_of_theory(kappa, graph):
    minima = [[float(place**2)] for place in range(WORKERS)]
    values = final("rounds", graph, kappa, rounds=400, noise=0.0, minima=minima)
    expected = theory.rounds_bias(kappa, graph.weights(WORKERS), np.ravel(minima))
    np.testing.assert_allclose(values, np.broadcast_to(expected, values.shape), rtol=2e-5)
    assert expected.mean() == pytest.approx(np.mean(minima))


@pytest.mark.parametrize("kappa", [0.05, 0.3, 0.6])
@pytest.mark.parametrize("graph", [graphs.Ring(), graphs.Star()])
def test_exact_diffusion_leaves_no_bias(kappa, graph, x64):
    """An independent recursion in NumPy as well, which is followed from the first round on."""
    minima, weights = np.arange(WORKERS) ** 2.0, graph.weights(WORKERS)
    setting = {"noise": 0.0, "minima": minima[:, None].tolist(), "rule": asim.rules.ExactDiffusion}
    x = adapted = corrected = np.zeros(WORKERS)
    for _ in range(5):
        last, adapted = adapted, x - kappa * (x - minima)
        corrected = adapted + x - last
        x = (corrected + weights @ corrected) / 2
    early = final("adapt_then_combine", graph, kappa, rounds=5, **setting)
    np.testing.assert_allclose(early, np.broadcast_to(weights @ corrected, early.shape), rtol=1e-12)
    late = final("adapt_then_combine", graph, kappa, rounds=800, **setting)
    np.testing.assert_allclose(late, minima.mean(), rtol=1e-10)


LAZY = graphs.Weights((0.4 * np.eye(WORKERS) + 0.6 * np.roll(np.eye(WORKERS), 1, axis=1)).tolist())


@pytest.mark.parametrize("kappa", [0.05, 0.2, 0.6])
@pytest.mark.parametrize("exchange", ["rounds", "adapt_then_combine"])
def test_the_mean_takes_one_path_on_every_graph(exchange, kappa):
    """With equal curvatures the mean follows one server's recursion, whatever the weights, to rounding."""
    graphs_of = (graphs.Ring(), graphs.Star(), graphs.RandomGroups(2), graphs.RandomGroups(4), LAZY)
    means = [final(exchange, graph, kappa, rounds=30).mean(1) for graph in graphs_of]
    for mean in means[1:]:
        np.testing.assert_allclose(mean, means[0], atol=1e-6)
    minima = np.arange(WORKERS) ** 2.0
    quiet = final(exchange, graphs.Star(), kappa, rounds=30, noise=0.0, minima=minima[:, None].tolist())
    np.testing.assert_allclose(quiet.mean(1), (1 - (1 - kappa) ** 30) * minima.mean(), rtol=1e-5)


@pytest.mark.parametrize(("kappa", "workers"), [(0.1, 8), (0.3, 4), (0.05, 3)])
def test_the_noise_of_pairs_without_delay_is_that_of_theory(kappa, workers):
    """An independent recursion in NumPy, in which each gradient is taken at the value just before the average."""
    generator, runs = np.random.default_rng(workers), 4000
    values, run = np.zeros((runs, workers)), np.arange(runs)
    for _ in range(int(12 * workers / kappa)):
        i = generator.integers(workers, size=runs)
        j = (i + generator.integers(1, workers, size=runs)) % workers
        mean = (values[run, i] + values[run, j]) / 2
        values[run, i], values[run, j] = mean - kappa * values[run, i] - generator.standard_normal(runs), mean
    floor = theory.pair_noise_floor(kappa, workers)
    assert_within_errors(values.mean(1) ** 2, floor.mean)
    assert_within_errors(values.var(1), floor.consensus)


KITE = graphs.Edges([(0, 1), (1, 2), (2, 3), (3, 1)])


@pytest.mark.parametrize(
    ("graph", "workers"), [(graphs.Ring(), 5), (graphs.Ring(), 8), (graphs.Ring(), 11), (graphs.Star(), 7), (KITE, 4)]
)
def test_the_second_moment_of_pairs_is_the_sum_over_all_edges(graph, workers):
    """X ← Σ p_e W_e X W_e, written out."""
    pairs = graph.adjacency(workers)
    moments = np.eye(workers) - 1 / workers
    for commits in range(1, 13):
        after = np.zeros_like(moments)
        for i, j in np.argwhere(pairs):  # Each worker is as likely as another, and so is each of its neighbours.
            mixing = np.eye(workers)
            mixing[np.ix_([i, j], [i, j])] = 0.5
            after += mixing @ moments @ mixing / (workers * pairs[i].sum())
        moments = after
        assert np.trace(moments) / (workers - 1) == pytest.approx(theory.pair_consensus(pairs, commits), rel=1e-13)


@pytest.mark.parametrize("workers", [4, 8, 13])
def test_the_mean_mixing_of_a_ring_has_the_gap_of_its_second_eigenvalue(workers):
    """λ₂(E W) = 1 - (1 - cos 2π/n)/n, whose powers bound the second moment from above."""
    pairs = graphs.Ring().adjacency(workers)
    mean = np.eye(workers) * (1 - 1 / workers) + pairs / (2 * workers)
    gap = (1 - np.cos(2 * np.pi / workers)) / workers
    assert theory.spectral_gap(mean) == pytest.approx(gap, rel=1e-12)
    for commits in (1, 20):
        assert theory.pair_consensus(pairs, commits) < (1 - gap) ** commits


@pytest.mark.parametrize("workers", [4, 8, 15])
def test_one_pair_of_all_workers_leaves_one_part_less_of_n_minus_one(workers):
    left = theory.pair_consensus(graphs.Complete().adjacency(workers), 1)
    assert left == pytest.approx(1 - 1 / (workers - 1), rel=1e-14)


def test_noise_grows_without_bound_beyond_the_limit():
    ring = graphs.Ring().weights(8)
    # The least eigenvalue of this ring is -1/3, and 1/3 + κ reaches 1 at κ = 2/3 … while the mean allows 2.
    assert np.isfinite(theory.rounds_noise_floor(0.66, ring).consensus)
    assert np.isinf(theory.rounds_noise_floor(0.67, ring).consensus)
    assert np.isfinite(theory.rounds_noise_floor(0.67, ring, adapt_first=True).consensus)
    assert np.isinf(theory.pair_noise_floor(4.0, 8).mean)


def test_push_sum_is_stochastic_gradient_push_in_its_sums_and_weights():
    """An independent recursion s ← P·(s - η·g(s/w)), w ← P·w, with different minima, on a directed graph."""
    graph = graphs.Directed((np.roll(np.eye(WORKERS), 1, axis=1) + np.eye(WORKERS, k=2)).astype(int).tolist())
    minima, shares = np.arange(WORKERS) ** 2.0, graph.shares(WORKERS)
    values = final("push_sum", graph, 0.2, rounds=25, noise=0.0, minima=minima[:, None].tolist())
    sums, weights = np.zeros(WORKERS), np.ones(WORKERS)
    for _ in range(25):
        sums, weights = shares @ (sums - 0.2 * (sums / weights - minima)), shares @ weights
    np.testing.assert_allclose(values, np.broadcast_to(sums / weights, values.shape), rtol=1e-5)
