"""The trace: every job of every worker, with its times and versions. `replay` needs nothing else of a cluster."""

from asyncsim._arguments import check_arguments
from asyncsim.trace._columns import NEVER, Fate, Fault, Faults, TraceError, Unfinished
from asyncsim.trace._regroup import with_gap
from asyncsim.trace._statistics import Statistics, statistics, total_variation
from asyncsim.trace._trace import Trace

__all__ = [
    "NEVER",
    "Fate",
    "Fault",
    "Faults",
    "Statistics",
    "Trace",
    "TraceError",
    "Unfinished",
    "statistics",
    "total_variation",
    "with_gap",
]

check_arguments(__name__, ["Trace", "statistics", "with_gap"], acts=True)
