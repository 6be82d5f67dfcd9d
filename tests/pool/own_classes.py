"""Classes and functions of the user's of every kind, in workloads that are swept: as a module, and as a program."""

import abc
import dataclasses
import enum
import functools
import json
import sys
from typing import Any, Generic, NamedTuple, TypeVar

import attrs
import equinox as eqx
import flax.linen as nn
import flax.struct
import haiku as hk
import jax
import jax.numpy as jnp
import optax
from flax import nnx

import asyncsim as asim

INPUTS = jnp.ones((3, 2))


def total(array):
    return (array**2).sum()


class Scaled(eqx.Module):
    weight: jax.Array
    scale: float = eqx.field(static=True, default=2.0)

    def __call__(self):
        return self.scale * self.weight


class Abstract(eqx.Module):
    weight: eqx.AbstractVar[jax.Array]

    @abc.abstractmethod
    def __call__(self): ...


class Nested(Abstract):
    weight: jax.Array
    other: Scaled

    def __call__(self):
        return self.weight + self.other()


class Linen(nn.Module):
    features: int = 2

    @nn.compact
    def __call__(self, inputs):
        return nn.Dense(self.features)(inputs)


class Nnx(nnx.Module):
    def __init__(self, rngs):
        self.linear = nnx.Linear(2, 2, rngs=rngs)

    def __call__(self, inputs):
        return self.linear(inputs)


class Haiku(hk.Module):
    def __call__(self, inputs):
        return hk.Linear(2)(inputs)


@flax.struct.dataclass
class Struct:
    x: Any
    factor: float = flax.struct.field(pytree_node=False, default=2.0)


@jax.tree_util.register_pytree_node_class
class Node:
    def __init__(self, x):
        self.x = x

    def tree_flatten(self):
        return (self.x,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Registered:
    x: Any


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Static:
    factor: float


class Pair(NamedTuple):
    first: Any
    second: Any


class Closed(type):
    def __setattr__(cls, name, value):
        raise AttributeError("closed")


class WithClosed(metaclass=Closed):
    factor = 2.0


class Asking(type):
    def __new__(cls, name, bases, namespace, *, factor):
        return super().__new__(cls, name, bases, {**namespace, "factor": factor})

    def __init__(cls, name, bases, namespace, *, factor):
        super().__init__(name, bases, namespace)


class WithAsking(metaclass=Asking, factor=3.0):
    pass


class Base:
    def __init_subclass__(cls, *, factor):
        cls.factor = factor


class Sub(Base, factor=4.0):
    pass


class Color(enum.Enum):
    RED = 2.0


class Word(str, enum.Enum):  # noqa: UP042
    YES = "yes"


class Closing:
    def __init__(self, factor):
        object.__setattr__(self, "factor", factor)

    def __setattr__(self, name, value):
        raise AttributeError("closed")


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    factor: float


@dataclasses.dataclass(frozen=True)
class KeywordOnly:
    _: dataclasses.KW_ONLY
    factor: float = 2.0
    rest: tuple = dataclasses.field(default_factory=tuple)


@attrs.frozen
class Attr:
    factor: float


T = TypeVar("T")


class Held(Generic[T]):
    __slots__ = ("factor",)

    def __init__(self, factor):
        self.factor = factor


class Duty(abc.ABC):
    @abc.abstractmethod
    def factor(self): ...


class Done(Duty):
    def factor(self):
        return 2.0


@jax.custom_vjp
def with_vjp(x):
    return total(x)


with_vjp.defvjp(lambda x: (total(x), x), lambda x, change: (3.0 * change * x,))


@jax.custom_jvp
def with_jvp(x):
    return total(x)


@with_jvp.defjvp
def _(points, changes):
    return with_jvp(points[0]), 3.0 * (points[0] * changes[0]).sum()


compiled = jax.jit(total)
again = jax.checkpoint(total)
OPTIMISER = optax.chain(optax.clip(1.0), optax.adam(1e-2))


@functools.cache
def known():
    return 2.0


HELD = (Closing(2.0), Slotted(2.0), KeywordOnly(), Attr(2.0), Held[int](2.0), WithClosed(), WithAsking(), Sub())


class Own(asim.rules.Downpour):
    factor: float = 1.0

    def send(self, gradient, state, view):
        return super().send(jax.tree.map(lambda leaf: self.factor * leaf, gradient), state, view)


def ones(key):
    return {"x": jnp.ones(2)}


def init_nested(key):
    return Nested(jax.random.normal(key, (2,)), Scaled(jnp.ones(2)))


def loss_of_nested(model, batch, key):
    return total(model())


LINEN = Linen()
HAIKU = hk.without_apply_rng(hk.transform(lambda inputs: Haiku()(inputs)))
GRAPH, _state = nnx.split(Nnx(nnx.Rngs(0)))


def init_registered(key):
    x = jnp.ones(2)
    return {"all": [Struct(x), Node(x), Registered(x), Static(2.0), Pair(x, x)]}


def loss_of_registered(params, batch, key):
    struct, node, registered, static, pair = params["all"]
    return struct.factor * total(struct.x) + total(node.x) + static.factor * total(registered.x) + total(pair.second)


def loss_of_values(params, batch, key):
    factor = sum(one.factor for one in HELD if isinstance(one, (Closing, Slotted, KeywordOnly, Attr, Held)))
    factor += sum(one.factor for one in HELD if isinstance(one, (WithClosed, WithAsking, Base)))
    factor += Color(2.0).value * (Word("yes") is Word.YES) + (Done().factor() if issubclass(Done, Duty) else 0.0)
    return known() * factor * total(params["x"])


def loss_of_functions(params, batch, key):
    change, _ = OPTIMISER.update(params["x"], OPTIMISER.init(params["x"]))
    return sum(function(params["x"]) for function in (with_vjp, with_jvp, compiled, again)) + change.sum()


WORKLOADS = {
    "equinox": asim.Workload(init_nested, loss_of_nested),
    "linen": asim.Workload(lambda key: LINEN.init(key, INPUTS), lambda p, b, k: total(LINEN.apply(p, INPUTS))),
    "nnx": asim.Workload(lambda key: nnx.state(Nnx(nnx.Rngs(key))), lambda p, b, k: total(nnx.merge(GRAPH, p)(INPUTS))),
    "haiku": asim.Workload(lambda key: HAIKU.init(key, INPUTS), lambda p, b, k: total(HAIKU.apply(p, INPUTS))),
    "pytrees": asim.Workload(init_registered, loss_of_registered),
    "values": asim.Workload(ones, loss_of_values),
    "functions": asim.Workload(ones, loss_of_functions),
}
CLUSTER = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
SCENARIOS = {
    name: asim.Scenario(CLUSTER, Own(0.01, factor=0.5), workload, commits=4, record=())
    for name, workload in WORKLOADS.items()
}
scenario = SCENARIOS["equinox"]  # of the file as a script of the command


def swept(*names):
    """Name -> losses, of a sweep of these workloads on two processes."""
    results = asim.sweep([SCENARIOS[name] for name in names], jobs=2)
    return {name: results.result(SCENARIOS[name]).run.loss.tolist() for name in names}


if __name__ == "__main__":
    json.dump(swept(*sys.argv[1:]), sys.stdout)
