"""A rule of workers on a graph that corrects what averages with neighbours do where the workers' losses differ."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from asyncsim.rules._common import StepSize, move
from asyncsim.rules._rule import Info, Params, Rule, Sent, State, View, descent


class Points(NamedTuple):
    """The last two points of a worker's commit."""

    adapted: Params  # ψ, after its gradient step
    corrected: Params  # φ, which it sent to its neighbours


class ExactDiffusion(Rule):
    """Exact diffusion: decentralised SGD without the bias that different losses of the workers leave.

    In every round each worker i, with neighbours j and weights W,

        ψ_i ← x_i - η·g_i,   φ_i ← ψ_i + x_i - ψ_i' (its last ψ, at first x_i),   x_i ← (φ_i + Σ_j W_ij·φ_j)/2.

    `Downpour` lacks the correction x_i - ψ_i', and with a constant step comes to rest at another point for each worker
    (`theory.rounds_bias`). Here all rest at the minimum of the mean loss, as with gradient tracking, which mixes a
    second vector for that. The mean over workers takes the same path with both rules, and one worker makes SGD.

    Simulate with `asim.Gossip(…, exchange="adapt_then_combine")` and a graph of fixed weights. The variables of the run
    are the means of φ, and `record=("read",)` records x.

    The rule keeps ψ and φ on the worker.

    Args:
        learning_rate: Step size η.

    Example:
        A star of three workers with minima at 0, 3 and 6 agrees on 3, where DOWNPOUR keeps the leaves apart:

        >>> import asyncsim as asim
        >>> compute, exchange = asim.delays.Constant(1.0), "adapt_then_combine"
        >>> cluster = asim.Gossip(workers=3, compute=compute, graph=asim.graphs.Star(), exchange=exchange)
        >>> trace = asim.simulate(cluster, commits=300)
        >>> workload = asim.workloads.Quadratic([1.0], minima=[[3.0], [0.0], [6.0]])
        >>> rules = [asim.rules.ExactDiffusion(0.5), asim.rules.Downpour(0.5)]
        >>> [asim.replay(trace, rule, workload).variables["x"][:, 0].round(3).tolist() for rule in rules]
        [[3.0, 3.0, 3.0], [3.0, 1.5, 4.5]]

    References:
        Yuan, Ying, Zhao and Sayed 2019, "Exact diffusion for distributed optimization and learning, part I: Algorithm
        development", IEEE Transactions on Signal Processing 67.
    """

    learning_rate: StepSize

    name = "exact_diffusion"
    publication = "yuan2019exact"
    purpose = "workers on a graph, each with data of its own"
    incompressible = "sends parameters, of which a compressor would keep a few: not an update"
    elementwise = True
    rounds = True
    replaces = True

    def start(self, params: Params) -> Points:
        return Points(params, params)

    def send(self, gradient: Params, state: Points, view: View) -> Sent:
        """Send φ, and keep it with ψ."""
        update = descent(self.learning_rate, gradient)
        adapted = move(1.0, view.read, update)
        corrected = jax.tree.map(lambda psi, x, last: psi + x - last, adapted, view.read, state.adapted)
        return Sent(corrected, Points(adapted, corrected), Info(update=update))

    def apply(self, central: Params, server: State, message: Params, view: View) -> tuple[Params, State]:
        return message, server

    def resume(self, central: Params, server: State, state: Points, view: View) -> Params:
        """Return half of the worker's own φ and half of the mean of its neighbours, with which any graph is stable."""
        return jax.tree.map(lambda mean, phi: jnp.asarray(0.5, phi.dtype) * (mean + phi), central, state.corrected)
