"""Malenia SGD: steps at the present version that wait until every worker is well represented."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from asyncsim import checks
from asyncsim.rules.downpour import raw_update
from asyncsim.rules.gradient_tables import Entry, choose, enter, no_entry, numbers_of
from asyncsim.rules.momentum import at_rest
from asyncsim.rules.rule import Hyper, Info, Params, Rule, Sent, View
from asyncsim.rules.time_optimal import keep, number

ROUNDED = 1e-5  # relative: a sum of 1/B_i in single precision may miss its bound by so much


class Collection(NamedTuple):
    """What the server of Malenia keeps.

    Attributes:
        total: Sum of the lines' means.
        inverse: Σ 1/B_i over the workers with B_i ≥ 1.
        members: How many these are.
        age: Versions of the trace since the last step.
        step: Number of steps made.
    """

    total: Params
    inverse: jax.Array
    members: jax.Array
    age: jax.Array
    step: jax.Array


class DatedEntry(NamedTuple):
    """A worker's line, and the step that it was for."""

    entry: Entry
    step: jax.Array


def start_collection(hyper: Hyper, params: Params) -> Collection:
    """Nothing collected."""
    zero = number(params)
    return Collection(at_rest(hyper, params), zero, zero, jnp.int32(0), jnp.int32(0))


def start_dated(hyper: Hyper, params: Params) -> DatedEntry:
    """No update yet."""
    del hyper  # The shape is enough.
    return DatedEntry(no_entry(params), jnp.int32(0))


def send_entry(hyper: Hyper, gradient: Params, state: DatedEntry, view: View) -> Sent:
    """Send by how much the worker's line changes if its gradient is fresh, else nothing."""
    update = raw_update(hyper, gradient, (), view).message
    fresh = view.staleness <= view.server.age
    old = choose(state.step == view.server.step, state.entry, no_entry(gradient))
    new, growth = enter(old, update)
    inverse = 1 / new.taken - jnp.where(old.taken > 0, 1 / jnp.maximum(old.taken, 1), 0)
    message = {"growth": growth, "inverse": inverse, "joined": number(gradient, old.taken == 0)}
    after = choose(fresh, DatedEntry(new, view.server.step), state)
    return Sent(keep(fresh, message), after, Info(update=update))


def apply_when_balanced(
    hyper: Hyper, central: Params, server: Collection, message: dict[str, Any], view: View
) -> tuple[Params, Collection]:
    """θ ← θ + the mean of the lines, once their harmonic mean length is at least S/n."""
    del view  # Who counts was decided where it was sent.
    n = hyper["workers"]
    total = jax.tree.map(jnp.add, server.total, message["growth"])
    inverse, members = server.inverse + message["inverse"], server.members + message["joined"]
    full = (members >= n) & (n * n >= hyper["batch"] * inverse * (1 - ROUNDED))
    mean = jax.tree.map(lambda t: t / n, keep(full, total))
    total, inverse, members = keep(~full, (total, inverse, members))
    after = Collection(total, inverse, members, jnp.where(full, 0, server.age + 1), server.step + full)
    return jax.tree.map(jnp.add, central, mean), after


def malenia(learning_rate: Any, *, workers: int, batch: int = 20) -> Rule:
    """Malenia SGD: Rennala's step for workers with data of their own, a mean over workers of each one's mean.

    θ ← θ - (η/n)·Σ_i (1/B_i)·Σ_{b=1}^{B_i} ∇L_i(θ), as soon as ((1/n)·Σ_i 1/B_i)⁻¹ ≥ S/n, with B_i gradients of worker
    i at the present version; older ones are ignored. Every worker contributes at least one. The worker keeps its mean
    of the present step, on behalf of the server, and the server their sum. With one worker and S = 1 it is SGD. It
    counts versions of its own, as `rennala` does: give it an asynchronous trace.

    Args:
        learning_rate: Step size η, per step; a number, or an array with one a seed.
        workers: Number of workers n, that of the trace.
        batch: S ≥ 1, the gradients in a step if all workers are equally fast.

    Returns:
        A `Rule` that steps when the workers' harmonic mean number of gradients has reached S/n.

    Raises:
        ValueError: If a number is out of its range.

    Example:
        Worker 0 sends two updates of -0.5 before worker 1 sends its first: three are there, and all weigh a half of
        their worker's, x = 1 - (0.5 + 0.5)/2.

        >>> import asyncsim as asim
        >>> rule, trace = asim.rules.malenia(0.5, workers=2, batch=2), asim.Trace.from_commits([0, 0, 1])
        >>> asim.replay(trace, rule, asim.workloads.quadratic([1.0])).central["x"].tolist()
        [0.5]

    References:
        Tyurin and Richtárik 2023, "Optimal time complexities of parallel stochastic optimization methods under a fixed
        computation model".
    """
    batch = checks.require_integer("batch", batch, least=1, remedy="Collect one gradient or more.")
    return Rule(
        hyper={**numbers_of(learning_rate, workers), "batch": batch},
        name="malenia",
        send=send_entry,
        start=start_dated,
        start_server=start_collection,
        apply=apply_when_balanced,
        collect=1,
    ).sealed()
