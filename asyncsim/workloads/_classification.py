"""Classifiers: what all have in common, and those of vectors, a multilayer perceptron and convex softmax regression."""

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Annotated, Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

from asyncsim._checks import brief, require_count
from asyncsim.components._component import static
from asyncsim.datasets import Dataset
from asyncsim.workloads._batches import to_device
from asyncsim.workloads._programs import programs
from asyncsim.workloads._workload import Params, Workload

Logits = Callable[[Params, jax.Array], jax.Array]

DROPOUT = 0.5
EVALUATED_TOGETHER = 1000  # test images at a time: the convnet takes 60 kB of memory for each


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the mean of -log softmax(logits)[label], by way of log-softmax."""
    # This is a product with zeros and ones: the gradient of indexing is a scatter, up to 5 % slower in a loop.
    chosen = jax.nn.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
    return -jnp.sum(jax.nn.log_softmax(logits) * chosen) / len(labels)


def fan_in_bounds(shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """Return 1/√fan_in, PyTorch's bound, for every number of a weight (out, in, …) and of the bias next to it."""
    bound = 1 / math.sqrt(prod(shape[1:]))
    return jnp.full(shape, bound), jnp.full(shape[:1], bound)


def uniform_like(key: jax.Array, bounds: Params) -> Params:
    """Return a pytree of independent numbers, each uniform between minus and plus its bound."""
    flat, unflatten = ravel_pytree(bounds)  # One draw for all tensors compiles ten times sooner than one for each.
    return unflatten(jax.random.uniform(key, flat.shape, minval=-flat, maxval=flat))


def dropout_factors(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Draw 0 with probability ½, otherwise 2, which keeps the mean."""
    keep = jax.random.bernoulli(key, 1 - DROPOUT, shape)
    return jnp.where(keep, 1 / (1 - DROPOUT), 0.0)  # Weakly typed, it takes the dtype of the parameters.


def _together(labels: jax.Array) -> int:
    """Return the examples to be evaluated at a time: fewer if each has several labels, as a sequence has."""
    return max(1, EVALUATED_TOGETHER // prod(labels.shape[1:]))


def _scores(answers: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return cross-entropy and share of correct answers of each example, (examples,) each."""
    losses = -jnp.take_along_axis(jax.nn.log_softmax(answers), labels[..., None], axis=-1)[..., 0]
    right = jnp.argmax(answers, axis=-1) == labels
    places = prod(labels.shape[1:])
    return losses.reshape(-1, places).mean(axis=1), right.reshape(-1, places).sum(axis=1) / places


@programs("logits")
def measure(params: Params, inputs: jax.Array, labels: jax.Array, *, logits: Logits) -> dict[str, jax.Array]:
    """Return mean cross-entropy and fraction of correct answers, from `EVALUATED_TOGETHER` examples at a time."""
    examples = len(labels)
    size = min(_together(labels), examples)

    def slice_from(start: jax.Array) -> tuple[jax.Array, jax.Array]:
        first = jnp.minimum(start, examples - size)  # The last slice begins earlier, to be as long as the others.
        answers = logits(params, lax.dynamic_slice_in_dim(inputs, first, size))
        targets = lax.dynamic_slice_in_dim(labels, first, size)
        counts = first + jnp.arange(size) >= start
        losses, right = _scores(answers, targets)
        return jnp.sum(jnp.where(counts, losses, 0)), jnp.sum(jnp.where(counts, right, 0))

    losses, right = lax.map(slice_from, jnp.arange(0, examples, size))
    return {"test_loss": jnp.sum(losses) / examples, "test_accuracy": jnp.sum(right) / examples}


@programs("logits")
def probabilities(params: Params, inputs: jax.Array, *, logits: Logits) -> jax.Array:
    """Return the probabilities of the classes for each example, (examples, …, classes)."""
    return lax.map(lambda one: jax.nn.softmax(logits(params, one[None])[0]), inputs, batch_size=EVALUATED_TOGETHER)


@programs("logits", "workers")
def measure_workers(
    params: Params, inputs: jax.Array, labels: jax.Array, owner: jax.Array, *, logits: Logits, workers: int
) -> dict[str, jax.Array]:
    """Return (workers,) mean cross-entropies and fractions of correct answers, of each worker's own examples."""
    size = min(_together(labels), len(labels))
    padding = -len(labels) % size
    owner = jnp.concatenate([owner, jnp.full(padding, workers, owner.dtype)])

    def slice_from(start: jax.Array) -> jax.Array:
        places = jnp.minimum(start + jnp.arange(size), len(labels) - 1)
        answers, targets = logits(params, jnp.take(inputs, places, axis=0)), jnp.take(labels, places, axis=0)
        losses, right = _scores(answers, targets)
        columns = jnp.stack([losses, right.astype(losses.dtype), jnp.ones_like(losses)], axis=1)
        return jax.ops.segment_sum(columns, lax.dynamic_slice_in_dim(owner, start, size), workers + 1)

    sums = lax.map(slice_from, jnp.arange(0, len(labels), size)).sum(axis=0)[:workers]
    return {"worker_loss": sums[:, 0] / sums[:, 2], "worker_accuracy": sums[:, 1] / sums[:, 2]}


class Classifier(Workload, named=False):
    """A model of a data set: it has `logits(params, inputs)`, without dropout and the like."""

    _: KW_ONLY
    training_loss: bool = False

    worker_measures = ("worker_loss", "worker_accuracy")
    label_axes = 1  # of the labels of data that fit
    logits = cast("Any", None)  # hashable, and equal for workloads of one shape, which then share programs

    @cached_property
    def input_shape(self) -> tuple[int, ...]:
        return self.data.shape

    def check(self) -> None:
        """Refuse data with labels of another shape, and mini-batches that are larger than it."""
        if self.data.train_labels.ndim != self.label_axes:
            fit = ("one label per example", "a label for every symbol of a sequence")[self.label_axes - 1]
            remedy = "workloads.Transformer" if self.label_axes == 1 else "datasets.Text or datasets.Markov"
            raise ValueError(f"`data` must have {fit}; got {self.data.name!r}. Use {remedy}.")
        super().check()

    @cached_property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Training inputs of the shape that the model takes, and labels."""
        return self.data.train_inputs.reshape(-1, *self.input_shape), self.data.train_labels

    @property
    def test_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Test inputs of the shape that the model takes, and labels."""
        return self.data.test_inputs.reshape(-1, *self.input_shape), self.data.test_labels

    @property
    def measures(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("test_loss", "test_accuracy", *(["training_loss"] if self.training_loss else []))

    def evaluate(self, params: Params) -> dict[str, jax.Array]:
        """Return test loss and accuracy, and the training loss if `training_loss` is set, as JAX scalars."""
        measures = measure(params, *self._test_data, logits=self.logits)
        if self.training_loss:
            measures["training_loss"] = measure(params, *self._training_data[:2], logits=self.logits)["test_loss"]
        return measures

    def outputs(self, params: Params) -> jax.Array:
        """Return the probabilities of the classes for each test example, (examples, …, classes)."""
        return probabilities(params, self._test_data[0], logits=self.logits)

    @property
    def evaluate_workers(self) -> Callable[[Params], dict[str, jax.Array]] | None:  # type: ignore[override]
        """Loss and accuracy of each worker's own part, (workers,) each, if every worker has one."""
        return None if self.parts is None else self._evaluate_workers

    def _evaluate_workers(self, params: Params) -> dict[str, jax.Array]:
        return measure_workers(params, *self._training_data, logits=self.logits, workers=len(self.parts))

    @cached_property
    def _test_data(self) -> tuple[jax.Array, jax.Array]:
        with jax.ensure_compile_time_eval():  # A cached result must not be a tracer of the caller's program.
            inputs, labels = self.test_rows
            return to_device(inputs), to_device(labels)

    @cached_property
    def _training_data(self) -> tuple[jax.Array, ...]:
        """Inputs, labels and, if every worker has a part, the worker of each example."""
        owner = []
        if self.parts is not None:
            owner = [np.full(self.examples, len(self.parts), np.int32)]
            owner[0][self.parts.order] = self.parts.owner
        with jax.ensure_compile_time_eval():  # as in `_test_data`
            return tuple(map(to_device, (*self.rows, *owner)))


Layer = dict[str, jax.Array]  # `bias` and `weight`
MOST_TOGETHER = 2**22  # numbers that are drawn in one piece, in rows as long as the largest tensor


class OfVectors(Classifier, named=False):
    @cached_property
    def input_shape(self) -> tuple[int, ...]:
        return (prod(self.data.shape),)

    def loss(self, params: Params, batch: tuple[jax.Array, jax.Array], key: jax.Array) -> jax.Array:
        inputs, labels = batch
        return cross_entropy(self.logits(params, inputs), labels)


def _sizes(name: str, sizes: Any) -> tuple[int, ...]:
    if isinstance(sizes, str) or not isinstance(sizes, Sequence):
        raise ValueError(f"`{name}` must be a sequence of layer sizes; got {brief(sizes)}. Use, say, (128, 64).")
    return tuple(require_count(name, size, remedy="Leave out layers without units.") for size in sizes)


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
        return _init(key, sizes=(*self.input_shape, *self.hidden, self.data.classes))

    @staticmethod
    def logits(params: list[Layer], inputs: jax.Array) -> jax.Array:
        *hidden, last = params
        for layer in hidden:
            inputs = jax.nn.relu(inputs @ layer["weight"] + layer["bias"])
        return inputs @ last["weight"] + last["bias"]


@programs("sizes")
def _init(key: jax.Array, *, sizes: tuple[int, ...]) -> list[Layer]:
    keys = jax.vmap(lambda layer: jax.random.split(jax.random.fold_in(key, layer)))(jnp.arange(len(sizes) - 1))
    shapes, bounds = [], []
    for inputs, outputs in pairwise(sizes):
        shapes += [(outputs,), (inputs, outputs)]
        bounds += 2 * [inputs**-0.5]
    tensors = _uniform(keys.ravel(), shapes, bounds)
    return [{"bias": bias, "weight": weight} for bias, weight in zip(tensors[::2], tensors[1::2], strict=True)]


def _uniform(keys: jax.Array, shapes: list[tuple[int, ...]], bounds: list[float]) -> list[jax.Array]:
    """Draw tensors of independent numbers between minus and plus a bound."""
    largest = max(map(prod, shapes))
    if not jax.config.jax_threefry_partitionable or len(shapes) * largest > MOST_TOGETHER:  # type: ignore[attr-defined]
        tensors = zip(keys, shapes, bounds, strict=True)
        return [jax.random.uniform(key, shape, minval=-bound, maxval=bound) for key, shape, bound in tensors]
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
