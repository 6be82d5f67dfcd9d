"""The compiled loop: one piece of a trace replayed on the device, the workers' state updated in place.

Layout. Everything a worker keeps (the value it read, its rule's state) is one row of one array `rows` of shape
(workers, seeds, row). A commit takes a row out, computes, and puts it back. Left alone, XLA fuses the reading of the
row into each of its uses, can then no longer tell that all of them come before the row is overwritten, and copies the
whole array at every commit (measured: 1.6 ms instead of 49 µs at 100 workers and 17 226 parameters). `take_row`
prevents that; a test counts the copies in the compiled program.

Lanes. With one lane the gradient is taken inside the loop, one commit after another: on one CPU device nothing is
faster. With more, the piece comes cut into waves of at most `lanes` commits whose gradients can all be taken at the
wave's start (`asyncsim.engine.plan`); only the light, strictly ordered part is then left in the loop.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from asyncsim.engine.batches import commit_key
from asyncsim.engine.commit import Layout, apply_commit, first_row, measure, over_seeds
from asyncsim.engine.packing import Packing
from asyncsim.rules import Rule


class Carry(NamedTuple):
    """What the loop carries from commit to commit.

    Attributes:
        central: (seeds, parameters), the central variable packed in a vector.
        server: Pytree of the rule's server state, leading axis `seeds`.
        rows: (workers, seeds, row), packed `(read, state)` of every worker.
    """

    central: jax.Array
    server: Any
    rows: jax.Array


class Columns(NamedTuple):
    """One piece of the plan, padded to a fixed length.

    Attributes:
        worker, job, staleness: (length,) int32; `job` counts the worker's commits from 0.
        examples: (length, seeds, batch) int32 example numbers, or None for workloads without data.
        due: Name -> (length,) bool: whether to record at this commit, for quantities not recorded at each.
        wave_start, wave_size: (waves,) int32, or None with one lane.
    """

    worker: Any
    job: Any
    staleness: Any
    examples: Any
    due: dict[str, Any]
    wave_start: Any
    wave_size: Any


class Problem(NamedTuple):
    """What is replayed, as pytrees: their code is static, their numbers are traced.

    Attributes:
        rule: Update rule; every hyper-parameter of shape () or (seeds,).
        gradient: `(params, batch, key) -> (loss, gradient)`.
        noise: `key -> batch`, or None.
        data: Training examples, or None.
        keys: (seeds,) random keys.
    """

    rule: Rule
    gradient: Any
    noise: Any
    data: Any
    keys: jax.Array


@partial(jax.jit, static_argnames=("layout", "workers"))
def begin(problem: Problem, central: jax.Array, *, layout: Layout, workers: int) -> Carry:
    """The carry before the first commit: every worker has read the first central variable, (seeds, parameters)."""

    def first(rule: Rule, vector: jax.Array) -> tuple[jax.Array, Any]:
        row = first_row(rule, layout.params, vector)
        return layout.row.pack(row), rule.start_server(rule.hyper, row[0])

    rule = _rule_per_seed(problem.rule, len(central))
    row, server = over_seeds(first, len(central))(rule, central)
    return Carry(central, server, jnp.broadcast_to(row, (workers, *row.shape)))


@partial(jax.jit, static_argnames="layout", donate_argnames="carry")
def replay_piece(
    carry: Carry, count: Any, columns: Columns, problem: Problem, *, layout: Layout
) -> tuple[Carry, dict[str, jax.Array], jax.Array]:
    """Replay the first `count` commits of `columns`; with several lanes, the first `count` waves.

    Args:
        carry: State of the replay; its memory is reused.
        count: A traced number, so that every length is one program.
        columns: The piece.
        problem: What to replay.
        layout: The compile-time side.

    Returns:
        The carry; what was recorded, name -> (length, seeds, …), with "loss" among it; and (seeds,) whether the
        central variable is finite at the end.
    """
    loop = _Loop(columns, problem, layout, seeds=carry.central.shape[0], always=count >= 0)
    out = {name: jnp.zeros((len(columns.worker), *v.shape), v.dtype) for name, v in loop.value_shapes(carry).items()}
    body = loop.commit_alone if layout.lanes == 1 else loop.wave
    carry, out = lax.fori_loop(0, count, body, (carry, out))
    if layout.mesh is not None:  # else XLA might spread the state, and the next piece would be another program
        carry = lax.with_sharding_constraint(carry, layout.everywhere)
    return carry, out, jnp.isfinite(carry.central).all(1)


class _Loop:
    """The loop's body and what it closes over, at trace time."""

    def __init__(self, columns: Columns, problem: Problem, layout: Layout, seeds: int, always: jax.Array) -> None:
        self.columns, self.problem, self.layout = columns, problem, layout
        self.seeds, self.always = seeds, always
        self.rule = _rule_per_seed(problem.rule, seeds)
        per_commit = jax.vmap(jax.vmap(commit_key, (0, None, None)), (None, 0, 0))
        self.keys = per_commit(problem.keys, columns.worker, columns.job)
        # Drawn for the whole piece at once: commit by commit it would cost twenty times as much.
        self.drawn = None if problem.noise is None else jax.vmap(jax.vmap(problem.noise))(self.keys)

    def commit_alone(self, k: jax.Array, state: tuple) -> tuple:
        """Commit k: its gradient and its application."""
        row, place = take_row(state[0].rows, _at(self.columns.worker, k), self.always)
        result = self.gradients(self.read(row), self.batch(k), _at(self.keys, k))
        return self.finish(k, state, row, place, *result)

    def wave(self, i: jax.Array, state: tuple) -> tuple:
        """Wave i: all its gradients together, then its commits in order."""
        start, size = _at(self.columns.wave_start, i), _at(self.columns.wave_size, i)
        losses, gradients = self.wave_gradients(state[0].rows, start, size)

        def commit(lane: jax.Array, state: tuple) -> tuple:
            row, place = take_row(state[0].rows, _at(self.columns.worker, start + lane), self.always)
            result = _at(losses, self.layout.place(lane)), _at(gradients, self.layout.place(lane))
            return self.finish(start + lane, state, row, place, *result)

        return lax.fori_loop(0, size, commit, state)

    def wave_gradients(self, rows: jax.Array, start: jax.Array, size: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Losses (lanes, seeds) and gradients (lanes, seeds, parameters); lane l stands at `layout.place(l)`."""
        layout, devices = self.layout, self.layout.devices
        each = layout.lanes // devices

        def of_commit(k: jax.Array) -> tuple[jax.Array, jax.Array]:
            read = self.read(_at(rows, _at(self.columns.worker, k)))
            return self.gradients(read, self.batch(k), _at(self.keys, k))

        def of_device() -> tuple[jax.Array, jax.Array]:
            first = start + (lax.axis_index("lanes") if layout.mesh is not None else 0)
            if layout.batched:  # idle lanes cost an accelerator little
                ks = first + devices * jnp.arange(each, dtype=jnp.int32)
                return jax.vmap(of_commit)(jnp.minimum(ks, len(self.columns.worker) - 1))
            none = jax.tree.map(lambda s: jnp.zeros((each, *s.shape), s.dtype), jax.eval_shape(of_commit, first))
            mine = (start + size - first + devices - 1) // devices

            def put(i: jax.Array, results: tuple) -> tuple:
                new = of_commit(first + devices * i)
                return tuple(_put_at(r, n, i) for r, n in zip(results, new, strict=True))

            return lax.fori_loop(0, mine, put, none)

        if layout.mesh is None:
            return of_device()
        spec = PartitionSpec("lanes")
        return jax.shard_map(of_device, mesh=layout.mesh, in_specs=(), out_specs=spec, check_vma=False)()

    def read(self, row: jax.Array) -> jax.Array:
        """Where the workers of these rows take their gradients, (…, parameters)."""
        return row[..., : self.layout.params.size].astype(self.layout.params.dtype)

    def batch(self, k: jax.Array) -> Any:
        """Mini-batches of commit k, leading axis `seeds`, or None."""
        if self.columns.examples is None:
            return jax.tree.map(lambda array: _at(array, k), self.drawn)
        examples = _at(self.columns.examples, k)
        return jax.tree.map(lambda array: jnp.take(array, examples, axis=0, mode="clip"), self.problem.data)

    def gradients(self, read: jax.Array, batch: Any, keys: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Losses (seeds,) and packed gradients (seeds, parameters)."""
        params = self.layout.params

        def one(read: jax.Array, batch: Any, key: jax.Array) -> tuple[jax.Array, jax.Array]:
            loss, gradient = self.problem.gradient(params.unpack(read), batch, key)
            return loss, params.pack(gradient)

        return over_seeds(one, self.seeds)(read, batch, keys)

    def finish(self, k: jax.Array, state: tuple, row: Any, place: jax.Array, loss: Any, gradient: Any) -> tuple:
        """Apply commit k and put away what it leaves."""
        carry, out = state
        carry, parts, values = self.apply(k, carry, row, loss, gradient)
        rows = put_row(carry.rows, parts, place, self.layout.row)
        out = {name: _put_at(out[name], values[name], k) for name in out}
        return Carry(carry.central, carry.server, rows), out

    def apply(self, k: jax.Array, carry: Carry, row: Any, loss: Any, gradient: Any) -> tuple[Carry, Any, dict]:
        """The rule's part of commit k, and what is recorded of it."""
        staleness = jnp.broadcast_to(_at(self.columns.staleness, k), (self.seeds,))
        arguments = (self.rule, carry.central, carry.server, row, loss, gradient, staleness)
        central, server, row, step = over_seeds(partial(apply_commit, self.layout), self.seeds)(*arguments)
        values = {"loss": loss, **{name: self.value(name, k, step) for name in self.layout.record}}
        return Carry(central, server, carry.rows), row, values

    def value(self, name: str, k: jax.Array, step: Any) -> jax.Array:
        """The recorded quantity, computed only where it is due."""

        def now() -> jax.Array:
            one = lambda rule, step: measure(self.layout, rule, name, step)  # noqa: E731
            return over_seeds(one, self.seeds)(self.rule, step)

        if name not in self.columns.due:
            return now()
        nothing = jax.eval_shape(now)
        return lax.cond(_at(self.columns.due[name], k), now, lambda: jnp.zeros(nothing.shape, nothing.dtype))

    def value_shapes(self, carry: Carry) -> dict[str, jax.ShapeDtypeStruct]:
        """Shapes of what one commit records."""

        def first(carry: Carry) -> dict[str, jax.Array]:
            row = carry.rows[0]
            result = self.gradients(self.read(row), self.batch(jnp.int32(0)), self.keys[0])
            return self.apply(jnp.int32(0), carry, row, *result)[2]

        return jax.eval_shape(first, carry)


def take_row(rows: jax.Array, worker: jax.Array, always: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Row `worker`, read once and for all, and the place to put its successor.

    A conditional whose condition XLA cannot foresee is opaque to fusion: its result is computed once, and whoever
    uses the row waits for it. Because the place comes out of the same conditional, so does whoever writes.
    (`lax.optimization_barrier` does not do: it is gone before fusion runs.)
    """
    return lax.cond(
        always,
        lambda: (_at(rows, worker), worker),
        lambda: (jnp.zeros(rows.shape[1:], rows.dtype), jnp.zeros_like(worker)),
    )


def put_row(rows: jax.Array, parts: Any, place: jax.Array, packing: Packing) -> jax.Array:
    """Rows with `parts`, the leaves of the worker's new `(read, state)` of shape (seeds, …), put in their places.

    Part by part, because one concatenation of all parts is compiled to code that asks for every number to which part
    it belongs: half the time of a GEM commit.
    """
    for part, offset in zip(jax.tree.leaves(parts), packing.offsets, strict=True):
        flat = part.reshape(1, rows.shape[1], -1).astype(rows.dtype)
        start = (place, jnp.int32(0), jnp.int32(offset))
        rows = lax.dynamic_update_slice(rows, flat, start, allow_negative_indices=False)
    return rows


def _at(array: jax.Array, index: jax.Array) -> jax.Array:
    return lax.dynamic_index_in_dim(array, index, keepdims=False, allow_negative_indices=False)


def _put_at(array: jax.Array, value: jax.Array, index: jax.Array) -> jax.Array:
    return lax.dynamic_update_index_in_dim(array, value, index, 0, allow_negative_indices=False)


def _rule_per_seed(rule: Rule, seeds: int) -> Rule:
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (seeds,)), rule)
