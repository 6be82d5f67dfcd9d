"""Several variables: compiled = plain for every rule, cut = whole, seeds and lanes alike, and what is refused."""

import dataclasses
import warnings
from typing import Any

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import graphs
from asyncsim.cluster._gossip import EXCHANGES, IN_TURN
from asyncsim.engine.reference import replay_plainly
from asyncsim.trace._columns import Mixings
from tests.problems import RULES, assert_close, tree_workload

WORKERS = 5
AROUND = {  # wrappers that leave something of their own on the worker or the message, or see the version
    "local": lambda: asim.rules.local(asim.rules.Downpour(0.5), window=2, learning_rate=0.1),
    "compressed": lambda: asim.rules.compressed(asim.rules.MomentumSGD(0.02, momentum=0.8), asim.compressors.TopK(0.4)),
    "worker_adam": lambda: asim.rules.WorkerOptimiser(0.02, optimiser="adam"),
    "scheduled": lambda: asim.rules.scheduled(asim.rules.Downpour(0.1), by=asim.rules.CosineDecay(10, warmup=2)),
}
COLLECTING = {"fedbuff_windows", "fadas", "fadas_delayed", "ca2fl", "rennala_trace", "easgd"}
MINIMA = [[float(i), 2.0 * i] for i in range(WORKERS)]


@pytest.fixture
def quadratic():
    return asim.workloads.Quadratic([1.0, 0.3], noise=0.1, minima=MINIMA)


def gossip(exchange="pair", graph: Any = "ring", commits=43, **kwargs: Any):
    cluster = asim.Gossip(
        workers=WORKERS, compute=asim.delays.Gamma(1.0, 0.7), graph=graph, exchange=exchange, **kwargs
    )
    return asim.simulate(cluster, commits=commits, seed=3)


def assert_equal_variables(run, plain, rtol=1e-10):
    assert_close(run.loss, plain.loss, rtol)
    assert_close(run.central, plain.central, rtol)
    for number, expected in enumerate(plain.variables):
        assert_close(jax.tree.map(lambda leaf, number=number: leaf[number], run.variables), expected, rtol)


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("graph", ["complete", "star"])
def test_variables_equal_those_of_the_plain_loop_for_every_exchange(exchange, graph, x64, quadratic):
    trace, rule = gossip(exchange, graph), asim.rules.HeavyBall(0.05, momentum=0.9)
    assert_equal_variables(asim.replay(trace, rule, quadratic, 1), replay_plainly(trace, rule, quadratic, 1))


DIRECTED = graphs.Directed((np.roll(np.eye(WORKERS), 1, axis=1) + np.eye(WORKERS, k=2)).astype(int).tolist())
SLOW = asim.Network(latency=asim.delays.Exponential(0.4), bandwidth=10.0, message_bytes=3.0)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_variables_equal_those_of_the_plain_loop_where_messages_take_time(exchange, x64, quadratic):
    graph = DIRECTED if exchange == "push_sum" else "complete"
    trace, rule = gossip(exchange, graph, network=SLOW), asim.rules.HeavyBall(0.05, momentum=0.9)
    assert (trace.mixings.source_version >= 0).any() == (exchange in (*IN_TURN, "push_sum"))
    assert_equal_variables(asim.replay(trace, rule, quadratic, 1), replay_plainly(trace, rule, quadratic, 1))


@pytest.mark.parametrize("name", [*AROUND, "downpour", "gem_script"])
@pytest.mark.parametrize("exchange", ["push", "push_sum"])
def test_rules_equal_the_plain_loop_where_models_are_on_their_way(name, exchange, x64):
    graph = DIRECTED if exchange == "push_sum" else "ring"
    trace, workload = gossip(exchange, graph, commits=17, network=SLOW), tree_workload()
    rule = (AROUND.get(name) or RULES[name][0])()
    assert_equal_variables(asim.replay(trace, rule, workload, 3), replay_plainly(trace, rule, workload, 3), 1e-9)


@pytest.mark.parametrize(
    "rule",
    [
        asim.rules.NoLoCo(0.1, window=2, optimiser="sgd"),
        asim.rules.NoLoCo(0.02, window=2, optimiser="adam"),
        asim.rules.local(asim.rules.MomentumSGD(0.5, momentum=0.5), window=2, learning_rate=0.1),
    ],
)
def test_windows_with_random_pairs_equal_the_plain_loop(rule, x64, quadratic):
    """Members of different groups are in different rounds at one time."""
    pairs = graphs.RandomGroups(2)
    trace = gossip("adapt_then_combine", pairs, commits=42, local_steps=2, network=SLOW)
    assert (np.diff(trace.read_version) < 0).any()
    run = asim.replay(trace, rule, quadratic, 1)
    assert_equal_variables(run, replay_plainly(trace, rule, quadratic, 1))
    first = asim.replay(trace, rule, quadratic, 1, commits=17)
    assert np.array_equal(asim.replay(trace, rule, quadratic, 1, resume=first).variables["x"], run.variables["x"])


def with_random_messages(commits=60, events=120, seed=0):
    """A trace whose mixings are of random variables and versions, up to six changes old."""
    generator, base = np.random.default_rng(seed), gossip(commits=commits)
    last, version, read = [0] * WORKERS, np.zeros(commits, np.int32), np.zeros(commits, np.int32)
    rows, times, row, changes = [], np.append(0.0, base.commit_time), 0, np.zeros(WORKERS, np.int32)

    def commit_until(before):
        nonlocal row
        for row in range(row, before):  # noqa: B020
            worker = base.worker[row]
            read[row], version[row] = last[worker], changes[worker]
            changes[worker] += 1
            last[worker] = changes[worker]
        row = before

    for event, before in enumerate(np.sort(generator.integers(0, commits + 1, events)).tolist()):
        commit_until(before)
        targets = np.sort(generator.choice(WORKERS, generator.integers(1, 3), replace=False))
        for target in targets:
            sources, parts = generator.choice(WORKERS, 3), generator.dirichlet(np.ones(3))
            ages = generator.integers(-3, 6, 3)
            for source, part, age in zip(sources, parts, ages, strict=True):
                sent = -1 if age < 0 else max(changes[source] - age, 0)
                rows.append((event, before, times[before], target, source, part, False, sent))
        changes[targets] += 1
    commit_until(commits)
    names = Mixings.__dataclass_fields__
    mixings = Mixings(**{name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})
    rest = dataclasses.replace(base.unfinished, read_version=np.array(last)[base.unfinished.worker])
    versions = {"version": version, "pull_version": version, "read_version": read}
    return dataclasses.replace(base, **versions, mixings=mixings, unfinished=rest)


@pytest.mark.parametrize("seed", range(3))
def test_values_of_any_age_are_those_of_the_plain_loop(seed, x64, quadratic):
    trace, rule = with_random_messages(seed=seed), asim.rules.HeavyBall(0.05, momentum=0.5)
    trace.check()
    run = asim.replay(trace, rule, quadratic, 1)
    assert_equal_variables(run, replay_plainly(trace, rule, quadratic, 1))
    together = asim.replay(trace, rule, quadratic, 1, lanes=3)
    np.testing.assert_allclose(together.variables["x"], run.variables["x"], rtol=1e-12)


def test_a_message_of_the_future_is_refused():
    trace = with_random_messages()
    late = trace.mixings.source_version.copy()
    late[np.flatnonzero(late >= 0)[0]] += 9
    with pytest.raises(asim.TraceError, match=r"`mixings\.source_version` must be a version that the source has had"):
        dataclasses.replace(trace, mixings=dataclasses.replace(trace.mixings, source_version=late)).check()


def test_a_mixing_by_hand():
    """Two workers in turn on ½x²: the average of both, then the gradient at the value that the worker read."""
    law = asim.delays.Constant(1.0)
    trace = asim.simulate(asim.Gossip(workers=2, compute=law, graph="complete"), commits=4)
    assert trace.worker.tolist() == [0, 1, 0, 1]
    assert trace.staleness.tolist() == [0, 1, 1, 1]
    for run in (
        asim.replay(trace, asim.rules.Downpour(0.5), asim.workloads.Quadratic([1.0])),
        replay_plainly(trace, asim.rules.Downpour(0.5), asim.workloads.Quadratic([1.0])),
    ):
        # Read 1 and 1. Worker 0: 1 - ½. Worker 1: (½ + 1)/2 - ½ = ¼, and x0 = ¾. Worker 0, which read ½:
        # (¾ + ¼)/2 - ¼ = ¼, and x1 = ½. Worker 1, which read ¼: (¼ + ½)/2 - ⅛ = ¼, and x0 = ⅜.
        assert run.central["x"].tolist() == [0.3125]
        assert run.loss.tolist() == [0.5, 0.5, 0.125, 0.03125]


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_replay_in_pieces_equals_the_whole_to_the_last_bit(exchange, tmp_path, quadratic):
    trace, rule = gossip(exchange, network=SLOW), asim.rules.MomentumSGD(0.02, momentum=0.8)
    whole = asim.replay(trace, rule, quadratic, (1, 2))
    first = asim.replay(trace, rule, quadratic, (1, 2), commits=17)
    first.save(tmp_path / "run.npz")
    first = asim.engine.Run.load(tmp_path / "run.npz", rule, quadratic)
    rest = asim.replay(trace, rule, quadratic, (1, 2), resume=first)
    assert np.array_equal(rest.loss, whole.loss)
    assert np.array_equal(rest.variables["x"], whole.variables["x"])
    assert np.array_equal(rest.central["x"], whole.central["x"])


def test_seeds_in_one_program_equal_single_ones_to_the_last_bit(quadratic):
    trace, rule = gossip(), asim.rules.Downpour(0.05)
    several = asim.replay(trace, rule, quadratic, (1, 2), record={"energy_central": 1})
    for place, seed in enumerate((1, 2)):
        one = asim.replay(trace, rule, quadratic, seed, record={"energy_central": 1})
        assert np.array_equal(several.variables["x"][place], one.variables["x"])
        assert np.array_equal(several.records["energy_central"][place], one.records["energy_central"])


def test_a_number_for_each_seed_is_that_of_a_run_alone():
    """With seven parameters, a number that no count of seeds or commits is."""
    graph, quadratic = asim.graphs.RandomGroups(size=2), asim.workloads.Quadratic([1.0, 0.3] + [0.1] * 5, noise=0.1)
    trace = asim.simulate(
        asim.Gossip(4, asim.delays.Constant(1.0), graph=graph, exchange="adapt_then_combine", local_steps=2), commits=40
    )
    numbers = {"server_learning_rate": (0.7, 0.3, 0.5), "momentum": (0.5, 0.6, 0.7)}
    settings = {"window": 2, "optimiser": "sgd"}
    together = asim.replay(trace, asim.rules.NoLoCo(0.1, **settings, **numbers), quadratic, (0, 1, 2))
    for place, (step, momentum) in enumerate(zip(*numbers.values(), strict=True)):
        rule = asim.rules.NoLoCo(0.1, **settings, server_learning_rate=step, momentum=momentum)
        alone = asim.replay(trace, rule, quadratic, place)
        np.testing.assert_allclose(together.variables["x"][place], alone.variables["x"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_gradients_taken_together_give_the_same_variables(exchange, quadratic):
    trace, rule = gossip(exchange), asim.rules.Downpour(0.05)
    alone, together = (asim.replay(trace, rule, quadratic, 1, lanes=lanes) for lanes in (1, 3))
    np.testing.assert_allclose(together.variables["x"], alone.variables["x"], rtol=1e-6, atol=1e-6)


def test_a_run_that_is_read_as_data_has_the_mean_of_its_variables(tmp_path, quadratic):
    run = asim.replay(gossip(), asim.rules.Downpour(0.05), quadratic, 1)
    run.save(tmp_path / "run.npz")
    data = asim.engine.Run.load(tmp_path / "run.npz", None, None)
    assert np.array_equal(data.central["x"], run.central["x"])


def test_a_divergence_of_any_variable_is_found_at_its_commit(quadratic):
    trace, rule = gossip(commits=50), asim.rules.Downpour(1e6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = asim.replay(trace, rule, quadratic, 1)
    plain = replay_plainly(trace, rule, quadratic, 1)
    finite = [np.isfinite(commit.loss) and np.isfinite(commit.central["x"]).all() for commit in plain.commits]
    assert run.diverged_at == finite.index(False)


def test_workloads_that_need_the_newest_parameters_are_refused():
    with pytest.raises(ValueError, match="`trace` must have one variable for a workload whose gradients"):
        asim.replay(gossip(), asim.rules.Downpour(0.1), asim.workloads.Bits())


def test_the_consensus_distance_is_that_of_the_variables(quadratic):
    trace, rule = gossip(), asim.rules.Downpour(0.05)
    run = asim.replay(trace, rule, quadratic, (1, 2), record={"consensus_distance": 43, "test_loss": 43})
    values = run.variables["x"].astype(float)
    expected = ((values - values.mean(1, keepdims=True)) ** 2).sum(2).mean(1)
    np.testing.assert_allclose(run.records["consensus_distance"][:, -1], expected, rtol=1e-12)
    np.testing.assert_allclose(run.evaluate()["consensus_distance"], expected, rtol=1e-12)
    np.testing.assert_allclose(run.records["test_loss"][:, -1], run.evaluate()["test_loss"])


def test_one_variable_has_no_consensus_distance(quadratic):
    trace = asim.Trace.from_commits([0, 1, 2, 3, 4])
    with pytest.raises(ValueError, match="consensus_distance"):
        asim.replay(trace, asim.rules.Downpour(0.05), quadratic, record={"consensus_distance": 5})
