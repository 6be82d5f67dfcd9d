"""From a log to a cluster: its parameters, their confidence intervals, and those that the log does not identify.

| module | purpose |
|---|---|
| `calibrate` | from a trace to a `Fit`, by every method |
| `fit`, `laws` | `Fit` (cluster, parameters, draws, checks, file) and the laws that AIC chooses as a model |
| `model`, `transforms` | a user's model (a cluster as a function of numbers, and their priors) and its coordinates |
| `stages` | the stages of a log, with warnings about pauses, doubled lines, coarse clocks and workers who left |
| `choose` | a fitted law and its alternatives, for all workers, for two classes of them, or for each worker |
| `likelihood`, `terms`, `maximum` | a model, by the exact likelihood of the durations that a log shows |
| `npe`, `simulations` | a model, by simulation and a neural posterior |
| `rollouts` | rollouts, by the likelihood of the generation and step times that their log shows |
| `statistics`, `goodness` | statistics of a log, with tests of the fitted cluster and of its laws |
| `avo`, `critic` | Adversarial Variational Optimization, for any simulator |
| `what_if` | throughput and staleness with other numbers of workers, and a scenario of it |

`docs/explanation/calibration.md` shows how often the intervals contain the true values.
"""

from asyncsim._priors import LogUniform, Uniform
from asyncsim.calibration._avo import Avo, avo
from asyncsim.calibration._calibrate import calibrate
from asyncsim.calibration._fit import Fit
from asyncsim.calibration._model import Model, Parameter, default_model, ladder
from asyncsim.calibration._statistics import Check, Checks
from asyncsim.calibration._what_if import what_if

__all__ = [
    "Avo",
    "Check",
    "Checks",
    "Fit",
    "LogUniform",
    "Model",
    "Parameter",
    "Uniform",
    "avo",
    "calibrate",
    "default_model",
    "ladder",
    "what_if",
]
