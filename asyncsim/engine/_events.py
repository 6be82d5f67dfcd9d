"""The events of one seed of a compiled replay, on packed vectors: local steps, a commit, late reads and pulls.

`_loop` maps these functions over the seeds, and puts their results into the rows of the workers. A branch on `traits`
is taken when the program is compiled, so an ordinary trace has none of them in its program (see `_plan`).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from asyncsim._trees import as_precise, tree_where, tree_zeros_like, widen
from asyncsim.engine._chunks import Schedule, When
from asyncsim.engine._layout import Layout, Row, init_row, parts_of, staleness_by_parameter
from asyncsim.engine._plan import BEGIN, BUFFER, GROUPS, OWN, PULL, RESUME, group_that_reads
from asyncsim.engine._quantities import CommitView
from asyncsim.engine._rows import at
from asyncsim.rules import Rule, View
from asyncsim.workloads._batches import rule_key


def take_local_steps(
    layout: Layout,
    gradient: Callable[..., Any],
    window: Any,
    rule: Rule,
    row: jax.Array,
    batches: Any,
    keys: jax.Array,
    *newest: Any,
) -> tuple[jax.Array, jax.Array]:
    """Take a worker's local steps between its read and its commit: all of them, or the first `window`."""
    assert layout.result is not None
    params = layout.params
    unpacked: Row = layout.row.unpack(row)
    # With `newest`, gradients are taken at the value pulled last. The value that was read is the behaviour policy's:
    # the data were drawn with it, and the loss gets it as `behaviour`.
    start, *behaviour_points = (*(params.as_seen(point) for point in newest), unpacked.read)
    behaviour = [params.unpack(point) if params.whole else point for point in behaviour_points]

    def step(carry: tuple[Any, Any], inputs: tuple[Any, jax.Array]) -> tuple[tuple[Any, Any], jax.Array]:
        x, state = carry
        loss, slope = gradient(params.unpack(x) if params.whole else x, *inputs, *behaviour)
        new = rule.local_step(x, params.as_seen(params.pack(slope)), state)
        # A loop may not change the types of its carry, and a rule in higher precision would.
        return jax.tree.map(lambda value, before: jnp.asarray(value, before.dtype), new, carry), loss

    first = start, unpacked.state
    if window is None:
        (x, state), losses = lax.scan(step, first, (batches, keys))
        loss = losses.mean()
    else:
        # A loop of as many steps as the worker makes. With a mask every worker would take the time of the longest.
        def counted(i: jax.Array, carry: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
            new, loss = step(carry[0], jax.tree.map(lambda inputs: at(inputs, i), (batches, keys)))
            return new, carry[1] + loss

        shape = jax.eval_shape(step, first, jax.tree.map(lambda inputs: inputs[0], (batches, keys)))[1]
        (x, state), total = lax.fori_loop(0, window, counted, (first, jnp.zeros(shape.shape, shape.dtype)))
        loss = total / window.astype(total.dtype)
    displacement = jax.tree.map(jnp.subtract, x, start)
    return loss, layout.result.pack((displacement, state))


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
    window: Any = (),
    key: Any = (),
) -> tuple[jax.Array, Any, Any, Row, CommitView]:
    """Send, apply, resume: return central vector, server state, buffer, row, and the commit to be recorded."""
    params, traits = layout.params, layout.traits
    before = params.as_seen(central)  # θ before the commit
    read, pulled, state, last = layout.row.unpack(row)
    keeps_pulled = bool(jax.tree.leaves(pulled))
    pulled = tree_where(schedule.late_pull, before, pulled) if PULL in traits else before
    ages = staleness_by_parameter(params, layout.groups, schedule.group_staleness)
    window = rule.window if isinstance(window, tuple) else window
    view = View(read, pulled, schedule.staleness, server, staleness_by_parameter=ages, window=window)
    if layout.result is None:
        computed = params.as_seen(result)
    else:
        computed, state = layout.result.unpack(result)
    message, state, info = rule.send(computed, state, view._replace(key=rule_key(key)) if rule.draws else view)
    sent = message
    # A step of several commits applies the mean of their messages, and only its last commit changes the server. The
    # result of the others is computed as well and discarded, as in any branch on a value that is mapped over seeds.
    if BUFFER in traits:
        total = jax.tree.map(jnp.add, buffer, message)
        mean = jax.tree.map(lambda leaf: leaf / schedule.collected.astype(leaf.dtype), total)
        message = as_precise(mean, message)
        buffer = tree_where(schedule.closes, tree_zeros_like(total), total)
    theta, after = rule.apply(before, server, message, view)
    if BUFFER in traits:
        theta, after = tree_where(schedule.closes, (theta, after), (before, server))
    # Where groups are read one by one, all that a worker reads next is read after the commit.
    resumed = read if GROUPS in traits else rule.resume(theta, after, state, view)
    # A worker that goes on from its own value applies its message to the value that it pulled.
    if OWN in traits:
        own_theta, own_server = rule.apply(pulled, server, sent, view)
        resumed = tree_where(schedule.resumes_own, rule.resume(own_theta, own_server, state, view), resumed)
    # A worker that reads later keeps its row, until `apply_event` changes it.
    if RESUME in traits:
        resumed = tree_where(schedule.reads_at_commit, resumed, read)
    vector = theta.astype(params.dtype) if params.whole else params.pack(theta)
    new_row = Row(resumed, view.pulled if keeps_pulled else (), state, read if jax.tree.leaves(last) else ())
    return vector, after, buffer, new_row, CommitView(theta, view, info, loss, computed)


def init_buffer(rule: Rule, traits: tuple[str, ...], row: Row) -> Any:
    """Return the buffer before the first message: zeros, precise enough for a sum, or () without steps of several."""
    if BUFFER not in traits:
        return ()
    server = rule.start_server(row.read)
    view = View(read=row.read, pulled=row.read, staleness=jnp.int32(0), server=server)

    def first_message() -> Any:
        return rule.send(row.read, row.state, view._replace(key=rule_key(jax.random.key(0)))).message

    message = jax.eval_shape(first_message)  # Only its shapes are needed.
    return widen(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), message))


def apply_event(
    event: str, layout: Layout, rule: Rule, central: jax.Array, server: Any, row: jax.Array, when: When, window: Any
) -> Any:
    """Apply an event between commits: return the parts of a worker's row that it changes.

    A pull changes `pulled`, a beginning the whole row, a late read `read`, and the read of a group its pieces of that.
    """
    if event == PULL:
        return layout.params.as_seen(central)
    if event == BEGIN:  # The worker is new, or it has lost its state.
        return init_row(rule, layout.params, layout.traits, central)
    read, pulled, state, last = layout.row.unpack(row)
    ages = staleness_by_parameter(layout.params, layout.groups, when.group_staleness)
    last_read = last if jax.tree.leaves(last) else read
    window = rule.window if isinstance(window, tuple) else window
    view = View(read=last_read, pulled=pulled, staleness=when.staleness, staleness_by_parameter=ages, window=window)
    resumed = rule.resume(layout.params.as_seen(central), server, state, view)
    group = group_that_reads(event)
    if group is None:
        return resumed
    return parts_of(layout, group, tree_where(when.begins, layout.params.as_seen(central), resumed))
