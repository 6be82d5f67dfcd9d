"""Every kind of cluster is swept by seconds, by commits and by commits per worker, as it is run alone."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import Cluster, Network, Server
from asyncsim.cluster import faults, protocols
from asyncsim.delays import Constant, Exponential, Gamma, SlowPeriods, VariableSpeed, fleet
from asyncsim.study._batches import MOST_IN_TURN, batches_of
from tests.problems import assert_refused, gamma_trace
from tests.study.problems import assert_same_numbers

LAW = Exponential(1.0)
WORKERS = 4
PROTOCOLS = {
    "ssp": protocols.SSP(1),
    "synchronous": protocols.Synchronous(),
    "k-sync": protocols.KSync(2),
    "k-async": protocols.KAsync(2),
    "k-batch-sync": protocols.KBatchSync(2),
    "k-batch-async": protocols.KBatchAsync(2),
    "rennala": protocols.Rennala(2),
    "malenia": protocols.Malenia(5),
    "ringmaster": protocols.Ringmaster(3),
    "round robin": protocols.RoundRobin(),
}
FAULTS = {
    "a crash": faults.Crash(0, 1.0, 1.0),
    "a slowdown": faults.Slowdown(0, 1.0, 2.0, 3.0),
    "sessions": faults.Sessions(Exponential(3.0), LAW),
    "lost messages": faults.MessageLoss(0.1, 0.5),
    "a pause of the server": faults.ServerPause(1.0, 0.5),
}
CLUSTERS: dict[str, Any] = {
    "plain": Cluster(WORKERS, LAW),
    "a fleet": Cluster(WORKERS, fleet.linear(Gamma(mean=1.0, cv=0.3), WORKERS)),
    "a speed that changes": Cluster(WORKERS, VariableSpeed(LAW, SlowPeriods(3.0, Constant(1.0), Constant(1.0)))),
    "a queue": Cluster(WORKERS, LAW, server=Server(service=Constant(0.05))),
    "a queue for two": Cluster(WORKERS, LAW, server=Server(service=Exponential(0.05), slots=2)),
    "no computing": Cluster(WORKERS, Constant(0.0), server=Server(service=Constant(0.5))),
    "latency": Cluster(WORKERS, LAW, network=Network(latency=Constant(0.1))),
    "a bandwidth": Cluster(WORKERS, LAW, network=Network(bandwidth=100.0)),
    "a shared network": Cluster(WORKERS, LAW, network=Network(bandwidth=100.0, shared=True)),
    "a pull before the commit": Cluster(
        WORKERS, LAW, server=Server(atomic=False, resume="own", pull_to_commit=Constant(0.1))
    ),
    **{name: Cluster(WORKERS, LAW, protocol=protocol) for name, protocol in PROTOCOLS.items()},
    **{name: Cluster(WORKERS, LAW, faults=[fault]) for name, fault in FAULTS.items()},
    "a pipeline": asim.Pipeline(stages=2, forward=Exponential(0.3)),
    "rollouts": asim.Rollouts(slots=4, group=2, batch=2, generate=LAW, train=Constant(0.5)),
    "a recorded trace": gamma_trace(WORKERS, 40),
}
LENGTHS = {"seconds": 5.0, "commits": 10, "commits_per_worker": 2}


def init(key: Any) -> Any:
    del key
    return [{"x": jnp.ones(2)}, {"x": jnp.zeros(2)}]


def loss(params: Any, batch: Any, key: Any) -> Any:
    del batch, key
    return ((params[0]["x"] - params[1]["x"]) ** 2).sum()


WORKLOAD = asim.Workload(init, loss)  # with a layer for each stage of the pipeline


def base(cluster: Any, **length: float) -> asim.Scenario:
    return asim.Scenario(cluster, asim.rules.Downpour(0.1), WORKLOAD, record=(), **length)


def swept(cluster: Any, lanes: int | None = None, **length: float) -> list[asim.Result]:
    """The results of a sweep of two step sizes, which is complete."""
    results = asim.sweep(asim.grid(base(cluster, **length), learning_rate=[0.1, 0.2]), jobs=0, lanes=lanes)
    assert [*results.states.values()] == ["done", "done"], results.troubles
    return [*results]


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_sweep_of_any_length_is_each_run_alone(name):
    for length, value in LENGTHS.items():
        if name == "rollouts" and length == "commits_per_worker":  # refused: their workers vary
            continue
        for result in swept(CLUSTERS[name], **{length: value}):
            assert len(result.run.loss) > 0
            assert_same_numbers(result.run, asim.run(result.scenario).run)


@pytest.mark.parametrize("name", ["plain", "a queue", "synchronous", "rollouts"])
def test_lanes_of_seconds_have_the_commits_of_runs_alone(name):
    alone, lanes = swept(CLUSTERS[name], seconds=5.0), swept(CLUSTERS[name], 2, seconds=5.0)
    for one, other in zip(alone, lanes, strict=True):
        np.testing.assert_allclose(other.run.loss, one.run.loss, rtol=1e-5)


@pytest.mark.parametrize("lanes", [None, 2])
@pytest.mark.parametrize("name", ["plain", "a queue", "synchronous", "rollouts"])
def test_seconds_in_which_nobody_commits_are_an_empty_run(name, lanes):
    alone = asim.run(base(CLUSTERS[name], seconds=1e-9))
    assert (alone.run.loss.size, alone.summary["final_loss"]) == (0, None)
    for result in swept(CLUSTERS[name], lanes, seconds=1e-9):
        assert (result.run.loss.size, result.summary["final_loss"]) == (0, None)


def test_seconds_before_the_first_commit_of_a_recorded_trace_are_refused():
    message = "`seconds` must reach the first commit of the trace"
    assert_refused(lambda: base(CLUSTERS["a recorded trace"], seconds=1e-9), message)


def test_runs_of_unknown_length_are_batches_of_their_own():
    def sizes(cluster: Any) -> list[int]:
        scenarios = asim.grid(base(cluster, seconds=5.0), learning_rate=np.linspace(0.1, 0.2, MOST_IN_TURN))
        return [len(batch.scenarios) for batch in batches_of(scenarios)]

    assert sizes(CLUSTERS["plain"]) == [MOST_IN_TURN]
    for name in ("a queue", "a bandwidth", "rollouts"):  # messages are as large as the parameters
        assert sizes(CLUSTERS[name]) == [1] * MOST_IN_TURN
