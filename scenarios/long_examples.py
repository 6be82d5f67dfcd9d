"""Slow data are stale data, and late data are lost: jobs that take as long as their mini-batches.

Sixteen workers learn the digits. Every example has a length, log-normal, and those of the last two digits, 8 and 9, are
four times as long on average: think of sequences of tokens. A job takes as long as its mini-batch of four.

Asynchronous workers use every example equally often, but the gradients of the longest eighth are 26 versions old on
average, those of the shortest 12. A server that drops late gradients, a protocol that stops late jobs, or one that goes
on without the slowest workers selects its data: the longest eighth is used 0.73, 0.68 and 0.49 times as often as it
should be. With backup workers the test shows which digits these were: 89 % of the 8 and 9 are found, and 97 % of the
others; asynchronously it is 99 % and 97 % (means over five seeds).

    asyncsim run scenarios/long_examples.py
    asyncsim run scenarios/long_examples.py --factor 1 --limit 30 --out runs/long_by_chance
"""

import dataclasses

import numpy as np

import asyncsim as asim
from asyncsim import protocols
from asyncsim.plots.style import BLUE, GREEN, PINK, VERMILION

LONG = (8, 9)
COLOURS = (BLUE, GREEN, VERMILION, PINK)
PARTS = 8  # of the examples by length


def compute(
    workers=16, factor=4.0, cv=1.0, batch_size=4, limit=24, backup=4, seconds=300.0, learning_rate=0.05, seeds=5
) -> dict[str, np.ndarray]:
    """How often examples are used and how stale their gradients are by length, and accuracy by digit.

    Args:
        workers: Number of workers.
        factor: How many times as long the last two digits are.
        cv: Coefficient of variation of lengths among examples of one kind.
        batch_size: Examples in a mini-batch.
        limit: Staleness from which a gradient is late.
        backup: Workers that a round does not wait for.
        seconds: Simulated seconds; a mini-batch takes one on average.
        learning_rate: Step size η.
        seeds: Seeds of lengths, mini-batches and schedules.
    """
    digits = asim.datasets.Digits()
    workload = dataclasses.replace(asim.workloads.Softmax(digits, batch_size), counts="jobs")
    chosen = {
        "asynchronous": protocols.Asynchronous(),
        "late dropped": protocols.Ringmaster(limit),
        "late stopped": protocols.Ringmaster(limit, stop=True),
        "backup workers": protocols.Synchronous(backup=backup),
    }
    used, stale, commits = (np.zeros((len(chosen), seeds, PARTS)) for _ in range(3))
    accuracy = np.zeros((len(chosen), seeds, 2))
    for seed in range(seeds):
        lengths = draw_lengths(digits, factor, cv, seed)
        laws = asim.workloads.job_times(workload, lengths / (batch_size * lengths.mean()), workers, seed=seed)
        part = np.empty(len(lengths), np.int64)
        part[np.argsort(lengths, kind="stable")] = np.arange(len(lengths)) * PARTS // len(lengths)
        for row, protocol in enumerate(chosen.values()):
            trace = asim.simulate(asim.Cluster(workers, laws, protocol=protocol), seconds=seconds, seed=seed)
            shuffles = workload.shuffles()
            assert shuffles is not None  # it has data
            examples = shuffles.take(seed, trace.worker, trace.started_before)
            counts = np.bincount(part[examples].ravel(), minlength=PARTS)
            ages = np.bincount(part[examples].ravel(), trace.staleness.repeat(batch_size), minlength=PARTS)
            used[row, seed] = counts / examples.size * PARTS
            stale[row, seed] = ages / np.maximum(counts, 1)
            commits[row, seed] = len(trace)
            run = asim.replay(trace, asim.rules.Downpour(learning_rate), workload, seed=seed)
            accuracy[row, seed] = accuracies(digits, run.central)
    return {
        "protocol": np.array(list(chosen)),
        "commits": commits.mean(axis=(1, 2)),
        "long_used": used[:, :, -1].mean(axis=1),
        "short_stale": stale[:, :, 0].mean(axis=1),
        "long_stale": stale[:, :, -1].mean(axis=1),
        "right": accuracy[:, :, 0].mean(axis=1),
        "long_right": accuracy[:, :, 1].mean(axis=1),
        "used": used,
        "staleness": stale,
        "accuracy": accuracy,
    }


def draw_lengths(digits, factor, cv, seed) -> np.ndarray:
    """(examples,) lengths of mean 1, or `factor` for the last two digits."""
    spread = np.log1p(cv * cv) ** 0.5
    drawn = np.random.default_rng([seed, 5]).lognormal(-spread * spread / 2, spread, len(digits.train_labels))
    return drawn * np.where(np.isin(digits.train_labels, LONG), factor, 1.0)


def accuracies(digits, central) -> tuple[float, float]:
    """Of the other digits, and of the last two."""
    inputs = np.asarray(digits.test_inputs).reshape(len(digits.test_labels), -1)
    guess = (inputs @ np.asarray(central["weight"]) + np.asarray(central["bias"])).argmax(axis=1)
    right, long = guess == digits.test_labels, np.isin(digits.test_labels, LONG)
    return float(right[~long].mean()), float(right[long].mean())


def draw(figure, numbers) -> None:
    """Use and staleness by length, and accuracy."""
    used, stale, accuracy = figure.subplots(1, 3)
    middle = (np.arange(PARTS) + 0.5) / PARTS * 100
    used.axhline(1.0, color="0.3", linestyle=":", label="equally often")
    for row, (name, colour) in enumerate(zip(numbers["protocol"], COLOURS, strict=True)):
        used.plot(middle, numbers["used"][row].mean(axis=0), marker="o", markersize=3, color=colour, label=str(name))
        stale.plot(middle, numbers["staleness"][row].mean(axis=0), marker="o", markersize=3, color=colour)
        for place, kind in enumerate(numbers["accuracy"][row].T):
            accuracy.plot(
                np.full(len(kind), row + 0.16 * (2 * place - 1)), kind, "o", color=colour, alpha=0.35 + 0.5 * place
            )
    used.set(xlabel="length of the example, percentile", ylabel="used, relative to the mean", ylim=(0, None))
    stale.set(xlabel="length of the example, percentile", ylabel="mean staleness of its gradients", ylim=(0, None))
    accuracy.set(xticks=range(len(COLOURS)), ylabel="test accuracy: digits 0 to 7 (pale), 8 and 9 (dark)")
    accuracy.set_xticklabels([str(name).replace(" ", "\n") for name in numbers["protocol"]], fontsize=8)
    used.legend(fontsize="small")


experiment = asim.Experiment(compute, draw, title="Jobs that take as long as their data", size=(13.2, 4.4))

if __name__ == "__main__":
    asim.main(experiment)
