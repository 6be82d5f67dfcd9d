"""softmax, mlp and convnet as workloads: sizes, first values, gradients and evaluation."""

import importlib
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import asyncsim as asim
from asyncsim.datasets import Dataset, Digits
from asyncsim.engine._loop import replay_chunk
from asyncsim.workloads import MLP, AlexNet, ConvNet, Softmax
from asyncsim.workloads._classification import EVALUATED_TOGETHER, measure
from tests.problems import refusals

KEY = jax.random.key(0)


def random_data(train: int = 40, test: int = 30, shape: tuple[int, ...] = (28, 28), classes: int = 10) -> Dataset:
    rng = np.random.default_rng(0)
    halves = [(rng.normal(size=(n, *shape)), rng.integers(classes, size=n)) for n in (train, test)]
    return Dataset("random", *halves[0], *halves[1], classes=classes)


MODELS: dict[str, Callable[[Dataset, int], asim.Workload]] = {
    "softmax": Softmax,
    "mlp": lambda data, batch_size: MLP(data, hidden=(7, 5), batch_size=batch_size),
    "convnet": ConvNet,
    "alexnet": AlexNet,
}
SHAPES = {"alexnet": (32, 32, 3)}


def count(workload: asim.Workload) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(workload.init, KEY)))


def some_params(workload: asim.Workload) -> Any:
    """Parameters away from zero, of the dtype of the workload's own."""
    rng = np.random.default_rng(1)
    shapes = jax.eval_shape(workload.init, KEY)
    return jax.tree.map(lambda leaf: jnp.asarray(0.5 * rng.normal(size=leaf.shape), leaf.dtype), shapes)


def a_batch(workload: asim.Workload) -> Any:
    return jax.tree.map(lambda array: array[: workload.batch_size], workload.device_data)


# Sizes and first values


def test_parameter_counts() -> None:
    data = Digits()
    assert count(Softmax(data, 32)) == 650
    assert count(MLP(data, hidden=(32,), batch_size=32)) == 2_410
    assert count(MLP(data, hidden=(128, 64), batch_size=32)) == 17_226
    assert count(MLP(data, hidden=(), batch_size=32)) == 650


def test_softmax_starts_where_all_classes_are_equally_likely() -> None:
    workload = Softmax(Digits(), batch_size=32)
    params = workload.init(KEY)
    assert {name: (leaf.shape, leaf.any()) for name, leaf in params.items()} == {
        "bias": ((10,), False),
        "weight": ((64, 10), False),
    }
    assert float(workload.evaluate(params)["test_loss"]) == pytest.approx(math.log(10), rel=1e-6)
    with jax.enable_x64(True):
        loss = workload.loss(workload.init(KEY), a_batch(workload), KEY)
    assert float(loss) == pytest.approx(math.log(10), rel=1e-15)


def test_mlp_starts_uniform_in_its_bounds() -> None:
    layers = MLP(random_data(shape=(30, 30)), hidden=(400, 200), batch_size=32).init(KEY)
    for layer, fan_in in zip(layers, (900, 400, 200), strict=True):
        for values in layer.values():
            scaled = np.asarray(values, float).ravel() * fan_in**0.5
            assert np.abs(scaled).max() <= 1 + 1e-6
            assert abs(scaled.mean()) < 4 * (1 / 3 / scaled.size) ** 0.5
            assert abs(np.square(scaled).mean() - 1 / 3) < 4 * (4 / 45 / scaled.size) ** 0.5


def test_layers_and_seeds_start_differently() -> None:
    workload = MLP(random_data(shape=(8,)), hidden=(8, 8), batch_size=4)
    first, second = workload.init(KEY), workload.init(jax.random.key(1))
    assert not np.array_equal(first[0]["weight"], first[1]["weight"])
    assert not np.array_equal(first[0]["weight"], second[0]["weight"])


# Gradients


@pytest.mark.usefixtures("x64")
def test_gradient_is_that_of_finite_differences() -> None:
    workload = MODELS["mlp"](random_data(shape=(3, 2), classes=4), 8)
    batch = a_batch(workload)
    loss = jax.jit(lambda params: workload.loss(params, batch, KEY))
    check_grads(loss, (some_params(workload),), order=1, eps=1e-6, rtol=1e-6)


@pytest.mark.usefixtures("x64")
def test_softmax_gradient_is_its_closed_form() -> None:
    workload = Softmax(random_data(shape=(6,), classes=4), batch_size=9)
    params, (x, y) = some_params(workload), a_batch(workload)
    _, gradient = workload.loss_and_gradient(params, (x, y), KEY)
    scores = np.exp(x @ params["weight"] + params["bias"])
    difference = (scores / scores.sum(1, keepdims=True) - np.eye(4)[y]) / 9
    np.testing.assert_allclose(gradient["weight"], x.T @ difference, rtol=1e-12)
    np.testing.assert_allclose(gradient["bias"], difference.sum(0), rtol=1e-12)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.usefixtures("x64")
def test_dtype_follows_the_precision_of_jax(name: str) -> None:
    workload = MODELS[name](random_data(shape=SHAPES.get(name, (28, 28))), 4)
    params = jax.eval_shape(workload.init, KEY)
    results = jax.eval_shape(workload.loss_and_gradient, params, a_batch(workload), KEY)
    measured = jax.eval_shape(workload.evaluate, params)
    assert {leaf.dtype for leaf in jax.tree.leaves((params, results, measured))} == {jnp.dtype("float64")}


def test_loss_is_sound_where_probabilities_vanish() -> None:
    workload = Softmax(random_data(shape=(2,), classes=3), batch_size=4)
    params = {"bias": jnp.array([0.0, 1e4, -1e4]), "weight": jnp.zeros((2, 3))}
    loss, gradient = workload.loss_and_gradient(params, a_batch(workload), KEY)
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves((loss, gradient)))


# Evaluation


@pytest.mark.parametrize("test", [1, 2 * EVALUATED_TOGETHER + 345])
def test_evaluation_equals_numpy(test: int) -> None:
    workload = Softmax(random_data(test=test, shape=(5, 2), classes=4), batch_size=4)
    params, data = some_params(workload), workload.data
    scores = data.test_inputs.reshape(test, 10).astype(float) @ params["weight"] + params["bias"]
    log_probabilities = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    measured = workload.evaluate(params)
    assert float(measured["test_accuracy"]) == np.float32((scores.argmax(1) == data.test_labels).mean())
    expected = -float(log_probabilities[np.arange(test), data.test_labels].mean())
    assert float(measured["test_loss"]) == pytest.approx(expected, rel=1e-5)


def test_evaluation_of_the_mlp_equals_numpy() -> None:
    workload = MODELS["mlp"](random_data(test=500, shape=(4,), classes=3), 4)
    params, x = some_params(workload), workload.data.test_inputs
    for layer in params[:-1]:
        x = np.maximum(x @ layer["weight"] + layer["bias"], 0)
    answers = (x @ params[-1]["weight"] + params[-1]["bias"]).argmax(1)
    assert float(workload.evaluate(params)["test_accuracy"]) == np.float32(
        (answers == workload.data.test_labels).mean()
    )


def test_evaluation_can_be_part_of_a_larger_program() -> None:
    workload = Softmax(Digits(), batch_size=32)
    params = workload.init(KEY)
    inside = jax.jit(lambda params: workload.evaluate(params)["test_loss"])(params)  # the first call of all
    assert float(inside) == pytest.approx(float(workload.evaluate(params)["test_loss"]), rel=1e-6)


# Compiled once


def test_another_data_set_of_one_size_compiles_nothing() -> None:
    trace = asim.Trace.from_commits([0, 1, 0])
    rule = asim.rules.Downpour(0.1)
    sizes, source = set(), random_data(shape=(4,))
    for changed in (1.0, 2.0):
        data = Dataset("changed", *(changed * source.train_inputs, source.train_labels) * 2, classes=10)
        workload = MLP(data, hidden=(3,), batch_size=4)
        asim.replay(trace, rule, workload).evaluate()
        sizes.add((replay_chunk.traced, measure.traced))
    assert len(sizes) == 1


# Errors


LIKE_MNIST = r"`data` must be images of 28 × 28 pixels .* got 'random'"

test_what_does_not_fit_is_named = refusals(
    (lambda: MLP(random_data(), hidden=(0,), batch_size=4), r"`hidden` must be .*; got .*\. \w+"),
    (lambda: MLP(random_data(), hidden=32, batch_size=4), r"`hidden` must be .*; got .*\. \w+"),  # type: ignore[arg-type]
    (lambda: ConvNet(random_data(shape=(8, 8)), 4), LIKE_MNIST),
    (lambda: ConvNet(random_data(shape=(784,)), 4), LIKE_MNIST),
    (lambda: ConvNet(random_data(classes=11), 4), LIKE_MNIST),
)


def test_parameters_drawn_together_are_those_drawn_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    init = MLP(Digits(), hidden=(7, 3), batch_size=8).init
    together = jax.tree.leaves(init(jax.random.key(3)))
    monkeypatch.setattr(importlib.import_module("asyncsim.workloads._classification"), "MOST_TOGETHER", 0)
    for one, other in zip(together, jax.tree.leaves(init(jax.random.key(3))), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


@pytest.mark.networks
def test_the_training_loss_is_that_of_all_training_examples():
    data = asim.datasets.Digits()
    plain, measured = (asim.workloads.Softmax(data, 32, training_loss=on) for on in (False, True))
    params = {"bias": np.linspace(0, 1, 10), "weight": np.random.default_rng(0).normal(size=(64, 10))}
    found = measured.evaluate(params)
    loss = measured.loss(params, measured.device_data, jax.random.key(0))
    assert float(found["training_loss"]) == pytest.approx(float(loss), rel=1e-5)
    assert {name: float(value) for name, value in found.items() if name != "training_loss"} == {
        name: float(value) for name, value in plain.evaluate(params).items()
    }
