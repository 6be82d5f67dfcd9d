"""DOWNPOUR, and the raw updates and local steps that other rules are made of."""

from typing import Any

import jax

from asyncsim.rules.arguments import step_size, whole_window
from asyncsim.rules.rule import Hyper, Info, Params, Rule, Sent, State, View


def descent(hyper: Hyper, gradient: Params) -> Params:
    """The raw update Δθ = -η·g."""
    return jax.tree.map(lambda g: -hyper["learning_rate"] * g, gradient)


def raw_update(hyper: Hyper, gradient: Params, state: State, view: View) -> Sent:
    """Send Δθ = -η·g."""
    del view  # The raw update depends on the gradient only.
    update = descent(hyper, gradient)
    return Sent(message=update, state=state, info=Info(update=update))


def step_down(hyper: Hyper, params: Params, gradient: Params, state: State) -> tuple[Params, State]:
    """x ← x - η·g: a local step of SGD."""
    return jax.tree.map(lambda x, g: x - hyper["learning_rate"] * g, params, gradient), state


def send_displacement(hyper: Hyper, displacement: Params, state: State, view: View) -> Sent:
    """Send Δ = x - s, the sum of the local steps."""
    del hyper, view  # The displacement is the update.
    return Sent(message=displacement, state=state, info=Info(update=displacement))


def downpour(learning_rate: Any, *, window: int = 1) -> Rule:
    """Asynchronous SGD: every update is applied as it arrives, at full size.

    θ_{t+1} = θ_t - η·∇L(θ_{t-τ}), equations (1) and (2) of Hermans and Louppe 2018. With a window of λ > 1 a worker
    makes λ steps x ← x - η·∇L(x) of its own from the value s it read and commits their sum: θ ← θ + (x - s). `agn`
    divides that sum by λ.

    Under round robin on a curvature h, with κ = η·h ≤ 1, accumulated updates are stable iff
    1 - (1 - κ)^λ < 2·sin(π/(2(2n - 1))), about π/(2n): a longer window leaves less room for κ.

    Args:
        learning_rate: Step size η, per commit; a scalar, or one value per seed.
        window: Local steps between two commits, λ; 1 in Hermans and Louppe 2018, 5 in Distributed Keras.

    Returns:
        A `Rule` that keeps no state on the worker or the server.

    Raises:
        ValueError: If the step size is negative or not finite or the window is not a whole number of at least 1.

    Example:
        One worker is plain SGD, x ← (1 - η·h)·x:

        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 0, 0])
        >>> asim.replay(trace, asim.rules.downpour(0.5), asim.workloads.quadratic([1.0])).central["x"].tolist()
        [0.125]

        Two workers commit three steps each, from 1 to 0.125; both started from 1:

        >>> rule = asim.rules.downpour(0.5, window=3)
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.quadratic([1.0])).central["x"].tolist()
        [-0.75]

    References:
        Dean et al. 2012, "Large Scale Distributed Deep Networks" (there with local steps between commits).
    """
    hyper, window = step_size(learning_rate), whole_window(window)
    if window == 1:
        return Rule(hyper=hyper, name="downpour", send=raw_update, elementwise=True).sealed()
    return Rule(
        hyper=hyper,
        name="downpour",
        send=send_displacement,
        options=(("window", window),),
        local_step=step_down,
        window=window,
        elementwise=True,
    ).sealed()
