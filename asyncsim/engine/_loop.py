"""The compiled side of a replay: one program for every chunk of a trace, and for every seed.

With one lane, the gradient is taken inside the loop, one commit after another: on one CPU device nothing is faster.
With more, the chunk comes cut into waves of at most `lanes` commits whose gradients can all be taken at the wave's
start (`engine._plan`). Then only the cheap part, which must keep the order of the commits, is left in the loop.

Where gradients are taken at the newest parameters (`Layout.newest`), each step needs the result of the one before, so
that a wave is at most a step: a replay takes at least as long as its steps' gradients one after another. With one lane
nothing is lost. With several, lanes beyond the commits of a step would be idle.

All that a worker keeps (the value it read, the rule's state) is one row of one array of shape (workers, seeds, row). A
commit takes a row out, computes, and puts a new one in its place. Left alone, XLA fuses the reading of the row into
each of its uses, can then no longer tell that all of them come before the row is overwritten, and copies the whole
array at every commit: 1.6 ms instead of 49 µs at 100 workers and 17 226 parameters. A test counts the copies in the
program.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec

from asyncsim._trees import weakly_typed, widen
from asyncsim.engine._chunks import Chunk, ChunkEvents, Schedule
from asyncsim.engine._events import apply_commit, apply_event, init_buffer, take_local_steps
from asyncsim.engine._layout import Carry, Layout, Outer, Problem, init_row, offsets_of
from asyncsim.engine._plan import BUFFER, GROUPS, PULL, PUSHES, RESUME, VARIABLES, group_that_reads
from asyncsim.engine._quantities import QUANTITIES, CommitView, measure
from asyncsim.engine._rows import at, put_at, put_row, take_row, version_at
from asyncsim.rules import Rule
from asyncsim.rules._hierarchy import global_rule_of
from asyncsim.rules._schedules import at_version
from asyncsim.workloads._batches import job_key
from asyncsim.workloads._programs import programs

FEW_TARGETS = 4  # of a mixing, which are put in their places one by one


class Stateless(Rule, named=False):
    """A stand-in in `begin` for every rule without state, so that all of them start by one program."""

    elementwise: bool

    def send(self, gradient: Any, state: Any, view: Any) -> Any:
        raise NotImplementedError


def as_begun(rule: Rule, traits: tuple[str, ...]) -> Rule:
    """Return the rule without methods that `begin` does not call, so that rules that begin alike share a program."""
    # For these traits, `begin` asks for the shapes of `send`, or for the fields that `resume` uses.
    if {BUFFER, RESUME, GROUPS, PUSHES} & {*traits}:
        return rule
    stateless = type(rule).start is Rule.start and type(rule).start_server is Rule.start_server
    return Stateless(rule.sees_vector) if stateless else rule


@programs("layout", "workers")
def begin(rule: Rule, central: jax.Array, *, layout: Layout, workers: int) -> Carry:
    """Return the carry before the first commit: every worker has read the first central variable."""

    def first(rule: Rule, vector: jax.Array) -> tuple[jax.Array, Any, Any]:
        row = init_row(rule, layout.params, layout.traits, vector)
        return layout.row.pack(row), rule.start_server(row.read), init_buffer(rule, layout.traits, row)

    bound, differing = bind_rule(first, rule)
    row, server, buffer = over_seeds(bound, len(central))(differing, central)
    outer = begin_outer(rule, central, layout) if PUSHES in layout.traits else ()
    if VARIABLES in layout.traits:
        # Until the first commit, messages bring the first value.
        sent = repeat_leading(layout.sent, central) if layout.sent else ()
        central, server = jax.tree.map(partial(repeat_leading, layout.variables), (central, server))
    else:
        sent = ()
    return Carry(central, server, jnp.broadcast_to(row, (workers, *row.shape)), buffer, sent, outer)


def begin_outer(rule: Rule, central: jax.Array, layout: Layout) -> Outer:
    """Return the state of the global server and of those of the regions, which all have the first value."""

    def first(rule: Rule, vector: jax.Array) -> tuple[Any, jax.Array]:
        row = init_row(global_rule_of(rule), layout.params, (), vector)
        return global_rule_of(rule).start_server(row.read), layout.outer.pack(row)  # type: ignore[union-attr]

    bound, differing = bind_rule(first, rule)
    server, row = over_seeds(bound, len(central))(differing, central)
    losses = jnp.zeros((layout.variables, len(central)), jnp.result_type(float))
    return Outer(server, repeat_leading(layout.servers, row), losses, jnp.zeros(layout.variables, jnp.int32))


def repeat_leading(times: int, leaf: jax.Array) -> jax.Array:
    return jnp.broadcast_to(leaf, (times, *leaf.shape))


@programs("longest")
def commit_keys(
    keys: jax.Array, worker: jax.Array, job: jax.Array, windows: Any = None, *, longest: int | None
) -> jax.Array:
    """Return the random keys of a chunk's commits, (length, seeds), or of local steps, (length, seeds, longest).

    The windows of the workers, (workers,), are None where all of them make the longest one.
    """
    per_commit = jax.vmap(jax.vmap(job_key, (0, None)))
    keys = keys[:, worker].T
    if longest is None:
        return per_commit(keys, job)
    window = longest if windows is None else windows[worker][:, None]
    steps = job[:, None] * window + jnp.arange(longest, dtype=jnp.int32)[None]
    return jax.vmap(per_commit, (None, 1), 2)(keys, steps)


@programs("layout", donate=("carry",))
def replay_chunk(
    carry: Carry, count: Any, chunk: Chunk, problem: Problem, *, layout: Layout
) -> tuple[Carry, dict[str, jax.Array], jax.Array]:
    """Replay the first `count` commits of a chunk, or with several lanes its first `count` waves."""
    loop = Loop(chunk, problem, layout, seeds=carry.central.shape[-2], opaque_true=count >= 0)
    out = loop.room(carry)
    body = loop.commit_alone if layout.lanes == 1 else loop.wave
    carry, out = lax.fori_loop(0, count, body, (with_sent(carry, layout), out))
    carry = without_sent(carry, layout)
    finite = jnp.isfinite(carry.central).all(-1)
    return carry, out, finite.all(0) if VARIABLES in layout.traits else finite


@programs("layout", donate=("carry",))
def prepare(carry: Carry, chunk: Chunk, problem: Problem, *, layout: Layout) -> Carry:
    """Do what is left between two chunks: mixings that belong to the next commit, and reads after them."""
    loop = Loop(chunk, problem, layout, seeds=carry.central.shape[-2], opaque_true=chunk.worker[0] >= 0)
    return without_sent(loop.between(jnp.int32(0), with_sent(carry, layout)), layout)


def with_sent(carry: Carry, layout: Layout) -> Carry:
    """Return the state as the loop has it, where values on their way follow the variables."""
    if not layout.sent:
        return carry
    return carry._replace(central=jnp.concatenate([carry.central, carry.sent]), sent=())


def without_sent(carry: Carry, layout: Layout) -> Carry:
    if layout.sent:
        carry = carry._replace(central=carry.central[: layout.variables], sent=carry.central[layout.variables :])
    # Otherwise XLA might spread the state, and the next chunk would be another program.
    return carry if layout.mesh is None else lax.with_sharding_constraint(carry, layout.everywhere)


class Loop:
    """The loop's body and the values in its closure, while JAX traces it."""

    def __init__(self, chunk: Chunk, problem: Problem, layout: Layout, seeds: int, opaque_true: jax.Array) -> None:
        self.chunk = chunk
        self.problem = problem
        self.layout = layout
        self.seeds = seeds
        self.opaque_true = opaque_true
        self.keys = chunk.keys
        window = problem.rule.window
        self.windows: Any = np.array(window, np.int32) if isinstance(window, tuple) else None
        if chunk.keys is None:  # Nothing uses them.
            shape = (len(chunk.worker), seeds, *(() if layout.result is None else (int(np.max(window)),)))
            self.keys = jnp.broadcast_to(problem.keys[0, 0], shape)
        draw = problem.noise
        if layout.result is not None:  # Every local step has a key of its own.
            draw = draw and jax.vmap(draw)
        # Drawn for the whole chunk at once: commit by commit it would cost twenty times as much.
        workers = []
        if layout.noise_by_worker:
            each = jnp.reshape(chunk.worker, (-1, *(1 for _ in self.keys.shape[1:])))
            workers = [jnp.broadcast_to(each, self.keys.shape)]
        self.drawn = None if draw is None else jax.vmap(jax.vmap(draw))(self.keys, *workers)

    def commit_alone(self, k: jax.Array, state: tuple) -> tuple:

        def commit(state: tuple) -> tuple:
            row, slot = take_row(state[0].rows, at(self.chunk.worker, k), self.opaque_true)
            loss, result = self.compute(k, row, at(self.keys, k), *self.newest(k, state[0].central, row))
            return self.finish(k, state, row, slot, loss, result)

        return self.unless_push(k, commit, state)

    def unless_push(self, k: jax.Array, commit: Callable[[tuple], tuple], state: tuple) -> tuple:
        """Return the state after commit k, which is a worker's or the push of a region."""
        if PUSHES not in self.layout.traits:
            return commit(state)
        pushes: Any = self.chunk.pushes
        return lax.cond(at(pushes.region, k) >= 0, partial(self.push, k), commit, state)

    def wave(self, i: jax.Array, state: tuple) -> tuple:
        """Compute wave i: all its gradients together, then its commits in order."""
        start, size = at(self.chunk.wave_start, i), at(self.chunk.wave_size, i)
        losses, results = self.compute_wave(state[0], start, size)

        def commit(lane: jax.Array, state: tuple) -> tuple:

            def of_worker(state: tuple) -> tuple:
                row, slot = take_row(state[0].rows, at(self.chunk.worker, start + lane), self.opaque_true)
                loss, result = (
                    at(losses, self.layout.index_of(lane)),
                    at(results, self.layout.index_of(lane)),
                )
                return self.finish(start + lane, state, row, slot, loss, result)

            return self.unless_push(start + lane, of_worker, state)

        return lax.fori_loop(0, size, commit, state)

    def compute_wave(self, carry: Carry, start: jax.Array, size: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Compute losses (lanes, seeds) and results (lanes, seeds, …), with lane l at index `layout.index_of(l)`."""
        layout, devices = self.layout, self.layout.devices
        each = layout.lanes // devices

        def of_commit(k: jax.Array) -> tuple[jax.Array, jax.Array]:
            row = at(carry.rows, at(self.chunk.worker, k))
            return self.compute(k, row, at(self.keys, k), *self.newest(k, carry.central, row))

        def of_device() -> tuple[jax.Array, jax.Array]:
            first = start + (lax.axis_index("lanes") if layout.mesh is not None else 0)
            if layout.batched:  # Idle lanes cost an accelerator little.
                ks = first + devices * jnp.arange(each, dtype=jnp.int32)
                return jax.vmap(of_commit)(jnp.minimum(ks, len(self.chunk.worker) - 1))
            empty = jax.tree.map(lambda s: jnp.zeros((each, *s.shape), s.dtype), jax.eval_shape(of_commit, first))
            # This device's share of the wave. On a CPU, idle lanes would cost as much as others.
            count = (start + size - first + devices - 1) // devices

            def put(i: jax.Array, results: tuple) -> tuple:
                new = of_commit(first + devices * i)
                return tuple(put_at(r, n, i) for r, n in zip(results, new, strict=True))

            return lax.fori_loop(0, count, put, empty)

        if layout.mesh is None:
            return of_device()
        spec = PartitionSpec("lanes")
        return jax.shard_map(of_device, mesh=layout.mesh, in_specs=(), out_specs=spec, check_vma=False)()

    def newest(self, k: jax.Array, central: jax.Array, row: jax.Array) -> tuple[jax.Array, ...]:
        """Return the value that commit k's worker pulled last, (seeds, parameters), or () if it does not matter."""
        if not self.layout.newest:
            return ()
        if PULL not in self.layout.traits:
            return (central,)
        size = self.layout.params.size  # `pulled` lies next to `read`
        pulled = row[..., size : 2 * size].astype(central.dtype)
        return (jnp.where(at(self.chunk.schedule.late_pull, k), central, pulled),)

    def batch(self, k: jax.Array) -> Any:
        """Return mini-batches of commit k with leading axis `seeds`, if asked for with the worker's number, or None."""
        if self.chunk.examples is None:
            batch = jax.tree.map(lambda array: at(array, k), self.drawn)
        else:
            examples = at(self.chunk.examples, k)
            batch = jax.tree.map(lambda array: jnp.take(array, examples, axis=0, mode="clip"), self.problem.data)
        if not self.layout.gradient_by_worker:
            return batch
        return batch, jnp.broadcast_to(at(self.chunk.worker, k), self.keys.shape[1:])

    def gradient(self, params: Any, batch: Any, key: jax.Array, *behaviour: Any) -> tuple[jax.Array, Any]:
        if not self.layout.gradient_by_worker:
            return self.problem.gradient(params, batch, key, *behaviour)
        return self.problem.gradient(params, batch[0], key, *behaviour, batch[1])

    def compute(self, k: jax.Array, row: jax.Array, keys: jax.Array, *newest: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Compute losses (seeds,) and results (seeds, …) of commit k: packed gradients, or what local steps leave."""
        batch = self.batch(k)
        if self.layout.result is not None:
            # All seeds share the trace, and with it the number of steps.
            window = None if self.windows is None else at(self.windows, at(self.chunk.worker, k))
            steps = partial(take_local_steps, self.layout, self.gradient, window)
            return self.with_rule(steps, self.read_version(k))(row, batch, keys, *newest)
        params = self.layout.params

        def of_seed(read: jax.Array, batch: Any, key: jax.Array, *newest: jax.Array) -> tuple[jax.Array, jax.Array]:
            point, *behaviour = map(params.unpack, (*newest, read))
            loss, gradient = self.gradient(point, batch, key, *behaviour)
            return loss, params.pack(gradient)

        # This is the gradient's point, or the one that drew the data.
        read = row[..., : params.size].astype(params.dtype)
        return over_seeds(of_seed, self.seeds, in_turn=self.layout.in_turn)(read, batch, keys, *newest)

    def finish(self, k: jax.Array, state: tuple, row: Any, slot: jax.Array, loss: Any, result: Any) -> tuple:
        carry, out = state
        several = VARIABLES in self.layout.traits
        central, server = self.of_variable(k, carry) if several else (carry.central, carry.server)
        apply = partial(self.apply, k, central, server, carry.buffer, row, loss, result)
        central, server, buffer, parts, commit = apply()
        rows = put_row(carry.rows, parts, slot, self.layout.row.offsets)
        outer = carry.outer
        if several:
            variable = at(self.chunk.schedule.variable, k)
            put = partial(put_at, index=variable)
            central, server = jax.tree.map(put, (carry.central, carry.server), (central, server))
            if isinstance(outer, Outer):
                total, number = at(outer.loss, variable) + loss, at(outer.commits, variable) + 1
                outer = outer._replace(loss=put(outer.loss, total), commits=put(outer.commits, number))
        carry = Carry(central, server, rows, buffer, outer=outer)
        return self.go_on(k, carry, out, loss, commit, lambda: apply()[-1])

    def push(self, k: jax.Array, state: tuple) -> tuple:
        """Let the global server apply the change of a region's variable since its last merge."""
        carry, out = state
        pushes: Any = self.chunk.pushes
        outer: Outer = carry.outer
        region, variable = at(pushes.region, k), at(self.chunk.schedule.variable, k)
        loss = (at(outer.loss, region) / at(outer.commits, region)).astype(out["loss"].dtype)
        change = at(carry.central, at(pushes.base, k)) - at(carry.central, at(pushes.sent, k))
        number = at(self.chunk.worker, k) - len(carry.rows)
        row, slot = take_row(outer.rows, number, self.opaque_true)
        central, _ = take_row(carry.central, variable, self.opaque_true)
        packing: Any = self.layout.outer
        layout = replace(self.layout, row=packing, result=None, traits=())

        def of_seed(rule: Rule, *arguments: Any) -> Any:
            return apply_commit(layout, global_rule_of(rule), *arguments)

        def apply() -> Any:
            schedule = self.for_every_seed(Schedule(staleness=self.chunk.schedule.staleness), k)
            return self.with_rule(of_seed, ())(central, outer.server, (), row, loss, change, schedule)

        after, server, _, parts, commit = apply()
        zeros = jnp.zeros(self.seeds, outer.loss.dtype)
        outer = Outer(
            server,
            put_row(outer.rows, parts, slot, packing.offsets),
            put_at(outer.loss, zeros, region),
            put_at(outer.commits, jnp.int32(0), region),
        )
        carry = carry._replace(central=put_at(carry.central, after, variable), outer=outer)
        return self.go_on(k, carry, out, loss, commit, lambda: apply()[-1])

    def go_on(self, k: jax.Array, carry: Carry, out: dict, loss: Any, commit: Any, again: Callable[[], Any]) -> tuple:
        """Mix variables, let workers read and record what is due, after commit k and before the next one."""
        carry = self.between(k, carry)
        values = {"loss": loss, **self.measure(self.layout.every_commit, commit, out)}
        out = {**out, **{name: put_at(out[name], value, k) for name, value in values.items()}}
        for names, records_before in zip(self.layout.periodic, self.chunk.records_before, strict=True):
            # The commit is computed once more where a record is due. If the conditional received its results, they
            # would be written to memory at every commit, which costs 3 to 6 % of a replay that records now and then.
            slot, after = at(records_before, k), at(records_before, k + 1)
            values = lax.cond(
                after > slot,
                lambda names=names: self.measure(names, again(), out),  # noqa: B023
                lambda names=names: {name: jnp.zeros(out[name].shape[1:], out[name].dtype) for name in names},  # noqa: B023
            )
            out |= {name: put_at(out[name], values[name], slot) for name in names}
        return carry, out

    def between(self, k: jax.Array, carry: Carry) -> Carry:
        """Return the state after the mixings, reads and pulls between commit k and the next one."""
        if VARIABLES in self.layout.traits:
            mixes: Any = self.chunk.mixes
            mixed = lax.fori_loop(at(mixes.start, k), at(mixes.stop, k), self.mix, carry.central)
            carry = carry._replace(central=mixed)
        rows = carry.rows
        for name, events in zip(self.layout.events, self.chunk.events, strict=True):
            happen = partial(self.handle_event, name, events, carry)
            rows = lax.fori_loop(at(events.start, k), at(events.stop, k), happen, rows)
        return carry._replace(rows=rows)

    def of_variable(self, k: jax.Array, carry: Carry) -> tuple[jax.Array, Any]:
        """Return the value and the server state of the variable that commit k changes, each read exactly once."""
        variable = at(self.chunk.schedule.variable, k)
        return jax.tree.map(lambda leaf: take_row(leaf, variable, self.opaque_true)[0], (carry.central, carry.server))

    def mix(self, e: jax.Array, central: jax.Array) -> jax.Array:
        """Return the variables after mixing e: each target becomes the weighted sum of its sources."""
        mixes: Any = self.chunk.mixes
        target, source, weight = at(mixes.target, e), at(mixes.source, e), at(mixes.weight, e)
        precise = widen(central[:0]).dtype
        shape = (len(target), *central.shape[1:])

        def mixed() -> jax.Array:
            # One source of all targets after another, so that no array of all sources is made.
            total = jnp.zeros(shape, precise)
            for number in range(source.shape[-1]):
                values = jnp.take(central, source[..., number], axis=0, mode="clip").astype(precise)
                values = values if source.ndim == 2 else values[None]
                total = total + weight[:, number, None, None].astype(precise) * values
            return total.astype(central.dtype)

        # As in `take_row`, XLA must not fuse the reading into what overwrites the variables.
        total = lax.cond(self.opaque_true, mixed, lambda: jnp.zeros(shape, central.dtype))
        if len(target) <= FEW_TARGETS:
            for index in range(len(target)):
                central = put_at(central, total[index], target[index])
            return central
        return lax.fori_loop(0, len(target), lambda t, after: put_at(after, at(total, t), at(target, t)), central)

    def handle_event(self, name: str, events: ChunkEvents, carry: Carry, e: jax.Array, rows: jax.Array) -> jax.Array:
        """Return the rows after a read or a pull."""
        row, slot = take_row(rows, at(events.worker, e), self.opaque_true)
        when, window = self.for_every_seed(events.when, e), self.window(at(events.worker, e))
        central, server = carry.central, carry.server
        if VARIABLES in self.layout.traits:  # A worker reads the variable that it commits to.
            variable = at(events.variable, e)
            central, server = jax.tree.map(lambda leaf: at(leaf, variable), (central, server))
        event_parts = self.with_rule(partial(apply_event, name, self.layout), version_at(events.when, e))
        parts = event_parts(central, server, row, when, window)
        group, count = group_that_reads(name), len(jax.tree.leaves(parts))
        first = count if name == PULL else 0  # `read` is at the front, and `pulled` next to it
        offsets = self.layout.row.offsets[first : first + count] if group is None else offsets_of(self.layout, group)
        return put_row(rows, parts, slot, offsets)

    def apply(
        self, k: jax.Array, central: jax.Array, server: Any, buffer: Any, row: Any, loss: Any, result: Any
    ) -> tuple[jax.Array, Any, Any, Any, Any]:
        """Apply commit k by the rule: return central vector, server state, buffer, row, and what is recorded of it."""
        schedule, window = self.for_every_seed(self.chunk.schedule, k), self.window(at(self.chunk.worker, k))
        arguments = (central, server, buffer, row, loss, result, schedule, window, self.rule_key(k))
        return self.with_rule(partial(apply_commit, self.layout), version_at(self.chunk.schedule, k))(*arguments)

    def rule_key(self, k: jax.Array) -> Any:
        """Return the keys of commit k, or of its first local step, (seeds,), for a rule that draws, else ()."""
        if not self.problem.rule.draws:
            return ()
        return at(self.keys, k) if self.layout.result is None else at(self.keys, k)[:, 0]

    def window(self, worker: jax.Array) -> Any:
        """Return the window of a worker, (seeds,) int32, or () where all workers have that of the rule."""
        return () if self.windows is None else jnp.broadcast_to(at(self.windows, worker), self.seeds)

    def for_every_seed(self, columns: Any, index: jax.Array) -> Any:
        """Return the entries at an index of these columns, with a leading axis of seeds, which share the trace."""
        return jax.tree.map(lambda c: jnp.broadcast_to(at(c, index), (self.seeds, *c.shape[1:])), columns)

    def measure(self, names: tuple[str, ...], commit: Any, like: Any = None) -> dict[str, jax.Array]:

        def value(name: str, commit: CommitView) -> jax.Array:
            needs = QUANTITIES[name].needs if name in QUANTITIES else None
            if needs is not None and getattr(commit.info, needs) is None:
                # A push, whose global rule does not report what the workers' rule does.
                return jnp.full(like[name].shape[2:], jnp.nan, like[name].dtype)
            return measure(self.layout.params, name, commit, self.problem.measures)

        def of_seed(commit: CommitView) -> dict[str, jax.Array]:
            return {name: value(name, commit) for name in names}

        return over_seeds(of_seed, self.seeds)(commit)

    def read_version(self, k: jax.Array) -> Any:
        """Return the version that commit k's worker read, or () for a rule without a schedule."""
        version = version_at(self.chunk.schedule, k)
        return version if isinstance(version, tuple) else version - at(self.chunk.schedule.staleness, k)

    def with_rule(self, function: Callable[..., Any], version: Any) -> Callable[..., Any]:
        """Map `function(rule, …)` over the seeds' own hyper-parameters and its other arguments, at this version."""

        def scheduled(rule: Rule, *arguments: Any) -> Any:
            return function(at_version(rule, version), *arguments)

        bound, differing = bind_rule(scheduled, self.problem.rule)
        return partial(over_seeds(bound, self.seeds), differing)

    def room(self, carry: Carry) -> dict[str, jax.Array]:
        layout, length = self.layout, len(self.chunk.worker)

        records = dict.fromkeys(("loss", *layout.every_commit), length)
        for names, room in zip(layout.periodic, layout.room, strict=True):
            records |= dict.fromkeys(names, room)

        def first() -> dict[str, jax.Array]:
            row = carry.rows[0]
            newest = self.newest(jnp.int32(0), carry.central, row)
            loss, result = self.compute(jnp.int32(0), row, self.keys[0], *newest)
            if len(records) == 1:
                return {"loss": loss}
            central, server = carry.central, carry.server
            if VARIABLES in layout.traits:
                central, server = self.of_variable(jnp.int32(0), carry)
            commit = self.apply(jnp.int32(0), central, server, carry.buffer, row, loss, result)[-1]
            return {"loss": loss, **self.measure(tuple(records)[1:], commit)}

        shapes = jax.eval_shape(first)
        return {name: jnp.zeros((room, *shapes[name].shape), shapes[name].dtype) for name, room in records.items()}


def over_seeds(function: Callable[..., Any], seeds: int, in_turn: bool = False) -> Callable[..., Any]:
    """Map one seed's function over all seeds: `jax.vmap` over the leading axis, or `jax.lax.map` if `in_turn`."""
    if seeds > 1 and in_turn:
        return lambda *arguments: jax.lax.map(lambda of_seed: function(*of_seed), arguments)
    if seeds > 1:
        return jax.vmap(function)

    def single(*arguments: Any) -> Any:
        out = function(*jax.tree.map(lambda leaf: leaf[0], arguments))
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], out)

    return single


def bind_rule(function: Callable[..., Any], rule: Rule) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return `function(rule, …)` as a function of the numbers that differ from seed to seed, and these numbers."""
    several = {name: value for name, value in rule.numbers.items() if jnp.ndim(value)}
    if not several:
        return lambda differing, *arguments: function(rule, *arguments), {}

    def bound(differing: dict[str, Any], *arguments: Any) -> Any:
        return function(rule.with_numbers(differing), *arguments)

    return bound, {name: weakly_typed(value) for name, value in several.items()}
