"""NoLoCo: up to which outer momentum do random pairs hold the workers together?

In a direction without curvature only the pairs pull the outer weights together. Theory says that they stay together up
to a momentum of .867, .832 and .818 with 4, 8 and 16 workers at an outer step of .7, so that DiLoCo's .9 drives them
apart. Each dot is the mean distance in the second half of the rounds. The line is its stationary value, which grows
without bound at the limit.

    asyncsim run scenarios/noloco_momentum.py
    asyncsim run scenarios/noloco_momentum.py --outer-step .5 --rounds 400
"""

import numpy as np

import asyncsim as asim
from asyncsim import graphs, theory
from asyncsim.plots.style import BLUE, DASHED, GREEN, GREY, VERMILION
from asyncsim.reports.replicates import mean_and_error

FLAT, STEP = 1e-6, 0.1  # curvature of the loss, and step size of the one local step in a window
COPIES = 32  # coordinates, whose noise is independent


def compute(
    momentum=(0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9),
    workers=(4, 8, 16),
    outer_step=0.7,
    rounds=200,
    seeds=12,
) -> dict[str, np.ndarray]:
    """Distance of the outer weights from their mean, for each number of workers and each momentum.

    Args:
        momentum: Momenta of the outer step.
        workers: Numbers of workers, which are even.
        outer_step: Outer step size.
        rounds: Length of each run, in windows of each worker.
        seeds: Seeds of the pairs and of the noise.
    """
    workload = asim.workloads.Quadratic([FLAT] * COPIES, noise=1.0, start=0.0)

    def measure(n: int, seed: int) -> np.ndarray:
        graph = graphs.RandomGroups(size=2, seed=seed)
        cluster = asim.Gossip(n, asim.delays.Constant(1.0), graph=graph, exchange="adapt_then_combine")
        trace = asim.simulate(cluster, commits=n * rounds, seed=seed)
        distances = []
        for value in momentum:
            outer = {"server_learning_rate": outer_step, "momentum": value}
            rule = asim.rules.NoLoCo(STEP, window=1, optimiser="sgd", **outer)
            run = asim.replay(trace, rule, workload, seed=seed, record=("read",))
            outer_weights = np.asarray(run.records["read"], float).reshape(rounds, n, -1)
            distances.append(outer_weights[rounds // 2 :].var(axis=1).mean() / STEP**2)
        return np.array(distances)

    rows = [mean_and_error([measure(n, seed) for seed in range(seeds)]) for n in workers]
    floors = [[theory.noloco_noise_floor(outer_step, value, 0.0, n) for value in momentum] for n in workers]
    return {
        "momentum": np.array(momentum),
        "workers": np.array(workers),
        "distance": np.array([row.value for row in rows]),
        "error": np.array([row.error for row in rows]),
        "predicted": np.array(floors),
        "limit": np.array([theory.noloco_limit(outer_step, n) for n in workers]),
    }


def draw(figure, numbers) -> None:
    """Distance against momentum, with the predicted values and limits."""
    ax = figure.subplots()
    for place, (n, color) in enumerate(zip(numbers["workers"], (BLUE, GREEN, VERMILION), strict=False)):
        look = {"color": color, "fmt": "o", "label": f"{n} workers"}
        ax.errorbar(numbers["momentum"], numbers["distance"][place], 2 * numbers["error"][place], **look)
        stable = np.isfinite(numbers["predicted"][place])
        ax.plot(numbers["momentum"][stable], numbers["predicted"][place][stable], color=color)
        ax.axvline(numbers["limit"][place], color=color, linestyle=DASHED, linewidth=1)
    ax.plot([], [], color=GREY, label="theory")
    ax.plot([], [], color=GREY, linestyle=DASHED, linewidth=1, label="limit of theory")
    ax.set(yscale="log", xlabel="outer momentum", ylabel="mean squared distance, noise of a window 1")
    ax.legend()


experiment = asim.Experiment(compute, draw, title="How much momentum pairs can hold", size=(7.2, 4.4))

if __name__ == "__main__":
    asim.main(experiment)
