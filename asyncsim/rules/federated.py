"""Federated and buffered rules: local steps, and a server that steps once it has collected several updates."""

from typing import Any

import jax
import jax.numpy as jnp

from asyncsim import checks
from asyncsim.rules.momentum import at_rest
from asyncsim.rules.rule import Hyper, Info, Params, Rule, Sent, State, View


def descend(hyper: Hyper, params: Params, gradient: Params, state: State) -> tuple[Params, State]:
    """A local step x ← x - η·g."""
    return jax.tree.map(lambda x, g: x - hyper["learning_rate"] * g, params, gradient), state


def send_by_age(hyper: Hyper, displacement: Params, state: State, view: View) -> Sent:
    """Send s(τ)·Δ with s = (1 + τ)^-a, of this update's own age."""

    def weighted(d: jax.Array) -> jax.Array:
        return (view.staleness + 1).astype(d.dtype) ** -hyper["exponent"] * d

    return Sent(jax.tree.map(weighted, displacement), state, Info(update=displacement))


def add_scaled(hyper: Hyper, central: Params, server: State, message: Params, view: View) -> tuple[Params, State]:
    """θ ← θ + η_g·(mean of the step's messages)."""
    del view  # Every age has been weighed where it was sent.
    return jax.tree.map(lambda theta, u: theta + hyper["server_learning_rate"] * u, central, message), server


def fedbuff(
    learning_rate: Any, *, buffer: int = 10, window: int = 1, exponent: Any = 0.5, server_learning_rate: Any = 1.0
) -> Rule:
    """Federated learning with a buffer: K updates of any age, weighed by age, make a step.

    θ ← θ + η_g·(1/K)·Σ_k (1 + τ_k)^-a·Δ_k, with Δ_k the displacement x - s of `window` local steps x ← x - η·g. The
    sum is divided by K and not by the sum of the weights: old updates make the step smaller. τ counts server versions,
    that is steps of K updates. The server keeps nothing but its buffer, the worker nothing.

    Args:
        learning_rate: Step size η of a local step; a number, or an array with one a seed.
        buffer: Updates in a step, K ≥ 1.
        window: Local steps in an update.
        exponent: a ≥ 0 of the weight (1 + τ)^-a; 0 counts every age alike.
        server_learning_rate: Step size η_g of the server, 1 for the mean itself.

    Returns:
        A `Rule` that steps every `buffer` commits.

    Raises:
        ValueError: If a number is out of its range.

    Example:
        Both workers start at 1 and send -0.5: with K = 2 one step, of their mean.

        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1])
        >>> run = asim.replay(trace, asim.rules.fedbuff(0.5, buffer=2), asim.workloads.quadratic([1.0]))
        >>> run.central["x"].tolist()
        [0.5]

    References:
        Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek and Huba 2022, "Federated learning with buffered asynchronous
        aggregation".
    """
    hyper = {
        "learning_rate": checks.finite("learning_rate", learning_rate),
        "exponent": checks.not_negative("exponent", exponent),
        "server_learning_rate": checks.finite("server_learning_rate", server_learning_rate),
    }
    buffer, window = whole("buffer", buffer), whole("window", window)
    options = (("buffer", buffer), ("window", window))
    return Rule(
        hyper=hyper,
        name="fedbuff",
        send=send_by_age,
        options=options,
        apply=add_scaled,
        local_step=descend,
        window=window,
        collect=buffer,
    ).sealed()


def send_difference(hyper: Hyper, displacement: Params, state: Params, view: View) -> Sent:
    """Send Δ - h with h this worker's last update, which Δ replaces."""
    del hyper, view  # No age is weighed.
    return Sent(jax.tree.map(jnp.subtract, displacement, state), displacement, Info(update=displacement))


def apply_calibrated(
    hyper: Hyper, central: Params, server: Params, message: Params, view: View
) -> tuple[Params, Params]:
    """θ ← θ + η_g·(h̄ + mean of the differences), and h̄ moves by their sum over n."""
    del view  # No age is weighed.

    def stepped(theta: jax.Array, h: jax.Array, d: jax.Array) -> jax.Array:
        return theta + hyper["server_learning_rate"] * (h + d)

    share = hyper["buffer"] / hyper["workers"]
    return jax.tree.map(stepped, central, server, message), jax.tree.map(lambda h, d: h + share * d, server, message)


def ca2fl(
    learning_rate: Any, *, workers: int, buffer: int = 10, window: int = 1, server_learning_rate: Any = 1.0
) -> Rule:
    """Cached update calibration: every worker's last update stands in for what the buffer lacks of it.

    θ ← θ + η_g·(h̄ + (1/M)·Σ (Δ_i - h_i)) over a step's M updates, where h_i is the update that worker i sent before
    (0 at first) and h̄ = (1/n)·Σ h_i after the last step. Δ is the displacement x - s of `window` local steps. A worker
    keeps its h_i, on behalf of the server, and the server h̄. With M = n and every worker once in a step it is the plain
    mean; with one worker and M = 1 it is SGD. A worker that lost its state begins again with h_i = 0, and what it had
    contributed to h̄ stays there: give crashing clusters another rule.

    Args:
        learning_rate: Step size η of a local step; a number, or an array with one a seed.
        workers: Number of workers n, that of the trace.
        buffer: Updates in a step, M ≥ 1.
        window: Local steps in an update.
        server_learning_rate: Step size η_g of the server.

    Returns:
        A `Rule` that steps every `buffer` commits.

    Raises:
        ValueError: If a number is out of its range.

    Example:
        Two workers in turn, M = 1. Worker 0 sends -0.5 and x = 0.5, h̄ = -0.25. Worker 1, also at 1, sends -0.5:
        x = 0.5 - 0.25 - 0.5.

        >>> import asyncsim as asim
        >>> rule = asim.rules.ca2fl(0.5, workers=2, buffer=1)
        >>> run = asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.quadratic([1.0]))
        >>> run.central["x"].tolist()
        [-0.25]

    References:
        Wang, Cao, Wu, Chen and Chen 2024, "Tackling the data heterogeneity in asynchronous federated learning with
        cached update calibration".
    """
    hyper = {
        "learning_rate": checks.finite("learning_rate", learning_rate),
        "server_learning_rate": checks.finite("server_learning_rate", server_learning_rate),
        "workers": checks.require_integer("workers", workers, least=1, remedy="Give the number of the trace."),
        "buffer": whole("buffer", buffer),
    }
    window = whole("window", window)
    return Rule(
        hyper=hyper,
        name="ca2fl",
        send=send_difference,
        options=(("window", window),),
        start=at_rest,
        start_server=at_rest,
        apply=apply_calibrated,
        local_step=descend,
        window=window,
        collect=hyper["buffer"],
    ).sealed()


def whole(name: str, value: Any) -> int:
    """A count of at least one."""
    return checks.require_integer(name, value, least=1, remedy="1 waits for nothing.")
