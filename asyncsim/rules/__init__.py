"""Update rules: what a worker sends, how the server applies it, where the worker goes on."""

from collections.abc import Callable

from asyncsim.rules.downpour import adaptive_staleness, downpour
from asyncsim.rules.gem import gem
from asyncsim.rules.momentum import momentum_sgd
from asyncsim.rules.rule import Info, Rule, Sent, View

CONSTRUCTORS: dict[str, Callable[..., Rule]] = {
    "adaptive_staleness": adaptive_staleness,
    "downpour": downpour,
    "gem": gem,
    "momentum_sgd": momentum_sgd,
}

__all__ = [
    "CONSTRUCTORS",
    "Info",
    "Rule",
    "Sent",
    "View",
    "adaptive_staleness",
    "downpour",
    "gem",
    "momentum_sgd",
]
