"""The table of laws that every test of every law runs over: a new law needs a line here."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from asyncsim import delays
from asyncsim.delays import Delay

SAMPLES = 10_000
STANDARD_ERRORS = 5  # a false alarm once in about 2 million


class Case(NamedTuple):
    """A law, SciPy's law with the same parameters, and what its samples can show."""

    law: Any
    twin: Any = None
    moments: int = 2  # how many of mean and variance converge within their standard errors


@dataclass(frozen=True)
class Own:
    """A user's law with the four members and nothing else: no quantile, no times that could be scaled."""

    rate: float

    @property
    def mean(self) -> float:
        return 1 / self.rate

    @property
    def variance(self) -> float:
        return 1 / self.rate**2

    def cdf(self, t: Any) -> Any:
        return -np.expm1(-self.rate * np.maximum(np.asarray(t, dtype=float), 0.0))

    def sample(self, generator: np.random.Generator, size: int) -> Any:
        return generator.standard_exponential(size) / self.rate


@dataclass(frozen=True)
class Pattern:
    """Times of jobs: every third takes four seconds, the others one."""

    def __call__(self, job: Any) -> Any:
        return 1.0 + 3.0 * (job % 3 == 0)


def _gamma(mean: float, cv: float, loc: float = 0.0) -> Any:
    return stats.gamma(1 / cv**2, loc=loc, scale=mean * cv**2)


def _lognormal(mean: float, cv: float) -> Any:
    return stats.lognorm(math.sqrt(math.log(1 + cv**2)), scale=mean / math.sqrt(1 + cv**2))


def _weibull(mean: float, shape: float) -> Any:
    return stats.weibull_min(shape, scale=mean / math.gamma(1 + 1 / shape))


_TIMINGS = (0.25, 0.5, 0.5, 3.0, 1.75)
_NESTED = delays.Mixture((0.5, 0.5), (delays.HyperExponential((0.2, 0.8), (5.0, 1.0)), delays.Gamma(3.0, 0.2)))


CASES = [
    Case(delays.Constant(0.0)),
    Case(delays.Constant(1.5)),
    Case(delays.Uniform(0.5, 2.0), stats.uniform(0.5, 1.5)),
    Case(delays.Uniform(1.0, 1.0)),
    Case(delays.Exponential(mean=0.7), stats.expon(scale=0.7)),
    Case(delays.ShiftedExponential(shift=1.5, tail=0.5), stats.expon(1.5, 0.5)),
    Case(delays.ShiftedExponential(shift=0.0, tail=2.0), stats.expon(scale=2.0)),
    Case(delays.Gamma(mean=1.0, cv=0.1), _gamma(1.0, 0.1)),
    Case(delays.Gamma(mean=2.0, cv=1.5), _gamma(2.0, 1.5)),
    Case(delays.Erlang(mean=2.0, shape=1), stats.expon(scale=2.0)),
    Case(delays.Erlang(mean=3.0, shape=5), stats.erlang(5, scale=0.6)),
    Case(delays.LogNormal(mean=1.0, cv=0.3), _lognormal(1.0, 0.3)),
    Case(delays.LogNormal(mean=3.0, cv=0.8), _lognormal(3.0, 0.8)),
    Case(delays.HalfNormal(base=0.0, spread=1.0), stats.halfnorm(scale=1.0)),
    Case(delays.HalfNormal(base=2.0, spread=0.5), stats.halfnorm(2.0, 0.5)),
    Case(delays.Weibull(mean=2.0, shape=0.7), _weibull(2.0, 0.7)),
    Case(delays.Weibull(mean=2.0, shape=3.5), _weibull(2.0, 3.5)),
    Case(delays.Pareto(minimum=0.5, shape=12.0), stats.pareto(12.0, scale=0.5)),
    Case(delays.Pareto(minimum=2.0, shape=2.5), stats.pareto(2.5, scale=2.0), moments=1),
    Case(delays.Pareto(minimum=1.0, shape=1.5), stats.pareto(1.5), moments=0),
    Case(delays.HyperExponential((0.3, 0.7), (3.0, 0.5))),
    Case(delays.Mixture((1.0,), (delays.Gamma(2.0, 0.5),)), _gamma(2.0, 0.5)),
    Case(delays.Mixture((0.25, 0.0, 0.75), (delays.Weibull(1.0, 2.0), Own(9.0), delays.LogNormal(2.0, 0.3)))),
    Case(delays.Mixture((0.4, 0.6), (delays.Constant(1.0), delays.HalfNormal(0.5, 1.0)))),
    Case(delays.Mixture((0.5, 0.5), (Own(0.5), delays.Pareto(1.0, 12.0)))),
    Case(_NESTED),
    Case(delays.Straggler(delays.Gamma(1.0, 0.3), probability=0.05, factor=10.0)),
    Case(delays.Straggler(delays.ShiftedExponential(1.0, 0.5), probability=0.0, factor=2.0), stats.expon(1.0, 0.5)),
    Case(delays.Straggler(delays.Uniform(1.0, 2.0), probability=1.0, factor=3.0), stats.uniform(3.0, 3.0)),
    Case(delays.Straggler(delays.Scaled(Own(1.0), 2.0, 0.5), probability=0.2, factor=4.0)),
    Case(delays.Scaled(delays.Gamma(1.0, 0.5), scale=2.0, shift=3.0), _gamma(2.0, 0.5, loc=3.0)),
    Case(delays.Scaled(_NESTED, scale=0.5)),
    Case(delays.Empirical(_TIMINGS)),
    Case(delays.Straggler(delays.Empirical(_TIMINGS), probability=0.1, factor=5.0)),
    Case(delays.ByJob(Pattern())),
    Case(delays.ByJob(Pattern(), delays.Gamma(1.0, 0.3))),
]
LAWS = [case.law for case in CASES]


def cases(keep: Callable[[Case], object]) -> dict[str, Any]:
    """Arguments of `parametrize` for the cases to keep."""
    kept = [case for case in CASES if keep(case)]
    return {"argnames": "case", "argvalues": kept, "ids": [repr(case.law) for case in kept]}


@functools.cache
def draw(law: Delay, size: int = SAMPLES) -> np.ndarray:
    sample = law.sample(np.random.default_rng(1), size)
    sample.flags.writeable = False
    return sample


def within(measured: float, expected: float, standard_error: float) -> bool:
    return abs(measured - expected) <= STANDARD_ERRORS * standard_error + 1e-12
