"""Momentum: of each worker, common to all of them at the server, or updated once in a while."""

from dataclasses import KW_ONLY, replace
from functools import partial
from typing import Annotated, Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim import _checks as checks
from asyncsim._trees import as_precise, tree_where, tree_zeros_like, widen
from asyncsim.rules._common import Elementwise, Fraction, NotNegative, refuse_if
from asyncsim.rules._rule import Info, Params, Sent, State, View, accelerate, descent


class Momentum(Elementwise, named=False):
    """Rules with a moment."""

    _: KW_ONLY
    momentum: Fraction = 0.9


class WorkerMomentum(Momentum, named=False):
    """Rules that keep a moment on the worker."""

    def start(self, params: Params) -> Params:
        return tree_zeros_like(params)

    def send(self, gradient: Params, state: Params, view: View) -> Sent:
        update, moment = accelerate(self.learning_rate, self.momentum, state, gradient)
        return Sent(message=moment, state=moment, info=Info(update=update, proxy=moment))


class MomentumSGD(WorkerMomentum):
    """Momentum SGD: the proxy whose energy GEM matches, when one worker runs it.

    m ← μ·m - η·∇L(s), θ ← θ + m, equation (14) of Hermans and Louppe 2018. The moment is the worker's own, so with one
    worker this is momentum SGD. With several, each adds its own moment to the central variable.

    The rule keeps the moment m on the worker.

    Args:
        learning_rate: Step size η, per commit.
        momentum: Friction parameter μ in [0, 1).

    Example:
        x: 1, then m = -0.5 and x = 0.5, then m = 0.5·(-0.5) - 0.25 and x = 0:

        >>> import asyncsim as asim
        >>> rule = asim.rules.MomentumSGD(learning_rate=0.5, momentum=0.5)
        >>> asim.replay(asim.Trace.from_commits([0, 0]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.0]

    References:
        Polyak 1964, "Some methods of speeding up the convergence of iteration methods".
    """

    publication = "polyak1964methods"
    purpose = "a baseline: momentum of each worker"


class MultiASGD(WorkerMomentum):
    """Asynchronous SGD with a momentum vector for each worker.

    v_i ← γ·v_i + g, θ ← θ - η·v_i. With a constant step size it is `MomentumSGD` under the name that the literature on
    momentum under asynchrony gives it (re-derived), except that the worker keeps v_i here and loses it with its state.

    The rule keeps -η·v_i on the worker.

    Args:
        learning_rate: Step size η, per commit.
        momentum: Momentum γ in [0, 1).

    Example:
        Two workers, each with a gradient of 1 and a momentum of its own: 1 - 0.25 - 0.25.

        >>> import asyncsim as asim
        >>> rule = asim.rules.MultiASGD(0.25, momentum=0.5)
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.5]

    References:
        The baseline Multi-ASGD of Hakimi, Barkai, Gabel and Schuster 2019, "Taming Momentum in a Distributed
        Asynchronous Environment", arXiv 1907.11612.
    """

    publication = "hakimi2019dana"
    purpose = "a baseline: one server moment per worker"


class ServerMomentum(Momentum, named=False):
    """Rules that keep a moment on the server, to which workers send their gradients."""

    def start_server(self, params: Params) -> State:
        return tree_zeros_like(params)

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        return Sent(message=gradient, state=state, info=Info(update=descent(self.learning_rate, gradient)))

    def apply(self, central: Params, server: Any, message: Params, view: View) -> tuple[Params, Any]:
        _, moment = accelerate(self.learning_rate, self.momentum, server, message)
        return jax.tree.map(jnp.add, central, moment), moment


class HeavyBall(ServerMomentum):
    """Explicit momentum at the server, common to all workers' gradients and possibly negative.

    m ← μ·m - η·∇L(θ_{t-τ}), θ ← θ + m. The server keeps the moment, so one worker's gradient goes on moving θ while the
    others commit. `MomentumSGD` is the same formula with a moment of each worker's own. With one worker they are the
    same rule, and with μ = 0 this is `Downpour`.

    Asynchrony acts like a momentum of its own: n workers with exponential compute times make E θ move as if with a
    momentum of 1 - 1/n, so the best explicit momentum falls with n, and below zero.

    The rule keeps m on the server.

    Args:
        learning_rate: Step size η, per commit.
        momentum: Momentum μ in (-1, 1).

    Example:
        Two workers read x = 1: m = -0.25, then m = -0.5·(-0.25) - 0.25 takes back half of the first step.

        >>> import asyncsim as asim
        >>> rule = asim.rules.HeavyBall(0.25, momentum=-0.5)
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.625]

    References:
        Mitliagkas, Zhang, Hadjis and Ré 2016, "Asynchrony begets momentum, with an application to deep learning"
        (negative momentum). Polyak 1964 (the heavy ball).
    """

    _: KW_ONLY
    momentum: Annotated[Any, checks.require_all_signed_fractions] = 0.9

    publication = "mitliagkas2016asynchrony"
    purpose = "a baseline: momentum of the server"


class SharedNesterov(ServerMomentum):
    """Nesterov momentum at the server, common to all workers' gradients: NAG-ASGD.

    v ← γ·v + g, θ ← θ - η·(γ·v + g), with g = ∇L(θ_{t-τ}) of whichever worker commits. The formula is Nesterov's in
    terms of the look-ahead variable: re-derived, and checked against one worker, which is Nesterov's accelerated
    gradient as optimisers implement it.

    The rule keeps v on the server.

    Args:
        learning_rate: Step size η, per commit.
        momentum: Momentum γ in [0, 1), common to all workers.

    Example:
        g = 1, v = 1, a step of 0.5·(0.5 + 1). Then g = 0.25, v = 0.75, a step of 0.5·(0.375 + 0.25):

        >>> import asyncsim as asim
        >>> rule = asim.rules.SharedNesterov(0.5, momentum=0.5)
        >>> asim.replay(asim.Trace.from_commits([0, 0]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [-0.0625]

    References:
        Nesterov 1983, "A method for solving the convex programming problem with convergence rate O(1/k²)". The
        baseline NAG-ASGD of Hakimi, Barkai, Gabel and Schuster 2019, arXiv 1907.11612.
    """

    publication = "hakimi2019dana"
    purpose = "a baseline: Nesterov momentum of the server"

    def apply(self, central: Params, server: Params, message: Params, view: View) -> tuple[Params, Params]:
        update, moment = accelerate(self.learning_rate, self.momentum, server, message)
        theta = jax.tree.map(lambda t, m, d: t + (self.momentum * m + d), central, moment, update)
        return theta, moment


class DampedNesterov(ServerMomentum):
    """Nesterov momentum at the server whose moment is a mean of gradients: the outer step of momentum look-ahead.

    v ← μ·v + (1 - μ)·g, θ ← θ - η·(g + μ·v), with g = ∇L(θ_{t-τ}) of whichever worker commits, or around local steps
    (`local`) the displacement that stands for it. v is a moving average of gradients here and a sum of them in
    `SharedNesterov`, so a gradient moves θ by η·(1 + μ) of itself in the long run and by η/(1 - μ) there: with μ = 0.9
    by 1.9·η against 10·η. Compare the two at equal gain. `theory.outer_limit` gives the largest stable step of both for
    a delay. The formula is from a description of the authors' published code.

    The rule keeps v on the server.

    Args:
        learning_rate: Step size η, per commit.
        momentum: Momentum μ in [0, 1), common to all workers.

    Example:
        g = 1, v = 0.5, a step of 0.5·(1 + 0.25). Then g = 0.375, v = 0.4375, a step of 0.5·(0.375 + 0.21875):

        >>> import asyncsim as asim
        >>> rule = asim.rules.DampedNesterov(0.5, momentum=0.5)
        >>> asim.replay(asim.Trace.from_commits([0, 0]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.078125]

    References:
        Ajanthan, Ramasinghe, Avraham, Zuo and Long 2025, "Momentum look-ahead for asynchronous distributed
        low-communication training", workshop MCDC at ICLR. The same outer step is that of HeLoCo, Al Asif et al. 2026,
        arXiv 2606.00271.
    """

    publication = "ajanthan2025lookahead"
    purpose = "late displacements of local steps, with momentum"

    def apply(self, central: Params, server: Params, message: Params, view: View) -> tuple[Params, Params]:
        update = descent(self.learning_rate, message)
        moment = jax.tree.map(lambda m, d: self.momentum * m + (1 - self.momentum) * d, server, update)
        theta = jax.tree.map(lambda t, m, d: t + (self.momentum * m + d), central, moment, update)
        return theta, moment


class Delayed(NamedTuple):
    """The server's state of `DelayedNesterov`: the momentum, the gradients since its last update, the steps."""

    moment: Params
    gathered: Params
    steps: jax.Array


_interval = partial(
    refuse_if,
    wrong=lambda steps: (steps < 1) | (steps % 1 != 0),
    requirement="a whole number of at least 1",
    remedy="Leave it out for the number of workers.",
)


class DelayedNesterov(ServerMomentum):
    """Nesterov momentum that is updated once in a while, and plain gradient steps in between.

    Δ ← Δ + g. Every N-th step of the server is m ← β·m + Δ/N, θ ← θ - η·((1 - c·N + c)·β·m + g/N), Δ ← 0, and all
    others are θ ← θ - η·(c·β·m + g/N). Over N steps the momentum term counts N - 1 times c and once 1 - (N - 1)·c,
    which is once altogether. With N = 1 it is `SharedNesterov`. The published method sends displacements of several
    local steps: that is `local(DelayedNesterov(0.7, momentum=0.9), window=…, learning_rate=…)`. Without `local` a
    commit is one gradient.

    The rule keeps m, Δ and the number of its steps on the server.

    Args:
        learning_rate: Step size η, per N commits: a gradient counts η/N.
        momentum: Momentum β in [0, 1).
        interval: Steps N of the server from one momentum update to the next, a whole number of at least 1. None for the
            trace's number of workers, which is usual.
        activation: Share c in [0, 1/N] of the momentum that the steps in between apply.

    Example:
        N = 2: a step of 0.5·1/2, then g = 0.75, m = (1 + 0.75)/2 and a step of 0.5·(0.5·m + 0.75/2):

        >>> import asyncsim as asim
        >>> rule = asim.rules.DelayedNesterov(0.5, momentum=0.5, interval=2)
        >>> asim.replay(asim.Trace.from_commits([0, 0]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.34375]

    References:
        Liu, Chhaparia, Douillard, Kale, Rusu, Shen, Szlam and Ranzato 2024, "Asynchronous Local-SGD Training for
        Language Modeling", arXiv 2401.09135, algorithm 3.
    """

    _: KW_ONLY
    interval: Annotated[Any, _interval] | None = None
    activation: NotNegative = 0.0

    publication = "liu2024async"
    purpose = "local steps on unequal machines, with momentum"

    def check(self) -> None:
        """Refuse a share of the momentum that adds up to more than all of it."""
        if self.interval is not None and np.any(np.multiply(self.activation, self.interval) > 1):
            raise ValueError(
                f"`activation` must be at most 1/interval; got {checks.brief(self.activation)}. 0 is usual."
            )

    def for_workers(self, workers: int) -> Self:
        """Return the rule whose momentum moves once per as many steps as there are workers, unless one was given."""
        return replace(self, interval=float(workers) if self.interval is None else self.interval)

    def start_server(self, params: Params) -> Delayed:
        return Delayed(tree_zeros_like(params), widen(tree_zeros_like(params)), jnp.zeros((), jnp.int32))

    def apply(self, central: Params, server: Delayed, message: Params, view: View) -> tuple[Params, Delayed]:
        """Move the momentum with the N-th gradient, and θ by the rest of it. The others move θ by a share c of it."""
        interval: Any = self.interval
        share: Any = self.activation
        steps = server.steps + 1
        moves = steps % interval == 0
        gathered = jax.tree.map(jnp.add, server.gathered, message)
        updated = jax.tree.map(lambda m, d: self.momentum * m + d / interval, server.moment, gathered)
        moment = tree_where(moves, as_precise(updated, server.moment), server.moment)
        # N - 1 steps in a row move θ by the share c of the momentum's step, and the N-th by the rest, 1 - c·(N - 1).
        part = jnp.where(moves, 1 - share * interval + share, share)

        def move(theta: jax.Array, m: jax.Array, g: jax.Array) -> jax.Array:
            return theta - self.learning_rate * (part.astype(m.dtype) * self.momentum * m + g / interval)

        return jax.tree.map(move, central, moment, message), Delayed(moment, tree_where(~moves, gathered), steps)
