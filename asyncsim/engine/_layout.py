"""The layout of trees in vectors, the state of a replay, and all else that is fixed when its program is compiled.

Because each worker has one row in one array, the compiled loop can update its state in place (`engine._loop`).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from asyncsim.engine._plan import GROUPS, PULL, PUSHES, RESUME, is_event
from asyncsim.rules import Rule, View
from asyncsim.rules._hierarchy import global_rule_of
from asyncsim.trace import Trace
from asyncsim.workloads import Workload
from asyncsim.workloads._groups import group_of_each_leaf
from asyncsim.workloads._programs import programs


@dataclass(frozen=True)
class Packing:
    """The layout of a pytree in a vector. Hashable, so that compiled functions can take it as a constant."""

    treedef: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]
    whole: bool = False  # whether the rule is given the vector itself, see `seen_by`

    @classmethod
    def of(cls, tree: Any) -> "Packing":
        """Return the packing of trees like this one (arrays or `jax.ShapeDtypeStruct`)."""
        leaves, treedef = jax.tree.flatten(tree)
        return cls(treedef, tuple(leaf.shape for leaf in leaves), tuple(jnp.dtype(leaf.dtype) for leaf in leaves))

    def seen_by(self, rule: Rule) -> "Packing":
        """Return the packing for a rule, which receives one vector if it is elementwise and the dtypes are equal."""
        return replace(self, whole=rule.sees_vector and len(set(self.dtypes)) == 1)

    @cached_property
    def dtype(self) -> Any:
        """The vector's dtype: the widest of the leaves' dtypes, and next to integers at least float32."""
        if not self.dtypes:
            return jnp.result_type(float)
        counts = any(jnp.issubdtype(dtype, jnp.integer) for dtype in self.dtypes)
        return jnp.result_type(*self.dtypes, *([jnp.float32] if counts else []))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(prod(shape) for shape in self.shapes)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        return tuple(accumulate(self.sizes, initial=0))[:-1]

    @cached_property
    def size(self) -> int:
        return sum(self.sizes)

    def pack(self, tree: Any, numpy: Any = jnp) -> Any:
        """Return all numbers of the tree in one vector of shape (size,). With NumPy, no call is compiled."""
        leaves = [numpy.ravel(leaf).astype(self.dtype) for leaf in jax.tree.leaves(tree)]
        return numpy.concatenate(leaves) if leaves else numpy.zeros(0, self.dtype)

    def unpack(self, vector: jax.Array) -> Any:
        leaves = [
            vector[offset : offset + size].reshape(shape).astype(dtype)
            for offset, size, shape, dtype in zip(self.offsets, self.sizes, self.shapes, self.dtypes, strict=True)
        ]
        return jax.tree.unflatten(self.treedef, leaves)

    def as_seen(self, vector: jax.Array) -> Any:
        """Return the parameters as the rule sees them: the vector itself, or the user's pytree."""
        return vector if self.whole else self.unpack(vector)

    def unpack_on_host(self, vectors: Any) -> Any:
        """Unpack vectors of shape (…, size) with NumPy: every leaf is a copy with the same leading axes."""
        vectors = np.asarray(vectors)
        leaves = [
            np.array(vectors[..., offset : offset + size], dtype).reshape((*vectors.shape[:-1], *shape))
            for offset, size, shape, dtype in zip(self.offsets, self.sizes, self.shapes, self.dtypes, strict=True)
        ]
        return jax.tree.unflatten(self.treedef, leaves)


@programs()
def copied(tree: Any) -> Any:
    return jax.tree.map(jnp.copy, tree)


@dataclass(frozen=True)
class Layout:
    """All that is fixed when a replay is compiled."""

    params: Packing  # packing of the parameters
    row: Packing  # packing of a worker's `Row`
    result: Packing | None = None
    traits: tuple[str, ...] = ()  # traits of the trace, which the plan explains
    every_commit: tuple[str, ...] = ()  # names of the quantities recorded at every commit
    periodic: tuple[tuple[str, ...], ...] = ()
    room: tuple[int, ...] = ()  # for each of these groups, the records that a chunk has room for
    lanes: int = 1  # gradients taken together, or 1 for one commit after another
    batched: bool = False
    in_turn: bool = False
    mesh: Mesh | None = None  # devices that share the lanes, or None
    gradient_by_worker: bool = False  # whether the gradient takes the worker's number
    noise_by_worker: bool = False  # whether the noise does
    groups: tuple[int, ...] = ()
    variables: int = 1
    sent: int = 0  # values on their way between variables
    servers: int = 0  # workers that push and do not compute
    outer: Packing | None = None  # packing of their rows, with `PUSHES`
    newest: bool = False  # whether gradients are taken at the value pulled last, with data drawn at the value read

    @property
    def events(self) -> tuple[str, ...]:
        return tuple(name for name in self.traits if is_event(name))

    @property
    def devices(self) -> int:
        return 1 if self.mesh is None else self.mesh.size

    @property
    def everywhere(self) -> NamedSharding:
        """A copy on every device, the placement of state and data when devices share the lanes."""
        assert self.mesh is not None
        return NamedSharding(self.mesh, PartitionSpec())

    def shared(self, tree: Any) -> Any:
        """Return the tree with a copy on every device, where devices share the lanes."""
        return tree if self.mesh is None else jax.device_put(tree, self.everywhere)

    def index_of(self, lane: Any) -> Any:
        """Return the index of a lane's gradient in the devices' concatenated shares. Lanes are dealt out in turn."""
        return lane % self.devices * (self.lanes // self.devices) + lane // self.devices


class Row(NamedTuple):
    """The state of a worker."""

    read: Any  # where it takes its gradient, or took the last one until its next read
    pulled: Any  # the value it pulled last, or () where nothing asks for it between commits
    state: Any  # the rule's state of the worker
    last: Any = ()


def init_row(rule: Rule, params: Packing, traits: tuple[str, ...], vector: jax.Array) -> Row:
    """Return the row of a worker that begins with this central variable."""
    first = params.as_seen(vector)
    row = Row(first, first, rule.start(first))
    later = RESUME in traits or GROUPS in traits
    if not (PULL in traits or (later and _resume_uses("pulled", rule, row))):
        row = row._replace(pulled=())
    # A rule that treats each parameter alone looks at the last value of those only that it reads.
    if GROUPS in traits and not rule.sees_vector and _resume_uses("read", rule, row):
        row = row._replace(last=first)
    return row


def _resume_uses(name: str, rule: Rule, row: Row) -> bool:
    """Return whether `resume` uses a field of the view. The rows of most rules need not hold it."""

    def resume(value: Any) -> Any:
        view = View(read=row.read, pulled=row.read, staleness=jnp.int32(0))._replace(**{name: value})
        return rule.resume(row.read, rule.start_server(row.read), row.state, view)

    jaxpr = jax.make_jaxpr(resume)(row.read).jaxpr
    used = [*jaxpr.outvars, *(variable for equation in jaxpr.eqns for variable in equation.invars)]
    return any(value is variable for value in jaxpr.invars for variable in used)


def of_first_seed(rule: Rule) -> Rule:
    """Return the rule with the numbers of the first seed, where they have one value for each."""
    firsts = {name: float(value[0]) for name, value in rule.numbers.items() if np.ndim(value)}
    return rule.with_numbers(firsts) if firsts else rule


def row_packing(rule: Rule, params: Packing, traits: tuple[str, ...]) -> Packing:
    vector = jax.ShapeDtypeStruct((params.size,), params.dtype)
    return Packing.of(_init_row.eval_shape(of_first_seed(rule), vector, params=params, traits=traits))


def outer_packing(rule: Rule, params: Packing, traits: tuple[str, ...]) -> Packing | None:
    """Return the packing of the rows of regions' servers, as workers of the global rule, or None without pushes."""
    return row_packing(global_rule_of(rule), params, ()) if PUSHES in traits else None


def result_packing(rule: Rule, params: Packing) -> Packing | None:
    """Return the packing of `(displacement, state)`, the result of local steps, or None for a rule without them."""
    if not rule.steps_locally:
        return None
    vector = jax.ShapeDtypeStruct((params.size,), params.dtype)
    row = _init_row.eval_shape(of_first_seed(rule), vector, params=params, traits=())
    return Packing.of((row.read, row.state))


@programs("params", "traits")
def _init_row(rule: Rule, vector: jax.Array, params: Packing, traits: tuple[str, ...]) -> Row:
    return init_row(rule, params, traits, vector)


class Carry(NamedTuple):
    """The state that the loop carries from commit to commit."""

    central: jax.Array  # (seeds, parameters), the central variable in a vector, or (variables, seeds, parameters)
    server: Any  # pytree of the rule's server state, leading axis `seeds`, or axes `variables` and `seeds`
    rows: jax.Array  # (workers, seeds, row), the packed `asyncsim.engine._layout.Row` of every worker
    buffer: Any = ()  # sum of the messages of the step under way, leading axis `seeds`, or () if every commit is a step
    sent: Any = ()  # (sent, seeds, parameters), values on their way between variables, or () if all arrive at once
    outer: Any = ()  # the `Outer` of a hierarchy, or ()


class Outer(NamedTuple):
    """The state of a global server, and of the servers of regions as its workers."""

    server: Any  # pytree of the global rule's server state, leading axis `seeds`
    rows: jax.Array  # (servers, seeds, row), as the rows of the workers
    loss: jax.Array  # (variables, seeds), the sum of the losses of each region's commits since its last push
    commits: jax.Array  # (variables,) int32, their number


def state_of_seed(state: Carry, index: int) -> Carry:
    """Return the state of one seed of several, whose axis has the length 1."""

    def first(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf[index : index + 1], tree)

    def second(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf[:, index : index + 1], tree)

    of_variables = second if np.ndim(state.central) == 3 else first
    outer = state.outer
    if isinstance(outer, Outer):
        outer = Outer(first(outer.server), second(outer.rows), second(outer.loss), outer.commits)
    central, server = of_variables((state.central, state.server))
    return Carry(central, server, second(state.rows), first(state.buffer), second(state.sent), outer)


def value_of_variables(central: Any, is_global: bool) -> np.ndarray:
    """Return the variable that is evaluated, (seeds, parameters): the only one, the mean of several, or the global one.

    The global variable of a hierarchy is the last.
    """
    central = np.asarray(central)
    if is_global:
        return central[-1]
    return central if central.ndim == 2 else np.mean(central, axis=0, dtype=np.float64).astype(central.dtype)


def local_variables(state: Carry) -> np.ndarray:
    """Return the variables of workers or regions, (variables, seeds, parameters)."""
    central = np.asarray(state.central)
    return central[:-1] if isinstance(state.outer, Outer) else central


def consensus_distance(state: Carry) -> np.ndarray:
    """Return (1/n) Σ |x_i - x̄|² over the variables, of regions or workers, (seeds,), summed over all parameters."""
    central = local_variables(state).astype(np.float64)
    return ((central - central.mean(axis=0)) ** 2).sum(axis=-1).mean(axis=0)


class Problem(NamedTuple):
    """Rule, gradient and data of a replay, as pytrees: their code is static, their numbers are traced."""

    rule: Rule  # update rule, every hyper-parameter of shape () or (seeds,)
    gradient: Any
    noise: Any  # `key -> batch`, or `(key, worker) -> batch`, or None
    data: Any  # training examples, or None
    keys: jax.Array  # (seeds, workers) random keys, or some more
    measures: Any  # the user's recorded quantities, name -> `CommitView -> array`


def groups_of(workload: Workload, trace: Trace, params: Any) -> tuple[int, ...]:
    """Return the trace's group of every leaf of the parameters, or () for a trace without groups."""
    return group_of_each_leaf(params, trace.groups, workload.groups) if trace.groups else ()


def staleness_by_parameter(params: Packing, groups: tuple[int, ...], staleness: Any) -> Any:
    """Return the staleness of every parameter as the rule sees them, or () without groups."""
    if not groups:
        return ()
    if not params.whole:
        return jax.tree.unflatten(params.treedef, [staleness[group] for group in groups])
    return jnp.concatenate([jnp.full(stop - start, staleness[group]) for group, start, stop in runs(params, groups)])


def runs(params: Packing, groups: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Return group, start and stop of the vector's pieces of one group each, in their order."""
    pieces: list[tuple[int, int, int]] = []
    for group, start, stop in zip(groups, params.offsets, accumulate(params.sizes), strict=True):
        if pieces and pieces[-1][0] == group:
            pieces[-1] = (group, pieces[-1][1], stop)
        else:
            pieces.append((group, start, stop))
    return pieces


def parts_of(layout: Layout, group: int, value: Any) -> list[jax.Array]:
    """Return the pieces of one group of a value as the rule sees it, which a worker's row has at `offsets_of`."""
    if layout.params.whole:
        return [value[start:stop] for of_piece, start, stop in runs(layout.params, layout.groups) if of_piece == group]
    leaves = jax.tree.leaves(value)
    return [leaf for of_piece, leaf in zip(layout.groups, leaves, strict=True) if of_piece == group]


def offsets_of(layout: Layout, group: int) -> list[int]:
    """Return where the pieces of `parts_of` begin in a worker's row, which begins with the value it read."""
    if layout.params.whole:
        return [start for of_piece, start, _ in runs(layout.params, layout.groups) if of_piece == group]
    return [offset for of_piece, offset in zip(layout.groups, layout.params.offsets, strict=True) if of_piece == group]
