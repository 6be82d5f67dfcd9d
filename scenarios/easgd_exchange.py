"""What three commits between a pull and its commit do to AEASGD: atomic against separate exchange.

An elastic exchange of strength α moves worker and centre towards each other. If the worker's copy of the centre is τ'
commits old, the exchange overshoots. Left: how strong it may be on a quadratic under round robin, by replay and exactly
(the spectral radius of a round), for workers that hardly move between exchanges and for workers that come to rest in
each window; for the latter, theory requires α < 2 sin(π/(2(2τ' + 1))). Middle: digits, on constructed schedules with
exactly τ' commits between pull and commit. Right: digits on a cluster whose pulls take time: beware of small windows.

    asyncsim run scenarios/easgd_exchange.py
    asyncsim run scenarios/easgd_exchange.py --window 5 --out runs/easgd_window_5
"""

from dataclasses import replace
from functools import cache

import numpy as np

import asyncsim as asim
from asyncsim.delays import Constant, Gamma
from asyncsim.plots.style import BLUE, GREEN, GREY, INK, VERMILION
from asyncsim.reports.replicates import batched

STEP_SIZE = 0.1
GRID = 48  # strengths in a search on the quadratic
WORST = 1e3  # larger test losses are drawn here
MOVES = (0.9, 1e-3)  # share of x that is left after a window on the quadratic: hardly moved, and at rest


def compute(
    workers=10,
    lags=(0, 1, 2, 3, 4, 5),
    alphas=(0.5, 0.05),
    window=20,
    windows=(1, 2, 5, 10, 32),
    mini_batches=320,
    latency=0.5,
    seeds=3,
    batch_size=16,
) -> dict[str, np.ndarray]:
    """Limits of the exchange strength, and test losses of the final central variable.

    Args:
        workers: Number of workers.
        lags: Commits between a worker's pull and its own commit, τ', on the constructed schedules.
        alphas: Strengths of the exchange, α = step size times ρ.
        window: Local steps between two exchanges on the constructed schedules.
        windows: Local steps between two exchanges on the cluster.
        mini_batches: Mini-batches per worker.
        latency: Seconds that a message takes one way on the cluster, where a mini-batch takes one second.
        seeds: Seeds of initial parameters and mini-batches.
        batch_size: Examples in a mini-batch.
    """
    workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=batch_size)
    study = {"workload": workload, "alphas": np.array(alphas), "seeds": seeds}
    by_hand = [pulled_before(workers, max(1, workers * mini_batches // window), lag) for lag in lags]
    clusters = [pulling_cluster(workers, each, mini_batches, latency) for each in windows]
    return {
        "lag": np.array(lags),
        "centre_alone": centre_alone(np.array(lags)),
        **{f"exact_limit_{i}": np.array([exact_limit(workers, lag, left) for lag in lags]) for i, left in RESTS},
        **{f"limit_{i}": np.array([simulated_limit(workers, lag, left) for lag in lags]) for i, left in RESTS},
        "alphas": np.array(alphas),
        "windows": np.array(windows),
        "commits_between": np.array([(trace.version - trace.pull_version).mean() for trace in clusters]),
        "by_hand": np.array([[losses(trace, window, kind, **study) for trace in by_hand] for kind in (True, False)]),
        "on_clusters": np.array(
            [
                [losses(trace, each, kind, **study) for trace, each in zip(clusters, windows, strict=True)]
                for kind in (True, False)
            ]
        ),
    }


RESTS = tuple(enumerate(MOVES))


def pulled_before(workers: int, commits: int, lag: int) -> asim.Trace:
    """Round robin with exactly `lag` commits between each pull and its commit, as soon as there have been that many."""
    trace = asim.simulate(asim.Cluster(workers, Constant(1.0)), commits=commits)
    trace = replace(trace, pull_version=np.maximum(trace.version - lag, trace.read_version))
    trace.check()
    return trace


def pulling_cluster(workers: int, window: int, mini_batches: int, latency: float) -> asim.Trace:
    """A cluster in which pull, commit and read are separate requests."""
    network, server = asim.Network(latency=Constant(latency)), asim.Server(atomic=False)
    cluster = asim.Cluster(workers, Gamma(1.0, 0.3), network=network, server=server, local_steps=window)
    return asim.simulate(cluster, commits=max(1, workers * mini_batches // window))


def losses(
    trace: asim.Trace, window: int, atomic: bool, workload: asim.Workload, alphas: np.ndarray, seeds: int
) -> np.ndarray:
    """(seeds, alphas) test losses."""
    lanes = batched(alphas / STEP_SIZE, seeds)
    rule = asim.rules.AEASGD(STEP_SIZE, window=window, rho=lanes.values, atomic=atomic)
    run = asim.replay(trace, rule, workload, seed=lanes.seeds)
    return run.evaluate()["test_loss"].reshape(seeds, len(alphas))


def centre_alone(lag: np.ndarray) -> np.ndarray:
    """2 sin(π/(2(2τ' + 1))): the strength above which a centre diverges although its workers stand still."""
    return 2 * np.sin(np.pi / (2 * (2 * lag + 1)))


@cache
def exact_limit(workers: int, lag: int, left: float) -> float:
    """The strength at which the spectral radius of a round of exchanges passes 1, to four digits."""
    low, high = 0.0, 2.5
    for fine in np.linspace(0.01, high, 250):
        if radius(workers, lag, fine, left) > 1 + 1e-9:
            low, high = fine - 0.01, fine
            break
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (low, middle) if radius(workers, lag, middle, left) > 1 + 1e-9 else (middle, high)
    return low


def radius(workers: int, lag: int, alpha: float, left: float) -> float:
    """Spectral radius of one round of (θ_t, …, θ_{t-τ'}, x_1, …, x_n), if a window leaves the share `left` of an x."""
    size = lag + 1 + workers
    total = np.eye(size)
    for worker in range(lag + 1, size):
        commit = np.eye(size)
        commit[1 : lag + 1] = np.eye(size)[:lag]  # the centre's past shifts by one
        commit[0, worker] += alpha * left
        commit[0, lag] -= alpha
        commit[worker] = 0
        commit[worker, worker], commit[worker, lag] = (1 - alpha) * left, alpha
        total = commit @ total
    return float(abs(np.linalg.eigvals(total)).max())


def simulated_limit(workers: int, lag: int, left: float) -> float:
    """The largest strength of a grid around the exact limit at which a replay on a quadratic does not grow."""
    limit = exact_limit(workers, lag, left)
    alphas = limit * np.linspace(0.8, 1.2, GRID)
    rate = 1 - left  # of one local step on L = x²/2
    rule = asim.rules.AEASGD(rate, window=1, rho=alphas / rate, atomic=False)
    trace = pulled_before(workers, 400 * workers, lag)
    loss = asim.replay(trace, rule, asim.workloads.Quadratic([1.0]), seed=[0] * GRID, stop_on_divergence=False).loss
    quarter = len(trace) // 4
    early, late = loss[:, quarter : 2 * quarter].max(axis=1), loss[:, -quarter:].max(axis=1)
    bounded = np.isfinite(late) & (late <= np.maximum(early, 1e-12))
    return float(alphas[max(np.cumprod(bounded).sum() - 1, 0)])


def draw(figure, numbers) -> None:
    """Limits, and test losses on digits with both kinds of schedule."""
    left, middle, right = figure.subplots(1, 3)
    draw_limits(left, numbers)
    draw_losses(middle, numbers, numbers["lag"], numbers["by_hand"])
    middle.set(title="Digits, exact lags", xlabel="commits between pull and commit τ'", ylabel="test loss")
    middle.set_xticks(numbers["lag"])
    places = np.arange(len(numbers["windows"]))
    draw_losses(right, numbers, places, numbers["on_clusters"])
    right.set(
        title="Digits, pulls that take time", ylabel="test loss", xlabel="window λ, and commits between on average"
    )
    pairs = zip(numbers["windows"], numbers["commits_between"], strict=True)
    right.set_xticks(places, [f"{window}\n{between:.1f}" for window, between in pairs])
    right.legend(loc="center right")


def draw_limits(ax, numbers) -> None:
    """The largest α against τ'."""
    lag = numbers["lag"]
    ax.plot(lag, numbers["centre_alone"], color=GREY, linewidth=4, alpha=0.5, label="2 sin(π/(2(2τ' + 1)))")
    looks = ((BLUE, "o", f"{MOVES[0]:g} of x left in a window"), (GREEN, "s", "nothing of x left in a window"))
    for i, (color, marker, label) in enumerate(looks):
        ax.plot(lag, numbers[f"exact_limit_{i}"], color=color, linewidth=1.0)
        ax.plot(lag, numbers[f"limit_{i}"], marker, color=color, label=label)
    ax.axhline(0.5, color=INK, linewidth=0.9, linestyle=(0, (3, 2)))
    ax.set(title="How strong an exchange may be", xlabel="commits between pull and commit τ'", ylabel="largest α")
    ax.set(yscale="log", yticks=[0.25, 0.5, 1.0, 2.0])
    ax.set_yticks([], minor=True)
    ax.set_yticklabels(["0.25", "0.5", "1", "2"])
    ax.set_xticks(lag)
    ax.legend(title="lines exact, marks replayed", alignment="left")


def draw_losses(ax, numbers, x, losses: np.ndarray) -> None:
    """Median over seeds as a line and every seed as a dot, for each strength and kind of exchange."""
    shown = np.clip(np.nan_to_num(losses, nan=WORST, posinf=WORST), None, WORST)
    for kind, (name, line) in enumerate((("atomic", (0, (3, 2))), ("separate", "-"))):
        for k, (alpha, color) in enumerate(zip(numbers["alphas"], (VERMILION, BLUE, GREEN), strict=False)):
            look = {"color": color, "linestyle": line, "label": f"{name}, α = {alpha:g}"}
            ax.plot(x, np.median(shown[kind, :, :, k], axis=1), **look)
            ax.plot(x, shown[kind, :, :, k], ".", color=color, markersize=4)
    ax.set(yscale="log", ylim=(0.05, 2 * WORST))
    ax.axhline(WORST, color=GREY, linewidth=0.8, linestyle=":")
    ax.annotate("diverged", (0.02, WORST), (0, 3), ("axes fraction", "data"), "offset points", fontsize=8, color=GREY)


experiment = asim.Experiment(compute, draw, title="Elastic exchange: atomic or separate", size=(12.0, 4.4))

if __name__ == "__main__":
    asim.main(experiment)
