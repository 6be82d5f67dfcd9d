"""Multinomial logistic regression: convex, and small enough to show the cost of the replay itself."""

from functools import partial
from math import prod

import jax
import jax.numpy as jnp

from asyncsim.datasets import Dataset
from asyncsim.workloads.classification import classifier, cross_entropy, require_dataset
from asyncsim.workloads.workload import Workload

Params = dict[str, jax.Array]


def softmax(data: Dataset, batch_size: int, *, training_loss: bool = False) -> Workload:
    """Multinomial logistic regression on the flattened inputs.

    L = mean of -log softmax(x·weight + bias)[label]. For every seed the parameters start at zero, where every class is
    equally likely and the loss is log(classes); seeds differ in their mini-batches. As the loss is convex, it does not
    matter where the parameters start.

    Args:
        data: Any data set; a `datasets.partition` gives each worker its part.
        batch_size: Examples in a mini-batch.
        training_loss: Whether to measure, beside test loss and accuracy, the loss on all training examples as
            "training_loss": at the end of a run and wherever it is recorded.

    Returns:
        A `Workload` whose parameters are ``{"bias": (classes,), "weight": (features, classes)}``.

    Raises:
        ValueError: If `data` is not a `Dataset` or holds fewer than `batch_size` examples.

    Example:
        >>> import asyncsim as asim
        >>> workload = asim.workloads.softmax(asim.datasets.digits(), batch_size=32)
        >>> cluster = asim.Cluster(workers=4, compute=asim.delays.Exponential(mean=1.0))
        >>> trace = asim.simulate(cluster, commits=500, seed=0)
        >>> run = asim.replay(trace, asim.rules.Downpour(0.05), workload)
        >>> run.evaluate()["test_accuracy"] > 0.9
        True
    """
    features = prod(require_dataset(data).shape)
    return classifier(
        "softmax",
        data,
        batch_size,
        init=partial(_init, features, int(data.classes)),
        loss=_loss,
        logits=_logits,
        shape=(features,),
        training_loss=training_loss,
    )


def _init(features: int, classes: int, key: jax.Array) -> Params:
    del key  # Unused: the loss is convex, so there is no symmetry to break.
    return {"bias": jnp.zeros(classes), "weight": jnp.zeros((features, classes))}


def _logits(params: Params, inputs: jax.Array) -> jax.Array:
    return inputs @ params["weight"] + params["bias"]


def _loss(params: Params, batch: tuple[jax.Array, jax.Array], key: jax.Array) -> jax.Array:
    del key  # Unused: nothing is random.
    inputs, labels = batch
    return cross_entropy(_logits(params, inputs), labels)
