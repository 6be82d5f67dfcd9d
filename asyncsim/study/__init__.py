"""Studies: runs of scenarios, comparisons of them, experiments, and the folders that keep their results.

Results of a scenario are written and read by `_result_files`, computed by `_replay` and summarised by `_summary`.
A task of a sweep is computed by `_work`, for which `_batches` puts scenarios together and `_store` keeps their results.

Neighbours use these modules and `_load` (the study of a script or a folder), `_run` (reports), `_sweep`, `_grid`,
`_columns`, `_means` and `_over_seeds` (tables).
"""

from asyncsim._metrics import METRICS
from asyncsim.store import tags
from asyncsim.study._compare import Comparison, compare
from asyncsim.study._experiment import Experiment, Findings
from asyncsim.study._grid import grid, sample
from asyncsim.study._load import load
from asyncsim.study._over_seeds import differences
from asyncsim.study._result_files import Result
from asyncsim.study._run import run
from asyncsim.study._store import StoredSweep
from asyncsim.study._sweep import Sweep, sweep
from asyncsim.study.table import best

__all__ = [
    "METRICS",
    "Comparison",
    "Experiment",
    "Findings",
    "Result",
    "StoredSweep",
    "Sweep",
    "best",
    "compare",
    "differences",
    "grid",
    "load",
    "run",
    "sample",
    "sweep",
    "tags",
]
