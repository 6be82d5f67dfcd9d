"""Figure 6: a step size twice too large.

The paper claims that GEM is resilient to a misspecified step size (η = .1): it still learns with 5, 10 and 20 workers,
while DOWNPOUR fails. The claims are judged by the final losses of all seeds.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

import asyncsim as asim
from asyncsim.plots import draw_seeds
from figures.common import scales
from figures.common.averages import losses_of
from figures.common.curves import COLOURS, draw_paper, name_below
from figures.common.figure_set import UNCACHED, Claim, RunCache, each_n, numbers
from figures.common.paper import paper_curves, why_no_curves
from figures.common.scales import FAILED
from figures.common.tables import Numbers, Table, over_seeds, table, where

TITLE = "Figure 6: GEM and DOWNPOUR with a step size twice too large"
SIZE = (9.6, 4.2)
WORKERS = (5, 10, 20)
note = why_no_curves
PAPER = {"gem": "figure6a_gem_lr01", "downpour": "figure6b_downpour_lr01"}


def scenarios(scale: str, seed: int) -> dict[tuple[str, int], asim.Scenario]:
    """GEM and DOWNPOUR with several workers, and momentum SGD, GEM's proxy, with one."""
    rate = scales.scale_of(scale).large_learning_rate
    rules = {"gem": scales.gem(rate), "downpour": asim.rules.Downpour(rate)}
    runs = {(name, n): scales.scenario(scale, rule, n, seed) for name, rule in rules.items() for n in WORKERS}
    proxy = asim.rules.MomentumSGD(rate, momentum=scales.MOMENTUM)
    return {**runs, ("momentum_sgd", 1): scales.scenario(scale, proxy, 1, seed)}


def compute(scale: str = "quick", seed: int = 0, runs: RunCache = UNCACHED) -> dict[str, np.ndarray]:
    """Loss curves, and how each run ended."""
    return losses_of(scenarios(scale, seed), runs)


def claims(seeds: Sequence[Numbers], scale: str) -> list[Claim]:
    """Whether GEM learns and DOWNPOUR does not."""
    rate = scales.scale_of(scale).large_learning_rate
    gem, downpour = (over_seeds(seeds, "final", "training_loss", rule=rule) for rule in PAPER)
    proxy = over_seeds(seeds, "final", "training_loss", rule="momentum_sgd")
    failed = ~(downpour[:, 1:] < FAILED)
    return [
        Claim(
            f"GEM tolerates a step size that is too large (η = {rate:g}) with 5, 10 and 20 workers",
            f"final loss below {FAILED:.3g} for every seed and number of workers",
            f"{each_n(WORKERS, gem)}; momentum SGD alone: {numbers(proxy.ravel())}",
            bool((gem < FAILED).all()),
        ),
        Claim(
            "DOWNPOUR does not: it fails with 10 and 20 workers",
            f"final loss above {FAILED:.3g} or diverged, for every seed with 10 and 20 workers",
            each_n(WORKERS, downpour),
            bool(failed.all()),
        ),
    ]


def draw(figure: Any, seeds: Sequence[Numbers], scale: str) -> None:
    """GEM and its proxy on the left, DOWNPOUR on the right."""
    left, right = figure.subplots(1, 2, sharey=True)
    for ax, rule, label in ((left, "gem", "GEM"), (right, "downpour", "DOWNPOUR")):
        for n, colour in zip(WORKERS, COLOURS, strict=False):
            draw_run(ax, seeds, rule, n, scale, label=f"{n} workers", color=colour)
        ax.set(title=label, xlabel="commits of each worker", yscale="log")
    draw_run(left, seeds, "momentum_sgd", 1, scale, label="momentum SGD", color=COLOURS[3])
    left.set_ylabel("training loss")
    name_below(left, 3)
    name_below(right, 4)


def draw_run(ax: Any, seeds: Sequence[Numbers], rule: str, n: int, scale: str, **look: Any) -> None:
    """One curve, with the paper's behind it."""
    if scale == "paper":
        theirs = paper_curve(rule, n)
        draw_paper(ax, theirs["worker_steps"], theirs["training_loss"])
    steps = where(table(seeds[0], "curves"), rule=rule, workers=n)["worker_steps"]
    draw_seeds(ax, steps, over_seeds(seeds, "curves", "training_loss", rule=rule, workers=n), **look)


def paper_curve(rule: str, n: int) -> Table:
    """The paper's curve; in GEM's file, momentum SGD is among the `workers`, so that the column holds strings."""
    if rule == "downpour":
        return where(paper_curves(PAPER[rule]), workers=n)
    return where(paper_curves(PAPER["gem"]), workers=rule if rule == "momentum_sgd" else str(n))
