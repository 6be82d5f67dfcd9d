"""Workloads of the known cases, of which each goes through another part of the library. Only public names."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import asyncsim as asim
from asyncsim import datasets, workloads

DRAWN = np.random.default_rng(0)
INPUTS = DRAWN.normal(size=(200, 30)).astype(np.float32)
TARGETS = np.tanh(INPUTS @ DRAWN.normal(size=(30, 4))).astype(np.float32)
PIXELS = DRAWN.normal(size=(60, 28, 28)).astype(np.float32)


def init_own(key: jax.Array) -> dict[str, Any]:
    """Return the parameters of a user's own model, a nested pytree."""
    first, second = jax.random.split(key)
    return {
        "hidden": [jax.random.normal(first, (30, 8)) / 5, jnp.zeros(8)],
        "out": {"weight": jax.random.normal(second, (8, 4)) / 3, "scale": jnp.ones(())},
    }


def own_loss(params: dict[str, Any], batch: Any, key: jax.Array) -> jax.Array:
    """Return the mean square error, with dropout by the key."""
    inputs, targets = batch
    weight, bias = params["hidden"]
    hidden = jnp.tanh(inputs @ weight + bias) * jax.random.bernoulli(key, 0.8, (8,))
    return jnp.mean((params["out"]["scale"] * (hidden @ params["out"]["weight"]) - targets) ** 2)


def own_workload(batch_size: int = 8) -> asim.Workload:
    """Return the user's own model with its data."""
    return asim.Workload(init=init_own, loss=own_loss, data=(INPUTS, TARGETS), batch_size=batch_size)


def images() -> datasets.Dataset:
    """Return images of noise, of the size that `ConvNet` takes."""
    labels = np.arange(60) % 10
    return datasets.Dataset("noise", PIXELS[:50], labels[:50], PIXELS[50:], labels[50:], classes=10)


WORKLOADS: dict[str, Callable[[], asim.Workload]] = {
    "quadratic": lambda: workloads.Quadratic([1.0, 0.3, 0.1], noise=0.1),
    "own": own_workload,
    "surface": lambda: workloads.Surface("booth", noise=0.1, start=(0.0, 1.0)),
    "mlp": lambda: workloads.MLP(datasets.Digits(), hidden=(16, 8), batch_size=8),
    "softmax": lambda: workloads.Softmax(datasets.Digits(), batch_size=8, training_loss=True),
    "softmax, parts": lambda: workloads.Softmax(
        datasets.partition(datasets.Digits(), workers=5, by="dirichlet", alpha=0.5), batch_size=8
    ),
    "convnet": lambda: workloads.ConvNet(images(), batch_size=4),
    "alexnet": lambda: workloads.AlexNet(datasets.AsColour(datasets.Digits()), batch_size=2),
    "transformer": lambda: workloads.Transformer(
        datasets.Markov(1, 6, sequences=200, context=8), layers=2, width=8, batch_size=4
    ),
    "bits": lambda: workloads.Bits(least=[2, 3], bits=4, samples=6),
}
