"""Elastic averaging: workers continue from their own parameters, tied to the central variable by a spring."""

from dataclasses import KW_ONLY
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from asyncsim._trees import tree_zeros_like
from asyncsim.components._component import static
from asyncsim.rules._common import Fraction, NotNegative, StepSize, Window, Workers, add
from asyncsim.rules._optimisers import LocalState, LocalSteps
from asyncsim.rules._rule import Info, Params, Rule, Sent, State, View

SPRING = "moves worker and server by the same amount, of which only the server's part would be compressed"


class Spring(NamedTuple):
    """The state of an elastic worker."""

    params: Params  # x, its own parameters
    exchange: Params = ()  # the pull that the spring has yet to take from x, or () if it took it at once
    velocity: Params = ()  # v, or () without momentum


def subtract(a: Params, b: Params) -> Params:
    return jax.tree.map(jnp.subtract, a, b)


def times(factor: Any, a: Params) -> Params:
    return jax.tree.map(lambda x: factor * x, a)


class Exchanging(Rule, named=False):
    """Rules whose exchange sees the central variable of the moment of the commit, or the one pulled before."""

    atomic = False  # a field of the subclass, True for the former: its server then keeps a copy of it

    def start_server(self, params: Params) -> State:
        return params if self.atomic else ()

    def apply(self, central: Params, server: State, message: Params, view: View) -> tuple[Params, State]:
        if not self.atomic:
            return super().apply(central, server, message, view)
        central = add(central, message)
        return central, central

    def exchanged_with(self, view: View) -> Params:
        """Return the θ of an exchange."""
        return view.server if self.atomic else view.pulled


class EASGD(LocalSteps):
    """Synchronous elastic averaging SGD: in every round the springs of all workers pull the central variable.

    x_i ← x_i + η·T(∇L(x_i)) - α(x_i - θ) and θ ← θ + αΣ(x_i - θ), both from the same x_i and θ, with α = β/n. With a
    window H > 1 the springs pull only at every H-th step. The server averages n commits in a step, so simulate with
    `protocols.Synchronous()` (an asynchronous trace is cut into steps of n commits, with a warning). With β = 0 the
    workers are independent and θ stays where it is. Step and exchange start from the same x_i also in the first
    author's code of the asynchronous form (sixin-zh/mpiT, ``optim-eamsgd.lua``).

    The rule keeps x_i, the pull to come and the optimiser's state on the worker.

    Args:
        learning_rate, optimiser, elementwise: As in `WorkerOptimiser`.
        workers: Number of workers n. None takes it from the trace, and another number than the trace's is refused.
        window: Local steps between two exchanges, H (10 in the paper): one number, or one per worker.
        beta: β = n·α, at least 0 (0.9 in the paper).

    Example:
        Two workers step from 1 to 0.5, and the centre follows by β·(0.5 - 1):

        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(2, asim.delays.Constant(1.0), protocol=asim.protocols.Synchronous())
        >>> rule = asim.rules.EASGD(0.5, window=1, beta=0.5)
        >>> asim.replay(asim.simulate(cluster, commits=2), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.75]

    References:
        Zhang, Choromanska and LeCun 2015, "Deep learning with elastic averaging SGD", NeurIPS.
    """

    _: KW_ONLY
    workers: Workers | None = static(default=None)
    window: Window = static(default=10)
    beta: NotNegative = 0.9

    publication = "zhang2015easgd"
    purpose = "few messages, in rounds; workers that explore"
    incompressible = SPRING
    rounds = True

    @property
    def collect(self) -> int | None:
        return self.workers

    def start(self, params: Params) -> LocalState:
        return super().start(params)._replace(own=Spring(params, tree_zeros_like(params)))

    def local_step(self, params: Params, gradient: Params, state: LocalState) -> tuple[Params, LocalState]:
        """x ← x + η·T(g) - E, and E ← 0: the first step includes the spring's pull, from the same x."""
        params, after = super().local_step(params, gradient, state)
        spring = Spring(state.own.params, tree_zeros_like(state.own.exchange))
        return subtract(params, state.own.exchange), LocalState(after.optimiser, spring)

    def send(self, gradient: Params, state: LocalState, view: View) -> Sent:
        """Send β(x - θ), whose mean over n workers is αΣ(x - θ), and keep α(x - θ) for the worker's next step."""
        assert self.workers is not None, "The rule has to be bound to a trace first."
        params = add(view.read, gradient)
        message = times(self.beta, subtract(params, view.pulled))
        local = LocalState(state.optimiser, Spring(params, times(1 / self.workers, message)))
        return Sent(message=message, state=local, info=Info(update=gradient))

    def resume(self, central: Params, server: State, state: LocalState, view: View) -> Params:
        return state.own.params


class AEASGD(Exchanging, LocalSteps):
    """Asynchronous elastic averaging SGD, as Distributed Keras has it: a spring pulls worker and server together.

    H times x ← x + η·T(∇L(x)), then E = α(x - θ̃), x ← x - E and θ ← θ + E, with α = η·ρ. A worker continues from its
    own x, never from θ. The choice of θ̃ makes two different rules:

    - `atomic=True`: the central variable at the moment of the commit, for any pulls of the trace. Server and worker
      exchange E in one locked operation.
    - `atomic=False`: the value that the worker had pulled, `pull_version` of the trace. If others commit between a
      worker's pull and its commit, E is computed from an old θ̃. Simulate with `Server(atomic=False)`. On a trace whose
      pulls are atomic both are the same.

    With τ' commits between pull and commit and workers that come to rest in every window, θ_{t+1} = θ_t - α(θ_{t-τ'} -
    x) runs away once α > 2·sin(π/(2(2τ' + 1))): for α = 0.5, from τ' = 3 on. Workers that hardly move but for the
    spring tolerate less, because both ends of it overshoot: α < 1 at τ' = 0, about 0.43 at τ' = 2. The paper takes the
    first gradient after an exchange where the worker was before it (as `EASGD` does here), Distributed Keras after it.

    The rule keeps x and the optimiser's state on the worker, and with `atomic` a copy of θ on the server.

    Args:
        learning_rate, optimiser, elementwise: As in `WorkerOptimiser`. The step size η is also a factor of α: with an
            optimiser that has a step size of its own, give 1 and the α you want as `rho`.
        window: Local steps between two exchanges, H: one number, or one per worker.
        rho: ρ, the spring's strength over the step size.
        atomic: Whether an exchange sees the central variable of its moment, or the one that was pulled before.

    Example:
        Two workers step from 1 to 0.5. The first exchanges E = 0.5·(0.5 - 1), so that θ = 0.75 when the second does:
        E = 0.5·(0.5 - 0.75).

        >>> import asyncsim as asim
        >>> rule = asim.rules.AEASGD(0.5, window=1, rho=1.0)
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.625]

    References:
        Zhang, Choromanska and LeCun 2015, "Deep learning with elastic averaging SGD", NeurIPS. Distributed Keras.
    """

    learning_rate: StepSize = 0.1
    _: KW_ONLY
    window: Window = static(default=32)
    rho: NotNegative = 5.0
    atomic: bool = static(default=True)

    publication = "zhang2015easgd"
    purpose = "few messages; workers that explore on their own"
    incompressible = SPRING

    def start(self, params: Params) -> LocalState:
        return super().start(params)._replace(own=Spring(params))

    def send(self, gradient: Params, state: LocalState, view: View) -> Sent:
        """Send E = α(x - θ), which leaves the worker as it is sent: it continues from x - E."""
        params = add(view.read, gradient)
        exchange = times(self.learning_rate * self.rho, subtract(params, self.exchanged_with(view)))
        local = LocalState(state.optimiser, Spring(subtract(params, exchange)))
        return Sent(message=exchange, state=local, info=Info(update=gradient))

    def resume(self, central: Params, server: State, state: LocalState, view: View) -> Params:
        return state.own.params


class EAMSGD(Exchanging):
    """Asynchronous elastic averaging with Nesterov's momentum on every worker.

    v ← δ·v - η·∇L(x + δ·v) and x ← x + v at every step. After H of them E = α(x - θ̃), θ ← θ + E, and the worker takes
    x ← x - E together with its next step, whose gradient is that of the x before: x ← x + v - α(x - θ̃), with α = η·ρ.
    θ̃ depends on `atomic` as in `AEASGD`. The formula agrees with the first author's code (sixin-zh/mpiT,
    ``optim-eamsgd.lua``). It is tested against the formula written out, against Nesterov's momentum in optax (ρ = 0)
    and against `EASGD` (δ = 0, one worker). Distributed Keras looks behind instead, at x - δ·v, and multiplies by two
    step sizes.

    The rule keeps x, v and the pull to come on the worker, and with `atomic` a copy of θ on the server.

    Args:
        learning_rate: Step size η.
        window: Local steps between two exchanges, H (32 in Distributed Keras, 10 in the paper): one number, or one per
            worker.
        rho: ρ, the spring's strength over the step size (5 in Distributed Keras).
        momentum: δ in [0, 1) (0.9 in Distributed Keras, 0.99 in the paper).
        atomic: Whether an exchange sees the central variable of its moment, or the one that was pulled before.

    Example:
        One worker on L = x²/2 from 1: v = -0.5 and x = 0.5, so that E = 0.5·(0.5 - 1). Then the gradient at
        x + δ·v = 0.25 makes v = 0.5·(-0.5) - 0.125 = -0.375 and x = 0.5 - 0.375 + 0.25, and E = 0.5·(0.375 - 0.75):

        >>> import asyncsim as asim
        >>> rule = asim.rules.EAMSGD(0.5, window=1, rho=1.0, momentum=0.5)
        >>> asim.replay(asim.Trace.from_commits([0, 0]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.5625]

    References:
        Zhang, Choromanska and LeCun 2015, "Deep learning with elastic averaging SGD", NeurIPS.
    """

    learning_rate: StepSize = 0.1
    _: KW_ONLY
    window: Window = static(default=32)
    rho: NotNegative = 5.0
    momentum: Fraction = 0.9
    atomic: bool = static(default=True)

    publication = "zhang2015easgd"
    purpose = "few messages, with momentum on the workers"
    incompressible = SPRING
    elementwise = True

    def start(self, params: Params) -> Spring:
        zeros = tree_zeros_like(params)
        return Spring(params, zeros, zeros)

    def local_step(self, params: Params, gradient: Params, state: Spring) -> tuple[Params, Spring]:
        """v ← δv - η·g, x ← x + v - E, in terms of where gradients are taken, y = x + δv, and E ← 0."""
        delta, before = self.momentum, state.velocity
        velocity = jax.tree.map(lambda v, g: delta * v - self.learning_rate * g, before, gradient)
        ahead = jax.tree.map(
            lambda y, b, v, e: y - delta * b + v + delta * v - e, params, before, velocity, state.exchange
        )
        return ahead, Spring(state.params, tree_zeros_like(state.exchange), velocity)

    def send(self, gradient: Params, state: Spring, view: View) -> Sent:
        ahead = add(view.read, gradient)
        params = subtract(ahead, times(self.momentum, state.velocity))
        exchange = times(self.learning_rate * self.rho, subtract(params, self.exchanged_with(view)))
        return Sent(message=exchange, state=Spring(params, exchange, state.velocity), info=Info(update=gradient))

    def resume(self, central: Params, server: State, state: Spring, view: View) -> Params:
        return add(state.params, times(self.momentum, state.velocity))
