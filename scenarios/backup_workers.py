"""How many backup workers: synchronous rounds of 24 workers that do not wait for the last few.

One job in twenty takes ten times as long. Every backup worker makes the rounds shorter and the mean gradient noisier.
The seconds a round are those of an order statistic, E of the (n - backup)-th shortest of n jobs, which is predicted
for the law at hand; the loss after the same simulated time shows where the two effects balance.

    asyncsim run scenarios/backup_workers.py
    asyncsim run scenarios/backup_workers.py --probability 0.01
"""

from collections.abc import Sequence

import numpy as np

import asyncsim as asim
from asyncsim import protocols, theory
from asyncsim.delays import Gamma, Straggler
from asyncsim.plots.style import BLUE, VERMILION


def compute(
    backup: Sequence[int] = (0, 1, 2, 3, 4, 6, 8, 12, 16, 20),
    workers: int = 24,
    probability: float = 0.05,
    factor: float = 10.0,
    seconds: float = 150.0,
    learning_rate: float = 0.3,
    seeds: int = 5,
) -> dict[str, np.ndarray]:
    """Seconds a round, and loss after a fixed time, for each number of backup workers.

    Args:
        backup: Numbers of backup workers.
        workers: All workers, the backup among them.
        probability: Share of the jobs that straggle.
        factor: By how much these take longer.
        seconds: Simulated seconds.
        learning_rate: Step size of a round, the same for all.
        seeds: Seeds of schedule, first parameters and mini-batches.
    """
    law = Straggler(Gamma(mean=1.0, cv=0.2), probability=probability, factor=factor)
    workload = asim.workloads.mlp(asim.datasets.digits(), hidden=(32,), batch_size=4)
    rule = asim.rules.downpour(learning_rate)
    rows = []
    for one in backup:
        cluster = asim.Cluster(workers, law, protocol=protocols.Synchronous(backup=one))
        runs = []
        for seed in range(seeds):
            trace = asim.simulate(cluster, seconds=seconds, seed=seed)
            run = asim.replay(trace, rule, workload, seed=seed)
            runs.append((trace.seconds / trace.steps, run.evaluate()["test_loss"]))
        rows.append(np.r_[np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1) / np.sqrt(seeds)])
    table = np.array(rows).T
    return {
        "backup": np.array(backup),
        "seconds_a_round": table[0],
        "predicted": np.array([theory.expected_order_statistic(law, k=workers - one, n=workers) for one in backup]),
        "round_error": table[2],
        "test_loss": table[1],
        "loss_error": table[3],
    }


def draw(figure, numbers) -> None:
    """Rounds get shorter; the loss has a best number in between."""
    left, right = figure.subplots(1, 2)
    x = numbers["backup"]
    left.plot(x, numbers["predicted"], color=VERMILION, label="predicted, order statistic")
    left.errorbar(x, numbers["seconds_a_round"], 2 * numbers["round_error"], fmt="o", color=BLUE, label="measured")
    left.set(ylabel="seconds a round", ylim=(0, None))
    left.legend()
    right.errorbar(x, numbers["test_loss"], 2 * numbers["loss_error"], fmt="o-", color=BLUE)
    right.set(ylabel="test loss at the end of the time", ylim=(0, None))
    for ax in (left, right):
        ax.set(xlabel="backup workers", xticks=range(0, int(x.max()) + 1, 4))


experiment = asim.Experiment(compute, draw, title="How many backup workers", size=(9.0, 4.2))

if __name__ == "__main__":
    asim.main(experiment)
