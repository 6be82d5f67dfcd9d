import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from asyncsim.datasets import Dataset
from asyncsim.workloads import ConvNet
from asyncsim.workloads._convnet import WEIGHTS, _first_maximum, dropout
from tests.workloads.test_alexnet import assert_half_are_dropped

BATCH = 6
BLANK = np.zeros((BATCH, 28, 28)), np.zeros(BATCH, int)
NET = ConvNet(Dataset("blank", *BLANK, *BLANK, classes=10), batch_size=BATCH)


@pytest.fixture(scope="module", autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def params():
    return NET.init(jax.random.key(0))


@pytest.fixture(scope="module")
def batch():
    """Like MNIST's: blank around the middle, so that pooling squares tie."""
    images = np.zeros((BATCH, 28, 28))
    images[:, 6:22, 6:22] = np.random.default_rng(0).random((BATCH, 16, 16))
    return jnp.asarray(images), jnp.asarray(np.random.default_rng(1).integers(10, size=BATCH))


def reference_logits(params, images, factors=1.0):
    """The network as the paper states it, by XLA's convolution and reduce_window."""

    def conv(x, name):
        bias = params[f"{name}_bias"][:, None, None]
        return lax.conv_general_dilated(x, params[f"{name}_weight"], (1, 1), "VALID") + bias

    def pool(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def linear(x, name):
        return x @ params[f"{name}_weight"].T + params[f"{name}_bias"]

    x = jax.nn.relu(pool(conv(images[:, None], "conv1")))
    x = jax.nn.relu(pool(conv(x, "conv2") * factors)).reshape(len(images), -1)
    return linear(jax.nn.relu(linear(jax.nn.relu(linear(x, "linear1")), "linear2")), "linear3")


def reference_loss(params, batch, key):
    images, labels = batch
    factors = dropout(key, len(images)).transpose(3, 0, 1, 2)
    log_probabilities = jax.nn.log_softmax(reference_logits(params, images, factors))
    return -log_probabilities[jnp.arange(len(labels)), labels].mean()


value_and_grad = jax.jit(jax.value_and_grad(NET.loss))
reference_value_and_grad = jax.jit(jax.value_and_grad(reference_loss))


def assert_close(actual, expected, rtol=1e-10):
    for name in expected:
        np.testing.assert_allclose(actual[name], expected[name], rtol=rtol, atol=1e-14, err_msg=name)


def test_ten_tensors_of_163790_parameters(params):
    assert len(params) == 10
    assert sum(tensor.size for tensor in params.values()) == 163_790


def test_initial_values_are_uniform_within_the_inverse_root_of_the_fan_in(params):
    for name, shape in WEIGHTS.items():
        bound = 1 / math.sqrt(math.prod(shape[1:]))
        weight, bias = np.asarray(params[f"{name}_weight"]), np.asarray(params[f"{name}_bias"])
        assert weight.shape == shape
        assert bias.shape == shape[:1]
        assert max(abs(weight).max(), abs(bias).max()) <= bound
        assert abs(weight).max() > 0.95 * bound
        np.testing.assert_allclose(weight.std(), bound / math.sqrt(3), rtol=0.08)


def test_loss_and_gradient_are_those_of_plain_convolutions(params, batch):
    key = jax.random.key(5)
    loss, gradient = value_and_grad(params, batch, key)
    expected_loss, expected_gradient = reference_value_and_grad(params, batch, key)
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-10)
    assert_close(gradient, expected_gradient)


def test_evaluation_has_no_dropout(params, batch):
    images, _ = batch
    logits = jax.jit(NET.logits)(params, images)
    assert logits.shape == (BATCH, 10)
    np.testing.assert_allclose(logits, jax.jit(reference_logits)(params, images), rtol=1e-10)


def test_training_drops_half_the_channels_of_each_image_and_doubles_the_rest():
    factors = np.asarray(dropout(jax.random.key(0), 500))
    assert factors.shape == (20, 1, 1, 500)
    assert_half_are_dropped(factors)
    assert len(np.unique(factors, axis=-1).T) > 490  # every image its own channels


def test_a_tied_maximum_sends_its_gradient_to_the_first():
    x = jnp.array([[1.0, 0.0], [1.0, 2.0], [0.0, 2.0], [1.0, 2.0]])
    gradient = jax.grad(lambda x: _first_maximum(x).sum())(x)
    np.testing.assert_array_equal(gradient, [[1, 0], [0, 1], [0, 0], [0, 0]])
