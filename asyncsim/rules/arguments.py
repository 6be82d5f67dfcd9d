"""Arguments that many rules have, checked."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncsim import checks
from asyncsim.rules.rule import Hyper, Rule

OneOrSeveral = int | Sequence[int] | NDArray[np.integer[Any]]  # a whole number, or one per seed


def step_size(learning_rate: Any) -> Hyper:
    """The step size as a hyper-parameter.

    Raises:
        ValueError: If it is not finite or is negative, which would climb.
    """
    return {"learning_rate": checks.not_negative("learning_rate", learning_rate)}


def step_size_and_momentum(learning_rate: Any, momentum: Any) -> Hyper:
    """Step size and momentum as hyper-parameters.

    Raises:
        ValueError: If the step size is not finite or is negative, or the momentum lies outside [0, 1).
    """
    return {**step_size(learning_rate), "momentum": checks.fraction("momentum", momentum)}


def whole_window(window: Any) -> int:
    """The number of local steps between two commits.

    Raises:
        ValueError: If it is not a whole number of at least 1.
    """
    return checks.require_integer("window", window, least=1, remedy="1 commits every step.")


def whole_buffer(buffer: Any) -> int:
    """The number of messages that a server collects for a step.

    Raises:
        ValueError: If it is not a whole number of at least 1.
    """
    return checks.require_integer("buffer", buffer, least=1, remedy="1 waits for nothing.")


def number_of_workers(workers: Any) -> int:
    """The number of workers.

    Raises:
        ValueError: If it is not a whole number of at least 1.
    """
    return checks.require_integer("workers", workers, least=1, remedy="Leave it out: the trace says it.")


def given_workers(workers: int | None) -> Hyper:
    """The number of workers as a hyper-parameter, if it is given.

    Raises:
        ValueError: If it is not a whole number of at least 1.
    """
    return {} if workers is None else {"workers": number_of_workers(workers)}


def require_same_workers(rule: Rule, given: int, workers: int) -> None:
    """Refuse a rule that was made for another number of workers than the trace's."""
    if given != workers:
        raise ValueError(
            f"`workers` of the rule {rule.name!r} must be that of the trace, {workers}; got {given}. Leave it out."
        )


def bind_workers(rule: Rule, workers: int) -> Rule:
    """The rule that counts the trace's workers: the `bind` of rules with that hyper-parameter."""
    require_same_workers(rule, rule.hyper.get("workers", workers), workers)
    return replace(rule, hyper={**rule.hyper, "workers": workers})
