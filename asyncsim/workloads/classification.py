"""What the classifiers share: the loss, the test, and how a model and a data set become a workload."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

from asyncsim.checks import require_integer
from asyncsim.datasets import Dataset, Partition, Parts
from asyncsim.datasets.partition import EQUAL
from asyncsim.workloads.workload import Params, Workload, to_device

Logits = Callable[[Params, jax.Array], jax.Array]

EVALUATED_TOGETHER = 1000  # test images at a time: the convnet takes 60 kB of memory for each


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean of -log softmax(logits)[label], by way of log-softmax.

    Args:
        logits: (examples, classes).
        labels: (examples,) integers.

    Example:
        >>> logits = jnp.array([[0.0, 0.0], [50.0, -50.0]])
        >>> round(float(cross_entropy(logits, jnp.array([0, 1]))), 4)
        50.3466
    """
    # A product with zeros and ones, because the gradient of indexing is a scatter: up to 5 % slower in a loop.
    chosen = jax.nn.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
    return -jnp.sum(jax.nn.log_softmax(logits) * chosen) / len(labels)


def fan_in_bound(shape: tuple[int, ...]) -> float:
    """1/√fan_in of a weight (out, in, …): PyTorch's bound for it and for the bias beside it."""
    return 1 / math.sqrt(math.prod(shape[1:]))


def uniform_like(key: jax.Array, bounds: Params) -> Params:
    """A pytree of independent numbers, each uniform between minus and plus its bound."""
    flat, unflatten = ravel_pytree(bounds)  # one draw for all tensors compiles ten times sooner than one for each
    return unflatten(jax.random.uniform(key, flat.shape, minval=-flat, maxval=flat))


@partial(jax.jit, static_argnames="logits")
def measure(params: Params, inputs: jax.Array, labels: jax.Array, *, logits: Logits) -> dict[str, jax.Array]:
    """Mean cross-entropy and fraction of correct answers, `EVALUATED_TOGETHER` examples at a time.

    Args:
        params: The model's parameters.
        inputs: (examples, …).
        labels: (examples,).
        logits: `(params, inputs) -> (examples, classes)`, a module-level function.
    """
    examples = len(labels)
    size = min(EVALUATED_TOGETHER, examples)

    def slice_from(start: jax.Array) -> tuple[jax.Array, jax.Array]:
        first = jnp.minimum(start, examples - size)  # the last slice is moved back to be as long as the others
        answers = logits(params, lax.dynamic_slice_in_dim(inputs, first, size))
        wanted = lax.dynamic_slice_in_dim(labels, first, size)
        losses = -jnp.take_along_axis(jax.nn.log_softmax(answers), wanted[:, None], axis=1)[:, 0]
        counts = first + jnp.arange(size) >= start
        right = (jnp.argmax(answers, axis=1) == wanted) & counts
        return jnp.sum(jnp.where(counts, losses, 0)), jnp.sum(right)

    losses, right = lax.map(slice_from, jnp.arange(0, examples, size))
    return {"test_loss": jnp.sum(losses) / examples, "test_accuracy": jnp.sum(right) / examples}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """`params -> {"test_loss": …, "test_accuracy": …}` on a data set's test examples, moved to the device once.

    Attributes:
        logits: `(params, inputs) -> (examples, classes)`, without dropout and the like.
        inputs, labels: Test examples.
    """

    logits: Logits
    inputs: Any
    labels: Any
    measures: ClassVar[tuple[str, ...]] = ("test_loss", "test_accuracy")

    def __getstate__(self) -> dict[str, Any]:
        """Without the copies on the device."""
        return {name: value for name, value in vars(self).items() if name != "_on_device"}

    def __call__(self, params: Params) -> dict[str, jax.Array]:
        """Test loss and accuracy, JAX scalars."""
        return measure(params, *self._on_device, logits=self.logits)

    @cached_property
    def _on_device(self) -> tuple[jax.Array, jax.Array]:
        with jax.ensure_compile_time_eval():  # cached, so it must not be a tracer where the caller is being compiled
            return to_device(self.inputs), to_device(self.labels)


@partial(jax.jit, static_argnames=("logits", "workers"))
def measure_workers(
    params: Params, inputs: jax.Array, labels: jax.Array, owner: jax.Array, *, logits: Logits, workers: int
) -> dict[str, jax.Array]:
    """Mean cross-entropy and fraction of correct answers of each worker's own examples, (workers,) each.

    Args:
        params: The model's parameters.
        inputs: (examples, …).
        labels: (examples,).
        owner: (examples,) the worker of each example; `workers` for nobody's.
        logits: `(params, inputs) -> (examples, classes)`, a module-level function.
        workers: Number of workers.
    """
    size = min(EVALUATED_TOGETHER, len(labels))
    padding = -len(labels) % size
    owner = jnp.concatenate([owner, jnp.full(padding, workers, owner.dtype)])

    def slice_from(start: jax.Array) -> jax.Array:
        places = jnp.minimum(start + jnp.arange(size), len(labels) - 1)
        answers, wanted = logits(params, jnp.take(inputs, places, axis=0)), jnp.take(labels, places)
        losses = -jnp.take_along_axis(jax.nn.log_softmax(answers), wanted[:, None], axis=1)[:, 0]
        right = (jnp.argmax(answers, axis=1) == wanted).astype(losses.dtype)
        columns = jnp.stack([losses, right, jnp.ones_like(losses)], axis=1)
        return jax.ops.segment_sum(columns, lax.dynamic_slice_in_dim(owner, start, size), workers + 1)

    sums = lax.map(slice_from, jnp.arange(0, len(labels), size)).sum(axis=0)[:workers]
    return {"worker_loss": sums[:, 0] / sums[:, 2], "worker_accuracy": sums[:, 1] / sums[:, 2]}


@dataclass(frozen=True, eq=False)
class WithTraining:
    """`Evaluation`, and beside it "training_loss", the mean loss over all training examples.

    Attributes:
        test: Of the test examples.
        training: Of the training examples.
    """

    test: Evaluation
    training: Evaluation
    measures: ClassVar[tuple[str, ...]] = (*Evaluation.measures, "training_loss")

    def __call__(self, params: Params) -> dict[str, jax.Array]:
        """Test loss, test accuracy and training loss, JAX scalars."""
        return {**self.test(params), "training_loss": self.training(params)["test_loss"]}


@dataclass(frozen=True, eq=False)
class WorkersEvaluation:
    """`params -> {"worker_loss": …, "worker_accuracy": …}` of each worker's own part of the training examples.

    Attributes:
        logits: `(params, inputs) -> (examples, classes)`, without dropout and the like.
        inputs, labels: Training examples.
        parts: Who has which.
    """

    logits: Logits
    inputs: Any
    labels: Any
    parts: Parts
    measures: ClassVar[tuple[str, ...]] = ("worker_loss", "worker_accuracy")

    def __getstate__(self) -> dict[str, Any]:
        """Without the copies on the device."""
        return {name: value for name, value in vars(self).items() if name != "_on_device"}

    def __call__(self, params: Params) -> dict[str, jax.Array]:
        """Loss and accuracy, (workers,) each."""
        return measure_workers(params, *self._on_device, logits=self.logits, workers=len(self.parts))

    @cached_property
    def _on_device(self) -> tuple[jax.Array, jax.Array, jax.Array]:
        owner = np.full(len(self.labels), len(self.parts), np.int32)
        owner[self.parts.order] = self.parts.owner
        with jax.ensure_compile_time_eval():  # as above
            return to_device(self.inputs), to_device(self.labels), to_device(owner)


def classifier(
    name: str,
    data: Dataset,
    batch_size: int,
    *,
    init: Callable[[jax.Array], Params],
    loss: Callable[[Params, Any, jax.Array], jax.Array],
    logits: Logits,
    shape: tuple[int, ...],
    training_loss: bool = False,
    **options: Any,
) -> Workload:
    """A workload from a model and a data set.

    Args:
        name: Name of the constructor that calls this.
        data: The data set; a `Partition` gives each worker its part.
        batch_size: Examples in a mini-batch.
        init, loss: As in `Workload`; module-level functions, so that workloads of one shape share a program.
        logits: `(params, inputs) -> (examples, classes)`, for the test.
        shape: Shape of one example as the model takes it.
        training_loss: Whether `evaluate` measures that, too.
        options: The constructor's other arguments, as plain data.

    Raises:
        ValueError: If `batch_size` is not a whole number from 1 to the number of training examples, or of those of
            the smallest part.
    """
    batch_size = require_integer("batch_size", batch_size, least=1, remedy="32 or 64 are usual.")
    examples = (data.train_inputs.reshape(-1, *shape), data.train_labels)
    evaluate: Any = Evaluation(logits, data.test_inputs.reshape(-1, *shape), data.test_labels)
    if training_loss:
        evaluate, options = WithTraining(evaluate, Evaluation(logits, *examples)), {**options, "training_loss": True}
    shared: dict[str, Any] = {}
    if isinstance(data, Partition):
        shared = {
            "parts": data.parts,
            "weights": None if data.weighting == EQUAL else data.weights,
            "evaluate_workers": WorkersEvaluation(logits, *examples, data.parts),
        }
    return Workload(
        init=init,
        loss=loss,
        data=examples,
        batch_size=batch_size,
        evaluate=evaluate,
        name=name,
        options={**options, "batch_size": batch_size},
        dataset=data,
        **shared,
    )


def require_dataset(data: object) -> Dataset:
    """The data set itself.

    Raises:
        ValueError: If it is not a `Dataset`.
    """
    if not isinstance(data, Dataset):
        raise ValueError(
            f"`data` must be an asyncsim.datasets.Dataset; got {type(data).__name__}. "
            "Use, say, asyncsim.datasets.digits(), or make a Dataset of your arrays."
        )
    return data
