"""Functions that ask for the worker's number or the behaviour parameters, and weights of the workers' gradients."""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial

WORKER, BEHAVIOUR = "worker", "behaviour"  # the parameters by which a function asks


def asks(function: Callable[..., Any] | None, name: str = WORKER) -> bool:
    """Whether a function has a parameter of this name that its caller has to fill."""
    if function is None or name in (getattr(function, "keywords", None) or {}):
        return False
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # built in
        return False
    found = parameters.get(name)
    return found is not None and found.kind in (found.POSITIONAL_OR_KEYWORD, found.KEYWORD_ONLY)


def with_worker(function: Partial) -> Partial:
    """The function with behaviour parameters and worker as its last positional arguments, if it asks for them."""
    behaviour, worker = asks(function, BEHAVIOUR), asks(function)
    function = Partial(_tell_behaviour, function) if behaviour else function
    return Partial(_tell, function) if worker else function


def _tell(function: Callable[..., Any], *arguments: Any) -> Any:
    *rest, worker = arguments
    return function(*rest, worker=worker)


def _tell_behaviour(function: Callable[..., Any], *arguments: Any, **worker: Any) -> Any:
    *rest, behaviour = arguments
    return function(*rest, behaviour=behaviour, **worker)


def weighted(gradient: Partial, weights: np.ndarray, asked: bool) -> Partial:
    """`(params, batch, key, …, worker) -> (loss, gradient)`: each gradient is multiplied by n times its weight."""
    return Partial(_weigh if asked else _weigh_alike, gradient, weights * len(weights))


def _weigh(gradient: Any, factors: Any, *arguments: Any) -> tuple[Any, Any]:
    loss, slope = gradient(*arguments)
    return loss, _scaled(slope, factors, arguments[-1])


def _weigh_alike(gradient: Any, factors: Any, *arguments: Any) -> tuple[Any, Any]:
    *rest, worker = arguments
    loss, slope = gradient(*rest)
    return loss, _scaled(slope, factors, worker)


def _scaled(slope: Any, factors: Any, worker: Any) -> Any:
    factor = jax.numpy.asarray(factors)[worker]
    return jax.tree.map(lambda leaf: leaf * factor.astype(leaf.dtype), slope)
