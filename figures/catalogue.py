"""All figures, in order.

A figure is a module with `TITLE`, `SIZE` and the functions of `figures.common.figure_set.FigureModule`. To add one,
copy the most similar module and list it here.
"""

from pathlib import Path

from figures import (
    assumptions,
    energy,
    figure1,
    figure2,
    figure3,
    figure4,
    figure5,
    figure6,
    figure7,
    figure8,
    figure9,
    figure10,
    gap,
    gap_runs,
    stability,
    staleness,
)
from figures.common.figure_set import FigureModule, FigureSet
from figures.common.scales import scale_of

FIGURES: dict[str, FigureModule] = {
    "figure1": figure1,
    "figure2": figure2,
    "figure3": figure3,
    "figure4": figure4,
    "figure5": figure5,
    "figure6": figure6,
    "figure7": figure7,
    "figure8": figure8,
    "figure9": figure9,
    "figure10": figure10,
    "energy": energy,
    "stability": stability,
    "staleness": staleness,
    "assumptions": assumptions,
    "gap": gap,
    "gap_runs": gap_runs,
}


def figure_set(out: Path, scale: str = "quick", seeds: int = 3) -> FigureSet:
    """The figures at a scale, in a folder.

    Args:
        out: The folder.
        scale: "quick" or "paper".
        seeds: How many seeds each figure shows.

    Raises:
        ValueError: If there is no such scale.
    """
    return FigureSet(out, FIGURES, scale, scale_of(scale).task, seeds)
