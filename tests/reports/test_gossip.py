"""Workers on a graph, predicted and simulated. Tolerances are 3.5 standard errors over schedules, or rounding."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, graphs, theory
from asyncsim.cluster._gossip import EXCHANGES
from asyncsim.reports._trace import trace_report
from asyncsim.reports.gossip import consensus_report, distance_left
from asyncsim.reports.staleness import predicted_worker_means, run_prediction, staleness_report, staleness_theory

WORKERS = 9
GRAPHS = ["complete", "exponential", "one_peer", "random_regular", "ring", "star", "torus"]
GAMMA, GAMMA_AS_ONE = delays.Gamma(1.0, 0.5), delays.Gamma(1.0, 1.0)


SLOW = asim.Network(latency=delays.Constant(0.3))


def gossip(graph="ring", exchange="pair", law=GAMMA, workers=WORKERS, **network):
    return asim.Gossip(workers=workers, compute=law, graph=graph, exchange=exchange, **network)


def shares(cluster, size, seeds=12, commits=6000):
    """Shares of staleness 0, 1, … over the second half of each schedule, (seeds, size)."""
    rows = [asim.simulate(cluster, commits=commits, seed=seed).staleness[commits // 2 :] for seed in range(seeds)]
    return np.array([np.bincount(row, minlength=size)[:size] / len(row) for row in rows])


@pytest.mark.parametrize("graph", ["ring", "star", "torus"])
@pytest.mark.parametrize("law", [GAMMA, delays.Exponential(2.0), delays.Uniform(0.5, 2.0), delays.Constant(1.0)])
def test_the_distribution_of_staleness_is_that_of_simulated_pairs(graph, law):
    size = 6
    expected = theory.pair_staleness_pmf(graphs.by_name(graph)().adjacency(WORKERS), law, size)
    measured = shares(gossip(graph, law=law), size)
    errors = measured.std(0, ddof=1) / np.sqrt(len(measured))
    assert (np.abs(measured.mean(0) - expected) <= 3.5 * errors + 1e-9).all()


@pytest.mark.parametrize("law", [GAMMA, delays.Exponential(2.0), delays.Weibull(1.0, shape=0.8)])
def test_two_workers_have_the_staleness_of_two_around_a_server(law):
    """Every commit of the other changes the one variable that it can."""
    expected = theory.staleness_pmf(law, 2, 12)
    assert theory.pair_staleness_pmf([[0, 1], [1, 0]], law, 12) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("graph", [graphs.Star(), graphs.RandomRegular(4)])
def test_the_numerical_distribution_is_the_closed_one_where_there_is_one(graph):
    pairs = graph.adjacency(10)
    closed, numerical = (theory.pair_staleness_pmf(pairs, law, 30) for law in (delays.Exponential(1.0), GAMMA_AS_ONE))
    assert numerical == pytest.approx(closed, abs=1e-7)


@pytest.mark.parametrize("exchange", ["pair", "push", "push_pull", "rounds", "adapt_then_combine"])
def test_the_report_knows_the_staleness_of_an_exchange(exchange):
    cluster = gossip(exchange=exchange)
    report = staleness_report(cluster, commits=4000, seed=0)
    assert report.pmf is not None
    numbers = report.numbers
    assert numbers["total_variation"] <= 3 * numbers["total_variation_by_chance"] + 1e-12
    assert numbers["predicted"]["sd"] == pytest.approx(numbers["simulated"]["sd"], rel=0.1)
    assert run_prediction(cluster, report.trace) == pytest.approx(report.pmf[: report.trace.staleness.max() + 1])


@pytest.mark.parametrize(
    "law",
    [(GAMMA, *[delays.Constant(2.0)] * 8), delays.Mixture([0.5, 0.5], [delays.Constant(1.0), delays.Constant(3.0)])],
    ids=["different workers", "atoms"],
)
def test_the_mean_is_known_where_the_distribution_is_not(law):
    known = staleness_theory(gossip("star", law=law))
    assert (known.mean, known.pmf) == (1.0, None)
    assert asim.simulate(gossip("star", law=law), commits=4000).staleness.mean() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_the_mean_is_known_where_messages_take_time(exchange):
    cluster = gossip("star", exchange, network=SLOW)
    known = staleness_theory(cluster).mean
    assert known is not None
    # Exchanges under way at the end are missing, one for each worker.
    assert asim.simulate(cluster, commits=9000).staleness.mean() == pytest.approx(known, abs=2 * WORKERS / 9000)


def test_worker_means_are_those_of_the_graph():
    means = predicted_worker_means(gossip("star"))
    assert means is not None
    assert means.tolist() == pytest.approx([WORKERS - 1, *[1 / (WORKERS - 1)] * (WORKERS - 1)])
    assert predicted_worker_means(gossip(exchange="rounds")) is None


@pytest.mark.parametrize("exchange", ["pair", "rounds"])
def test_a_trace_is_not_taken_for_that_of_a_server(exchange):
    """The mean staleness is the number of changes by others for each commit, and not n - 1."""
    report = trace_report(asim.simulate(gossip(exchange=exchange), commits=3000))
    assert set(report.predicted) == {"mean_staleness"}
    assert report.predicted["mean_staleness"].value == pytest.approx(float(exchange == "pair"), abs=1e-9)


@pytest.mark.parametrize(
    ("exchange", "graph", "law"),
    [
        ("rounds", "ring", GAMMA),
        ("adapt_then_combine", "star", GAMMA),
        ("pair", "complete", delays.Exponential(1.0)),
    ],
    ids=["rounds", "adapt then combine", "pair"],
)
def test_consensus_and_noise_are_those_of_theory(exchange, graph, law):
    report = consensus_report(gossip(graph, exchange, law, workers=6), rounds=100)
    assert set(report["predicted"]) == {"distance_left", "noise_apart", "noise_of_mean"}
    for name, (prediction,) in report["predicted"].items():
        # Exact but for 2048 squares of noise, and within a tenth where staleness is left out.
        allowed = 0.15 if prediction.relation == "=" else 0.25
        assert report["measured"][name] == pytest.approx(prediction.value, rel=allowed), name


@pytest.mark.parametrize("graph", ["ring", "star"])
@pytest.mark.parametrize("exchange", ["rounds", "adapt_then_combine"])
def test_a_round_leaves_the_squares_of_the_eigenvalues(exchange, graph):
    trace = asim.simulate(gossip(graph, exchange), commits=4 * WORKERS)
    values = np.linalg.eigvalsh(graphs.by_name(graph)().weights(WORKERS))[:-1]
    assert distance_left(trace, 1) == pytest.approx([np.mean(values**2)] * 4)


def test_random_pairs_leave_what_theory_says():
    trace = asim.simulate(gossip("torus", law=delays.Exponential(1.0)), commits=100 * WORKERS)
    left = distance_left(trace, WORKERS)
    expected = theory.pair_consensus(graphs.Torus().adjacency(WORKERS), WORKERS)
    assert abs(left.mean() - expected) < 3.5 * left.std() / np.sqrt(len(left))


@pytest.mark.parametrize(
    ("graph", "exchange"),
    [*((graph, "rounds") for graph in GRAPHS), *(("exponential", name) for name in EXCHANGES if name != "rounds")],
)
def test_every_graph_and_exchange_has_a_report(graph, exchange):
    cluster = gossip(graph, exchange, workers=6)
    report = consensus_report(cluster, rounds=6)
    assert set(report["predicted"]) <= set(report["measured"])
    left = report["predicted"].get("distance_left", ())
    if exchange in ("rounds", "adapt_then_combine"):
        assert [prediction.value for prediction in left] == pytest.approx(
            [report["measured"]["distance_left"]] * len(left)
        )
    known = staleness_theory(cluster)
    assert known.mean == pytest.approx(asim.simulate(cluster, commits=3000).staleness.mean(), abs=0.02)


def test_one_peer_rounds_leave_nothing_after_a_period():
    trace = asim.simulate(gossip("one_peer", "rounds", workers=8), commits=8 * 6)
    assert distance_left(trace, 3) == pytest.approx([0, 0])


def test_messages_that_bring_older_values_have_no_distance():
    cluster = gossip(network=SLOW)
    with pytest.raises(ValueError, match="older"):
        distance_left(asim.simulate(cluster, commits=20), 1)
    assert set(consensus_report(cluster, rounds=2)["measured"]) == {"noise_apart", "noise_of_mean"}


def test_one_variable_has_no_distance():
    with pytest.raises(ValueError, match="several variables"):
        distance_left(asim.Trace.from_commits([0, 1]), 1)


@pytest.mark.parametrize("exchange", ["push", "push_sum"])
def test_reports_know_graphs_with_directed_edges(exchange):
    cluster = gossip(np.roll(np.eye(WORKERS), 1, axis=1) + np.eye(WORKERS, k=2), exchange)
    trace = asim.simulate(cluster, commits=WORKERS * 300)
    assert staleness_theory(cluster).mean == (1 if exchange == "push" else 0)
    assert abs(trace.staleness.mean() - staleness_theory(cluster).mean) < WORKERS / len(trace) * 2
    assert predicted_worker_means(cluster) is None
    assert set(consensus_report(cluster, rounds=20)["measured"]) >= {"noise_apart", "noise_of_mean"}
