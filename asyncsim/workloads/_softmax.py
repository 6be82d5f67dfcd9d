"""Multinomial logistic regression: convex, and small enough to show the cost of the replay itself."""

from math import prod

import jax
import jax.numpy as jnp

from asyncsim.datasets import Dataset
from asyncsim.workloads._classification import Classifier, cross_entropy

Params = dict[str, jax.Array]


class Softmax(Classifier):
    """Multinomial logistic regression on the flattened inputs.

    L = mean of -log softmax(x·weight + bias)[label], with parameters ``{"bias": (classes,), "weight": (features,
    classes)}``. For every seed the parameters start at zero, where every class is
    equally likely and the loss is log(classes); seeds differ in their mini-batches. As the loss is convex, it does not
    matter where the parameters start.

    Args:
        data: Any data set; a `datasets.partition` gives each worker its part.
        batch_size: Examples in a mini-batch.
        training_loss: Whether to measure, beside test loss and accuracy, the loss on all training examples as
            "training_loss": at the end of a run and wherever it is recorded.

    Raises:
        ValueError: If `data` is not a `Dataset` or holds fewer than `batch_size` examples.

    Example:
        >>> import asyncsim as asim
        >>> workload = asim.workloads.Softmax(asim.datasets.Digits(), batch_size=32)
        >>> cluster = asim.Cluster(workers=4, compute=asim.delays.Exponential(mean=1.0))
        >>> trace = asim.simulate(cluster, commits=500, seed=0)
        >>> run = asim.replay(trace, asim.rules.Downpour(0.05), workload)
        >>> run.evaluate()["test_accuracy"] > 0.9
        True
    """

    data: Dataset
    batch_size: int

    @property
    def input_shape(self) -> tuple[int, ...]:
        """One vector of features."""
        return (prod(self.data.shape),)

    def init(self, key: jax.Array) -> Params:
        """Zeros: the loss is convex, so there is no symmetry to break."""
        del key
        return {"bias": jnp.zeros(self.data.classes), "weight": jnp.zeros((*self.input_shape, self.data.classes))}

    def loss(self, params: Params, batch: tuple[jax.Array, jax.Array], key: jax.Array) -> jax.Array:
        """Mean cross-entropy."""
        del key  # Nothing is random.
        inputs, labels = batch
        return cross_entropy(self.logits(params, inputs), labels)

    @staticmethod
    def logits(params: Params, inputs: jax.Array) -> jax.Array:
        """(examples, classes)."""
        return inputs @ params["weight"] + params["bias"]
