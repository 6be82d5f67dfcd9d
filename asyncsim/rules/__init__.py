"""Update rules: what a worker sends, how the server applies it, and where the worker continues.

=========================== ======================== ===========================================================
family                      module                   rules
=========================== ======================== ===========================================================
asynchronous SGD            `rules.downpour`         `downpour`
scaled by staleness         `rules.staleness`        `adaptive_staleness`, `staleness_aware`, `drop_stale`,
                                                     `delay_adaptive`
gradient energy matching    `rules.gem`              `gem`
momentum                    `rules.momentum`         `momentum_sgd`, `multi_asgd`, `heavy_ball`,
                                                     `shared_nesterov`, `delayed_nesterov`
look-ahead of all workers   `rules.dana`             `dana`
tuned step and momentum     `rules.yellowfin`        `yellowfin`
delay compensation          `rules.compensation`     `dc_asgd`, `gap_aware`
prediction (pipelines)      `rules.prediction`       `weight_prediction`, `spectrain`, `pipemare`
optax optimisers            `rules.optimisers`       `worker`, `server`, `muon`
windows of local steps      `rules.windows`          `agn`, `adag`, `dynsgd`
rounds of local steps       `rules.local_sgd`        `local_sgd`, `diloco`
elastic averaging           `rules.elastic`          `easgd`, `aeasgd`, `eamsgd`
federated and buffered      `rules.federated`        `fedasync`, `fedbuff`, `fadas`, `ca2fl`
time-optimal                `rules.time_optimal`     `rennala`, `ringmaster`
one entry per worker        `rules.gradient_tables`  `ia2sgd`, `malenia`, `ringleader`
=========================== ======================== ===========================================================

An argument that several rules have means the same in all of them:

- `learning_rate`: the step size that multiplies gradients, or the updates of an optimiser. If workers make local steps,
  it is that of a local step, and `server_learning_rate` multiplies the update that the server makes of them. Two rules
  differ in what a whole step is: the gradients of `delayed_nesterov` count 1/N each, and `yellowfin` tunes the step
  size, of which this is a factor.
- `momentum`: the share of a moment that is kept from step to step.
- `decay`: the same share for a moving average of squares, or with `yellowfin` of all that it measures.
- `limit`: the delay at which a gradient no longer counts, as in `asyncsim.protocols.Ringmaster`; `oldest`: the largest
  staleness that counts; `grace`: the staleness up to which an update counts in full.
- `window`: local steps between two commits; `buffer`: commits from which the server makes a step.
- `workers`: the trace's number of workers, from which it is taken if it is not given.

`rules.rule` says what a rule is, `rules.arguments` checks the arguments that many rules have, `rules.proxy` puts the
proxy of GEM beside any rule (`beside_proxy`), `rules.compressed` sends its messages with fewer bytes (`compressed`),
and `rules.citations` says which publication a rule is from.
"""

from collections.abc import Callable

from asyncsim.arguments import check_arguments
from asyncsim.rules.compensation import dc_asgd, gap_aware
from asyncsim.rules.compressed import compressed, message_bytes
from asyncsim.rules.dana import dana
from asyncsim.rules.downpour import downpour
from asyncsim.rules.elastic import aeasgd, eamsgd, easgd
from asyncsim.rules.federated import ca2fl, fadas, fedasync, fedbuff
from asyncsim.rules.gem import gem
from asyncsim.rules.gradient_tables import ia2sgd, malenia, ringleader
from asyncsim.rules.local_sgd import diloco, local_sgd
from asyncsim.rules.momentum import delayed_nesterov, heavy_ball, momentum_sgd, multi_asgd, shared_nesterov
from asyncsim.rules.optimisers import muon, server, worker
from asyncsim.rules.prediction import pipemare, spectrain, weight_prediction
from asyncsim.rules.proxy import beside_proxy
from asyncsim.rules.rule import (
    Apply,
    Info,
    LocalStep,
    Resume,
    Rule,
    Send,
    Sent,
    Start,
    StartServer,
    View,
    constructor_of,
)
from asyncsim.rules.staleness import adaptive_staleness, delay_adaptive, drop_stale, staleness_aware
from asyncsim.rules.time_optimal import rennala, ringmaster
from asyncsim.rules.windows import adag, agn, dynsgd
from asyncsim.rules.yellowfin import yellowfin

CONSTRUCTORS: dict[str, Callable[..., Rule]] = {
    "adag": adag,
    "adaptive_staleness": adaptive_staleness,
    "aeasgd": aeasgd,
    "agn": agn,
    "ca2fl": ca2fl,
    "dana": dana,
    "dc_asgd": dc_asgd,
    "delay_adaptive": delay_adaptive,
    "delayed_nesterov": delayed_nesterov,
    "diloco": diloco,
    "downpour": downpour,
    "drop_stale": drop_stale,
    "dynsgd": dynsgd,
    "eamsgd": eamsgd,
    "easgd": easgd,
    "fadas": fadas,
    "fedasync": fedasync,
    "fedbuff": fedbuff,
    "gap_aware": gap_aware,
    "gem": gem,
    "heavy_ball": heavy_ball,
    "ia2sgd": ia2sgd,
    "local_sgd": local_sgd,
    "malenia": malenia,
    "momentum_sgd": momentum_sgd,
    "multi_asgd": multi_asgd,
    "muon": muon,
    "pipemare": pipemare,
    "rennala": rennala,
    "ringleader": ringleader,
    "ringmaster": ringmaster,
    "server": server,
    "shared_nesterov": shared_nesterov,
    "spectrain": spectrain,
    "staleness_aware": staleness_aware,
    "weight_prediction": weight_prediction,
    "worker": worker,
    "yellowfin": yellowfin,
}

__all__ = [
    "CONSTRUCTORS",
    "Apply",
    "Info",
    "LocalStep",
    "Resume",
    "Rule",
    "Send",
    "Sent",
    "Start",
    "StartServer",
    "View",
    "adag",
    "adaptive_staleness",
    "aeasgd",
    "agn",
    "beside_proxy",
    "ca2fl",
    "compressed",
    "constructor_of",
    "dana",
    "dc_asgd",
    "delay_adaptive",
    "delayed_nesterov",
    "diloco",
    "downpour",
    "drop_stale",
    "dynsgd",
    "eamsgd",
    "easgd",
    "fadas",
    "fedasync",
    "fedbuff",
    "gap_aware",
    "gem",
    "heavy_ball",
    "ia2sgd",
    "local_sgd",
    "malenia",
    "message_bytes",
    "momentum_sgd",
    "multi_asgd",
    "muon",
    "pipemare",
    "rennala",
    "ringleader",
    "ringmaster",
    "server",
    "shared_nesterov",
    "spectrain",
    "staleness_aware",
    "weight_prediction",
    "worker",
    "yellowfin",
]

check_arguments(__name__)
