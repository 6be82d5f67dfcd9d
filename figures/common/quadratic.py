"""DOWNPOUR's energies on a noisy quadratic, where theory knows their ratio exactly."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import asyncsim as asim
from asyncsim import theory
from asyncsim.delays import Constant, Exponential
from asyncsim.reports.replicates import Mean, mean_and_error
from asyncsim.reports.stability import schedule
from figures.common import scales

ENERGIES = ("energy_central", "energy_proxy")
LAWS = {"exponential": Exponential(1.0), "constant": Constant(1.0)}  # for which the ratio on a quadratic is known
KAPPA = 0.02  # step size times curvature; with 30 workers in turn, values below .053 are stable
COORDINATES = 32  # of the quadratic, each with independent noise
SCHEDULES = 4  # per law, number of workers and seed
WARM_UP = 0.2  # share of the commits that is left out as warm-up


def beside(learning_rate: Any) -> asim.Rule:
    """DOWNPOUR, with a proxy that is kept beside it."""
    return asim.rules.WithProxy(asim.rules.Downpour(learning_rate), proxy_momentum=scales.MOMENTUM)


def on_quadratic(commits: int, seed: int, workers: Sequence[int]) -> list[dict[str, Any]]:
    """DOWNPOUR's ratio of energies on a noisy quadratic, for each law and number of workers.

    The ratio is taken to the energy of momentum SGD alone; the estimate, to that of the proxies that workers keep.
    """
    seeds = range(SCHEDULES * seed, SCHEDULES * (seed + 1))
    simulated = partial(mean_energies, commits=commits, most=max(workers))
    alone = simulated(asim.rules.MomentumSGD(KAPPA, momentum=scales.MOMENTUM), 1, LAWS["constant"], seeds=seeds)[:, :1]
    rows = []
    for law, compute in LAWS.items():
        for n in workers:
            found = simulated(beside(KAPPA), n, compute, seeds=[(n << 20) + k for k in seeds])  # with independent noise
            ratio, estimate = ratio_of_means(found[:, 0], alone[:, 0]), ratio_of_means(*found.T)
            predicted = theory.energy_ratio(KAPPA, workers=n, compute=compute, momentum=scales.MOMENTUM)
            which = {"law": law, "workers": n, "predicted": predicted}
            which |= {"ratio": ratio.value, "error": ratio.error}
            rows.append({**which, "estimate": estimate.value, "estimate_error": estimate.error})
    return rows


def mean_energies(
    rule: asim.Rule, workers: int, compute: asim.delays.Delay, *, commits: int, seeds: Sequence[int], most: int
) -> np.ndarray:
    """(schedules, 2): mean energies of the central variable and the proxy in a stationary run."""
    workload = asim.workloads.Quadratic([1.0] * COORDINATES, noise=1.0, start=0.0)
    first, rows = int(WARM_UP * commits), []
    for seed in seeds:
        trace = schedule(workers, compute, commits, seed, most)
        records = asim.replay(trace, rule, workload, seed=seed, record=ENERGIES).records
        rows.append([records[name][first:].mean() for name in ENERGIES])
    return np.array(rows, np.float64)


def ratio_of_means(above: np.ndarray, below: np.ndarray) -> Mean:
    """Ratio of two means over schedules, with the errors of both, as if they were independent."""
    (upper, upper_error), (lower, lower_error) = mean_and_error(above), mean_and_error(below)
    ratio = upper / lower
    return Mean(ratio, ratio * np.hypot(upper_error / upper, lower_error / lower))
