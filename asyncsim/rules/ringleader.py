"""Ringleader ASGD: phases that first hear every worker and then answer every worker with a step."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from asyncsim.rules.downpour import raw_update
from asyncsim.rules.gradient_tables import Entry, Table, choose, enter, no_entry, numbers_of, start_table
from asyncsim.rules.rule import Hyper, Info, Params, Rule, Sent, View
from asyncsim.rules.time_optimal import keep, number


class Leader(NamedTuple):
    """What the server keeps.

    Attributes:
        table: Sum of the lines' means, and the workers in it; while answering, those that still wait for a step.
        later: The next phase's.
        answering: Whether every worker has been heard in this phase.
        phase: Number of phases that are over.
    """

    table: Table
    later: Table
    answering: jax.Array
    phase: jax.Array


class Ledger(NamedTuple):
    """What a worker keeps: its lines in both tables, whether it was answered, and the phase that this is about."""

    entry: Entry
    later: Entry
    answered: jax.Array
    phase: jax.Array


def start_leader(hyper: Hyper, params: Params) -> Leader:
    """Two empty tables."""
    return Leader(start_table(hyper, params), start_table(hyper, params), jnp.bool_(False), jnp.int32(0))


def start_ledger(hyper: Hyper, params: Params) -> Ledger:
    """Two empty lines."""
    del hyper  # The shape is enough.
    return Ledger(no_entry(params), no_entry(params), number(params), jnp.int32(0))


def turn_page(state: Ledger, phase: jax.Array) -> Ledger:
    """The ledger in this phase: if it is about the one before, the later line is the present one."""
    empty = jax.tree.map(jnp.zeros_like, state.later)
    next_page = Ledger(state.later, empty, jnp.zeros_like(state.answered), phase)
    return choose(state.phase == phase, state, next_page)


def send_line(hyper: Hyper, gradient: Params, state: Ledger, view: View) -> Sent:
    """Send what the gradient adds to one of the two tables, and whether it is answered with a step."""
    update = raw_update(hyper, gradient, (), view).message
    leader, state = view.server, turn_page(state, view.server.phase)
    late = leader.answering & (state.answered > 0)  # had its step in this phase: for the next table
    old = choose(late, state.later, state.entry)
    new, growth = enter(old, update)
    joins = old.taken == 0
    answered = ~late & (leader.answering | (leader.table.members + joins >= hyper["workers"]))
    message = {
        "table": Table(keep(~late, growth), number(gradient, joins & ~late)),
        "later": Table(keep(late, growth), number(gradient, joins & late)),
        "answered": number(gradient, answered),
    }
    after = Ledger(
        entry=choose(late, state.entry, new),
        later=choose(late, new, state.later),
        answered=number(gradient, late | answered),
        phase=leader.phase,
    )
    return Sent(message, after, Info(update=update))


def apply_in_phases(
    hyper: Hyper, central: Params, server: Leader, message: dict[str, Any], view: View
) -> tuple[Params, Leader]:
    """θ ← θ + the table's mean if this commit is answered; the phase ends when all were."""
    del view  # Age does not matter.
    answered = message["answered"] > 0
    table = jax.tree.map(jnp.add, server.table, message["table"])
    later = jax.tree.map(jnp.add, server.later, message["later"])
    mean = jax.tree.map(lambda t: t / hyper["workers"], keep(answered, table.total))
    table = Table(table.total, table.members - message["answered"])
    over = answered & (table.members <= 0)
    after = Leader(
        table=choose(over, later, table),
        later=keep(~over, later),
        answering=(server.answering | answered) & ~over,
        phase=server.phase + over,
    )
    return jax.tree.map(jnp.add, central, mean), after


def ringleader(learning_rate: Any, *, workers: int) -> Rule:
    """Ringleader ASGD: every step is the mean over workers of each one's mean gradient, none older than 2n - 2 steps.

    θ ← θ - (η/n)·Σ_i (1/b_i)·Σ_{b=1}^{b_i} g_i^b. In phases: gradients are collected until every worker has sent one;
    then every worker is answered with one step, at its next commit (the last to be heard at once), whose gradient
    enters the table first. What an answered worker sends in the meantime opens the table of the next phase. θ stays
    where it is while the server collects. The worker keeps its lines of both tables, on behalf of the server, and the
    server their sums. One worker is SGD. A worker that lost its state leaves its line in the sums: give crashing
    clusters another rule. It counts versions of its own: give it an asynchronous trace.

    Args:
        learning_rate: Step size η, per step; a number, or an array with one a seed.
        workers: Number of workers n, that of the trace.

    Returns:
        A `Rule` that makes n steps in a phase.

    Raises:
        ValueError: If a number is out of its range.

    Example:
        Worker 0 is heard, worker 1 is heard and answered: x = 1 - 0.5. Worker 0 sends its second gradient at 1 and is
        answered, x = 0.5 - 0.5·(1 + 1)/2, and the phase is over.

        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1, 0])
        >>> run = asim.replay(trace, asim.rules.ringleader(0.5, workers=2), asim.workloads.quadratic([1.0]))
        >>> run.central["x"].tolist()
        [0.0]

    References:
        Maranjyan and Richtárik 2025, "Ringleader ASGD: the first asynchronous SGD with optimal time complexity under
        data heterogeneity".
    """
    return Rule(
        hyper=numbers_of(learning_rate, workers),
        name="ringleader",
        send=send_line,
        start=start_ledger,
        start_server=start_leader,
        apply=apply_in_phases,
        collect=1,
    ).sealed()
