"""From a log to a cluster: what its parameters are, how sure one is of them, and what the log cannot tell.

| folder or module | what it does |
|---|---|
| `calibrate` | the whole way, from a trace to a `Calibration` |
| `laws/` | a log taken apart into stages, and a law chosen and fitted for each |
| `model` | what is fitted if a user says it: a cluster as a function of numbers, and their priors |
| `likelihood/` | a model, by the exact likelihood of the durations that a log shows |
| `simulated/` | a model, by simulation and a neural posterior |
| `adversarial/` | Adversarial Variational Optimization, for any simulator, and of a model on a log |
| `result`, `model_fit` | `Calibration`: cluster, parameters, samples, checks, file; the same of a model |
| `predictive` | does the cluster produce such a log |
| `what_if` | throughput and staleness with other numbers of workers; `script` is a scenario of it |
| `coordinates` | names a law's arguments, and the coordinates in which errors are nearly normal |

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
900 fresh clusters (.010); of commits alone, where they tell the parameter, as 99, 77, 30 and 99 % of the logs do
(`scenarios/calibration_coverage.py`):

| log | compute mean | compute cv | latency mean | service |
|---|---|---|---|---|
| all columns | .896 | .913 | .906 | .902 |
| commits alone | .908 | .913 | .922 | .904 |
"""

from asyncsim.arguments import check_arguments
from asyncsim.calibration.adversarial.avo import Avo, avo
from asyncsim.calibration.adversarial.blocks import blocks
from asyncsim.calibration.calibrate import calibrate
from asyncsim.calibration.model import Model, default_model
from asyncsim.calibration.model_fit import ModelFit
from asyncsim.calibration.predictive import Check, Checks
from asyncsim.calibration.result import Calibration, Parameter
from asyncsim.calibration.simulated.posterior import Posterior
from asyncsim.calibration.what_if import ladder, what_if
from asyncsim.priors import LogUniform, Uniform

__all__ = [
    "Avo",
    "Calibration",
    "Check",
    "Checks",
    "LogUniform",
    "Model",
    "ModelFit",
    "Parameter",
    "Posterior",
    "Uniform",
    "avo",
    "blocks",
    "calibrate",
    "default_model",
    "ladder",
    "what_if",
]

_RESULTS = {"Avo", "Calibration", "Check", "Checks", "ModelFit", "Parameter", "Posterior"}  # which nobody else makes
check_arguments(__name__, sorted({*__all__} - _RESULTS), acts=True)
