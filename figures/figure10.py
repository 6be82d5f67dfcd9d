"""Figure 10: the median of π of each tensor of AlexNet against time, 16 workers.

The paper claims of 16 workers what figure 9 claims of 8, and it is judged in the same way.
"""

from collections.abc import Sequence

import numpy as np

import asyncsim as asim
from asyncsim.study.cache import RunCache
from asyncsim.study.claims import Claim
from asyncsim.study.tables import Numbers
from figures import figure9

TITLE = "Figure 10: median of π of AlexNet's tensors, 16 workers"
SIZE = figure9.SIZE
WORKERS = 16
task, draw, SEEDS_SHOWN = figure9.task, figure9.draw, figure9.SEEDS_SHOWN


def scenarios(scale: str, seed: int) -> dict[int, asim.Scenario]:
    """The run of figure 7 with 16 workers."""
    return figure9.scenarios_of(scale, seed, WORKERS)


def compute(scale: str = "quick", seed: int = 0, runs: RunCache | None = None) -> dict[str, np.ndarray]:
    """Median π of each tensor by server update."""
    return figure9.medians(scale, seed, runs or RunCache(), WORKERS)


def claims(seeds: Sequence[Numbers], scale: str) -> list[Claim]:
    """As with 8 workers."""
    return figure9.judge(seeds, scale, WORKERS)
