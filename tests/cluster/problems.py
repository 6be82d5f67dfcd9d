"""Clusters that several tests share, and standard errors over seeds, for correlated samples."""

import numpy as np
from hypothesis import strategies as st

from asyncsim.cluster import Cluster, Network, Server, faults, protocols, simulate
from asyncsim.delays import Constant, Exponential, Gamma, LogNormal, Uniform

LAWS = st.sampled_from(
    [Constant(0.0), Constant(1.0), Uniform(0.0, 1.0), Exponential(1.0), Gamma(2.0, 3.0), LogNormal(1.0, 0.5)]
)
MOVING = st.sampled_from([Constant(1.0), Uniform(0.0, 1.0), Exponential(1.0), Gamma(2.0, 3.0), LogNormal(1.0, 0.5)])
NETWORKS = st.builds(
    Network,
    latency=LAWS,
    bandwidth=st.sampled_from([np.inf, 10.0]),
    upload_bandwidth=st.sampled_from([None, 4.0]),
    message_bytes=st.sampled_from([0.0, 2.0]),
    shared=st.booleans(),
) | st.builds(
    Network,
    latency=LAWS,
    bandwidth=st.just(10.0),
    message_bytes=st.just(2.0),
    shared=st.just(True),
    duplex=st.just("full"),
)
SERVERS = st.builds(
    Server,
    slots=st.integers(1, 3),
    service=LAWS,
    atomic=st.booleans(),
    pull=st.sampled_from(["before_commit", "at_read"]),
)
OWN_SERVERS = st.builds(
    Server, slots=st.integers(1, 3), service=LAWS, atomic=st.just(False), resume=st.just("own"), pull_to_commit=LAWS
)


def all_protocols(workers: int) -> st.SearchStrategy:
    """Every protocol, with parameters that fit this many workers."""
    some = st.integers(1, workers)
    return st.one_of(
        st.just(protocols.Asynchronous()),
        st.builds(protocols.SSP, st.integers(0, 3)),
        st.builds(protocols.Synchronous, st.integers(0, workers - 1), st.booleans()),
        st.builds(protocols.KSync, some),
        st.builds(protocols.KAsync, some, st.none() | st.integers(0, 3)),
        st.builds(protocols.Periodic, st.sampled_from([0.5, 2.0]), st.none() | some),
        st.builds(protocols.KBatchSync, st.integers(1, 6)),
        st.builds(protocols.KBatchAsync, st.integers(1, 6)),
        st.builds(protocols.Rennala, st.integers(1, 6), st.booleans()),
        st.builds(protocols.Malenia, st.integers(1, 2 * workers), st.booleans()),
        st.builds(protocols.Ringmaster, st.integers(1, 6), st.booleans()),
        st.just(protocols.RoundRobin()),
    )


def passing_faults(workers: int) -> st.SearchStrategy:
    """Faults after which every worker comes back, so that no protocol waits for ever."""
    who, when = st.integers(0, workers - 1), st.floats(0.0, 20.0)
    return st.one_of(
        st.builds(faults.Slowdown, who, when, st.sampled_from([1.0, 5.0, np.inf]), st.sampled_from([0.5, 3.0])),
        st.builds(faults.Crash, who, when, st.sampled_from([0.0, 1.0, 10.0]), st.booleans()),
        st.builds(faults.MessageLoss, st.sampled_from([0.1, 0.6]), st.just(0.7), st.sampled_from([None, 1, 2])),
        st.builds(faults.Sessions, st.just(Exponential(30.0)), LAWS, st.none() | who, st.booleans()),
        st.builds(faults.ServerPause, when, st.just(0.5), st.sampled_from([None, 2.0])),
    )


@st.composite
def clusters(draw, most_workers=5):
    """Law × network × server × protocol × faults."""
    workers = draw(st.integers(1, most_workers))
    return Cluster(
        workers=workers,
        compute=draw(MOVING | st.lists(MOVING, min_size=workers, max_size=workers)),
        network=draw(st.just(Network()) | NETWORKS),
        server=draw(st.just(Server()) | SERVERS | OWN_SERVERS),
        protocol=draw(all_protocols(workers)),
        faults=draw(st.lists(passing_faults(workers), max_size=2)),
    )


def over_seeds(measure, cluster, commits, seeds=16):
    """Mean of `measure(trace)` over seeds, and its standard error."""
    values = np.array([measure(simulate(cluster, commits=commits, seed=seed)) for seed in range(seeds)])
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(seeds)


def after_warm_up(trace, share=0.1):
    """The rows after the warm-up, the first tenth, which still depends on the common start."""
    return slice(int(share * len(trace)), None)
