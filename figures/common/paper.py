"""The paper's own curves, as numbers, and where they are not drawn."""

from functools import cache
from pathlib import Path

from figures.common.tables import Table, from_csv

FOLDER = Path(__file__).parents[1] / "paper"


@cache
def paper_curves(name: str) -> Table:
    """A table of figures/paper, whose README gives the sources.

    Args:
        name: Name of the file, without ".csv".

    Example:
        >>> sorted(set(paper_curves("figure1a_gem")["workers"].tolist()))
        [5.0, 10.0, 20.0, 30.0]
    """
    return from_csv(FOLDER / f"{name}.csv")


def why_no_curves(scale: str) -> str:
    """A note for the pages that do not show the paper's curves; "" if they do.

    Example:
        >>> why_no_curves("quick")
        "the paper's curves are of MNIST and appear at scale paper"
    """
    return "" if scale == "paper" else "the paper's curves are of MNIST and appear at scale paper"


def not_in_paper(scale: str) -> str:
    """A note for the figures that the paper implies but does not have."""
    del scale
    return "the paper has no such figure"
