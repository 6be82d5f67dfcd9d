"""The trace: every job of every worker, with its times and versions. `replay` needs nothing else of a cluster.

Neighbours use `_columns` (the tables of a trace), `_invariants` (their checks), `_regroup` (commits in other steps),
`_spans` (a trace as intervals of its workers), `_statistics` (rates, shares and staleness), `_presence` (who was there
when), `_findings` (sentences about a log), `_flat` (a trace as one table), `_typed` (the columns of a log), `_fill`
(those that it lacks), `_table` (from a table or an order of commits to a trace), `_rollout_log` and
`_rollout_findings` (logs of rollouts), `_csv`, `_source` and `_values` (files, where their rows are from, and what
their cells mean), and `_variables` (several variables and their changes).
"""

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
