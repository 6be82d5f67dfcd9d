"""Windows of local steps whose sum is scaled before it is committed: AGN, ADAG and DynSGD."""

from dataclasses import KW_ONLY
from typing import Annotated

import jax
import jax.numpy as jnp

from asyncsim._component import static
from asyncsim.rules._arguments import Number, Window, positive
from asyncsim.rules._downpour import send_displacement
from asyncsim.rules._elastic import Exchanging
from asyncsim.rules._optimisers import LocalSteps
from asyncsim.rules._rule import Info, Params, Sent, State, View
from asyncsim.rules._staleness import over_age


class AGN(LocalSteps):
    """Accumulated gradient normalization (AGN): many local steps towards a good direction, committed as one.

    x ← s, then λ times x ← x + η·T(∇L(x)); θ ← θ + (x - s)/λ. T is the update of any optimiser (for SGD -g), whose
    state stays on the worker from pull to pull. Distributed Keras calls it ADAG; `ADAG` is something else.

    Under round robin on a curvature h, with κ = η·h ≤ 1, local SGD is stable iff
    (1 - (1 - κ)^λ)/λ < 2·sin(π/(2(2n - 1))), about π/(2n). The left side never exceeds 1/λ: with λ > 2n/π = 0.64·n any
    such step size is stable.

    The rule keeps the optimiser's state on the worker.

    Args:
        learning_rate: Step size η, by which the optimiser's updates are multiplied; a scalar, or one value per seed.
            1 leaves an optimiser that has a step size of its own as it is.
        window: Local steps between two commits, λ; 12 in Distributed Keras, 10 to 40 in the paper. 1 is DOWNPOUR.
        optimiser: The worker's: an optax.GradientTransformation, or a name as in `WorkerOptimiser`.
        elementwise: Whether the optimiser treats every parameter independently, which is faster; those with a name do.

    Raises:
        ValueError: If the window is not a whole number of at least 1, η is negative or not finite, or `optimiser` is
            not an optimiser.

    Example:
        Three halvings carry each of two workers from 1 to 0.125; each commits a third of that:

        >>> import asyncsim as asim
        >>> rule = asim.rules.AGN(0.5, window=3)
        >>> run = asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.Quadratic([1.0]))
        >>> round(float(run.central["x"][0]), 6)  # 1 - 2·0.875/3
        0.416667

    References:
        Hermans, Spanakis and Möckel 2017, "Accumulated gradient normalization", ACML. The limits are those of a
        delayed linear recurrence, Levin and May 1976.
    """

    _: KW_ONLY
    window: Window = static(default=12)

    publication = "hermans2017agn"
    purpose = "few messages: many local steps per commit"

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        """Send Δ/λ, the mean of the window's steps."""
        del view  # Only the window counts.
        message = jax.tree.map(lambda d: d / self.window, gradient)
        return Sent(message=message, state=state, info=Info(update=gradient))


class ADAG(Exchanging, LocalSteps):
    """AGN that damps every parameter by how far the central variable has moved there since the worker read.

    x as in `AGN`; θ ← θ + (x - s)/λ ⊙ 1/(1 + (θ - s)²/γ), elementwise, with θ as the worker pulled it before it
    commits; with `atomic`, as it is at the commit, as at the server of Distributed Keras. If pull and commit are one,
    the two are the same. What counts is thus not the age of an update but what happened meanwhile. An infinite γ is
    `AGN`; with one worker θ = s, and it is `AGN` too. Distributed Keras uses the name ADAG for what is `AGN` here.

    The rule keeps the optimiser's state on the worker; with `atomic`, a copy of θ on the server.

    Args:
        learning_rate, optimiser, elementwise: As in `AGN`.
        window: Local steps between two commits, λ.
        atomic: Whether θ is that of the moment of the commit, or the one that was pulled before.
        gamma: Square of the shift at which an update is halved, γ > 0; 1e-4 in the thesis, which tried 1e-3 to 1e-9.

    Raises:
        ValueError: If γ is not positive, `atomic` is neither True nor False, or another argument is refused as by
            `AGN`.

    Example:
        The first of two workers halves 1 to 0.5, undamped. When the second commits its -0.5, θ has moved by -0.5
        since it read, so that with γ = 0.25 half of it is applied:

        >>> import asyncsim as asim
        >>> rule = asim.rules.ADAG(0.5, window=1, gamma=0.25)
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.25]

    References:
        Hermans 2017, "On scalable deep learning and parallelizing gradient descent", master's thesis, Maastricht
        University.
    """

    _: KW_ONLY
    window: Window = static(default=12)
    gamma: Annotated[Number, positive("Large values damp nothing; 1e-4 is usual.")] = 1e-4
    atomic: bool = static(default=False)

    publication = "hermans2017thesis"
    purpose = "large windows, whose sums pull the centre too far"

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        """Send Δ/λ ⊙ 1/(1 + (θ - s)²/γ), damped where the centre has moved since the worker read."""
        shift = jax.tree.map(jnp.subtract, self.exchanged_with(view), view.read)
        pi = jax.tree.map(lambda d: 1 / (self.window * (1 + d * d / self.gamma)), shift)
        message = jax.tree.map(jnp.multiply, pi, gradient)
        return Sent(message=message, state=state, info=Info(update=gradient, pi=pi))


class DynSGD(LocalSteps):
    """DynSGD: accumulated updates, divided by their staleness plus one.

    x ← s, then λ times x ← x + η·T(∇L(x)); θ ← θ + (x - s)/(τ + 1), with τ the server versions between the read and
    this commit. With a window of 1 and SGD it is `AdaptiveStaleness`; at τ = 0 it is DOWNPOUR.

    The rule keeps the optimiser's state on the worker.

    Args:
        learning_rate, optimiser, elementwise: As in `AGN`.
        window: Local steps between two commits, λ; 5 in Distributed Keras.

    Raises:
        ValueError: If an argument is refused as by `AGN`.

    Example:
        Two halvings make -0.75 of either worker; the second worker's update is one version old:

        >>> import asyncsim as asim
        >>> rule = asim.rules.DynSGD(0.5, window=2)
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [-0.125]

    References:
        Jiang, Cui, Zhang and Yu 2017, "Heterogeneity-aware distributed parameter servers", SIGMOD.
    """

    _: KW_ONLY
    window: Window = static(default=5)

    name = "dynsgd"
    publication = "jiang2017dynsgd"
    purpose = "unequal machines: late updates count less"

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        """Send Δ/(τ + 1)."""
        sent = send_displacement(gradient, state)
        return sent._replace(message=over_age(sent.message, view))
