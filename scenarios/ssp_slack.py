"""How much slack: the stale synchronous parallel protocol between rounds and full asynchrony.

Eight workers, two of them half as fast as the rest, learn the digits for the same simulated time. Without slack, every
worker waits for the slow ones; each commit of slack lets the fast ones run further ahead, until nobody waits any more.
Staleness grows with the slack and never exceeds (n - 1)(2·slack + 1). The step size is the same for all: slack gains
time and costs staleness.

    asyncsim run scenarios/ssp_slack.py
    asyncsim run scenarios/ssp_slack.py --slowness 4 --out runs/slower
"""

from functools import partial

import numpy as np

import asyncsim as asim
from asyncsim import protocols, theory
from asyncsim.delays import Exponential, fleet
from asyncsim.plots.style import BLUE, GREY, VERMILION
from asyncsim.reports.replicates import replicate


def compute(
    slack=(0, 1, 2, 4, 8, 16, 32, 64), workers=8, slow=2, slowness=2.0, seconds=150.0, learning_rate=0.05, seeds=5
) -> dict[str, np.ndarray]:
    """Throughput, staleness and loss for each value of the slack.

    Args:
        slack: Commits that a worker may be ahead of the slowest.
        workers: Number of workers.
        slow: Number of slow workers.
        slowness: How many times as long these take; all times are exponential, with a mean of 1 s for the others.
        seconds: Simulated seconds.
        learning_rate: Step size, the same for all.
        seeds: Seeds of schedule, initial parameters and mini-batches.
    """
    laws = fleet.two_classes(Exponential(1.0), workers, slow=slow, factor=slowness)
    workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=16)
    rule = asim.rules.Downpour(learning_rate)

    def measure(limit: int, seed: int) -> dict[str, float]:
        trace = asim.simulate(asim.Cluster(workers, laws, protocol=protocols.SSP(limit)), seconds=seconds, seed=seed)
        return {
            "throughput": len(trace) / seconds,
            "staleness": trace.staleness.mean(),
            "largest": trace.staleness.max(),
            "test_loss": asim.replay(trace, rule, workload, seed=seed).evaluate()["test_loss"],
        }

    rows = []
    for limit in slack:
        bound = theory.ssp_staleness_bound(workers=workers, slack=limit)
        rows.append({"slack": limit, "bound": bound, **replicate(partial(measure, limit), seeds)})
    return {
        **{name: np.array([row[name] for row in rows]) for name in rows[0]},
        "without_limit": np.array(sum(1 / law.mean for law in laws)),
    }


def draw(figure, numbers) -> None:
    """Throughput, staleness and loss against the slack."""
    left, middle, right = figure.subplots(1, 3)
    x = np.arange(len(numbers["slack"]))  # evenly spaced, because a logarithmic axis has no place for 0
    left.errorbar(x, numbers["throughput"], 2 * numbers["throughput_error"], fmt="o-", color=BLUE)
    left.axhline(numbers["without_limit"], color=GREY, linestyle=(0, (4, 3)), label="nobody waits")
    left.set(ylabel="commits per second", ylim=(0, None))
    left.legend(loc="lower right")
    middle.plot(x, numbers["bound"], color=GREY, label="bound (n − 1)(2·slack + 1)")
    middle.plot(x, numbers["largest"], "s-", color=VERMILION, label="largest, mean over seeds")
    middle.plot(x, numbers["staleness"], "o-", color=BLUE, label="mean")
    middle.set(ylabel="staleness, server versions", yscale="log")
    middle.legend()
    right.errorbar(x, numbers["test_loss"], 2 * numbers["test_loss_error"], fmt="o-", color=BLUE)
    right.set(ylabel="test loss at the end of the time")
    for ax in (left, middle, right):
        ax.set_xticks(x, numbers["slack"])
        ax.set(xlabel="slack, commits")


experiment = asim.Experiment(compute, draw, title="How much slack", size=(11.0, 4.2))

if __name__ == "__main__":
    asim.main(experiment)
