"""Gossip: what the trace says of mixings and staleness, and what is refused. Tolerances are 3.5 standard errors."""

import dataclasses
import tracemalloc

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import graphs, theory
from asyncsim.cluster._gossip import EXCHANGES, IN_TURN, ROUNDS
from asyncsim.trace._columns import MIXING_COLUMNS as COLUMNS
from asyncsim.trace._columns import Mixings
from asyncsim.trace._invariants import conservation
from tests.problems import refusals

EXPONENTIAL = asim.delays.Exponential(1.0)
GRAPHS = {
    "complete": graphs.Complete(),
    "ring": graphs.Ring(),
    "torus": graphs.Torus(),
    "star": graphs.Star(),
    "exponential": graphs.Exponential(),
    "random_regular": graphs.RandomRegular(degree=3, seed=2),
    "edges": graphs.Edges((np.triu(np.ones((8, 8)), 1) + np.tril(np.ones((8, 8)), -1)).tolist()),
}

NETWORKS = {
    "instant": asim.Network(),
    "far": asim.Network(latency=asim.delays.Exponential(0.4)),
    "narrow": asim.Network(bandwidth=20.0, message_bytes=8.0),
    "uneven": asim.Network(latency=asim.delays.Constant(0.1), bandwidth=[4.0 + w for w in range(8)], message_bytes=2.0),
}


def gossip(commits=20_000, seed=0, **kwargs):
    return asim.simulate(asim.Gossip(**{"workers": 8, "compute": EXPONENTIAL, **kwargs}), commits=commits, seed=seed)


def mixed(trace, values):
    """The variables after all mixings of a trace, without gradients, by a plain loop."""
    values, table, row = np.array(values, float), trace.mixings, 0
    versions = [[value] for value in values]
    for event in np.unique(table.event):
        rows = np.flatnonzero(table.event == event)
        before = int(table.before[rows[0]])
        for variable in trace.variable[row:before]:  # Commits without gradients are new versions, too.
            versions[variable].append(values[variable].copy())
        row, after = before, {}
        for k in rows.tolist():
            source, version = table.source[k], table.source_version[k]
            value = values[source] if version < 0 else versions[source][version]
            after[int(table.target[k])] = after.get(int(table.target[k]), 0.0) + table.weight[k] * value
        for target, value in after.items():
            values[target] = value
            if not table.own[rows][table.target[rows] == target][0]:
                versions[target].append(np.copy(value))
    return values


@pytest.mark.parametrize(
    ("graph", "workers"),
    [*((name, 8) for name in GRAPHS), ("complete", 2), ("ring", 5), ("star", 13), ("random_regular", 20)],
)
@pytest.mark.parametrize("law", [EXPONENTIAL, asim.delays.Gamma(1.0, 0.3), asim.delays.Pareto(1.0, 2.5)])
def test_the_mean_staleness_of_pairs_is_one_for_every_graph_and_law(graph, workers, law):
    trace = gossip(workers=workers, graph=GRAPHS[graph], compute=law)
    # Each commit changes one variable of another: all changes are seen by some job, up to those in flight.
    aged, pairs = conservation(trace)
    assert aged == pairs == len(trace)
    in_flight = aged - trace.staleness.sum()
    assert 0 <= in_flight < 200
    assert trace.staleness.mean() == 1 - in_flight / len(trace)


@pytest.mark.parametrize(
    ("graph", "workers", "mean"),
    [
        *((name, 8, 1.0) for name in ("ring", "complete", "random_regular")),
        ("complete", 2, 0.3),
        ("ring", 5, 2.0),
        ("torus", 12, 1.0),
        ("exponential", 16, 0.3),
        ("random_regular", 20, 2.0),
    ],
)
def test_staleness_of_pairs_is_geometric_with_exponential_times_on_regular_graphs(graph, workers, mean):
    """P(k) = 2^(-k-1), whatever the number of workers, their graph and the mean of their times."""
    staleness = gossip(workers=workers, graph=GRAPHS[graph], compute=asim.delays.Exponential(mean)).staleness
    for k, expected in enumerate(2.0 ** -np.arange(1, 5)):
        # Neighbouring jobs share changes: twice the error of independent ones.
        error = 2 * np.sqrt(expected * (1 - expected) / len(staleness))
        assert abs((staleness == k).mean() - expected) < 3.5 * error


@pytest.mark.parametrize(("graph", "workers"), [("star", 8), ("star", 5), ("ring", 8), ("random_regular", 12)])
def test_each_workers_staleness_is_that_of_theory(graph, workers):
    trace = gossip(workers=workers, graph=GRAPHS[graph], commits=40_000)
    predicted = theory.pair_staleness(GRAPHS[graph].adjacency(workers))
    for worker, expected in enumerate(predicted):
        own = trace.staleness[trace.worker == worker]
        assert abs(own.mean() - expected) < 3.5 * 2 * own.std() / np.sqrt(len(own))


@pytest.mark.parametrize("network", NETWORKS)
def test_staleness_and_the_changes_that_jobs_see_are_one_number(network):
    """Pairs change one other variable in every exchange, whether messages take time or not."""
    for exchange, others in (("pair", 1), ("push", 1), ("push_pull", 2)):
        trace = gossip(graph="ring", commits=400, network=NETWORKS[network], exchange=exchange)
        aged, changes = conservation(trace)
        assert aged == changes
        in_flight = 8 * others if exchange != "push_pull" or network != "instant" else 0
        expected = (1 if network == "instant" else others) * len(trace)
        assert expected - in_flight <= changes <= expected + 8


@pytest.mark.parametrize("exchange", ["rounds", "adapt_then_combine"])
def test_rounds_have_no_staleness(exchange):
    trace = gossip(exchange=exchange, commits=804)
    assert not trace.staleness.any()
    assert conservation(trace)[0] == conservation(trace)[1]


@pytest.mark.parametrize("graph", GRAPHS)
def test_weights_are_doubly_stochastic(graph):
    weights = GRAPHS[graph].weights(8)
    assert (weights >= 0).all()
    np.testing.assert_allclose([weights.sum(0), weights.sum(1)], 1, rtol=1e-14)


@pytest.mark.parametrize(("workers", "rounds"), [(4, 2), (8, 3), (32, 5)])
def test_one_peer_exponential_graphs_give_the_exact_mean_after_log2_rounds(workers, rounds):
    trace = gossip(rounds * workers, workers=workers, graph=graphs.OnePeer(), exchange="rounds")
    start = np.random.default_rng(0).standard_normal(workers)
    np.testing.assert_allclose(mixed(trace, start), start.mean(), atol=1e-15)


def test_weights_are_computed_once_unless_they_change():
    class Counting(graphs.Ring, named=False):
        def weights(self, workers, round=0):
            asked.append(round)
            return super().weights(workers, round)

    class Constant(Counting, named=False):
        def period(self, workers):
            return 1

    for graph, expected in ((Counting(), [0, 1, 2, 3]), (Constant(), [0])):
        asked: list[int] = []
        gossip(32, graph=graph, exchange="rounds")
        assert asked == expected


def random_directed(workers, seed):
    """A ring with one direction and some edges more."""
    edges = np.roll(np.eye(workers), 1, axis=1) + (np.random.default_rng(seed).random((workers, workers)) < 0.3)
    return graphs.Directed((edges > 0).astype(int).tolist())


@pytest.mark.parametrize(("workers", "seed"), [(4, 0), (8, 1), (13, 2)])
def test_push_sum_keeps_both_sums_and_agrees_on_the_mean(workers, seed):
    graph, start = random_directed(workers, seed), np.random.default_rng(seed).standard_normal(workers)
    weights = np.ones(workers)
    assert not np.allclose(graph.shares(workers).sum(1), 1)
    for rounds in range(0, 160, 40):
        trace = gossip(rounds * workers, workers=workers, graph=graph, exchange="push_sum") if rounds else None
        values = start if trace is None else mixed(trace, start)
        assert (weights * values).sum() == pytest.approx(start.sum(), abs=1e-14 * workers)
        assert weights.sum() == pytest.approx(workers, rel=1e-14)
        weights = np.linalg.matrix_power(graph.shares(workers), 40) @ weights
    np.testing.assert_allclose(values, start.mean(), rtol=1e-13)


@pytest.mark.parametrize("exchange", [name for name in EXCHANGES if name not in ("push", "push_sum")])
def test_mixings_keep_the_mean(exchange):
    start = np.random.default_rng(0).standard_normal(8)
    assert mixed(gossip(exchange=exchange, commits=80), start).mean() == pytest.approx(start.mean(), abs=1e-14)


@pytest.mark.parametrize(
    ("graph", "workers"),
    [("ring", 5), ("ring", 8), ("ring", 13), ("complete", 4), ("complete", 8), ("complete", 15), ("star", 8)],
)
def test_pairs_agree_as_fast_as_theory_says(graph, workers):
    """The share of Σ |x - x̄|² that is left after some commits, over many schedules with independent starts."""
    generator, shares = np.random.default_rng(1), []
    for seed in range(100):
        trace = gossip(workers=workers, graph=GRAPHS[graph], commits=6, seed=seed)
        starts = generator.standard_normal((workers, 50))
        left = mixed(trace, starts)
        shares.append(((left - left.mean(0)) ** 2).sum() / ((starts - starts.mean(0)) ** 2).sum())
    error = np.std(shares) / np.sqrt(len(shares))
    assert abs(np.mean(shares) - theory.pair_consensus(GRAPHS[graph].adjacency(workers), 6)) < 3.5 * error


def test_a_worker_draws_its_partners_from_a_stream_of_its_own():
    short, long = gossip(commits=100), gossip(commits=200)
    assert np.array_equal(long.mixings.target[:400], short.mixings.target)
    assert np.array_equal(long.worker[:100], short.worker)


def test_times_are_those_of_workers_without_a_network():
    around = asim.simulate(asim.Cluster(8, EXPONENTIAL), commits=500)
    assert np.array_equal(gossip(commits=500).commit_time, around.commit_time)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_files_keep_variables_and_mixings(exchange, tmp_path):
    trace = gossip(exchange=exchange, commits=100)
    trace.save(tmp_path / "trace.npz")
    read = asim.Trace.load(tmp_path / "trace.npz")
    assert read.digest == trace.digest
    assert np.array_equal(read.mixings.weight, trace.mixings.weight)


def test_jobs_of_a_scenario_have_the_gradients_of_the_rules_window():
    cluster, workload = asim.Gossip(workers=4, compute=asim.delays.Constant(1.0)), asim.workloads.Quadratic([1.0])
    rule = asim.rules.local(asim.rules.Downpour(1.0), window=5, learning_rate=0.1)
    assert asim.Scenario(cluster, rule, workload, commits=4).simulate().commit_time.tolist() == [5.0] * 4
    with pytest.raises(ValueError, match="`local_steps` must be the window of 'downpour_local', 5; got 2"):
        asim.Scenario(dataclasses.replace(cluster, local_steps=2), rule, workload, commits=4)


def test_another_mixing_is_another_trace():
    trace = gossip(commits=100)
    weight = trace.mixings.weight.copy()
    weight[:2] = [0.25, 0.75]
    other = dataclasses.replace(trace, mixings=dataclasses.replace(trace.mixings, weight=weight))
    other.check()
    assert other.digest != trace.digest


@pytest.mark.parametrize("graph", ["ring", "one_peer"])
def test_settings_of_a_graph_are_those_of_a_scenario(graph):
    scenario = asim.Scenario(
        asim.Gossip(workers=6, compute=asim.delays.Gamma(1.0, 0.5)),
        asim.rules.Downpour(0.1),
        asim.workloads.Quadratic([1.0]),
        commits=60,
    )
    changed = scenario.override(graph=graph, exchange="rounds", cv=0.2, workers=9)
    assert changed.cluster.graph == graphs.by_name(graph)()
    assert changed.cluster.compute.cv == pytest.approx(0.2)
    assert changed.digest != scenario.digest
    assert asim.run(changed).run.variables["x"].shape == (9, 1)
    assert scenario.override(graph="random_regular", degree=2).cluster.graph.degree == 2


def test_a_scenario_records_how_far_models_are_apart():
    scenario = asim.Scenario(
        asim.Gossip(workers=6, compute=asim.delays.Gamma(1.0, 0.5)),
        asim.rules.Downpour(0.1),
        asim.workloads.Quadratic([1.0], noise=1.0),
        commits=60,
        record={"consensus_distance": 20},
    )
    run = asim.run(scenario).run
    assert run.recorded_at["consensus_distance"].tolist() == [19, 39, 59]
    assert run.records["consensus_distance"][-1] == pytest.approx(run.evaluate()["consensus_distance"])
    # A server has one model only.
    around = dataclasses.replace(scenario, cluster=asim.Cluster(6, asim.delays.Gamma(1.0, 0.5)), record=None)
    assert "consensus_distance" not in around.reportable
    assert "consensus_distance" in scenario.override(rule="momentum_sgd").strides


def test_bytes_are_those_of_two_variables_for_each_pair_and_each_edge_in_both_directions():
    pairs = asim.cost(gossip(commits=100), message_bytes=1, parameter_bytes=10)
    assert (pairs.bytes_up, pairs.bytes_down) == (2 * 100 * 10, 0)
    rounds = asim.cost(gossip(exchange="rounds", commits=80), message_bytes=1, parameter_bytes=10)
    assert rounds.bytes_up == 10 * 8 * 2 * 10  # ten rounds of a ring of eight
    pushed = asim.cost(gossip(exchange="push", commits=100), message_bytes=1, parameter_bytes=10)
    assert pushed.bytes_up == 100 * 10


@pytest.mark.parametrize("exchange", IN_TURN)
def test_bytes_and_seconds_of_slow_exchanges_are_those_of_the_messages(exchange):
    """A model counts when it arrives, and a worker's time is computing, or waiting for its exchange."""
    trace = gossip(exchange=exchange, commits=400, network=NETWORKS["narrow"])
    spent = asim.cost(trace, message_bytes=1, parameter_bytes=8)
    models = (1 if exchange == "push" else 2) * len(trace)
    # Up to one exchange of each worker is under way.
    assert abs(spent.bytes_up / 8 - models) <= 16
    assert {name for name, part in spent.seconds.items() if part.any()} == {"compute", "upload"}
    np.testing.assert_allclose(spent.seconds["compute"] + spent.seconds["upload"], spent.duration)
    sizes = asim.costs.sizes(
        asim.Scenario(
            asim.Gossip(workers=8, compute=EXPONENTIAL, exchange=exchange, network=NETWORKS["narrow"]),
            asim.rules.Downpour(0.1),
            asim.workloads.Quadratic([1.0]),
            commits=8,
        )
    )
    assert sizes["parameter_bytes"] == 8  # those of the network


FAR = asim.Network(latency=asim.delays.Constant(0.25))
NARROW = asim.Network(bandwidth=8.0, message_bytes=4.0)  # half a second for a model


@pytest.mark.parametrize(
    ("exchange", "network", "period"),
    [
        ("pair", FAR, 1.5),  # there and back
        ("push", FAR, 1.0),  # A message on its way keeps nobody waiting,
        ("push", asim.Network(bandwidth=2.0, message_bytes=4.0), 2.0),  # but the link carries one at a time.
        ("push_pull", FAR, 1.0),
        ("push_pull", asim.Network(latency=asim.delays.Constant(0.75)), 1.5),  # An exchange begins after the last.
        ("rounds", FAR, 1.0),  # The models travel while gradients are computed,
        ("rounds", asim.Network(latency=asim.delays.Constant(1.25)), 1.25),  # which is hidden if it takes longer.
        ("rounds", NARROW, 1.0),
        ("adapt_then_combine", FAR, 1.25),
        ("adapt_then_combine", NARROW, 2.0),  # Two models leave each worker of a ring.
    ],
)
def test_workers_wait_for_what_they_need(exchange, network, period):
    """Two workers that compute for a second, or four on a ring in rounds, all commit together and once a period."""
    workers = 4 if exchange in ROUNDS else 2
    trace = gossip(
        workers=workers, compute=asim.delays.Constant(1.0), exchange=exchange, network=network, commits=12 * workers
    )
    times = trace.commit_time.reshape(12, workers)
    assert np.ptp(times, axis=1).max() < 1e-12
    np.testing.assert_allclose(np.diff(times[2:, 0]), period)


def test_the_centre_of_a_star_sends_one_model_after_another():
    for exchange, period in (("adapt_then_combine", 1 + 7 * 0.5), ("rounds", 7 * 0.5)):
        trace = gossip(
            compute=asim.delays.Constant(1.0), graph="star", exchange=exchange, network=NARROW, commits=8 * 5
        )
        np.testing.assert_allclose(np.diff(trace.commit_time[::8]), period)


def test_models_that_are_sent_to_one_worker_arrive_one_after_another():
    cluster = asim.Gossip(8, asim.delays.Constant(1.0), graph="star", exchange="push", network=NARROW)
    mixings = asim.simulate(cluster, seconds=4.6).mixings
    np.testing.assert_allclose(np.unique(mixings.time[mixings.target == 0]), np.arange(1.5, 4.6, 0.5))


@pytest.mark.parametrize("exchange", ["push", *ROUNDS])
def test_slow_messages_change_when_workers_commit_and_not_with_whom_they_exchange(exchange):
    fast, slow = (gossip(exchange=exchange, commits=160, network=network).mixings for network in (asim.Network(), FAR))
    for worker in range(8):
        partners = [of.target[(of.source == worker) & (of.target != worker)] for of in (fast, slow)]
        common = min(map(len, partners))
        assert common > 5
        assert np.array_equal(partners[0][:common], partners[1][:common])


@pytest.mark.parametrize("network", ["far", "narrow", "uneven"])
def test_both_halves_of_a_pair_move_by_the_same_however_long_the_messages_take(network):
    """Without gradients, the sum of all variables is what it was as soon as no exchange is half done."""
    trace = gossip(commits=60, graph="complete", network=NETWORKS[network])
    start = np.random.default_rng(0).standard_normal(8)
    table = trace.mixings
    answered = {}  # commits whose first half is done: worker -> the change of its partner
    for event in np.unique(table.event):
        upto = dataclasses.replace(
            trace, mixings=Mixings(**{name: getattr(table, name)[table.event <= event] for name in COLUMNS})
        )
        change = mixed(upto, start).sum() - start.sum()
        row = int(np.flatnonzero(table.event == event)[0])
        target, source = int(table.target[row]), int(table.source[table.event == event][-1])
        if table.own[row]:
            answered.pop(target)
        else:
            answered[source] = change - sum(answered.values())
        assert change == pytest.approx(sum(answered.values()), abs=1e-13)


def test_push_moves_the_mean_and_push_pull_does_not():
    start = np.arange(8.0)
    assert abs(mixed(gossip(exchange="push", commits=80), start).mean() - 3.5) > 1e-3
    assert mixed(gossip(exchange="push_pull", commits=80), start).mean() == pytest.approx(3.5, abs=1e-13)


def test_the_size_of_a_message_is_that_of_the_model_of_a_scenario():
    scenario = asim.Scenario(
        asim.Gossip(workers=2, compute=asim.delays.Constant(1.0), network=asim.Network(bandwidth=10.0)),
        asim.rules.Downpour(0.1),
        asim.workloads.Quadratic([1.0] * 5),
        commits=8,
    )
    # Five numbers of four bytes take 2 s there and 2 s back.
    assert scenario.simulate().commit_time[0] == 5.0


@pytest.mark.parametrize("pairs", [[(0, 1)], [(0, 1), (1, 0)], [(0, 1), (1, 2), (2, 0)], [(2, 0), (1, 2)]])
def test_pairs_are_the_graph_of_their_matrix(pairs):
    workers = 1 + max(map(max, pairs))
    matrix = np.zeros((workers, workers))
    for i, j in pairs:
        matrix[i, j] = matrix[j, i] = 1
    by_pair, by_row = (asim.Gossip(workers=workers, compute=EXPONENTIAL, graph=graph) for graph in (pairs, matrix))
    assert (by_pair.graph.adjacency(workers) == by_row.graph.adjacency(workers)).all()
    assert (by_pair.graph.adjacency(workers) == matrix).all()


CONSTANT = {"workers": 6, "compute": asim.delays.Constant(1.0)}
test_clusters_that_cannot_be_are_refused = refusals(
    ({"workers": 1}, "`workers` must be at least 2; got 1"),
    ({"graph": "tree"}, "must be one of 'complete'.* got 'tree'"),
    ({"graph": 3}, "`graph` must be a graph; got 3"),
    ({"graph": np.eye(6)}, "`graph` must connect all workers; .* worker 0 reaches 1 of 6"),
    ({"graph": np.ones((5, 5))}, "`pairs` must have one row per worker; got 5 for 6"),
    ({"graph": [[0, 1], [0, 0]]}, "`pairs` must be pairs of different workers, or a symmetric matrix"),
    ({"graph": [(0, 1), (1, 9)]}, "`pairs` must name workers below 6; got 9"),
    ({"graph": [(0, 1), (1, -1)]}, "`pairs` must be pairs"),
    ({"graph": [(0, 1), (1, 0.5), (2, 3)]}, "`pairs` must be pairs"),
    ({"graph": "edges"}, "`graph` must have 'pairs' for 'edges', .* Give graphs.Edges\\(pairs=…\\)"),
    ({"graph": "weights"}, "`graph` must have 'matrix' for 'weights'"),
    ({"graph": [(0, 1, 2)]}, "`pairs` must be pairs"),
    ({"graph": [(0, 1), (2,)]}, "`pairs` must be pairs"),
    ({"graph": [("a", "b")]}, "`pairs` must be pairs"),
    ({"graph": []}, "`graph` must be a graph"),
    ({"graph": [(0, 1), (2, 3)]}, "`graph` must connect all workers"),
    ({"graph": graphs.Edges}, "`graph` must be a graph; got the class Edges"),
    ({"workers": 10**12}, "`workers` of 1000000000000 on a graph takes at least .* of memory"),
    ({"graph": np.roll(np.eye(6), 1, 0)}, "`exchange` must be 'push_sum' or 'push' for a graph with directed edges"),
    ({"graph": np.roll(np.eye(5), 1, 0)}, "`pairs` must have one row per worker; got 5 for 6"),
    ({"graph": np.triu(np.ones((6, 6)), 1), "exchange": "push"}, "`graph` must connect .* worker 0 hears of 1 of 6"),
    ({"graph": graphs.RandomRegular(degree=6)}, "`degree` must be below the number of workers"),
    ({"graph": "one_peer"}, "`exchange` must be in rounds for OnePeer"),
    ({"exchange": "pairs"}, "`exchange` must be one of .* Did you mean 'pair'"),
    ({"local_steps": [1, 2]}, "`local_steps` must be one number per worker"),
    ({"network": asim.Network(shared=True)}, "`shared` must be left out of the network of workers on a graph"),
    ({"network": asim.Network(compression=0.1)}, "`compression` must be left out .* send their models"),
    ({"network": asim.Network(collective="ring")}, "`collective` must be left out .* `exchange` says"),
    ({"network": asim.Network(bandwidth=[1.0, 2.0])}, "`bandwidth` must have one number per worker"),
    call=lambda changes: asim.Gossip(**{**CONSTANT, **changes}),
)

TABLE = gossip(commits=40)
HALVES = np.eye(6) / 2 + np.roll(np.eye(6), 1, 1) / 2  # of itself and of the next worker
ROWS_ONLY = np.vstack([[0.5, 0.25, 0.25, 0, 0, 0], HALVES[1:]])
test_weights_that_cannot_be_are_refused = refusals(
    ({"graph": 0.9 * HALVES}, "`matrix` must have rows that sum to 1; row 0 sums to 0.9. Divide it"),
    ({"graph": HALVES + 1e-5}, "`matrix` must have rows that sum to 1; row 0 sums to 1.00006"),
    ({"graph": 2 * np.eye(6) - HALVES}, "`matrix` must be square, of numbers that are at least 0"),
    ({"graph": np.where(HALVES > 0, np.nan, HALVES)}, "`matrix` must be square, of numbers that are at least 0"),
    ({"graph": graphs.Weights(HALVES[:5, :5] + HALVES[5, 5] * np.eye(5, k=-4))}, "`matrix` must have one row per"),
    ({"graph": ROWS_ONLY}, "`matrix` must have columns that sum to 1; column 1 sums to 0.75.*`exchange='push_sum'`"),
    ({"graph": ROWS_ONLY.T}, "`matrix` must have rows that sum to 1; row 1 sums to 0.75"),
    ({"graph": ROWS_ONLY, "exchange": "push_sum"}, "`matrix` must have columns .* a column has the shares"),
    ({"graph": np.kron(np.eye(3), np.full((2, 2), 0.5))}, "`graph` must connect all workers; .* reaches 2 of 6"),
    *(
        ({"graph": HALVES, "exchange": name}, "`exchange` must be in rounds for a graph with weights")
        for name in IN_TURN
    ),
    call=lambda changes: asim.Gossip(**{**CONSTANT, "exchange": "rounds", **changes}),
)


def sparse(workers, seed):
    """A random doubly stochastic matrix: a mean of permutations, with the identity."""
    generator = np.random.default_rng(seed)
    shares = generator.dirichlet(np.ones(4))
    orders = [np.arange(workers), (np.arange(workers) + 1) % workers, *(generator.permutation(workers) for _ in "ab")]
    parts = [share * np.eye(workers)[order] for share, order in zip(shares, orders, strict=True)]
    return np.sum(parts, axis=0)


@pytest.mark.parametrize(("workers", "dtype"), [(2, float), (5, float), (8, np.float32)])
@pytest.mark.parametrize("exchange", ["rounds", "adapt_then_combine"])
def test_weights_of_a_users_own_are_those_of_each_round(workers, dtype, exchange):
    matrix = sparse(workers, seed=workers).astype(dtype)
    trace = gossip(commits=4 * workers, workers=workers, graph=matrix, exchange=exchange)
    trace.check()
    values = np.random.default_rng(0).standard_normal(workers)
    expected, rounds = values, len(np.unique(trace.mixings.event))
    for _ in range(rounds):
        expected = matrix.astype(float) @ expected
    np.testing.assert_allclose(mixed(trace, values), expected, atol=1e-6)
    assert mixed(trace, values).mean() == pytest.approx(values.mean(), abs=1e-14 if dtype is float else 1e-6)


@pytest.mark.parametrize("error", [1e-9, -1e-9, 1e-7])
def test_sums_that_miss_one_by_rounding_are_made_exact(error):
    trace = gossip(commits=30, workers=6, graph=HALVES * (1 + error), exchange="rounds")
    trace.check()
    totals = np.bincount(trace.mixings.event * 6 + trace.mixings.target, trace.mixings.weight)
    np.testing.assert_allclose(totals, 1, rtol=1e-15)


@pytest.mark.parametrize("seed", range(3))
def test_shares_of_a_users_own_are_those_of_push_sum(seed):
    shares = np.random.default_rng(seed).dirichlet(np.ones(5), size=5).T  # columns sum to 1, rows do not
    trace = gossip(commits=5 * 40, workers=5, graph=shares, exchange="push_sum")
    values, sums, sizes = np.arange(5.0) ** 2, np.arange(5.0) ** 2, np.ones(5)
    for _ in range(40):
        sums, sizes = shares @ sums, shares @ sizes
    np.testing.assert_allclose(mixed(trace, values), sums / sizes, rtol=1e-12)
    np.testing.assert_allclose(sums / sizes, values.mean(), rtol=1e-9)


def test_random_groups_make_few_entries_in_each_round():
    """A matrix of 4 000 workers has 128 MB."""
    tracemalloc.start()
    try:
        target, source, weight = graphs.entries(graphs.RandomGroups(size=2), 4000, round=3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2e6
    assert len(target) == len(source) == 8000
    assert target[target == source].tolist() == list(range(4000))  # Everybody is in a group of its own.
    assert {*zip(target, source, strict=True)} == {*zip(source, target, strict=True)}
    assert (weight == 0.5).all()


OTHERS = {name: np.array(getattr(TABLE.mixings, name)) for name in Mixings.__dataclass_fields__}
test_damaged_mixings_are_refused = refusals(
    ({"weight": OTHERS["weight"] * 0.9}, "`mixings.weight` must sum to 1"),
    ({"target": OTHERS["target"] + 7}, "`mixings.target` must be from 0 to 7"),
    ({"own": ~OTHERS["own"]}, "`version` must count the changes of its variable"),
    ({"time": OTHERS["time"] + 1e6}, "`mixings.time` must be between the commits"),
    ({"before": OTHERS["before"][::-1]}, "`mixings.before` must be from 0 to 40, and not decrease"),
    ({"event": OTHERS["event"][::-1]}, "`mixings.event` must not decrease"),
    call=lambda changes: dataclasses.replace(TABLE, mixings=Mixings(**OTHERS | changes)).check(),
)
test_what_knows_one_variable_refuses_several = refusals(
    (lambda: TABLE.to_columns(unfinished=True), "must have one variable here; got one with 8. A flat table"),
    (lambda: asim.calibrate(TABLE), "must have one variable here"),
    (lambda: asim.trace.with_gap(TABLE, 1), "must have one variable here"),
    (lambda: dataclasses.replace(TABLE, variables=1, variable=None).check(), "`mixings.target` must be from 0 to 0"),
    call=lambda use: use(),
)
