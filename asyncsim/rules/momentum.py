"""Momentum SGD kept by the worker: the sequential proxy of Gradient Energy Matching."""

from typing import Any

import jax
import jax.numpy as jnp

from asyncsim import checks
from asyncsim.rules.rule import Hyper, Info, Params, Rule, Sent, State, View


def at_rest(hyper: Hyper, params: Params) -> State:
    """A moment of zero."""
    del hyper  # The shape is enough.
    return jax.tree.map(jnp.zeros_like, params)


def accelerate(hyper: Hyper, moment: Params, gradient: Params) -> tuple[Params, Params]:
    """The raw update Δθ = -η·g and the moment m ← μ·m + Δθ, equations (14), (23) and (24)."""
    update = jax.tree.map(lambda g: -hyper["learning_rate"] * g, gradient)
    return update, jax.tree.map(lambda m, d: hyper["momentum"] * m + d, moment, update)


def send_moment(hyper: Hyper, gradient: Params, state: State, view: View) -> Sent:
    """Send m ← μ·m - η·g."""
    del view  # Momentum SGD does not look around.
    update, moment = accelerate(hyper, state, gradient)
    return Sent(message=moment, state=moment, info=Info(update=update, proxy=moment))


def momentum_sgd(learning_rate: Any, *, momentum: Any = 0.9) -> Rule:
    """Momentum SGD: the proxy whose energy GEM matches, when one worker runs it.

    m ← μ·m - η·∇L(s), θ ← θ + m, equation (14) of Hermans and Louppe 2018. The moment is the worker's own, so with
    one worker this is momentum SGD; with several, each adds its own moment to the central variable.

    Args:
        learning_rate: Step size η, per commit; a number, or an array with one a seed.
        momentum: Friction parameter μ in [0, 1).

    Returns:
        A `Rule` that keeps the moment m on the worker.

    Raises:
        ValueError: If η is not finite or μ lies outside [0, 1).

    Example:
        x: 1, then m = -0.5 and x = 0.5, then m = 0.5·(-0.5) - 0.25 and x = 0:

        >>> import asyncsim as asim
        >>> rule = asim.rules.momentum_sgd(learning_rate=0.5, momentum=0.5)
        >>> run = asim.replay(asim.Trace.from_commits([0, 0]), rule, asim.workloads.quadratic([1.0]))
        >>> run.central["x"].tolist()
        [0.0]

    References:
        Polyak 1964, "Some methods of speeding up the convergence of iteration methods".
    """
    hyper = {
        "learning_rate": checks.finite("learning_rate", learning_rate),
        "momentum": checks.fraction("momentum", momentum),
    }
    return Rule(hyper=hyper, name="momentum_sgd", send=send_moment, start=at_rest).sealed()
