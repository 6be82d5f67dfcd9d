"""What is being learned: a loss over any pytree, and where its mini-batches come from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
from jax.tree_util import Partial

from asyncsim import checks

Params = Any  # any pytree of floating-point arrays
Batch = Any  # any pytree of arrays


@dataclass(frozen=True)
class Workload:
    """A loss, its training data and its evaluation.

    A mini-batch is either `batch_size` rows of `data`, each epoch of each worker a fresh shuffle without
    replacement, or, where there is no data, whatever `noise(key)` draws.

    Attributes:
        init: `key -> params`, the first central variable, any pytree of floating-point arrays.
        loss: `(params, batch, key) -> scalar`. The key is for dropout and the like. Give a module-level function, a
            frozen dataclass with `__call__`, or a `jax.tree_util.Partial` of one with arrays: a new closure is
            compiled again.
        data: Training examples: a pytree of arrays with a common leading axis, or None.
        batch_size: Examples in a mini-batch; at most as many as there are.
        noise: `key -> batch`, for workloads without data.
        gradient: `(params, batch, key) -> (loss, gradient)` where differentiating `loss` is not wanted.
        evaluate: `params -> {"test_loss": …, "test_accuracy": …}`, traceable by JAX, or None.
        name, options, dataset: How to describe and rebuild the workload; filled in by the constructors.

    Example:
        A user's own model, least squares on a line:

        >>> import numpy as np, jax.numpy as jnp, asyncsim as asim
        >>> def loss(params, batch, key):
        ...     x, y = batch
        ...     return jnp.mean((params["slope"] * x - y) ** 2)
        >>> x = np.linspace(-1.0, 1.0, 100)
        >>> line = asim.Workload(init=lambda key: {"slope": jnp.zeros(())}, loss=loss, data=(x, 3 * x), batch_size=10)
        >>> trace = asim.simulate(asim.Cluster(workers=4, compute=asim.delays.Constant(1.0)), commits=400)
        >>> round(float(asim.replay(trace, asim.rules.downpour(0.1), line).central["slope"]), 3)
        3.0
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
            raise ValueError(f"`data` must have one number of examples; its arrays have {sorted(sizes)}.")
        if self.data is not None and size > self.examples:
            raise ValueError(
                f"`batch_size` must be at most the number of training examples, {self.examples}; got {size}."
            )

    @property
    def examples(self) -> int:
        """Number of training examples; 0 where mini-batches are drawn and not taken from data."""
        return len(jax.tree.leaves(self.data)[0]) if self.data is not None else 0

    @property
    def batches_per_epoch(self) -> int:
        """Full mini-batches in one shuffle; the rest of the shuffle is left out, as the paper's code does."""
        return self.examples // self.batch_size

    @cached_property
    def loss_and_gradient(self) -> Partial:
        """`(params, batch, key) -> (loss, gradient)` as a pytree: the code static, its arrays traced."""
        if self.gradient is not None:
            return as_pytree(self.gradient)
        return Partial(_differentiate, as_pytree(self.loss))

    @cached_property
    def device_data(self) -> Batch | None:
        """The training data as JAX arrays, moved to the device once."""
        return jax.tree.map(jax.numpy.asarray, self.data)

    def describe(self) -> dict[str, Any]:
        """Name, options and data set as plain data: enough to build the workload again."""
        described = {"name": self.name or getattr(self.loss, "__qualname__", type(self.loss).__name__)}
        if self.dataset is not None:
            described["data"] = self.dataset.describe()
        return {**described, **self.options}


def as_pytree(function: Callable[..., Any]) -> Partial:
    """The function as something that can be handed to a compiled function and not only be compiled in."""
    return function if isinstance(function, Partial) else Partial(function)


def _differentiate(loss: Partial, params: Params, batch: Batch, key: jax.Array) -> tuple[jax.Array, Params]:
    return jax.value_and_grad(loss)(params, batch, key)
