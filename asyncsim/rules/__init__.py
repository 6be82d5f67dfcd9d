"""Update rules: what a worker sends, how the server applies it, where the worker goes on."""

from collections.abc import Callable

from asyncsim.rules.agn import adag, agn
from asyncsim.rules.compensation import dc_asgd, gap_aware
from asyncsim.rules.dana import dana
from asyncsim.rules.downpour import adaptive_staleness, downpour
from asyncsim.rules.dynsgd import dynsgd
from asyncsim.rules.elastic import aeasgd, eamsgd, easgd
from asyncsim.rules.fadas import fadas
from asyncsim.rules.fedasync import fedasync
from asyncsim.rules.federated import ca2fl, fedbuff
from asyncsim.rules.gem import gem
from asyncsim.rules.gradient_tables import ia2sgd
from asyncsim.rules.local import diloco, local_sgd
from asyncsim.rules.malenia import malenia
from asyncsim.rules.momentum import momentum_sgd
from asyncsim.rules.nesterov import delayed_nesterov, multi_asgd, shared_nesterov
from asyncsim.rules.optimisers import server, worker
from asyncsim.rules.prediction import pipemare, spectrain, weight_prediction
from asyncsim.rules.proxy import beside_proxy
from asyncsim.rules.ringleader import ringleader
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
from asyncsim.rules.staleness import delay_adaptive, drop_stale, staleness_aware
from asyncsim.rules.time_optimal import rennala, ringmaster
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
    "ia2sgd": ia2sgd,
    "local_sgd": local_sgd,
    "malenia": malenia,
    "momentum_sgd": momentum_sgd,
    "multi_asgd": multi_asgd,
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
    "ia2sgd",
    "local_sgd",
    "malenia",
    "momentum_sgd",
    "multi_asgd",
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
