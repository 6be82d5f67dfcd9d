"""Rules that send a worker's raw update as it comes, or scaled by its age: nothing is remembered."""

from typing import Any

import jax

from asyncsim import checks
from asyncsim.rules.rule import Hyper, Info, Params, Rule, Sent, State, View


def raw_update(hyper: Hyper, gradient: Params, state: State, view: View) -> Sent:
    """Send Δθ = -η·g."""
    del view  # The raw update depends on the gradient only.
    update = jax.tree.map(lambda g: -hyper["learning_rate"] * g, gradient)
    return Sent(message=update, state=state, info=Info(update=update))


def update_over_age(hyper: Hyper, gradient: Params, state: State, view: View) -> Sent:
    """Send Δθ/(τ + 1)."""
    sent = raw_update(hyper, gradient, state, view)
    message = jax.tree.map(lambda u: u / (view.staleness + 1).astype(u.dtype), sent.message)
    return sent._replace(message=message)


def step_down(hyper: Hyper, params: Params, gradient: Params, state: State) -> tuple[Params, State]:
    """x ← x - η·g: a local step of SGD."""
    return jax.tree.map(lambda x, g: x - hyper["learning_rate"] * g, params, gradient), state


def send_displacement(hyper: Hyper, displacement: Params, state: State, view: View) -> Sent:
    """Send Δ = x - s, all that the local steps made."""
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
        learning_rate: Step size η, per commit; a number, or an array with one a seed.
        window: Local steps between two commits, λ; 1 in Hermans and Louppe 2018, 5 in Distributed Keras.

    Returns:
        A `Rule` that keeps no state on the worker or the server.

    Raises:
        ValueError: If the step size is not a finite number or the window no whole number of at least 1.

    Example:
        One worker is plain SGD, x ← (1 - η·h)·x:

        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 0, 0])
        >>> run = asim.replay(trace, asim.rules.downpour(0.5), asim.workloads.quadratic([1.0]))
        >>> run.central["x"].tolist()
        [0.125]

        Two workers commit three steps each, from 1 to 0.125, and both began at 1:

        >>> rule = asim.rules.downpour(0.5, window=3)
        >>> run = asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.quadratic([1.0]))
        >>> run.central["x"].tolist()
        [-0.75]

    References:
        Dean et al. 2012, "Large Scale Distributed Deep Networks" (there with local steps between commits).
    """
    hyper = {"learning_rate": checks.finite("learning_rate", learning_rate)}
    window = checks.require_integer("window", window, least=1, remedy="1 commits every step.")
    if window == 1:
        return Rule(hyper=hyper, name="downpour", send=raw_update).sealed()
    options = (("window", window),)
    return Rule(
        hyper=hyper, name="downpour", send=send_displacement, options=options, local_step=step_down, window=window
    ).sealed()


def adaptive_staleness(learning_rate: Any) -> Rule:
    """Asynchronous SGD whose every update is divided by its staleness plus one.

    θ_{t+1} = θ_t - η·∇L(θ_{t-τ})/(τ + 1), with τ the server versions between the read and this commit. Where a server
    averages several updates in a step, each is divided by its own age first.

    Args:
        learning_rate: Step size η, per commit; a number, or an array with one a seed.

    Returns:
        A `Rule` that keeps no state on the worker or the server.

    Raises:
        ValueError: If the step size is not a finite number.

    Example:
        Two workers in turn: the first update is fresh (τ = 0), the second one step late (τ = 1).

        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1])
        >>> run = asim.replay(trace, asim.rules.adaptive_staleness(0.5), asim.workloads.quadratic([1.0]))
        >>> run.central["x"].tolist()
        [0.25]

    References:
        Hermans and Louppe 2018, section 4 (the baseline "adaptive staleness"); Jiang et al. 2017 (DynSGD).
    """
    hyper = {"learning_rate": checks.finite("learning_rate", learning_rate)}
    return Rule(hyper=hyper, name="adaptive_staleness", send=update_over_age).sealed()
