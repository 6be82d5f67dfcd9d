"""Whatever a workload measures is kept, printed and can be recorded."""

import dataclasses
import math
from pathlib import Path

import jax.numpy as jnp
import pytest

import asyncsim as asim
from asyncsim.cli.tables import print_comparison, print_summary
from asyncsim.folders.summaries import KEYS
from asyncsim.study.summary import summarise
from tests.folders.problems import content_of


def init(key):
    return {"x": jnp.ones(2)}


def measure(params):
    return {"test_loss": (params["x"] ** 2).sum(), "train_accuracy": 0.75 + 0 * params["x"][0], "norm": params["x"][0]}


def half_square(params, batch, key):
    return 0.5 * (params["x"] ** 2).sum()


SCENARIO = asim.Scenario(
    cluster=asim.Cluster(2, asim.delays.Constant(1.0)),
    rule=asim.rules.Downpour(0.1),
    workload=asim.Workload(init, half_square, evaluate=measure, name="own"),
    commits=8,
    record={"train_accuracy": 2, "energy_central": 1},
)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return asim.run(SCENARIO, tmp_path_factory.mktemp("own"), picture=False)


def test_metrics_of_your_own_are_kept(result):
    assert tuple(result.summary) == (*KEYS, "train_accuracy", "norm")
    assert result.summary["train_accuracy"] == 0.75
    assert content_of(Path(result.folder) / "summary.json") == result.summary
    assert result.summary["test_accuracy"] is None


def test_metrics_of_your_own_are_recorded(result):
    assert result.run.records["train_accuracy"].tolist() == [0.75] * 4
    assert result.run.recorded_at["train_accuracy"].tolist() == [1, 3, 5, 7]
    again = asim.Run.load(Path(result.folder) / "run.npz", SCENARIO.rule, SCENARIO.workload)
    assert again.records["train_accuracy"].tolist() == [0.75] * 4
    assert {"train_accuracy", "norm", "test_loss"} <= set(SCENARIO.reportable)
    assert dataclasses.replace(SCENARIO, record=("norm",)).strides == {"norm": 100}


def test_an_unknown_metric_cannot_be_recorded():
    with pytest.raises(ValueError, match=r"must be one of .*'norm'; got 'train_acuracy'\. Did you mean 'train_a"):
        dataclasses.replace(SCENARIO, record=("train_acuracy",))


def test_metrics_of_your_own_are_printed(result, capsys):
    print_summary(result.summary)
    printed = capsys.readouterr().out
    assert "train accuracy" in printed
    assert "0.75" in printed
    print_comparison({"one": result.summary, "other": {**result.summary, "norm": None}})
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3].split() == ["scenario", "train", "accuracy", "norm"]
    assert [line.split()[:2] for line in lines[-2:]] == [["one", "0.75"], ["other", "0.75"]]


def stuck_run(learning_rate: float, law: asim.delays.Delay) -> asim.Result:
    """DOWNPOUR with sixteen workers on digits."""
    workload = asim.workloads.mlp(asim.datasets.digits(), hidden=(32,), batch_size=32)
    rule = asim.rules.Downpour(learning_rate)
    return asim.run(asim.Scenario(asim.Cluster(16, law), rule, workload, commits=1600, seed=0))


class TestStuck:
    """A finite run whose loss is no lower than at the start is "stuck", not "diverged"."""

    def test_a_network_at_even_odds_is_stuck(self) -> None:
        """Its loss, ln 10, is a little lower than that of the random parameters with which it began."""
        result = stuck_run(0.2, asim.delays.Constant(1.0))
        assert (result.summary["stuck"], result.summary["diverged_at"]) == (True, None)
        assert math.log(10) - 0.05 < result.summary["final_loss"] < result.summary["initial_loss"]
        assert repr(result).endswith("; stuck)")

    def test_one_that_learns_is_not(self) -> None:
        summary = stuck_run(0.05, asim.delays.Gamma(1.0, 0.3)).summary
        assert summary["stuck"] is False
        assert summary["final_loss"] < 0.5 * summary["initial_loss"]

    def test_one_that_diverged_is_not(self) -> None:
        trace, workload = asim.Trace.from_commits([0, 1] * 200), asim.workloads.quadratic([1.0])
        run = asim.replay(trace, asim.rules.Downpour(9.0), workload)
        assert run.diverged_at is not None
        assert summarise(trace, run, 1.0)["stuck"] is None

    def test_people_are_told(self, capsys: pytest.CaptureFixture[str]) -> None:
        trace = asim.Trace.from_commits([0, 1] * 20)
        run = asim.replay(trace, asim.rules.Downpour(0.0), asim.workloads.quadratic([1.0]))
        summary = summarise(trace, run, 1.0)
        print_summary(summary)
        told = capsys.readouterr().out
        assert "yes: the loss was 0.5 before training" in told
        assert "each worker's last quarter, at most 50 commits" in told
        print_comparison({"downpour": summary})
        assert "0.5 (stuck)" in capsys.readouterr().out

    def test_before_any_update_nothing_is_known(self) -> None:
        trace = asim.Trace.from_commits([0, 1, 2])
        run = asim.replay(trace, asim.rules.Downpour(0.1), asim.workloads.quadratic([1.0]))
        assert summarise(trace, run, 1.0)["stuck"] is None

    def test_the_initial_loss_is_that_of_the_initial_parameters(self) -> None:
        """Also where a worker joins late and reads parameters that have been trained."""
        columns = {"worker": [0, 0, 1, 0], "read_time": [0.0, 1.0, 2.5, 2.0], "commit_time": [1.0, 2.0, 3.0, 4.0]}
        trace, workload = asim.Trace.from_columns(columns), asim.workloads.quadratic([2.0], start=3.0)
        run = asim.replay(trace, asim.rules.Downpour(0.25), workload)
        assert summarise(trace, run, 1.0)["initial_loss"] == 9.0
