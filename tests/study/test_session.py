"""A session that goes on: values that the user's code reads change between one run and the next."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

import asyncsim as asim

DECAY = 0.0


def start(key: Any) -> Any:
    return jnp.ones(2)


def loss(params: Any, batch: Any, key: Any) -> Any:
    return jnp.sum(params**2) + DECAY * jnp.sum(jnp.abs(params))


def scenario() -> asim.Scenario:
    cluster, rule = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0)), asim.rules.Downpour(0.1)
    return asim.Scenario(cluster, rule, asim.Workload(init=start, loss=loss), commits=6, record=())


@pytest.mark.usefixtures("empty_pages")
@pytest.mark.parametrize("way", ["run", "sweep", "compare"])
def test_a_global_that_was_changed_counts(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where JAX has compiled the old value in, and where the scenario was described before."""

    def first_loss(made: asim.Scenario, number: int) -> float:
        if way == "run":
            return float(asim.run(made, tmp_path / str(number), picture=False).run.loss[0])
        if way == "sweep":
            return float(next(iter(asim.sweep([made], tmp_path, jobs=0))).run.loss[0])
        return float(asim.compare(asim.Comparison({"one": made}), tmp_path / str(number))["one"].run.loss[0])

    same = scenario()
    for number, decay in enumerate((0.0, 1.0)):
        monkeypatch.setitem(globals(), "DECAY", decay)
        for place, made in enumerate((same, scenario())[: number + 1]):
            assert first_loss(made, 2 * number + place) == 2.0 + 2 * decay
