"""FADAS: an adaptive server for buffered updates, whose step shrinks when the oldest of them is too old."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from asyncsim import checks
from asyncsim.rules.federated import whole
from asyncsim.rules.momentum import at_rest
from asyncsim.rules.rule import Hyper, Info, Params, Rule, Sent, State, View

OLDEST = 255  # ages from here on count as this one: a mean of messages can hold a largest age only as a histogram


def descend_locally(hyper: Hyper, params: Params, gradient: Params, state: State) -> tuple[Params, State]:
    """A local step whose step size is not the server's."""
    return jax.tree.map(lambda x, g: x - hyper["local_learning_rate"] * g, params, gradient), state


class Moments(NamedTuple):
    """What the server of FADAS keeps: means of the update and of its square, and the largest of the latter so far."""

    mean: Params
    square: Params
    largest: Params


def start_moments(hyper: Hyper, params: Params) -> Moments:
    """Everything at zero."""
    return Moments(*(at_rest(hyper, params) for _ in Moments._fields))


def send_displacement(hyper: Hyper, displacement: Params, state: State, view: View) -> Sent:
    """Send Δ."""
    del hyper, view  # The update as it is.
    return Sent({"update": displacement}, state, Info(update=displacement))


def send_with_age(hyper: Hyper, displacement: Params, state: State, view: View) -> Sent:
    """Send Δ, and a histogram of one age: the largest age of a step can be read off the mean of these."""
    del hyper  # The update as it is.
    dtype = jax.tree.leaves(displacement)[0].dtype
    ages = (jnp.arange(OLDEST + 1) == jnp.minimum(view.staleness, OLDEST)).astype(dtype)
    return Sent({"update": displacement, "ages": ages}, state, Info(update=displacement))


def apply_adaptively(
    hyper: Hyper, central: Params, server: Moments, message: dict[str, Any], view: View
) -> tuple[Params, Moments]:
    """θ ← θ + η_t·m/(√v̂ + ε), with AMSGrad's v̂."""
    del view  # Of the closing commit alone; ages come with the messages.
    rate, update = hyper["learning_rate"], message["update"]
    if "ages" in message:
        ages = message["ages"]
        oldest = jnp.max(jnp.where(ages > 0, jnp.arange(OLDEST + 1), 0)).astype(ages.dtype)
        rate = jnp.where(oldest <= hyper["limit"], rate, rate / jnp.maximum(oldest, 1))
    b1, b2 = hyper["momentum"], hyper["decay"]
    mean = jax.tree.map(lambda m, d: b1 * m + (1 - b1) * d, server.mean, update)
    square = jax.tree.map(lambda v, d: b2 * v + (1 - b2) * d * d, server.square, update)
    largest = jax.tree.map(jnp.maximum, server.largest, square)

    def stepped(theta: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        return (theta + rate * m / (jnp.sqrt(v) + hyper["epsilon"])).astype(theta.dtype)

    return jax.tree.map(stepped, central, mean, largest), Moments(mean, square, largest)


def fadas(
    learning_rate: Any,
    *,
    buffer: int = 5,
    window: int = 1,
    momentum: Any = 0.9,
    decay: Any = 0.99,
    epsilon: Any = 1e-8,
    limit: Any = None,
    local_learning_rate: Any = 1.0,
) -> Rule:
    """Federated adaptive asynchronous optimisation: AMSGrad at a server that buffers M updates.

    m ← β₁·m + (1 - β₁)·Δ̄, v ← β₂·v + (1 - β₂)·Δ̄², v̂ ← max(v̂, v), θ ← θ + η_t·m/(√v̂ + ε), elementwise and without
    bias correction, with Δ̄ the mean of M displacements x - s of `window` local steps. With a `limit` τ_c, η_t = η
    while the oldest update of the step has τ ≤ τ_c, and η/τ beyond (ages above 255 count as 255). The server keeps m, v
    and v̂, the worker nothing. With M = 1, window 1 and one worker it is AMSGrad without bias correction.

    Args:
        learning_rate: Step size η of the server; a number, or an array with one a seed.
        buffer: Updates in a step, M ≥ 1.
        window: Local steps in an update.
        momentum: β₁ in [0, 1).
        decay: β₂ in [0, 1).
        epsilon: ε ≥ 0; small against the updates, whose size is that of local steps.
        limit: τ_c ≥ 0, the age up to which the step size is η; None for η always.
        local_learning_rate: Step size of a local step. With window 1 only its ratio to ε matters.

    Returns:
        A `Rule` that steps every `buffer` commits.

    Raises:
        ValueError: If a number is out of its range.

    Example:
        The first step with M = 1: Δ = -1, m = -0.1, v = 0.01, and θ = 1 - 0.5·0.1/0.1.

        >>> import asyncsim as asim
        >>> rule = asim.rules.fadas(0.5, buffer=1)
        >>> run = asim.replay(asim.Trace.from_commits([0]), rule, asim.workloads.quadratic([1.0]))
        >>> round(float(run.central["x"][0]), 6)
        0.5

    References:
        Wang, Wang, Lu and Chen 2024, "FADAS: towards federated adaptive asynchronous optimization".
    """
    hyper = {
        "learning_rate": checks.finite("learning_rate", learning_rate),
        "local_learning_rate": checks.finite("local_learning_rate", local_learning_rate),
        "momentum": checks.fraction("momentum", momentum),
        "decay": checks.fraction("decay", decay),
        "epsilon": checks.not_negative("epsilon", epsilon),
    }
    if limit is not None:
        hyper["limit"] = checks.not_negative("limit", limit)
    buffer, window = whole("buffer", buffer), whole("window", window)
    return Rule(
        hyper=hyper,
        name="fadas",
        send=send_displacement if limit is None else send_with_age,
        options=(("buffer", buffer), ("window", window)),
        start_server=start_moments,
        apply=apply_adaptively,
        local_step=descend_locally,
        window=window,
        collect=buffer,
    ).sealed()
