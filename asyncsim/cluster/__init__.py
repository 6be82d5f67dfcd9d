"""The simulated cluster: who reads, computes and commits, and when (SimPy; no JAX here)."""

from asyncsim.cluster.model import Cluster
from asyncsim.cluster.simulation import simulate

__all__ = ["Cluster", "simulate"]
