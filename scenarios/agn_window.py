"""How long a window may be: accumulated DOWNPOUR, AGN and AEASGD against window, step size and number of workers.

Every worker processes the same number of mini-batches, whatever the window. What DOWNPOUR commits grows with the
window: the longer the window, the smaller the steps must be. AGN divides by the window and tolerates larger steps,
above all beyond λ = 2n/π = 0.64·n: from there on, theory (a quadratic, round robin, local SGD) predicts that it is
stable at any step size at which a single worker is. AEASGD has α = 0.5 throughout, and an atomic exchange.

    asyncsim run scenarios/agn_window.py
    asyncsim run scenarios/agn_window.py --workers 10,30 --windows 5,20,40 --out runs/agn_at_30
"""

import numpy as np
from numpy.typing import ArrayLike

import asyncsim as asim
from asyncsim.plots.style import INK
from asyncsim.reports.replicates import batched

STEP_SIZES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
ELASTICITY = 0.5  # α of AEASGD, Distributed Keras' default
RULES = ("downpour", "agn", "aeasgd")
HALF = 0.5  # a seed with a lower test accuracy has failed


def compute(
    workers=(10, 20), windows=(1, 5, 10, 20, 40), mini_batches=400, step_size=0.1, cv=0.3, seeds=3, batch_size=16
) -> dict[str, np.ndarray]:
    """Test loss and accuracy of the final central variable, for every step size and seed.

    Args:
        workers: Numbers of workers.
        windows: Local steps between two commits, λ.
        mini_batches: Mini-batches per worker.
        step_size: The step size whose results are in the table.
        cv: Coefficient of variation of the time of a mini-batch.
        seeds: Seeds of initial parameters and mini-batches.
        batch_size: Examples in a mini-batch.
    """
    workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=batch_size)
    steps = np.unique([*STEP_SIZES, step_size])
    lanes = batched(steps, seeds)
    loss = np.empty((len(RULES), len(workers), len(windows), seeds, len(steps)))
    accuracy = np.empty_like(loss)
    for i, n in enumerate(workers):
        for j, window in enumerate(windows):
            trace = schedule(n, window, mini_batches, cv, room=max(workers))
            for k, name in enumerate(RULES):
                test = asim.replay(trace, make_rule(name, window, lanes.values), workload, seed=lanes.seeds).evaluate()
                loss[k, i, j] = test["test_loss"].reshape(seeds, -1)
                accuracy[k, i, j] = test["test_accuracy"].reshape(seeds, -1)
    failed = accuracy < HALF
    here = np.searchsorted(steps, step_size)
    means = np.where(failed.any(axis=3), np.nan, loss.mean(axis=3))
    some = np.isfinite(means).any(axis=3)
    best = np.where(np.isfinite(means), means, np.inf).argmin(axis=3)
    names, ns, lambdas = (column.ravel() for column in np.meshgrid(RULES, workers, windows, indexing="ij"))
    return {
        "rule": names,
        "workers": ns,
        "window": lambdas,
        "test_loss": np.median(loss[..., here], axis=3).ravel(),
        "failed_seeds": failed[..., here].sum(axis=3).ravel(),
        "learns_up_to": largest_sound(~np.any(failed, axis=3), steps).ravel(),
        "best_step_size": np.where(some, steps[best], np.nan).ravel(),
        "best_test_loss": np.take_along_axis(means, best[..., None], axis=3).ravel(),
        "worker_counts": np.array(workers),
        "windows": np.array(windows),
        "step_sizes": steps,
        "all_losses": loss,
        "all_accuracies": accuracy,
    }


def schedule(workers: int, window: int, mini_batches: int, cv: float, room: int) -> asim.Trace:
    """Asynchronous commits, each after a window of gamma times; with `room` workers, so that all share one program."""
    law = asim.delays.Gamma(mean=1.0, cv=cv) if cv else asim.delays.Constant(1.0)
    cluster = asim.Cluster(workers, law, local_steps=window)
    trace = asim.simulate(cluster, commits=max(1, workers * mini_batches // window))
    return asim.Trace.from_commits(trace.worker, trace.commit_time, workers=room)


def make_rule(name: str, window: int, steps: np.ndarray) -> asim.Rule:
    """The rule with these step sizes, one per lane."""
    if name == "aeasgd":
        return asim.rules.AEASGD(window=window, rho=ELASTICITY / steps, learning_rate=steps)
    if name == "agn":
        return asim.rules.AGN(steps, window=window)
    return asim.rules.Downpour(steps, window=window)


def largest_sound(sound: ArrayLike, steps: np.ndarray) -> np.ndarray:
    """The largest step size up to which all are sound; 0 if even the smallest is not."""
    count = np.cumprod(np.asarray(sound), axis=-1).sum(axis=-1)
    return np.concatenate([[0.0], steps])[count]


def draw(figure, numbers) -> None:
    """Maps of the median test accuracy over window and step size, for each rule and number of workers."""
    counts = numbers["worker_counts"]
    axes = figure.subplots(len(counts), len(RULES), sharex=True, sharey=True, squeeze=False)
    titles = {"downpour": "DOWNPOUR, accumulated", "agn": "AGN", "aeasgd": f"AEASGD, α = {ELASTICITY:g}"}
    for row, n in enumerate(counts):
        for column, name in enumerate(RULES):
            ax = axes[row, column]
            draw_map(ax, numbers["all_accuracies"][column, row])
            if name == "agn":
                draw_bound(ax, n, numbers["windows"])
            ax.set_title(f"{titles[name]}, n = {n}")
            ax.set_yticks(range(len(numbers["step_sizes"])), [f"{step:g}" for step in numbers["step_sizes"]])
            ax.set_xticks(range(len(numbers["windows"])), [str(window) for window in numbers["windows"]])
            ax.grid(False)
    for ax in axes[-1]:
        ax.set_xlabel("window λ")
    for ax in axes[:, 0]:
        ax.set_ylabel("step size")


def draw_map(ax, accuracy: np.ndarray) -> None:
    """One cell per window and step size, with the median accuracy in percent, or the number of failed seeds."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("accuracy", ["#F3E4DA", "#EDEFF1", "#D3E6F2", "#56B4E9"])
    percent = 100 * np.median(accuracy, axis=1).T
    failed = (accuracy < HALF).sum(axis=1).T
    ax.imshow(percent, origin="lower", aspect="auto", cmap=colours, vmin=10, vmax=100)
    for (y, x), value in np.ndenumerate(percent):
        lost = f"×{failed[y, x]}" if failed[y, x] else f"{value:.1f}"
        ax.text(x, y, lost, ha="center", va="center", fontsize=8, color=INK)


def draw_bound(ax, workers: int, windows: np.ndarray) -> None:
    """The window from which AGN is stable in theory, interpolated between the windows of the map."""
    bound = np.interp(np.log(2 * workers / np.pi), np.log(windows), np.arange(len(windows)))
    ax.axvline(bound, color=INK, linewidth=1.2, linestyle=(0, (3, 2)))
    above = {"textcoords": "offset points", "ha": "left", "va": "bottom", "fontsize": 8, "color": INK}
    ax.annotate("0.64 n", (bound, ax.get_ylim()[1]), (0, 2), **above)


experiment = asim.Experiment(
    compute, draw, title="Windows: test accuracy in %, ×k where k seeds failed", size=(11.0, 6.4)
)

if __name__ == "__main__":
    asim.main(experiment)
