"""A figure without replays, whose numbers are its seed."""

from types import SimpleNamespace

import numpy as np

from asyncsim.study.figures import Claim
from asyncsim.study.table import pack, table


def fake(calls, **changes):
    """A figure that notes in `calls` which seeds it computed."""

    def compute(scale, seed, runs):
        calls.append(seed)
        return pack(curve={"x": np.arange(3), "y": seed + np.arange(3.0)}, final={"loss": [seed / 3]})

    def draw(page, seeds, scale):
        page.subplots().plot(table(seeds[-1], "curve")["y"])

    def claims(seeds, scale):
        return [Claim("it is small", "by looking", str(len(seeds)), len(seeds) < 3)]

    parts = {"TITLE": "A figure", "SIZE": (4.0, 3.0), "__file__": __file__, "scenarios": lambda scale, seed: {}}
    return SimpleNamespace(**{**parts, "compute": compute, "draw": draw, "claims": claims, **changes})
