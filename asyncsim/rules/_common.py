"""Arguments that several rules have, with their checks, and the steps that several rules make."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim import _checks as checks
from asyncsim._checks import require_count
from asyncsim.rules._rule import Info, Params, Rule, Sent, State, View, descent

# Arguments that several rules have: their types, which define their checks.
Number = Any  # a float, or an array with one value per seed


def refuse_if(name: str, value: Any, *, wrong: Callable[[Any], Any], requirement: str, remedy: str) -> Any:
    """Return a number, or one per seed, that is neither negative nor wrong."""
    numbers = checks.require_all_not_negative(name, value)
    if np.any(wrong(numbers)):
        raise ValueError(f"`{name}` must be {requirement}; got {checks.brief(value)}. {remedy}")
    return numbers


NotNegative = Annotated[Number, checks.require_all_not_negative]
StepSize = NotNegative
Fraction = Annotated[Number, checks.require_all_fractions]
Window = Annotated[int | Sequence[int], checks.require_all_counts, "1 commits every step."]
Workers = Annotated[int, require_count, "Leave it out: the trace says it."]


class Elementwise(Rule, named=False):
    """Base class of rules with a step size that treat every parameter independently.

    Unless a rule overrides `send`, its workers send Δθ = -η·g. The engine passes all parameters as one vector.

    Args:
        learning_rate: Step size η.

    Example:
        >>> import asyncsim as asim
        >>> class Halved(asim.rules.Elementwise, named=False):
        ...     def apply(self, central, state, message, view):
        ...         return central + message / 2, state
        >>> Halved(learning_rate=0.1).elementwise
        True
    """

    learning_rate: StepSize

    elementwise = True

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        update = descent(self.learning_rate, gradient)
        return Sent(message=update, state=state, info=Info(update=update))


# Steps that several rules make.
def over_age(message: Params, view: View) -> Params:
    return jax.tree.map(lambda u: u / (view.staleness + 1).astype(u.dtype), message)


def add(a: Params, b: Params) -> Params:
    return jax.tree.map(jnp.add, a, b)


def move(rate: Any, central: Params, message: Params) -> Params:
    """θ + η_g·Δ."""
    return jax.tree.map(lambda theta, d: theta + rate * d, central, message)
