"""Classifiers of vectors: a multilayer perceptron, and softmax regression, which is convex."""

from collections.abc import Sequence
from functools import cached_property, partial
from itertools import pairwise
from math import prod
from typing import Annotated, Any

import jax
import jax.numpy as jnp

from asyncsim._checks import require_integer
from asyncsim._component import static
from asyncsim.datasets import Dataset
from asyncsim.workloads._classification import Classifier, cross_entropy
from asyncsim.workloads._workload import Params

Layer = dict[str, jax.Array]  # `bias` and `weight`
MOST_TOGETHER = 2**22  # numbers that are drawn in one piece, some of them for nothing


class OfVectors(Classifier, abstract=True):
    @cached_property
    def input_shape(self) -> tuple[int, ...]:
        return (prod(self.data.shape),)

    def loss(self, params: Params, batch: tuple[jax.Array, jax.Array], key: jax.Array) -> jax.Array:
        inputs, labels = batch
        return cross_entropy(self.logits(params, inputs), labels)


def _sizes(name: str, sizes: Any) -> tuple[int, ...]:
    if isinstance(sizes, str) or not isinstance(sizes, Sequence):
        raise ValueError(f"`{name}` must be a sequence of layer sizes; got {sizes!r}. Use, say, (128, 64).")
    return tuple(require_integer(name, size, least=1, remedy="Leave out layers without units.") for size in sizes)


class MLP(OfVectors):
    """Fully connected layers with ReLU between them, on the flattened inputs.

    L = mean cross-entropy of softmax(a_k·weight_k + bias_k), with a_{i+1} = max(0, a_i·weight_i + bias_i) and
    a_0 the inputs. The parameters are a list of ``{"bias": (out,), "weight": (in, out)}``, one per layer, and start
    uniform on ±1/√fan_in, PyTorch's default.

    Args:
        data: Any data set. A `datasets.partition` gives each worker its part.
        hidden: Sizes of the hidden layers, from the inputs to the outputs. With `()` the model is that of `Softmax`
            with other first parameters.
        batch_size: Examples in a mini-batch, at most as many as there are to train on.
        training_loss: Whether to evaluate the loss on all training examples, too, under the name "training_loss".

    Example:
        >>> import asyncsim as asim
        >>> workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=32)
        >>> [layer["weight"].shape for layer in workload.init(jax.random.key(0))]
        [(64, 32), (32, 10)]
    """

    data: Dataset
    hidden: Annotated[Sequence[int], _sizes] = static()
    batch_size: int

    def init(self, key: jax.Array) -> list[Layer]:
        return _init((*self.input_shape, *self.hidden, self.data.classes), key)

    @staticmethod
    def logits(params: list[Layer], inputs: jax.Array) -> jax.Array:
        *hidden, last = params
        for layer in hidden:
            inputs = jax.nn.relu(inputs @ layer["weight"] + layer["bias"])
        return inputs @ last["weight"] + last["bias"]


@partial(jax.jit, static_argnums=0)
def _init(sizes: tuple[int, ...], key: jax.Array) -> list[Layer]:
    keys = jax.vmap(lambda layer: jax.random.split(jax.random.fold_in(key, layer)))(jnp.arange(len(sizes) - 1))
    shapes, bounds = [], []
    for inputs, outputs in pairwise(sizes):
        shapes += [(outputs,), (inputs, outputs)]
        bounds += 2 * [inputs**-0.5]
    tensors = _uniform(keys.ravel(), shapes, bounds)
    return [{"bias": bias, "weight": weight} for bias, weight in zip(tensors[::2], tensors[1::2], strict=True)]


def _uniform(keys: jax.Array, shapes: list[tuple[int, ...]], bounds: list[float]) -> list[jax.Array]:
    """Tensors of independent numbers between minus and plus a bound."""
    largest = max(map(prod, shapes))
    if not jax.config.jax_threefry_partitionable or len(shapes) * largest > MOST_TOGETHER:  # type: ignore[attr-defined]
        drawn = zip(keys, shapes, bounds, strict=True)
        return [jax.random.uniform(key, shape, minval=-bound, maxval=bound) for key, shape, bound in drawn]
    draw = jax.vmap(lambda key, bound: jax.random.uniform(key, (largest,), minval=-bound, maxval=bound))
    rows = draw(keys, jnp.array(bounds))
    return [row[: prod(shape)].reshape(shape) for row, shape in zip(rows, shapes, strict=True)]


class Softmax(OfVectors):
    """Multinomial logistic regression on the flattened inputs.

    L = mean of -log softmax(x·weight + bias)[label], with parameters ``{"bias": (classes,), "weight": (features,
    classes)}``. For every seed the parameters start at zero, where every class is
    equally likely and the loss is log(classes). Seeds differ in their mini-batches. Because the loss is convex, it does
    not matter where the parameters start.

    Args:
        data: Any data set. A `datasets.partition` gives each worker its part.
        batch_size: Examples in a mini-batch, at most as many as there are to train on.
        training_loss: Whether to evaluate the loss on all training examples, too, under the name "training_loss".

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

    def init(self, key: jax.Array) -> Layer:
        return {"bias": jnp.zeros(self.data.classes), "weight": jnp.zeros((*self.input_shape, self.data.classes))}

    @staticmethod
    def logits(params: Layer, inputs: jax.Array) -> jax.Array:
        return inputs @ params["weight"] + params["bias"]
