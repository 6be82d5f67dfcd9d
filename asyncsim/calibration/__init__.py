"""From a log to a cluster: its parameters, their confidence intervals, and those that the log does not identify.

| module | purpose |
|---|---|
| `calibrate` | from a trace to a `Fit`: the one function that knows all methods |
| `fit` | `Fit`: model, log, notes and evidence, with samples, what-ifs, checks and a file |
| `laws`, `rollouts` | models that AIC chooses: the laws of a cluster's stages, and those of generation and of steps |
| `likelihood`, `npe` | a user's model, by the exact likelihood of the durations that a log shows, or by simulation |
| `model`, `priors` | a user's model: a cluster as a function of numbers, their priors, and the clusters of its fit |
| `choose`, `maximum`, `terms` | maximum likelihood: of a law and its alternatives, of any function, of a cluster |
| `simulations` | the prior's clusters, simulated in the processes of a queue |
| `steps` | the steps of `npe`, one by one, for studies of many logs of one model |
| `stages`, `goodness`, `statistics` | a log: its stages and warnings, tests of laws, statistics for comparison |
| `waiting` | whether workers wait for the end of a step |
| `transforms` | coordinates in which errors are nearly normal |
| `avo`, `critic` | Adversarial Variational Optimization, for any simulator |
| `what_if` | throughput and staleness with other numbers of workers, and a scenario of it |

Imports run from `transforms`, `statistics`, `stages` and `model` up to the methods, and from these to `fit` and
`calibrate`.

Neighbours use `_calibrate` and `_npe` (choices and limits of the methods), `_fit` (unanswered questions), `_laws` and
`_transforms` (names of methods and families), `_model` (a user's model once it is fitted), `_rollouts` (the system that
a log shows), `_simulations` (progress and failures), `_statistics` (units of statistics), `_what_if` (the script of a
fit) and `_priors` (their base class, which sweeps draw from).

`docs/explanation/calibration.md` shows how often the intervals contain the true values.
"""

import lazy_loader

# A sweep draws from `_priors`, and needs none of the methods.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
