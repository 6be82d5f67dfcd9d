"""A multilayer perceptron: the smallest non-convex workload."""

from collections.abc import Sequence
from dataclasses import field
from functools import partial
from itertools import pairwise
from math import prod

import jax
import jax.numpy as jnp

from asyncsim._checks import require_integer
from asyncsim._component import static
from asyncsim.datasets import Dataset
from asyncsim.workloads._classification import Classifier, cross_entropy, require_dataset

Params = list[dict[str, jax.Array]]
MOST_TOGETHER = 2**22  # numbers that are drawn in one piece, some of them for nothing


class MLP(Classifier):
    """Fully connected layers with ReLU between them, on the flattened inputs.

    L = mean cross-entropy of softmax(a_k·weight_k + bias_k), with a_{i+1} = max(0, a_i·weight_i + bias_i) and
    a_0 the inputs. The parameters are a list of ``{"bias": (out,), "weight": (in, out)}``, one per layer, and start
    uniform on ±1/√fan_in, PyTorch's default.

    Args:
        data: Any data set; a `datasets.partition` gives each worker its part.
        hidden: Sizes of the hidden layers, from the inputs to the outputs. With `()` the model is that of `Softmax`
            with other first parameters.
        batch_size: Examples in a mini-batch.
        training_loss: Whether to measure, beside test loss and accuracy, the loss on all training examples as
            "training_loss": at the end of a run and wherever it is recorded.

    Raises:
        ValueError: If a size is not a whole number of at least 1, `data` is not a `Dataset`, or it holds fewer than
            `batch_size` examples.

    Example:
        >>> import asyncsim as asim
        >>> workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=32)
        >>> [layer["weight"].shape for layer in workload.init(jax.random.key(0))]
        [(64, 32), (32, 10)]
    """

    data: Dataset
    hidden: Sequence[int] = static()
    batch_size: int = field()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """One vector of features."""
        return (prod(self.data.shape),)

    def check(self) -> None:
        """Refuse what are no sizes of layers."""
        require_dataset(self.data)
        object.__setattr__(self, "hidden", _checked_sizes(self.hidden))
        super().check()

    def init(self, key: jax.Array) -> Params:
        """Weights and biases, uniform on ±1/√fan_in."""
        return _init((*self.input_shape, *self.hidden, self.data.classes), key)

    def loss(self, params: Params, batch: tuple[jax.Array, jax.Array], key: jax.Array) -> jax.Array:
        """Mean cross-entropy."""
        del key  # Nothing is random.
        inputs, labels = batch
        return cross_entropy(self.logits(params, inputs), labels)

    @staticmethod
    def logits(params: Params, inputs: jax.Array) -> jax.Array:
        """(examples, classes)."""
        *hidden, last = params
        for layer in hidden:
            inputs = jax.nn.relu(inputs @ layer["weight"] + layer["bias"])
        return inputs @ last["weight"] + last["bias"]


def _checked_sizes(hidden: Sequence[int]) -> tuple[int, ...]:
    if isinstance(hidden, str) or not isinstance(hidden, Sequence):
        raise ValueError(f"`hidden` must be a sequence of layer sizes; got {hidden!r}. Use, say, (128, 64).")
    return tuple(require_integer("hidden", size, least=1, remedy="Leave out layers without units.") for size in hidden)


@partial(jax.jit, static_argnums=0)
def _init(sizes: tuple[int, ...], key: jax.Array) -> Params:
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
