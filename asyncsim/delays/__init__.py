"""Compute-time laws: how long a worker takes for one job. Each has a mean, a variance, a cdf and samples.

| module | laws |
|---|---|
| `bounded` | `Constant`, `Uniform` |
| `exponential` | `Exponential`, `ShiftedExponential` |
| `gamma` | `Gamma`, `Erlang` |
| `normal` | `LogNormal`, `HalfNormal` |
| `tails` | `Weibull`, `Pareto` |
| `mixture` | `Mixture`, `HyperExponential`, `Straggler` |
| `empirical` | `Empirical`, from measured timings |
| `scaling` | `Scaled`, and `scaled` for a slower or faster law of the same family |
| `batch` | `for_batch`, the law of a mini-batch |
| `by_job` | `ByJob`: a worker's j-th job takes what is known of it, say the time for its mini-batch |
| `fleet` | one law per worker, for workers of different speeds |
| `speed` | `VariableSpeed`: work done at a `Speed` that changes with time, a `Profile` or `SlowPeriods` |
| `fitting` | `log_likelihood`, and what the `fit` of every law shares: maximum likelihood from measured durations |
| `by_name` | the laws that can be chosen by name, and the arguments with which one replaces another |
| `per_worker` | an argument that is one law for all workers, or one law per worker |
| `timer` | `Timer`, how long work takes one worker: `steady`, or `slowed` by faults |

Every law but `Scaled` and `ByJob` has a `fit(durations, censored=())`: the law of its family that measured durations
speak for.

A law of your own is any object with the four members of `Delay` (module `law`). A law for the library belongs in the
module of its family, in `__all__` below, in the table of `tests/delays/laws.py`, so that every test of every law runs
over it, and, if its arguments are plain numbers, in `CONSTRUCTORS` of module `by_name`, so that the command line knows
it.
"""

from asyncsim.arguments import check_arguments
from asyncsim.delays import fleet
from asyncsim.delays.batch import for_batch
from asyncsim.delays.bounded import Constant, Uniform
from asyncsim.delays.by_job import ByJob
from asyncsim.delays.by_name import CONSTRUCTORS
from asyncsim.delays.empirical import Empirical
from asyncsim.delays.exponential import Exponential, ShiftedExponential
from asyncsim.delays.fitting import log_likelihood
from asyncsim.delays.gamma import Erlang, Gamma
from asyncsim.delays.law import Delay, FloatArray
from asyncsim.delays.mixture import HyperExponential, Mixture, Straggler
from asyncsim.delays.normal import HalfNormal, LogNormal
from asyncsim.delays.scaling import Scaled, scaled
from asyncsim.delays.speed import Profile, SlowPeriods, Speed, VariableSpeed
from asyncsim.delays.tails import Pareto, Weibull
from asyncsim.delays.timer import Timer, slowed, steady

__all__ = [
    "CONSTRUCTORS",
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
    "LogNormal",
    "Mixture",
    "Pareto",
    "Profile",
    "Scaled",
    "ShiftedExponential",
    "SlowPeriods",
    "Speed",
    "Straggler",
    "Timer",
    "Uniform",
    "VariableSpeed",
    "Weibull",
    "fleet",
    "for_batch",
    "log_likelihood",
    "scaled",
    "slowed",
    "steady",
]

check_arguments(__name__)
