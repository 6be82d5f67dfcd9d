"""The trace: the record between the two halves, who read, computed and committed what, and when."""

from asyncsim.trace.columns import NEVER, Fate, Fault
from asyncsim.trace.statistics import Statistics, statistics
from asyncsim.trace.tables import Faults, Unfinished
from asyncsim.trace.trace import Trace

__all__ = ["NEVER", "Fate", "Fault", "Faults", "Statistics", "Trace", "Unfinished", "statistics"]
