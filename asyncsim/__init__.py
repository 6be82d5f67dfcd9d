"""asyncsim simulates asynchronous SGD on one accelerator.

A cluster model is scheduled with SimPy (`simulate`), the schedule becomes plain columns (`Trace`), and JAX
replays them, compiled and vectorised (`replay`).
"""

from asyncsim import datasets, delays, energy, plots, rules, workloads
from asyncsim.cli import main
from asyncsim.cluster import Cluster, simulate
from asyncsim.engine import ReplayInterrupted, Run, replay
from asyncsim.rules import Rule
from asyncsim.study import Comparison, Result, Scenario, compare, run
from asyncsim.trace import Trace
from asyncsim.workloads import Workload

__version__ = "0.1.0"

__all__ = [
    "Cluster",
    "Comparison",
    "ReplayInterrupted",
    "Result",
    "Rule",
    "Run",
    "Scenario",
    "Trace",
    "Workload",
    "compare",
    "datasets",
    "delays",
    "energy",
    "main",
    "plots",
    "replay",
    "rules",
    "run",
    "simulate",
    "workloads",
]
