"""Figure 2: GEM with 100 workers, loss at the master against seconds.

The paper claims that GEM is stable with 100 workers and reaches a test accuracy of 99.38 %. The claims are judged by
the mean losses of the three thirds of every run and by the test accuracy of the final central variable.

The seconds are calibrated by one number: a worker makes its 937 commits in the 2000 seconds of the paper's axis.

The paper's own curve jumps to 11.1 at 21 s, after about ten commits of each worker, is back at 2.3 by 27 s, and learns
from there. Such a start passes as stable here, as it does there; the highest point of each curve is reported.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

import asyncsim as asim
from asyncsim.engine.time_axis import mean_by_time
from asyncsim.plots import draw_seeds
from figures.common import scales
from figures.common.curves import COLOURS, draw_paper
from figures.common.figure_set import UNCACHED, Claim, RunCache, numbers
from figures.common.paper import paper_curves, why_no_curves
from figures.common.scales import FAILED
from figures.common.tables import Numbers, over_seeds, pack, table

TITLE = "Figure 2: training loss of GEM with 100 workers"
SIZE = (7.2, 4.2)
WORKERS = 100
SECONDS_PER_COMMIT = 2000 / 937  # of one worker, on average
BINS = 200
ACCURATE = 0.99  # below the paper's 99.38 % by about the spread of seeds
note = why_no_curves


def scenarios(scale: str, seed: int) -> dict[int, asim.Scenario]:
    """One run."""
    rule = scales.gem(scales.scale_of(scale).learning_rate)
    law = asim.delays.scaled(scales.NEARLY_EQUAL, SECONDS_PER_COMMIT)
    return {WORKERS: scales.scenario(scale, rule, WORKERS, seed, compute=law, record={})}


def compute(scale: str = "quick", seed: int = 0, runs: RunCache = UNCACHED) -> dict[str, np.ndarray]:
    """Loss in equal intervals of time, the mean losses of the thirds of the run, and how it ended."""
    run = runs.get(scenarios(scale, seed)[WORKERS])
    edges = np.linspace(0, scales.scale_of(scale).commits_per_worker * SECONDS_PER_COMMIT, BINS + 1)
    return pack(
        curves={"seconds": edges[1:], "training_loss": mean_by_time(run.commit_time, run.loss, edges)},
        thirds={"training_loss": [part.mean(dtype=np.float64) for part in np.array_split(run.loss, 3)]},
        final={"training_loss": [run.final_loss], "test_accuracy": [run.test_accuracy]},
    )


def claims(seeds: Sequence[Numbers], scale: str) -> list[Claim]:
    """Stability, and the test accuracy."""
    thirds, final = over_seeds(seeds, "thirds", "training_loss"), over_seeds(seeds, "final", "training_loss").ravel()
    accuracy = over_seeds(seeds, "final", "test_accuracy").ravel()
    highest = over_seeds(seeds, "curves", "training_loss").max(axis=1)
    stable = (final < FAILED).all() and (np.diff(thirds, axis=1) < 0).all()
    return [
        Claim(
            "GEM is stable with 100 workers",
            f"final loss below {FAILED:.3g}, and the mean loss of each third of the run below that of the one before, "
            "for every seed",
            f"final {numbers(final)}; thirds {'; '.join(numbers(seed) for seed in thirds)}; "
            f"highest point of the curve {numbers(highest)}",
            bool(stable),
        ),
        Claim(
            "test accuracy is 99.38 %",
            f"at least {ACCURATE:.0%} for every seed" + ("" if scale == "paper" else "; other data do not tell"),
            numbers(accuracy),
            bool((accuracy >= ACCURATE).all()) if scale == "paper" else None,
        ),
    ]


def draw(figure: Any, seeds: Sequence[Numbers], scale: str) -> None:
    """One curve, with the paper's behind it."""
    ax = figure.subplots()
    if scale == "paper":
        theirs = paper_curves("figure2_hundred_workers")
        draw_paper(ax, theirs["seconds"], theirs["training_loss"])
    seconds = table(seeds[0], "curves")["seconds"]
    losses = over_seeds(seeds, "curves", "training_loss")
    accuracy = np.median(over_seeds(seeds, "final", "test_accuracy"))
    draw_seeds(ax, seconds, losses, label=f"{WORKERS} workers, test accuracy {accuracy:.2%}", color=COLOURS[0])
    ax.set(xlabel="simulated seconds", ylabel="training loss", yscale="log")
    ax.legend()
