"""The simulated cluster: who reads, computes and commits, and when (SimPy; no JAX here)."""

from asyncsim.arguments import check_arguments
from asyncsim.cluster import faults, protocols
from asyncsim.cluster.model import Cluster
from asyncsim.cluster.network import Network
from asyncsim.cluster.pipeline import Pipeline
from asyncsim.cluster.server import Server
from asyncsim.cluster.simulation import simulate

__all__ = ["Cluster", "Network", "Pipeline", "Server", "faults", "protocols", "simulate"]

for _module in (__name__, protocols.__name__, faults.__name__):
    check_arguments(_module)
