"""How large a step may be, for any number of workers: simulated maps with the predicted limits on them.

A cell is the share of runs that stay bounded on a quadratic without noise, each on its own schedule. With constant
times, all 336 cells are on the side of the exact limit of a constant delay that theory predicts. With exponential
times, the share falls around the zero of the Lyapunov exponent, which for two or more workers is 15 to 32 % above the
exact mean-square limit: for 64 workers it is 0.21, where the same workers in turn tolerate 0.025. GEM tolerates 0.66
there, and with up to four workers as much as with one, 1.9.

    asyncsim run scenarios/stability_map.py
    asyncsim run scenarios/stability_map.py --seeds 8 --out runs/coarse_map
"""

from functools import partial

import numpy as np

import asyncsim as asim
from asyncsim import plots, theory
from asyncsim.delays import Constant, Exponential
from asyncsim.reports.stability import stability_map

TITLES = ("DOWNPOUR, exponential times", "DOWNPOUR, constant times", "GEM, exponential times")


def compute(
    workers=(1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64),
    smallest=0.02,
    largest=4.0,
    kappas=28,
    momentum=0.9,
    seeds=32,
    cycles=100,
) -> dict[str, np.ndarray]:
    """Shares of bounded runs on a quadratic without noise, and limits.

    Args:
        workers: Numbers of workers.
        smallest, largest: Range of η·h = step size times curvature, on a geometric grid.
        kappas: Number of values of η·h.
        momentum: μ of GEM's proxy.
        seeds: Number of schedules for each number of workers.
        cycles: Average commits per worker in a run.
    """
    grid = np.geomspace(smallest, largest, kappas)
    gem = partial(asim.rules.GEM, momentum=momentum)
    simulated = partial(stability_map, workers, grid, seeds=seeds, cycles=cycles)
    law = Exponential(1.0)
    return {
        "workers": np.array(workers),
        "mean_square": np.array([theory.stability_limit(workers=n, compute=law) for n in workers]),
        "almost_sure": np.array([almost_sure(n, "downpour", 0.0) for n in workers]),
        "constant_delay": np.array([theory.stability_limit(workers=n, compute=Constant(1.0)) for n in workers]),
        "gem": np.array([almost_sure(n, "gem", momentum) for n in workers]),
        "gem_single_worker": np.array(theory.gem_single_worker_limit(momentum)),
        "kappa": grid,
        "exponential_map": simulated(law),
        "constant_map": simulated(Constant(1.0)),
        "gem_map": simulated(law, gem),
    }


def almost_sure(workers: int, rule: str, momentum: float, seeds: int = 8, commits: int = 4000) -> float:
    """The almost-sure limit, computed numerically as the zero of the Lyapunov exponent."""
    order = np.random.default_rng(workers).integers(workers, size=(seeds, commits))  # exponential workers' order
    expected = theory.exponential_limit(workers)
    high = 2.5 if rule == "gem" else 2 * expected
    return theory.almost_sure_limit(order, low=expected / 2, high=high, rule=rule, momentum=momentum, workers=workers)


def draw(figure, numbers) -> None:
    """Three maps that share the axis of η·h."""
    panels = figure.subplots(1, 3, sharey=True)
    limits = (
        {"mean square, exact": numbers["mean_square"], "almost sure, numeric": numbers["almost_sure"]},
        {"constant delay, exact": numbers["constant_delay"]},
        {"DOWNPOUR's, mean square": numbers["mean_square"], "GEM's, almost sure, numeric": numbers["gem"]},
    )
    for ax, title, name, lines in zip(
        panels, TITLES, ("exponential_map", "constant_map", "gem_map"), limits, strict=True
    ):
        grid = numbers["workers"], numbers["kappa"], numbers[name]
        plots.draw_stability(ax, *grid, limits=lines, colorbar=ax is panels[-1])
        ax.set_title(title)
        ax.label_outer()


experiment = asim.Experiment(compute, draw, title="Which step sizes stay bounded", size=(11.0, 4.6))

if __name__ == "__main__":
    asim.main(experiment)
