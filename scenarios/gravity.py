"""Gravity: twenty workers around a server that learns digits, as masses that drift away while they grow stale.

Each worker is a mass whose distance from the server is its staleness; it falls back when it reads, and its messages are
edges. Three workers take twice as long as the others and are always far out; one goes down for ten seconds; the server
takes 20 ms for an update, so that at times a few of them queue in a ring around it. Below, the losses of GEM and of
DOWNPOUR on this one schedule. The report is a page, `movie.html`, with `movie.gif`.

    asyncsim run scenarios/gravity.py
    asyncsim run scenarios/gravity.py --workers 60 --service 0.01 --out runs/gravity_sixty
"""

from functools import cache

import numpy as np

import asyncsim as asim
from asyncsim import delays, faults, rules
from asyncsim.plots.style import BLUE, GREEN


def compute(workers=20, slow=3, service=0.02, latency=0.08, seconds=60.0, learning_rate=0.1, seed=0):
    """Staleness by worker, and the losses of two rules.

    Args:
        workers: Number of workers, with gamma compute times of mean 1 s and cv 0.3.
        slow: How many of them take twice as long.
        service: Seconds that the server takes for an update.
        latency: Mean time of a message on the network, in seconds.
        seconds: Simulated seconds.
        learning_rate: Step size of both rules.
        seed: Seed of schedule, initial parameters and mini-batches.
    """
    trace, runs = replays(workers, slow, service, latency, seconds, learning_rate, seed)
    by_worker = asim.statistics(trace).by_worker
    return {
        "worker": np.arange(workers),
        "staleness": by_worker.staleness,
        "commits": by_worker.commits,
        **{f"final_loss_{name.lower()}": np.array(run.final_loss()) for name, run in runs.items()},
    }


@cache
def replays(workers, slow, service, latency, seconds, learning_rate, seed):
    """The schedule, and its replays by name."""
    laws = delays.fleet.two_classes(delays.Gamma(mean=1.0, cv=0.3), workers, slow=slow, factor=2.0)
    cluster = asim.Cluster(
        workers,
        laws,
        network=asim.Network(latency=delays.Gamma(mean=latency, cv=0.3) if latency else delays.Constant(0.0)),
        server=asim.Server(service=delays.Constant(service)),
        faults=[faults.Crash(worker=workers // 2, time=0.3 * seconds, restart_after=seconds / 6)],
    )
    trace = asim.simulate(cluster, seconds=seconds, seed=seed)
    workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=32)
    chosen = {"GEM": rules.GEM(learning_rate), "DOWNPOUR": rules.Downpour(learning_rate)}
    return trace, {name: asim.replay(trace, rule, workload, seed=seed) for name, rule in chosen.items()}


def movie(**arguments) -> asim.Movie:
    """The workers around the server."""
    trace, runs = replays(**arguments)
    title = f"{trace.workers} workers around a server that learns digits"
    words = "Distance is staleness: commits push everybody out, and a worker that reads falls back. Edges are messages."
    return asim.animate(trace, runs, view="gravity", title=title, subtitle=words)


def draw(figure, numbers) -> None:
    """Staleness and commits of each worker."""
    left, right = figure.subplots(1, 2)
    left.bar(numbers["worker"], numbers["staleness"], color=BLUE)
    left.set(xlabel="worker", ylabel="mean staleness of its commits, in server versions")
    right.bar(numbers["worker"], numbers["commits"], color=GREEN)
    right.set(xlabel="worker", ylabel="commits")


experiment = asim.Experiment(compute, draw, title="Workers around a server", size=(9.6, 4.2), movie=movie)

if __name__ == "__main__":
    asim.main(experiment)
