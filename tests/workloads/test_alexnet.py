"""AlexNet: the order and sizes of its tensors, and patches that equal plain convolutions."""

import importlib
import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import asyncsim as asim
from asyncsim.datasets import Dataset
from asyncsim.workloads._alexnet import lax_conv, max_pool, patches_conv

net = importlib.import_module("asyncsim.workloads._alexnet")

BATCH, CLASSES = 5, 7
KEY = jax.random.key(0)
FULL_SHAPES = [
    *[(64, 3, 11, 11), (192, 64, 5, 5), (384, 192, 3, 3), (256, 384, 3, 3), (256, 256, 3, 3)],
    *[(4096, 9216), (4096, 4096), (1000, 4096)],
]


def images(side: int, classes: int = 10, examples: int = 4) -> Dataset:
    inputs = np.random.default_rng(0).normal(size=(examples, side, side, 3))
    labels = np.arange(examples) % classes
    return Dataset("images", inputs, labels, inputs, labels, classes=classes)


def shapes_of(workload: asim.Workload) -> list[tuple[int, ...]]:
    return [tensor.shape for tensor in jax.tree.leaves(jax.eval_shape(workload.init, KEY))]


# The sixteen tensors


def test_the_sixteen_tensors_are_in_the_networks_order() -> None:
    """The small network has a quarter of the channels."""
    full = shapes_of(asim.workloads.AlexNet(images(224, classes=1000), batch_size=2))
    small = shapes_of(asim.workloads.AlexNet(images(32), batch_size=2))
    assert full == [tensor for weight in FULL_SHAPES for tensor in (weight, weight[:1])]
    assert [(len(t), 4 * t[0]) for t in small[:10]] == [(len(t), t[0]) for t in full[:10]]
    assert [sum(map(math.prod, shapes)) for shapes in (full, small)] == [61_100_840, 180_442]


@pytest.mark.parametrize("side", [32, 224])
def test_loss_and_evaluation_have_the_right_shapes(side: int) -> None:
    workload = asim.workloads.AlexNet(images(side, classes=13), batch_size=3)
    params = jax.eval_shape(workload.init, KEY)
    batch = jax.tree.map(lambda array: array[:3], workload.device_data)
    loss, gradient = jax.eval_shape(workload.loss_and_gradient, params, batch, KEY)
    assert loss.shape == ()
    assert gradient == params
    form = net.FULL if side == 224 else net.SMALL
    assert jax.eval_shape(form.logits, params, batch[0]).shape == (3, 13)


# Against plain convolutions, in double precision


def plain_conv(x: jax.Array, weight: jax.Array, stride: int, pad: int) -> jax.Array:
    return lax.conv_general_dilated(x, weight, (stride, stride), [(pad, pad)] * 2)


def plain_pool(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "VALID")


@pytest.mark.usefixtures("x64")
def test_convolution_by_patches_and_its_derivatives_are_those_of_lax() -> None:
    rng = np.random.default_rng(0)
    cases = [(11, 4, 2, 15, 19), (5, 1, 2, 6, 7), (3, 1, 1, 4, 3), (5, 2, 2, 8, 9), (1, 3, 0, 5, 4), (3, 2, 1, 1, 2)]
    inputs = [
        (rng.normal(size=(2, 3, height, width)), rng.normal(size=(4, 3, size, size)))
        for size, _, _, height, width in cases
    ]

    def by_patches(x: jax.Array, weight: jax.Array, stride: int, pad: int) -> jax.Array:
        return patches_conv(x.transpose(1, 2, 3, 0), weight, stride, pad).transpose(3, 0, 1, 2)

    def all_of(conv: Any) -> Any:
        made = []
        for (_, stride, pad, _, _), (x, weight) in zip(cases, inputs, strict=True):
            out, back = jax.vjp(lambda x, w, s=stride, p=pad: conv(x, w, s, p), x, weight)
            made.append((out, back(jnp.sin(jnp.arange(out.size)).reshape(out.shape))))
        return made

    actual, expected = jax.jit(lambda: all_of(by_patches))(), jax.jit(lambda: all_of(plain_conv))()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12), actual, expected)


def test_pooling_takes_the_maximum_and_its_gradient_goes_to_the_first() -> None:
    x = np.random.default_rng(0).integers(3, size=(2, 8, 7, 4)).astype(float)  # many ties
    pooled = jax.jit(max_pool)(x)
    gradient = jax.jit(jax.grad(lambda x: max_pool(x).sum()))(x)
    expected, expected_gradient = np.zeros(pooled.shape), np.zeros(x.shape)
    for c, i, j, n in np.ndindex(*pooled.shape):
        window = x[c, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3, n]
        expected[c, i, j, n] = window.max()
        row, column = divmod(int(window.argmax()), 3)
        expected_gradient[c, 2 * i + row, 2 * j + column, n] += 1
    np.testing.assert_array_equal(pooled, expected)
    np.testing.assert_array_equal(gradient, expected_gradient)


def test_pooling_hides_no_nan() -> None:
    x = np.where(np.eye(9), np.nan, 0.0).reshape(9, 3, 3, 1)  # each channel has one, everywhere once
    assert np.isnan(jax.jit(max_pool)(x)).all()


def tiny(conv: Any) -> Any:
    """The small network with fewer channels, which compiles and runs sooner."""
    channels = (4, 6, 5, 6, 7)
    convolutions = [replace(c, channels=n) for c, n in zip(net.SMALL.convolutions, channels, strict=True)]
    return net.Form(32, tuple(convolutions), (9, 8), conv)


def plain_logits(params: Any, form: Any, x: Any, factors: Any = (1.0, 1.0)) -> jax.Array:
    """AlexNet as it is usually written: (batch, channels, height, width), ReLU before pooling."""
    x = x.transpose(0, 3, 1, 2)
    for (weight, bias), c in zip(params[:5], form.convolutions, strict=True):
        x = jax.nn.relu(plain_conv(x, weight, c.stride, c.pad) + bias[:, None, None])
        x = plain_pool(x) if c.pooled else x
    x = x.reshape(len(x), -1)
    for (weight, bias), factor in zip(params[5:7], factors, strict=True):
        x = jax.nn.relu((x * factor) @ weight.T + bias)
    return x @ params[7].weight.T + params[7].bias


@pytest.mark.usefixtures("x64")
def test_loss_gradient_and_evaluation_are_those_of_the_plain_network() -> None:
    rng = np.random.default_rng(1)
    x, labels = rng.normal(size=(BATCH, 32, 32, 3)), rng.integers(CLASSES, size=BATCH)
    by_patches, by_lax = tiny(patches_conv), tiny(lax_conv)
    # Larger than the first parameters, under which the last layers hardly depend on the image.
    bounds = [(shape, 2.5 / math.prod(shape[1:]) ** 0.5) for shape in by_patches.weights(CLASSES)]
    params = [net.Layer(rng.uniform(-b, b, shape), rng.uniform(-b, b, shape[0])) for shape, b in bounds]
    factors = [factor.T for factor in by_patches.dropout(KEY, BATCH)]

    def plain_loss(params: Any) -> jax.Array:
        log_probabilities = jax.nn.log_softmax(plain_logits(params, by_lax, x, factors))
        return -log_probabilities[jnp.arange(BATCH), labels].mean()

    def all_three(params: Any) -> Any:
        losses = [lambda p, form=form: form.loss(p, (x, labels), KEY) for form in (by_patches, by_lax)]
        logits = by_patches.logits(params, x), by_lax.logits(params, x), plain_logits(params, by_lax, x)
        return [*zip([jax.value_and_grad(loss)(params) for loss in (*losses, plain_loss)], logits, strict=True)]

    *ours, plain = jax.jit(all_three)(params)
    assert all(np.abs(tensor).max() > 1e-4 for tensor in jax.tree.leaves(plain))
    for one in ours:
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-13), one, plain)


# Dropout


def assert_half_are_dropped(factors: np.ndarray) -> None:
    assert set(factors.ravel()) == {0.0, 2.0}
    assert abs((factors > 0).mean() - 0.5) < 4 * 0.5 / math.sqrt(factors.size)


def test_training_drops_half_the_inputs_of_the_first_two_linear_layers_and_doubles_the_rest() -> None:
    first, second = (np.asarray(factor) for factor in net.SMALL.dropout(KEY, 200))
    assert (first.shape, second.shape) == ((net.SMALL.features, 200), (net.SMALL.units[0], 200))
    for factor in (first, second):
        assert_half_are_dropped(factor)
    assert not np.array_equal(first, second[: len(first)])


# As a workload


def test_workloads_of_one_size_share_a_program() -> None:
    workloads = [asim.workloads.AlexNet(images(32, examples=n), batch_size=2) for n in (4, 9)]
    first, second = (workload.loss_and_gradient for workload in workloads)
    assert jax.tree.structure(first) == jax.tree.structure(second)
    assert len({workload.logits for workload in workloads}) == 1


@pytest.mark.parametrize("shape", [(32, 32), (3, 32, 32), (64, 64, 3), (3072,)])
def test_images_of_another_size_are_refused_with_the_remedy(shape: tuple[int, ...]) -> None:
    inputs = np.zeros((4, *shape))
    labels = np.array([0, 1, 0, 1])
    data = Dataset("odd", inputs, labels, inputs, labels, classes=2)
    with pytest.raises(ValueError, match=r"`data` must be images of 224 × 224 .* got 'odd', \(.*\. Use .*AsColour"):
        asim.workloads.AlexNet(data, batch_size=2)
