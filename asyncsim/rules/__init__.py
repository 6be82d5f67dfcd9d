"""Update rules: the message of a worker, its application by the server, and where the worker continues.

=========================== ==================================================
family                      rules
=========================== ==================================================
asynchronous SGD            `Downpour`
scaled by staleness         `AdaptiveStaleness`, `StalenessAware`, `DropStale`,
                            `DelayAdaptive`
gradient energy matching    `GEM`
momentum                    `MomentumSGD`, `MultiASGD`, `HeavyBall`,
                            `SharedNesterov`, `DelayedNesterov`,
                            `DampedNesterov`
look-ahead of all workers   `DANA`
tuned step and momentum     `YellowFin`
delay compensation          `DCASGD`, `GapAware`
prediction (pipelines)      `WeightPrediction`, `SpecTrain`, `PipeMare`
optax optimisers            `WorkerOptimiser`, `ServerOptimiser`, `Muon`
windows of local steps      `AGN`, `ADAG`, `DynSGD`
rounds of local steps       `LocalSGD`, `DiLoCo`, `NoLoCo`
workers on a graph          `ExactDiffusion`
elastic averaging           `EASGD`, `AEASGD`, `EAMSGD`
federated and buffered      `FedAsync`, `FedBuff`, `FADAS`, `CA2FL`
time-optimal                `Rennala`, `Ringmaster`
one entry per worker        `IA2SGD`, `Malenia`, `Ringleader`
=========================== ==================================================

An argument that several rules have means the same in all of them. A number may be a scalar, or have one value per seed.
A value of the wrong type or out of range is refused with a ValueError that names the argument and a remedy.

- `learning_rate`: the step size that multiplies gradients, or the updates of an optimiser. If workers make local steps,
  it is that of a local step, and `server_learning_rate` multiplies the update that the server makes of them. Two rules
  differ in their whole step: the gradients of `DelayedNesterov` count 1/N each, and `YellowFin` tunes the step
  size, of which this is a factor.
- `momentum`: the share of a moment that is kept from step to step.
- `decay`: the same share for a moving average of squares, or with `YellowFin` of all that it measures.
- `limit`: the delay at which a gradient no longer counts, as in `asyncsim.protocols.Ringmaster`. `oldest`: the largest
  staleness that counts. `grace`: the staleness up to which an update counts in full.
- `window`: local steps between two commits, H, one number or a sequence with one per worker, such as that of
  `delays.fleet.windows_by_speed`. In a scenario a job takes the sum of H draws of `compute`, and elsewhere as many as
  `Cluster.local_steps` says.
- `buffer`: commits from which the server makes a step.
- `workers`: the trace's number of workers, from which it is taken if it is not given.

Rules around rules combine them: `local` gives the workers of a rule a window of local steps, and the rule their
displacement in place of a gradient. `weighted` multiplies gradients by a weight of their age, a `Weight` such as
`Polynomial`, `Exponential` or `CosineGate`. `scheduled` multiplies the step size by a factor of the server's version, a
`StepSchedule` such as `CosineDecay` or `LinearDecay`. `hierarchical` gives regions and their global server two rules
(`asyncsim.Hierarchy`). `compressed` sends a rule's messages with fewer bytes, and
`WithProxy` computes the proxy of GEM next to any rule.

`asyncsim.citation` gives the publication of a rule.

Neighbours use `_citations` (publications as BibTeX), `_optimisers` (optax optimisers, by name or as objects),
`_schedules` (a rule at a version of the server), `_hierarchy` (the rule of a global server), `_wrappers` (the layers of
a rule) and `_rule` (windows of all workers).
"""

from asyncsim.components import _families as families
from asyncsim.rules._asynchronous import AdaptiveStaleness, DelayAdaptive, Downpour, DropStale, StalenessAware
from asyncsim.rules._common import Elementwise
from asyncsim.rules._compensation import DCASGD, GapAware
from asyncsim.rules._diffusion import ExactDiffusion
from asyncsim.rules._elastic import AEASGD, EAMSGD, EASGD
from asyncsim.rules._federated import CA2FL, FADAS, FedAsync, FedBuff
from asyncsim.rules._gem import GEM
from asyncsim.rules._gradient_tables import IA2SGD, Malenia, Ringleader
from asyncsim.rules._hierarchy import Hierarchical, hierarchical
from asyncsim.rules._local import Local, local
from asyncsim.rules._momentum import DampedNesterov, DelayedNesterov, HeavyBall, MomentumSGD, MultiASGD, SharedNesterov
from asyncsim.rules._optimisers import Muon, ServerOptimiser, WorkerOptimiser
from asyncsim.rules._prediction import DANA, PipeMare, SpecTrain, WeightPrediction
from asyncsim.rules._rule import Info, Rule, Sent, View, message_bytes
from asyncsim.rules._schedules import CosineDecay, LinearDecay, Scheduled, StepSchedule, scheduled
from asyncsim.rules._time_optimal import Rennala, Ringmaster
from asyncsim.rules._weights import CosineGate, Exponential, Polynomial, Weight, Weighted, weighted
from asyncsim.rules._windows import ADAG, AGN, DiLoCo, DynSGD, LocalSGD, NoLoCo
from asyncsim.rules._wrappers import Compressed, WithProxy, compressed
from asyncsim.rules._yellowfin import YellowFin

__all__ = [
    "ADAG",
    "AEASGD",
    "AGN",
    "CA2FL",
    "DANA",
    "DCASGD",
    "EAMSGD",
    "EASGD",
    "FADAS",
    "GEM",
    "IA2SGD",
    "AdaptiveStaleness",
    "Compressed",
    "CosineDecay",
    "CosineGate",
    "DampedNesterov",
    "DelayAdaptive",
    "DelayedNesterov",
    "DiLoCo",
    "Downpour",
    "DropStale",
    "DynSGD",
    "Elementwise",
    "ExactDiffusion",
    "Exponential",
    "FedAsync",
    "FedBuff",
    "GapAware",
    "HeavyBall",
    "Hierarchical",
    "Info",
    "LinearDecay",
    "Local",
    "LocalSGD",
    "Malenia",
    "MomentumSGD",
    "MultiASGD",
    "Muon",
    "NoLoCo",
    "PipeMare",
    "Polynomial",
    "Rennala",
    "Ringleader",
    "Ringmaster",
    "Rule",
    "Scheduled",
    "Sent",
    "ServerOptimiser",
    "SharedNesterov",
    "SpecTrain",
    "StalenessAware",
    "StepSchedule",
    "View",
    "Weight",
    "WeightPrediction",
    "Weighted",
    "WithProxy",
    "WorkerOptimiser",
    "YellowFin",
    "by_name",
    "compressed",
    "hierarchical",
    "local",
    "message_bytes",
    "scheduled",
    "weighted",
]


def by_name(name: str) -> type[Rule]:
    """Return the class with this command-line name among the rules, those of your own included.

    Args:
        name: The name, for example "downpour".

    Raises:
        ValueError: If there is none. The nearest name is suggested.

    Example:
        >>> by_name("downpour")(0.1)
        Downpour(learning_rate=0.1, window=1)
    """
    return families.by_name("rules", name)
