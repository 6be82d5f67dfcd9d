"""Figure 8: amplified proxies.

The paper claims that with 5 workers, amplifying the proxy by κ = 2 helps and κ = 4 diverges. The claims are judged by
the final losses of all seeds.

At scale quick, the step size is .225 rather than the .15 of the other figures: with .15, any κ up to 3 helps, and κ = 4
does no harm. With .225, κ = 4 ends a hundred times higher than κ = 1, or diverges.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

import asyncsim as asim
from asyncsim.plots import draw_seeds
from asyncsim.study.cache import UNCACHED, RunCache
from asyncsim.study.claims import Claim, each
from asyncsim.study.tables import Numbers, over_seeds, pack, stack, table, where
from figures.common import scales
from figures.common.averages import loss_curve
from figures.common.curves import COLOURS, draw_paper
from figures.common.paper import paper_curves, why_no_curves
from figures.common.scales import FAILED
from figures.figure3 import MEDIANS, medians

TITLE = "Figure 8: training loss and π with amplified proxies, κ = 1 to 4, 5 workers"
SIZE = (9.6, 4.2)
WORKERS = 5
KAPPAS = (1.0, 2.0, 3.0, 4.0)
note = why_no_curves
PAPER = {  # our column -> the paper's file and column
    "training_loss": ("figure8a_kappa_loss", "training_loss"),
    "mean_tensor_median_pi": ("figure8b_kappa_median_pi", "median_pi"),
}


def scenarios(scale: str, seed: int) -> dict[float, asim.Scenario]:
    """One run for each κ."""
    rate = scales.scale_of(scale).kappa_learning_rate
    return {kappa: scales.scenario(scale, scales.gem(rate, kappa), WORKERS, seed) for kappa in KAPPAS}


def compute(scale: str = "quick", seed: int = 0, runs: RunCache = UNCACHED) -> dict[str, np.ndarray]:
    """Loss and median π against commits per worker, and how each run ended."""
    curves, final = [], []
    for kappa, scenario in scenarios(scale, seed).items():
        run = runs.get(scenario)
        curves.append({"kappa": kappa, **loss_curve(run), **medians(run)})
        ends = {"training_loss": run.final_loss, "test_accuracy": run.test_accuracy}
        final.append({"kappa": kappa, **ends})
    return pack(curves=stack(curves), final=stack(final))


def claims(seeds: Sequence[Numbers], scale: str) -> list[Claim]:
    """Whether κ = 2 helps and κ = 4 diverges."""
    del scale
    losses = over_seeds(seeds, "final", "training_loss")
    shown = each((f"κ = {kappa:g}" for kappa in KAPPAS), losses)
    return [
        Claim(
            "κ = 2 helps",
            "final loss lower with κ = 2 than with κ = 1 for every seed",
            shown,
            bool((losses[:, 1] < losses[:, 0]).all()),
        ),
        Claim(
            "κ = 4 diverges",
            f"final loss above {FAILED:.3g}, or diverged, for every seed with κ = 4, and for none with κ = 1",
            shown,
            bool((~(losses[:, 3] < FAILED)).all() and (losses[:, 0] < FAILED).all()),
        ),
    ]


def draw(figure: Any, seeds: Sequence[Numbers], scale: str) -> None:
    """Loss on the left, the median of π on the right."""
    (left, right), label = figure.subplots(1, 2), MEDIANS["mean_tensor_median_pi"]
    for ax, (column, (file, theirs)) in zip((left, right), PAPER.items(), strict=True):
        for kappa, colour in zip(KAPPAS, COLOURS, strict=False):
            if scale == "paper":
                curve = where(paper_curves(file), kappa=kappa)
                draw_paper(ax, curve["worker_steps"], curve[theirs])
            steps = where(table(seeds[0], "curves"), kappa=kappa)["worker_steps"]
            values = over_seeds(seeds, "curves", column, kappa=kappa)
            draw_seeds(ax, steps, values, label=f"κ = {kappa:g}", color=colour)
        ax.legend()
        ax.set_xlabel("commits of each worker")
    left.set(title="training loss", yscale="log")
    right.set(title=f"median of π, {label}", ylim=(0, None))
