"""The README's movie: DOWNPOUR beside GEM on Beale's function, twenty workers, one schedule (scenarios/beale.py)."""

import runpy
from pathlib import Path

import asyncsim as asim

script = runpy.run_path(str(Path(__file__).parents[2] / "scenarios" / "beale.py"))
arguments = {field.name: field.value for field in script["experiment"].fields()}
trace, runs = script["replays"](**arguments)
pair = {name: runs[name] for name in ("DOWNPOUR", "GEM")}
title = "Twenty workers on Beale's function: DOWNPOUR beside GEM, one schedule"
movie = asim.animate(trace, pair, stop=24.0, window=script["WINDOW"], title=title)
movie.gif(Path(__file__).with_suffix(".gif"), seconds=12.0, rate=12.0)
