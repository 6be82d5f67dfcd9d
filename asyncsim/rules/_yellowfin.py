"""YellowFin: step size and momentum tuned during training, with a loop that corrects for asynchrony's own momentum."""

from dataclasses import KW_ONLY
from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp

from asyncsim._checks import require_count, require_integer
from asyncsim._trees import median, tree_zeros_like, widen
from asyncsim.components._component import static
from asyncsim.rules._common import Fraction, NotNegative, StepSize
from asyncsim.rules._rule import Info, Params, Rule, Sent, State, View

SMALL = 1e-15  # keeps logarithms and quotients finite where a gradient is zero, as in the authors' code


class Measured(NamedTuple):
    """Moving averages over the gradients, each divided by `weight` before use."""

    weight: jax.Array  # average of 1
    latest: jax.Array  # (span,) log‖g‖² of the last steps, cyclically, NaN before there are that many
    lowest: jax.Array  # average of the smallest of these
    highest: jax.Array  # average of the largest of these
    mean: Params  # average of g, a pytree like the parameters
    square: jax.Array  # average of ‖g‖²
    norm: jax.Array  # average of ‖g‖
    distance: jax.Array  # average of the quotient of `norm` and `square`


class Server(NamedTuple):
    """The server's state."""

    steps: jax.Array  # number of its steps so far
    velocity: Params  # the last displacement
    rate: jax.Array  # tuned step size α, before the factor
    target: jax.Array  # tuned momentum μ*
    momentum: jax.Array  # momentum in use: μ*, or its correction by the closed loop
    measured: Measured  # moving averages
    history: Any


def total(tree: Params) -> jax.Array:
    """Sum over all entries of all leaves."""
    return sum((jnp.sum(leaf).astype(float) for leaf in jax.tree.leaves(tree)), start=jnp.zeros(()))


def measure(decay: Any, steps: jax.Array, before: Measured, gradient: Params) -> Measured:
    """Return the moving averages with one more gradient."""

    def average(old: Any, new: Any) -> Any:
        return jax.tree.map(lambda o, n: (decay * o + (1 - decay) * n).astype(o.dtype), old, new)

    gradient = widen(gradient)
    square = total(jax.tree.map(jnp.square, gradient))
    latest = before.latest.at[steps % len(before.latest)].set(jnp.log(square + SMALL))
    squares, norms = average(before.square, square), average(before.norm, jnp.sqrt(square))
    return Measured(
        weight=average(before.weight, jnp.ones(())),
        latest=latest,
        lowest=average(before.lowest, jnp.nanmin(latest)),
        highest=average(before.highest, jnp.nanmax(latest)),
        mean=average(before.mean, gradient),
        square=squares,
        norm=norms,
        distance=average(before.distance, norms / (squares + SMALL)),
    )


def tune(measured: Measured) -> tuple[jax.Array, jax.Array]:
    """Step size α and momentum μ that make x²·D² + (1 - x)⁴·C/h_min² least, x = √μ, with μ large enough for h_max."""
    weight = measured.weight
    lowest, highest = jnp.exp(measured.lowest / weight), jnp.exp(measured.highest / weight)
    variance = jnp.maximum(measured.square / weight - total(jax.tree.map(jnp.square, measured.mean)) / weight**2, SMALL)
    # At the minimum p·x = (1 - x)³, a cubic whose one real root has a closed form in hyperbolic sines.
    p = jnp.maximum((measured.distance / weight * lowest) ** 2 / (2 * variance), SMALL)
    x = 1 - 2 * jnp.sqrt(p / 3) * jnp.sinh(jnp.arcsinh(1.5 * jnp.sqrt(3 / p)) / 3)
    spread = jnp.sqrt(highest / lowest)
    root = jnp.maximum(x, (spread - 1) / (spread + 1))
    return (1 - root) ** 2 / (lowest + SMALL), root**2


def total_momentum(rate: jax.Array, server: Server, gradient: Params, read: Params, staleness: jax.Array) -> jax.Array:
    """Median over the parameters of (x_{r+1} - x_r + α·g)/(x_r - x_{r-1}), r being the version that was read."""
    length = len(jax.tree.leaves(server.history)[0])
    version = server.steps - staleness

    def quotient(past: jax.Array, x: jax.Array, g: jax.Array) -> jax.Array:
        after, before = past[(version + 1) % length], past[(version - 1) % length]
        moved = x - before
        pushed = after - x + rate.astype(x.dtype) * g
        return jnp.where(moved == 0, jnp.nan, pushed / jnp.where(moved == 0, 1, moved)).ravel()

    quotients = jnp.concatenate(jax.tree.leaves(jax.tree.map(quotient, server.history, read, gradient)))
    # Parameters that did not move have no quotient. Half of them count as +∞ and half as -∞, which leaves the median to
    # the others.
    infinity = jnp.where(jnp.arange(quotients.size) % 2 == 0, jnp.inf, -jnp.inf)
    quotients = jnp.where(jnp.isnan(quotients), infinity, quotients)
    # The history must still hold the versions before and after the one that was read.
    measurable = (staleness >= 1) & (version >= 1) & (staleness + 2 <= length)
    return jnp.where(measurable, median(quotients), jnp.nan).astype(float)


class YellowFin(Rule):
    """YellowFin: momentum SGD at the server, with step size and momentum tuned to the gradients that arrive.

    v ← μ·v - η·α·g, θ ← θ + v, with α = 1 and μ = 0 at first. After every step the rule tunes them from moving averages
    of the gradients:

    - h_min and h_max: the least and largest ‖g‖² of the last `span` steps, averaged in logarithms.
    - C: variance of g, D: distance to the optimum, average ‖g‖ over average ‖g‖².
    - μ* = max(((√κ - 1)/(√κ + 1))², x²), κ = h_max/h_min, where x minimises x²·D² + (1 - x)⁴·C/h_min².
    - α* = (1 - √μ*)²/h_min. Both are averaged once more.

    Asynchrony acts like momentum, so the closed loop corrects: μ ← μ + γ·(μ* - μ̂). The total momentum μ̂ that a
    gradient saw is the median over the parameters of (x_{r+1} - x_r + η·α·g)/(x_r - x_{r-1}) around the version r at
    which g was taken. From memory, and re-derived: around the newest version, with the g just applied, the quotient
    would be the server's own μ by construction. μ may become negative.

    ‖g‖² stands for the curvature, as it does for likelihoods near their optimum. On a loss without noise it vanishes
    with the gradient, and the tuned step size grows without bound. No gradient is clipped. A step is applied and then
    tuned from, as in the authors' first public version. Their later ones tune with the newest gradient before they
    apply it, and clip gradients.

    The rule keeps the velocity, the averages and the history on the server. It is not elementwise, because it looks at
    all parameters together.

    Args:
        learning_rate: Factor η of the tuned step size α, where 1 leaves it as it is. It must be smaller with many
            workers, because α is tuned as if gradients were fresh.
        decay: Decay in [0, 1) of all moving averages.
        feedback: Gain γ ≥ 0 of the closed loop.
        closed_loop: Whether the momentum is corrected for asynchrony.
        span: Number of last steps from which the smallest and the largest gradient are taken.
        history: Versions of the central variable that the closed loop keeps, at least 3. It learns nothing from a
            gradient whose staleness exceeds `history - 2`.

    Example:
        The first step is one of SGD, because nothing is tuned before the second gradient arrives.

        >>> import asyncsim as asim
        >>> run = asim.replay(asim.Trace.from_commits([0]), asim.rules.YellowFin(0.5), asim.workloads.Quadratic([1.0]))
        >>> run.central["x"].tolist()
        [0.5]

    References:
        Zhang and Mitliagkas 2019, "YellowFin and the Art of Momentum Tuning", arXiv 1706.03471. The authors' code.
    """

    learning_rate: StepSize = 1.0
    _: KW_ONLY
    decay: Fraction = 0.999
    feedback: NotNegative = 0.01
    closed_loop: bool = static(default=True)
    span: Annotated[int, require_count, "20 is usual."] = static(default=20)
    history: Annotated[int, partial(require_integer, least=3), "Use a few more than the largest staleness."] = static(
        default=64
    )

    name = "yellowfin"
    publication = "zhang2019yellowfin"
    purpose = "no tuning: step size and momentum measured"

    def start_server(self, params: Params) -> Server:
        zero, zeros = jnp.zeros(()), tree_zeros_like(params)
        latest = jnp.full(self.span, jnp.nan)
        measured = Measured(zero, latest, zero, zero, widen(zeros), zero, zero, zero)
        past: Any = ()
        if self.closed_loop:
            past = jax.tree.map(lambda t: jnp.broadcast_to(t, (self.history, *t.shape)), params)
        return Server(jnp.zeros((), jnp.int32), zeros, jnp.ones(()), zero, zero, measured, past)

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        """Send g, and in the closed loop by how much the total momentum that it saw lies below the target."""
        server, staleness = view.server, jnp.asarray(view.staleness)
        rate, lacking = self._step(server), jnp.zeros(())
        update = jax.tree.map(lambda g: -rate.astype(g.dtype) * g, gradient)
        if self.closed_loop:
            observed = total_momentum(rate, server, gradient, view.read, staleness)
            # A fresh gradient sees the server's own momentum. Without a measurement, nothing is corrected.
            observed = jnp.where(staleness == 0, server.momentum, observed)
            lacking = jnp.where(jnp.isfinite(observed), server.target - observed, 0)
        return Sent({"gradient": gradient, "lacking": lacking}, state, Info(update=update))

    def apply(self, central: Params, server: Server, message: dict[str, Any], view: View) -> tuple[Params, Server]:
        decay: Any = self.decay
        gradient, used = message["gradient"], self._step(server)
        velocity = jax.tree.map(
            lambda v, g: server.momentum.astype(v.dtype) * v - used.astype(v.dtype) * g, server.velocity, gradient
        )
        theta = jax.tree.map(jnp.add, central, velocity)
        measured = measure(decay, server.steps, server.measured, gradient)
        rate, target = tune(measured)
        tunable = server.steps > 0  # a single gradient says nothing about the variance
        rate = jnp.where(tunable, decay * server.rate + (1 - decay) * rate, server.rate).astype(server.rate.dtype)
        target = jnp.where(tunable, decay * server.target + (1 - decay) * target, server.target)
        target = target.astype(server.target.dtype)
        steps, momentum, past = server.steps + 1, target, server.history
        if jax.tree.leaves(past):
            momentum = (server.momentum + self.feedback * message["lacking"]).astype(target.dtype)
            past = jax.tree.map(lambda old, t: old.at[steps % len(old)].set(t), past, theta)
        return theta, Server(steps, velocity, rate, target, momentum, measured, past)

    def _step(self, server: Server) -> jax.Array:
        """Return the tuned step size times the factor."""
        return (self.learning_rate * server.rate).astype(server.rate.dtype)
