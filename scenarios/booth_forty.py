"""Booth's function with forty workers: the thesis's toy, from (90, 90) with step size 0.01 and 2000 updates.

The curvatures are 18 and 2, and an update is 39 versions old on average. DOWNPOUR swings further at every turn along
the steep direction, until it overflows at update 1547. GEM swings once and comes to rest 0.27 from the minimum;
updates divided by their staleness end 0.44 from it; elastic averaging, whose workers walk on their own, hits it. The
report is a page, `movie.html`, with `movie.gif`.

    asyncsim run scenarios/booth_forty.py
    asyncsim run scenarios/booth_forty.py --workers 10 --out runs/booth_ten
"""

from functools import cache

import numpy as np

import asyncsim as asim
from asyncsim import delays, rules
from asyncsim.animation import mechanism
from asyncsim.plots.style import INK, rule_colors

BOOTH = asim.workloads.LANDSCAPES["booth"]
MINIMUM = BOOTH.minima[0]


def compute(workers=40, learning_rate=0.01, commits=2000, latency=0.08, seed=0) -> dict[str, np.ndarray]:
    """How far from the minimum four rules are, and where they end.

    Args:
        workers: Number of workers, with gamma compute times of mean 1 s and cv 0.3.
        learning_rate: Step size η of all four.
        commits: Updates in all.
        latency: Mean time of a message on the network, in seconds.
        seed: Seed of the schedule.
    """
    trace, runs = replays(workers, learning_rate, commits, latency, seed)
    with np.errstate(all="ignore"):  # of runs that diverge
        ways = [np.asarray(run.unpacked("central")["x"], float) for run in runs.values()]
        distance = np.stack([np.hypot(*(way - MINIMUM).T) for way in ways])
    diverged = [run.diverged_at for run in runs.values()]
    return {
        "rule": np.array(list(runs)),
        "last_distance": np.array(
            [way[-1] if end is None else np.nan for way, end in zip(distance, diverged, strict=True)]
        ),
        "diverged_at": np.array([-1 if end is None else end for end in diverged]),
        "mean_staleness": np.array(trace.staleness.mean()),
        "distance": distance,
    }


@cache
def replays(workers, learning_rate, commits, latency, seed):
    """The schedule, and its replays by name."""
    law = delays.Gamma(mean=latency, cv=0.3) if latency else delays.Constant(0.0)
    cluster = asim.Cluster(workers, delays.Gamma(mean=1.0, cv=0.3), network=asim.Network(latency=law))
    trace = asim.simulate(cluster, commits=commits, seed=seed)
    chosen = {
        "DOWNPOUR": rules.Downpour(learning_rate),
        "GEM": rules.GEM(learning_rate),
        "adaptive staleness": rules.AdaptiveStaleness(learning_rate),
        "elastic averaging": rules.AEASGD(learning_rate, window=5, rho=5.0),
    }
    workload, record = asim.workloads.Surface("booth"), {"central": 1, "read": 1, "mechanism": mechanism}
    return trace, {name: asim.replay(trace, rule, workload, record=record) for name, rule in chosen.items()}


def movie(**arguments) -> asim.Movie:
    """The four rules, in panels that move in step."""
    trace, runs = replays(**arguments)
    title = f"Four rules on Booth's function, {trace.workers} workers, one schedule"
    words = "The cross is the minimum. Coloured dots mark the parameters of each worker: the older, the redder."
    return asim.animate(trace, runs, title=title, subtitle=words, window=((-140.0, 160.0), (-140.0, 160.0)))


def draw(figure, numbers) -> None:
    """Distance from the minimum against the updates."""
    ax = figure.subplots()
    colors = rule_colors(numbers["rule"])
    for name, distance, color in zip(numbers["rule"], numbers["distance"], colors, strict=True):
        ax.plot(np.where(distance < 1e4, distance, np.nan), color=color, label=str(name))
    ax.axhline(np.hypot(*(np.array(BOOTH.starts[0]) - MINIMUM)), color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    ax.set(yscale="log", xlabel="updates", ylabel="distance from the minimum")
    ax.legend()


experiment = asim.Experiment(compute, draw, title="Booth's function, forty workers", movie=movie)

if __name__ == "__main__":
    asim.main(experiment)
