"""Rules that correct a stale gradient by how far the centre has moved since it was taken."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from asyncsim import checks
from asyncsim.rules.arguments import step_size, step_size_and_momentum
from asyncsim.rules.downpour import descent
from asyncsim.rules.momentum import accelerate, at_rest
from asyncsim.rules.rule import Hyper, Info, Params, Rule, Sent, State, View
from asyncsim.trees import as_precise, widen

SMALL_ADAPTIVE = 1e-7  # added to the mean square under the root, as published
SMALL_GAP = 1e-8  # added to the mean velocity, as published


def compensated(strength: Any, gradient: Params, central: Params, read: Params) -> Params:
    """g + λ·g⊙g⊙(θ - s): λ·g⊙g stands for the curvature. λ is a scalar, or a pytree like the parameters."""
    if jax.tree.structure(strength) != jax.tree.structure(gradient):
        strength = jax.tree.map(lambda g: strength, gradient)
    return jax.tree.map(lambda k, g, t, s: g + k * g * g * (t - s), strength, gradient, central, read)


class Server(NamedTuple):
    """The central variable that gradients are compensated to, and the mean square of the gradients or ()."""

    central: Params
    square: Params


class Corrected(NamedTuple):
    """A worker's update, and the square of its gradient."""

    update: Params
    square: Params


def keep_central(hyper: Hyper, params: Params) -> Server:
    """The central variable alone."""
    del hyper  # Nothing depends on them.
    return Server(central=params, square=())


def keep_square(hyper: Hyper, params: Params) -> Server:
    """The central variable, and a mean square of zero."""
    return Server(central=params, square=widen(at_rest(hyper, params)))


def corrected_update(hyper: Hyper, strength: Any, gradient: Params, view: View) -> Params:
    """-η·(g + λ·g⊙g⊙(θ - s)), with the server's θ at this commit and this worker's own s."""
    return descent(hyper, compensated(strength, gradient, view.server.central, view.read))


def send_constant(hyper: Hyper, gradient: Params, state: State, view: View) -> Sent:
    """Send the update corrected with a constant λ."""
    message = Corrected(corrected_update(hyper, hyper["compensation"], gradient, view), ())
    return Sent(message, state, Info(update=descent(hyper, gradient)))


def averaged_square(hyper: Hyper, before: Params, square: Params) -> Params:
    """MS ← m·MS + (1 - m)·g⊙g."""
    decay = hyper["decay"]
    return jax.tree.map(lambda ms, g2: decay * ms + (1 - decay) * g2, before, square)


def send_adaptive(hyper: Hyper, gradient: Params, state: State, view: View) -> Sent:
    """Send the update corrected with λ over the root of the mean square, this gradient's included."""
    square = jax.tree.map(jnp.square, widen(gradient))
    mean = averaged_square(hyper, view.server.square, square)
    strength = jax.tree.map(lambda ms: hyper["compensation"] / jnp.sqrt(ms + SMALL_ADAPTIVE), mean)
    update = corrected_update(hyper, as_precise(strength, gradient), gradient, view)
    message = Corrected(update, square)
    return Sent(message, state, Info(update=descent(hyper, gradient)))


def keep_own_square(hyper: Hyper, params: Params) -> Params:
    """The mean square of a worker's own gradients, zero at first."""
    return widen(at_rest(hyper, params))


def send_adaptive_alone(hyper: Hyper, gradient: Params, state: Params, view: View) -> Sent:
    """As `send_adaptive`, with the mean square of this worker's own gradients."""
    sent = send_adaptive(hyper, gradient, (), view._replace(server=view.server._replace(square=state)))
    square = averaged_square(hyper, state, sent.message.square)
    return Sent(sent.message._replace(square=()), square, sent.info)


def apply_corrected(
    hyper: Hyper, central: Params, server: Server, message: Corrected, view: View
) -> tuple[Params, Server]:
    """Add the update; keep the new central variable, and the mean square if there is one."""
    del view  # The update has been corrected for its own delay.
    theta = jax.tree.map(jnp.add, central, message.update)
    square = averaged_square(hyper, server.square, message.square) if jax.tree.leaves(server.square) else ()
    return theta, Server(theta, square)


VARIANCES: dict[str, dict[str, Any]] = {
    "constant": {"send": send_constant, "start_server": keep_central},
    "adaptive": {"send": send_adaptive, "start_server": keep_square},
    "adaptive_by_worker": {"send": send_adaptive_alone, "start": keep_own_square, "start_server": keep_central},
}
STRENGTHS = {"constant": 0.04, "adaptive": 2.0, "adaptive_by_worker": 2.0}


def dc_asgd(learning_rate: Any, *, compensation: Any = None, variance: str = "constant", decay: Any = 0.95) -> Rule:
    """Delay-compensated asynchronous SGD: a stale gradient plus its first-order change since it was taken.

    θ ← θ - η·(g + λ_t·g⊙g⊙(θ - s)), with g = ∇L(s), s the value that *this* worker read, and θ the server's at the
    commit; g⊙g stands for the diagonal of the Hessian, which it equals on average for a likelihood at its optimum, up
    to the batch size.

    - constant: λ_t = λ;
    - adaptive: λ_t = λ/√(MS + 1e-7), MS ← m·MS + (1 - m)·g⊙g over all commits, this one included;
    - adaptive_by_worker: the same with an MS of each worker, over its own commits, as the authors' code has it.

    With λ = 0, and with one worker, this is asynchronous SGD. A server that averages the messages of a step averages
    the squares too.

    Args:
        learning_rate: Step size η, per commit.
        compensation: Strength λ ≥ 0; None for 0.04 with the constant and 2 with an adaptive variance.
        variance: "constant" (DC-ASGD-c), or "adaptive" or "adaptive_by_worker" (DC-ASGD-a).
        decay: Decay m in [0, 1) of the mean square, not for ``constant``; 0.95 is also what public code uses.

    The three numbers may each be a scalar, or one value per seed.

    Returns:
        A `Rule` that keeps the central variable on the server, and with ``adaptive`` MS as well, which the worker keeps
        with ``adaptive_by_worker``.

    Raises:
        ValueError: If a number is out of range or the variance is unknown.

    Example:
        Two workers in turn from x = 1. The second gradient is 1 as well, and θ - s = -0.5, so it counts 1 - 0.5·λ:

        >>> import asyncsim as asim
        >>> rule = asim.rules.dc_asgd(0.5, compensation=0.5)
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.quadratic([1.0])).central["x"].tolist()
        [0.125]

    References:
        Zheng, Meng, Wang, Chen, Yu, Ma and Liu 2017, "Asynchronous Stochastic Gradient Descent with Delay
        Compensation", arXiv 1609.08326.
    """
    checks.one_of("variance", variance, VARIANCES)
    compensation = STRENGTHS[variance] if compensation is None else compensation
    hyper = {
        **step_size(learning_rate),
        "compensation": checks.not_negative("compensation", compensation),
        "decay": checks.fraction("decay", decay),
    }
    options = (("variance", variance),)
    return Rule(
        hyper=hyper, name="dc_asgd", options=options, apply=apply_corrected, **VARIANCES[variance], elementwise=True
    ).sealed()


class Gap(NamedTuple):
    """What the server of `gap_aware` keeps.

    Attributes:
        central: θ.
        moment: -η·v.
        square: Decaying mean of the moment's square, which starts at zero.
        weight: The same mean of ones, by which `square` is divided before use.
    """

    central: Params
    moment: Params
    square: Params
    weight: jax.Array


def start_gap(hyper: Hyper, params: Params) -> Gap:
    """At rest, without any velocity so far."""
    return Gap(params, at_rest(hyper, params), widen(at_rest(hyper, params)), jnp.zeros(()))


def send_over_gap(hyper: Hyper, gradient: Params, state: State, view: View) -> Sent:
    """Send g/(1 + |θ - s|/C), elementwise."""
    server: Gap = view.server
    weight = jnp.where(server.weight > 0, server.weight, 1)  # 0 before the first commit, where there is no gap

    def shrunk(g: jax.Array, t: jax.Array, s: jax.Array, square: jax.Array) -> jax.Array:
        usual = jnp.sqrt(square / weight.astype(square.dtype)) + jnp.abs(hyper["learning_rate"]) * SMALL_GAP
        gap = jnp.abs(t - s)
        return (g / (1 + jnp.where(gap > 0, gap / usual, 0))).astype(g.dtype)

    message = jax.tree.map(shrunk, gradient, server.central, view.read, server.square)
    return Sent(message, state, Info(update=descent(hyper, gradient)))


def apply_moment(hyper: Hyper, central: Params, server: Gap, message: Params, view: View) -> tuple[Params, Gap]:
    """m ← γ·m - η·g, θ ← θ + m, and the mean square of m."""
    del view  # The gradient has been shrunk by its own gap.
    _, moment = accelerate(hyper, server.moment, message)
    theta = jax.tree.map(jnp.add, central, moment)
    square = averaged_square(hyper, server.square, jax.tree.map(jnp.square, widen(moment)))
    weight = (hyper["decay"] * server.weight + (1 - hyper["decay"])).astype(server.weight.dtype)
    return theta, Gap(theta, moment, square, weight)


def gap_aware(learning_rate: Any, *, momentum: Any = 0.9, decay: Any = 0.999) -> Rule:
    """Asynchronous momentum SGD whose gradients are divided by how far θ has moved, in units of a usual step.

    g ← g/(1 + |θ - s|/C) elementwise, v ← γ·v + g, θ ← θ - η·v, with g = ∇L(s), s the value that this worker read, and
    the server's θ and v. C = η·(√(EMA_β(v²)/(1 - β^t)) + 1e-8) is the usual length of a step, from the t steps before
    this one. A parameter that did not move is not corrected, so that one worker is momentum SGD. Where the
    mean square includes the present step and is not divided by 1 - β^t, as published formulas can also be read, C is
    much smaller in the first 1/(1 - β) steps, and gradients are divided by more.

    Args:
        learning_rate: Step size η, per commit; it is constant, so it is its own maximum.
        momentum: Momentum γ in [0, 1), shared by all workers.
        decay: Decay β in [0, 1) of the mean square of v.

    The three numbers may each be a scalar, or one value per seed.

    Returns:
        A `Rule` that keeps θ, -η·v, the mean square of -η·v and its weight on the server.

    Raises:
        ValueError: If a number is out of range.

    Example:
        Two workers in turn from x = 1. The first step is -0.25, so C = 0.25, up to 1e-8; that is also the gap of the
        second gradient, which is halved: v = 0.5 + 0.5.

        >>> import asyncsim as asim
        >>> rule = asim.rules.gap_aware(0.25, momentum=0.5)
        >>> run = asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.quadratic([1.0]))
        >>> round(float(run.central["x"][0]), 5)
        0.5

    References:
        Barkai, Hakimi and Schuster 2019, "Gap Aware Mitigation of Gradient Staleness", arXiv 1909.10802.
    """
    hyper = {**step_size_and_momentum(learning_rate, momentum), "decay": checks.fraction("decay", decay)}
    return Rule(
        hyper=hyper, name="gap_aware", send=send_over_gap, start_server=start_gap, apply=apply_moment, elementwise=True
    ).sealed()
