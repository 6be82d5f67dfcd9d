"""Scenarios with a recorded trace in the place of a cluster."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.pool._parcels import Packer, unpack
from asyncsim.scenario._rebuild import rebuild
from tests.problems import assert_refused, refusals
from tests.study.problems import FILES, assert_same_run, contents

pytestmark = pytest.mark.usefixtures("empty_pages")

CLUSTER = asim.Cluster(workers=4, compute=asim.delays.Exponential(1.0))
TRACE = asim.simulate(CLUSTER, commits=200, seed=3)
QUADRATIC = asim.workloads.Quadratic([1.0, 0.1], noise=0.1)
scenario = partial(asim.Scenario, cluster=TRACE, rule=asim.rules.GEM(0.05), workload=QUADRATIC)


class TestLength:
    @pytest.mark.parametrize(
        ("given", "total"),
        [
            ({}, 200),
            ({"commits": 60}, 60),
            ({"commits_per_worker": 10}, 40),
            ({"seconds": float(TRACE.commit_time[99])}, 100),
            ({"seconds": 1e9}, 200),
        ],
    )
    def test_a_recorded_scenario_is_at_most_as_long_as_its_trace(self, given: dict[str, Any], total: int) -> None:
        made = scenario(**given)
        assert (made.total, made.cluster.workers) == (total, 4)
        assert made == scenario(commits=total)


test_what_does_not_fit = refusals(
    ({"commits": 201}, "`commits` must be at most those of the recorded trace, 200; got 201"),
    ({"commits_per_worker": 51}, "`commits_per_worker` must be at most .* 200 for 4 workers; got 51"),
    ({"seconds": 1e-9}, "`seconds` must reach the first commit"),
    ({"commits": 8, "seconds": 1.0}, "At most one of `commits`"),
    ({"schedule_seed": 1}, "`schedule_seed` must be left out with a recorded trace"),
    ({"rule": asim.rules.IA2SGD(0.1, workers=5)}, "`workers`"),
    ({"cluster": "log.csv"}, "`cluster` must be an asyncsim.Cluster; got 'log.csv'"),
    ({"cluster": asim.simulate(CLUSTER, seconds=1e-9)}, "`cluster` must be a trace with commits"),
    call=lambda given: scenario(**given),
)


class TestRun:
    def test_a_recorded_schedule_gives_the_numbers_of_the_simulated_one(self) -> None:
        """A simulated schedule, recorded, gives the same numbers."""
        simulated = asim.run(scenario(cluster=CLUSTER, commits=200, seed=3))
        recorded = asim.run(scenario(seed=3))
        assert_same_run(recorded.run, simulated.run)
        assert recorded.summary["mean_staleness"] == simulated.summary["mean_staleness"]
        assert recorded.scenario != simulated.scenario

    def test_the_digest_is_that_of_the_log(self) -> None:
        again = asim.Trace.from_columns(TRACE.to_columns(unfinished=True))
        assert again.digest == TRACE.digest
        assert scenario(cluster=again) == scenario()
        other = asim.simulate(CLUSTER, commits=200, seed=4)
        assert scenario(cluster=other) != scenario()

    def test_folder_load_and_resumption(self, tmp_path: Path) -> None:
        made, out = scenario(seconds=float(TRACE.commit_time[149])), tmp_path / "log"
        done = asim.run(made, out)
        assert done.run.commits == 150
        assert set(contents(out)) == FILES
        assert not asim.run(made, out).recomputed
        found = asim.load(out)
        assert found.scenario == made
        assert found.summary == done.summary
        assert_same_run(found.run, done.run)
        part = asim.replay(TRACE, made.rule, made.workload, commits=50, record=made.recorded)
        part.save(out / "run.npz", notes={"owner": made.digest})
        resumed = asim.run(made, out)
        assert resumed.recomputed
        assert_same_run(resumed.run, done.run)
        assert_refused(lambda: asim.run(scenario(), out), "different scenario: `commits` is 150 there and 200 here")

    def test_a_server_that_collects(self, tmp_path: Path) -> None:
        """The file keeps the log as it was, so that another rule can have other steps."""
        made = scenario(rule=asim.rules.FedBuff(0.1, buffer=4))
        done = asim.run(made, tmp_path / "log")
        assert done.trace.steps == 50
        found = asim.load(tmp_path / "log")
        assert found.trace.steps == 50
        assert found.scenario.trace.digest == TRACE.digest
        assert found.scenario.override(rule="downpour") == made.override(rule="downpour")

    def test_a_file_that_was_exchanged(self, tmp_path: Path) -> None:
        made = scenario()
        asim.run(made, tmp_path)
        other = asim.simulate(CLUSTER, commits=200, seed=4)
        other.save(tmp_path / "trace.npz", attributes={"owner": made.digest})
        assert_refused(lambda: asim.run(made, tmp_path), "is not the trace of this scenario")
        assert_refused(lambda: asim.load(tmp_path), "is not the trace of this scenario")

    def test_a_sweep(self, tmp_path: Path) -> None:
        """Also in another process, to which the log travels."""
        made = asim.grid(scenario(commits=100), learning_rate=[0.05, 0.1], seed=range(2))
        assert unpack(tmp_path, Packer(tmp_path).pack(made)) == made
        asim.sweep(made, tmp_path / "store", jobs=0)
        alone = asim.run(made[3])
        kept = asim.load(tmp_path / "store" / made[3].digest)
        assert kept.scenario == made[3]
        np.testing.assert_array_equal(kept.run.loss, alone.run.loss)


class TestOverride:
    def test_rule_and_workload(self) -> None:
        changed = scenario().override(rule="downpour", learning_rate=0.2, commits=80, seed=2, eigenvalues=[2.0])
        assert (changed.rule.name, changed.total, changed.seed) == ("downpour", 80, 2)
        assert changed.trace is TRACE

    def test_the_cluster_is_refused(self) -> None:
        values = {"workers": 8, "compute": "gamma", "cv": 0.1, "latency": 1.0, "protocol": "ssp", "schedule_seed": 1}
        for name, value in values.items():
            message = f"`{name}` cannot be changed: the schedule is a recorded"
            assert_refused(partial(scenario().override, **{name: value}), message)

    def test_a_recorded_scenario_has_no_fields_of_a_cluster(self) -> None:
        groups = {field.group for field in scenario().fields(rule="agn")}
        assert groups == {"Rule", "Compressor", "Workload", "Study"}


def test_prediction_of_the_page() -> None:
    """The distribution beside the recorded staleness, where the log does not contradict what it rests on."""
    from asyncsim.reports._trace import recorded_prediction
    from asyncsim.reports.staleness import run_prediction

    trace = asim.simulate(CLUSTER, commits=4000, seed=0)
    np.testing.assert_allclose(recorded_prediction(trace), run_prediction(CLUSTER, trace), atol=0.02)
    waiting = asim.simulate(asim.Cluster(4, asim.delays.Exponential(1.0), protocol=asim.protocols.SSP(1)), commits=4000)
    assert recorded_prediction(waiting) is None


def test_parameter_groups_are_part_of_a_scenario():
    """They are told apart, rebuilt from the description, kept where the batch size changes, and must fit."""
    reads = {"front": [0, 0, 1], "back": [0, 1, 1]}
    trace, rule = asim.Trace.from_commits([0, 1, 0], groups=reads), asim.rules.Downpour(0.1)
    plain = asim.workloads.MLP(asim.datasets.Digits(), hidden=(4, 4), batch_size=8)
    scenario = asim.Scenario(trace, rule, plain.grouped(["front", "back", "back"]))
    assert len({scenario, asim.Scenario(trace, rule, plain.grouped(["front", "front", "back"]))}) == 2
    assert rebuild(scenario.describe(), trace=trace) == scenario
    assert scenario.override(batch_size=16).workload.groups == scenario.workload.groups
    with pytest.warns(UserWarning, match="The `groups` of 'mlp' do not fit the tensors of 'softmax'"):
        assert scenario.override(workload="softmax").workload.groups is None
    with pytest.raises(ValueError, match="'middle' is none of them"):
        asim.Scenario(trace, rule, plain.grouped(["front", "middle", "back"]))


def layers(layers: int, tensors: int) -> asim.Workload:
    """A model of layers of some tensors each, in a tuple, as the names of groups are."""
    start = tuple({str(tensor): np.ones(1) for tensor in range(tensors)} for _ in range(layers))
    return asim.Workload(init=lambda key: start, loss=lambda params, batch, key: sum(x["0"].sum() for x in params))


def test_parameter_groups_are_kept_by_as_many_tensors_alone():
    """A name for each of two tensors is none for each of two layers of two tensors."""
    trace = asim.Trace.from_commits([0, 1, 0], groups={"front": [0, 0, 1], "back": [0, 1, 1]})
    before = asim.Scenario(trace, asim.rules.Downpour(0.1), layers(2, 1).grouped(("front", "back")))
    assert before.override(workload=layers(1, 2)).workload.groups == ("front", "back")
    with pytest.warns(UserWarning, match="do not fit the tensors"):
        assert before.override(workload=layers(2, 2)).workload.groups is None
