"""What differs from worker to worker: functions that ask for the worker's number, and what its gradient counts."""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial

WORKER = "worker"  # the parameter by which a function asks


def asks(function: Callable[..., Any] | None) -> bool:
    """Whether a function has a parameter `worker` that its caller has to fill.

    Example:
        >>> asks(lambda params, batch, key, worker: 0.0), asks(lambda params, batch, key: 0.0), asks(None)
        (True, False, False)
    """
    if function is None or WORKER in (getattr(function, "keywords", None) or {}):
        return False
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # built in
        return False
    found = parameters.get(WORKER)
    return found is not None and found.kind in (found.POSITIONAL_OR_KEYWORD, found.KEYWORD_ONLY)


def told(function: Callable[..., Any]) -> Partial:
    """The function with the worker's number as the last of its positional arguments."""
    return Partial(_tell, function if isinstance(function, Partial) else Partial(function))


def _tell(function: Callable[..., Any], *arguments: Any) -> Any:
    *rest, worker = arguments
    return function(*rest, worker=worker)


def weighted(gradient: Partial, weights: np.ndarray, asked: bool) -> Partial:
    """`(params, batch, key, worker) -> (loss, gradient)` with each gradient multiplied by n times its worker's weight.

    Args:
        gradient: Loss and gradient, of the worker as well if it `asked`.
        weights: (workers,) numbers that sum to 1.
        asked: Whether `gradient` takes the worker's number.
    """
    return Partial(_weigh if asked else _weigh_alike, gradient, weights * len(weights))


def _weigh(gradient: Any, factors: Any, params: Any, batch: Any, key: Any, worker: Any) -> tuple[Any, Any]:
    loss, slope = gradient(params, batch, key, worker)
    return loss, _scaled(slope, factors, worker)


def _weigh_alike(gradient: Any, factors: Any, params: Any, batch: Any, key: Any, worker: Any) -> tuple[Any, Any]:
    loss, slope = gradient(params, batch, key)
    return loss, _scaled(slope, factors, worker)


def _scaled(slope: Any, factors: Any, worker: Any) -> Any:
    factor = jax.numpy.asarray(factors)[worker]
    return jax.tree.map(lambda leaf: leaf * factor.astype(leaf.dtype), slope)
