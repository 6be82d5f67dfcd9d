"""The trace: who read, computed and committed what, and when; all that `replay` needs to know of a cluster."""

from asyncsim.arguments import check_arguments
from asyncsim.trace.columns import NEVER, Fate, Fault
from asyncsim.trace.error import TraceError
from asyncsim.trace.regroup import with_gap
from asyncsim.trace.statistics import Statistics, statistics
from asyncsim.trace.tables import Faults, Unfinished
from asyncsim.trace.trace import Trace

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
    "with_gap",
]

check_arguments(__name__, ["Trace", "statistics", "with_gap"], acts=True)
