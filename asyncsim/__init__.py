"""asyncsim simulates asynchronous SGD on one accelerator.

A cluster model is scheduled with SimPy (`simulate`), the schedule becomes plain columns (`Trace`), and JAX
replays them, compiled and vectorised (`replay`).
"""

from asyncsim import datasets, delays, energy, plots, rules, theory, workloads
from asyncsim.cli import main
from asyncsim.cluster import Cluster, Network, Server, faults, protocols, simulate
from asyncsim.engine import Progress, ReplayInterrupted, Run, replay
from asyncsim.rules import Rule
from asyncsim.rules.citations import citation
from asyncsim.scenario import Scenario
from asyncsim.study import Comparison, Experiment, Result, compare, loss_against_time, run
from asyncsim.trace import Trace, TraceError
from asyncsim.workloads import Workload

__version__ = "0.1.0"

__all__ = [
    "Cluster",
    "Comparison",
    "Experiment",
    "Network",
    "Progress",
    "ReplayInterrupted",
    "Result",
    "Rule",
    "Run",
    "Scenario",
    "Server",
    "Trace",
    "TraceError",
    "Workload",
    "citation",
    "compare",
    "datasets",
    "delays",
    "energy",
    "faults",
    "loss_against_time",
    "main",
    "plots",
    "protocols",
    "replay",
    "rules",
    "run",
    "simulate",
    "theory",
    "workloads",
]
