"""Fast but high: error against simulated time of asynchronous, K-async and synchronous SGD, predicted and measured.

Workers with exponential compute times descend a noisy quadratic. An asynchronous server makes a step for every
gradient; a synchronous one waits for the slowest worker and averages over all. With 16 workers and the same step size,
the asynchronous error is halved after 0.23 s, the synchronous one after 13 s; but stale, unaveraged gradients leave the
former at 0.13, forty times the synchronous 0.0033. K-async lies in between: with 4 gradients per step, the error takes
4 times as long to halve as with one, and ends 8 times lower. The curves are exact; the points are replays over many
schedules, with bars of two standard errors.

    asyncsim run scenarios/error_runtime.py
    asyncsim run scenarios/error_runtime.py --learning-rate 0.2 --out runs/error_runtime_fast
"""

import numpy as np

import asyncsim as asim
from asyncsim import protocols, theory
from asyncsim.plots.style import GREEN, PINK, SKY, VERMILION
from asyncsim.reports.replicates import mean_and_error

COPIES = 32  # coordinates of equal curvature, with independent noise on one schedule
COLORS = (VERMILION, SKY, PINK, GREEN)  # as in other pictures: vermilion does not wait, green waits for all


def compute(
    workers=16, k=(4, 8), learning_rate=0.1, noise=1.0, compute_seconds=1.0, seconds=200.0, seeds=40
) -> dict[str, np.ndarray]:
    """Error at geometrically spaced times, for every protocol.

    Args:
        workers: Number of workers.
        k: Gradients per step of the K-async protocols, between 1 and the number of workers.
        learning_rate: Step size; the curvature is 1.
        noise: Standard deviation of a gradient.
        compute_seconds: Mean of the exponential time of a job.
        seconds: Simulated seconds.
        seeds: Number of schedules, each with its own noise.
    """
    kinds: list[tuple[str, str, int | None, protocols.CommitProtocol]] = [
        ("asynchronous", "async", None, protocols.Asynchronous()),
        *((f"{one}-async", "k_async", one, protocols.KAsync(one)) for one in k),
        ("synchronous", "sync", None, protocols.Synchronous()),
    ]
    times = np.geomspace(compute_seconds / workers, seconds, 18)
    fine = np.geomspace(times[0], seconds, 120)
    rates = {"workers": workers, "rate": 1 / compute_seconds}
    setting = {**rates, "kappa": learning_rate, "noise": (learning_rate * noise) ** 2}
    rows = []
    for _, name, gradients, protocol in kinds:
        cluster = asim.Cluster(workers, asim.delays.Exponential(compute_seconds), protocol=protocol)
        squares = measure(cluster, times, learning_rate, noise, seeds)
        curve = theory.error_curve(fine, **setting, protocol=name, k=gradients)
        predicted = theory.error_curve(times, **setting, protocol=name, k=gradients)
        step = theory.round_time(**rates, protocol=name, k=gradients)
        rows.append(compare(squares, predicted, times > 2 * step) | {"seconds_per_step": step, "curve": curve})
    table = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    below = table["curve"] < 0.5
    return {
        "protocol": np.array([label for label, *_ in kinds]),
        "seconds_per_step": table["seconds_per_step"],
        "seconds_to_half": np.where(below.any(axis=1), fine[below.argmax(axis=1)], np.nan),
        "predicted_end": table["predicted"][:, -1],
        "measured_end": table["mean"][:, -1],
        "standard_error": table["error"][:, -1],
        "largest_z": table["largest_z"],
        "time": times,
        "means": table["mean"],
        "errors": table["error"],
        "fine": fine,
        "curves": table["curve"],
    }


def compare(squares: np.ndarray, predicted: np.ndarray, late: np.ndarray) -> dict[str, object]:
    """Mean over the seeds, its standard error, and the largest deviation at late times, in standard errors.

    Before the first steps, only some of the runs have moved, and their spread says little about the error.
    """
    mean, error = mean_and_error(squares)
    largest_z = (np.abs(mean - predicted)[late] / error[late]).max(initial=0.0)
    return {"predicted": predicted, "mean": mean, "error": error, "largest_z": largest_z}


def measure(cluster: asim.Cluster, times: np.ndarray, learning_rate: float, noise: float, seeds: int) -> np.ndarray:
    """(seeds, times) mean square of the central variable's coordinates, which all start at 1.

    A recorded loss is taken where the job read the central variable. Every version is read as soon as it exists, so
    the job that read a version gives the loss of the central variable at that time.
    """
    rule, workload = asim.rules.Downpour(learning_rate), asim.workloads.Quadratic([1.0] * COPIES, noise=noise)
    slowest = 30 * cluster.laws[0].mean  # until every job that read in time has committed
    length = max(len(asim.simulate(cluster, seconds=times[-1] + slowest, seed=seed)) for seed in range(seeds))
    squares = np.empty((seeds, len(times)))
    for seed in range(seeds):
        trace = asim.simulate(cluster, commits=length, seed=seed)  # of equal length, so that one program replays all
        loss = asim.replay(trace, rule, workload, seed=seed, record=()).loss
        version, first = np.unique(trace.read_version, return_index=True)
        now = np.searchsorted(trace.commit_time[trace.closes_step], times, side="right")
        squares[seed] = 2 * loss[first[np.searchsorted(version, now)]] / COPIES
    return squares


def draw(figure, numbers) -> None:
    """Curves and measured points, with each protocol's name at the end of its curve."""
    ax = figure.subplots()
    rows = zip(numbers["protocol"], numbers["curves"], numbers["means"], numbers["errors"], strict=True)
    for place, (name, curve, mean, error) in enumerate(rows):
        color = COLORS[place % len(COLORS)]
        ax.plot(numbers["fine"], curve, color=color)
        ax.errorbar(numbers["time"], mean, 2 * error, fmt="o", color=color, markersize=4, elinewidth=1)
        ax.annotate(
            name,
            (numbers["fine"][-1], curve[-1]),
            (6, 0),
            textcoords="offset points",
            color=color,
            va="center",
            annotation_clip=False,
        )
    ax.set(xscale="log", yscale="log", xlabel="simulated seconds", ylabel="mean square distance from the optimum")


experiment = asim.Experiment(compute, draw, title="Error against time: fast but high", size=(8.0, 4.8))

if __name__ == "__main__":
    asim.main(experiment)
