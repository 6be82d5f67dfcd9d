"""Stationary staleness against the simulator: independent seeds, within five standard errors."""

from collections.abc import Sequence

import numpy as np
import pytest

from asyncsim import Cluster, simulate, theory
from asyncsim.delays import Delay, Exponential, Gamma, Weibull
from tests.theory.compute_laws import EIGHT, FIVE, HYPER, LOG_NORMAL, STRAGGLER

STANDARD_ERRORS = 5
SEEDS, COMMITS, WARM_UP = 16, 5000, 1000


class TestAgainstTheSimulator:
    @pytest.mark.parametrize(
        ("compute", "workers"),
        [
            (Exponential(1.0), 16),
            (Gamma(mean=1.0, cv=0.4), 16),
            (LOG_NORMAL, 10),
            (Weibull(mean=1.0, shape=0.7), 8),
            (STRAGGLER, 16),
            (HYPER, 6),
            (EIGHT, 8),
            (FIVE, 5),
        ],
        ids=repr,
    )
    def test_distribution_and_variance(self, compute: Delay | Sequence[Delay], workers: int) -> None:
        pmf = theory.staleness_pmf(compute=compute, workers=workers, size=50 * workers)
        cdf = np.cumsum(pmf)
        variance = theory.staleness_variance(compute=compute, workers=workers)
        points = np.unique(np.searchsorted(cdf, [0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98]))
        rows = []
        for seed in range(SEEDS):
            tau = simulate(Cluster(workers, compute=compute), commits=COMMITS, seed=seed).staleness[WARM_UP:]
            rows.append([np.mean((tau - workers + 1.0) ** 2), *[np.mean(tau <= point) for point in points]])
        measured, error = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / SEEDS**0.5
        assert (np.abs(measured - [variance, *cdf[points]]) <= STANDARD_ERRORS * error).all()
        assert (error[1:] < 0.01).all()  # or the line above would say nothing

    def test_worker_means(self) -> None:
        rows = []
        for seed in range(SEEDS):
            trace = simulate(Cluster(5, compute=FIVE), commits=COMMITS, seed=seed)
            tau, worker = trace.staleness[WARM_UP:], trace.worker[WARM_UP:]
            rows.append([tau[worker == w].mean() for w in range(5)])
        error = np.std(rows, axis=0, ddof=1) / SEEDS**0.5
        known = theory.worker_staleness(compute=FIVE, workers=5)
        assert (np.abs(np.mean(rows, axis=0) - known) <= STANDARD_ERRORS * error).all()

    def test_mean_from_the_start_without_burn_in(self) -> None:
        runs = [simulate(Cluster(10, Exponential(1.0)), commits=60, seed=s).staleness.mean() for s in range(196)]
        known = theory.staleness_mean_from_start(workers=10, commits=60)
        assert abs(np.mean(runs) - known) <= STANDARD_ERRORS * np.std(runs, ddof=1) / 14
