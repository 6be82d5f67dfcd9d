"""Rules of your own as a type checker sees them: one that is right, and one whose every mistake it must find.

pyright reads this file. A mistake that it no longer finds is an unnecessary `ignore`, which is an error here.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=true

from typing import Any, NamedTuple, assert_type

import jax

from asyncsim.rules import Info, Rule, Sent, View
from asyncsim.rules._rule import Params, State


class Pulled(NamedTuple):
    """The state of a worker: the value that it pulled last."""

    value: Params


class Half(Rule):
    """Half a step, taken from halfway."""

    learning_rate: float
    share: float = 0.5

    def start(self, params: Params) -> Pulled:
        """The first value read."""
        return Pulled(params)

    def send(self, gradient: Params, state: Pulled, view: View) -> Sent:
        """Send -η·g/2."""
        del state
        update = jax.tree.map(lambda g: -self.learning_rate * g * self.share, gradient)
        return Sent(update, Pulled(view.pulled), Info(update=update))

    def resume(self, central: Params, server: State, state: Pulled, view: View) -> Params:
        """Continue halfway between the value pulled and the new central variable."""
        del server, view
        return jax.tree.map(lambda theta, pulled: (theta + pulled) / 2, central, state.value)


assert_type(Half(0.1).learning_rate, float)
assert_type(Half(learning_rate=0.1, share=0.25), Half)


def misspelt() -> list[Any]:
    """Arguments that are not there, or not of their type."""
    return [
        Half(learning_rat=0.1),  # pyright: ignore[reportCallIssue]
        Half(),  # pyright: ignore[reportCallIssue]
        Half("fast"),  # pyright: ignore[reportArgumentType]
    ]


class Forgetful(Rule):
    """Everything wrong."""

    learning_rate: float

    def send(self, gradient: Params, state: State) -> Sent:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Takes no view."""
        return Sent(gradient, state)

    def apply(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, central: Params, server: State, message: Params, view: View
    ) -> float:
        """Forgets the server's state."""
        return 0.0

    def local_step(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, params: Params, gradient: Params, state: State
    ) -> float:
        """Forgets the worker's state."""
        return 0.0
