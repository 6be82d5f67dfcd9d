"""Rules that scale an update down, or drop it, by its staleness."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim import checks
from asyncsim.rules.arguments import step_size
from asyncsim.rules.downpour import raw_update
from asyncsim.rules.rule import Hyper, Params, Rule, Sent, State, View
from asyncsim.trees import keep_if

Weight = Callable[[Hyper, jax.Array], Any]  # of a staleness, given as a number of the parameters' dtype


def over_age(message: Params, view: View) -> Params:
    """The message divided by τ + 1."""
    return jax.tree.map(lambda u: u / (view.staleness + 1).astype(u.dtype), message)


def send_over_age(hyper: Hyper, gradient: Params, state: State, view: View) -> Sent:
    """Send Δθ/(τ + 1)."""
    sent = raw_update(hyper, gradient, state, view)
    return sent._replace(message=over_age(sent.message, view))


def adaptive_staleness(learning_rate: Any) -> Rule:
    """Asynchronous SGD in which every update is divided by its staleness plus one.

    θ_{t+1} = θ_t - η·∇L(θ_{t-τ})/(τ + 1), with τ the server versions between the read and this commit. If the server
    averages several updates in a step, each is divided by its own age first.

    Args:
        learning_rate: Step size η, per commit; a scalar, or one value per seed.

    Returns:
        A `Rule` that keeps no state on the worker or the server.

    Raises:
        ValueError: If the step size is negative or not finite.

    Example:
        Two workers in turn: the first update is fresh (τ = 0), the second is one version late (τ = 1).

        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1])
        >>> run = asim.replay(trace, asim.rules.adaptive_staleness(0.5), asim.workloads.quadratic([1.0]))
        >>> run.central["x"].tolist()
        [0.25]

    References:
        Hermans and Louppe 2018, section 4 (the baseline "adaptive staleness"); Jiang et al. 2017 (DynSGD).
    """
    return Rule(
        hyper=step_size(learning_rate), name="adaptive_staleness", send=send_over_age, elementwise=True
    ).sealed()


def one_over_age(hyper: Hyper, age: jax.Array) -> jax.Array:
    """1/max(τ, 1)."""
    del hyper  # The staleness is all that counts.
    return 1 / jnp.maximum(age, 1)


def concurrency_over_age(hyper: Hyper, age: jax.Array) -> jax.Array:
    """n/max(n, τ)."""
    return hyper["concurrency"] / jnp.maximum(hyper["concurrency"], age)


def capped_beyond_concurrency(hyper: Hyper, age: jax.Array) -> jax.Array:
    """1 up to τ = n, then at most 1/(4·η·L·τ)."""
    cap = 1 / (4 * hyper["smoothness"] * hyper["learning_rate"] * jnp.maximum(age, 1))
    return jnp.where(age <= hyper["concurrency"], 1, jnp.minimum(1, cap))


@dataclass(frozen=True)
class SendWeighted:
    """Send Δθ = -η·g times a weight that depends on its own staleness."""

    weight: Weight

    def __call__(self, hyper: Hyper, gradient: Params, state: State, view: View) -> Sent:
        """The `send` of a rule."""
        sent = raw_update(hyper, gradient, state, view)
        message = jax.tree.map(lambda u: u * self.weight(hyper, view.staleness.astype(u.dtype)), sent.message)
        return sent._replace(message=message)


def staleness_aware(learning_rate: Any) -> Rule:
    """Asynchronous SGD in which every update is divided by its staleness, if that is at least 1.

    θ_{t+1} = θ_t - η/max(τ, 1)·∇L(θ_{t-τ}). A fresh update (τ = 0) counts as much as one that is one version old. If
    the server averages several updates in a step, each is divided by its own staleness first.

    Args:
        learning_rate: Step size η, per commit; a scalar, or one value per seed.

    Returns:
        A `Rule` that keeps no state on the worker or the server.

    Raises:
        ValueError: If the step size is negative or not finite.

    Example:
        Three workers in turn, gradients of x²/2 at 1, staleness 0, 1 and 2: 1 - 0.25·(1 + 1 + 1/2):

        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1, 2])
        >>> asim.replay(trace, asim.rules.staleness_aware(0.25), asim.workloads.quadratic([1.0])).central["x"].tolist()
        [0.375]

    References:
        Zhang, Gupta, Lian and Liu 2015, "Staleness-aware Async-SGD for Distributed Deep Learning", arXiv 1511.05950.
    """
    return Rule(
        hyper=step_size(learning_rate), name="staleness_aware", send=SendWeighted(one_over_age), elementwise=True
    ).sealed()


def send_if_recent(hyper: Hyper, gradient: Params, state: State, view: View) -> Sent:
    """Send Δθ = -η·g up to a staleness, and zeros beyond it, even where g is not finite."""
    sent = raw_update(hyper, gradient, state, view)
    return sent._replace(message=keep_if(view.staleness <= hyper["oldest"], sent.message))


def drop_stale(learning_rate: Any, *, oldest: Any) -> Rule:
    """Asynchronous SGD that ignores updates older than a given staleness.

    θ_{t+1} = θ_t - η·∇L(θ_{t-τ}) if τ ≤ oldest, else θ_{t+1} = θ_t. The schedule does not know of it: an ignored commit
    is a version of the server like any other, so it makes the others older, and in a step that averages several
    messages it counts as a message of zeros.

    Args:
        learning_rate: Step size η, per commit; a scalar, or one value per seed.
        oldest: Largest staleness that is applied, at least 0; a scalar, or one value per seed.

    Returns:
        A `Rule` that keeps no state on the worker or the server.

    Raises:
        ValueError: If the step size is negative or not finite or the largest staleness is negative.

    Example:
        Three workers in turn: the third update is two versions old.

        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1, 2])
        >>> run = asim.replay(trace, asim.rules.drop_stale(0.25, oldest=1), asim.workloads.quadratic([1.0]))
        >>> run.central["x"].tolist()
        [0.5]

    References:
        Xie, Koyejo and Gupta 2019, "Asynchronous Federated Optimization", arXiv 1903.03934, whose server may drop
        models that are too old; Koloskova, Stich and Jaggi 2022, arXiv 2206.08307, who analyse dropped gradients.
    """
    hyper = {**step_size(learning_rate), "oldest": checks.not_negative("oldest", oldest)}
    return Rule(hyper=hyper, name="drop_stale", send=send_if_recent, ignores=True, elementwise=True).sealed()


def bind_concurrency(rule: Rule, workers: int) -> Rule:
    """The rule with as many gradients under way as there are workers, unless a number was given."""
    given = rule.hyper.get("concurrency", float(workers))
    if np.any(np.asarray(given) > workers):
        raise ValueError(
            f"`concurrency` of the rule {rule.name!r} must be at most the trace's number of workers, {workers}; got "
            f"{given!r}. Leave it out."
        )
    return replace(rule, hyper={**rule.hyper, "concurrency": given})


def delay_adaptive(learning_rate: Any, *, concurrency: Any = None, smoothness: Any = None) -> Rule:
    """Asynchronous SGD with full steps up to the usual staleness, and smaller ones for older updates.

    θ_{t+1} = θ_t - η_t·∇L(θ_{t-τ}), with n the concurrency and

    - η_t = η·n/max(n, τ) if no smoothness is given;
    - η_t = η for τ ≤ n and min(η, 1/(4·L·τ)) beyond, if it is.

    The first is that of the method's public code. The second was re-derived from its requirements: it is continuous at
    τ = n exactly if η = 1/(4·L·n), and the first with η ≤ 1/(4·L·n) never takes a larger step than that.

    Args:
        learning_rate: Step size η, per commit; a scalar, or one value per seed.
        concurrency: Gradients under way at once, from 1 to the number of workers; None for all of the trace's workers,
            which is right if every worker is always busy. The mean staleness is then n - 1.
        smoothness: Largest curvature L of the loss, positive; None for the first rule.

    Concurrency and smoothness may also each have one value per seed.

    Returns:
        A `Rule` that keeps no state on the worker or the server.

    Raises:
        ValueError: If a number is out of range.

    Example:
        Two workers, the second of which commits last: staleness 0, 0, 0, 3, so that its update counts 2/3:

        >>> import asyncsim as asim
        >>> trace, slope = asim.Trace.from_commits([0, 0, 0, 1]), asim.workloads.quadratic([1.0])
        >>> run = asim.replay(trace, asim.rules.delay_adaptive(0.5), slope)
        >>> round(float(run.central["x"][0]) * 24, 5)
        -5.0
        >>> strict = asim.rules.delay_adaptive(0.5, concurrency=2, smoothness=1.0)  # 1/12 instead of 1/2
        >>> round(float(asim.replay(trace, strict, slope).central["x"][0]) * 24, 5)
        1.0

    References:
        Mishchenko, Bach, Even and Woodworth 2022, "Asynchronous SGD Beats Minibatch SGD Under Arbitrary Delays",
        arXiv 2206.07638; Koloskova, Stich and Jaggi 2022, "Sharper Convergence Guarantees for Asynchronous SGD for
        Distributed and Federated Learning", arXiv 2206.08307.
    """
    hyper = {"learning_rate": checks.not_negative("learning_rate", learning_rate)}
    if concurrency is not None:
        hyper["concurrency"] = checks.not_negative("concurrency", concurrency)
        if np.any(hyper["concurrency"] < 1):
            raise ValueError(f"`concurrency` must be at least 1; got {concurrency!r}. Leave it out for all workers.")
    made = {"hyper": hyper, "name": "delay_adaptive", "bind": bind_concurrency, "elementwise": True}
    if smoothness is None:
        return Rule(send=SendWeighted(concurrency_over_age), **made).sealed()
    hyper["smoothness"] = checks.not_negative("smoothness", smoothness)
    for name in ("learning_rate", "smoothness"):
        if np.any(hyper[name] == 0):
            raise ValueError(f"`{name}` must be positive; got 0. With a smoothness, steps are a share of 1/L.")
    return Rule(send=SendWeighted(capped_beyond_concurrency), **made).sealed()
