"""The noisy quadratic: the workload for which almost everything is known in closed form."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from asyncsim import checks
from asyncsim.workloads.noise import standard_normal
from asyncsim.workloads.workload import Workload


def _start(start: jax.Array, key: jax.Array) -> dict[str, jax.Array]:
    del key  # Every seed starts at the same point: seeds differ in their noise.
    return {"x": start}


def _loss(eigenvalues: jax.Array, params: dict[str, jax.Array]) -> jax.Array:
    return 0.5 * jnp.sum(eigenvalues * jnp.square(params["x"]))


def _training_loss(eigenvalues: jax.Array, params: Any, batch: Any, key: jax.Array) -> jax.Array:
    del batch, key  # The noise is in the gradient only.
    return _loss(eigenvalues, params)


def _gradient(eigenvalues: jax.Array, params: Any, batch: Any, key: jax.Array) -> tuple[jax.Array, Any]:
    del key  # The noise was drawn with the batch.
    slope = eigenvalues * params["x"]
    return _loss(eigenvalues, params), {"x": slope if batch is None else slope + batch}


def _draw(scale: jax.Array, key: jax.Array) -> jax.Array:
    return scale * standard_normal(key, scale.size, scale.dtype)


def _evaluate(eigenvalues: jax.Array, params: Any) -> dict[str, jax.Array]:
    return {"test_loss": _loss(eigenvalues, params)}


def quadratic(eigenvalues: Sequence[float] | Any, noise: float = 0.0, start: float | Any = 1.0) -> Workload:
    """A quadratic in its eigenbasis, with additive gradient noise.

    L(x) = ½ Σ hᵢxᵢ², and the gradient that a worker takes is hᵢxᵢ + noise·N(0, 1), independent for every commit and
    coordinate. Working in the eigenbasis loses nothing: every rule here that treats each parameter on its own acts on
    each eigenvalue on its own.

    Args:
        eigenvalues: h, shape (d,).
        noise: Standard deviation σ of a coordinate's gradient noise.
        start: First value of the central variable, a scalar or shape (d,).

    Returns:
        A `Workload` whose parameters are ``{"x": array of shape (d,)}`` and whose loss is L, without noise.

    Raises:
        ValueError: If an argument is not finite in JAX's precision, the noise is negative, or shapes do not match.

    Example:
        >>> import asyncsim as asim
        >>> workload = asim.workloads.quadratic([1.0, 10.0], start=2.0)
        >>> trace = asim.Trace.from_commits([0])
        >>> run = asim.replay(trace, asim.rules.downpour(0.05), workload)
        >>> run.loss.tolist(), [round(float(x), 2) for x in run.central["x"]]
        ([22.0], [1.9, 1.0])
    """
    values = np.atleast_1d(np.asarray(checks.finite("eigenvalues", eigenvalues), float))
    if values.ndim != 1 or not values.size:
        raise ValueError(f"`eigenvalues` must be a sequence of at least one number; got shape {values.shape}.")
    checks.not_negative("noise", noise)
    first = np.asarray(checks.finite("start", start), float)
    if first.shape not in ((), values.shape):
        raise ValueError(f"`start` must be a scalar, or one value per eigenvalue; got shape {first.shape}.")
    for name, given in (("eigenvalues", eigenvalues), ("noise", noise), ("start", start)):
        checks.representable(name, given, jnp.finfo(jnp.result_type(float)))
    # Made on the host: `jnp` would compile a program for each operation and shape.
    h, first_x, scale = map(
        jax.device_put, (values, np.broadcast_to(first, values.shape), np.full(values.shape, float(noise)))
    )
    return Workload(
        init=Partial(_start, first_x),
        loss=Partial(_training_loss, h),
        gradient=Partial(_gradient, h),
        noise=Partial(_draw, scale) if noise else None,
        evaluate=Partial(_evaluate, h),
        name="quadratic",
        options={"eigenvalues": values.tolist(), "noise": float(noise), "start": first.tolist()},
    )
