"""What is recorded of several variables: that of the plain loop after the same commit, at every commit."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.cluster._gossip import EXCHANGES
from asyncsim.engine.reference import replay_plainly
from asyncsim.trace._columns import Mixings, Unfinished
from tests.problems import assert_close

WORKERS = 4
DATA = asim.datasets.Digits()
SLOW = asim.Network(latency=asim.delays.Exponential(0.4), bandwidth=10.0, message_bytes=3.0)


class Mixed(asim.Workload):
    """Least squares with outputs: a line through the points -1, 0 and 2, and one measure in each direction."""

    noise_of: float = 0.1

    def init(self, key):
        del key
        return {"w": np.array([1.0, -0.5])}

    def loss(self, params, batch, key):
        del key
        return 0.5 * ((params["w"] - batch) ** 2 * np.array([1.0, 0.3])).sum()

    def draw(self, key):
        return self.noise_of * jax.random.normal(key, (2,))

    def evaluate(self, params):
        size = (params["w"] ** 2).sum()
        return {"test_loss": size, "accuracy": -size, "length": size}

    def outputs(self, params):
        return jnp.array([[-1.0], [0.0], [2.0]]) * params["w"][0] + params["w"][1] ** 2


def trace_of(exchange, network=None, commits=13, graph="ring"):
    law = asim.delays.Gamma(1.0, 0.7)
    more = {} if network is None else {"network": network}
    return asim.simulate(asim.Gossip(WORKERS, law, graph=graph, exchange=exchange, **more), commits=commits, seed=3)


def expected_of(workload, values):
    """The records of some variables, written out."""
    w = np.stack([np.asarray(value["w"], np.float64) for value in values])
    outputs = np.stack([np.asarray(workload.outputs(value), np.float64) for value in values])
    sizes = [float(workload.evaluate(value)["test_loss"]) for value in values]
    return {
        "consensus_distance": ((w - w.mean(0)) ** 2).sum() / len(w),
        "output_distance": ((outputs - outputs.mean(0)) ** 2).sum() / len(w) / 3,
        "worst_test_loss": max(sizes),
        "worst_accuracy": -max(sizes),
        "test_loss": float(workload.evaluate({"w": w.mean(0)})["test_loss"]),
    }


NAMES = ("consensus_distance", "output_distance", "worst_test_loss", "worst_accuracy", "test_loss")


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("network", [None, SLOW], ids=["instant", "slow"])
def test_records_of_variables_are_those_of_the_plain_loop_after_each_commit(exchange, network, x64):
    trace, rule, workload = trace_of(exchange, network), asim.rules.HeavyBall(0.05, momentum=0.5), Mixed()
    run = asim.replay(trace, rule, workload, 1, record=dict.fromkeys(NAMES, 1))
    plain = replay_plainly(trace, rule, workload, 1)
    for commit, values in enumerate(plain.history):
        for name, value in expected_of(workload, values).items():
            assert run.records[name][commit] == pytest.approx(value, rel=1e-9, abs=1e-15), (name, commit)
    assert run.evaluate() == pytest.approx({**run.evaluate(), **expected_of(workload, plain.variables)})


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("lanes", [1, 3])
def test_a_run_that_stops_early_has_the_variables_of_that_moment(exchange, lanes, x64):
    trace, rule, workload = trace_of(exchange, SLOW), asim.rules.HeavyBall(0.05, momentum=0.5), Mixed()
    plain = replay_plainly(trace, rule, workload, 1)
    for commits in (1, 5, 8, 13):
        run = asim.replay(trace, rule, workload, 1, commits=commits, lanes=lanes)
        for number, value in enumerate(plain.history[commits - 1]):
            assert_close({"w": run.variables["w"][number]}, value, 1e-9)


def test_a_mixing_of_the_next_commit_is_in_no_record_of_this_one():
    """Two workers in turn on ½x², as in `test_a_mixing_by_hand`: ½ and 1, then ¾ and ¼, ¼ and ½, ⅜ and ¼."""
    trace = asim.simulate(asim.Gossip(2, asim.delays.Constant(1.0), graph="complete"), commits=4)
    record = {"consensus_distance": 1}
    run = asim.replay(trace, asim.rules.Downpour(0.5), asim.workloads.Quadratic([1.0]), record=record)
    assert run.records["consensus_distance"].tolist() == [0.25**2, 0.25**2, 0.125**2, 0.0625**2]


def test_recording_changes_no_bit_of_a_run():
    trace, rule, workload = trace_of("pair", commits=40), asim.rules.MomentumSGD(0.05, momentum=0.5), Mixed()
    plain = asim.replay(trace, rule, workload, (1, 2))
    often = asim.replay(trace, rule, workload, (1, 2), record={"consensus_distance": 3})
    assert np.array_equal(plain.loss, often.loss)
    assert np.array_equal(plain.variables["w"], often.variables["w"])


def test_workers_that_read_what_the_next_commit_leaves_are_where_the_plain_loop_has_them(x64):
    """Worker 2 begins a second job at the average that worker 1 makes with it before its commit."""
    columns = {"worker": [2, 0, 1, 2], "read_version": [0, 0, 0, 2], "version": [0, 0, 0, 2]}
    mixings = {"event": 4 * [0], "before": 4 * [2], "target": [1, 1, 2, 2], "source": [1, 2, 1, 2]}
    base = asim.simulate(asim.Gossip(3, asim.delays.Constant(1.0), graph="complete"), commits=4)
    time = np.array([1.0, 1.5, 2.0, 3.0])
    table = Mixings(
        **{k: np.array(v, np.int32) for k, v in mixings.items()},
        time=np.full(4, 2.0),
        weight=np.full(4, 0.5),
        own=np.array([True, True, False, False]),
    )
    ints = {name: np.array(column, np.int32) for name, column in columns.items()}
    read = np.array([0.0, 0.0, 0.0, 2.0])
    trace = replace(
        base,
        **ints,
        pull_version=ints["version"],
        variable=ints["worker"],
        mixings=table,
        read_time=read,
        start_time=read,
        finish_time=time,
        arrive_time=time,
        commit_time=time,
        serve_time=time,
        unfinished=Unfinished(
            worker=np.arange(3, dtype=np.int32),
            read_version=np.array([1, 1, 3], np.int32),
            read_time=np.array([1.5, 2.0, 3.0]),
        ),
    )
    trace.check()
    rule, workload = asim.rules.MomentumSGD(0.1, momentum=0.5), Mixed()
    plain = replay_plainly(trace, rule, workload, 1)
    for record in (None, {"consensus_distance": 1}):
        run = asim.replay(trace, rule, workload, 1, record=record)
        assert_close(run.loss, plain.loss, 1e-9)
        for number, value in enumerate(plain.variables):
            assert_close({"w": run.variables["w"][number]}, value, 1e-9)


@pytest.mark.networks
def test_a_classifier_compares_the_probabilities_of_its_test_examples():
    trace, model = trace_of("pair", commits=20), asim.workloads.MLP(DATA, hidden=(8,), batch_size=16)
    run = asim.replay(trace, asim.rules.Downpour(0.1), model, record={"output_distance": 20, "worst_test_loss": 20})
    values = [jax.tree.map(lambda leaf, i=i: leaf[i], run.variables) for i in range(WORKERS)]
    inputs = jnp.asarray(DATA.test_inputs.reshape(len(DATA.test_labels), -1))
    shares = np.stack([np.asarray(jax.nn.softmax(model.logits(value, inputs))) for value in values])
    expected = ((shares - shares.mean(0)) ** 2).sum(-1).mean()
    assert run.records["output_distance"][-1] == pytest.approx(expected, rel=1e-5)
    assert run.records["worst_test_loss"][-1] == max(float(model.evaluate(v)["test_loss"]) for v in values)


def test_names_of_records_of_variables_are_no_measures_of_a_users_own():
    class Taken(Mixed):
        def evaluate(self, params):
            return {"output_distance": params["w"][0]}

    with pytest.raises(ValueError, match="must not measure anything called 'output_distance'"):
        asim.replay(trace_of("pair"), asim.rules.Downpour(0.1), Taken())


def test_one_variable_has_no_worst_one():
    with pytest.raises(ValueError, match="worst_test_loss"):
        asim.replay(asim.Trace.from_commits([0, 1]), asim.rules.Downpour(0.1), Mixed(), record={"worst_test_loss": 1})
