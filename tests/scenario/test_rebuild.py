"""Scenarios rebuilt from their descriptions: equal ones, and refusals of parts without a name.

That every component is made again is shown in `tests/components/test_description.py`.
"""

import json
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.components._description import NotRebuilt
from asyncsim.files._json import to_plain
from asyncsim.scenario._rebuild import hints, rebuild

QUADRATIC = asim.workloads.Quadratic([1.0, 0.1], noise=0.1)


scenario = partial(
    asim.Scenario,
    cluster=asim.Cluster(workers=5, compute=delays.Gamma(mean=2.0, cv=0.3)),
    rule=asim.rules.Downpour(0.05),
    workload=QUADRATIC,
    commits=100,
    record=(),  # what a rule can report takes longer to find than all else
)


def through_json(made: asim.Scenario) -> asim.Scenario:
    """The scenario rebuilt from what a file would hold of it."""
    text = json.dumps([to_plain(made.describe()), hints(made)], allow_nan=False)
    description, told = json.loads(text)
    return rebuild(description, told, digest=made.digest)


def assert_same(made: asim.Scenario) -> None:
    again = through_json(made)
    assert again.digest == made.digest
    assert again.describe() == made.describe()
    assert again.cluster.workers == made.cluster.workers


@pytest.mark.parametrize(
    "changes",
    [
        {"commits": None, "seconds": 12.5},
        {"commits": None, "commits_per_worker": 30},
        {"record": None},
        {"record": {"test_loss": 7}},
        {"seed": 2**31 - 1},
        {"rule": asim.rules.WithProxy(asim.rules.Downpour(0.1), proxy_learning_rate=0.3)},
        {"rule": asim.rules.Downpour(np.float32(0.1))},
        {"rule": asim.rules.Downpour(jnp.asarray(0.1))},
    ],
    ids=repr,
)
def test_a_scenario_is_rebuilt_from_its_description(changes: dict[str, Any]) -> None:
    assert_same(scenario(**changes))


def test_it_follows_when_it_is_overridden() -> None:
    """What was written per worker, or taken from the number of workers, still is."""
    network = asim.Network(bandwidth=1e6)
    made = asim.Scenario(
        asim.Cluster(5, delays.Constant(1.0), network=network),
        asim.rules.DelayAdaptive(0.1),
        QUADRATIC,
        commits_per_worker=30,
    )
    again = through_json(made)
    for changes in ({"workers": 8}, {"eigenvalues": [1.0, 2.0, 3.0]}, {"rule": "gem"}):
        assert again.override(**changes) == made.override(**changes)


def own_loss(params: Any, batch: Any, key: jax.Array) -> jax.Array:
    return jnp.sum(params**2)


class OwnLaw:
    mean, variance = 1.0, 0.0

    def cdf(self, t: Any) -> Any:
        return np.asarray(t) >= 1.0

    def sample(self, rng: np.random.Generator, size: int) -> Any:
        return np.ones(size)


class BeforeCommit(asim.rules.Downpour):
    """A rule of one's own in a module that can be imported."""

    def resume(self, central: Any, server: Any, state: Any, view: asim.rules.View) -> Any:
        return view.pulled


def hidden() -> asim.Rule:
    """A rule of one's own in a function, from where nothing can import it."""

    class Hidden(asim.rules.Downpour):
        pass

    return Hidden(0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"workload": asim.Workload(init=lambda key: jnp.zeros(2), loss=own_loss)},
            "`workload.init`: '<lambda>' is of your own, and no module",
        ),
        ({"rule": asim.rules.WorkerOptimiser(optimiser=optax.adam(0.1))}, "`rule.optimiser`: .* is of your own"),
        ({"rule": hidden()}, "`rule`: 'hidden.<locals>.Hidden' is of your own, and no module"),
        ({"cluster": asim.Cluster(5, OwnLaw())}, "`cluster.compute`: 'OwnLaw' is of your own, and is no dataclass"),
        ({"record": {"size": lambda view: jnp.float32(0.0)}}, "`record` names a function of your own"),
        (
            {
                "workload": asim.workloads.Softmax(
                    asim.datasets.Dataset("digits", np.eye(40), np.arange(40), np.eye(40), np.arange(40), classes=40), 2
                )
            },
            r"`workload.data.train_inputs` is an array of shape \[40, 40\], of which only a hash is kept",
        ),
    ],
    ids=["workload", "optimiser", "hidden", "law", "record", "data"],
)
def test_what_has_no_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(NotRebuilt, match=message):
        through_json(scenario(**changes))


def test_a_rule_with_other_methods_is_another_scenario() -> None:
    assert scenario(rule=BeforeCommit(0.1)) != scenario(rule=asim.rules.Downpour(0.1))


def test_a_rule_of_ones_own_is_imported_from_its_module() -> None:
    own = scenario(rule=BeforeCommit(0.1, window=2))
    assert through_json(own) == own
    assert through_json(own).rule == BeforeCommit(0.1, window=2)
    assert own.override(window=3).rule == BeforeCommit(0.1, window=3)


def test_another_precision() -> None:
    described = scenario().describe()
    with jax.enable_x64(True), pytest.raises(ValueError, match=r"computed in float32.*Unset JAX_ENABLE_X64"):
        rebuild(described)


@pytest.mark.parametrize(
    "change",
    [
        {"rule": {"kind": "rules.gme", "learning_rate": 0.1}},
        {"rule": {"kind": "rules.gem", "learning_rate": 0.1, "colour": 3}},
        {"rule": {"learning_rate": 0.1}},
        {"rule": {"kind": 3}},
        {"cluster": {"workers": 5}},
        {"cluster": {"kind": "cluster.Cluster", "workers": 5}},
        {"cluster": {"kind": "cluster.Cluster", "workers": 0, "compute": {"kind": "delays.constant", "value": 1.0}}},
        {"cluster": {"kind": "cluster.Cluster", "workers": 5, "compute": {"kind": "delays.constnat", "value": 1.0}}},
        {"commits": None},
        {"workload": {"kind": "workloads.quadratic", "eigenvalues": "no"}},
        {"workload": {"import": "os:system"}},
    ],
    ids=repr,
)
def test_damaged_descriptions_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(NotRebuilt):
        rebuild({**scenario().describe(), **change})
