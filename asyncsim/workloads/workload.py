"""What is being learned: a loss over any pytree, and where its mini-batches come from."""

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial

from asyncsim import checks
from asyncsim.workloads.batches import Shuffles, compiled_commit_key

Params = Any  # any pytree of floating-point arrays
Batch = Any  # any pytree of arrays


@dataclass(frozen=True, repr=False)
class Workload:
    """A loss, its training data and its evaluation.

    A mini-batch is `batch_size` examples of `data`, each epoch of each worker a fresh shuffle without replacement; or,
    without `data`, whatever `noise(key)` draws; or, without either, None.

    Attributes:
        init: `key -> params`, the first central variable, any pytree of floating-point arrays.
        loss: `(params, batch, key) -> scalar`. The key is for dropout and the like. Give a module-level function, a
            frozen dataclass with `__call__`, or a `jax.tree_util.Partial` of one with arrays: a new closure is
            compiled again.
        data: Training examples: a pytree of arrays with a common leading axis, or None. Those of a data set of
            `asyncsim.datasets` are its fields `train_inputs` (examples, …) float32 and `train_labels` (examples,)
            int32; those to test with are `test_inputs` and `test_labels`, and `classes` is the number of classes.
        batch_size: Examples in a mini-batch; at most as many as there are.
        noise: `key -> batch`, for workloads without data.
        gradient: `(params, batch, key) -> (loss, gradient)`, to be used in place of differentiating `loss`.
        evaluate: `params -> {"test_loss": …, "test_accuracy": …}`, scalars by whatever names you like, or None. All of
            them are kept in the summary, printed, and can be recorded. To be recorded by a `Scenario` it must be
            traceable by JAX.
        name, options, dataset: How to describe and rebuild the workload; filled in by the constructors.

    Raises:
        ValueError: If `batch_size` is not a whole number from 1 to the number of examples, or the arrays of `data`
            differ in length.

    Example:
        A model of your own, least squares on a line:

        >>> import numpy as np, jax.numpy as jnp, asyncsim as asim
        >>> def loss(params, batch, key):
        ...     x, y = batch
        ...     return jnp.mean((params["slope"] * x - y) ** 2)
        >>> x = np.linspace(-1.0, 1.0, 100)
        >>> line = asim.Workload(init=lambda key: {"slope": jnp.zeros(())}, loss=loss, data=(x, 3 * x), batch_size=10)
        >>> trace = asim.simulate(asim.Cluster(workers=4, compute=asim.delays.Constant(1.0)), commits=400)
        >>> round(float(asim.replay(trace, asim.rules.downpour(0.1), line).central["slope"]), 3)
        3.0

        One on a data set, a linear classifier of digits:

        >>> def classify(params, batch, key):
        ...     inputs, labels = batch
        ...     scores = jax.nn.log_softmax(inputs.reshape(len(labels), -1) @ params)
        ...     return -jnp.mean(jnp.take_along_axis(scores, labels[:, None], axis=1))
        >>> digits = asim.datasets.digits()
        >>> data = (digits.train_inputs, digits.train_labels)
        >>> asim.Workload(init=lambda key: jnp.zeros((64, digits.classes)), loss=classify, data=data, batch_size=32)
        Workload(classify, batch_size=32)
    """

    init: Callable[[jax.Array], Params]
    loss: Callable[[Params, Batch, jax.Array], jax.Array]
    data: Batch | None = None
    batch_size: int = 1
    noise: Callable[[jax.Array], Batch] | None = None
    gradient: Callable[[Params, Batch, jax.Array], tuple[jax.Array, Params]] | None = None
    evaluate: Callable[[Params], dict[str, jax.Array]] | None = None
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    dataset: Any = None

    def __post_init__(self) -> None:
        size = checks.require_integer("batch_size", self.batch_size, least=1, remedy="32 or 64 are usual.")
        object.__setattr__(self, "batch_size", size)
        sizes = {len(leaf) for leaf in jax.tree.leaves(self.data)}
        if len(sizes) > 1:
            raise ValueError(f"`data` must have arrays of one length; got {sorted(sizes)}. Give one row per example.")
        if self.data is not None and size > self.examples:
            raise ValueError(
                f"`batch_size` must be at most the number of training examples, {self.examples}; got {size}. "
                "Give smaller mini-batches or more data."
            )

    def __repr__(self) -> str:
        settings = dict(self.options) if self.options or not self.examples else {"batch_size": self.batch_size}
        data = [] if self.dataset is None else [self.dataset.name]
        shown = [*data, *(f"{name}={reprlib.repr(value)}" for name, value in settings.items())]
        name = self.describe()["name"]
        return f"{name}({', '.join(shown)})" if self.name else f"Workload({', '.join([name, *shown])})"

    def __getstate__(self) -> dict[str, Any]:
        """Without what is made again from the rest: the data on the device, and functions ready for the engine."""
        return {name: value for name, value in vars(self).items() if name not in ("device_data", "loss_and_gradient")}

    @property
    def examples(self) -> int:
        """Number of training examples; 0 without `data`."""
        return len(jax.tree.leaves(self.data)[0]) if self.data is not None else 0

    @property
    def batches_per_epoch(self) -> int:
        """Full mini-batches in one shuffle; the rest of the shuffle is left out, as in the paper's code."""
        return self.examples // self.batch_size

    @cached_property
    def loss_and_gradient(self) -> Partial:
        """`(params, batch, key) -> (loss, gradient)` as a pytree: its code is static, its arrays are traced."""
        if self.gradient is not None:
            return as_pytree(self.gradient)
        return Partial(_differentiate, as_pytree(self.loss))

    @cached_property
    def device_data(self) -> Batch | None:
        """The training data as JAX arrays, moved to the device once."""
        return jax.tree.map(to_device, self.data)

    def batch(self, seed: int, worker: int, job: int) -> Batch:
        """The mini-batch that a replay gives to a worker's job.

        Args:
            seed: Seed of the replay.
            worker: The worker, counted from 0.
            job: The worker's commits before this one. For a rule with local steps, the worker's local steps before
                this one: each has a mini-batch of its own.

        Returns:
            `batch_size` rows of `data`, or what `noise` draws, as a pytree of JAX arrays; None without either.

        Raises:
            ValueError: If an argument is not a whole number of at least 0.

        Example:
            The loss of worker 1's second commit, taken again where its gradient was taken:

            >>> import asyncsim as asim
            >>> trace, rule = asim.Trace.from_commits([0, 1, 1]), asim.rules.downpour(0.1)
            >>> workload = asim.workloads.softmax(asim.datasets.digits(), batch_size=8)
            >>> run = asim.replay(trace, rule, workload, seed=3, record=("read",))
            >>> read = jax.tree.map(lambda leaf: leaf[2], run.unpacked("read"))
            >>> loss = workload.loss(read, workload.batch(seed=3, worker=1, job=1), jax.random.key(0))
            >>> bool(abs(loss - run.loss[2]) < 1e-5)
            True
        """
        for name, value in (("seed", seed), ("worker", worker), ("job", job)):
            checks.require_integer(name, value, least=0, remedy="Count from 0.")
        if self.data is None:
            key = compiled_commit_key(jax.random.key(seed), worker, job)
            return self.noise(key) if self.noise else None
        shuffles = Shuffles(self.examples, self.batch_size)
        rows = shuffles.take(seed, np.array([worker]), np.array([job]))[0]
        return jax.tree.map(lambda array: jax.numpy.take(array, rows, axis=0), self.device_data)

    def describe(self) -> dict[str, Any]:
        """Name, options and data set as plain data: enough to build the workload again."""
        described = {"name": self.name or getattr(self.loss, "__qualname__", type(self.loss).__name__)}
        if self.dataset is not None:
            described["data"] = self.dataset.describe()
        return {**described, **self.options}


def to_device(array: Any) -> jax.Array:
    """As `jax.numpy.asarray`, which would compile a program for every shape."""
    return array if isinstance(array, jax.Array) else jax.device_put(np.asarray(array))


def as_pytree(function: Callable[..., Any]) -> Partial:
    """The function as an argument that compiled functions accept, so that its arrays are not compiled in."""
    return function if isinstance(function, Partial) else Partial(function)


def _differentiate(loss: Partial, params: Params, batch: Batch, key: jax.Array) -> tuple[jax.Array, Params]:
    return jax.value_and_grad(loss)(params, batch, key)
