"""Update rules: what a worker sends, how the server applies it, and where the worker continues.

=========================== ======================== ===========================================================
family                      module                   rules
=========================== ======================== ===========================================================
asynchronous SGD            `rules.downpour`         `Downpour`
scaled by staleness         `rules.staleness`        `AdaptiveStaleness`, `StalenessAware`, `DropStale`,
                                                     `DelayAdaptive`
gradient energy matching    `rules.gem`              `GEM`
momentum                    `rules.momentum`         `MomentumSGD`, `MultiASGD`, `HeavyBall`,
                                                     `SharedNesterov`, `DelayedNesterov`
look-ahead of all workers   `rules.dana`             `DANA`
tuned step and momentum     `rules.yellowfin`        `YellowFin`
delay compensation          `rules.compensation`     `DCASGD`, `GapAware`
prediction (pipelines)      `rules.prediction`       `WeightPrediction`, `SpecTrain`, `PipeMare`
optax optimisers            `rules.optimisers`       `WorkerOptimiser`, `ServerOptimiser`, `Muon`
windows of local steps      `rules.windows`          `AGN`, `ADAG`, `DynSGD`
rounds of local steps       `rules.local_sgd`        `LocalSGD`, `DiLoCo`
elastic averaging           `rules.elastic`          `EASGD`, `AEASGD`, `EAMSGD`
federated and buffered      `rules.federated`        `FedAsync`, `FedBuff`, `FADAS`, `CA2FL`
time-optimal                `rules.time_optimal`     `Rennala`, `Ringmaster`
one entry per worker        `rules.gradient_tables`  `IA2SGD`, `Malenia`, `Ringleader`
=========================== ======================== ===========================================================

An argument that several rules have means the same in all of them:

- `learning_rate`: the step size that multiplies gradients, or the updates of an optimiser. If workers make local steps,
  it is that of a local step, and `server_learning_rate` multiplies the update that the server makes of them. Two rules
  differ in what a whole step is: the gradients of `DelayedNesterov` count 1/N each, and `YellowFin` tunes the step
  size, of which this is a factor.
- `momentum`: the share of a moment that is kept from step to step.
- `decay`: the same share for a moving average of squares, or with `YellowFin` of all that it measures.
- `limit`: the delay at which a gradient no longer counts, as in `asyncsim.protocols.Ringmaster`; `oldest`: the largest
  staleness that counts; `grace`: the staleness up to which an update counts in full.
- `window`: local steps between two commits; `buffer`: commits from which the server makes a step.
- `workers`: the trace's number of workers, from which it is taken if it is not given.

`rules.rule` says what a rule is, `rules.arguments` checks the arguments that many rules have, `rules.proxy` puts the
proxy of GEM beside any rule (`WithProxy`), `rules.compressed` sends its messages with fewer bytes (`compressed`),
and `rules.citations` says which publication a rule is from.
"""

from asyncsim import checks
from asyncsim.arguments import check_arguments
from asyncsim.rules.compensation import DCASGD, GapAware
from asyncsim.rules.compressed import Compressed, compressed, message_bytes
from asyncsim.rules.dana import DANA
from asyncsim.rules.downpour import Downpour
from asyncsim.rules.elastic import AEASGD, EAMSGD, EASGD
from asyncsim.rules.federated import CA2FL, FADAS, FedAsync, FedBuff
from asyncsim.rules.gem import GEM
from asyncsim.rules.gradient_tables import IA2SGD, Malenia, Ringleader
from asyncsim.rules.local_sgd import DiLoCo, LocalSGD
from asyncsim.rules.momentum import DelayedNesterov, HeavyBall, MomentumSGD, MultiASGD, SharedNesterov
from asyncsim.rules.optimisers import Muon, ServerOptimiser, WorkerOptimiser
from asyncsim.rules.prediction import PipeMare, SpecTrain, WeightPrediction
from asyncsim.rules.proxy import WithProxy
from asyncsim.rules.rule import CLASSES, Info, Rule, Sent, View
from asyncsim.rules.staleness import AdaptiveStaleness, DelayAdaptive, DropStale, StalenessAware
from asyncsim.rules.time_optimal import Rennala, Ringmaster
from asyncsim.rules.windows import ADAG, AGN, DynSGD
from asyncsim.rules.yellowfin import YellowFin

CONSTRUCTORS: dict[str, type[Rule]] = {name: CLASSES[name] for name in sorted(CLASSES)}


def by_name(name: str) -> type[Rule]:
    """The class of the rule with this command-line name, of the library or of your own.

    Raises:
        ValueError: If there is none; the nearest name is suggested.

    Example:
        >>> by_name("gem")(learning_rate=0.1)
        GEM(learning_rate=0.1, momentum=0.9, kappa=1.0, variant='script', proxy='worker')
    """
    return CLASSES[checks.one_of("name", name, CLASSES)]


__all__ = [
    "ADAG",
    "AEASGD",
    "AGN",
    "CA2FL",
    "CLASSES",
    "CONSTRUCTORS",
    "DANA",
    "DCASGD",
    "EAMSGD",
    "EASGD",
    "FADAS",
    "GEM",
    "IA2SGD",
    "AdaptiveStaleness",
    "Compressed",
    "DelayAdaptive",
    "DelayedNesterov",
    "DiLoCo",
    "Downpour",
    "DropStale",
    "DynSGD",
    "FedAsync",
    "FedBuff",
    "GapAware",
    "HeavyBall",
    "Info",
    "LocalSGD",
    "Malenia",
    "MomentumSGD",
    "MultiASGD",
    "Muon",
    "PipeMare",
    "Rennala",
    "Ringleader",
    "Ringmaster",
    "Rule",
    "Sent",
    "ServerOptimiser",
    "SharedNesterov",
    "SpecTrain",
    "StalenessAware",
    "View",
    "WeightPrediction",
    "WithProxy",
    "WorkerOptimiser",
    "YellowFin",
    "by_name",
    "compressed",
    "message_bytes",
]

check_arguments(__name__)
