"""DOWNPOUR, and the raw updates and local steps that other rules are made of."""

from dataclasses import KW_ONLY
from typing import Any

import jax

from asyncsim._component import static
from asyncsim.rules._arguments import StepSize, Window
from asyncsim.rules._rule import Info, Params, Rule, Sent, State, View


def descent(learning_rate: Any, gradient: Params) -> Params:
    """The raw update Δθ = -η·g."""
    return jax.tree.map(lambda g: -learning_rate * g, gradient)


def raw_update(learning_rate: Any, gradient: Params, state: State) -> Sent:
    """Send Δθ = -η·g."""
    update = descent(learning_rate, gradient)
    return Sent(message=update, state=state, info=Info(update=update))


def step_down(learning_rate: Any, params: Params, gradient: Params) -> Params:
    """x - η·g: a local step of SGD."""
    return jax.tree.map(lambda x, g: x - learning_rate * g, params, gradient)


def send_displacement(displacement: Params, state: State) -> Sent:
    """Send Δ = x - s, the sum of the local steps."""
    return Sent(message=displacement, state=state, info=Info(update=displacement))


class Downpour(Rule):
    """Asynchronous SGD: every update is applied as it arrives, at full size.

    θ_{t+1} = θ_t - η·∇L(θ_{t-τ}), equations (1) and (2) of Hermans and Louppe 2018. With a window of λ > 1 a worker
    makes λ steps x ← x - η·∇L(x) of its own from the value s it read and commits their sum: θ ← θ + (x - s). `AGN`
    divides that sum by λ.

    Under round robin on a curvature h, with κ = η·h ≤ 1, accumulated updates are stable iff
    1 - (1 - κ)^λ < 2·sin(π/(2(2n - 1))), about π/(2n): a longer window leaves less room for κ.

    The rule keeps no state on the worker or the server.

    Args:
        learning_rate: Step size η, per commit; a scalar, or one value per seed.
        window: Local steps between two commits, λ; 1 in Hermans and Louppe 2018, 5 in Distributed Keras.

    Raises:
        ValueError: If the step size is negative or not finite or the window is not a whole number of at least 1.

    Example:
        One worker is plain SGD, x ← (1 - η·h)·x:

        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 0, 0])
        >>> asim.replay(trace, asim.rules.Downpour(0.5), asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.125]

        Two workers commit three steps each, from 1 to 0.125; both started from 1:

        >>> rule = asim.rules.Downpour(0.5, window=3)
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [-0.75]

    References:
        Dean et al. 2012, "Large Scale Distributed Deep Networks" (there with local steps between commits).
    """

    learning_rate: StepSize
    _: KW_ONLY
    window: Window = static(default=1)

    publication = "dean2012distbelief"
    purpose = "many machines, none of which waits"
    elementwise = True

    @property
    def steps_locally(self) -> bool:
        """Whether the window is longer than one step."""
        return self.window > 1

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        """Send Δθ = -η·g, or the sum of the local steps."""
        del view  # The gradient is enough.
        if self.steps_locally:
            return send_displacement(gradient, state)
        return raw_update(self.learning_rate, gradient, state)

    def local_step(self, params: Params, gradient: Params, state: State) -> tuple[Params, State]:
        """x ← x - η·g."""
        return step_down(self.learning_rate, params, gradient), state
