"""The simulated cluster: the times at which workers read, compute and commit (by SimPy, without JAX).

Neighbours use `_simulation` (the simulation of a cluster, and the memory and time that it needs), `_pipeline` (the
timetable of a pipeline), `_gossip` (the kinds of exchanges) and `_model` (arguments for another number of workers).
"""

from asyncsim.cluster import faults, graphs, protocols, rollouts
from asyncsim.cluster._gossip import Gossip
from asyncsim.cluster._hierarchy import Hierarchy
from asyncsim.cluster._model import Cluster, Network, Server
from asyncsim.cluster._pipeline import Pipeline
from asyncsim.cluster._simulation import simulate
from asyncsim.cluster.rollouts._rollouts import Rollouts

__all__ = [
    "Cluster",
    "Gossip",
    "Hierarchy",
    "Network",
    "Pipeline",
    "Rollouts",
    "Server",
    "faults",
    "graphs",
    "protocols",
    "rollouts",
    "simulate",
]
