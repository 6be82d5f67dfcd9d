"""Momentum under asynchrony: shared, one per worker, and DANA's look-ahead, with more and more workers.

The task is digits, with the same number of commits for any number of workers, on clusters with gamma compute times as
Hakimi et al. 2019 simulate them: equal machines whose jobs vary by V = 0.1 or 0.6, and unequal machines whose mean
speeds vary by 0.6 (Ali et al. 2000). Each rule is shown at its own best step size of a grid; all seeds and step sizes
are replayed side by side on one schedule.

    asyncsim run scenarios/dana_protocol.py
    asyncsim run scenarios/dana_protocol.py --momentum 0.8 --out runs/dana_with_less_momentum
"""

import numpy as np

import asyncsim as asim
from asyncsim import delays, rules
from asyncsim.plots import draw_seeds
from asyncsim.reports.replicates import batched

STEP_SIZES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
CLUSTERS = {
    "equal machines, V = 0.1": (0.1, 0.0),
    "equal machines, V = 0.6": (0.6, 0.0),
    "unequal machines, V = 0.6": (0.1, 0.6),
}
LAST = 0.1  # share of the commits over which the last loss is averaged


def contestants(rate: np.ndarray, momentum: float) -> dict[str, asim.Rule]:
    """The rules by their names in the paper; DANA-Slim is missing because it is DANA-Zero in another variable."""
    return {
        "ASGD": rules.Downpour(rate),
        "NAG-ASGD": rules.SharedNesterov(rate, momentum=momentum),
        "Multi-ASGD": rules.MultiASGD(rate, momentum=momentum),
        "DANA-Zero": rules.DANA(rate, momentum=momentum),
        "DANA-DC": rules.DANA(rate, momentum=momentum, variant="dc"),
    }


def compute(workers=(1, 4, 8, 16, 32), commits=2000, momentum=0.9, seeds=5, batch_size=32) -> dict[str, np.ndarray]:
    """Training loss at the end, by cluster, rule, number of workers, step size and seed.

    Args:
        workers: Numbers of workers.
        commits: Length of a run, whatever the number of workers.
        momentum: Momentum of every rule except ASGD.
        seeds: Seeds of initial parameters and mini-batches, each with all step sizes.
        batch_size: Examples in a mini-batch.
    """
    workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=batch_size)
    lanes = batched(STEP_SIZES, seeds)
    competing = contestants(lanes.values, momentum)
    losses = np.empty((len(CLUSTERS), len(competing), len(workers), len(STEP_SIZES), seeds))
    staleness = np.empty((len(CLUSTERS), len(workers)))
    for i, (task_cv, machine_cv) in enumerate(CLUSTERS.values()):
        for k, n in enumerate(workers):
            trace = schedule(n, task_cv, machine_cv, commits, max(workers))
            staleness[i, k] = trace.staleness.mean()
            for j, rule in enumerate(competing.values()):
                run = asim.replay(trace, rule, workload, seed=lanes.seeds)
                losses[i, j, k] = last_loss(run, commits).reshape(seeds, -1).T
    best = losses.mean(axis=4).argmin(axis=3)  # a step size at which a seed diverges is not the best
    chosen = np.take_along_axis(losses, best[..., None, None], axis=3)[..., 0, :]
    most_workers = np.median(chosen, axis=3)[:, :, int(np.argmax(workers))]
    return {
        "rule": np.array(list(competing)),
        **{f"loss, {cluster}": column for cluster, column in zip(CLUSTERS, most_workers, strict=True)},
        "cluster": np.array(list(CLUSTERS)),
        "workers": np.tile(workers, (len(CLUSTERS), 1)),
        "staleness": staleness,
        "step_sizes": np.array(STEP_SIZES),
        "losses": losses,
        "step_size": np.array(STEP_SIZES)[best],
        "last_loss": chosen,
    }


def schedule(workers: int, task_cv: float, machine_cv: float, commits: int, most: int) -> asim.Trace:
    """A schedule with `most` workers, of whom some never commit, so that one compiled program replays all schedules."""
    laws = delays.fleet.gamma_machines(workers, mean=1.0, task_cv=task_cv, machine_cv=machine_cv, seed=0)
    trace = asim.simulate(asim.Cluster(workers, laws), commits=commits, seed=0)
    return asim.Trace.from_commits(trace.worker, trace.commit_time, workers=most)


def last_loss(run: asim.Run, commits: int) -> np.ndarray:
    """(lanes,) mean training loss over the last commits; infinite for lanes that diverged."""
    lost = np.array([commit is not None for commit in run.divergences])
    losses = np.where(lost[:, None], np.inf, run.loss)
    return losses[:, -int(LAST * commits) :].mean(axis=1)


def draw(figure, numbers) -> None:
    """Median and range over the seeds: one panel per cluster."""
    axes = figure.subplots(1, len(numbers["cluster"]), sharey=True)
    for ax, name, workers, losses in zip(
        axes, numbers["cluster"], numbers["workers"], numbers["last_loss"], strict=True
    ):
        place = np.arange(len(workers))
        for rule, curves in zip(numbers["rule"], losses, strict=True):
            draw_seeds(ax, place, curves.T, marker="o", markersize=3, label=rule)
        ax.set(xlabel="workers", title=name)
        ax.set_xticks(place, [str(n) for n in workers])
    axes[0].set(yscale="log", ylabel="training loss at the end")
    axes[-1].legend(bbox_to_anchor=(1.01, 1), loc="upper left")


experiment = asim.Experiment(compute, draw, title="Momentum under asynchrony", size=(11.0, 4.2))

if __name__ == "__main__":
    asim.main(experiment)
