"""Asynchrony looks like momentum 1 - 1/n: three ways to measure it, one of which does not work.

Averages of 600 runs from one start, and single noisy runs with eight instruments, give 1 - 1/n for 2 to 32 workers
within two standard errors of 0.001 to 0.003. Least squares on single runs gives 0.22 for two workers and 0.07 for 32,
as theory predicts. More instruments scatter less but are biased towards least squares: with 64 of them, 32 workers
gave 0.9635 ± 0.0004 instead of 0.9688.

    asyncsim run scenarios/implicit_momentum.py
    asyncsim run scenarios/implicit_momentum.py --runs 2000 --out runs/momentum_from_more_runs
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

import asyncsim as asim
from asyncsim import theory
from asyncsim.delays import Exponential
from asyncsim.plots.style import BLUE, GREEN, GREY, VERMILION
from asyncsim.reports.replicates import Mean, mean_and_error

BLOCKS = 10  # blocks of runs, each of which is left out once
COPIES = 16  # independent noises on one schedule
WARM_UP = 0.1  # share of a noisy run that is left out as its warm-up


def compute(
    workers=(2, 4, 8, 16, 32), share=0.5, runs=600, cycles=5, schedules=10, commits=20_000, lags=8
) -> dict[str, np.ndarray]:
    """Momentum of plain asynchronous SGD on a quadratic, estimated from replays with exponential compute times.

    Args:
        workers: Numbers of workers.
        share: Step size times curvature η·h, as a share of the mean-square limit.
        runs: Number of runs without noise, from one start, that are averaged; each has its own schedule.
        cycles: Length of these runs, in commits per worker.
        schedules: Number of long schedules for the other two estimates, each replayed with 16 noises.
        commits: Length of the long schedules.
        lags: Number of instruments.
    """
    rows = []
    most = max(workers)
    for n in workers:
        kappa = share * theory.exponential_limit(n)
        averaged = from_averaged_runs(averaged_paths(n, kappa, runs, cycles * n, most), kappa)
        singles = [noisy_paths(n, kappa, commits, seed, most) for seed in range(schedules)]
        instrumental = from_single_runs(singles, kappa, partial(theory.instrumental_momentum, lags=lags))
        squares = from_single_runs(singles, kappa, theory.least_squares_momentum)
        rows.append((kappa, *averaged, *instrumental, *squares))
    kappas, averaged, e1, instrumental, e2, squares, e3 = np.array(rows).T
    return {
        "workers": np.array(workers),
        "predicted": np.array([theory.implicit_momentum(n) for n in workers]),
        "averaged": averaged,
        "averaged_error": e1,
        "instrumental": instrumental,
        "instrumental_error": e2,
        "predicted_least_squares": np.array(
            [theory.attenuated_momentum(k, n).momentum for k, n in zip(kappas, workers, strict=True)]
        ),
        "least_squares": squares,
        "least_squares_error": e3,
        "kappa": kappas,
    }


class Revealing(asim.workloads.Quadratic):
    """Return the gradient in place of the loss, so that a run records it: x is the start minus their scaled sum."""

    def gradient(self, params, batch, key):  # pyright: ignore[reportIncompatibleMethodOverride]  # a property there
        """With a curvature of 1."""
        del key
        gradient = params["x"] if batch is None else params["x"] + batch
        return gradient[0], {"x": gradient}


def paths(trace: asim.Trace, kappa: float, noise: float, start: float, seeds: Sequence[int]) -> np.ndarray:
    """(seeds, commits + 1): the central variable on a quadratic with curvature 1."""
    workload = Revealing([1.0], noise=noise, start=start)
    taken = asim.replay(trace, asim.rules.Downpour(kappa), workload, seed=seeds).loss.astype(float)
    return start - kappa * np.cumsum(np.pad(taken, ((0, 0), (1, 0))), axis=1)


def schedule(workers: int, commits: int, seed: int, most: int) -> asim.Trace:
    """A schedule with `most` workers, of whom some never commit, so that one compiled program replays all schedules."""
    trace = asim.simulate(asim.Cluster(workers, Exponential(1.0)), commits=commits, seed=seed)
    return asim.Trace.from_commits(trace.worker, trace.commit_time, workers=most)


def averaged_paths(workers: int, kappa: float, runs: int, commits: int, most: int) -> np.ndarray:
    """(runs, commits + 1): runs from x = 1, each on its own schedule."""
    traces = (schedule(workers, commits, seed, most) for seed in range(runs))
    return np.concatenate([paths(trace, kappa, 0.0, 1.0, [0]) for trace in traces])


def noisy_paths(workers: int, kappa: float, commits: int, seed: int, most: int) -> np.ndarray:
    """(copies, commits): stationary runs on one schedule."""
    seeds = range(seed * COPIES, (seed + 1) * COPIES)
    return paths(schedule(workers, commits, seed, most), kappa, 1.0, 0.0, [*seeds])[:, int(WARM_UP * commits) :]


def from_averaged_runs(x: np.ndarray, kappa: float) -> tuple[float, float]:
    """The estimate and its standard error, both by the jackknife over blocks of runs."""
    blocks = np.array_split(np.arange(len(x)), BLOCKS)
    of_all = theory.averaged_momentum(x, kappa * x).momentum
    others = [np.delete(x, block, axis=0) for block in blocks]
    without = np.array([theory.averaged_momentum(rest, kappa * rest).momentum for rest in others])
    estimate = BLOCKS * of_all - (BLOCKS - 1) * without.mean()
    return estimate, np.sqrt((BLOCKS - 1) * without.var())


def from_single_runs(
    runs: Sequence[np.ndarray], kappa: float, estimator: Callable[..., theory.MomentumEstimate]
) -> Mean:
    """Mean estimate over schedules, and its standard error."""
    return mean_and_error([estimator(x, kappa * x).momentum for x in runs])


def draw(figure, numbers) -> None:
    """The estimates, and their deviations from theory in standard errors."""
    left, right = figure.subplots(1, 2)
    n = numbers["workers"]
    place = np.arange(len(n))
    left.plot(place, numbers["predicted"], color=GREY, label="1 − 1/n, exact", zorder=1)
    left.plot(place, numbers["predicted_least_squares"], color=GREY, linestyle=(0, (4, 3)), label="attenuated, exact")
    kinds = {
        "averaged": ("averaged runs", {"fmt": "o", "color": BLUE, "markersize": 9, "markerfacecolor": "none"}),
        "instrumental": ("single runs, instruments", {"fmt": "s", "color": GREEN, "markersize": 5}),
        "least_squares": ("single runs, least squares", {"fmt": "D", "color": VERMILION, "markersize": 5}),
    }
    right.axhspan(-2, 2, color=GREY, alpha=0.15, linewidth=0)
    right.axhline(0, color=GREY, linewidth=0.9)
    for aside, (name, (label, look)) in zip((-0.12, 0.0, 0.12), kinds.items(), strict=True):
        left.errorbar(place, numbers[name], 2 * numbers[f"{name}_error"], label=label, **look)
        truth = numbers["predicted_least_squares" if name == "least_squares" else "predicted"]
        right.errorbar(place + aside, (numbers[name] - truth) / numbers[f"{name}_error"], **look)
    left.set(ylabel="momentum", ylim=(0, 1.05), title="Estimated momentum")
    right.set(ylabel="standard errors", ylim=(-5, 5), title="Measured minus predicted")
    left.legend(loc="center right", bbox_to_anchor=(1.0, 0.4))
    for ax in (left, right):
        ax.set(xlabel="workers n")
        ax.set_xticks(place, [str(number) for number in n])


experiment = asim.Experiment(compute, draw, title="Asynchrony looks like momentum", size=(9.6, 4.2))

if __name__ == "__main__":
    asim.main(experiment)
