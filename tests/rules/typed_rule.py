"""Rules of your own as a type checker sees them: one that is right, and one whose every mistake it must find.

pyright reads this file. A mistake that it no longer finds is an unnecessary `ignore`, which is an error here.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=true

from typing import NamedTuple

import jax

from asyncsim.rules import Info, Rule, Sent, View
from asyncsim.rules.rule import Hyper, Params, State


class Pulled(NamedTuple):
    """What a worker keeps: the value it pulled last."""

    value: Params


def start_pulled(hyper: Hyper, params: Params) -> Pulled:
    """The first value read."""
    del hyper
    return Pulled(params)


def send_half(hyper: Hyper, gradient: Params, state: Pulled, view: View) -> Sent:
    """Send -η·g/2."""
    del state
    update = jax.tree.map(lambda g: -hyper["learning_rate"] * g / 2, gradient)
    return Sent(update, Pulled(view.pulled), Info(update=update))


def resume_halfway(hyper: Hyper, central: Params, server: State, state: Pulled, view: View) -> Params:
    """Continue halfway between the value pulled and the new central variable."""
    del hyper, server, view
    return jax.tree.map(lambda theta, pulled: (theta + pulled) / 2, central, state.value)


def half(learning_rate: float) -> Rule:
    """Half a step, taken from halfway."""
    return Rule(
        hyper={"learning_rate": learning_rate},
        name="half",
        send=send_half,
        start=start_pulled,
        resume=resume_halfway,
    )


def send_too_little(hyper: Hyper, gradient: Params, state: State) -> Sent:
    """A `send` that takes no view."""
    return Sent(gradient, state)


def send_nothing_but_the_message(hyper: Hyper, gradient: Params, state: State, view: View) -> dict[str, float]:
    """A `send` that forgets the worker's state."""
    return {}


def apply_without_state(hyper: Hyper, central: Params, server: State, message: Params, view: View) -> float:
    """An `apply` that forgets the server's state."""
    return 0.0


def forgetful(learning_rate: float) -> Rule:
    """Everything wrong."""
    hyper = {"learning_rate": learning_rate}
    Rule(hyper=hyper, name="short", send=send_too_little)  # pyright: ignore[reportArgumentType]
    return Rule(
        hyper=hyper,
        name="forgetful",
        send=send_nothing_but_the_message,  # pyright: ignore[reportArgumentType]
        start=resume_halfway,  # pyright: ignore[reportArgumentType]
        start_server=send_half,  # pyright: ignore[reportArgumentType]
        apply=apply_without_state,  # pyright: ignore[reportArgumentType]
        resume=start_pulled,  # pyright: ignore[reportArgumentType]
        local_step=start_pulled,  # pyright: ignore[reportArgumentType]
    )
