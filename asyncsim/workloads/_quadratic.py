"""The noisy quadratic: the workload for which almost everything is known in closed form."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim import _checks as checks
from asyncsim.workloads._noise import standard_normal
from asyncsim.workloads._workload import Params, Workload


class Quadratic(Workload):
    """A quadratic in its eigenbasis, with additive gradient noise.

    L(x) = ½ Σ hᵢxᵢ², and the gradient that a worker takes is hᵢxᵢ + noise·N(0, 1), independent for every commit and
    coordinate. The parameters are ``{"x": array of shape (d,)}``, and the loss is L, without noise; or, with `minima`,
    that of the worker that takes the gradient, while L is the test loss. Working in the eigenbasis loses nothing: every
    rule here that treats each parameter on its own acts on each eigenvalue on its own.

    With `minima` every worker w has a quadratic of its own, L_w(x) = ½ Σ hᵢ(xᵢ - m_{w,i})², and L is their mean, least
    at the mean of the minima. By how much the workers differ is the same everywhere: ζ², the mean over workers of
    ‖∇L_w - ∇L‖², is `theory.heterogeneity(eigenvalues, minima)`. A rule that lets fast workers count more than slow
    ones ends at another mean of the minima (`theory.weighted_minimum`).

    Args:
        eigenvalues: h, shape (d,).
        noise: Standard deviation σ of a coordinate's gradient noise.
        start: First value of the central variable, a scalar or shape (d,).
        minima: m, where each worker's own quadratic is least, shape (workers, d), or (workers,) with one eigenvalue;
            by default all are least at 0.

    Raises:
        ValueError: If an argument is not finite in JAX's precision, the noise is negative, or shapes do not match.

    Example:
        >>> import asyncsim as asim
        >>> workload = asim.workloads.Quadratic([1.0, 10.0], start=2.0)
        >>> trace = asim.Trace.from_commits([0])
        >>> run = asim.replay(trace, asim.rules.Downpour(0.05), workload)
        >>> run.loss.tolist(), [round(float(x), 2) for x in run.central["x"]]
        ([22.0], [1.9, 1.0])

        Two workers that want 0 and 4; their mean is least at 2:

        >>> torn = asim.workloads.Quadratic([1.0], minima=[0.0, 4.0], start=2.0)
        >>> run = asim.replay(asim.Trace.from_commits([0, 1]), asim.rules.Downpour(0.5), torn)
        >>> run.loss.tolist(), run.central["x"].tolist(), run.evaluate()["test_loss"]
        ([2.0, 2.0], [2.0], 2.0)
    """

    eigenvalues: Any
    noise: Any = 0.0
    start: Any = 1.0
    minima: Any = None

    def check(self) -> None:
        """Refuse numbers that are not finite, and shapes that do not match; keep them as arrays."""
        eigenvalues, noise, start = self.eigenvalues, self.noise, self.start
        if not np.size(eigenvalues) or np.ndim(eigenvalues) > 1:
            shape = np.shape(eigenvalues)
            raise ValueError(f"`eigenvalues` must be a sequence of at least one number; got shape {shape}.")
        values = np.atleast_1d(np.asarray(checks.finite("eigenvalues", eigenvalues), float))
        checks.not_negative("noise", noise)
        first = np.asarray(checks.finite("start", start), float)
        if first.shape not in ((), values.shape):
            raise ValueError(f"`start` must be a scalar, or one value per eigenvalue; got shape {first.shape}.")
        minima = None if self.minima is None else _checked_minima(self.minima, values.size)
        given = {"eigenvalues": eigenvalues, "noise": noise, "start": start, "minima": minima}
        for name, value in given.items():
            if value is not None:
                checks.representable(name, value, jnp.finfo(jnp.result_type(float)))
        kept = {"eigenvalues": values, "noise": float(noise), "start": first, "minima": minima}
        for name, value in kept.items():
            object.__setattr__(self, name, value)
        super().check()

    @property
    def workers(self) -> int | None:  # type: ignore[override]
        """One for each of the `minima`."""
        return None if self.minima is None else len(self.minima)

    def init(self, key: jax.Array) -> Params:
        """The start, of every seed: seeds differ in their noise."""
        del key
        # Made on the host: `jnp` would compile a program for each operation and shape.
        return {"x": jax.device_put(np.broadcast_to(self.start, np.shape(self.eigenvalues)))}

    @property
    def loss(self) -> Callable[..., jax.Array]:  # type: ignore[override]
        """`(params, batch, key) -> L`, or with `minima` that of a worker; the noise is in the gradient only."""
        return self._loss if self.minima is None else self._loss_of_worker

    @property
    def gradient(self) -> Callable[..., tuple[jax.Array, Params]]:  # type: ignore[override]
        """The loss and its gradient, with the noise that was drawn as the mini-batch."""
        return self._gradient if self.minima is None else self._gradient_of_worker

    @property
    def draw(self) -> Callable[[jax.Array], jax.Array] | None:  # type: ignore[override]
        """The noise, if there is any."""
        return self._draw if self.noise else None

    @property
    def evaluate_workers(self) -> Callable[[Params], dict[str, jax.Array]] | None:  # type: ignore[override]
        """The loss of each worker at the same parameters, if they differ."""
        return None if self.minima is None else self._each_loss

    def evaluate(self, params: Params) -> dict[str, jax.Array]:
        """L."""
        if self.minima is None:
            return {"test_loss": self._height(params["x"])}
        return {"test_loss": jnp.mean(self._each_loss(params)["worker_loss"])}

    def _height(self, offset: jax.Array) -> jax.Array:
        return 0.5 * jnp.sum(jnp.asarray(self.eigenvalues) * jnp.square(offset))

    def _loss(self, params: Params, batch: Any, key: jax.Array) -> jax.Array:
        del batch, key
        return self._height(params["x"])

    def _loss_of_worker(self, params: Params, batch: Any, key: jax.Array, worker: Any) -> jax.Array:
        del batch, key
        return self._height(params["x"] - jnp.asarray(self.minima)[worker])

    def _gradient(self, params: Params, batch: Any, key: jax.Array) -> tuple[jax.Array, Params]:
        del key  # The noise was drawn with the batch.
        return self._slope(params["x"], batch)

    def _gradient_of_worker(self, params: Params, batch: Any, key: jax.Array, worker: Any) -> tuple[jax.Array, Params]:
        del key  # As above.
        return self._slope(params["x"] - jnp.asarray(self.minima)[worker], batch)

    def _slope(self, offset: jax.Array, noise: Any) -> tuple[jax.Array, Params]:
        slope = jnp.asarray(self.eigenvalues) * offset
        return self._height(offset), {"x": slope if noise is None else slope + noise}

    def _draw(self, key: jax.Array) -> jax.Array:
        eigenvalues = jnp.asarray(self.eigenvalues)
        return self.noise * standard_normal(key, eigenvalues.size, eigenvalues.dtype)

    def _each_loss(self, params: Params) -> dict[str, jax.Array]:
        each = jax.vmap(lambda minimum: self._height(params["x"] - minimum))
        return {"worker_loss": each(jnp.asarray(self.minima))}


def _checked_minima(minima: Any, dimension: int) -> np.ndarray:
    """(workers, dimension)."""
    found = np.asarray(checks.finite("minima", minima), float)
    if found.ndim == 1 and dimension == 1:
        found = found[:, None]
    if found.ndim != 2 or found.shape[1] != dimension or not len(found):
        raise ValueError(
            f"`minima` must have a row of {dimension} number{'s' * (dimension > 1)} per worker; got shape "
            f"{np.shape(minima)}. Give one value per worker and eigenvalue."
        )
    return found
