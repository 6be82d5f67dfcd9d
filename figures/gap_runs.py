"""Whole runs with commits between pull and commit: figures 1d, 3 and 8 of the paper once more.

They differ from the runs of those figures in that pull and commit are two requests, as in `gap`; compute times are
nearly equal here, too. The claims are those of figures 1 (of GEM), 3 and 8.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

import asyncsim as asim
from asyncsim.plots import draw_seeds
from figures import figure3, figure8
from figures.common.curves import COLOURS, draw_paper, name_below
from figures.common.figure_set import UNCACHED, Claim, RunCache, each_n
from figures.common.gap import apart
from figures.common.paper import paper_curves, why_no_curves
from figures.common.scales import FAILED, UNTRAINED
from figures.common.tables import Numbers, names_of, over_seeds, pack, stack, table, where

GAP = 2  # the largest that leaves π of 10 workers as in figure 3; see `gap`
TITLE = f"Figures 1d, 3 and 8 with {GAP} commits between pull and commit"
SIZE = (9.6, 7.4)
note = why_no_curves


def scenarios(scale: str, seed: int) -> dict[tuple[str, float], asim.Scenario]:
    """GEM with each number of workers and each κ."""
    by_workers, by_kappa = figure3.scenarios(scale, seed), figure8.scenarios(scale, seed)
    runs = {("workers", n): scenario for n, scenario in by_workers.items()}
    runs |= {("kappa", kappa): scenario for kappa, scenario in by_kappa.items()}
    return {key: apart(scenario, GAP) for key, scenario in runs.items()}


def compute(scale: str = "quick", seed: int = 0, runs: RunCache = UNCACHED) -> dict[str, np.ndarray]:
    """The tables of figure 3, with how each run ended, and those of figure 8."""
    named = scenarios(scale, seed)
    by_workers = {n: named["workers", n] for n in figure3.scenarios(scale, seed)}
    by_kappa = {kappa: named["kappa", kappa] for kappa in figure8.scenarios(scale, seed)}
    final = stack({"workers": n, "training_loss": runs.get(one).final_loss} for n, one in by_workers.items())
    amplified = figure8.amplified(by_kappa, runs)
    tables = {f"kappa_{name}": table(amplified, name) for name in names_of(amplified)}
    return pack(workers_curves=figure3.medians_of(by_workers, runs), workers_final=final, **tables)


def of(seeds: Sequence[Numbers], kind: str) -> list[Numbers]:
    """The tables of one kind, as figure 3 or 8 knows them."""
    start = f"{kind}_"
    return [{key.removeprefix(start): v for key, v in numbers.items() if key.startswith(start)} for numbers in seeds]


def claims(seeds: Sequence[Numbers], scale: str) -> list[Claim]:
    """The claims of the paper's figures about GEM."""
    gem = final_losses(seeds)
    stable = Claim(
        "GEM is stable up to 30 workers, and more workers reach a lower loss",
        f"final loss below {FAILED:.3g} for every seed, and its mean falling from 5 to 30 workers",
        each_n(figure3.WORKERS, gem),
        bool((gem < FAILED).all() and np.all(np.diff(gem.mean(axis=0)) < 0)),
    )
    found = [stable, *figure3.claims(of(seeds, "workers"), scale), *figure8.claims(of(seeds, "kappa"), scale)]
    return [claim._replace(says=f"with g = {GAP}: {claim.says}") for claim in found]


def final_losses(seeds: Sequence[Numbers]) -> np.ndarray:
    """(seeds, numbers of workers): final training losses."""
    return over_seeds(seeds, "workers_final", "training_loss")


def draw(figure: Any, seeds: Sequence[Numbers], scale: str) -> None:
    """Figure 1d for GEM and figure 3 above, figure 8 below; medians of π over all parameters."""
    axes = figure.subplots(2, 2)
    draw_final(axes[0, 0], seeds, scale)
    figure3.draw_medians(axes[0, 1], of(seeds, "workers"), "median_pi", scale)
    axes[0, 1].set_title("figure 3: median of π over all parameters")
    name_below(axes[0, 1], 5, "workers")
    for ax, column, title in zip(
        axes[1], ("training_loss", "median_pi"), ("figure 8a: training loss", "figure 8b: median of π"), strict=True
    ):
        figure8.draw_kappas(ax, of(seeds, "kappa"), column, scale)
        ax.set_title(title)
    name_below(axes[1, 0], 5)


def draw_final(ax: Any, seeds: Sequence[Numbers], scale: str) -> None:
    """GEM's final losses against the number of workers; a diverged run counts as one that never learned."""
    losses = final_losses(seeds)
    shown = np.where(np.isfinite(losses), losses, UNTRAINED)
    if scale == "paper":
        theirs = where(paper_curves("figure1d_summary"), rule="gem")
        draw_paper(ax, theirs["workers"], theirs["final_training_loss"])
    draw_seeds(ax, figure3.WORKERS, shown, color=COLOURS[0], marker="o")
    ax.set(title="figure 1d: GEM's final loss", xlabel="workers", xticks=figure3.WORKERS, yscale="log")
