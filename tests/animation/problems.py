"""Traces and movies on which the animation is tested, small ones."""

import functools

import asyncsim as asim
from asyncsim import delays, faults, protocols
from asyncsim.animation import mechanism

GAMMA = delays.Gamma(mean=1.0, cv=0.4)
SLOW = asim.Network(latency=delays.Exponential(0.15))
TRACES = {
    "plain": lambda: asim.simulate(asim.Cluster(4, GAMMA), commits=40),
    "network and queue": lambda: asim.simulate(
        asim.Cluster(6, GAMMA, network=SLOW, server=asim.Server(service=delays.Constant(0.15))), commits=60
    ),
    "crashes": lambda: asim.simulate(
        asim.Cluster(
            4, GAMMA, network=SLOW, faults=[faults.Crash(1, 3.0, restart_after=4.0), faults.MessageLoss(0.2, 0.5)]
        ),
        commits=40,
    ),
    "cancelled": lambda: asim.simulate(asim.Cluster(5, GAMMA, protocol=protocols.Ringmaster(3, stop=True)), commits=40),
    "several a step": lambda: asim.simulate(asim.Cluster(5, GAMMA, protocol=protocols.KBatchAsync(3)), commits=40),
    "own values": lambda: asim.simulate(
        asim.Cluster(4, GAMMA, server=asim.Server(atomic=False, resume="own", pull_to_commit=delays.Constant(0.1))),
        commits=40,
    ),
    "ties": lambda: asim.simulate(asim.Cluster(4, delays.Constant(1.0)), commits=40),
}
GRAPH_TRACES = {
    "graph in pairs": lambda: asim.simulate(asim.Gossip(6, GAMMA, graph="ring"), commits=40),
    "graph in rounds": lambda: asim.simulate(asim.Gossip(5, GAMMA, graph="star", exchange="rounds"), commits=40),
    "graph with messages": lambda: asim.simulate(
        asim.Gossip(6, GAMMA, graph="torus", network=asim.Network(latency=delays.Constant(0.2))), commits=40
    ),
}
_REGION = asim.Cluster(3, GAMMA)
_SLOW = asim.Network(latency=delays.Constant(0.2))
REGION_TRACES = {
    "regions": lambda: asim.simulate(
        asim.Hierarchy([_REGION] * 3, 3, network=asim.Network(latency=delays.Constant(0.5))), commits=90
    ),
    "one region, without a far link": lambda: asim.simulate(asim.Hierarchy([_REGION], 4), commits=30),
    "regions of different sizes, with slow links": lambda: asim.simulate(
        asim.Hierarchy([asim.Cluster(1, GAMMA), asim.Cluster(4, GAMMA, network=_SLOW)], 2, network=_SLOW), commits=60
    ),
}
POINTS = ("central", "read")


@functools.cache
def trace_of(name):
    """One of the traces above, simulated once."""
    return (TRACES | GRAPH_TRACES | REGION_TRACES)[name]()


@functools.cache
def two_runs(name="network and queue"):
    """DOWNPOUR and elastic averaging on Booth's function: reads of one are central variables, of the other not."""
    trace, workload = trace_of(name), asim.workloads.Surface("booth", start=(8.0, 6.0))
    chosen = {"DOWNPOUR": asim.rules.Downpour(0.02), "elastic": asim.rules.AEASGD(0.02, window=2, rho=5.0)}
    return trace, {name: asim.replay(trace, rule, workload, record=POINTS) for name, rule in chosen.items()}


@functools.cache
def explained():
    """GEM and DOWNPOUR on Booth's function, with what they make of every gradient."""
    trace, workload = trace_of("plain"), asim.workloads.Surface("booth", start=(8.0, 6.0))
    chosen = {"DOWNPOUR": asim.rules.Downpour(0.01), "GEM": asim.rules.GEM(0.01)}
    record = {"central": 1, "read": 1, "mechanism": mechanism}
    return trace, {name: asim.replay(trace, rule, workload, record=record) for name, rule in chosen.items()}
