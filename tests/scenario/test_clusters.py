"""Pipelines and rollouts in the place of a cluster: fields, descriptions, runs and sweeps as those of a cluster."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.pool._parcels import Packer, unpack
from asyncsim.scenario._rebuild import hints, rebuild
from tests.problems import assert_refused, refusals

PIPELINE = asim.Pipeline(stages=3, forward=asim.delays.Gamma(mean=1.0, cv=0.3))
LAWS = {"generate": asim.delays.LogNormal(mean=1.0, cv=1.0), "train": asim.delays.Constant(0.3)}
ROLLOUTS = asim.Rollouts(slots=16, group=2, batch=4, lead=2.0, **LAWS)
CLUSTERS = pytest.mark.parametrize("cluster", [PIPELINE, ROLLOUTS], ids=["pipeline", "rollouts"])


class Chain(asim.Workload, named=False):
    """Three layers of one weight each, whose product should be 1."""

    def init(self, key: Any) -> Any:
        del key
        return [{"weight": jnp.asarray(value)} for value in (0.5, 1.5, 2.0)]

    def loss(self, params: Any, batch: Any, key: Any) -> Any:
        del batch, key
        return (params[0]["weight"] * params[1]["weight"] * params[2]["weight"] - 1.0) ** 2


def scenario(cluster: Any, rule: Any = None, **settings: Any) -> asim.Scenario:
    return asim.Scenario(cluster, rule or asim.rules.Downpour(0.01), Chain(), **{"commits": 120, **settings})


@CLUSTERS
def test_a_run_is_the_replay_of_the_schedule(cluster):
    result = asim.run(scenario(cluster, seed=3))
    trace = asim.simulate(cluster, commits=120, seed=3)
    assert result.scenario.workers == trace.workers
    np.testing.assert_array_equal(result.trace.commit_time, trace.commit_time)
    again = asim.replay(trace, result.scenario.rule, result.scenario.workload, seed=3)
    np.testing.assert_array_equal(again.loss, result.run.loss)
    assert rebuild(result.scenario.describe(), hints(result.scenario)) == result.scenario


def test_laws_are_changed_by_their_mean_or_replaced():
    assert scenario(PIPELINE).override(stages=2, forward=2.0).cluster == asim.Pipeline(2, asim.delays.Gamma(2.0, 0.3))
    assert scenario(PIPELINE).override(transfer="gamma:mean=1:cv=0.5").cluster.transfer == asim.delays.Gamma(1.0, 0.5)
    law = asim.delays.Exponential(0.5)
    assert scenario(PIPELINE).override(backward=law).cluster.backward_law == law
    assert scenario(ROLLOUTS).override(generate=2.0).cluster.generate == asim.delays.LogNormal(mean=2.0, cv=1.0)


def test_names_that_a_rule_has_too():
    local = scenario(ROLLOUTS, asim.rules.LocalSGD(0.05, window=2))
    changed = local.override(order="window", cluster_window=3, window=4)
    assert (changed.cluster.window, changed.rule.window) == (3, 4)
    assert local.override(**{"order": "window", "cluster.window": 3, "rule.window": 4}) == changed
    assert_refused(lambda: local.override(window=4), r"`window` fits `rule\.window` and `cluster\.window`\. Write")


test_fields_that_rollouts_do_not_have = refusals(
    ({"lede": 1.0}, "`lede` is not a field of this scenario. Did you mean `lead`"),
    ({"protocol": "synchronous"}, "`protocol` is not a field of this scenario"),
    ({"generate": -1.0}, "`generate` must be finite and not negative; got -1.0"),
    ({"commits_per_worker": 3}, "`commits_per_worker` must be left out with Rollouts"),
    call=lambda changes: scenario(ROLLOUTS).override(**changes),
)


def test_a_sweep_over_fields_of_the_cluster(tmp_path):
    grid = asim.grid(scenario(PIPELINE), stages=[2, 3], forward=[1.0, 2.0])
    assert unpack(tmp_path, Packer(tmp_path).pack(grid)) == grid  # for other processes
    results = asim.sweep(grid, tmp_path / "store", jobs=0)
    table = results.table()
    assert table["stages"].tolist() == [2, 2, 3, 3]
    assert table["forward"].tolist() == [1.0, 2.0, 1.0, 2.0]
    assert [result.trace.workers for result in results] == [2, 2, 3, 3]


def test_stages_that_the_model_does_not_have():
    assert_refused(lambda: scenario(PIPELINE).override(stages=4), "at most 3 parameter groups")
    gpipe = asim.Pipeline(stages=4, forward=asim.delays.Constant(1.0), schedule="gpipe", micro_batches=4)
    assert asim.run(scenario(gpipe)).trace.staleness.max() == 0  # which reads all stages at one version


def test_a_pipeline_for_some_seconds():
    short, long = (asim.run(scenario(PIPELINE, commits=None, seconds=seconds)) for seconds in (20.0, 40.0))
    assert len(short.trace) < len(long.trace)
    assert short.trace.commit_time[-1] <= 20.0


def test_what_a_workload_records_of_its_own():
    workload = asim.workloads.Bits(samples=4)
    record = ("effective_sample_size", "clipped_share", "reward")
    one = asim.Scenario(ROLLOUTS, asim.rules.Downpour(0.5), workload, commits=40, record=record)
    assert set(record) <= set(one.reportable)
    assert "effective_sample_size" in one.override(rule="momentum_sgd").strides
