"""From a log to a cluster: what its parameters are, how sure one is of them, and what the log cannot tell.

| module | what it does |
|---|---|
| `calibrate` | the whole way, from a trace to a `Calibration` |
| `stages` | takes a log apart into computing, messages and service |
| `choose` | one law for all workers, two classes of them, or one each; Akaike's criterion, likelihood ratios |
| `estimate` | a fitted law and the normal approximation of its likelihood; `coordinates` names its arguments |
| `shape`, `predictive` | does the law fit, does the cluster produce such a log |
| `result` | `Calibration`: cluster, parameters, samples, checks, file |
"""

from asyncsim.calibration.calibrate import calibrate
from asyncsim.calibration.predictive import Check, Checks
from asyncsim.calibration.result import Calibration, Parameter
from asyncsim.priors import LogUniform, Uniform

__all__ = ["Calibration", "Check", "Checks", "LogUniform", "Parameter", "Uniform", "calibrate"]
