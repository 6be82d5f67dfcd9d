"""One commit of one seed inside the compiled loop: the rule's four functions, on packed vectors."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from asyncsim.engine.layout import Packing
from asyncsim.engine.plan import BUFFER, EVENTS, PULL, RESUME
from asyncsim.engine.quantities import QUANTITIES, CommitView, require
from asyncsim.engine.state import Circumstances
from asyncsim.rules import Rule, View

FINITE = "finite"  # recorded by the engine itself, to find the commit at which a replay diverged


@dataclass(frozen=True)
class Layout:
    """The compile-time side of a replay.

    Attributes:
        params: How the parameters lie in a vector.
        row: How a worker's `Row` lies in its row of the array.
        work: How what a worker makes of its local steps, `(displacement, state)`, lies in a vector; None for rules
            without local steps, where it is the gradient.
        traits: What the trace has beyond the ordinary; see `asyncsim.engine.plan`.
        always: Names of the quantities recorded at every commit.
        rarely: Names of those that are not, in groups that are due together.
        lanes: Gradients taken together; 1 for one commit after another.
        batched: Whether the lanes of a device are one batched program (accelerators) or follow one another (CPU).
        in_turn: Whether the seeds' gradients follow one another too: faster where one gradient fills a CPU.
        mesh: Devices that share the lanes, or None.
    """

    params: Packing
    row: Packing
    work: Packing | None = None
    traits: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    rarely: tuple[tuple[str, ...], ...] = ()
    lanes: int = 1
    batched: bool = False
    in_turn: bool = False
    mesh: Mesh | None = None

    @property
    def events(self) -> tuple[str, ...]:
        """The traits that are events between commits."""
        return tuple(name for name in EVENTS if name in self.traits)

    @property
    def devices(self) -> int:
        """Devices that share the lanes."""
        return 1 if self.mesh is None else self.mesh.size

    @property
    def everywhere(self) -> NamedSharding:
        """A copy on every device: how state and data lie when devices share the lanes."""
        assert self.mesh is not None
        return NamedSharding(self.mesh, PartitionSpec())

    def place(self, lane: Any) -> Any:
        """Where a lane's gradient stands when the devices' shares lie one after the other; lanes are dealt in turn."""
        return lane % self.devices * (self.lanes // self.devices) + lane // self.devices


def sees_vector(rule: Rule, params: Packing) -> bool:
    """Whether the rule can be given all parameters as one vector: it treats each alone, and they have one dtype."""
    return rule.elementwise and len(set(params.dtypes)) == 1


def as_seen(rule: Rule, params: Packing, vector: jax.Array) -> Any:
    """The parameters as the rule sees them: one vector where that is the same, else the user's pytree."""
    return vector if sees_vector(rule, params) else params.unpack(vector)


class Row(NamedTuple):
    """What a worker keeps.

    Attributes:
        read: Where it takes its gradient; until its next read, where it took the last.
        pulled: What it pulled last; () where nobody asks for it between commits.
        state: The rule's.
    """

    read: Any
    pulled: Any
    state: Any


def first_row(rule: Rule, params: Packing, traits: tuple[str, ...], vector: jax.Array) -> Row:
    """The row of a worker that begins with this central variable."""
    first = as_seen(rule, params, vector)
    row = Row(first, first, rule.start(rule.hyper, first))
    kept = PULL in traits or (RESUME in traits and _resumes_from_pull(rule, row))
    return row if kept else row._replace(pulled=())


def _resumes_from_pull(rule: Rule, row: Row) -> bool:
    """Whether `resume` looks at `view.pulled`; most rules do not, and their rows need not hold it."""

    def resume(pulled: Any) -> Any:
        view = View(read=row.read, pulled=pulled, staleness=jnp.int32(0))
        return rule.resume(rule.hyper, row.read, rule.start_server(rule.hyper, row.read), row.state, view)

    jaxpr = jax.make_jaxpr(resume)(row.pulled).jaxpr
    used = [*jaxpr.outvars, *(variable for equation in jaxpr.eqns for variable in equation.invars)]
    return any(pulled is variable for pulled in jaxpr.invars for variable in used)


def row_packing(rule: Rule, params: Packing, traits: tuple[str, ...]) -> Packing:
    """How this rule's `Row` lies in a row of the array."""
    vector = jax.ShapeDtypeStruct((params.size,), params.dtype)
    return Packing.of(jax.eval_shape(lambda v: first_row(rule, params, traits, v), vector))


def first_buffer(rule: Rule, traits: tuple[str, ...], row: Row) -> Any:
    """The buffer before the first message: zeros like one, or () if every commit is a step."""
    if BUFFER not in traits:
        return ()
    server = rule.start_server(rule.hyper, row.read)
    view = View(read=row.read, pulled=row.read, staleness=jnp.int32(0), server=server)
    message = jax.eval_shape(lambda: rule.send(rule.hyper, row.read, row.state, view).message)
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), message)


def apply_commit(
    layout: Layout,
    rule: Rule,
    central: jax.Array,
    server: Any,
    buffer: Any,
    row: jax.Array,
    loss: jax.Array,
    work: jax.Array,
    when: Circumstances,
) -> tuple[jax.Array, Any, Any, Row, CommitView]:
    """Send, apply, resume: the new central vector, server state, buffer and row, and the step to be recorded.

    `work` is the packed gradient, or what the worker made of its local steps; see `Layout.work`.
    """
    hyper, params, traits = rule.hyper, layout.params, layout.traits
    before = as_seen(rule, params, central)
    read, pulled, state = layout.row.unpack(row)
    keeps_pull = bool(jax.tree.leaves(pulled))
    pulled = _choose(when.late_pull, before, pulled) if PULL in traits else before
    view = View(read=read, pulled=pulled, staleness=when.staleness, server=server)
    if layout.work is None:
        made = as_seen(rule, params, work)
    else:
        made, state = layout.work.unpack(work)
    message, state, info = rule.send(hyper, made, state, view)
    if BUFFER in traits:
        total = jax.tree.map(jnp.add, buffer, message)
        message = jax.tree.map(lambda leaf: leaf / when.collected.astype(leaf.dtype), total)
        buffer = _choose(when.closes, jax.tree.map(jnp.zeros_like, total), total)
    theta, after = rule.apply(hyper, before, server, message, view)
    if BUFFER in traits:
        theta, after = _choose(when.closes, (theta, after), (before, server))
    resumed = rule.resume(hyper, theta, after, state, view)
    if RESUME in traits:
        resumed = _choose(when.prompt, resumed, read)
    vector = theta.astype(params.dtype) if sees_vector(rule, params) else params.pack(theta)
    kept = view.pulled if keeps_pull else ()
    return vector, after, buffer, Row(resumed, kept, state), CommitView(theta, view, info, loss)


def _choose(condition: jax.Array, yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def measure(layout: Layout, rule: Rule, name: str, step: CommitView) -> jax.Array:
    """The value of a recorded quantity."""
    if name == FINITE:
        leaves = jax.tree.leaves((step.central, step.loss))
        return jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves]).all()
    require(name, step.info, rule.name)
    if QUANTITIES[name].by_tensor and sees_vector(rule, layout.params):
        unpacked = jax.tree.map(layout.params.unpack, step.info)
        step = CommitView(central=step.central, view=step.view, info=unpacked, loss=step.loss)
    return QUANTITIES[name].measure(step)
