"""The zoo, on small settings: its table agrees with single replays."""

from functools import partial

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.components._families import built_in_classes
from tests.scenarios.run import load, run

ZOO = load("zoo")
SMALL = {"workers": 4, "batches": 12, "seeds": 3, "step_sizes": (0.1, 1e6), "hidden": 4, "batch_size": 8}


def test_the_table_is_what_single_replays_give(monkeypatch):
    monkeypatch.setattr(asim, "sweep", partial(asim.sweep, jobs=0))  # no processes, which would compile everything anew
    numbers = run("zoo", **SMALL, only="downpour")
    assert (np.diff(numbers["loss"]) >= 0).all()
    assert set(numbers["rule"]) == {"downpour", "downpour, windows", "synchronous"}
    place = numbers["rule"].tolist().index("downpour")
    step = numbers["step_size"][place]
    assert step < 1e6
    assert numbers["better_seeds"][place] == 0.0  # it is not below itself
    assert np.isfinite(numbers["differing"]).all()
    assert (numbers["differing"] != numbers["loss"]).all()
    cluster = asim.Cluster(4, asim.delays.Gamma(mean=1.0, cv=0.3))
    trace = asim.simulate(cluster, commits=48)
    workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=(4,), batch_size=8)
    losses = []
    for seed in range(3):
        alone = asim.replay(trace, asim.rules.Downpour(float(step)), workload, seed=seed)
        losses.append(float(workload.loss(alone.central, workload.device_data, jax.random.key(0))))
    assert numbers["loss"][place] == pytest.approx(np.median(losses), rel=1e-4)
    assert numbers["lower_quartile"][place] <= numbers["loss"][place] <= numbers["upper_quartile"][place]


@pytest.mark.quick
def test_every_rule_is_in_the_zoo():
    """Every constructor can be made, and those with a window take as many gradients as the others."""
    cluster = asim.Cluster(4, asim.delays.Constant(1.0))
    plain = asim.Scenario(cluster, asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0]), commits=600)
    found = list(ZOO["entries"](built_in_classes("rules"), plain))
    assert {one.rule.name for _, _, one in found} == set(built_in_classes("rules"))
    assert len({label for _, label, _ in found}) == len(found)
    for name, _, one in found:
        assert one.total == 600 // one.rule.window
        swept = ZOO["SWEPT"].get(name, "learning_rate")
        assert one.override(**{swept: 0.2}).rule.numbers[swept] == 0.2


def test_an_unknown_rule_is_an_error():
    with pytest.raises(ValueError, match="`only` must name rules; got 'downpuor'"):
        ZOO["experiment"].override(**SMALL, only="downpuor").run()


def test_forgiven():
    grid = np.array([1.0, 2.0, 4.0, 8.0])
    assert ZOO["forgiven"](grid, np.array([0.1, 0.5, 0.1, 0.1])) == 1.0  # step sizes beyond a bad one do not count
    assert ZOO["forgiven"](grid, np.array([0.1, 0.11, 0.19, 0.3])) == 4.0
    assert np.isnan(ZOO["forgiven"](grid, np.full(4, np.inf)))
