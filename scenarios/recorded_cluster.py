"""A log of a real cluster, replayed with three rules on exactly this schedule.

The log is a CSV file with one line per commit: `worker` and `commit_time`, and if known `read_time`, `finish_time` and
others (see `asim.Trace.from_csv`); versions and staleness follow from the times and are checked. Without `--log`, a log
is simulated: six workers, two of them half as fast, jitter on the network and a busy server, of which only four columns
are written to the file and read back.

    asyncsim run scenarios/recorded_cluster.py
    asyncsim run scenarios/recorded_cluster.py --log my_cluster.csv --out runs/my_cluster
"""

import csv
import tempfile
from pathlib import Path

import numpy as np

import asyncsim as asim
from asyncsim import delays, plots

RULES = {"gem": asim.rules.GEM, "downpour": asim.rules.Downpour, "adaptive_staleness": asim.rules.AdaptiveStaleness}
COLUMNS = ("worker", "read_time", "finish_time", "commit_time")
INTERVALS = 40


def compute(log="", commits=3000, learning_rate=0.1, seeds=5) -> dict[str, np.ndarray]:
    """The log, and the training loss of each rule over its time.

    Args:
        log: CSV file; if empty, a log is simulated.
        commits: Number of commits to replay, if the log has that many.
        learning_rate: Step size, the same for all rules.
        seeds: Number of seeds of initial parameters and mini-batches, replayed side by side.
    """
    trace = asim.Trace.from_csv(log) if log else simulated_log(commits)
    commits = min(commits, len(trace))
    workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=32)
    edges = np.linspace(0.0, trace.commit_time[commits - 1], INTERVALS + 1)
    runs = {
        name: asim.replay(trace, make(learning_rate), workload, seed=range(seeds), commits=commits)
        for name, make in RULES.items()
    }
    return {
        "rule": np.array(list(RULES)),
        "final_loss": np.array([np.mean(run.final_loss()) for run in runs.values()]),
        "test_accuracy": np.array([np.mean(run.evaluate()["test_accuracy"]) for run in runs.values()]),
        "commits_per_second": np.array(len(trace) / trace.seconds),
        "mean_staleness": np.array(trace.staleness.mean()),
        "time": (edges[1:] + edges[:-1]) / 2,
        "curves": np.array([asim.loss_against_time(trace, run, edges) for run in runs.values()]),
        **{f"log_{name}": getattr(trace, name) for name in (*COLUMNS, "start_time")},
    }


def simulated_log(commits: int) -> asim.Trace:
    """What a cluster's log may look like: a simulation, of which four columns are written to a file and read back."""
    cluster = asim.Cluster(
        workers=6,
        compute=delays.fleet.two_classes(delays.Gamma(mean=1.0, cv=0.3), 6, slow=2, factor=2.0),
        network=asim.Network(latency=delays.Gamma(mean=0.03, cv=0.5)),
        server=asim.Server(service=delays.Gamma(mean=0.15, cv=0.3)),
    )
    trace = asim.simulate(cluster, commits=commits)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.csv")
        with path.open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(COLUMNS)
            table.writerows(zip(*(getattr(trace, name).tolist() for name in COLUMNS), strict=True))
        return asim.Trace.from_csv(path)


def draw(figure, numbers) -> None:
    """The beginning of the log, staleness by worker, and the losses."""
    trace = asim.Trace.from_columns({name: numbers[f"log_{name}"] for name in (*COLUMNS, "start_time")})
    top, bottom = figure.subplots(2, 1, height_ratios=(1, 1.2))
    plots.draw_timeline(top, trace)
    for name, curves in zip(numbers["rule"], numbers["curves"], strict=True):
        plots.draw_seeds(bottom, numbers["time"], curves, label=name)
    bottom.set(yscale="log", xlabel="seconds of the log", ylabel="training loss")
    bottom.legend()


experiment = asim.Experiment(compute, draw, title="A recorded schedule, replayed with three rules", size=(8.4, 7.2))

if __name__ == "__main__":
    asim.main(experiment)
