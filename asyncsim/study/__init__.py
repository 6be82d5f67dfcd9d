"""Studies: runs of scenarios, comparisons of them, experiments, and the folders that keep their results."""

from asyncsim.arguments import check_arguments
from asyncsim.folders import tags
from asyncsim.study import trainers
from asyncsim.study.best import best
from asyncsim.study.compare import Comparison, compare
from asyncsim.study.experiment import Experiment, Findings
from asyncsim.study.grid import grid, sample
from asyncsim.study.load import load
from asyncsim.study.run import Result, run
from asyncsim.study.sweep import Sweep, sweep
from asyncsim.study.time_axis import central_against_time, loss_against_time

__all__ = [
    "Comparison",
    "Experiment",
    "Findings",
    "Result",
    "Sweep",
    "best",
    "central_against_time",
    "compare",
    "grid",
    "load",
    "loss_against_time",
    "run",
    "sample",
    "sweep",
    "tags",
    "trainers",
]

check_arguments(__name__, sorted({*__all__} - {"Findings", "Result", "Sweep"}), acts=True)
