"""Arguments that many rules have: their types, which define their checks."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, TypeVar

import numpy as np

from asyncsim import _checks as checks
from asyncsim._component import whole
from asyncsim.rules._rule import Rule

R = TypeVar("R", bound=Rule)

Number = Any  # a float, or an array with one value per seed


def whole_numbers(least: int, remedy: str) -> Callable[[str, Any], Any]:
    """A check that a value is a whole number of at least `least`, or one per seed."""
    return lambda name, value: checks.whole(name, value, least=least, remedy=remedy)


def refused_if(wrong: Callable[[Any], Any], words: str, remedy: str) -> Callable[[str, Any], Any]:
    """A check that a number, or every number of one per seed, is not negative and not wrong, with the rule in words."""

    def check(name: str, value: Any) -> Any:
        numbers = checks.not_negative(name, value)
        if np.any(wrong(numbers)):
            raise ValueError(f"`{name}` must be {words}; got {value!r}. {remedy}")
        return numbers

    return check


def positive(remedy: str) -> Callable[[str, Any], Any]:
    """A check that a number, or every number of one per seed, is positive."""
    return refused_if(lambda numbers: numbers == 0, "positive", remedy)


NotNegative = Annotated[Number, checks.not_negative]
StepSize = NotNegative
Fraction = Annotated[Number, checks.fraction]
Window = Annotated[int, whole(1, "1 commits every step.")]
Buffer = Annotated[int, whole(1, "1 waits for nothing.")]
Workers = Annotated[int, whole(1, "Leave it out: the trace says it.")]


def with_workers(rule: R, workers: int) -> R:
    """The rule that counts the trace's workers, for `for_workers` of rules with that argument."""
    given: Any = getattr(rule, "workers")  # noqa: B009
    if given not in (None, workers):
        raise ValueError(
            f"`workers` of the rule {rule.name!r} must be that of the trace, {workers}; got {given}. Leave it out."
        )
    return replace(rule, workers=workers)  # type: ignore[call-arg]
