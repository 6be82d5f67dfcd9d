"""Figure 8: amplified proxies.

The paper claims that with 5 workers, amplifying the proxy by κ = 2 helps and κ = 4 fails to learn. The claims are
tested by the final losses of all seeds.

In the paper, the median of π over all parameters is at the clamp, 5, with κ = 4 until the network has died, and then
falls to 0. The third claim tests only this path of π, because π also takes it where the network goes on learning. A
dead network still learns its last bias, so that the mean of each tensor's own median, which is drawn as well, stays
above.

At scale quick, the step size is .225 rather than the .15 of the other figures: with .15, any κ up to 3 helps, and κ = 4
does no harm. With .225, κ = 4 ends a hundred times higher than κ = 1, or diverges.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import asyncsim as asim
from asyncsim.plots import draw_seeds
from figures.common import scales
from figures.common.averages import loss_curve
from figures.common.curves import COLOURS, draw_paper, name_below
from figures.common.figure_set import UNCACHED, Claim, RunCache, each, numbers
from figures.common.paper import paper_curves, why_no_curves
from figures.common.scales import FAILED
from figures.common.tables import Numbers, over_seeds, pack, stack, table, where
from figures.figure3 import MEDIANS, last_tenth_of, medians

TITLE = "Figure 8: training loss and π with amplified proxies, κ = 1 to 4, 5 workers"
SIZE = (12.0, 4.2)
WORKERS = 5
KAPPAS = (1.0, 2.0, 3.0, 4.0)
note = why_no_curves
PAPER = {  # our column -> the paper's file and column
    "training_loss": ("figure8a_kappa_loss", "training_loss"),
    **dict.fromkeys(MEDIANS, ("figure8b_kappa_median_pi", "median_pi")),
}
CLAMP = 5.0  # the largest π
AT_THE_CLAMP = (100, 200)  # commits of each worker between which π is at the clamp in the paper


def scenarios(scale: str, seed: int) -> dict[float, asim.Scenario]:
    """One run for each κ."""
    rate = scales.scale_of(scale).kappa_learning_rate
    return {kappa: scales.scenario(scale, scales.gem(rate, kappa), WORKERS, seed) for kappa in KAPPAS}


def compute(scale: str = "quick", seed: int = 0, runs: RunCache = UNCACHED) -> dict[str, np.ndarray]:
    """Loss and median π against commits per worker, and how each run ended."""
    return amplified(scenarios(scale, seed), runs)


def amplified(scenarios: Mapping[float, asim.Scenario], runs: RunCache) -> dict[str, np.ndarray]:
    """The tables of runs that are named by their κ."""
    curves, final = [], []
    for kappa, scenario in scenarios.items():
        run = runs.get(scenario)
        curves.append({"kappa": kappa, **loss_curve(run), **medians(run)})
        ends = {"training_loss": run.final_loss, "test_accuracy": run.test_accuracy}
        final.append({"kappa": kappa, **ends})
    return pack(curves=stack(curves), final=stack(final))


def claims(seeds: Sequence[Numbers], scale: str) -> list[Claim]:
    """Whether κ = 2 helps and κ = 4 fails to learn."""
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
            "κ = 4 fails to learn",
            f"final loss above {FAILED:.3g}, or diverged, for every seed with κ = 4, and for none with κ = 1",
            shown,
            bool((~(losses[:, 3] < FAILED)).all() and (losses[:, 0] < FAILED).all()),
        ),
        falls(seeds),
    ]


def falls(seeds: Sequence[Numbers]) -> Claim:
    """Whether π with κ = 4 goes from the clamp to 0, whatever the loss does."""
    steps = where(table(seeds[0], "curves"), kappa=KAPPAS[-1])["worker_steps"]
    medians = over_seeds(seeds, "curves", "median_pi", kappa=KAPPAS[-1])
    first, last = AT_THE_CLAMP
    inside = (first < steps) & (steps <= last)
    middle = np.array([median[inside].mean() if inside.any() else np.nan for median in medians])
    end = np.array([last_tenth_of(median) for median in medians])
    return Claim(
        "with κ = 4, π is at the clamp at first, and 0 in the end",
        f"median over all parameters: mean over commits {first} to {last} of each worker above {0.9 * CLAMP:g}, and "
        f"over the last tenth below {0.02 * CLAMP:g}, for every seed",
        f"commits {first} to {last}: {numbers(middle)}; last tenth: {numbers(end)}",
        bool((middle > 0.9 * CLAMP).all() and (end < 0.02 * CLAMP).all()) if inside.any() else None,
    )


def draw(figure: Any, seeds: Sequence[Numbers], scale: str) -> None:
    """Loss, the median of π over all parameters, and the mean of each tensor's own."""
    panels = figure.subplots(1, len(PAPER))
    for ax, column in zip(panels, PAPER, strict=True):
        draw_kappas(ax, seeds, column, scale)
        ax.set_title(f"median of π, {MEDIANS[column]}" if column in MEDIANS else "training loss")
    name_below(panels[0], 3)


def draw_kappas(ax: Any, seeds: Sequence[Numbers], column: str, scale: str) -> None:
    """One column for each κ, with the paper's curves behind it."""
    file, theirs = PAPER[column]
    for kappa, colour in zip(KAPPAS, COLOURS, strict=False):
        if scale == "paper":
            curve = where(paper_curves(file), kappa=kappa)
            draw_paper(ax, curve["worker_steps"], curve[theirs])
        steps = where(table(seeds[0], "curves"), kappa=kappa)["worker_steps"]
        draw_seeds(ax, steps, over_seeds(seeds, "curves", column, kappa=kappa), label=f"κ = {kappa:g}", color=colour)
    ax.set_xlabel("commits of each worker")
    if column in MEDIANS:
        ax.set_ylim(0, None)
    else:
        ax.set_yscale("log")
