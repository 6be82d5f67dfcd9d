"""The laws that can be chosen by name, and the arguments with which one law takes the place of another."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

from asyncsim.checks import one_of
from asyncsim.delays.bounded import Constant, Uniform
from asyncsim.delays.exponential import Exponential, ShiftedExponential
from asyncsim.delays.gamma import Gamma
from asyncsim.delays.law import Delay
from asyncsim.delays.normal import HalfNormal, LogNormal
from asyncsim.delays.tails import Pareto, Weibull

CONSTRUCTORS: dict[str, Callable[..., Delay]] = {
    "constant": Constant,
    "uniform": Uniform,
    "exponential": Exponential,
    "gamma": Gamma,
    "lognormal": LogNormal,
    "shifted_exponential": ShiftedExponential,
    "half_normal": HalfNormal,
    "weibull": Weibull,
    "pareto": Pareto,
    # Erlang's law cannot keep a spread, as its shape is an integer: `gamma` with cv = 1 / sqrt(shape) is the same law.
}


def law_arguments(law: Delay | Sequence[Delay], name: str) -> dict[str, float]:
    """Arguments with which the law `name` keeps the mean of another law and, if it is finite, its spread.

    Args:
        law: The law whose place it takes, or one law per worker, which are averaged.
        name: A name in `CONSTRUCTORS`.

    Raises:
        ValueError: If there is no such law; the nearest is suggested.

    Returns:
        Argument -> value. An argument that the mean and the spread do not determine is left out, such as `cv` if
        the present law has no variance; a spread that the new law cannot have without going below zero is reduced.

    Example:
        >>> law_arguments(Gamma(mean=2.0, cv=0.5), "lognormal"), law_arguments(Constant(2.0), "exponential")
        ({'mean': 2.0, 'cv': 0.5}, {'mean': 2.0})
        >>> {key: round(value, 3) for key, value in law_arguments(Gamma(mean=2.0, cv=0.3), "uniform").items()}
        {'low': 0.961, 'high': 3.039}
    """
    constructor: Any = CONSTRUCTORS[one_of("compute", name, CONSTRUCTORS)]
    laws = law if isinstance(law, Sequence) else (law,)
    mean = sum(one.mean for one in laws) / len(laws)
    variance = sum(getattr(one, "variance", math.inf) for one in laws) / len(laws)  # `VariableSpeed` has none
    half = min(math.sqrt(3 * variance), mean)  # half the width of a uniform law, which does not reach below zero
    carried = {"value": mean, "mean": mean, "low": mean - half, "high": mean + half}
    if variance:
        tail = min(math.sqrt(variance), mean)
        excess = min(math.sqrt(variance / (math.pi / 2 - 1)), mean)  # mean of a half-normal law above its base
        carried |= {"shift": mean - tail, "tail": tail}
        carried |= {"base": mean - excess, "spread": excess * math.sqrt(math.pi / 2)}
    if 0 < variance < math.inf:
        carried["cv"] = math.sqrt(variance) / mean
        if name in ("weibull", "pareto"):
            return dataclasses.asdict(constructor.from_cv(mean, carried["cv"]))
    names = [field.name for field in dataclasses.fields(constructor)]
    return {name: carried[name] for name in names if name in carried}
