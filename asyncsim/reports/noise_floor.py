"""What noise leaves of x, by replay of a noisy quadratic with curvature 1, so that the step size is κ itself."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from asyncsim import checks, rules
from asyncsim.delays import Delay
from asyncsim.engine import replay
from asyncsim.reports.stability_map import FloatArray, MakeRule, checked_kappas, schedule
from asyncsim.workloads import quadratic

COPIES = 32  # coordinates of equal curvature: independent noise on one schedule
FORGOTTEN = 0.2  # share of the commits left out, so that the start is forgotten
SEEDS_REMEDY = "Give two or more, whose scatter is the error."
COMMITS_REMEDY = "Give some thousands."


class Floor(NamedTuple):
    """What noise leaves of x, arrays with one entry a κ; the errors are standard errors over schedules.

    Attributes:
        variance, variance_error: Var x over commits, per unit of the variance η²σ² of a raw update's noise.
        energy, energy_error: Kinetic energy of the central variable, in the same unit.
    """

    variance: FloatArray
    energy: FloatArray
    variance_error: FloatArray
    energy_error: FloatArray


def simulated_floor(
    workers: int,
    kappas: ArrayLike,
    compute: Delay,
    rule: MakeRule = rules.downpour,
    *,
    seeds: int = 8,
    commits: int = 10_000,
    most: int | None = None,
) -> Floor:
    """Stationary variance and kinetic energy on a quadratic with noise, by replay.

    Every version is read by exactly one worker, so that the mean loss over commits is that over versions. Close to
    the stability limit rare excursions carry the mean, and the standard error is too small.

    Args:
        workers, compute, rule: As in `stability_map`.
        kappas: (k,) values of κ, which share schedules and noise.
        seeds: Schedules, each with 32 independent coordinates.
        commits: Length of a run; the first fifth is left out.
        most: Workers that the compiled program has room for: equal for several calls, they share one program.

    Returns:
        A `Floor` of arrays (k,).

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> from asyncsim.delays import Constant
        >>> floor = simulated_floor(1, [0.5], Constant(1.0))  # 1 / (κ(2 - κ))
        >>> bool(abs(floor.variance[0] - 4 / 3) < 4 * floor.variance_error[0])
        True
    """
    seeds = checks.require_integer("seeds", seeds, least=2, remedy=SEEDS_REMEDY)
    commits = checks.require_integer("commits", commits, least=10, remedy=COMMITS_REMEDY)
    kappas, first = checked_kappas(kappas), int(FORGOTTEN * commits)
    workload, results = quadratic([1.0] * COPIES, noise=1.0, start=0.0), []
    for seed in range(seeds * workers, seeds * (workers + 1)):  # others for every n, so that errors are independent
        trace = schedule(workers, compute, commits, seed, most)
        same = [seed] * len(kappas)
        run = replay(trace, rule(kappas), workload, seed=same, record=("energy_central",))
        variance, energy = 2 * run.loss[:, first:].mean(axis=1), run.records["energy_central"][:, first:].mean(axis=1)
        results.append(np.array([variance, energy], float) / COPIES / kappas**2)
    scatter = np.std(results, axis=0, ddof=1) / np.sqrt(seeds)
    return Floor(*np.mean(results, axis=0), *scatter)
