"""Studies: scenarios, comparisons of them, and the folders in which their results are kept."""

from asyncsim.study.comparison import Comparison, compare
from asyncsim.study.scenario import Scenario
from asyncsim.study.store import Result, run

__all__ = ["Comparison", "Result", "Scenario", "compare", "run"]
