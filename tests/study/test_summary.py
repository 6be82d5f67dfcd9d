"""Whatever a workload measures is kept, printed and can be recorded."""

import dataclasses
from pathlib import Path

import jax.numpy as jnp
import pytest

import asyncsim as asim
from asyncsim.cli.tables import print_comparison, print_summary
from asyncsim.folders.summaries import KEYS
from tests.folders.problems import content_of


def init(key):
    return {"x": jnp.ones(2)}


def measure(params):
    return {"test_loss": (params["x"] ** 2).sum(), "train_accuracy": 0.75 + 0 * params["x"][0], "norm": params["x"][0]}


def half_square(params, batch, key):
    return 0.5 * (params["x"] ** 2).sum()


SCENARIO = asim.Scenario(
    cluster=asim.Cluster(2, asim.delays.Constant(1.0)),
    rule=asim.rules.downpour(0.1),
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
