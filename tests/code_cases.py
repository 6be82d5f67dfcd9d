"""Scenarios that differ in nothing but a number that the user's code reaches, each in another way.

`python -m tests.code_cases` prints their digests, so that those of two processes can be compared.
"""

import dataclasses
import functools
import json
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import asyncsim as asim
import tests
from asyncsim.workloads import Quadratic
from tests import code_beside

CLUSTER = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
QUADRATIC = Quadratic([1.0, 0.1])
GLOBAL = 0.0


def start(key: Any) -> jax.Array:
    return jnp.ones(2)


def with_loss(loss: Callable[..., Any]) -> asim.Scenario:
    workload = asim.Workload(init=start, loss=loss)
    return asim.Scenario(CLUSTER, asim.rules.Downpour(0.1), workload, commits=8, record=())


def with_rule(send: Callable[..., Any] | None = None, **attributes: Any) -> asim.Scenario:
    function = send or send_plain

    def send_own(self: Any, gradient: Any, state: Any, view: Any) -> asim.rules.Sent:
        return function(self, gradient, state, view)

    body = {"__module__": __name__, "__annotations__": {"rate": float}, "send": send_own, **attributes}
    return asim.Scenario(CLUSTER, type("Own", (asim.Rule,), body)(0.1), QUADRATIC, commits=8, record=())


def decayed(params: Any, decay: Any) -> jax.Array:
    return jnp.sum(params**2) + decay * jnp.sum(jnp.abs(params))


def send_scaled(scale: float, rule: Any, gradient: Any, state: Any, view: Any) -> asim.rules.Sent:
    del view
    return asim.rules.Sent(jax.tree.map(lambda g: -scale * rule.rate * g, gradient), state)


def send_plain(rule: Any, gradient: Any, state: Any, view: Any) -> asim.rules.Sent:
    return send_scaled(1.0, rule, gradient, state, view)


class Decay:
    """A callable object of one attribute."""

    def __init__(self, decay: float) -> None:
        self.decay = decay

    def __call__(self, params: Any, batch: Any, key: Any) -> jax.Array:
        return decayed(params, self.decay)

    def loss(self, params: Any, batch: Any, key: Any) -> jax.Array:
        return decayed(params, self.decay)


class Slotted:
    """A callable object without a dictionary."""

    __slots__ = ("decay",)

    def __init__(self, decay: float) -> None:
        self.decay = decay

    def __call__(self, params: Any, batch: Any, key: Any) -> jax.Array:
        return decayed(params, self.decay)


@dataclasses.dataclass(frozen=True)
class Term:
    """A frozen dataclass that is called."""

    decay: float

    def __call__(self, params: Any, batch: Any, key: Any) -> jax.Array:
        return decayed(params, self.decay)


class Pair(NamedTuple):
    first: float
    second: float


class Namespace:
    decay = 0.0


def closure(decay: Any) -> Callable[..., Any]:
    return lambda params, batch, key: decayed(params, decay)


def differentiated(decay: float) -> asim.Scenario:
    slope = jax.vmap(jax.checkpoint(jax.grad(lambda x: decay * x**2)))
    return with_loss(lambda params, batch, key: jnp.sum(slope(params)))


def with_own_derivative(decay: float) -> asim.Scenario:
    @jax.custom_vjp
    def term(x: Any) -> Any:
        return jnp.sum(x)

    term.defvjp(lambda x: (jnp.sum(x), x), lambda x, g: (g * decay * x,))
    return with_loss(lambda params, batch, key: term(params))


def decorated(decay: float) -> asim.Scenario:
    def twice(function: Any) -> Any:
        @functools.wraps(function)
        def wrapped(*arguments: Any) -> Any:
            return 2 * function(*arguments)

        return wrapped

    return with_loss(twice(closure(decay)))


def only_wrapped(decay: float) -> asim.Scenario:
    def loss(*arguments: Any) -> Any:
        return loss.__wrapped__(*arguments)  # type: ignore[attr-defined]

    loss.__wrapped__ = closure(decay)  # type: ignore[attr-defined]
    return with_loss(loss)


def attribute_of_function(decay: float) -> asim.Scenario:
    def loss(params: Any, batch: Any, key: Any) -> jax.Array:
        return decayed(params, loss.decay)  # type: ignore[attr-defined]

    loss.decay = decay  # type: ignore[attr-defined]
    return with_loss(loss)


def partial_of_the_library(decay: float) -> asim.Scenario:
    """Of a library's function."""
    return with_loss(
        functools.partial(QUADRATIC.loss.__func__, dataclasses.replace(QUADRATIC, eigenvalues=[1.0, decay]))
    )


def changed(owner: Any, name: str, decay: float, read: Callable[[], float]) -> asim.Scenario:
    """A loss that calls a function which reads an attribute of a module or a class."""
    setattr(owner, name, decay)
    made = with_loss(lambda params, batch, key: decayed(params, read()))
    made.digest  # noqa: B018  # the attribute has another value later
    return made


def decay_of(module: Any) -> float:
    return module.DECAY


class Library:
    """An object that holds a module."""

    module = code_beside


def holding(held: Any, read: Callable[[Any], float]) -> Callable[[float], asim.Scenario]:
    """A loss that reads an attribute of a module from an object that holds the module."""
    return lambda number: changed(code_beside, "DECAY", number, lambda: read(held))


def of_a_default(decay: float) -> asim.Scenario:
    def read(module: Any = code_beside) -> float:
        return module.DECAY

    return changed(code_beside, "DECAY", decay, read)


def of_an_alias() -> float:
    module = code_beside
    return module.DECAY


def of_an_import() -> float:
    from tests import code_beside as beside

    return decay_of(beside)


def of_an_import_in_a_function_within() -> float:
    import tests.code_beside as beside

    return (lambda: decay_of(beside))()


class Members(set[Any]):
    """A set of a class of one's own."""


def mutual(decay: float) -> frozenset[Callable[[int], float]]:
    """Functions that call each other, of which a walk enters any first."""

    def even(count: int) -> float:
        return decay if count == 0 else odd(count - 1)

    def odd(count: int) -> float:
        return 0.0 if count == 0 else even(count - 1)

    def third(count: int) -> float:
        return even(count) + odd(count)

    return frozenset({even, odd, third})


def made_class(decay: float) -> asim.Scenario:
    class Made:
        by = decay

        def __call__(self, params: Any, batch: Any, key: Any) -> jax.Array:
            return decayed(params, self.by)

    return with_loss(Made())


def in_a_namespace(decay: float) -> asim.Scenario:
    space = types.SimpleNamespace(terms=[{"first": Pair(decay, 1.0)}])
    return with_loss(lambda params, batch, key: decayed(params, space.terms[0]["first"].first))


class Scaled:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def send(self, rule: Any, gradient: Any, state: Any, view: Any) -> asim.rules.Sent:
        return send_scaled(self.scale, rule, gradient, state, view)


def measured(scale: float) -> asim.Scenario:
    return dataclasses.replace(with_rule(), record={"size": functools.partial(_measure, scale)})


def _measure(scale: float, view: Any) -> jax.Array:
    return scale * jnp.sum(view.gradient["x"])


def optimiser(rate: float) -> asim.Scenario:
    rule = asim.rules.WorkerOptimiser(optimiser=optax.chain(optax.clip(1.0), optax.adam(optax.constant_schedule(rate))))
    return dataclasses.replace(with_rule(), rule=rule)


def functions_of_the_library(number: float) -> asim.Scenario:
    """A rule of one's own with a method of the library's."""
    return with_rule(resume=(asim.rules.GEM if number > 1.5 else asim.Rule).resume, variant="paper")


CASES: dict[str, Callable[[float], asim.Scenario]] = {
    "a closure": lambda number: with_loss(closure(number)),
    "a closure of an array": lambda number: with_loss(closure(np.full(2, number))),
    "a closure of an array of JAX": lambda number: with_loss(closure(jnp.full(2, number))),
    "a closure of a large constant": lambda number: with_loss(closure(np.broadcast_to(np.array(number), 10_000))),
    "a closure of a set": lambda number: with_loss(closure(frozenset({"a", "b", "c", f"{number}"}))),
    "a closure of a set of a class of one's own": lambda number: with_loss(closure(Members({"a", "b", f"{number}"}))),
    "a set of functions that call each other": lambda number: with_loss(closure(mutual(number))),
    "a compiled closure": lambda number: with_loss(jax.jit(closure(number))),
    "a closure that was compiled twice": lambda number: with_loss(jax.jit(jax.jit(closure(number)))),
    "a derivative": differentiated,
    "a derivative of one's own": with_own_derivative,
    "a callable object": lambda number: with_loss(Decay(number)),
    "a callable object with slots": lambda number: with_loss(Slotted(number)),
    "a callable frozen dataclass": lambda number: with_loss(Term(number)),
    "a class made in a function": made_class,
    "a bound method": lambda number: with_loss(Decay(number).loss),
    "a default argument": lambda number: with_loss(lambda params, batch, key, by=number: decayed(params, by)),
    "a default of a keyword": lambda number: with_loss(lambda params, batch, key, *, by=number: decayed(params, by)),
    "an object in a closure": lambda number: with_loss(lambda *given: Decay(number).loss(*given)),
    "nested containers": in_a_namespace,
    "a decorated function": decorated,
    "a function that is only wrapped": only_wrapped,
    "an attribute of a function": attribute_of_function,
    "a partial": lambda number: with_loss(functools.partial(Decay.loss, Decay(number))),
    "a partial of JAX in a compiled function": lambda number: with_loss(
        jax.jit(jax.tree_util.Partial(closure(jnp.float32(number))))
    ),
    "a partial under a name of the library": partial_of_the_library,
    "a number under a name of the library": lambda number: dataclasses.replace(
        with_rule(), workload=asim.Workload(QUADRATIC.init, QUADRATIC.loss, weights=[1.0, number])
    ),
    "a global": lambda number: changed(sys.modules[__name__], "GLOBAL", number, lambda: GLOBAL),
    "a global of another module": lambda number: changed(code_beside, "DECAY", number, lambda: code_beside.DECAY),
    **{
        f"a module {name}": case
        for name, case in {
            "in a helper": holding(None, lambda held: decay_of(code_beside)),
            "of a package in a helper": holding(None, lambda held: decay_of(tests.code_beside)),
            "in a list": holding([code_beside], lambda held: held[0].DECAY),
            "in a dictionary": holding({"beside": [code_beside]}, lambda held: held["beside"][0].DECAY),
            "in a closure and a helper": holding(code_beside, decay_of),
            "in a closure": holding(code_beside, lambda held: held.DECAY),
            "in an object": holding(types.SimpleNamespace(module=code_beside), lambda held: held.module.DECAY),
            "in a class": holding(Library, lambda held: held.module.DECAY),
            "in a partial": holding(functools.partial(decay_of, code_beside), lambda held: held()),
            "in a module": holding(types.SimpleNamespace(module=tests), lambda held: held.module.code_beside.DECAY),
            "of which a name is computed": holding(code_beside, lambda held: getattr(held, "DE" + "CAY")),
            "as a default": of_a_default,
            "under another name": lambda number: changed(code_beside, "DECAY", number, of_an_alias),
            "that a function imports": lambda number: changed(code_beside, "DECAY", number, of_an_import),
            "that a function imports for another": lambda number: changed(
                code_beside, "DECAY", number, of_an_import_in_a_function_within
            ),
        }.items()
    },
    "an attribute of a class": lambda number: changed(Namespace, "decay", number, lambda: Namespace.decay),
    "the start": lambda number: dataclasses.replace(
        with_rule(), workload=asim.Workload(init=lambda key: jnp.full(2, number), loss=Term(1.0))
    ),
    "a rule's compiled method": lambda number: with_rule(send=jax.jit(Scaled(number).send)),
    "a rule's functions of the library": functions_of_the_library,
    "a rule's collected commits": lambda number: with_rule(collect=int(number)),
    "an optimiser of optax": optimiser,
    "a recorded function": measured,
}


def digests_of(name: str) -> list[str]:
    """Digests of a case with two numbers."""
    return [CASES[name](1.0).digest, CASES[name](2.0).digest]


if __name__ == "__main__":
    print(json.dumps({name: digests_of(name) for name in CASES}))
