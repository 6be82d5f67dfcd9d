"""Beale's function: four rules on one schedule, with stale gradients.

Twenty workers, whose updates are eighteen versions old on average, walk down Beale's function from the thesis's first
start, (-2, -1). At the same step size DOWNPOUR adds up twenty updates that did not know of each other: it shoots across
the valley and jumps to and fro on the wrong side. GEM scales each update by what the central variable moved meanwhile,
and ends 0.57 from the minimum; AGN's windows, divided by their length, end 0.63 from it; elastic averaging moves
slowly and safely. The report is a page, `movie.html`, with `movie.gif`: see who is stale, and the effect of it.

    asyncsim run scenarios/beale.py
    asyncsim run scenarios/beale.py --learning-rate 1e-4 --workers 40 --out runs/small_steps
"""

from functools import cache

import numpy as np

import asyncsim as asim
from asyncsim import delays, rules
from asyncsim.animation import mechanism
from asyncsim.plots.style import INK, rule_colors

WINDOW = ((-2.9, 4.0), (-1.7, 2.9))
MINIMUM = asim.workloads.LANDSCAPES["beale"].minima[0]


def compute(
    workers=20, learning_rate=1e-3, window=5, rho=50.0, latency=0.08, seconds=60.0, start=(-2.0, -1.0), seed=0
) -> dict[str, np.ndarray]:
    """Where four rules go, and where they end.

    Args:
        workers: Number of workers, with gamma compute times of mean 1 s and cv 0.3.
        learning_rate: Step size η of all four.
        window: Local steps between two commits of AGN and of elastic averaging.
        rho: Stiffness ρ of elastic averaging's spring.
        latency: Mean time of a message on the network, in seconds.
        seconds: Simulated seconds.
        start: Where all begin, x and y.
        seed: Seed of the schedule.
    """
    _, runs = replays(workers, learning_rate, window, rho, latency, seconds, tuple(start), seed)
    ways = [np.asarray(run.unpacked("central")["x"], float) for run in runs.values()]
    ends = np.array([way[-1] for way in ways])
    return {
        "rule": np.array(list(runs)),
        "x": ends[:, 0],
        "y": ends[:, 1],
        "distance": np.hypot(*(ends - MINIMUM).T),
        "furthest": np.array([np.abs(way - MINIMUM).max() for way in ways]),
        "ways": np.stack(ways),
    }


@cache
def replays(workers, learning_rate, window, rho, latency, seconds, start, seed):
    """The schedule, and its replays by name."""
    law = delays.Gamma(mean=latency, cv=0.3) if latency else delays.Constant(0.0)
    cluster = asim.Cluster(workers, delays.Gamma(mean=1.0, cv=0.3), network=asim.Network(latency=law))
    trace = asim.simulate(cluster, seconds=seconds, seed=seed)
    workload = asim.workloads.Surface("beale", start=start)
    chosen = {
        "DOWNPOUR": rules.Downpour(learning_rate),
        "GEM": rules.GEM(learning_rate),
        "AGN": rules.AGN(learning_rate, window=window),
        "elastic averaging": rules.AEASGD(learning_rate, window=window, rho=rho),
    }
    record = {"central": 1, "read": 1, "mechanism": mechanism}
    return trace, {name: asim.replay(trace, rule, workload, record=record) for name, rule in chosen.items()}


def movie(**arguments) -> asim.Movie:
    """The four rules, in panels that move in step."""
    trace, runs = replays(**{**arguments, "start": tuple(arguments["start"])})
    words = "The cross is the minimum. Coloured dots mark the parameters of each worker: the older, the redder."
    title = "Four rules on Beale's function, one schedule"
    return asim.animate(trace, runs, title=title, subtitle=words, window=WINDOW)


def draw(figure, numbers) -> None:
    """The ways of the four rules."""
    landscape = asim.workloads.LANDSCAPES["beale"]
    x, y = np.linspace(-3.2, 4.2, 120), np.linspace(-2.2, 2.8, 120)
    heights = np.log10(landscape.heights(x, y) + 0.1)
    colors = rule_colors(numbers["rule"])
    for ax, name, way, color in zip(figure.subplots(2, 2).flat, numbers["rule"], numbers["ways"], colors, strict=True):
        ax.contourf(x, y, heights, 16, cmap="Greys_r", alpha=0.45)
        ax.plot(*way.T, color=color, linewidth=1)
        ax.plot(*way[-1], "o", color=color)
        ax.plot(*MINIMUM, "+", color=INK, markersize=10)
        ax.set(title=str(name), xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))


experiment = asim.Experiment(compute, draw, title="Beale's function, one schedule", size=(9.6, 7.2), movie=movie)

if __name__ == "__main__":
    asim.main(experiment)
