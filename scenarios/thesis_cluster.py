"""The authors' own cluster from three numbers: their measured training times, simulated.

Hermans (2017) trained with 28 combinations of workers and communication window on a Spark cluster with one parameter
server, 18 750 mini-batches shared by all workers, once with AGN and once with AEASGD. Three numbers, the same for all
runs, explain most of the 56 times: .412 s for a mini-batch, .388 s of the server for a pull and commit, and 34 s to
start up. A worker computes `window` mini-batches and then queues at the server, so the fast half of the table is
limited by the workers, the slow half by the server. The model does not explain why some of the times with few
workers are far longer or shorter.

    asyncsim run scenarios/thesis_cluster.py
"""

from pathlib import Path

import numpy as np

import asyncsim as asim
from asyncsim.plots.style import BLUE, GREY, VERMILION

TIMES = Path(__file__).parent.parent / "figures" / "paper" / "thesis_times.csv"
MINI_BATCHES = 18_750
METHODS = ("agn", "aeasgd")


def compute(batch_seconds=0.412, service_seconds=0.388, startup_seconds=34.0) -> dict[str, np.ndarray]:
    """Simulated and measured training times.

    Args:
        batch_seconds: Time of a mini-batch on a worker.
        service_seconds: Time of a pull and commit at the server.
        startup_seconds: Time before the workers start.
    """
    measured = np.genfromtxt(TIMES, delimiter=",", names=True)
    server = asim.Server(service=asim.delays.Constant(service_seconds))
    simulated = []
    for workers, window in zip(measured["workers"].astype(int), measured["window"].astype(int), strict=True):
        cluster = asim.Cluster(
            int(workers), asim.delays.Constant(batch_seconds), server=server, local_steps=int(window)
        )
        trace = asim.simulate(cluster, commits=round(MINI_BATCHES / window))
        simulated.append(startup_seconds + trace.seconds)
    numbers = {"workers": measured["workers"], "window": measured["window"], "simulated": np.array(simulated)}
    for name in METHODS:
        numbers[name] = measured[f"{name}_seconds"]
        numbers[f"{name}_error"] = numbers["simulated"] / numbers[name] - 1
    errors = {name: np.abs(numbers[f"{name}_error"]) for name in METHODS}
    for name in METHODS:
        numbers[f"median_error_{name}"] = np.median(errors[name])
    numbers["median_error"] = np.median(np.concatenate(list(errors.values())))
    return numbers


def draw(figure, numbers) -> None:
    """Measured against simulated times, which agree on the diagonal."""
    ax = figure.subplots()
    ends = np.array([0.9 * numbers["simulated"].min(), 1.1 * numbers["simulated"].max()])
    ax.plot(ends, ends, color=GREY, linewidth=1, label="measured = simulated")
    ax.fill_between(ends, 0.95 * ends, 1.05 * ends, color=GREY, alpha=0.2, linewidth=0, label="± 5 %")
    for name, colour, marker in zip(METHODS, (BLUE, VERMILION), "os", strict=True):
        error = float(numbers[f"median_error_{name}"])
        label = f"{name.upper()}, median error {error:.1%}"
        ax.plot(numbers["simulated"], numbers[name], marker, color=colour, label=label, markersize=5, alpha=0.85)
    ax.set(
        xscale="log", yscale="log", xlabel="simulated training time, seconds", ylabel="measured training time, seconds"
    )
    ticks = [250, 350, 500, 700, 1000]
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(_fixed(ticks))
        axis.set_minor_locator(_fixed([]))
        axis.set_major_formatter("{x:.0f}")
    ax.legend(loc="upper left")


def _fixed(ticks):
    from matplotlib.ticker import FixedLocator

    return FixedLocator(ticks)


experiment = asim.Experiment(compute, draw, title="A real cluster's training times", size=(6.4, 5.4))

if __name__ == "__main__":
    asim.main(experiment)
