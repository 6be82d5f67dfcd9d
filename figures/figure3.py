"""Figure 3: the median of π falls with the number of workers.

The paper claims that the scaling π adapts to the number of workers: the more workers, the smaller its median. The claim
is tested by the mean of the median over the last tenth of the run.

It matters which median is taken. The paper's is the one over all parameters: in its figure 8, the curve of a network
that has died is exactly 5, as no mean over tensors is there. More than half of all parameters are in the largest
tensor, which decides it. The mean of each tensor's own median is drawn as well.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import asyncsim as asim
from asyncsim.plots import draw_seeds
from figures.common import scales
from figures.common.averages import ends, record_curve
from figures.common.curves import COLOURS, draw_paper, name_below
from figures.common.figure_set import UNCACHED, CachedRun, Claim, RunCache, each_n
from figures.common.paper import paper_curves, why_no_curves
from figures.common.tables import Numbers, Table, over_seeds, pack, stack, table, where
from figures.figure1 import WORKERS

TITLE = "Figure 3: the median of π for 5 to 30 workers"
SIZE = (9.6, 4.2)
note = why_no_curves
MEDIANS = {"median_pi": "over all parameters", "mean_tensor_median_pi": "mean of each tensor's own"}


def scenarios(scale: str, seed: int) -> dict[int, asim.Scenario]:
    """GEM's runs of figure 1."""
    rule = scales.gem(scales.scale_of(scale).learning_rate)
    return {n: scales.scenario(scale, rule, n, seed) for n in WORKERS}


def compute(scale: str = "quick", seed: int = 0, runs: RunCache = UNCACHED) -> dict[str, np.ndarray]:
    """Two kinds of median π, against commits per worker."""
    return pack(curves=medians_of(scenarios(scale, seed), runs))


def medians_of(scenarios: Mapping[int, asim.Scenario], runs: RunCache) -> Table:
    """The medians of runs that are named by their numbers of workers."""
    return stack({"workers": n, **medians(runs.get(scenario))} for n, scenario in scenarios.items())


def medians(run: CachedRun) -> dict[str, np.ndarray]:
    """Columns: commits per worker, the median over all parameters, and the mean of each tensor's own median."""
    return {
        "worker_steps": ends(run),
        "median_pi": record_curve(run, "pi_median"),
        "mean_tensor_median_pi": record_curve(run, "pi_median_by_tensor").mean(axis=1),
    }


def claims(seeds: Sequence[Numbers], scale: str) -> list[Claim]:
    """π falls with n."""
    del scale
    last = last_tenth(seeds, "median_pi")
    other = last_tenth(seeds, "mean_tensor_median_pi")
    theirs = [last_tenth_of(where(paper_curves("figure3_median_pi"), workers=n)["median_pi"]) for n in WORKERS]
    paper = ", ".join(f"{value:.2f}" for value in theirs)
    return [
        Claim(
            f"the median of π falls with the number of workers (last tenth of its curves: {paper})",
            "mean over the last tenth of the run of the median over all parameters: falls with n for every seed",
            f"{each_n(WORKERS, last)}. Mean of each tensor's own median: {each_n(WORKERS, other)}",
            bool(np.all(np.diff(last, axis=1) < 0)),
        )
    ]


def last_tenth(seeds: Sequence[Numbers], name: str) -> np.ndarray:
    """(seeds, numbers of workers): mean over the last tenth of the curve."""
    columns = [[last_tenth_of(row) for row in over_seeds(seeds, "curves", name, workers=n)] for n in WORKERS]
    return np.array(columns).T


def last_tenth_of(curve: np.ndarray) -> float:
    """Mean over the last tenth of a curve.

    Example:
        >>> last_tenth_of(np.array([*range(18), 2.0, 4.0]))
        3.0
    """
    return float(curve[-max(1, len(curve) // 10) :].mean())


def draw(figure: Any, seeds: Sequence[Numbers], scale: str) -> None:
    """A panel for each kind of median."""
    panels = figure.subplots(1, 2, sharey=True)
    for ax, (name, label) in zip(panels, MEDIANS.items(), strict=True):
        draw_medians(ax, seeds, name, scale)
        ax.set_title(f"median of π, {label}")
    panels[0].set_ylabel("π")
    name_below(panels[0], 5, "workers")


def draw_medians(ax: Any, seeds: Sequence[Numbers], name: str, scale: str) -> None:
    """One kind of median for each number of workers, with the paper's curves behind them."""
    for n, colour in zip(WORKERS, COLOURS, strict=False):
        if scale == "paper":
            theirs = where(paper_curves("figure3_median_pi"), workers=n)
            draw_paper(ax, theirs["worker_steps"], theirs["median_pi"])
        steps = where(table(seeds[0], "curves"), workers=n)["worker_steps"]
        draw_seeds(ax, steps, over_seeds(seeds, "curves", name, workers=n), label=str(n), color=colour)
    ax.set(xlabel="commits of each worker", ylim=(0, None))
