"""From a log to a cluster: its parameters, their confidence intervals, and those that the log does not identify.

| module | purpose |
|---|---|
| `calibrate` | from a trace to a `Fit`, by every method |
| `fit`, `laws` | `Fit`: cluster, parameters, draws, checks, file; the laws that AIC chooses as a model |
| `model`, `transforms` | a user's model: a cluster as a function of numbers, and their priors; coordinates |
| `stages`, `log_warnings` | a log taken apart into stages; pauses, doubled lines, coarse clocks, workers who left |
| `estimate`, `choose` | a law fitted, with alternatives; one law for all workers, two classes of them, or one each |
| `likelihood`, `terms`, `constants`, `maximum` | a model, by the exact likelihood of the durations that a log shows |
| `npe`, `summaries`, `simulations`, `estimator` | a model, by simulation and a neural posterior |
| `goodness`, `predictive` | do the laws fit; does the cluster produce such a log |
| `what_if` | throughput and staleness with other numbers of workers, and a scenario of it |

How often the 90 % intervals hold the truth: clusters of 12 workers, 1200 commits each, drawn from wide priors; 300 with
all columns (standard error .017), other 300 for laws that AIC chooses, 600 with commits alone (.012). All laws are
gamma; AIC chooses this family in 80 to 87 % of logs. Near a cv of 1, and by chance, it prefers another one, so that
intervals of the chosen family alone miss the cv too often; over all families, with Akaike weights, they are some 10 %
wider and do not.

| log | compute mean | compute cv | latency mean | latency cv | service mean | service cv |
|---|---|---|---|---|---|---|
| all columns, laws named | .893 | .889 | .907 | .887 | .897 | .907 |
| all columns, laws chosen by AIC | .905 | .905 | .933 | .883 | .937 | .883 |
| the same, had the chosen family been taken for granted | .877 | .827 | .913 | .800 | .913 | .810 |
| commits alone, no network or service, law named | .868 | .877 | | | | |

With a model (``method="likelihood"``: gamma, exponential latency, a constant service), 300 clusters, all columns: mean
.867, cv .907, latency .883 (.017), service without error; widths are 1.000 times those of the first row's method.

By simulation, with gamma compute times, exponential latency and a constant service, learned from 15 008 simulations:
900 fresh clusters (.010); of commits alone, where they identify the parameter, as 99, 77, 30 and 99 % of the logs do
(`scenarios/calibration_coverage.py`):

| log | compute mean | compute cv | latency mean | service |
|---|---|---|---|---|
| all columns | .896 | .913 | .906 | .902 |
| commits alone | .908 | .913 | .922 | .904 |
"""

from asyncsim._arguments import check_arguments
from asyncsim._priors import LogUniform, Uniform
from asyncsim.calibration._calibrate import calibrate
from asyncsim.calibration._fit import Fit
from asyncsim.calibration._model import Model, Parameter, default_model
from asyncsim.calibration._predictive import Check, Checks
from asyncsim.calibration._what_if import ladder, what_if

__all__ = [
    "Check",
    "Checks",
    "Fit",
    "LogUniform",
    "Model",
    "Parameter",
    "Uniform",
    "calibrate",
    "default_model",
    "ladder",
    "what_if",
]

_RESULTS = {"Check", "Checks", "Fit", "Parameter"}  # which nobody else makes
check_arguments(__name__, sorted({*__all__} - _RESULTS), acts=True)
