"""A session that goes on: values that the user's code reads change between one run and the next."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import asyncsim as asim
from asyncsim.engine import _loop as loop

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


TRACE = asim.Trace.from_commits([0, 1, 0])


def penalty(params: Any) -> Any:
    return DECAY * jnp.sum(jnp.abs(params))


def add_penalty(total: Any, params: Any) -> Any:
    return total + penalty(params), None


compiled_penalty = jax.jit(penalty)
cheap_penalty = jax.checkpoint(penalty)
WAYS: dict[str, Any] = {  # by which JAX remembers a function that the loss calls
    "a function": penalty,
    "a compiled function": compiled_penalty,
    "a function that is computed again": cheap_penalty,
    "the body of a loop": lambda params: lax.scan(add_penalty, 0.0, params[None])[0],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_replay_after_a_change_has_the_numbers_of_a_new_session(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of another loss that calls the same function, and back at the first value."""
    losses = [lambda params, batch, key: jnp.sum(params**2) + WAYS[way](params) for _ in range(2)]
    rule = asim.rules.Downpour(0.1)
    for decay, loss in ((0.0, losses[0]), (1.0, losses[0]), (1.0, losses[1]), (0.0, losses[0])):
        monkeypatch.setitem(globals(), "DECAY", decay)
        run = asim.replay(TRACE, rule, asim.Workload(init=start, loss=loss))
        assert run.loss[0] == 2.0 + 2 * decay


def square(params: Any, batch: Any, key: Any) -> Any:
    return jnp.sum(params**2)


def test_a_change_compiles_what_reaches_it_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    of_the_user = jax.jit(lambda x: x + 1.0)
    rule = asim.rules.Downpour(0.1)
    workload, other = asim.Workload(init=start, loss=loss), asim.Workload(init=start, loss=square)

    def programs() -> tuple[int, int]:
        of_the_user(1.0)
        asim.replay(TRACE, rule, other)
        return of_the_user._cache_size(), loop.replay_chunk.traced

    asim.replay(TRACE, rule, workload)
    before = programs()
    monkeypatch.setitem(globals(), "DECAY", 3.0)
    assert scenario().digest
    assert (of_the_user._cache_size(), loop.replay_chunk.traced) == before  # a hash has no side effects
    assert asim.replay(TRACE, rule, workload).loss[0] == 8.0
    assert programs() == (before[0], before[1] + 1)
