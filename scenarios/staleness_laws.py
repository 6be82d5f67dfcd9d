"""One mean, many shapes: the distribution of staleness for six laws of compute times, predicted and simulated.

For any law, the mean staleness of asynchronous workers is n - 1, because n - 1 other gradients are always under way.
The shape depends on the law: as the number of workers grows, the distribution of staleness over n - 1 tends to that of
a compute time over its mean (the dotted line, close with 16 workers already unless the law is narrow). With 16 workers,
all six means are 15; the standard deviation rises from 0 (constant) through 4.9 (gamma) and 15.5 (exponential) to 36
(hyper-exponential), the median falls from 15 to 6, and one commit in a hundred has a staleness of more than 28, 71 and
192. The total variation between predicted and simulated, over half a million commits, is at most 0.006.

    asyncsim run scenarios/staleness_laws.py
    asyncsim run scenarios/staleness_laws.py --workers 64 --out runs/staleness_laws_64
"""

import numpy as np

import asyncsim as asim
from asyncsim import theory
from asyncsim.delays import Constant, Exponential, Gamma, HyperExponential, LogNormal, Straggler
from asyncsim.plots.style import BLUE, GREY, INK, VERMILION
from asyncsim.reports.replicates import mean_and_error
from asyncsim.reports.staleness import predicted_staleness, staleness_theory, warm_up_commits

LAWS = {  # all of mean 1
    "constant": Constant(1.0),
    "gamma, cv 0.3": Gamma(mean=1.0, cv=0.3),
    "log-normal, cv 0.6": LogNormal(mean=1.0, cv=0.6),
    "exponential": Exponential(1.0),
    "stragglers": Straggler(Gamma(mean=1 / 1.45, cv=0.2), probability=0.05, factor=10.0),
    "hyper-exponential": HyperExponential(probabilities=(0.9, 0.1), means=(0.5, 5.5)),
}
LARGEST_PREDICTED = 30  # staleness up to which the distribution is predicted, over n
LARGEST_SHOWN = 4  # staleness up to which it is drawn, over n - 1


def compute(workers=16, commits=100_000, seeds=5) -> dict[str, np.ndarray]:
    """Mean, spread, quantiles and distribution of staleness for every law.

    Args:
        workers: Number of workers, at least 2.
        commits: Length of each run, after its warm-up.
        seeds: Number of runs for each law.
    """
    size = LARGEST_PREDICTED * workers
    found = [one_law(law, workers, commits, seeds, size) for law in LAWS.values()]
    columns = {name: np.array([row[name] for row in found]) for name in found[0]}
    return {"law": np.array(list(LAWS)), **columns, "workers": np.array(workers)}


def one_law(law: asim.delays.Delay, workers: int, commits: int, seeds: int, size: int) -> dict[str, object]:
    """The numbers of one law, with standard errors over the seeds."""
    cluster = asim.Cluster(workers, law)
    start = warm_up_commits(cluster)
    runs = [asim.simulate(cluster, commits=start + commits, seed=seed).staleness[start:] for seed in range(seeds)]
    deviation = mean_and_error([run.std() for run in runs])
    together = np.concatenate(runs)
    known, pmf = staleness_theory(cluster), predicted_staleness(cluster, size)
    assert known.variance is not None  # theory knows all of these laws
    assert pmf is not None
    variance = known.variance()
    assert variance is not None
    quantiles = np.searchsorted(np.cumsum(pmf), np.array([0.5, 0.99]) - 1e-9)
    edges = np.arange(-0.5, size) / (workers - 1)
    limit = np.diff(theory.staleness_limit_cdf(edges, compute=law)) if law.variance else np.full(size, np.nan)
    return {
        "predicted_mean": known.mean,
        "mean": np.mean([run.mean() for run in runs]),
        "predicted_sd": np.sqrt(variance),
        "sd": deviation.value,
        "sd_error": deviation.error,
        "predicted_median": quantiles[0],
        "median": np.quantile(together, 0.5, method="inverted_cdf"),
        "predicted_p99": quantiles[1],
        "p99": np.quantile(together, 0.99, method="inverted_cdf"),
        "total_variation": asim.trace.total_variation(together, pmf),
        "shares": np.bincount(np.minimum(together, size), minlength=size + 1)[:size] / len(together),
        "pmf": pmf,
        "limit": limit,
    }


def draw(figure, numbers) -> None:
    """One small panel per law, all with the same axes."""
    n, laws = int(numbers["workers"]), numbers["law"]
    panels = figure.subplots(2, 3, sharex=True, sharey=True).flat
    shown = np.arange(LARGEST_SHOWN * (n - 1) + 1)
    halves = np.where(np.arange(numbers["limit"].shape[1]) == 0, 2, 1)  # half of the bin at 0 is negative
    limit = numbers["limit"] * halves
    top = 1.05 * np.nanmax(limit)
    for row, (ax, law) in enumerate(zip(panels, laws, strict=True)):
        edges = np.append(shown, len(shown)) - 0.5
        ax.stairs(numbers["shares"][row][shown], edges, fill=True, color=BLUE, alpha=0.85, label="simulated")
        ax.stairs(numbers["pmf"][row][shown], edges, color=INK, linewidth=1.1, label="predicted")
        ax.plot(
            shown,
            limit[row][shown],
            color=VERMILION,
            linewidth=1.2,
            linestyle=(0, (1, 1.2)),
            label="law of the compute time",
        )
        ax.axvline(n - 1, color=GREY, linewidth=0.9, linestyle=(0, (4, 3)), label=f"mean, n − 1 = {n - 1}")
        if numbers["pmf"][row].max() > top:
            ax.annotate(f"always {n - 1} ↑", (n - 1, 0.9 * top), (6, 0), textcoords="offset points", va="center")
        words = [f"sd {numbers['sd'][row]:.3g}", f"median {numbers['median'][row]:g}", f"99 % {numbers['p99'][row]:g}"]
        ax.text(0.97, 0.93, "\n".join(words), transform=ax.transAxes, ha="right", va="top", color=GREY, size=8.5)
        ax.set(title=law, xlim=(-0.5, shown[-1] + 0.5), ylim=(0, top))
    for ax in figure.axes[3:]:
        ax.set_xlabel("staleness, in server versions")
    for ax in figure.axes[::3]:
        ax.set_ylabel("share of commits")
    handles, labels = figure.axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=4)


experiment = asim.Experiment(compute, draw, title="One mean, many shapes", size=(9.6, 5.8))

if __name__ == "__main__":
    asim.main(experiment)
