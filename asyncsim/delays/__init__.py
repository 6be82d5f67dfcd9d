"""Laws of delays, classes whose fields are their settings: how long a gradient, a message or a service takes.

Each has mean, variance and samples. Every law but `Scaled`, `Sum` and `ByJob` has a `fit(durations, censored=())`,
which returns the law of its family with the highest likelihood. An argument that is not finite, out of range or of
another type is refused with a ValueError that names the argument and a remedy.

A law of your own is any object with the four members of `Delay` (module `_law`). A law for the library belongs in the
module of its family, in `__all__` below, and in the table of `tests/delays/laws.py`, so that every test of every law
runs over it. One that derives from `Law` is known to the command line by its name.

Neighbours use `_law` (the base class of laws, and their checks), `_by_job` (laws of jobs that are known beforehand),
`_mixture` (laws that draw from laws) and `_per_worker` (one law for all workers, or one per worker).
"""

from typing import Any

from asyncsim.components import _families as families
from asyncsim.delays import fleet
from asyncsim.delays._batch import for_batch
from asyncsim.delays._bounded import Constant, Uniform
from asyncsim.delays._by_job import ByJob
from asyncsim.delays._empirical import Empirical
from asyncsim.delays._gamma import Erlang, Exponential, Gamma, ShiftedExponential
from asyncsim.delays._law import Delay, FloatArray, Law, Scaled, Sum, log_likelihood, scaled, sum_of
from asyncsim.delays._mixture import HyperExponential, Mixture, Straggler
from asyncsim.delays._speed import Profile, SlowPeriods, Speed, Timer, VariableSpeed, slowed, steady
from asyncsim.delays._tails import HalfNormal, LogNormal, Pareto, Weibull

__all__ = [
    "ByJob",
    "Constant",
    "Delay",
    "Empirical",
    "Erlang",
    "Exponential",
    "FloatArray",
    "Gamma",
    "HalfNormal",
    "HyperExponential",
    "Law",
    "LogNormal",
    "Mixture",
    "Pareto",
    "Profile",
    "Scaled",
    "ShiftedExponential",
    "SlowPeriods",
    "Speed",
    "Straggler",
    "Sum",
    "Timer",
    "Uniform",
    "VariableSpeed",
    "Weibull",
    "by_name",
    "fleet",
    "for_batch",
    "log_likelihood",
    "scaled",
    "slowed",
    "steady",
    "sum_of",
]


def by_name(name: str) -> type[Any]:
    """Return the class with this command-line name among the delays, those of your own included.

    Args:
        name: The name, for example "gamma".

    Raises:
        ValueError: If there is none. The nearest name is suggested.

    Example:
        >>> by_name("gamma")(mean=1.0, cv=0.3)
        Gamma(mean=1.0, cv=0.3)
    """
    return families.by_name("delays", name)
