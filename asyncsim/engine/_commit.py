"""The events of one seed inside the compiled loop, on packed vectors: local steps, a commit, late reads and pulls."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from asyncsim._trees import as_precise, tree_where, widen
from asyncsim.engine._chunks import Schedule, When
from asyncsim.engine._layout import (
    Layout,
    Packing,
    Row,
    as_seen,
    first_row,
    offsets_of,
    parts_of,
    sees_vector,
    staleness_by_parameter,
    tree_of,
)
from asyncsim.engine._plan import BEGIN, BUFFER, GROUPS, OWN, PULL, RESUME, group_that_reads
from asyncsim.engine._quantities import QUANTITIES, CommitView, Measure, require
from asyncsim.rules import Rule, View
from asyncsim.workloads._batches import rule_key

FINITE = "finite"  # recorded by the engine itself, to find the commit at which a replay diverged


def take_local_steps(
    layout: Layout,
    gradient: Callable[..., Any],
    rule: Rule,
    row: jax.Array,
    batches: Any,
    keys: jax.Array,
    *newest: Any,
) -> tuple[jax.Array, jax.Array]:
    """A worker's local steps between its read and its commit."""
    assert layout.result is not None
    params = layout.params
    begun: Row = layout.row.unpack(row)
    vector = sees_vector(rule, params)
    start, *drew = (*(as_seen(rule, params, one) for one in newest), begun.read)
    behaviour = [params.unpack(one) if vector else one for one in drew]

    def one(carry: tuple[Any, Any], own: tuple[Any, jax.Array]) -> tuple[tuple[Any, Any], jax.Array]:
        x, state = carry
        loss, slope = gradient(params.unpack(x) if vector else x, *own, *behaviour)
        new = rule.local_step(x, as_seen(rule, params, params.pack(slope)), state)
        return jax.tree.map(lambda value, before: jnp.asarray(value, before.dtype), new, carry), loss

    (x, state), losses = lax.scan(one, (start, begun.state), (batches, keys))
    displacement = jax.tree.map(jnp.subtract, x, start)
    return losses.mean(), layout.result.pack((displacement, state))


def apply_commit(
    layout: Layout,
    rule: Rule,
    central: jax.Array,
    server: Any,
    buffer: Any,
    row: jax.Array,
    loss: jax.Array,
    result: jax.Array,
    schedule: Schedule,
    key: Any = (),
) -> tuple[jax.Array, Any, Any, Row, CommitView]:
    """Send, apply, resume: the new central vector, server state, buffer and row, and the commit to be recorded."""
    params, traits = layout.params, layout.traits
    before = as_seen(rule, params, central)
    read, pulled, state, last = layout.row.unpack(row)
    keeps_pulled = bool(jax.tree.leaves(pulled))
    pulled = tree_where(schedule.late_pull, before, pulled) if PULL in traits else before
    ages = staleness_by_parameter(rule, params, layout.groups, schedule.group_staleness)
    view = View(read, pulled, schedule.staleness, server, staleness_by_parameter=ages)
    if layout.result is None:
        computed = as_seen(rule, params, result)
    else:
        computed, state = layout.result.unpack(result)
    message, state, info = rule.send(computed, state, with_key(rule, view, key))
    sent = message
    if BUFFER in traits:
        total = jax.tree.map(jnp.add, buffer, message)
        mean = jax.tree.map(lambda leaf: leaf / schedule.collected.astype(leaf.dtype), total)
        message = as_precise(mean, message)
        buffer = tree_where(schedule.closes, jax.tree.map(jnp.zeros_like, total), total)
    theta, after = rule.apply(before, server, message, view)
    if BUFFER in traits:
        theta, after = tree_where(schedule.closes, (theta, after), (before, server))
    # Where groups are read one by one, all that a worker reads next is read after the commit.
    resumed = read if GROUPS in traits else rule.resume(theta, after, state, view)
    if OWN in traits:
        own, own_server = rule.apply(pulled, server, sent, view)
        resumed = tree_where(schedule.own, rule.resume(own, own_server, state, view), resumed)
    if RESUME in traits:
        resumed = tree_where(schedule.prompt, resumed, read)
    vector = theta.astype(params.dtype) if sees_vector(rule, params) else params.pack(theta)
    new_row = Row(resumed, view.pulled if keeps_pulled else (), state, read if jax.tree.leaves(last) else ())
    return vector, after, buffer, new_row, CommitView(theta, view, info, loss, computed)


def with_key(rule: Rule, view: View, key: Any) -> View:
    """The view of a rule that draws, while it sends."""
    return view._replace(key=rule_key(key)) if rule.draws else view


def first_buffer(rule: Rule, traits: tuple[str, ...], row: Row) -> Any:
    """The buffer before the first message: zeros, precise enough for a sum, or () if every commit is a step."""
    if BUFFER not in traits:
        return ()
    server = rule.start_server(row.read)
    view = View(read=row.read, pulled=row.read, staleness=jnp.int32(0), server=server)

    def first_message() -> Any:
        return rule.send(row.read, row.state, with_key(rule, view, jax.random.key(0))).message

    message = jax.eval_shape(first_message)
    return widen(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), message))


def measure(params: Packing, rule: Rule, name: str, commit: CommitView, own: Mapping[str, Measure]) -> jax.Array:
    """The value of a recorded quantity of a commit as the rule sees it, with the user's quantities in `own`."""
    if name == FINITE:
        leaves = jax.tree.leaves((commit.central, commit.loss))
        return jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves]).all()
    if name in own:
        return jnp.asarray(own[name](as_trees(rule, params, commit)))
    require(name, commit.info, rule.name)
    return QUANTITIES[name].measure(as_trees(rule, params, commit) if QUANTITIES[name].by_tensor else commit)


def as_trees(rule: Rule, params: Packing, commit: CommitView) -> CommitView:
    """The commit with the user's pytrees where the rule sees vectors."""
    if not sees_vector(rule, params):
        return commit
    central, read, pulled, info, gradient = jax.tree.map(
        params.unpack, (commit.central, commit.view.read, commit.view.pulled, commit.info, commit.gradient)
    )
    ages = tree_of(params, commit.view.staleness_by_parameter)
    view = View(read, pulled, commit.view.staleness, commit.view.server, staleness_by_parameter=ages)
    return CommitView(central=central, view=view, info=info, loss=commit.loss, gradient=gradient)


def read_later(layout: Layout, rule: Rule, central: jax.Array, server: Any, row: jax.Array, when: When) -> Any:
    """Where a worker that waited after its commit takes its next gradient."""
    read, pulled, state, last = layout.row.unpack(row)
    ages = staleness_by_parameter(rule, layout.params, layout.groups, when.group_staleness)
    last_read = last if jax.tree.leaves(last) else read
    view = View(read=last_read, pulled=pulled, staleness=when.staleness, staleness_by_parameter=ages)
    return rule.resume(as_seen(rule, layout.params, central), server, state, view)


def begin_anew(layout: Layout, rule: Rule, central: jax.Array, server: Any, row: jax.Array, when: When) -> Any:
    """The row of a worker that reads for the first time, or for the first time since it lost its state."""
    del server, row, when  # Nothing is left of the worker's state.
    return first_row(rule, layout.params, layout.traits, central)


def pull_now(layout: Layout, rule: Rule, central: jax.Array, server: Any, row: jax.Array, when: When) -> Any:
    """The value that a worker pulls when it does not commit at once."""
    del server, row, when  # The central variable is enough.
    return as_seen(rule, layout.params, central)


def read_group(
    group: int, layout: Layout, rule: Rule, central: jax.Array, server: Any, row: jax.Array, when: When
) -> Any:
    """One group's part of where a worker takes its next gradient."""
    resumed = read_later(layout, rule, central, server, row, when)
    value = tree_where(when.begins, as_seen(rule, layout.params, central), resumed)
    return parts_of(layout, rule, group, value)


CHANGES = {RESUME: read_later, BEGIN: begin_anew, PULL: pull_now}


def change_by(event: str) -> Callable[..., Any]:
    """`(layout, rule, central, server, row, when)` -> the parts of the worker's row that an event changes."""
    group = group_that_reads(event)
    return CHANGES[event] if group is None else partial(read_group, group)


def changed_offsets(layout: Layout, rule: Rule, event: str, parts: Any) -> Sequence[int]:
    """Offsets in the row of the parts that an event changes: all, `read` (at the front), a group of it, or `pulled`."""
    group = group_that_reads(event)
    if group is not None:
        return offsets_of(layout, rule, group)
    count = len(jax.tree.leaves(parts))
    first = count if event == PULL else 0
    return layout.row.offsets[first : first + count]
