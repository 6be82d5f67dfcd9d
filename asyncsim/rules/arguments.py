"""Arguments that many rules have, checked."""

from typing import Any

from asyncsim import checks
from asyncsim.rules.rule import Hyper


def step_size(learning_rate: Any) -> Hyper:
    """The step size as a hyper-parameter.

    Raises:
        ValueError: If it is not finite.
    """
    return {"learning_rate": checks.finite("learning_rate", learning_rate)}


def step_size_and_momentum(learning_rate: Any, momentum: Any) -> Hyper:
    """Step size and momentum as hyper-parameters.

    Raises:
        ValueError: If the step size is not finite or the momentum lies outside [0, 1).
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
    return checks.require_integer("workers", workers, least=1, remedy="Give the trace's number of workers.")
