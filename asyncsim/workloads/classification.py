"""What the classifiers share: the loss, the test, and how a model and a data set become a workload."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from asyncsim.checks import require_integer
from asyncsim.datasets import Dataset
from asyncsim.workloads.convnet import init as convnet_init
from asyncsim.workloads.convnet import logits as convnet_logits
from asyncsim.workloads.convnet import loss as convnet_loss
from asyncsim.workloads.workload import Params, Workload

Logits = Callable[[Params, jax.Array], jax.Array]

EVALUATED_TOGETHER = 1000  # test images: the convnet takes 60 kB for each


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean of -log softmax(logits)[label], through log-softmax.

    Args:
        logits: (examples, classes).
        labels: (examples,) integers.

    Example:
        >>> logits = jnp.array([[0.0, 0.0], [50.0, -50.0]])
        >>> round(float(cross_entropy(logits, jnp.array([0, 1]))), 4)
        50.3466
    """
    # A product with 0 and 1, because the gradient of an indexing is a scatter: up to 5 % slower in a loop.
    chosen = jax.nn.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
    return -jnp.sum(jax.nn.log_softmax(logits) * chosen) / len(labels)


@partial(jax.jit, static_argnames="logits")
def measure(params: Params, inputs: jax.Array, labels: jax.Array, *, logits: Logits) -> dict[str, jax.Array]:
    """Mean cross-entropy and share of correct answers, `EVALUATED_TOGETHER` examples at a time.

    Args:
        params: The model's parameters.
        inputs: (examples, …).
        labels: (examples,).
        logits: `(params, inputs) -> (examples, classes)`, a module-level function.
    """
    examples = len(labels)
    size = min(EVALUATED_TOGETHER, examples)

    def part(start: jax.Array) -> tuple[jax.Array, jax.Array]:
        first = jnp.minimum(start, examples - size)  # the last part is moved back to be as long as the others
        answers = logits(params, lax.dynamic_slice_in_dim(inputs, first, size))
        wanted = lax.dynamic_slice_in_dim(labels, first, size)
        losses = -jnp.take_along_axis(jax.nn.log_softmax(answers), wanted[:, None], axis=1)[:, 0]
        counts = first + jnp.arange(size) >= start
        right = (jnp.argmax(answers, axis=1) == wanted) & counts
        return jnp.sum(jnp.where(counts, losses, 0)), jnp.sum(right)

    losses, right = lax.map(part, jnp.arange(0, examples, size))
    return {"test_loss": jnp.sum(losses) / examples, "test_accuracy": jnp.sum(right) / examples}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """`params -> {"test_loss": …, "test_accuracy": …}` on a data set's test half, moved to the device once.

    Attributes:
        logits: `(params, inputs) -> (examples, classes)`, without dropout and the like.
        inputs, labels: Test examples.
    """

    logits: Logits
    inputs: Any
    labels: Any

    def __call__(self, params: Params) -> dict[str, jax.Array]:
        """Test loss and accuracy, JAX scalars."""
        return measure(params, *self._on_device, logits=self.logits)

    @cached_property
    def _on_device(self) -> tuple[jax.Array, jax.Array]:
        with jax.ensure_compile_time_eval():  # kept, so it must not be a tracer where the caller is being compiled
            return jnp.asarray(self.inputs), jnp.asarray(self.labels)


def classifier(
    name: str,
    data: Dataset,
    batch_size: int,
    *,
    init: Callable[[jax.Array], Params],
    loss: Callable[[Params, Any, jax.Array], jax.Array],
    logits: Logits,
    shape: tuple[int, ...],
    **options: Any,
) -> Workload:
    """A workload of a model and a data set.

    Args:
        name: Of the constructor that calls this.
        data: The data set.
        batch_size: Examples in a mini-batch.
        init, loss: As in `Workload`; module-level functions, so that workloads of one shape share a program.
        logits: What is tested.
        shape: Shape of one example as the model wants it.
        options: The constructor's other arguments, as plain data.

    Raises:
        ValueError: If `batch_size` is not a whole number from 1 to the number of training examples.
    """
    batch_size = require_integer("batch_size", batch_size, least=1, remedy="Use 32, say.")
    return Workload(
        init=init,
        loss=loss,
        data=(data.train_inputs.reshape(-1, *shape), data.train_labels),
        batch_size=batch_size,
        evaluate=Evaluation(logits, data.test_inputs.reshape(-1, *shape), data.test_labels),
        name=name,
        options={**options, "batch_size": batch_size},
        dataset=data,
    )


def require_dataset(data: object) -> Dataset:
    """The data set itself if it is one.

    Raises:
        ValueError: If it is not.
    """
    if not isinstance(data, Dataset):
        raise ValueError(
            f"`data` must be an asyncsim.datasets.Dataset; got {type(data).__name__}. "
            "Use asyncsim.datasets.digits(), say, or make a Dataset of your arrays."
        )
    return data


def convnet(data: Dataset, batch_size: int) -> Workload:
    """The paper's convolutional network: 163 790 parameters in ten tensors, dropout while training.

    The network is described in `asyncsim.workloads.convnet`; its loss is the mean cross-entropy.

    Args:
        data: Images of 28 × 28 pixels in at most ten classes, such as `datasets.mnist()`.
        batch_size: Images in a mini-batch; the paper's workers use 64.

    Returns:
        A `Workload`; PyTorch's default initialisation, no dropout in `evaluate`.

    Raises:
        ValueError: If the data are not such images or there are fewer than `batch_size`.

    Example:
        >>> import asyncsim as asim
        >>> asim.workloads.convnet(asim.datasets.digits(), batch_size=64)
        Traceback (most recent call last):
        ValueError: `data` must be images of 28 × 28 pixels in at most 10 classes; got 'digits', (8, 8) ...
    """
    if require_dataset(data).shape != (28, 28) or data.classes > 10:
        raise ValueError(
            f"`data` must be images of 28 × 28 pixels in at most 10 classes; got {data.name!r}, {data.shape} "
            f"in {data.classes}. Use asyncsim.datasets.mnist(), or the models softmax and mlp: they take any."
        )
    return classifier(
        "convnet",
        data,
        batch_size,
        init=convnet_init,
        loss=convnet_loss,
        logits=convnet_logits,
        shape=(28, 28),
    )
