"""How much slack: the stale synchronous parallel protocol between rounds and full asynchrony.

Eight workers, two of them half as fast as the rest, learn the digits for the same simulated time. Without slack
everybody waits for the slow ones; every commit of slack lets the fast ones run further ahead, up to the point where
nobody waits any more. Staleness grows with it, and is never more than (n - 1)(2·slack + 1). The step size is one and
the same: what is gained is time, what is paid is staleness.

    asyncsim run scenarios/ssp_slack.py
    asyncsim run scenarios/ssp_slack.py --slowness 4 --out runs/slower
"""

from collections.abc import Sequence

import numpy as np

import asyncsim as asim
from asyncsim import protocols, theory
from asyncsim.delays import Exponential, fleet
from asyncsim.plots.style import BLUE, GREY, VERMILION


def compute(
    slack: Sequence[int] = (0, 1, 2, 4, 8, 16, 32, 64),
    workers: int = 8,
    slow: int = 2,
    slowness: float = 2.0,
    seconds: float = 150.0,
    learning_rate: float = 0.05,
    seeds: int = 5,
) -> dict[str, np.ndarray]:
    """Throughput, staleness and loss for each slack.

    Args:
        slack: Commits that a worker may be ahead of the slowest.
        workers: Number of workers.
        slow: How many of them are slow.
        slowness: How many times as long these take; 1 s is the mean of the others, all are exponential.
        seconds: Simulated seconds.
        learning_rate: Step size, the same for all.
        seeds: Seeds of schedule, first parameters and mini-batches.
    """
    laws = fleet.two_classes(Exponential(1.0), workers, slow=slow, factor=slowness)
    workload = asim.workloads.mlp(asim.datasets.digits(), hidden=(32,), batch_size=16)
    rule = asim.rules.downpour(learning_rate)
    rows = []
    for one in slack:
        cluster = asim.Cluster(workers, laws, protocol=protocols.SSP(one))
        runs = []
        for seed in range(seeds):
            trace = asim.simulate(cluster, seconds=seconds, seed=seed)
            run = asim.replay(trace, rule, workload, seed=seed)
            runs.append(
                (len(trace) / seconds, trace.staleness.mean(), trace.staleness.max(), run.evaluate()["test_loss"])
            )
        rows.append([*np.mean(runs, axis=0), np.std([run[0] for run in runs]), np.std([run[3] for run in runs])])
    table = np.array(rows).T
    table[2] = [row[2] for row in rows]
    return {
        "slack": np.array(slack),
        "throughput": table[0],
        "staleness": table[1],
        "longest": table[2],
        "bound": np.array([theory.ssp_staleness_bound(workers=workers, slack=one) for one in slack]),
        "test_loss": table[3],
        "throughput_spread": table[4],
        "test_loss_spread": table[5],
        "without_limit": np.array(sum(1 / law.mean for law in laws)),
    }


def draw(figure, numbers) -> None:
    """Throughput, staleness and loss against the slack."""
    left, middle, right = figure.subplots(1, 3)
    x = np.arange(len(numbers["slack"]))  # one place each: 0 has none on a logarithmic axis
    left.errorbar(x, numbers["throughput"], numbers["throughput_spread"], fmt="o-", color=BLUE)
    left.axhline(numbers["without_limit"], color=GREY, linestyle=(0, (4, 3)), label="nobody waits")
    left.set(ylabel="commits per second", ylim=(0, None))
    left.legend(loc="lower right")
    middle.plot(x, numbers["bound"], color=GREY, label="bound (n − 1)(2·slack + 1)")
    middle.plot(x, numbers["longest"], "s-", color=VERMILION, label="longest, mean over seeds")
    middle.plot(x, numbers["staleness"], "o-", color=BLUE, label="mean")
    middle.set(ylabel="staleness, server versions", yscale="log")
    middle.legend()
    right.errorbar(x, numbers["test_loss"], numbers["test_loss_spread"], fmt="o-", color=BLUE)
    right.set(ylabel="test loss at the end of the time")
    for ax in (left, middle, right):
        ax.set_xticks(x, numbers["slack"])
        ax.set(xlabel="slack, commits")


experiment = asim.Experiment(compute, draw, title="How much slack", size=(11.0, 4.2))

if __name__ == "__main__":
    asim.main(experiment)
