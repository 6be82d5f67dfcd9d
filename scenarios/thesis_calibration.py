"""The authors' own cluster, calibrated: three numbers and their intervals from 56 training times.

Hermans (2017) trained with 28 combinations of workers and communication window, with AGN and with AEASGD. The model of
`thesis_cluster.py` has a time for a mini-batch, for a pull and commit at the server, and for starting up. Here they are
fitted, by the least sum of |log(measured / predicted)| (the likelihood of Laplace's law, which a few wild times do not
move); their 90 % intervals come from fits to resampled combinations. Then each number of workers is left out in turn
and predicted from the others.

Found: .413 s for a mini-batch (.384 to .438), .394 s for a commit (.380 to .431), 36 s to start up (9 to 51); the
median error is 4.0 %, and 5.7 % for numbers of workers that were left out. So the table hardly identifies start-up.

    asyncsim run scenarios/thesis_calibration.py
"""

from pathlib import Path

import numpy as np
from scipy.optimize import minimize

import asyncsim as asim
from asyncsim.plots.style import BLUE, GREY, VERMILION

TIMES = Path(__file__).parent.parent / "figures" / "paper" / "thesis_times.csv"
MINI_BATCHES = 18_750
METHODS = ("agn", "aeasgd")
NAMES = ("mini-batch", "service", "start-up")
START = (0.5, 0.5, 20.0)  # seconds, where the search begins


def predicted(parameters, workers, window):
    """Training times, exactly as the simulation has them, for constant laws.

    All workers begin together, queue once, and then commit in turn, with the period max(compute + service, n service).
    """
    batch, service, startup = parameters
    compute, last = batch * window, np.round(MINI_BATCHES / window) - 1
    period = np.maximum(compute + service, workers * service)
    return startup + last // workers * period + compute + (last % workers + 1) * service


def fitted(workers, window, measured) -> np.ndarray:
    """The three numbers, from (cells,) workers and windows and (methods, cells) seconds."""

    def loss(logs):
        return np.abs(np.log(measured / predicted(np.exp(logs), workers, window))).sum()

    found = minimize(loss, np.log(START), method="Nelder-Mead", options={"maxiter": 2000, "xatol": 1e-4, "fatol": 1e-4})
    return np.exp(found.x)


def compute(resamples=200, seed=0) -> dict[str, np.ndarray]:
    """The three numbers, their intervals, and the times of the numbers of workers that were left out.

    Args:
        resamples: Fits behind the intervals.
        seed: Of the resampling.
    """
    table = np.genfromtxt(TIMES, delimiter=",", names=True)
    workers, window = table["workers"], table["window"]
    measured = np.array([table[f"{name}_seconds"] for name in METHODS])
    best = fitted(workers, window, measured)
    generator = np.random.default_rng(seed)
    cells = generator.integers(len(workers), size=(resamples, len(workers)))
    drawn = np.array([fitted(workers[row], window[row], measured[:, row]) for row in cells])
    low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
    left_out = np.empty(len(workers))
    for n in np.unique(workers):
        others = workers != n
        found = fitted(workers[others], window[others], measured[:, others])
        left_out[~others] = predicted(found, workers[~others], window[~others])
    errors = np.abs(measured / left_out - 1)
    return {
        "parameter": np.array(NAMES),
        "seconds": best,
        "low": low,
        "high": high,
        "median_error": np.median(np.abs(measured / predicted(best, workers, window) - 1)),
        "median_error_left_out": np.median(errors),
        "drawn": drawn,
        "workers": workers,
        "left_out": left_out,
        "measured": measured,
    }


def draw(figure, numbers) -> None:
    """The fits to resampled tables, and measured against predicted times of the rows left out."""
    grid = figure.add_gridspec(3, 2, width_ratios=(1, 1.4))
    for row, name in enumerate(NAMES):
        ax = figure.add_subplot(grid[row, 0])
        ax.hist(numbers["drawn"][:, row], 30, color=BLUE, alpha=0.5)
        ax.axvline(numbers["seconds"][row], color=VERMILION)
        for end in ("low", "high"):
            ax.axvline(numbers[end][row], color=GREY, linestyle="--", linewidth=1)
        ends = f"{numbers['low'][row]:.3g} to {numbers['high'][row]:.3g}"
        ax.set(title=f"{name}: {numbers['seconds'][row]:.3g} s ({ends})", xlabel="seconds", yticks=[])
    ax = figure.add_subplot(grid[:, 1])
    ends = [0.9 * numbers["left_out"].min(), 1.1 * numbers["left_out"].max()]
    ax.plot(ends, ends, color=GREY, linewidth=1)
    for name, times, colour, marker in zip(METHODS, numbers["measured"], (BLUE, VERMILION), "os", strict=True):
        ax.plot(numbers["left_out"], times, marker, color=colour, label=name.upper(), markersize=5, alpha=0.85)
    error = float(numbers["median_error_left_out"])
    title = f"Left out and predicted: median error {error:.1%}"
    ax.set(xlabel="predicted from other numbers of workers, seconds", ylabel="measured, seconds", title=title)
    ax.legend(loc="lower right")


experiment = asim.Experiment(compute, draw, title="A real cluster, calibrated", size=(10.4, 6.8))

if __name__ == "__main__":
    asim.main(experiment)
