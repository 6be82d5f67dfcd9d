"""Tables of the parts of the library: every rule, cluster, protocol, fault and compressor, with arguments that fit.

Conformance tests run over them, and `python -m tests.digits` with this and with other revisions of the library. So only
public names occur here, and each row is a function: an older library that lacks something fails in that row alone.
"""

from collections.abc import Callable

import asyncsim as asim
from asyncsim import compressors, delays, faults, protocols, rules

WORKERS = 5
GAMMA = delays.Gamma(mean=1.0, cv=0.5)

# Every rule and variant, and what it must equal with one worker (None: no standard optimiser).
RULES = {
    "downpour": (lambda: rules.Downpour(0.1), "sgd"),
    "adaptive_staleness": (lambda: rules.AdaptiveStaleness(0.1), "sgd"),
    "momentum_sgd": (lambda: rules.MomentumSGD(0.02, momentum=0.8), "momentum"),
    "gem_script": (lambda: rules.GEM(0.05, momentum=0.8, kappa=1.5, variant="script"), None),
    "gem_paper": (lambda: rules.GEM(0.05, momentum=0.8, kappa=1.5, variant="paper"), None),
    # With kappa = 1 and one worker, exact compliance is its own proxy.
    "gem_signed": (lambda: rules.GEM(0.02, momentum=0.8, variant="signed"), "momentum"),
    "fedbuff": (lambda: rules.FedBuff(0.1, buffer=1), "sgd"),
    "fedbuff_windows": (lambda: rules.FedBuff(0.05, buffer=3, window=2, server_learning_rate=0.8), None),
    "fadas": (lambda: rules.FADAS(server_learning_rate=0.01, buffer=2), None),
    "fadas_delayed": (lambda: rules.FADAS(0.1, server_learning_rate=0.02, buffer=2, window=2, grace=1), None),
    "ca2fl": (lambda: rules.CA2FL(0.05, workers=5, buffer=3), None),
    "rennala": (lambda: rules.Rennala(0.1, batch=1), "sgd"),
    "rennala_batches": (lambda: rules.Rennala(0.1, batch=3), None),
    "rennala_trace": (lambda: rules.Rennala(0.1, batch=3, steps="trace"), None),
    "ringmaster": (lambda: rules.Ringmaster(0.1, limit=3), "sgd"),
    "ringleader": (lambda: rules.Ringleader(0.05, workers=5), None),
    "malenia": (lambda: rules.Malenia(0.1, workers=5, batch=8), None),
    "malenia_trace": (lambda: rules.Malenia(0.1, workers=5, steps="trace"), None),
    "ia2sgd": (lambda: rules.IA2SGD(0.05, workers=5), None),
    "downpour_window": (lambda: rules.Downpour(0.05, window=3), None),
    "agn": (lambda: rules.AGN(0.2, window=4), None),
    "agn_adam": (lambda: rules.AGN(0.02, window=2, optimiser="adam"), None),
    "adag": (lambda: rules.ADAG(window=1, gamma=0.1, learning_rate=0.1), "sgd"),
    "dynsgd": (lambda: rules.DynSGD(0.1, window=2), None),
    "aeasgd": (lambda: rules.AEASGD(window=2, rho=2.0, learning_rate=0.1), None),
    "aeasgd_pulled": (lambda: rules.AEASGD(window=2, rho=2.0, learning_rate=0.1, atomic=False), None),
    "eamsgd": (lambda: rules.EAMSGD(window=2, rho=2.0, learning_rate=0.05, momentum=0.5), None),
    "local_sgd": (lambda: rules.LocalSGD(0.1, window=1), "sgd"),
    "diloco": (lambda: rules.DiLoCo(0.1, window=2, server_learning_rate=0.3, momentum=0.5, optimiser="sgd"), None),
    "noloco": (lambda: rules.NoLoCo(0.1, window=2, optimiser="sgd"), None),
    "exact_diffusion": (lambda: rules.ExactDiffusion(0.1), None),
    "easgd": (lambda: rules.EASGD(workers=5, window=2, beta=0.5, learning_rate=0.1), None),
    "server": (lambda: rules.ServerOptimiser(0.1, optimiser="sgd"), "sgd"),
    "server_adam": (lambda: rules.ServerOptimiser(0.02, optimiser="adam"), None),
    "muon": (lambda: rules.Muon(0.02), None),
    "muon_plain": (lambda: rules.Muon(0.02, momentum=0.8, nesterov=False, iterations=3), None),
    "worker": (lambda: rules.WorkerOptimiser(0.1, optimiser="sgd"), "sgd"),
    "staleness_aware": (lambda: rules.StalenessAware(0.1), "sgd"),
    "drop_stale": (lambda: rules.DropStale(0.1, oldest=4), "sgd"),
    "delay_adaptive": (lambda: rules.DelayAdaptive(0.1), "sgd"),
    "delay_adaptive_smooth": (lambda: rules.DelayAdaptive(0.1, smoothness=1.0), "sgd"),
    "fedasync_constant": (lambda: rules.FedAsync(0.1, mixing=1.0, weighting="constant"), "sgd"),
    "fedasync_polynomial": (lambda: rules.FedAsync(0.1, mixing=1.0), "sgd"),
    "fedasync_hinge": (lambda: rules.FedAsync(0.1, mixing=1.0, weighting="hinge", grace=1), "sgd"),
    "fedasync_windows": (lambda: rules.FedAsync(0.1, window=3), None),
    "dc_asgd_constant": (lambda: rules.DCASGD(0.1), "sgd"),
    "dc_asgd_adaptive": (lambda: rules.DCASGD(0.1, variance="adaptive"), "sgd"),
    "gap_aware": (lambda: rules.GapAware(0.02, momentum=0.8), "momentum"),
    "weight_prediction": (lambda: rules.WeightPrediction(0.02, momentum=0.8, horizon=2), None),
    # Its gradients are averaged: the step size is one fifth.
    "spectrain": (lambda: rules.SpecTrain(0.1, momentum=0.8), "momentum"),
    "pipemare": (lambda: rules.PipeMare(0.1, anneal=20), "sgd"),
    "heavy_ball": (lambda: rules.HeavyBall(0.02, momentum=0.8), "momentum"),
    "heavy_ball_negative": (lambda: rules.HeavyBall(0.1, momentum=-0.4), None),
    "shared_nesterov": (lambda: rules.SharedNesterov(0.02, momentum=0.8), "nesterov"),
    "multi_asgd": (lambda: rules.MultiASGD(0.02, momentum=0.8), "momentum"),
    "damped_nesterov": (lambda: rules.DampedNesterov(0.05, momentum=0.8), None),
    "delayed_nesterov": (lambda: rules.DelayedNesterov(0.05, momentum=0.8, interval=3, activation=0.1), None),
    "dana_zero": (lambda: rules.DANA(0.02, momentum=0.8), None),
    "dana_slim": (lambda: rules.DANA(0.02, momentum=0.8, variant="slim"), "nesterov"),
    "dana_dc": (lambda: rules.DANA(0.02, momentum=0.8, variant="dc"), None),
    "yellowfin": (lambda: rules.YellowFin(0.1), None),
    "yellowfin_open": (lambda: rules.YellowFin(0.1, closed_loop=False), None),
    "gem_script_server": (lambda: rules.GEM(0.05, momentum=0.8, kappa=1.5, proxy="server"), None),
    "gem_signed_server": (lambda: rules.GEM(0.02, momentum=0.8, variant="signed", proxy="server"), "momentum"),
}

# One rule of each kind that the engine treats differently: no state, a worker's or a server's state, other places to
# continue from, local steps, a server that collects, whole tensors. The conformance tests run over all of `RULES`.
CORE = (
    "downpour",
    "adaptive_staleness",
    "gem_script",
    "gem_paper",
    "gem_signed_server",
    "agn_adam",
    "aeasgd",
    "dana_zero",
    "fedbuff_windows",
    "server_adam",
)

COMPRESSORS = {
    "identity": lambda: compressors.Identity(),
    "low_rank": lambda: compressors.LowRank(rank=1),
    "natural": lambda: compressors.Natural(),
    "qsgd": lambda: compressors.QSGD(levels=4),
    "rand_k": lambda: compressors.RandK(fraction=0.4),
    "scaled_sign": lambda: compressors.ScaledSign(),
    "top_k": lambda: compressors.TopK(fraction=0.4),
}
# Rules around another one.
WRAPPERS: dict[str, Callable[[], asim.Rule]] = {
    **{
        f"compressed, {name}": lambda make=make: rules.compressed(rules.MomentumSGD(0.02), make())
        for name, make in COMPRESSORS.items()
    },
    "compressed, no feedback": lambda: rules.compressed(rules.GEM(0.05), COMPRESSORS["top_k"](), error_feedback=False),
    "with_proxy": lambda: rules.WithProxy(rules.Downpour(0.05), proxy_momentum=0.8),
    "local": lambda: rules.local(rules.GEM(0.5), window=2, learning_rate=0.05),
    "local, muon": lambda: rules.local(rules.Downpour(0.5), window=2, learning_rate=0.05, optimiser="muon"),
    "local, soap": lambda: rules.local(rules.Downpour(0.5), window=2, learning_rate=0.05, optimiser="soap"),
    "local, compressed": lambda: rules.compressed(
        rules.local(rules.SharedNesterov(0.2), window=2, learning_rate=0.05), compressors.TopK(fraction=0.4)
    ),
    "weighted, polynomial": lambda: rules.weighted(rules.MomentumSGD(0.02), by=rules.Polynomial(0.5)),
    "weighted, exponential": lambda: rules.weighted(rules.HeavyBall(0.02), by=rules.Exponential(0.2)),
    "weighted, cosine_gate": lambda: rules.weighted(rules.DampedNesterov(0.1), by=rules.CosineGate(6, rate=0.1)),
}
PROTOCOLS = {
    "async": lambda: protocols.Asynchronous(),
    "ssp": lambda: protocols.SSP(2),
    "sync": lambda: protocols.Synchronous(),
    "sync, backup": lambda: protocols.Synchronous(backup=1),
    "sync, no cancelling": lambda: protocols.Synchronous(backup=2, cancel=False),
    "k_sync": lambda: protocols.KSync(3),
    "k_async": lambda: protocols.KAsync(3),
    "k_async, bound": lambda: protocols.KAsync(2, bound=1),
    "periodic": lambda: protocols.Periodic(0.7),
    "periodic, k": lambda: protocols.Periodic(2.0, k=3),
    "k_batch_sync": lambda: protocols.KBatchSync(3),
    "k_batch_async": lambda: protocols.KBatchAsync(3),
    "rennala": lambda: protocols.Rennala(3),
    "rennala, cancelling": lambda: protocols.Rennala(3, cancel=True),
    "malenia": lambda: protocols.Malenia(6),
    "malenia, no cancelling": lambda: protocols.Malenia(6, cancel=False),
    "ringmaster": lambda: protocols.Ringmaster(3),
    "ringmaster, stopping": lambda: protocols.Ringmaster(3, stop=True),
    "round_robin": lambda: protocols.RoundRobin(),
}
NETWORKS = {
    "instant": lambda: asim.Network(),
    "latency": lambda: asim.Network(latency=delays.Exponential(0.1)),
    "bandwidth": lambda: asim.Network(delays.Gamma(0.05, 0.5), bandwidth=1e3, upload_bandwidth=4e2, message_bytes=40.0),
    "shared": lambda: asim.Network(bandwidth=1e3, message_bytes=60.0, compression=0.5, shared=True),
    "full duplex": lambda: asim.Network(bandwidth=1e3, message_bytes=60.0, shared=True, duplex="full"),
    "by worker": lambda: asim.Network(bandwidth=[1e3, 2e3, 2e3, 4e3, 4e3], upload_bandwidth=5e2, message_bytes=60.0),
}
SERVERS = {
    "instant": lambda: asim.Server(),
    "queue": lambda: asim.Server(service=delays.Gamma(0.15, 0.5)),
    "slots": lambda: asim.Server(slots=2, service=delays.Exponential(0.3)),
    "pulls": lambda: asim.Server(service=delays.Constant(0.05), atomic=False),
    "pulls at read": lambda: asim.Server(atomic=False, pull="at_read"),
    "own": lambda: asim.Server(atomic=False, resume="own", pull_to_commit=delays.Constant(0.2)),
}
FAULTS = {
    "none": lambda: (),
    "slowdown": lambda: (faults.Slowdown(worker=1, start=3.0, seconds=5.0, factor=4.0),),
    "crash": lambda: (faults.Crash(worker=1, time=3.0, restart_after=2.0), faults.Crash(2, 4.0, 1.0, keeps_state=True)),
    "message_loss": lambda: (faults.MessageLoss(0.2, timeout=1.0),),
    "sessions": lambda: (faults.Sessions(delays.Exponential(8.0), delays.Exponential(1.0), keeps_state=False),),
    "pause": lambda: (faults.ServerPause(start=2.0, seconds=1.0, every=5.0),),
}
FLEETS = {
    "gamma_machines": lambda: delays.fleet.gamma_machines(WORKERS, 1.0, 0.3, 0.5, seed=1),
    "linear": lambda: delays.fleet.linear(GAMMA, WORKERS),
    "square_root": lambda: delays.fleet.square_root(GAMMA, WORKERS),
    "two_classes": lambda: delays.fleet.two_classes(GAMMA, WORKERS, slow=2, factor=3.0),
    "slow_periods": lambda: delays.VariableSpeed(
        GAMMA, delays.SlowPeriods(4.0, delays.Exponential(3.0), delays.Constant(1.0))
    ),
    "profile": lambda: delays.VariableSpeed(GAMMA, delays.Profile((0.0, 2.0, 3.0), (1.0, 0.25, 2.0), period=5.0)),
}


def cluster(**parts: object) -> asim.Cluster:
    """Return five workers with gamma times, but for these parts."""
    return asim.Cluster(**{"workers": WORKERS, "compute": GAMMA, **parts})


# One cluster of every kind that schedules differ in.
CLUSTERS: dict[str, Callable[[], asim.Cluster]] = {
    "plain": lambda: cluster(),
    "in turn": lambda: cluster(compute=delays.Constant(1.0)),
    **{f"fleet {name}": lambda make=make: cluster(compute=make()) for name, make in FLEETS.items()},
    **{f"network {name}": lambda make=make: cluster(network=make()) for name, make in NETWORKS.items()},
    **{f"server {name}": lambda make=make: cluster(server=make()) for name, make in SERVERS.items()},
    **{f"protocol {name}": lambda make=make: cluster(protocol=make()) for name, make in PROTOCOLS.items()},
    "ring": lambda: cluster(
        network=asim.Network(delays.Exponential(0.01), bandwidth=1e3, message_bytes=60.0, collective="ring"),
        protocol=protocols.Synchronous(),
    ),
    **{f"faults {name}": lambda make=make: cluster(faults=make()) for name, make in FAULTS.items()},
    "all at once": lambda: cluster(
        compute=FLEETS["two_classes"](),
        network=NETWORKS["shared"](),
        server=SERVERS["own"](),
        protocol=PROTOCOLS["ssp"](),
        faults=FAULTS["crash"]() + FAULTS["message_loss"](),
    ),
}
PIPELINES: dict[str, Callable[[], asim.Pipeline]] = {
    name: lambda name=name, more=more: asim.Pipeline(3, GAMMA, transfer=delays.Exponential(0.1), schedule=name, **more)
    for name, more in {
        "pipedream": {},
        "concurrent": {"in_flight": 4},
        "2bw": {"micro_batches": 4},
        "1f1b": {"micro_batches": 4},
        "gpipe": {"micro_batches": 4},
    }.items()
}
