"""Federated rules: local steps, and a server that mixes models by age or steps once it has collected several updates.

FedAsync, FedBuff, FADAS and CA2FL.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim import checks
from asyncsim.rules.arguments import bind_workers, given_workers, step_size, whole_buffer, whole_window
from asyncsim.rules.downpour import step_down
from asyncsim.rules.momentum import at_rest
from asyncsim.rules.rule import Hyper, Info, Params, Rule, Sent, State, View
from asyncsim.rules.staleness import Weight
from asyncsim.trees import widen

OLDEST = 255  # ages from here on count as this one: a mean of messages can hold a largest age only as a histogram


def constant(hyper: Hyper, age: jax.Array) -> jax.Array:
    """1."""
    del hyper  # No age matters.
    return jnp.ones_like(age)


def polynomial(hyper: Hyper, age: jax.Array) -> jax.Array:
    """(τ + 1)^-a."""
    return (age + 1) ** -hyper["steepness"]


def hinge(hyper: Hyper, age: jax.Array) -> jax.Array:
    """1 up to τ = b, then 1/(a·(τ - b) + 1): both are 1 at τ = b."""
    return 1 / (hyper["steepness"] * jnp.maximum(age - hyper["grace"], 0) + 1)


WEIGHTINGS = {"constant": constant, "polynomial": polynomial, "hinge": hinge}
STEEPNESSES = {"constant": 0.0, "polynomial": 0.5, "hinge": 10.0}


class Mixture(NamedTuple):
    """A worker's model times its share, and the share: sums that a buffered server can average."""

    share: jax.Array
    model: Params


@dataclass(frozen=True)
class SendMixture:
    """Send α_t = α·s(τ) and α_t·x, with x the worker's own model."""

    weight: Weight

    def __call__(self, hyper: Hyper, displacement: Params, state: State, view: View) -> Sent:
        """The `send` of a rule."""
        share = hyper["mixing"] * self.weight(hyper, view.staleness.astype(float))
        model = jax.tree.map(lambda s, d: jnp.asarray(share, s.dtype) * (s + d), view.read, displacement)
        return Sent(Mixture(share, model), state, Info(update=displacement))


def mix(hyper: Hyper, central: Params, server: State, message: Mixture, view: View) -> tuple[Params, State]:
    """θ ← (1 - α_t)·θ + α_t·x."""
    del hyper, view  # The shares were computed from each message's own age.
    kept = 1 - message.share
    return jax.tree.map(lambda t, x: jnp.asarray(kept, t.dtype) * t + x, central, message.model), server


def fedasync(
    learning_rate: Any,
    *,
    mixing: Any = 0.6,
    weighting: str = "polynomial",
    steepness: Any = None,
    grace: Any = 4.0,
    window: int = 1,
) -> Rule:
    """Asynchronous federated optimisation: the server mixes a worker's model into its own, the less the older it is.

    x: `window` steps x ← x - η·∇L(x) from s; θ ← (1 - α_t)·θ + α_t·x with α_t = α·s(τ) and

    - constant: s(τ) = 1;
    - polynomial: s(τ) = (τ + 1)^-a;
    - hinge: s(τ) = 1 for τ ≤ b, else 1/(a·(τ - b) + 1), continuous at b.

    α_t depends on this model's age alone: it does not decay from commit to commit. Mixing models is not adding
    updates: with α_t = 1 a commit undoes what the others did meanwhile, and the central variable is the committing
    worker's own. The paper's penalty on the distance from s is left out. A server that averages several messages in a
    step uses the means of α_t and of α_t·x.

    Args:
        learning_rate: Step size η of a local step; a scalar, or one value per seed.
        mixing: Mixing factor α in [0, 1].
        weighting: "constant", "polynomial" or "hinge".
        steepness: a, not negative; None for 0.5 with the polynomial and 10 with the hinge.
        grace: b, the staleness up to which an update counts in full with the hinge; the other weightings ignore it.
        window: Local steps between two commits.

    The numbers other than the window may each have one value per seed. The defaults are those usually quoted from the
    paper's experiments.

    Returns:
        A `Rule` that keeps no state on the worker or the server; with one worker, a mixing factor of 1 and a window
        of 1 it is SGD.

    Raises:
        ValueError: If a number is out of range or the weighting is unknown.

    Example:
        Two workers in turn, both with x = 0.5; τ = 0 and 1, so α_t = 1/2, 1/4: θ = 1/2 + 1/4, then 3/4·3/4 + 1/8:

        >>> import asyncsim as asim
        >>> rule = asim.rules.fedasync(0.5, mixing=0.5, steepness=1.0)
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.quadratic([1.0])).central["x"].tolist()
        [0.6875]

    References:
        Xie, Koyejo and Gupta 2019, "Asynchronous Federated Optimization", arXiv 1903.03934.
    """
    checks.one_of("weighting", weighting, WEIGHTINGS)
    window = whole_window(window)
    hyper = {
        **step_size(learning_rate),
        "mixing": checks.not_negative("mixing", mixing),
        "steepness": checks.not_negative("steepness", STEEPNESSES[weighting] if steepness is None else steepness),
        "grace": checks.not_negative("grace", grace),
    }
    if np.any(hyper["mixing"] > 1):
        raise ValueError(f"`mixing` must be at most 1; got {mixing!r}. 1 replaces the central variable.")
    return Rule(
        hyper=hyper,
        name="fedasync",
        send=SendMixture(WEIGHTINGS[weighting]),
        options=(("weighting", weighting), ("window", window)),
        apply=mix,
        local_step=step_down,
        window=window,
        elementwise=True,
    ).sealed()


def send_weighted(hyper: Hyper, displacement: Params, state: State, view: View) -> Sent:
    """Send s(τ)·Δ with s = (1 + τ)^-a, of this update's own age."""

    def weighted(d: jax.Array) -> jax.Array:
        return jnp.asarray(view.staleness + 1, d.dtype) ** -hyper["exponent"] * d

    return Sent(jax.tree.map(weighted, displacement), state, Info(update=displacement))


def add_scaled(hyper: Hyper, central: Params, server: State, message: Params, view: View) -> tuple[Params, State]:
    """θ ← θ + η_g·(mean of the step's messages)."""
    del view  # Every update was weighted by its own age when it was sent.
    return jax.tree.map(lambda theta, u: theta + hyper["server_learning_rate"] * u, central, message), server


def fedbuff(
    learning_rate: Any, *, buffer: int = 10, window: int = 1, exponent: Any = 0.5, server_learning_rate: Any = 1.0
) -> Rule:
    """Federated learning with a buffer: K updates of any age, weighted by age, make a step.

    θ ← θ + η_g·(1/K)·Σ_k (1 + τ_k)^-a·Δ_k, with Δ_k the displacement x - s of `window` local steps x ← x - η·g. The
    sum is divided by K and not by the sum of the weights: old updates make the step smaller. τ counts server versions,
    that is steps of K updates. The server keeps nothing but its buffer, the worker nothing.

    Args:
        learning_rate: Step size η of a local step; a scalar, or one value per seed.
        buffer: Updates in a step, K ≥ 1.
        window: Local steps in an update.
        exponent: a ≥ 0 of the weight (1 + τ)^-a; 0 gives every age the same weight.
        server_learning_rate: Step size η_g of the server, 1 for the mean itself.

    Returns:
        A `Rule` that steps every `buffer` commits.

    Raises:
        ValueError: If a number is out of range.

    Example:
        Both workers start at 1 and send -0.5: with K = 2 one step, of their mean.

        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1])
        >>> asim.replay(trace, asim.rules.fedbuff(0.5, buffer=2), asim.workloads.quadratic([1.0])).central["x"].tolist()
        [0.5]

    References:
        Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek and Huba 2022, "Federated learning with buffered asynchronous
        aggregation".
    """
    hyper = {
        **step_size(learning_rate),
        "exponent": checks.not_negative("exponent", exponent),
        "server_learning_rate": checks.not_negative("server_learning_rate", server_learning_rate),
    }
    buffer, window = whole_buffer(buffer), whole_window(window)
    return Rule(
        hyper=hyper,
        name="fedbuff",
        send=send_weighted,
        options=(("buffer", buffer), ("window", window)),
        apply=add_scaled,
        local_step=step_down,
        window=window,
        collect=buffer,
        elementwise=True,
    ).sealed()


class Moments(NamedTuple):
    """What the server of FADAS keeps: means of the update and of its square, and the largest of the latter so far."""

    mean: Params
    square: Params
    largest: Params


def start_moments(hyper: Hyper, params: Params) -> Moments:
    """Everything at zero, in single precision at least."""
    return Moments(*(widen(at_rest(hyper, params)) for _ in Moments._fields))


def send_update(hyper: Hyper, displacement: Params, state: State, view: View) -> Sent:
    """Send Δ."""
    del hyper, view  # The update as it is.
    return Sent({"update": displacement}, state, Info(update=displacement))


def send_with_age(hyper: Hyper, displacement: Params, state: State, view: View) -> Sent:
    """Send Δ, and a histogram of one age: the largest age of a step can be read off the mean of these."""
    del hyper  # The update as it is.
    dtype = jax.tree.leaves(displacement)[0].dtype
    ages = (jnp.arange(OLDEST + 1) == jnp.minimum(view.staleness, OLDEST)).astype(dtype)
    return Sent({"update": displacement, "ages": ages}, state, Info(update=displacement))


def divided(rate: Any, oldest: jax.Array) -> jax.Array:
    """η/τ: the step size of the authors' code where an update is late."""
    return rate / oldest


def capped(rate: Any, oldest: jax.Array) -> jax.Array:
    """min(η, 1/τ): that of the paper."""
    return jnp.minimum(rate, 1 / oldest)


def apply_capped(
    hyper: Hyper, central: Params, server: Moments, message: dict[str, Any], view: View
) -> tuple[Params, Moments]:
    """As `apply_adaptively`, with the step size of the paper where an update is late."""
    return apply_adaptively(hyper, central, server, message, view, lowered=capped)


def apply_adaptively(
    hyper: Hyper,
    central: Params,
    server: Moments,
    message: dict[str, Any],
    view: View,
    *,
    lowered: Callable[[Any, jax.Array], jax.Array] = divided,
) -> tuple[Params, Moments]:
    """θ ← θ + η_t·m/(√v̂ + ε), with AMSGrad's v̂."""
    del view  # It is that of the closing commit alone; the ages come with the messages.
    rate, update = hyper["server_learning_rate"], message["update"]
    if "ages" in message:
        ages = message["ages"]
        oldest = jnp.max(jnp.where(ages > 0, jnp.arange(OLDEST + 1), 0)).astype(ages.dtype)
        late = lowered(rate, jnp.maximum(oldest, 1))
        rate = jnp.where(oldest <= hyper["grace"], rate, late)
    b1, b2 = hyper["momentum"], hyper["decay"]
    update = widen(update)
    mean = jax.tree.map(lambda m, d: b1 * m + (1 - b1) * d, server.mean, update)
    square = jax.tree.map(lambda v, d: b2 * v + (1 - b2) * d * d, server.square, update)
    largest = jax.tree.map(jnp.maximum, server.largest, square)

    def stepped(theta: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        return (theta + rate * m / (jnp.sqrt(v) + hyper["epsilon"])).astype(theta.dtype)

    return jax.tree.map(stepped, central, mean, largest), Moments(mean, square, largest)


LATE = {"divided": apply_adaptively, "capped": apply_capped}


def fadas(
    learning_rate: Any = 1.0,
    *,
    server_learning_rate: Any,
    buffer: int = 5,
    window: int = 1,
    momentum: Any = 0.9,
    decay: Any = 0.99,
    epsilon: Any = 1e-8,
    grace: Any = None,
    late: str = "divided",
) -> Rule:
    """Federated adaptive asynchronous optimisation: AMSGrad at a server that buffers M updates.

    m ← β₁·m + (1 - β₁)·Δ̄, v ← β₂·v + (1 - β₂)·Δ̄², v̂ ← max(v̂, v), θ ← θ + η_t·m/(√v̂ + ε), elementwise and without
    bias correction, with Δ̄ the mean of M displacements x - s of `window` local steps. With a `grace` τ_c, η_t = η
    while the oldest update of the step has τ ≤ τ_c, and beyond it η/τ with ``divided``, as in the
    authors' code, or min(η, 1/τ) with ``capped``, as in the paper (ages above 255 count as 255). The server keeps m, v
    and v̂, the worker nothing. With M = 1, a window of 1 and one worker it is AMSGrad without bias correction.

    Args:
        learning_rate: Step size of a local step; a scalar, or one value per seed. With a window of 1 only its ratio to
            ε matters.
        server_learning_rate: Step size η of the server, the one to tune.
        buffer: Updates in a step, M ≥ 1.
        window: Local steps in an update.
        momentum: β₁ in [0, 1).
        decay: β₂ in [0, 1).
        epsilon: ε ≥ 0; small against the updates, whose size is that of local steps.
        grace: τ_c ≥ 0, the staleness up to which an update counts in full, here with the step size η; None for η at
            any age.
        late: The step size beyond it, "divided" or "capped"; without `grace` it does not matter.

    Returns:
        A `Rule` that steps every `buffer` commits.

    Raises:
        ValueError: If a number is out of range.

    Example:
        The first step with M = 1: Δ = -1, m = -0.1, v = 0.01, and θ = 1 - 0.5·0.1/0.1.

        >>> import asyncsim as asim
        >>> rule = asim.rules.fadas(server_learning_rate=0.5, buffer=1)
        >>> run = asim.replay(asim.Trace.from_commits([0]), rule, asim.workloads.quadratic([1.0]))
        >>> round(float(run.central["x"][0]), 6)
        0.5

    References:
        Wang, Wang, Lu and Chen 2024, "FADAS: towards federated adaptive asynchronous optimization".
    """
    hyper = {
        **step_size(learning_rate),
        "server_learning_rate": checks.not_negative("server_learning_rate", server_learning_rate),
        "momentum": checks.fraction("momentum", momentum),
        "decay": checks.fraction("decay", decay),
        "epsilon": checks.not_negative("epsilon", epsilon),
    }
    if grace is not None:
        hyper["grace"] = checks.not_negative("grace", grace)
    buffer, window = whole_buffer(buffer), whole_window(window)
    return Rule(
        hyper=hyper,
        name="fadas",
        send=send_update if grace is None else send_with_age,
        options=(("buffer", buffer), ("window", window), *((("late", late),) if late != "divided" else ())),
        start_server=start_moments,
        apply=LATE[checks.one_of("late", late, LATE)],
        local_step=step_down,
        window=window,
        collect=buffer,
        elementwise=True,
    ).sealed()


def send_difference(hyper: Hyper, displacement: Params, state: Params, view: View) -> Sent:
    """Send Δ - h with h this worker's last update, which Δ replaces."""
    del hyper, view  # Updates of any age count alike.
    difference = jax.tree.map(jnp.subtract, widen(displacement), widen(state))
    return Sent(difference, displacement, Info(update=displacement))


def start_average(hyper: Hyper, params: Params) -> Params:
    """No update yet; what changes bit by bit is kept in single precision at least."""
    return widen(at_rest(hyper, params))


def apply_calibrated(
    hyper: Hyper, central: Params, server: Params, message: Params, view: View
) -> tuple[Params, Params]:
    """θ ← θ + η_g·(h̄ + mean of the differences), and h̄ moves by their sum over n."""
    del view  # Updates of any age count alike.

    def stepped(theta: jax.Array, h: jax.Array, d: jax.Array) -> jax.Array:
        return (theta + hyper["server_learning_rate"] * (h + d)).astype(theta.dtype)

    share = hyper["buffer"] / hyper["workers"]
    return jax.tree.map(stepped, central, server, message), jax.tree.map(lambda h, d: h + share * d, server, message)


def ca2fl(
    learning_rate: Any,
    *,
    workers: int | None = None,
    buffer: int = 10,
    window: int = 1,
    server_learning_rate: Any = 1.0,
) -> Rule:
    """Cached update calibration: every worker's last update stands in for what the buffer lacks of it.

    θ ← θ + η_g·(h̄ + (1/M)·Σ (Δ_i - h_i)) over a step's M updates, where h_i is the update that worker i sent before
    (0 at first) and h̄ = (1/n)·Σ h_i after the last step. Δ is the displacement x - s of `window` local steps. A worker
    keeps its h_i, on behalf of the server, and the server h̄. With M = n and every worker once in a step it is the plain
    mean; with one worker and M = 1 it is SGD. A worker that lost its state begins again with h_i = 0, but its earlier
    contribution to h̄ remains: use another rule on clusters whose workers crash.

    Args:
        learning_rate: Step size η of a local step; a scalar, or one value per seed.
        workers: Number of workers n; None takes it from the trace, and another number than the trace's is refused.
        buffer: Updates in a step, M ≥ 1.
        window: Local steps in an update.
        server_learning_rate: Step size η_g of the server.

    Returns:
        A `Rule` that steps every `buffer` commits.

    Raises:
        ValueError: If a number is out of range.

    Example:
        Two workers in turn, M = 1. Worker 0 sends -0.5 and x = 0.5, h̄ = -0.25. Worker 1, also at 1, sends -0.5:
        x = 0.5 - 0.25 - 0.5.

        >>> import asyncsim as asim
        >>> rule = asim.rules.ca2fl(0.5, buffer=1)
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.quadratic([1.0])).central["x"].tolist()
        [-0.25]

    References:
        Wang, Cao, Wu, Chen and Chen 2024, "Tackling the data heterogeneity in asynchronous federated learning with
        cached update calibration".
    """
    buffer, window = whole_buffer(buffer), whole_window(window)
    hyper = {
        **step_size(learning_rate),
        "server_learning_rate": checks.not_negative("server_learning_rate", server_learning_rate),
        **given_workers(workers),
        "buffer": buffer,
    }
    return Rule(
        hyper=hyper,
        name="ca2fl",
        send=send_difference,
        options=(("window", window),),
        start=at_rest,
        start_server=start_average,
        bind=bind_workers,
        apply=apply_calibrated,
        local_step=step_down,
        window=window,
        collect=buffer,
        elementwise=True,
    ).sealed()
