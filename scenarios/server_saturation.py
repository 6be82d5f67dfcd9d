"""When more workers no longer help: a busy parameter server, predicted and measured.

Workers compute for a second on average; the server needs an eighth of a second for a commit. Up to the knee,
n* = 1 + service rate / compute rate = 9 workers, each additional one adds its own rate; beyond it, the server is the
limit, and more workers only make the queue longer. The mean staleness stays n - 1 whatever the server does, but the
queue orders the workers: the variance, n(n - 1) without a queue, falls to r(1 + r), with r = service rate / compute
rate, for any n.

    asyncsim run scenarios/server_saturation.py
    asyncsim run scenarios/server_saturation.py --service-seconds 0.5 --out runs/slow_server
"""

from functools import partial

import numpy as np

import asyncsim as asim
from asyncsim import plots, theory
from asyncsim.plots.style import BLUE, GREY, VERMILION
from asyncsim.reports.replicates import replicate


def compute(
    workers=(1, 2, 4, 6, 8, 9, 10, 12, 16, 24, 32, 48),
    compute_seconds=1.0,
    service_seconds=0.125,
    commits=20_000,
    seeds=5,
) -> dict[str, np.ndarray]:
    """Throughput, queue and staleness for each number of workers.

    Args:
        workers: Numbers of workers.
        compute_seconds: Mean of the exponential time of a job.
        service_seconds: Mean of the exponential time of a commit at the server.
        commits: Length of each run; the first tenth is left out as its warm-up.
        seeds: Number of runs for each number of workers.
    """
    server = asim.Server(service=asim.delays.Exponential(service_seconds))
    rates = {"compute_rate": 1 / compute_seconds, "service_rate": 1 / service_seconds}
    rows = []
    for n in workers:
        cluster = asim.Cluster(n, asim.delays.Exponential(compute_seconds), server=server)
        predicted = {
            "predicted_throughput": theory.throughput(workers=n, **rates),
            "predicted_queue": theory.queue_length(workers=n, **rates),
            "predicted_variance": theory.queue_staleness_variance(workers=n, **rates),
        }
        rows.append({"workers": n, **predicted, **replicate(partial(measure, cluster, commits), seeds)})
    return {
        **{name: np.array([row[name] for row in rows]) for name in rows[0]},
        "knee": np.array(theory.knee(**rates)),
        "limit": np.array(rates["service_rate"]),
        "saturated_variance": np.array(theory.saturated_staleness_variance(**rates)),
    }


def measure(cluster: asim.Cluster, commits: int, seed: int) -> dict[str, float]:
    """Commits per second, mean number of workers at the server, mean and variance of staleness, in the long run."""
    trace = asim.simulate(cluster, commits=commits, seed=seed)
    rows = slice(len(trace) // 10, None)
    seconds = trace.seconds - trace.commit_time[rows][0]
    at_server = (trace.commit_time - trace.arrive_time)[rows].sum() / seconds
    staleness = trace.staleness[rows]
    return {
        "throughput": (len(staleness) - 1) / seconds,
        "queue": at_server,
        "staleness": staleness.mean(),
        "variance": staleness.var(),
    }


def draw(figure, numbers) -> None:
    """Throughput with its knee, and the variance of staleness."""
    left, right = figure.subplots(1, 2)
    plots.draw_throughput(
        left,
        numbers["workers"],
        numbers["throughput"],
        predicted=numbers["predicted_throughput"],
        standard_error=numbers["throughput_error"],
        knee=float(numbers["knee"]),
        limit=float(numbers["limit"]),
    )
    n = numbers["workers"]
    right.plot(n, n * (n - 1), color=GREY, linewidth=0.9, label="no queue, n(n − 1)")
    right.axhline(numbers["saturated_variance"], color=GREY, linestyle=(0, (4, 3)), label="saturated, r(1 + r)")
    right.plot(n, numbers["predicted_variance"], color=VERMILION, label="predicted")
    right.errorbar(n, numbers["variance"], 2 * numbers["variance_error"], fmt="o", color=BLUE, label="measured")
    right.set(xlabel="workers n", ylabel="variance of staleness", ylim=(0, 1.6 * numbers["variance"].max()))
    right.legend()
    left.set_title("Throughput")
    right.set_title("Staleness")


experiment = asim.Experiment(compute, draw, title="A server that is busy", size=(9.6, 4.2))

if __name__ == "__main__":
    asim.main(experiment)
