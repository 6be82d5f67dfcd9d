"""The paper's own curves, as numbers."""

from functools import cache
from pathlib import Path

from asyncsim.study.tables import Table, from_csv

FOLDER = Path(__file__).parents[1] / "paper"


@cache
def paper_curves(name: str) -> Table:
    """A file of figures/paper, whose README says where it comes from.

    Args:
        name: Of the file, without ".csv".

    Example:
        >>> sorted(set(paper_curves("figure1a_gem")["workers"].tolist()))
        [5.0, 10.0, 20.0, 30.0]
    """
    return from_csv(FOLDER / f"{name}.csv")
