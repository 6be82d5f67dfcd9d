"""Figure 10: the median of π of each tensor of AlexNet against time, 16 workers.

The paper's claims are those of figure 9, for 16 workers, and they are judged in the same way.
"""

from collections.abc import Sequence

import numpy as np

import asyncsim as asim
from figures import figure9
from figures.common.figure_set import UNCACHED, Claim, RunCache
from figures.common.tables import Numbers

TITLE = "Figure 10: the median of π of each tensor of AlexNet against time, 16 workers"
SIZE = figure9.SIZE
WORKERS = 16
SEEDS_SHOWN = figure9.SEEDS_SHOWN
task = figure9.task
draw = figure9.draw


def scenarios(scale: str, seed: int) -> dict[int, asim.Scenario]:
    """The run of figure 7 with 16 workers."""
    return figure9.scenarios_of(scale, seed, WORKERS)


def compute(scale: str = "quick", seed: int = 0, runs: RunCache = UNCACHED) -> dict[str, np.ndarray]:
    """Median π of each tensor by server update."""
    return figure9.medians(scale, seed, runs, WORKERS)


def claims(seeds: Sequence[Numbers], scale: str) -> list[Claim]:
    """The claims of figure 9, for 16 workers."""
    return figure9.judge(seeds, scale, WORKERS)
