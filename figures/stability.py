"""Step sizes at which training stays bounded, by number of workers: four rules on a quadratic, with theory's limits.

The paper shows stability by curves that fail or do not. On a quadratic without noise, the question has an answer for
each rule, number of workers and η·h, the step size times the curvature: a cell is the share of runs that stay bounded,
each on its own schedule. With constant compute times, workers commit in turn, every limit is known, and there is only
one schedule. With exponential times, a run grows where its Lyapunov exponent is positive, which begins above the
mean-square limit.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

import asyncsim as asim
from asyncsim import theory
from asyncsim.delays import Constant, Delay, Exponential
from asyncsim.plots import draw_stability
from asyncsim.reports.stability import schedule, stays_bounded
from figures.common import scales
from figures.common.figure_set import UNCACHED, Claim, RunCache, numbers
from figures.common.paper import not_in_paper
from figures.common.tables import Numbers, over_seeds, pack, stack, table, where

TITLE = "Step sizes at which training stays bounded, simulated, with the limits of theory"
SEEDS_SHOWN = "all together"
SIZE = (12.6, 6.8)
WORKERS = {"quick": (1, 2, 4, 8, 16, 32), "paper": (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)}
KAPPAS = {"quick": np.geomspace(0.004, 4.0, 37), "paper": np.geomspace(0.002, 4.0, 75)}
SCHEDULES = {"quick": 5, "paper": 16}  # per number of workers and seed
GUESSED = 1.25  # factor within which a guessed limit should be right
CYCLES = 100  # commits per worker on average
LAWS: dict[str, Delay] = {"exponential": Exponential(1.0), "constant": Constant(1.0)}
RULES: dict[str, Callable[[Any], asim.Rule]] = {
    "downpour": asim.rules.Downpour,
    "adaptive_staleness": asim.rules.AdaptiveStaleness,
    "momentum_sgd": partial(asim.rules.MomentumSGD, momentum=scales.MOMENTUM),
    "gem": partial(asim.rules.GEM, momentum=scales.MOMENTUM),
}
note = not_in_paper
NAMES = {
    "downpour": "DOWNPOUR",
    "adaptive_staleness": "adaptive staleness",
    "momentum_sgd": "momentum SGD, each",
    "gem": "GEM",
}


def task(scale: str) -> str:
    """What is learned, for the line below the title."""
    del scale
    return "a quadratic without noise"


def scenarios(scale: str, seed: int) -> dict[str, asim.Scenario]:
    """Nothing from the cache: a quadratic takes no time."""
    del scale, seed
    return {}


def compute(scale: str = "quick", seed: int = 0, runs: RunCache = UNCACHED) -> dict[str, np.ndarray]:
    """Shares of bounded runs, and the limits that theory knows."""
    del runs
    sizes = WORKERS[scales.scale_of(scale).name]
    cells = [row for law in LAWS for row in bounded_shares(law, sizes, KAPPAS[scale], SCHEDULES[scale], seed)]
    known = [
        {"law": law, "rule": rule, "workers": n, "limit": name, "kappa": kappa}
        for law in LAWS
        for rule in RULES
        for n in sizes
        for name, kappa in limits(law, rule, n).items()
    ]
    return pack(cells=stack(cells), limits=stack(known))


def bounded_shares(
    law: str, sizes: Sequence[int], kappas: np.ndarray, schedules: int, seed: int
) -> list[dict[str, Any]]:
    """For each rule and number of workers, the share of schedules on which each η·h stays bounded.

    All rules share the schedules, which depend on the seed.
    """
    seeds = range(1) if law == "constant" else range(schedules * seed, schedules * (seed + 1))
    rows = []
    for n in sizes:
        traces = [schedule(n, LAWS[law], CYCLES * n, k, most=max(sizes)) for k in seeds]
        for rule, make in RULES.items():
            share = np.mean([stays_bounded(trace, kappas, make) for trace in traces], axis=0)
            rows.append({"law": law, "rule": rule, "workers": n, "kappa": kappas, "bounded": share})
    return rows


def limits(law: str, rule: str, workers: int) -> dict[str, float]:
    """Limits of η·h by name; the last one is that of single runs."""
    if law == "constant":
        return {"exact" if rule != "gem" else "exact for n = 1": in_turn(rule, workers)}
    momentum = {"momentum": scales.MOMENTUM, "where": "worker"} if rule == "momentum_sgd" else {}
    if rule in ("downpour", "momentum_sgd"):
        square = theory.stability_limit(workers, LAWS[law], **momentum)
        return {"mean square, exact": square, "almost sure, numeric": almost_sure(rule, workers)}
    if rule == "gem":
        return {"almost sure, numeric": almost_sure(rule, workers)}
    shrunk = theory.mean_rescaling(compute=LAWS[law], workers=workers)
    return {"DOWNPOUR's over E[1/(τ + 1)]": almost_sure("downpour", workers) / shrunk}


def in_turn(rule: str, workers: int) -> float:
    """The limit of workers that commit in turn, each with a staleness of n - 1.

    Adaptive staleness divides every step by n. GEM's limit is that of one worker, which is observed for others too.
    """
    if rule == "gem":
        return theory.gem_single_worker_limit(scales.MOMENTUM)
    if rule == "momentum_sgd":
        return theory.constant_delay_limit(workers - 1, scales.MOMENTUM, "worker")
    return theory.constant_delay_limit(workers - 1) * (workers if rule == "adaptive_staleness" else 1)


@cache  # the same for every seed of the figure, because it estimates a limit of theory
def almost_sure(rule: str, workers: int, schedules: int = 8, commits: int = 4000) -> float:
    """Where the Lyapunov exponent of exponential workers becomes positive, from long products of random commits."""
    order = np.random.default_rng(workers).integers(workers, size=(schedules, commits))  # exponential workers' order
    momentum = {"momentum": scales.MOMENTUM, "where": "worker"} if rule == "momentum_sgd" else {}
    square = theory.stability_limit(workers, Exponential(1.0), **momentum)
    low, high = square / 2, 2.5 if rule == "gem" else 3 * square
    return theory.almost_sure_limit(order, low=low, high=high, rule=rule, momentum=scales.MOMENTUM, workers=workers)


def claims(seeds: Sequence[Numbers], scale: str) -> list[Claim]:
    """GEM compared with DOWNPOUR, and simulated limits with those of theory."""
    step = KAPPAS[scale][1] / KAPPAS[scale][0]  # of the grid: limits cannot be resolved more finely
    sizes = np.array(WORKERS[scale])
    gem, downpour = (np.array([simulated(seeds, law, rule) for law in LAWS]) for rule in ("gem", "downpour"))
    return [
        Claim(
            "GEM stays stable where DOWNPOUR does not",
            "GEM's simulated limit above DOWNPOUR's for both laws, with 2 or more workers",
            f"η·h with {sizes[-1]} workers, exponential and constant times: GEM {numbers(gem[:, -1])}, DOWNPOUR "
            f"{numbers(downpour[:, -1])}",
            bool((gem > downpour)[:, sizes > 1].all()),
        ),
        in_turn_claim(seeds),
        random_claim(seeds, ("downpour", "momentum_sgd", "gem"), "the almost-sure limit", step),
        random_claim(seeds, ("adaptive_staleness",), "DOWNPOUR's limit over E[1/(τ + 1)], a guess", GUESSED),
    ]


def in_turn_claim(seeds: Sequence[Numbers]) -> Claim:
    """With constant times: whether each run is on the right side of its limit; for GEM, from below only."""
    wrong = {rule: wrong_side(seeds, rule) for rule in RULES}
    return Claim(
        "ours: with constant times, every limit is known",
        "runs on the wrong side of the limit; for GEM, whose runs may be bounded again above it, only those below",
        ", ".join(f"{NAMES[rule]}: {sum(cells)} of {len(cells)}" for rule, cells in wrong.items()),
        not any(any(cells) for cells in wrong.values()),
    )


def random_claim(seeds: Sequence[Numbers], rules: Sequence[str], what: str, within: float) -> Claim:
    """With exponential times: whether the η·h at which half of the runs grow is the limit of theory."""
    ratios = {rule: simulated(seeds, "exponential", rule) / last_limit(seeds[0], rule) for rule in rules}
    away = max(np.abs(np.log(ratio)).max() for ratio in ratios.values())
    return Claim(
        f"ours: with exponential times, runs grow above {what}",
        f"the η·h at which half of the runs grow, within a factor of {within:.3g} of the limit",
        "; ".join(f"{NAMES[rule]}, simulated over predicted: {numbers(ratio)}" for rule, ratio in ratios.items()),
        bool(away <= np.log(within)),
    )


def shares(seeds: Sequence[Numbers], law: str, rule: str) -> np.ndarray:
    """(numbers of workers, η·h): shares of bounded runs of all seeds."""
    cells = over_seeds(seeds, "cells", "bounded", law=law, rule=rule).mean(axis=0)
    return cells.reshape(-1, len(kappas_of(seeds[0])))


def kappas_of(numbers: Numbers) -> np.ndarray:
    """The values of η·h."""
    return np.unique(table(numbers, "cells")["kappa"])


def sizes_of(numbers: Numbers) -> np.ndarray:
    """The numbers of workers."""
    return np.unique(table(numbers, "cells")["workers"])


def simulated(seeds: Sequence[Numbers], law: str, rule: str) -> np.ndarray:
    """For each number of workers, the η·h at which the share of bounded runs first falls below one half."""
    kappas = np.log(kappas_of(seeds[0]))
    return np.array([np.exp(first_crossing(kappas, share)) for share in shares(seeds, law, rule)])


def first_crossing(x: np.ndarray, share: np.ndarray) -> float:
    """Where the share, interpolated linearly, first falls to one half; the last x if it never does.

    Example:
        >>> first_crossing(np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 1.0, 0.0, 1.0]))
        1.5
    """
    if not (share < 0.5).any():
        return float(x[-1])
    at = max(1, int((share < 0.5).argmax()))
    return float(np.interp(0.5, share[[at, at - 1]], x[[at, at - 1]]))


def last_limit(numbers: Numbers, rule: str, law: str = "exponential") -> np.ndarray:
    """The limit of single runs, for each number of workers."""
    return list(limits_of(numbers, law, rule).values())[-1]


def limits_of(numbers: Numbers, law: str, rule: str) -> dict[str, np.ndarray]:
    """Name -> limits for each number of workers."""
    rows = where(table(numbers, "limits"), law=law, rule=rule)
    return {name: where(rows, limit=name)["kappa"] for name in dict.fromkeys(rows["limit"].tolist())}


def wrong_side(seeds: Sequence[Numbers], rule: str) -> list[bool]:
    """For each n and η·h with constant times, whether the run is not as the limit predicts."""
    kappas, limit = kappas_of(seeds[0]), last_limit(seeds[0], rule, "constant")
    bounded = shares(seeds, "constant", rule) > 0.5
    below = kappas < limit[:, None]
    return (bounded != below)[below if rule == "gem" else np.full_like(below, True)].tolist()


def draw(figure: Any, seeds: Sequence[Numbers], scale: str) -> None:
    """One map per law and rule."""
    del scale
    panels = figure.subplots(2, len(RULES), sharex=True, sharey=True)
    for row, law in zip(panels, LAWS, strict=True):
        for ax, rule in zip(row, RULES, strict=True):
            axes = sizes_of(seeds[0]), kappas_of(seeds[0]), shares(seeds, law, rule)
            _, *lines = draw_stability(ax, *axes, limits=limits_of(seeds[0], law, rule), colorbar=False)
            ax.legend(handles=lines, loc="lower left", fontsize=8, frameon=True, framealpha=0.9, edgecolor="none")
            ax.set_ylabel(f"η·h, {law} times")
            ax.label_outer()
    for ax, name in zip(panels[0], NAMES.values(), strict=True):
        ax.set_title(name)
