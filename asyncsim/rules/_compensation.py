"""Rules that correct a stale gradient by the distance that the centre has moved since it was taken."""

from dataclasses import KW_ONLY
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from asyncsim._trees import as_precise, tree_zeros_like, widen
from asyncsim.components._component import static
from asyncsim.rules._common import Elementwise, Fraction, NotNegative
from asyncsim.rules._momentum import Momentum
from asyncsim.rules._rule import Info, Params, Sent, State, View, accelerate, descent

SMALL_ADAPTIVE = 1e-7  # added to the mean square under the root, as published
SMALL_GAP = 1e-8  # added to the mean velocity, as published
STRENGTHS = {"constant": 0.04, "adaptive": 2.0, "adaptive_by_worker": 2.0}


def compensated(strength: Any, gradient: Params, central: Params, read: Params) -> Params:
    """g + λ·g⊙g⊙(θ - s): λ·g⊙g stands for the curvature. λ is a scalar, or a pytree like the parameters."""
    if jax.tree.structure(strength) != jax.tree.structure(gradient):
        strength = jax.tree.map(lambda g: strength, gradient)
    return jax.tree.map(lambda k, g, t, s: g + k * g * g * (t - s), strength, gradient, central, read)


def averaged_square(decay: Any, before: Params, square: Params) -> Params:
    """MS ← m·MS + (1 - m)·g⊙g."""
    return jax.tree.map(lambda ms, g2: decay * ms + (1 - decay) * g2, before, square)


class Server(NamedTuple):
    """The central variable that gradients are compensated to, and the mean square of the gradients or ()."""

    central: Params
    square: Params


class DCASGD(Elementwise):
    """Delay-compensated asynchronous SGD: a stale gradient plus its first-order change since it was taken.

    θ ← θ - η·(g + λ_t·g⊙g⊙(θ - s)), with g = ∇L(s), s the value that *this* worker read, and θ the server's at the
    commit. g⊙g stands for the diagonal of the Hessian, which it equals on average for a likelihood at its optimum, up
    to the batch size.

    - constant: λ_t = λ.
    - adaptive: λ_t = λ/√(MS + 1e-7), MS ← m·MS + (1 - m)·g⊙g over all commits, this one included.
    - adaptive_by_worker: the same with an MS of each worker, over its own commits, as in the authors' code.

    With λ = 0, and with one worker, this is asynchronous SGD. A server that averages the messages of a step averages
    the squares too.

    The rule keeps the central variable on the server, and with ``adaptive`` MS as well, which the worker keeps with
    ``adaptive_by_worker``.

    Args:
        learning_rate: Step size η, per commit.
        compensation: Strength λ ≥ 0. None for 0.04 with the constant and 2 with an adaptive variance.
        variance: "constant" (DC-ASGD-c), or "adaptive" or "adaptive_by_worker" (DC-ASGD-a).
        decay: Decay m in [0, 1) of the mean square, not for ``constant`` (0.95 is also in public code).

    Example:
        Two workers in turn from x = 1. The second gradient is 1 as well, and θ - s = -0.5, so it counts 1 - 0.5·λ:

        >>> import asyncsim as asim
        >>> rule = asim.rules.DCASGD(0.5, compensation=0.5)
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.125]

    References:
        Zheng, Meng, Wang, Chen, Yu, Ma and Liu 2017, "Asynchronous Stochastic Gradient Descent with Delay
        Compensation", arXiv 1609.08326.
    """

    _: KW_ONLY
    compensation: NotNegative | None = None
    variance: Literal["constant", "adaptive", "adaptive_by_worker"] = static(default="constant")
    decay: Fraction = 0.95

    name = "dc_asgd"
    publication = "zheng2017dcasgd"
    purpose = "stale gradients, corrected to first order"

    def start(self, params: Params) -> Params:
        """Return the mean square of a worker's own gradients, zero at first, where it keeps one."""
        return widen(tree_zeros_like(params)) if self.variance == "adaptive_by_worker" else ()

    def start_server(self, params: Params) -> Server:
        """Return the central variable, and a mean square of zero where the server keeps one."""
        return Server(central=params, square=widen(tree_zeros_like(params)) if self.variance == "adaptive" else ())

    def send(self, gradient: Params, state: Params, view: View) -> Sent:
        """Send -η·(g + λ_t·g⊙g⊙(θ - s)), with the server's θ at this commit and this worker's own s."""
        strength = STRENGTHS[self.variance] if self.compensation is None else self.compensation
        square: Params = ()
        if self.variance != "constant":
            by_worker = self.variance == "adaptive_by_worker"
            square = jax.tree.map(jnp.square, widen(gradient))
            # The strength counts this gradient as well, before the server has averaged its square.
            mean = averaged_square(self.decay, state if by_worker else view.server.square, square)
            adapted = jax.tree.map(lambda ms: strength / jnp.sqrt(ms + SMALL_ADAPTIVE), mean)
            strength = as_precise(adapted, gradient)
            state, square = (mean, ()) if by_worker else (state, square)
        corrected = compensated(strength, gradient, view.server.central, view.read)
        message = {"update": descent(self.learning_rate, corrected), "square": square}
        return Sent(message, state, Info(update=descent(self.learning_rate, gradient)))

    def apply(self, central: Params, server: Server, message: dict[str, Any], view: View) -> tuple[Params, Server]:
        """Add the update, and keep the new central variable and the mean square if there is one."""
        theta = jax.tree.map(jnp.add, central, message["update"])
        return theta, Server(theta, averaged_square(self.decay, server.square, message["square"]))


class Gap(NamedTuple):
    """The server's state of `GapAware`."""

    central: Params  # θ
    moment: Params  # -η·v
    square: Params  # decaying mean of the moment's square, which starts at zero
    weight: jax.Array  # the same mean of ones, by which `square` is divided before use


class GapAware(Momentum):
    """Asynchronous momentum SGD whose gradients are divided by the distance that θ has moved, in units of a usual step.

    g ← g/(1 + |θ - s|/C) elementwise, v ← γ·v + g, θ ← θ - η·v, with g = ∇L(s), s the value that this worker read, and
    the server's θ and v. C = η·(√(EMA_β(v²)/(1 - β^t)) + 1e-8) is the usual length of a step, from the t steps before
    this one. A parameter that did not move is not corrected, so one worker is momentum SGD. The published formulas can
    also be read with a mean square that includes the present step and is not divided by 1 - β^t. Then C is much smaller
    in the first 1/(1 - β) steps, and gradients are divided by more.

    The rule keeps θ, -η·v, the mean square of -η·v and its weight on the server.

    Args:
        learning_rate: Step size η, per commit, which is constant, so it is its own maximum.
        momentum: Momentum γ in [0, 1), shared by all workers.
        decay: Decay β in [0, 1) of the mean square of v.

    Example:
        Two workers in turn from x = 1. The first step is -0.25, so C = 0.25, up to 1e-8, which is also the gap of the
        second gradient, which is halved: v = 0.5 + 0.5.

        >>> import asyncsim as asim
        >>> rule = asim.rules.GapAware(0.25, momentum=0.5)
        >>> run = asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.Quadratic([1.0]))
        >>> round(float(run.central["x"][0]), 5)
        0.5

    References:
        Barkai, Hakimi and Schuster 2020, "Gap Aware Mitigation of Gradient Staleness", arXiv 1909.10802.
    """

    _: KW_ONLY
    decay: Fraction = 0.999

    publication = "barkai2020gap"
    purpose = "stale gradients with momentum"

    def start_server(self, params: Params) -> Gap:
        return Gap(params, tree_zeros_like(params), widen(tree_zeros_like(params)), jnp.zeros(()))

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        server: Gap = view.server
        weight = jnp.where(server.weight > 0, server.weight, 1)  # 0 before the first commit, where there is no gap

        def shrunk(g: jax.Array, t: jax.Array, s: jax.Array, square: jax.Array) -> jax.Array:
            usual = jnp.sqrt(square / weight.astype(square.dtype)) + jnp.abs(self.learning_rate) * SMALL_GAP
            gap = jnp.abs(t - s)
            # Where the parameter has not moved, its usual gap may be 0 as well, and 0/0 would be no number.
            return (g / (1 + jnp.where(gap > 0, gap / usual, 0))).astype(g.dtype)

        message = jax.tree.map(shrunk, gradient, server.central, view.read, server.square)
        return Sent(message, state, Info(update=descent(self.learning_rate, gradient)))

    def apply(self, central: Params, server: Gap, message: Params, view: View) -> tuple[Params, Gap]:
        _, moment = accelerate(self.learning_rate, self.momentum, server.moment, message)
        theta = jax.tree.map(jnp.add, central, moment)
        square = averaged_square(self.decay, server.square, jax.tree.map(jnp.square, widen(moment)))
        weight = (self.decay * server.weight + (1 - self.decay)).astype(server.weight.dtype)
        return theta, Gap(theta, moment, square, weight)
