"""DANA: every worker takes its gradient where the momenta of all workers will have carried the centre."""

from dataclasses import KW_ONLY
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from asyncsim._component import static
from asyncsim._trees import as_precise, widen
from asyncsim.rules._arguments import Fraction, NotNegative, StepSize
from asyncsim.rules._compensation import compensated
from asyncsim.rules._downpour import descent
from asyncsim.rules._momentum import accelerate, at_rest
from asyncsim.rules._rule import Info, Params, Rule, Sent, State, View


class Moment(NamedTuple):
    """A worker's moment, and by how much it changed."""

    moment: Params
    change: Params


class Server(NamedTuple):
    """The sum of all workers' moments, and the central variable that a delay is compensated to; () except in `dc`."""

    total: Params
    central: Params


class DANA(Rule):
    """Distributed asynchronous Nesterov: read where all workers' momenta will have carried the central variable.

    v_i ← γ·v_i + g and θ ← θ - η·v_i, as in `MultiASGD`, but the gradient is taken at the look-ahead:

    - zero: at θ - η·γ·Σ_j v_j; the server keeps the sum incrementally;
    - slim: at θ itself, and the workers send γ·v_i + g. This is zero in terms of Θ = θ - η·γ·Σ_j v_j, with the same
      gradients at the same points, and asks nothing of the server;
    - dc: zero with g + λ·g⊙g⊙(θ - s) instead of g, where s is the look-ahead at which g was taken.

    From memory, and re-derived: the change of variable holds to rounding, γ = 0 is asynchronous SGD (with λ = 0 in dc),
    and one worker is Nesterov's accelerated gradient. Because s is a look-ahead, dc corrects even a fresh gradient.
    Counted from look-ahead to look-ahead instead, with θ - η·γ·Σ_j v_j in place of θ, or from the θ that lay behind s,
    the correction of a fresh gradient would vanish. A worker reads θ itself when it begins, and one that lost its state
    leaves its last v_i in the sum for ever: if workers come and go, use slim, where the worker itself keeps v_i. A
    server that averages the messages of a step keeps Σ_j v_j over their number, which is the look-ahead that fits its
    steps.

    The rule keeps -η·v_i on the worker, and except with ``slim`` their sum on the server.

    Args:
        learning_rate: Step size η, per commit.
        momentum: Momentum γ in [0, 1).
        variant: "zero", "slim" or "dc".
        compensation: Strength λ ≥ 0 of the correction, for ``dc`` only; 2 as in a public implementation.

    The three numbers may each be a scalar, or one value per seed.

    Raises:
        ValueError: If a number is out of range or the variant is unknown.

    Example:
        Two workers in turn: v_1 = v_2 = 1 from x = 1. Worker 1 continues after its commit, at θ = 0.75, when the sum
        is 1: at 0.75 - 0.25·0.5 = 0.625. Its v_1 = 0.5 + 0.625, and θ = 1 - 0.25·(1 + 1 + 1.125):

        >>> import asyncsim as asim
        >>> trace, workload = asim.Trace.from_commits([0, 1, 0]), asim.workloads.Quadratic([1.0])
        >>> run = asim.replay(trace, asim.rules.DANA(0.25, momentum=0.5), workload)
        >>> run.central["x"].tolist(), float(run.loss[-1]) == 0.625**2 / 2
        ([0.21875], True)
        >>> slim = asim.replay(trace, asim.rules.DANA(0.25, momentum=0.5, variant="slim"), workload)
        >>> float(slim.loss[-1]) == 0.625**2 / 2
        True

    References:
        Hakimi, Barkai, Gabel and Schuster 2019, "Taming Momentum in a Distributed Asynchronous Environment",
        arXiv 1907.11612.
    """

    learning_rate: StepSize
    _: KW_ONLY
    momentum: Fraction = 0.9
    variant: Literal["zero", "slim", "dc"] = static(default="zero")
    compensation: NotNegative = 2.0

    publication = "hakimi2019dana"
    purpose = "momentum with many workers"
    elementwise = True

    def start(self, params: Params) -> Params:
        """A moment of zero."""
        return at_rest(params)

    def start_server(self, params: Params) -> State:
        """All moments at rest; only `dc` looks at the central variable, and `slim` asks nothing of the server."""
        if self.variant == "slim":
            return ()
        return Server(total=widen(at_rest(params)), central=params if self.variant == "dc" else ())

    def send(self, gradient: Params, state: Params, view: View) -> Sent:
        """Send m_i ← γ·m_i - η·g and its change; with `slim`, γ·m_i - η·g."""
        if self.variant == "slim":
            return self._send_slim(gradient, state)
        if self.variant == "zero":
            return self._send_moment(gradient, state)
        better = compensated(self.compensation, gradient, view.server.central, view.read)
        sent = self._send_moment(better, state)
        return sent._replace(info=sent.info._replace(update=descent(self.learning_rate, gradient)))

    def _send_moment(self, gradient: Params, state: Params) -> Sent:
        update, moment = accelerate(self.learning_rate, self.momentum, state, gradient)
        change = jax.tree.map(jnp.subtract, widen(moment), widen(state))
        return Sent(Moment(moment, change), moment, Info(update=update, proxy=moment))

    def _send_slim(self, gradient: Params, state: Params) -> Sent:
        update, moment = accelerate(self.learning_rate, self.momentum, state, gradient)
        message = jax.tree.map(lambda m, d: self.momentum * m + d, moment, update)
        return Sent(message, moment, Info(update=update, proxy=message))

    def apply(self, central: Params, server: State, message: Params, view: View) -> tuple[Params, State]:
        """θ ← θ + m_i; the sum changes as m_i did."""
        if self.variant == "slim":
            return super().apply(central, server, message, view)
        theta = jax.tree.map(jnp.add, central, message.moment)
        total = jax.tree.map(jnp.add, server.total, message.change)
        return theta, Server(total, theta if jax.tree.leaves(server.central) else ())

    def resume(self, central: Params, server: State, state: Params, view: View) -> Params:
        """θ + γ·Σ m_j: where the centre would be if every worker committed once more, without a new gradient."""
        del state, view  # All workers read the same.
        if self.variant == "slim":
            return central
        return as_precise(jax.tree.map(lambda t, m: t + self.momentum * m, central, server.total), central)
