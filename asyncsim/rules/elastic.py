"""Elastic averaging: workers continue from their own parameters, tied to the central variable by a spring."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from asyncsim import checks
from asyncsim.rules.arguments import number_of_workers, require_same_workers, step_size, whole_window
from asyncsim.rules.momentum import at_rest
from asyncsim.rules.optimisers import Local, Optimiser, StepLocal, Transformation, local_steps, transformation
from asyncsim.rules.rule import Hyper, Info, Params, Rule, Sent, State, View
from asyncsim.trees import widen


class Spring(NamedTuple):
    """What an elastic worker keeps.

    Attributes:
        params: x, its own parameters.
        exchange: What the spring has yet to take from x; () if it took it at once.
        velocity: v; () without momentum.
    """

    params: Params
    exchange: Params = ()
    velocity: Params = ()


def add(a: Params, b: Params) -> Params:
    """a + b."""
    return jax.tree.map(jnp.add, a, b)


def subtract(a: Params, b: Params) -> Params:
    """a - b."""
    return jax.tree.map(jnp.subtract, a, b)


def times(factor: Any, a: Params) -> Params:
    """factor·a."""
    return jax.tree.map(lambda x: factor * x, a)


def keep_central(hyper: Hyper, params: Params) -> Params:
    """The state of a server that shows its central variable to every worker that commits."""
    del hyper  # The central variable is all.
    return params


def add_and_keep(hyper: Hyper, central: Params, server: Params, message: Params, view: View) -> tuple[Params, Params]:
    """θ ← θ + message, and keep it."""
    del hyper, server, view  # The sum needs none of them.
    central = add(central, message)
    return central, central


def exchange_fields(atomic: bool) -> dict[str, Any]:
    """The fields of a `Rule` that let `exchanged_with` look at the server's central variable of the moment."""
    return {"start_server": keep_central, "apply": add_and_keep} if atomic else {}


def exchanged_with(view: View, atomic: bool) -> Params:
    """The θ of an exchange: that of the moment of the commit, or the one that the worker had pulled."""
    return view.server if atomic else view.pulled


def alpha(hyper: Hyper) -> Any:
    """α = η·ρ."""
    return hyper["learning_rate"] * hyper["rho"]


def require_switch(atomic: object) -> bool:
    """The value itself if it is True or False.

    Raises:
        ValueError: If it is anything else.
    """
    if not isinstance(atomic, bool):
        raise ValueError(f"`atomic` must be True or False; got {atomic!r}. Only False uses what the worker had pulled.")
    return atomic


def from_own(hyper: Hyper, central: Params, server: State, state: Local, view: View) -> Params:
    """Continue from the worker's own parameters."""
    del hyper, central, server, view  # The spring has already acted.
    return state.own.params


@dataclass(frozen=True)
class StartSpring:
    """The initial state of a worker that begins at the central variable."""

    optimiser: Transformation
    pending: bool = False

    def __call__(self, hyper: Hyper, params: Params) -> Local:
        """The optimiser's state and the spring at rest."""
        exchange = at_rest(hyper, params) if self.pending else ()
        return Local(self.optimiser.init(widen(params)), Spring(params, exchange))


@dataclass(frozen=True)
class StepPulled:
    """A local step, the first of which also takes what the spring has yet to take: both start from the same x."""

    optimiser: Transformation

    def __call__(self, hyper: Hyper, params: Params, gradient: Params, state: Local) -> tuple[Params, Local]:
        """x ← x + η·T(g) - E, and E ← 0."""
        params, after = StepLocal(self.optimiser)(hyper, params, gradient, state)
        spring = Spring(state.own.params, jax.tree.map(jnp.zeros_like, state.own.exchange))
        return subtract(params, state.own.exchange), Local(after.optimiser, spring)


@dataclass(frozen=True)
class ExchangeInRound:
    """β(x - θ) for the server, whose mean over n workers is αΣ(x - θ); α(x - θ) for the worker's next step."""

    workers: int | None

    def __call__(self, hyper: Hyper, displacement: Params, state: Local, view: View) -> Sent:
        """Send the server's part and keep the worker's."""
        assert self.workers is not None, "The rule has to be bound to a trace first."
        params = add(view.read, displacement)
        message = times(hyper["beta"], subtract(params, view.pulled))
        kept = Local(state.optimiser, Spring(params, times(1 / self.workers, message)))
        return Sent(message=message, state=kept, info=Info(update=displacement))


def bind_rounds(rule: Rule, workers: int) -> Rule:
    """The rule whose rounds are of so many commits."""
    options = dict(rule.options)
    require_same_workers(rule, options.setdefault("workers", workers), workers)
    known = {"workers": workers} | options
    ordered = (("workers", known.pop("workers")), *known.items())
    send = ExchangeInRound(workers) if rule.send == ExchangeInRound(None) else rule.send
    return replace(rule, options=ordered, send=send, collect=workers)


def easgd(
    learning_rate: Any = 1.0,
    *,
    workers: int | None = None,
    window: int = 10,
    beta: Any = 0.9,
    optimiser: Optimiser = "sgd",
    elementwise: bool = False,
) -> Rule:
    """Synchronous elastic averaging SGD: in every round the springs of all workers pull the centre.

    x_i ← x_i + η·T(∇L(x_i)) - α(x_i - θ) and θ ← θ + αΣ(x_i - θ), both from the same x_i and θ, with α = β/n; with a
    window λ > 1 the springs pull only at every λ-th step. The server averages n commits in a step: simulate with
    `protocols.Synchronous()` (an asynchronous trace is cut into steps of n commits, with a warning). With β = 0 the
    workers are independent and the centre stays where it is. That step and exchange start from the same x_i agrees with
    the first author's code of the asynchronous form (sixin-zh/mpiT, ``optim-eamsgd.lua``).

    Args:
        learning_rate: Step size η, by which the optimiser's updates are multiplied; a scalar, or one value per seed.
            1 leaves an optimiser that has a step size of its own as it is.
        workers: Number of workers n; None takes it from the trace, and another number than the trace's is refused.
        window: Local steps between two exchanges, λ; 10 in the paper.
        beta: β = n·α, at least 0; 0.9 in the paper.
        optimiser: The worker's: an optax.GradientTransformation, or a name as in `worker`.
        elementwise: Whether the optimiser treats every parameter independently, which is faster; those with a name do.

    Returns:
        A `Rule` that keeps x_i, the pull to come and the optimiser's state on the worker.

    Raises:
        ValueError: If n is not a whole number of at least 1, β is negative, or another argument is refused as by
            `agn`.

    Example:
        Two workers step from 1 to 0.5; the centre follows by β·(0.5 - 1):

        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(2, asim.delays.Constant(1.0), protocol=asim.protocols.Synchronous())
        >>> rule = asim.rules.easgd(0.5, window=1, beta=0.5)
        >>> asim.replay(asim.simulate(cluster, commits=2), rule, asim.workloads.quadratic([1.0])).central["x"].tolist()
        [0.75]

    References:
        Zhang, Choromanska and LeCun 2015, "Deep learning with elastic averaging SGD", NeurIPS.
    """
    steps = local_steps(learning_rate, window, optimiser, elementwise)
    steps["hyper"]["beta"] = checks.not_negative("beta", beta)
    chosen = transformation(optimiser)
    steps |= {"start": StartSpring(chosen, pending=True), "local_step": StepPulled(chosen)}
    rule = Rule(name="easgd", send=ExchangeInRound(None), resume=from_own, bind=bind_rounds, rounds=True, **steps)
    return rule.sealed() if workers is None else bind_rounds(rule, number_of_workers(workers)).sealed()


@dataclass(frozen=True)
class ExchangeAtOnce:
    """E = α(x - θ) leaves the worker as it is sent."""

    atomic: bool

    def __call__(self, hyper: Hyper, displacement: Params, state: Local, view: View) -> Sent:
        """Send E and continue from x - E."""
        params = add(view.read, displacement)
        exchange = times(alpha(hyper), subtract(params, exchanged_with(view, self.atomic)))
        kept = Local(state.optimiser, Spring(subtract(params, exchange)))
        return Sent(message=exchange, state=kept, info=Info(update=displacement))


def aeasgd(
    learning_rate: Any = 0.1,
    *,
    window: int = 32,
    rho: Any = 5.0,
    atomic: bool = True,
    optimiser: Optimiser = "sgd",
    elementwise: bool = False,
) -> Rule:
    """Asynchronous elastic averaging SGD, as Distributed Keras has it: a spring pulls worker and centre together.

    λ times x ← x + η·T(∇L(x)), then E = α(x - θ̃), x ← x - E and θ ← θ + E, with α = η·ρ. A worker continues from its
    own x, never from θ. What θ̃ is makes two different rules:

    - `atomic=True`: the central variable at the moment of the commit, whatever the trace says of pulls. Server and
      worker exchange E in one locked operation.
    - `atomic=False`: what the worker had pulled, `pull_version` of the trace. If others commit between a worker's pull
      and its commit, E is computed from an old θ̃. Simulate with `Server(atomic=False)`. On a trace whose pulls are
      atomic both are the same.

    With τ' commits between pull and commit and workers that come to rest in every window, the centre obeys
    θ_{t+1} = θ_t - α(θ_{t-τ'} - x) and runs away once α > 2·sin(π/(2(2τ' + 1))): for α = 0.5, from τ' = 3 on. Workers
    that hardly move but for the spring tolerate less, as both ends of it overshoot: α < 1 at τ' = 0, about 0.43 at
    τ' = 2.

    The paper takes the first gradient after an exchange where the worker was before it (as `easgd` does here),
    Distributed Keras after it.

    Args:
        learning_rate: Step size η, by which the optimiser's updates are multiplied; a scalar, or one value per seed.
            It is also a factor of α: with an optimiser that has a step size of its own, give 1 and the α you want as
            `rho`.
        window: Local steps between two exchanges, λ.
        rho: ρ, the spring's strength over the step size.
        atomic: Whether an exchange sees the central variable of its moment, or the one that was pulled before.
        optimiser: The worker's: an optax.GradientTransformation, or a name as in `worker`.
        elementwise: Whether the optimiser treats every parameter independently, which is faster; those with a name do.

    Returns:
        A `Rule` that keeps x and the optimiser's state on the worker; with `atomic`, a copy of θ on the server.

    Raises:
        ValueError: If ρ is negative, `atomic` is neither True nor False, or another argument is refused as by `agn`.

    Example:
        Two workers step from 1 to 0.5. The first exchanges E = 0.5·(0.5 - 1), so that θ = 0.75 when the second does:
        E = 0.5·(0.5 - 0.75).

        >>> import asyncsim as asim
        >>> rule = asim.rules.aeasgd(0.5, window=1, rho=1.0)
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.quadratic([1.0])).central["x"].tolist()
        [0.625]

    References:
        Zhang, Choromanska and LeCun 2015, "Deep learning with elastic averaging SGD", NeurIPS; Distributed Keras.
    """
    steps = local_steps(learning_rate, window, optimiser, elementwise)
    steps["hyper"]["rho"] = checks.not_negative("rho", rho)
    steps["options"] = (*steps["options"], ("atomic", atomic))
    steps["start"] = StartSpring(transformation(optimiser))
    send = ExchangeAtOnce(require_switch(atomic))
    return Rule(name="aeasgd", send=send, resume=from_own, **steps, **exchange_fields(atomic)).sealed()


def start_with_velocity(hyper: Hyper, params: Params) -> Spring:
    """The initial state of a worker with momentum that begins at the central variable, at rest."""
    rest = at_rest(hyper, params)
    return Spring(params, rest, rest)


def step_with_velocity(hyper: Hyper, ahead: Params, gradient: Params, state: Spring) -> tuple[Params, Spring]:
    """v ← δv - η·g, x ← x + v - E, in terms of where gradients are taken, y = x + δv; and E ← 0."""
    delta, before = hyper["momentum"], state.velocity
    velocity = jax.tree.map(lambda v, g: delta * v - hyper["learning_rate"] * g, before, gradient)
    ahead = jax.tree.map(lambda y, b, v, e: y - delta * b + v + delta * v - e, ahead, before, velocity, state.exchange)
    return ahead, Spring(state.params, jax.tree.map(jnp.zeros_like, state.exchange), velocity)


@dataclass(frozen=True)
class ExchangeLater:
    """E = α(x - θ), which the worker takes with its next step."""

    atomic: bool

    def __call__(self, hyper: Hyper, displacement: Params, state: Spring, view: View) -> Sent:
        """Send E and keep it."""
        ahead = add(view.read, displacement)
        params = subtract(ahead, times(hyper["momentum"], state.velocity))
        exchange = times(alpha(hyper), subtract(params, exchanged_with(view, self.atomic)))
        return Sent(message=exchange, state=Spring(params, exchange, state.velocity), info=Info(update=displacement))


def from_ahead(hyper: Hyper, central: Params, server: State, state: Spring, view: View) -> Params:
    """Take the next gradient at x + δv."""
    del central, server, view  # The worker continues on its own.
    return add(state.params, times(hyper["momentum"], state.velocity))


def eamsgd(
    learning_rate: Any = 0.1, *, window: int = 32, rho: Any = 5.0, momentum: Any = 0.9, atomic: bool = True
) -> Rule:
    """Asynchronous elastic averaging with Nesterov's momentum on every worker.

    v ← δ·v - η·∇L(x + δ·v) and x ← x + v at every step; after λ of them E = α(x - θ̃), θ ← θ + E, and the worker takes
    x ← x - E together with its next step, whose gradient is that of the x before: x ← x + v - α(x - θ̃), with α = η·ρ.
    What θ̃ is depends on `atomic` as in `aeasgd`. The formula agrees with the first author's code (sixin-zh/mpiT,
    ``optim-eamsgd.lua``); it is tested against the formula written out, against Nesterov's momentum in optax (ρ = 0)
    and against `easgd` (δ = 0, one worker).

    Distributed Keras looks behind, at x - δ·v, and multiplies by two step sizes; that is not followed here.

    Args:
        learning_rate: Step size η; a scalar, or one value per seed.
        window: Local steps between two exchanges, λ; 32 in Distributed Keras, 10 in the paper.
        rho: ρ, the spring's strength over the step size; 5 in Distributed Keras.
        momentum: δ in [0, 1); 0.9 in Distributed Keras, 0.99 in the paper.
        atomic: Whether an exchange sees the central variable of its moment, or the one that was pulled before.

    Returns:
        A `Rule` that keeps x, v and the pull to come on the worker; with `atomic`, a copy of θ on the server.

    Raises:
        ValueError: If a number is out of range or `atomic` is neither True nor False.

    Example:
        One worker on L = x²/2 from 1: v = -0.5 and x = 0.5, so that E = 0.5·(0.5 - 1). Then the gradient at
        x + δ·v = 0.25 makes v = 0.5·(-0.5) - 0.125 = -0.375 and x = 0.5 - 0.375 + 0.25, and E = 0.5·(0.375 - 0.75):

        >>> import asyncsim as asim
        >>> rule = asim.rules.eamsgd(0.5, window=1, rho=1.0, momentum=0.5)
        >>> asim.replay(asim.Trace.from_commits([0, 0]), rule, asim.workloads.quadratic([1.0])).central["x"].tolist()
        [0.5625]

    References:
        Zhang, Choromanska and LeCun 2015, "Deep learning with elastic averaging SGD", NeurIPS.
    """
    hyper = {
        **step_size(learning_rate),
        "rho": checks.not_negative("rho", rho),
        "momentum": checks.fraction("momentum", momentum),
    }
    window = whole_window(window)
    return Rule(
        hyper=hyper,
        name="eamsgd",
        send=ExchangeLater(require_switch(atomic)),
        options=(("window", window), ("atomic", atomic)),
        start=start_with_velocity,
        resume=from_ahead,
        local_step=step_with_velocity,
        window=window,
        **exchange_fields(atomic),
        elementwise=True,
    ).sealed()
