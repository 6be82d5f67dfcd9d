"""Windows of local steps whose sum is scaled before it is committed: AGN, ADAG and DynSGD."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from asyncsim import checks
from asyncsim.rules.downpour import send_displacement
from asyncsim.rules.elastic import exchange_fields, require_switch
from asyncsim.rules.optimisers import Optimiser, local_steps
from asyncsim.rules.rule import Hyper, Info, Params, Rule, Sent, State, View
from asyncsim.rules.staleness import over_age


@dataclass(frozen=True)
class SendMean:
    """Send Δ/λ."""

    window: int

    def __call__(self, hyper: Hyper, displacement: Params, state: State, view: View) -> Sent:
        """The mean of the window's steps."""
        del hyper, view  # Only the window counts.
        message = jax.tree.map(lambda d: d / self.window, displacement)
        return Sent(message=message, state=state, info=Info(update=displacement))


def agn(learning_rate: Any = 1.0, *, window: int = 12, optimiser: Optimiser = "sgd", elementwise: bool = False) -> Rule:
    """Accumulated gradient normalization (AGN): many local steps towards a good direction, committed as one.

    x ← s, then λ times x ← x + η·T(∇L(x)); θ ← θ + (x - s)/λ. T is the update of any optimiser (for SGD -g), whose
    state stays on the worker from pull to pull. Distributed Keras calls it ADAG; `adag` is something else.

    Under round robin on a curvature h, with κ = η·h ≤ 1, local SGD is stable iff
    (1 - (1 - κ)^λ)/λ < 2·sin(π/(2(2n - 1))), about π/(2n). The left side never exceeds 1/λ: with λ > 2n/π = 0.64·n any
    such step size is stable.

    Args:
        learning_rate: Step size η, by which the optimiser's updates are multiplied; a scalar, or one value per seed.
            1 leaves an optimiser that has a step size of its own as it is.
        window: Local steps between two commits, λ; 12 in Distributed Keras, 10 to 40 in the paper. 1 is DOWNPOUR.
        optimiser: The worker's: an optax.GradientTransformation, or a name as in `worker`.
        elementwise: Whether the optimiser treats every parameter independently, which is faster; those with a name do.

    Returns:
        A `Rule` that keeps the optimiser's state on the worker.

    Raises:
        ValueError: If the window is not a whole number of at least 1, η is negative or not finite, or `optimiser` is
            not an optimiser.

    Example:
        Three halvings carry each of two workers from 1 to 0.125; each commits a third of that:

        >>> import asyncsim as asim
        >>> rule = asim.rules.agn(0.5, window=3)
        >>> run = asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.quadratic([1.0]))
        >>> round(float(run.central["x"][0]), 6)  # 1 - 2·0.875/3
        0.416667

    References:
        Hermans, Spanakis and Möckel 2017, "Accumulated gradient normalization", ACML. The limits are those of a
        delayed linear recurrence, Levin and May 1976.
    """
    steps = local_steps(learning_rate, window, optimiser, elementwise)
    return Rule(name="agn", send=SendMean(window), **steps).sealed()


@dataclass(frozen=True)
class SendDamped:
    """Send Δ/λ, damped where the centre has moved since the worker read."""

    window: int

    def __call__(self, hyper: Hyper, displacement: Params, state: State, view: View) -> Sent:
        """Δ/λ ⊙ 1/(1 + (θ - s)²/γ)."""
        shift = jax.tree.map(jnp.subtract, self.centre(view), view.read)
        pi = jax.tree.map(lambda d: 1 / (self.window * (1 + d * d / hyper["gamma"])), shift)
        message = jax.tree.map(jnp.multiply, pi, displacement)
        return Sent(message=message, state=state, info=Info(update=displacement, pi=pi))

    def centre(self, view: View) -> Params:
        """The θ to compare with: as the worker pulled it."""
        return view.pulled


@dataclass(frozen=True)
class SendDampedAtCommit(SendDamped):
    """As `SendDamped`, with the server's θ at the commit."""

    def centre(self, view: View) -> Params:
        """The θ to compare with: the server's copy of it."""
        return view.server


def adag(
    learning_rate: Any = 1.0,
    *,
    window: int = 12,
    gamma: Any = 1e-4,
    atomic: bool = False,
    optimiser: Optimiser = "sgd",
    elementwise: bool = False,
) -> Rule:
    """AGN that damps every parameter by how far the central variable has moved there since the worker read.

    x as in `agn`; θ ← θ + (x - s)/λ ⊙ 1/(1 + (θ - s)²/γ), elementwise, with θ as the worker pulled it before it
    commits; with `atomic`, as it is at the commit, as at the server of Distributed Keras. If pull and commit are one,
    the two are the same. What counts is thus not the age of an update but what happened meanwhile. An infinite γ is
    `agn`; with one worker θ = s, and it is `agn` too. Distributed Keras uses the name ADAG for what is `agn` here.

    Args:
        learning_rate, optimiser, elementwise: As in `agn`.
        window: Local steps between two commits, λ.
        atomic: Whether θ is that of the moment of the commit, or the one that was pulled before.
        gamma: Square of the shift at which an update is halved, γ > 0; 1e-4 in the thesis, which tried 1e-3 to 1e-9.

    Returns:
        A `Rule` that keeps the optimiser's state on the worker; with `atomic`, a copy of θ on the server.

    Raises:
        ValueError: If γ is not positive, `atomic` is neither True nor False, or another argument is refused as by
            `agn`.

    Example:
        The first of two workers halves 1 to 0.5, undamped. When the second commits its -0.5, θ has moved by -0.5
        since it read, so that with γ = 0.25 half of it is applied:

        >>> import asyncsim as asim
        >>> rule = asim.rules.adag(0.5, window=1, gamma=0.25)
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.quadratic([1.0])).central["x"].tolist()
        [0.25]

    References:
        Hermans 2017, "On scalable deep learning and parallelizing gradient descent", master's thesis, Maastricht
        University.
    """
    steps = local_steps(learning_rate, window, optimiser, elementwise)
    steps["hyper"]["gamma"] = checks.not_negative("gamma", gamma)
    if jnp.any(jnp.asarray(steps["hyper"]["gamma"]) == 0):
        raise ValueError(f"`gamma` must be positive; got {gamma!r}. Large values damp nothing; 1e-4 is usual.")
    if not require_switch(atomic):
        return Rule(name="adag", send=SendDamped(window), **steps).sealed()
    steps["options"] = (*steps["options"], ("atomic", True))
    return Rule(name="adag", send=SendDampedAtCommit(window), **exchange_fields(True), **steps).sealed()


def send_displacement_over_age(hyper: Hyper, displacement: Params, state: State, view: View) -> Sent:
    """Send Δ/(τ + 1)."""
    sent = send_displacement(hyper, displacement, state, view)
    return sent._replace(message=over_age(sent.message, view))


def dynsgd(
    learning_rate: Any = 1.0, *, window: int = 5, optimiser: Optimiser = "sgd", elementwise: bool = False
) -> Rule:
    """DynSGD: accumulated updates, divided by their staleness plus one.

    x ← s, then λ times x ← x + η·T(∇L(x)); θ ← θ + (x - s)/(τ + 1), with τ the server versions between the read and
    this commit. With a window of 1 and SGD it is `adaptive_staleness`; at τ = 0 it is DOWNPOUR.

    Args:
        learning_rate, optimiser, elementwise: As in `agn`.
        window: Local steps between two commits, λ; 5 in Distributed Keras.

    Returns:
        A `Rule` that keeps the optimiser's state on the worker.

    Raises:
        ValueError: If an argument is refused as by `agn`.

    Example:
        Two halvings make -0.75 of either worker; the second worker's update is one version old:

        >>> import asyncsim as asim
        >>> rule = asim.rules.dynsgd(0.5, window=2)
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.quadratic([1.0])).central["x"].tolist()
        [-0.125]

    References:
        Jiang, Cui, Zhang and Yu 2017, "Heterogeneity-aware distributed parameter servers", SIGMOD.
    """
    steps = local_steps(learning_rate, window, optimiser, elementwise)
    return Rule(name="dynsgd", send=send_displacement_over_age, **steps).sealed()
