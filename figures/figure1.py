"""Figure 1: training loss of GEM, DOWNPOUR and adaptive staleness with 5 to 30 workers.

The paper claims that GEM stays stable with up to 30 workers and ends lower with more of them, that DOWNPOUR gets worse
and fails, and that adaptive staleness is stable but slow. The claims are judged by the final losses of all seeds (mean
at the end of the run, as `Run.final_loss` has it), compared with the loss before training.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

import asyncsim as asim
from asyncsim.plots import draw_seeds
from asyncsim.plots.style import rule_colors
from figures.common import scales
from figures.common.averages import losses_of
from figures.common.curves import COLOURS, draw_paper, name_below
from figures.common.figure_set import UNCACHED, Claim, RunCache, each_n
from figures.common.paper import paper_curves, why_no_curves
from figures.common.scales import FAILED, UNTRAINED
from figures.common.tables import Numbers, over_seeds, table, where

TITLE = "Figure 1: training loss of GEM, DOWNPOUR and adaptive staleness, 5 to 30 workers"
SIZE = (9.6, 7.0)
WORKERS = (5, 10, 20, 30)
RULES = {"gem": "GEM", "downpour": "DOWNPOUR", "adaptive_staleness": "adaptive staleness"}
PAPER = {"gem": "figure1a_gem", "downpour": "figure1b_downpour", "adaptive_staleness": "figure1c_adaptive_staleness"}
note = why_no_curves


def scenarios(scale: str, seed: int) -> dict[tuple[str, int], asim.Scenario]:
    """One run for each rule and number of workers."""
    rate = scales.scale_of(scale).learning_rate
    rules = {
        "gem": scales.gem(rate),
        "downpour": asim.rules.Downpour(rate),
        "adaptive_staleness": asim.rules.AdaptiveStaleness(rate),
    }
    return {(name, n): scales.scenario(scale, rule, n, seed) for name, rule in rules.items() for n in WORKERS}


def compute(scale: str = "quick", seed: int = 0, runs: RunCache = UNCACHED) -> dict[str, np.ndarray]:
    """Loss curves, and how each run ended."""
    return losses_of(scenarios(scale, seed), runs)


def claims(seeds: Sequence[Numbers], scale: str) -> list[Claim]:
    """Stability of GEM, failure of DOWNPOUR, slowness of adaptive staleness."""
    del scale
    gem, downpour, adaptive = (final_losses(seeds, name) for name in RULES)
    return [
        Claim(
            "GEM is stable up to 30 workers, and more workers reach a lower loss",
            f"final loss below {FAILED:.3g} for every seed, and its mean falling from 5 to 30 workers",
            each_n(WORKERS, gem),
            bool((gem < FAILED).all() and np.all(np.diff(gem.mean(axis=0)) < 0)),
        ),
        Claim(
            "DOWNPOUR degrades with the number of workers and fails at 20 and 30",
            f"some seed fails with 20 and with 30 workers (final loss above {FAILED:.3g}, or diverged), none with 5, "
            "and the mean rises with n until it fails",
            each_n(WORKERS, downpour),
            degrades(downpour),
        ),
        Claim(
            "adaptive staleness is stable but slow",
            "no seed fails, and every final loss is above GEM's with the same workers",
            each_n(WORKERS, adaptive),
            bool((adaptive < FAILED).all() and (adaptive > gem).all()),
        ),
    ]


def final_losses(seeds: Sequence[Numbers], rule: str) -> np.ndarray:
    """(seeds, numbers of workers)."""
    return over_seeds(seeds, "final", "training_loss", rule=rule)


def degrades(losses: np.ndarray) -> bool:
    """Whether means rise with n until runs fail: none with the fewest workers, some with each of the two largest n."""
    losses = np.where(np.isfinite(losses), losses, UNTRAINED)  # a diverged run counts as one that never learned
    failed, means = losses > FAILED, losses.mean(axis=0)
    rises = (np.diff(means) > 0) | (means[:-1] > FAILED)
    return bool(not failed[:, 0].any() and failed[:, -2:].any(axis=0).all() and rises.all())


def draw(figure: Any, seeds: Sequence[Numbers], scale: str) -> None:
    """Three panels of curves and one of final losses."""
    panels = figure.subplots(2, 2)
    for ax, (rule, label) in zip(panels.flat, RULES.items(), strict=False):
        draw_losses(ax, seeds, rule, paper_curves(PAPER[rule]) if scale == "paper" else None)
        ax.set_title(label)
    panels.flat[0].legend(title="workers")
    for ax in panels.flat[:3]:
        ax.set_ylim(panels.flat[0].get_ylim())
    draw_final(panels.flat[3], seeds, scale)
    panels.flat[3].set_title("final training loss")


def draw_losses(ax: Any, seeds: Sequence[Numbers], rule: str, paper: Any) -> None:
    """A curve for each number of workers, with the paper's behind them."""
    for n, colour in zip(WORKERS, COLOURS, strict=False):
        if paper is not None:
            theirs = where(paper, workers=n)
            draw_paper(ax, theirs["worker_steps"], theirs["training_loss"])
        steps = where(table(seeds[0], "curves"), rule=rule, workers=n)["worker_steps"]
        losses = over_seeds(seeds, "curves", "training_loss", rule=rule, workers=n)
        draw_seeds(ax, steps, losses, label=str(n), color=colour)
    ax.set(xlabel="commits of each worker", ylabel="training loss", yscale="log")


def draw_final(ax: Any, seeds: Sequence[Numbers], scale: str) -> None:
    """Final losses against the number of workers: every seed as a point, the median as a line."""
    theirs = paper_curves("figure1d_summary")
    for (rule, label), colour in zip(RULES.items(), rule_colors(RULES), strict=True):
        if scale == "paper":
            own = where(theirs, rule=rule)
            draw_paper(ax, own["workers"], own["final_training_loss"])
        losses = final_losses(seeds, rule)
        draw_seeds(ax, WORKERS, losses, label=label, color=colour)
        for loss in losses:
            ax.plot(WORKERS, loss, "o", color=colour, markersize=3.5)
    ax.set(xlabel="workers", ylabel="final training loss", yscale="log", xticks=WORKERS)
    name_below(ax, 4)
