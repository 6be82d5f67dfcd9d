"""AD-PSGD against a parameter server on a slow network, at equal seconds.

Sixteen workers learn the digits for the same simulated time. Around a server, all models pass through the server's
link. On a ring (AD-PSGD, gossip) every worker averages with one neighbour at a time over a link of its own. Each system
has its best step size of one grid, which lies inside of it. While messages are short, the two reach the same loss
within two standard errors. Once the server's link is full, it applies fewer gradients, and the ring is far ahead.

    asyncsim run scenarios/gossip_slow_network.py
    asyncsim run scenarios/gossip_slow_network.py --graph torus --seeds 3
"""

from dataclasses import replace

import numpy as np

import asyncsim as asim
from asyncsim.plots.style import BLUE, VERMILION
from asyncsim.reports.replicates import mean_and_error

SYSTEMS = ("server", "graph")
COLORS = (VERMILION, BLUE)
GRID = tuple(0.0125 * 2**k for k in range(9))


def compute(
    message_seconds=(1 / 64, 1 / 16, 1 / 4, 1.0),
    graph="ring",
    workers=16,
    cv=0.5,
    seconds=120.0,
    learning_rate=GRID,
    seeds=12,
) -> dict[str, np.ndarray]:
    """Test loss after the same seconds, for each duration of a message and each system at its best step size.

    Args:
        message_seconds: Seconds that a link takes for one model, in units of a gradient's mean seconds.
        graph: Name of the graph on which workers average in pairs.
        workers: Number of workers.
        cv: Coefficient of variation of the seconds of a gradient, whose mean is 1.
        seconds: Length of each run.
        learning_rate: Grid of step sizes, from which each system gets its best.
        seeds: Seeds of schedule, initial parameters and mini-batches.
    """
    law = asim.delays.Gamma(mean=1.0, cv=cv)
    workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=16)
    grid = np.asarray(learning_rate, float)

    def measure(system: str, duration: float, seed: int) -> tuple[list[float], float, float]:
        link = asim.Network(bandwidth=1 / duration, message_bytes=1.0)
        if system == "server":
            cluster = asim.Cluster(workers, law, replace(link, shared=True, duplex="full"))
        else:
            cluster = asim.Gossip(workers, law, graph=graph, network=link)
        trace = asim.simulate(cluster, seconds=seconds, seed=seed)
        run = asim.replay(trace, asim.rules.Downpour(grid), workload, seed=[seed] * len(grid))
        return np.asarray(run.evaluate()["test_loss"]).tolist(), len(trace), trace.staleness.mean()

    columns = {name: [] for name in ("best", "test_loss", "error", "commits", "staleness", "at_edge")}
    for system in SYSTEMS:
        for duration in message_seconds:
            losses, commits, staleness = zip(*(measure(system, duration, s) for s in range(seeds)), strict=True)
            mean, error = mean_and_error(np.nan_to_num(losses, nan=np.inf, posinf=np.inf))
            best = int(np.argmin(mean))
            row = grid[best], mean[best], error[best], np.mean(commits), np.mean(staleness), best in (0, len(grid) - 1)
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    shape = len(SYSTEMS), len(message_seconds)
    return {
        "system": np.array(SYSTEMS),
        "message_seconds": np.array(message_seconds),
        **{name: np.reshape(column, shape) for name, column in columns.items()},
    }


def draw(figure, numbers) -> None:
    """Test loss and commits against the seconds of a message."""
    left, right = figure.subplots(1, 2)
    for place, (name, color) in enumerate(zip(numbers["system"], COLORS, strict=True)):
        look = {"color": color, "label": name, "marker": "o"}
        left.errorbar(numbers["message_seconds"], numbers["test_loss"][place], 2 * numbers["error"][place], **look)
        right.plot(numbers["message_seconds"], numbers["commits"][place], **look)
    for ax, label in ((left, "test loss at the best step size"), (right, "commits")):
        ax.set(xscale="log", yscale="log", xlabel="seconds of a message, gradients take 1", ylabel=label)
        ax.legend()


experiment = asim.Experiment(compute, draw, title="AD-PSGD against a server on a slow network", size=(10.0, 4.2))

if __name__ == "__main__":
    asim.main(experiment)
