"""A figure without replays, whose numbers are its seed."""

from types import SimpleNamespace

import numpy as np

from figures.common.figure_set import Claim
from figures.common.tables import pack, table


def fake(**changes):
    """A figure whose parts may be changed."""

    def compute(scale, seed, runs):
        return pack(curve={"x": np.arange(3), "y": seed + np.arange(3.0)}, final={"loss": [seed / 3]})

    def draw(page, seeds, scale):
        page.subplots().plot(table(seeds[-1], "curve")["y"])

    def claims(seeds, scale):
        return [Claim("it is small", "by looking", str(len(seeds)), len(seeds) < 3)]

    parts = {"TITLE": "A figure", "SIZE": (4.0, 3.0), "scenarios": lambda scale, seed: {}}
    return SimpleNamespace(**{**parts, "compute": compute, "draw": draw, "claims": claims, **changes})
