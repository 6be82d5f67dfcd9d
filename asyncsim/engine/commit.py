"""One commit of one seed inside the compiled loop: the rule's four functions, on packed vectors."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from asyncsim.engine.packing import Packing
from asyncsim.engine.record import QUANTITIES, Step, require
from asyncsim.rules import Rule, View

FINITE = "finite"  # recorded by the engine itself, to find the commit at which a replay diverged


@dataclass(frozen=True)
class Layout:
    """The compile-time side of a replay.

    Attributes:
        params: How the parameters lie in a vector.
        row: How a worker's `(read, state)` lie in its row.
        always: Names of the quantities recorded at every commit.
        rarely: Names of those that are not, in groups that are due together.
        lanes: Gradients taken together; 1 for one commit after another.
        batched: Whether the lanes of a device are one batched program (accelerators) or follow one another (CPU).
        in_turn: Whether the seeds' gradients follow one another too: faster where one gradient fills a CPU.
        mesh: Devices that share the lanes, or None.
    """

    params: Packing
    row: Packing
    always: tuple[str, ...] = ()
    rarely: tuple[tuple[str, ...], ...] = ()
    lanes: int = 1
    batched: bool = False
    in_turn: bool = False
    mesh: Mesh | None = None

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


def first_row(rule: Rule, params: Packing, vector: jax.Array) -> Any:
    """`(read, state)` of a worker before its first commit."""
    first = as_seen(rule, params, vector)
    return first, rule.start(rule.hyper, first)


def row_packing(rule: Rule, params: Packing) -> Packing:
    """How `(read, state)` of this rule lie in a row."""
    vector = jax.ShapeDtypeStruct((params.size,), params.dtype)
    return Packing.of(jax.eval_shape(lambda v: first_row(rule, params, v), vector))


def over_seeds(function: Callable[..., Any], seeds: int, in_turn: bool = False) -> Callable[..., Any]:
    """`jax.vmap` over the leading axis; for one seed the plain function, whose program is smaller and faster."""
    if seeds > 1 and in_turn:
        return lambda *arguments: jax.lax.map(lambda one: function(*one), arguments)
    if seeds > 1:
        return jax.vmap(function)

    def single(*arguments: Any) -> Any:
        out = function(*jax.tree.map(lambda leaf: leaf[0], arguments))
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], out)

    return single


def bind_rule(function: Callable[..., Any], rule: Rule, dtype: Any) -> tuple[Callable[..., Any], dict[str, Any]]:
    """`function(rule, …)` as a function of the hyper-parameters that differ from seed to seed, and these.

    Single numbers stay outside the map over seeds, because in it they would lose JAX's weak type and promote
    parameters of a narrower one.
    """
    differing = {name: jnp.asarray(value, dtype) for name, value in rule.hyper.items() if jnp.ndim(value)}

    def bound(differing: dict[str, Any], *arguments: Any) -> Any:
        return function(replace(rule, hyper={**rule.hyper, **differing}), *arguments)

    return bound, differing


def apply_commit(
    layout: Layout,
    rule: Rule,
    central: jax.Array,
    server: Any,
    row: jax.Array,
    loss: jax.Array,
    gradient: jax.Array,
    staleness: jax.Array,
) -> tuple[jax.Array, Any, Any, Step]:
    """Send, apply, resume: the new central vector, server state and `(read, state)`, and the step to be recorded."""
    hyper, params = rule.hyper, layout.params
    read, state = layout.row.unpack(row)
    theta = as_seen(rule, params, central)
    view = View(read=read, pulled=theta, staleness=staleness)
    message, state, info = rule.send(hyper, as_seen(rule, params, gradient), state, view)
    theta, server = rule.apply(hyper, theta, server, message, view)
    read = rule.resume(hyper, theta, state, view)
    vector = theta.astype(params.dtype) if sees_vector(rule, params) else params.pack(theta)
    return vector, server, (read, state), Step(theta, view, info, loss)


def measure(layout: Layout, rule: Rule, name: str, step: Step) -> jax.Array:
    """The value of a recorded quantity."""
    if name == FINITE:
        leaves = jax.tree.leaves((step.central, step.loss))
        return jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves]).all()
    require(name, step.info, rule.name)
    if QUANTITIES[name].by_tensor and sees_vector(rule, layout.params):
        unpacked = jax.tree.map(layout.params.unpack, step.info)
        step = Step(central=step.central, view=step.view, info=unpacked, loss=step.loss)
    return QUANTITIES[name].measure(step)
