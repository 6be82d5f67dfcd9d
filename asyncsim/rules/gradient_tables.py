"""Rules that weigh the workers alike, however fast they are: the server keeps a table with an entry for each."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from asyncsim import checks
from asyncsim.rules.downpour import raw_update
from asyncsim.rules.momentum import at_rest
from asyncsim.rules.rule import Hyper, Info, Params, Rule, Sent, View
from asyncsim.rules.time_optimal import keep, number


class Entry(NamedTuple):
    """A worker's line in a table: the mean of its updates, and how many they are."""

    mean: Params
    taken: jax.Array


def no_entry(params: Params) -> Entry:
    """An empty line."""
    return Entry(jax.tree.map(jnp.zeros_like, params), number(params))


def choose(condition: jax.Array, yes: Any, no: Any) -> Any:
    """One of two trees."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def enter(entry: Entry, update: Params) -> tuple[Entry, Params]:
    """The entry with one more update, and by how much its mean grew."""
    growth = jax.tree.map(lambda u, m: (u - m) / (entry.taken + 1), update, entry.mean)
    return Entry(jax.tree.map(jnp.add, entry.mean, growth), entry.taken + 1), growth


class Table(NamedTuple):
    """What the server of IA²SGD keeps: the sum of all workers' last updates, and how many workers have sent one."""

    total: Params
    members: jax.Array


def start_table(hyper: Hyper, params: Params) -> Table:
    """Nobody has sent anything."""
    return Table(at_rest(hyper, params), number(params))


def start_entry(hyper: Hyper, params: Params) -> Entry:
    """No update yet."""
    del hyper  # The shape is enough.
    return no_entry(params)


def send_exchange(hyper: Hyper, gradient: Params, state: Entry, view: View) -> Sent:
    """Send by how much the worker's line changes, and 1 if it was empty."""
    update = raw_update(hyper, gradient, (), view).message
    change = jax.tree.map(jnp.subtract, update, state.mean)
    message = {"change": change, "joined": 1 - state.taken}
    return Sent(message, Entry(update, jnp.ones_like(state.taken)), Info(update=update))


def apply_table(
    hyper: Hyper, central: Params, server: Table, message: dict[str, Any], view: View
) -> tuple[Params, Table]:
    """θ ← θ + the table's mean, once no line is empty."""
    del view  # Age does not matter.
    total = jax.tree.map(jnp.add, server.total, message["change"])
    members = server.members + message["joined"]
    mean = jax.tree.map(lambda t: t / hyper["workers"], keep(members >= hyper["workers"], total))
    return jax.tree.map(jnp.add, central, mean), Table(total, members)


def ia2sgd(learning_rate: Any, *, workers: int) -> Rule:
    """Incremental aggregated asynchronous SGD (IA²SGD): every commit steps by the mean of all workers' last gradients.

    g_i ← ∇L(s) of the committing worker i, θ ← θ - (η/n)·Σ_j g_j, once every worker has sent a gradient; until then θ
    stays where it is. The worker keeps g_i, on behalf of the server, and the server the sum. One worker is SGD. The
    waiting for the first n gradients is re-derived (the mean is over n entries), not read in the publication. A worker
    that lost its state leaves its old gradient in the sum: give crashing clusters another rule.

    Args:
        learning_rate: Step size η, per commit; a number, or an array with one a seed.
        workers: Number of workers n, that of the trace.

    Returns:
        A `Rule` that keeps a gradient on every worker.

    Raises:
        ValueError: If a number is out of its range.

    Example:
        Worker 0 fills its line, worker 1 completes the table (both read 1): x = 1 - 0.5·1. Then worker 0's line is its
        gradient at 1 once more, x = 0.5 - 0.5·1, and worker 1's becomes 0.5: x = 0 - 0.5·0.75.

        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1, 0, 1])
        >>> run = asim.replay(trace, asim.rules.ia2sgd(0.5, workers=2), asim.workloads.quadratic([1.0]))
        >>> run.central["x"].tolist()
        [-0.375]

    References:
        Maranjyan and Richtárik 2025, "Ringleader ASGD: the first asynchronous SGD with optimal time complexity under
        data heterogeneity" (there as the method to improve on).
    """
    return Rule(
        hyper=numbers_of(learning_rate, workers),
        name="ia2sgd",
        send=send_exchange,
        start=start_entry,
        start_server=start_table,
        apply=apply_table,
        collect=1,
    ).sealed()


def numbers_of(learning_rate: Any, workers: int) -> dict[str, Any]:
    """The step size and the number of workers, checked."""
    workers = checks.require_integer("workers", workers, least=1, remedy="Give the number of the trace.")
    return {"learning_rate": checks.finite("learning_rate", learning_rate), "workers": workers}
