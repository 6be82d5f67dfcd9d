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


def _loss_from(eigenvalues: jax.Array, minimum: jax.Array, x: jax.Array) -> jax.Array:
    return 0.5 * jnp.sum(eigenvalues * jnp.square(x - minimum))


def _workers_loss(h: jax.Array, minima: jax.Array, params: Any, batch: Any, key: jax.Array, worker: Any) -> jax.Array:
    del batch, key  # As above.
    return _loss_from(h, minima[worker], params["x"])


def _workers_gradient(
    h: jax.Array, minima: jax.Array, params: Any, batch: Any, key: jax.Array, worker: Any
) -> tuple[jax.Array, Any]:
    del key  # As above.
    slope = h * (params["x"] - minima[worker])
    return _loss_from(h, minima[worker], params["x"]), {"x": slope if batch is None else slope + batch}


def _each_loss(eigenvalues: jax.Array, minima: jax.Array, params: Any) -> dict[str, jax.Array]:
    return {"worker_loss": jax.vmap(lambda minimum: _loss_from(eigenvalues, minimum, params["x"]))(minima)}


def _mean_loss(eigenvalues: jax.Array, minima: jax.Array, params: Any) -> dict[str, jax.Array]:
    return {"test_loss": jnp.mean(_each_loss(eigenvalues, minima, params)["worker_loss"])}


def quadratic(
    eigenvalues: Sequence[float] | Any,
    noise: float = 0.0,
    start: float | Any = 1.0,
    minima: Sequence[float] | Any | None = None,
) -> Workload:
    """A quadratic in its eigenbasis, with additive gradient noise.

    L(x) = ½ Σ hᵢxᵢ², and the gradient that a worker takes is hᵢxᵢ + noise·N(0, 1), independent for every commit and
    coordinate. Working in the eigenbasis loses nothing: every rule here that treats each parameter on its own acts on
    each eigenvalue on its own.

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

    Returns:
        A `Workload` whose parameters are ``{"x": array of shape (d,)}`` and whose loss is L, without noise; or, with
        `minima`, the loss of the worker that takes the gradient, while L is the test loss.

    Raises:
        ValueError: If an argument is not finite in JAX's precision, the noise is negative, or shapes do not match.

    Example:
        >>> import asyncsim as asim
        >>> workload = asim.workloads.quadratic([1.0, 10.0], start=2.0)
        >>> trace = asim.Trace.from_commits([0])
        >>> run = asim.replay(trace, asim.rules.Downpour(0.05), workload)
        >>> run.loss.tolist(), [round(float(x), 2) for x in run.central["x"]]
        ([22.0], [1.9, 1.0])

        Two workers that want 0 and 4; their mean is least at 2:

        >>> torn = asim.workloads.quadratic([1.0], minima=[0.0, 4.0], start=2.0)
        >>> run = asim.replay(asim.Trace.from_commits([0, 1]), asim.rules.Downpour(0.5), torn)
        >>> run.loss.tolist(), run.central["x"].tolist(), run.evaluate()["test_loss"]
        ([2.0, 2.0], [2.0], 2.0)
    """
    if not np.size(eigenvalues) or np.ndim(eigenvalues) > 1:
        shape = np.shape(eigenvalues)
        raise ValueError(f"`eigenvalues` must be a sequence of at least one number; got shape {shape}.")
    values = np.atleast_1d(np.asarray(checks.finite("eigenvalues", eigenvalues), float))
    checks.not_negative("noise", noise)
    first = np.asarray(checks.finite("start", start), float)
    if first.shape not in ((), values.shape):
        raise ValueError(f"`start` must be a scalar, or one value per eigenvalue; got shape {first.shape}.")
    wanted = None if minima is None else _checked_minima(minima, values.size)
    told = {
        "eigenvalues": eigenvalues,
        "noise": noise,
        "start": start,
        **({} if minima is None else {"minima": wanted}),
    }
    for name, given in told.items():
        checks.representable(name, given, jnp.finfo(jnp.result_type(float)))
    # Made on the host: `jnp` would compile a program for each operation and shape.
    h, first_x, scale = map(
        jax.device_put, (values, np.broadcast_to(first, values.shape), np.full(values.shape, float(noise)))
    )
    options = {"eigenvalues": values.tolist(), "noise": float(noise), "start": first.tolist()}
    draw = Partial(_draw, scale) if noise else None
    if wanted is None:
        return Workload(
            init=Partial(_start, first_x),
            loss=Partial(_training_loss, h),
            gradient=Partial(_gradient, h),
            noise=draw,
            evaluate=Partial(_evaluate, h),
            name="quadratic",
            options=options,
        )
    m = jax.device_put(wanted)
    return Workload(
        init=Partial(_start, first_x),
        loss=Partial(_workers_loss, h, m),
        gradient=Partial(_workers_gradient, h, m),
        noise=draw,
        evaluate=Partial(_mean_loss, h, m),
        evaluate_workers=Partial(_each_loss, h, m),
        workers=len(wanted),
        name="quadratic",
        options={**options, "minima": wanted.tolist()},
    )


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
