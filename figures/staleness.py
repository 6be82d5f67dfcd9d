"""Staleness under several laws of compute times, predicted and simulated, and its mean, which no law changes.

The paper states E[τ] = n - 1 for a homogeneous cluster, equation (2), and shows no distribution. At every commit, n - 1
other gradients are under way, whatever the law; the law shapes the distribution, which theory knows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

import asyncsim as asim
from asyncsim.delays import Constant, Exponential, Gamma, HyperExponential, LogNormal, Straggler
from asyncsim.plots.style import BLUE, GREY, INK, VERMILION
from asyncsim.reports.replicates import mean_and_error
from asyncsim.reports.staleness import staleness_report, total_variation_by_chance, warm_up_commits
from figures.common.curves import COLOURS, name_below
from figures.common.figure_set import UNCACHED, Claim, RunCache, numbers
from figures.common.paper import not_in_paper
from figures.common.tables import Numbers, over_seeds, pack, stack, table, where

TITLE = "Distributions of staleness for five laws of compute times, predicted and simulated"
SEEDS_SHOWN = "all together"
SIZE = (9.6, 5.8)
LAWS = {  # all of mean 1
    "gamma, cv 0.3": Gamma(mean=1.0, cv=0.3),
    "log-normal, cv 0.6": LogNormal(mean=1.0, cv=0.6),
    "exponential": Exponential(1.0),
    "stragglers": Straggler(Gamma(mean=1 / 1.45, cv=0.2), probability=0.05, factor=10.0),
    "hyper-exponential": HyperExponential(probabilities=(0.9, 0.1), means=(0.5, 5.5)),
}
MEANS_OF = {**LAWS, "constant": Constant(1.0)}  # whose mean staleness is measured
N = 16  # number of workers for which distributions are drawn
WORKERS = (5, 10, 20, 30, 100)
COMMITS = {"quick": 20_000, "paper": 400_000}  # in a run for a distribution
ROUNDS = {"quick": 100, "paper": 1000}  # commits per worker in a run for a mean
REPEATS = 3  # runs per mean and seed
FALSE_ALARM = 1e-4  # probability that some mean is judged to differ from n - 1 though it does not
NEAR = 3  # times the total variation of as many independent values: commits of one schedule are not independent
LARGEST_SHOWN = 4  # staleness up to which a panel reaches, over n - 1
note = not_in_paper


def task(scale: str) -> str:
    """What is learned, for the line below the title."""
    del scale
    return "schedules alone, nothing is learned"


def scenarios(scale: str, seed: int) -> dict[str, asim.Scenario]:
    """Nothing: staleness is a property of the schedule alone."""
    del scale, seed
    return {}


def compute(scale: str = "quick", seed: int = 0, runs: RunCache = UNCACHED) -> dict[str, np.ndarray]:
    """Distributions with 16 workers, and means with 5 to 100."""
    del runs
    shapes = [distribution(name, COMMITS[scale], seed) for name in LAWS]
    means = [mean_staleness(name, n, ROUNDS[scale] * n, seed) for name in MEANS_OF for n in WORKERS]
    return pack(distributions=stack(shapes), means=stack(means))


def distribution(name: str, commits: int, seed: int, workers: int = N) -> dict[str, Any]:
    """Shares of commits and predicted probabilities of every staleness that occurred, and how far they are apart."""
    found = staleness_report(asim.Cluster(workers, LAWS[name]), commits, seed)
    assert found.pmf is not None  # theory knows all of these laws
    size = max(len(found.pmf), int(found.staleness.max()) + 1)
    shares = np.bincount(found.staleness, minlength=size) / commits
    pmf = np.pad(found.pmf, (0, size - len(found.pmf)))
    return {"law": name, "commits": commits, "staleness": np.arange(size), "share": shares, "predicted": pmf}


def mean_staleness(name: str, workers: int, commits: int, seed: int) -> dict[str, Any]:
    """Means of a few runs, each after its warm-up."""
    cluster = asim.Cluster(workers, MEANS_OF[name])
    start = warm_up_commits(cluster)
    seeds = range(REPEATS * seed, REPEATS * (seed + 1))
    means = [asim.simulate(cluster, commits=start + commits, seed=s).staleness[start:].mean() for s in seeds]
    return {"law": name, "workers": workers, "run": np.arange(REPEATS), "mean": np.array(means)}


def claims(seeds: Sequence[Numbers], scale: str) -> list[Claim]:
    """Whether E[τ] = n - 1, and whether the distributions are as predicted."""
    del scale
    deviation, error = deviations(seeds)
    apart = {law: together(seeds, law) for law in LAWS}
    return [
        Claim(
            "E[τ] = n − 1 in a homogeneous cluster, whatever the law",
            f"{len(MEANS_OF)} laws: every mean as close to n − 1 as Student's t requires (altogether one false alarm "
            f"in {1 / FALSE_ALARM:,.0f}), and exact for constant times",
            "; ".join(map(largest_deviation, WORKERS, deviation.T, error.T)),
            bool((np.abs(deviation) <= allowed_errors(len(seeds)) * error).all()),
        ),
        Claim(
            "ours: theory knows the whole distribution",
            f"total variation at most {NEAR} times that of as many independent values",
            "; ".join(
                f"{law}: {numbers([found])} (by chance {numbers([chance])})" for law, (found, chance) in apart.items()
            ),
            all(found <= NEAR * chance for found, chance in apart.values()),
        ),
    ]


def deviations(seeds: Sequence[Numbers]) -> tuple[np.ndarray, np.ndarray]:
    """(laws, numbers of workers): mean staleness minus n - 1, and its standard error over all runs of all seeds."""
    runs = np.array([[over_seeds(seeds, "means", "mean", law=name, workers=n) for n in WORKERS] for name in MEANS_OF])
    runs = runs.reshape(*runs.shape[:2], -1)
    mean, error = mean_and_error(runs, axis=-1)
    return mean - (np.array(WORKERS) - 1), error


def allowed_errors(seeds: int) -> float:
    """Standard errors by which a mean over the runs of some seeds may deviate."""
    pairs = len(MEANS_OF) * len(WORKERS)
    return float(stats.t.ppf(1 - FALSE_ALARM / (2 * pairs), REPEATS * seeds - 1))


def largest_deviation(workers: int, deviation: np.ndarray, error: np.ndarray) -> str:
    """Among the means for one number of workers, the one furthest from n - 1 in standard errors."""
    score = np.divide(np.abs(deviation), error, out=np.zeros_like(error), where=error > 0)
    furthest = int(score.argmax())
    mean = workers - 1 + deviation[furthest]
    return f"n = {workers}: furthest {mean:.5g} ± {error[furthest]:.1g} ({list(MEANS_OF)[furthest]})"


def pooled(seeds: Sequence[Numbers], law: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Shares over the commits of all seeds, the predicted probabilities, and the number of commits."""
    rows = [where(table(one, "distributions"), law=law) for one in seeds]
    size = max(len(row["share"]) for row in rows)
    share = np.mean([np.pad(row["share"], (0, size - len(row["share"]))) for row in rows], axis=0)
    longest = max(rows, key=lambda row: len(row["predicted"]))
    return share, longest["predicted"], int(sum(row["commits"][0] for row in rows))


def together(seeds: Sequence[Numbers], law: str) -> tuple[float, float]:
    """Total variation between simulated and predicted, and its rough value for independent commits."""
    share, pmf, commits = pooled(seeds, law)
    beyond = max(0.0, 1 - float(pmf.sum()))
    return float(np.abs(share - pmf).sum() + beyond) / 2, total_variation_by_chance(pmf, commits)


def draw(figure: Any, seeds: Sequence[Numbers], scale: str) -> None:
    """One panel per law, and one of means."""
    del scale
    panels = figure.subplots(2, 3).flat
    for ax, law in zip(panels, LAWS, strict=False):
        draw_distribution(ax, *pooled(seeds, law)[:2])
        ax.set_title(law)
    panels[0].legend()
    draw_means(panels[5], seeds)


def draw_distribution(ax: Any, share: np.ndarray, pmf: np.ndarray) -> None:
    """Simulated shares as a histogram, predicted probabilities as its outline, the mean as a line."""
    shown = LARGEST_SHOWN * (N - 1) + 1
    edges = np.arange(shown + 1) - 0.5
    ax.stairs(share[:shown], edges, fill=True, color=BLUE, alpha=0.85, label="simulated")
    ax.stairs(pmf[:shown], edges, color=INK, linewidth=1.1, label="predicted")
    ax.axvline(N - 1, color=VERMILION, linewidth=1.1, linestyle=(0, (4, 3)), label=f"n − 1 = {N - 1}")
    ax.set(xlabel="staleness, in server versions", ylabel="share of commits", xlim=(edges[0], edges[-1]))


def draw_means(ax: Any, seeds: Sequence[Numbers]) -> None:
    """The deviation of the mean from n - 1, with two standard errors, for all laws side by side."""
    deviation, error = (100 * values / (np.array(WORKERS) - 1) for values in deviations(seeds))
    place, reach = np.arange(len(WORKERS)), 1.1 * (np.abs(deviation) + 2 * error).max()
    for row, (name, colour) in enumerate(zip(LAWS, COLOURS, strict=True)):
        aside = 0.14 * (row - (len(LAWS) - 1) / 2)
        look = {"fmt": "o", "color": colour, "markersize": 3.5, "label": name}
        ax.errorbar(place + aside, deviation[row], 2 * error[row], **look)
    ax.axhline(0.0, color=GREY, linewidth=1.0)
    ax.set(xlabel="workers", ylabel="% above n − 1", title="mean staleness", ylim=(-reach, reach))
    ax.set_xticks(place, list(map(str, WORKERS)))
    name_below(ax, 2)
