"""Mini-batches, a model of the user's own, and descriptions of workloads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.costs import sizes
from asyncsim.trace._columns import count_earlier
from asyncsim.workloads._batches import Shuffles

EXAMPLES, BATCH = 23, 4
EPOCH = EXAMPLES // BATCH


class Line(NamedTuple):
    """Parameters as a user may have them: nested, of several shapes, a scalar among them."""

    slope: jax.Array
    shift: dict[str, Any]


def line_init(key: jax.Array) -> Line:
    return Line(jax.random.normal(key, (3,)), {"shift": jnp.zeros(()), "unused": (jnp.ones((2, 2)),)})


def line_loss(params: Line, batch: dict[str, jax.Array], key: jax.Array) -> jax.Array:
    del key
    return jnp.mean((batch["x"] @ params.slope + params.shift["shift"] - batch["y"]) ** 2)


def line(batch_size: int = BATCH) -> asim.Workload:
    x = np.random.default_rng(0).normal(size=(EXAMPLES, 3))
    data = {"x": x, "y": x @ [1.0, -2.0, 0.5] + 0.25}
    return asim.Workload(init=line_init, loss=line_loss, data=data, batch_size=batch_size)


# Mini-batches


def test_seeds_and_workers_have_shuffles_of_their_own() -> None:
    first = [Shuffles(EXAMPLES, BATCH).take(seed, np.array([w]), np.array([0])) for seed in (0, 1) for w in (0, 1)]
    assert len({batch.tobytes() for batch in first}) == 4


def test_batches_are_whole_examples() -> None:
    workload = line()
    batch = workload.batch(0, 2, 1)
    rows = Shuffles(EXAMPLES, BATCH).take(0, np.array([2]), np.array([1]))[0]
    assert isinstance(workload.data, dict)
    for name, array in workload.data.items():
        np.testing.assert_allclose(batch[name], array[rows], rtol=1e-6)


# A model of the user's own


def test_any_pytree_is_learned() -> None:
    trace = asim.simulate(asim.Cluster(workers=4, compute=asim.delays.Gamma(mean=1.0, cv=0.3)), commits=2_000)
    run = asim.replay(trace, asim.rules.Downpour(0.05), line())
    assert isinstance(run.central, Line)
    np.testing.assert_allclose(run.central.slope, [1.0, -2.0, 0.5], atol=1e-4)
    assert float(run.central.shift["shift"]) == pytest.approx(0.25, abs=1e-4)
    np.testing.assert_array_equal(run.central.shift["unused"][0], np.ones((2, 2)))
    assert run.evaluate() == {}


def test_epochs_leave_the_rest_out() -> None:
    assert (line().examples, line().batches_per_epoch) == (EXAMPLES, EPOCH)
    assert (asim.workloads.Quadratic([1.0]).examples, line(EXAMPLES).batches_per_epoch) == (0, 1)


@pytest.mark.parametrize("batch_size", [0, -1, EXAMPLES + 1, 2.0, True])
def test_batch_size_must_fit_the_data(batch_size: Any) -> None:
    with pytest.raises(ValueError, match=r"`batch_size` must be .*; got"):
        line(batch_size)


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        (line(), "Workload(line_loss, batch_size=4)"),
        (asim.workloads.Quadratic([1.0, 2.0], 0.5), "Quadratic(eigenvalues=[1.0, 2.0], noise=0.5, start=1.0)"),
        (
            asim.workloads.Quadratic(range(1, 1730)),
            "Quadratic(eigenvalues=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0…, ",
        ),
        (asim.Workload(line_init, line_loss), "Workload(line_loss)"),
        (asim.workloads.MLP(asim.datasets.Digits(), (32,), 16), "MLP(digits, hidden=[32], batch_size=16)"),
    ],
)
def test_a_workload_prints_in_one_line(workload: asim.Workload, expected: str) -> None:
    assert repr(workload).startswith(expected)
    assert len(repr(workload)) < 120


# The mini-batches of a replay, one at a time


def tell(params: Any, batch: Any, key: jax.Array) -> jax.Array:
    """A loss from which the examples and their order can be read."""
    return (0 * params).sum() + (batch * jnp.arange(1.0, 4.0) ** 3).sum()


@pytest.mark.parametrize("windows", [2, (3, 1, 2)])
@pytest.mark.parametrize(
    "source", [{"data": np.arange(20.0) ** 2, "batch_size": 3}, {"noise": lambda key: jax.random.normal(key, (3,))}]
)
def test_a_batch_is_the_one_that_the_replay_used(source: dict[str, Any], windows: int | tuple[int, ...]) -> None:
    rule = asim.rules.AGN(0.1, window=windows)
    trace = asim.Trace.from_commits([0, 2, 2, 1, 2, 0, 2, 2, 2, 2])
    workload = asim.Workload(lambda key: jnp.zeros(2), tell, **source)
    loss = asim.replay(trace, rule, workload, seed=5).loss
    for k, (worker, job) in enumerate(zip(trace.worker.tolist(), count_earlier(trace.worker).tolist(), strict=True)):
        window = int(np.broadcast_to(windows, 3)[worker])
        batches = [workload.batch(5, worker, step) for step in range(job * window, (job + 1) * window)]
        told = np.mean([tell(np.zeros(2), batch, jax.random.key(0)) for batch in batches])
        np.testing.assert_allclose(loss[k], told, rtol=1e-5, atol=1e-5)
    assert len(np.unique(loss)) == 10


def test_a_batch_is_none_where_there_is_nothing_to_draw_from() -> None:
    assert asim.workloads.Quadratic([1.0]).batch(0, 0, 0) is None
    for arguments, name in (((-1, 0, 0), "seed"), ((0, 0.5, 0), "worker"), ((0, 0, True), "job")):
        with pytest.raises(ValueError, match=f"`{name}` must be an integer of at least 0"):
            line().batch(*arguments)  # type: ignore[arg-type]


# An `init` in plain Python, which needs the key's numbers and cannot be tried on shapes alone


def plain_init(key: jax.Array) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(int(jnp.sum(jax.random.key_data(key))))
    return {"x": generator.normal(size=2).astype(np.float32)}


PLAIN = asim.Workload(plain_init, asim.workloads.Quadratic([1.0, 0.5]).loss)
SLOW_LINK = asim.Cluster(2, asim.delays.Constant(1.0), network=asim.Network(bandwidth=1e3))


def test_a_run_of_parameters_from_plain_python_can_be_loaded(tmp_path: Path) -> None:
    rule = asim.rules.Downpour(0.1)
    run = asim.replay(asim.Trace.from_commits([0, 1]), rule, PLAIN)
    run.save(tmp_path / "run.npz")
    np.testing.assert_array_equal(asim.Run.load(tmp_path / "run.npz", rule, PLAIN).central["x"], run.central["x"])


def test_messages_have_the_size_of_parameters_from_plain_python() -> None:
    scenario = asim.Scenario(SLOW_LINK, asim.rules.Downpour(0.1), PLAIN, commits=4)
    assert isinstance(scenario.scheduled, asim.Cluster)
    assert scenario.scheduled.network.message_bytes == 8


def test_updates_of_parameters_from_plain_python_have_sizes() -> None:
    log = asim.Trace.from_commits([0, 1, 0, 1])
    assert sizes(asim.Scenario(log, asim.rules.Downpour(0.1), PLAIN)) == {"message_bytes": 8, "parameter_bytes": 8}


NEED_NUMBERS = {  # functions of the key's words that no tracer can be given
    "a conversion": lambda words: int(words[0]),
    "a branch": lambda words: 1.0 if words[0] > 0 else 2.0,
    "NumPy": lambda words: np.asarray(words).sum(),
    "a mask": lambda words: words[words > 0].size,
}


@pytest.mark.parametrize("number", NEED_NUMBERS.values(), ids=NEED_NUMBERS)
def test_parameters_from_plain_python_have_groups(number: Callable[[jax.Array], Any]) -> None:
    def init(key: jax.Array) -> dict[str, np.ndarray]:
        return {"x": np.full(2, number(jax.random.key_data(key)), np.float32)}

    assert asim.Workload(init, PLAIN.loss).grouped(["all"]).groups == ("all",)


def test_a_mistake_in_init_is_that_of_its_groups() -> None:
    with pytest.raises(ZeroDivisionError):
        asim.Workload(lambda key: 1 / 0, PLAIN.loss).grouped(["all"])
