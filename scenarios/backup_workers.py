"""How many backup workers: synchronous rounds of 24 workers that do not wait for the last few.

One job in twenty takes ten times as long. Every backup worker makes the rounds shorter and the mean gradient noisier.
The mean time of a round is an order statistic, that of the (n - backup)-th shortest of n jobs, which theory knows for
any law; the loss after the same simulated time shows where the two effects balance.

    asyncsim run scenarios/backup_workers.py
    asyncsim run scenarios/backup_workers.py --probability 0.01
"""

from functools import partial

import numpy as np

import asyncsim as asim
from asyncsim import protocols, theory
from asyncsim.delays import Gamma, Straggler
from asyncsim.plots.style import BLUE, VERMILION
from asyncsim.reports.replicates import replicate


def compute(
    backup=(0, 1, 2, 3, 4, 6, 8, 12, 16, 20),
    workers=24,
    probability=0.05,
    factor=10.0,
    seconds=150.0,
    learning_rate=0.3,
    seeds=5,
) -> dict[str, np.ndarray]:
    """Seconds per round, and loss after a fixed time, for each number of backup workers.

    Args:
        backup: Numbers of backup workers.
        workers: Number of all workers, including the backup.
        probability: Share of the jobs that straggle.
        factor: How many times as long these take.
        seconds: Simulated seconds.
        learning_rate: Step size of a round, the same for all.
        seeds: Seeds of schedule, initial parameters and mini-batches.
    """
    law = Straggler(Gamma(mean=1.0, cv=0.2), probability=probability, factor=factor)
    workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=4)
    rule = asim.rules.Downpour(learning_rate)

    def measure(spare: int, seed: int) -> dict[str, float]:
        cluster = asim.Cluster(workers, law, protocol=protocols.Synchronous(backup=spare))
        trace = asim.simulate(cluster, seconds=seconds, seed=seed)
        run = asim.replay(trace, rule, workload, seed=seed)
        return {"seconds_per_round": trace.seconds / trace.steps, "test_loss": run.evaluate()["test_loss"]}

    rows = []
    for spare in backup:
        predicted = theory.expected_order_statistic(law, k=workers - spare, n=workers)
        rows.append({"backup": spare, "predicted": predicted, **replicate(partial(measure, spare), seeds)})
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def draw(figure, numbers) -> None:
    """The time of a round, which falls with every backup worker, and the loss, which is lowest in between."""
    left, right = figure.subplots(1, 2)
    x = numbers["backup"]
    left.plot(x, numbers["predicted"], color=VERMILION, label="predicted, order statistic")
    measured = numbers["seconds_per_round"], 2 * numbers["seconds_per_round_error"]
    left.errorbar(x, *measured, fmt="o", color=BLUE, label="measured")
    left.set(ylabel="seconds per round", ylim=(0, None))
    left.legend()
    right.errorbar(x, numbers["test_loss"], 2 * numbers["test_loss_error"], fmt="o-", color=BLUE)
    right.set(ylabel="test loss at the end of the time", ylim=(0, None))
    for ax in (left, right):
        ax.set(xlabel="backup workers", xticks=range(0, int(x.max()) + 1, 4))


experiment = asim.Experiment(compute, draw, title="How many backup workers", size=(9.0, 4.2))

if __name__ == "__main__":
    asim.main(experiment)
