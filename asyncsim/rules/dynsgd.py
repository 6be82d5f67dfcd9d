"""DynSGD: windows of local steps, each commit divided by its age."""

from typing import Any

import jax

from asyncsim.rules.downpour import send_displacement
from asyncsim.rules.optimisers import Optimiser, local_steps
from asyncsim.rules.rule import Hyper, Params, Rule, Sent, State, View


def displacement_over_age(hyper: Hyper, displacement: Params, state: State, view: View) -> Sent:
    """Send Δ/(τ + 1)."""
    sent = send_displacement(hyper, displacement, state, view)
    message = jax.tree.map(lambda d: d / (view.staleness + 1).astype(d.dtype), sent.message)
    return sent._replace(message=message)


def dynsgd(
    learning_rate: Any = 1.0, *, window: int = 5, optimiser: Optimiser = "sgd", elementwise: bool = False
) -> Rule:
    """DynSGD: accumulated updates, divided by their staleness plus one.

    x ← s, then λ times x ← x + η·T(∇L(x)); θ ← θ + (x - s)/(τ + 1), with τ the server versions between the read and
    this commit. With a window of 1 and SGD it is `adaptive_staleness`; at τ = 0, DOWNPOUR.

    Args:
        window: Local steps between two commits, λ; 5 in Distributed Keras.
        learning_rate: Step size η, by which the optimiser's updates are multiplied; a number, or an array with one a
            seed. 1 leaves an optimiser with a step size of its own as it is.
        optimiser: The worker's: an optax.GradientTransformation, or a name as in `worker`.
        elementwise: Whether the optimiser treats every parameter alone, which is faster; those with a name do.

    Returns:
        A `Rule` that keeps the optimiser's state on the worker.

    Raises:
        ValueError: If the window is no whole number of at least 1, η not finite, or the optimiser none.

    Example:
        Two halvings make -0.75 of either worker; the second one's is one version old:

        >>> import asyncsim as asim
        >>> rule = asim.rules.dynsgd(window=2, learning_rate=0.5)
        >>> run = asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.quadratic([1.0]))
        >>> run.central["x"].tolist()
        [-0.125]

    References:
        Jiang, Cui, Zhang and Yu 2017, "Heterogeneity-aware distributed parameter servers", SIGMOD.
    """
    steps = local_steps(window, learning_rate, optimiser, elementwise)
    return Rule(name="dynsgd", send=displacement_over_age, **steps).sealed()
