"""Studies: runs of scenarios, comparisons of them, experiments, and the folders that keep their results."""

from asyncsim._arguments import check_arguments
from asyncsim.store import tags
from asyncsim.study._compare import Comparison, compare
from asyncsim.study._experiment import Experiment, Findings
from asyncsim.study._lists import grid, sample
from asyncsim.study._load import load
from asyncsim.study._over_seeds import differences
from asyncsim.study._record import Result
from asyncsim.study._run import run
from asyncsim.study._stored import StoredSweep
from asyncsim.study._sweep import Sweep, sweep
from asyncsim.study.table import best

__all__ = [
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

check_arguments(__name__, sorted({*__all__} - {"Findings", "Result", "StoredSweep", "Sweep"}), acts=True)
