"""Figure 9: the median of π of each tensor of AlexNet against time, 8 workers.

The paper claims that π adapts to each tensor: with 8 workers, most tensors stay near 0 with bursts, and the last weight
matrix (tensor 14) is bright from about update 400 on. The claims are judged by the share of the medians of tensors 0 to
13 that are near 0, and by whether tensor 14's mean over the second half of the run exceeds the mean of those.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

import asyncsim as asim
from asyncsim.plots.style import BLUE, VERMILION
from figures import figure7
from figures.common.figure_set import UNCACHED, Claim, RunCache, numbers
from figures.common.tables import Numbers, pack, table

TITLE = "Figure 9: the median of π of each tensor of AlexNet against time, 8 workers"
SIZE = (9.6, 4.8)
WORKERS = 8
TENSORS, LAST = 16, 14  # the last weight matrix
NEAR = 0.1
MOSTLY = 0.5
LAYERS = ("conv1", "conv2", "conv3", "conv4", "conv5", "linear1", "linear2", "linear3")
task = figure7.task
SEEDS_SHOWN = "the map of the first and the means over time of all"


def scenarios(scale: str, seed: int) -> dict[int, asim.Scenario]:
    """The run of figure 7 with 8 workers."""
    return scenarios_of(scale, seed, WORKERS)


def scenarios_of(scale: str, seed: int, workers: int) -> dict[int, asim.Scenario]:
    """The run of figure 7 with a number of workers."""
    return {workers: figure7.scenarios(scale, seed)[workers]}


def compute(scale: str = "quick", seed: int = 0, runs: RunCache = UNCACHED) -> dict[str, np.ndarray]:
    """Median π of each tensor by server update."""
    return medians(scale, seed, runs, WORKERS)


def medians(scale: str, seed: int, runs: RunCache, workers: int) -> dict[str, np.ndarray]:
    """Table `pi` with columns tensor, update and median_pi."""
    run = runs.get(scenarios_of(scale, seed, workers)[workers])
    values, at = run.records["pi_median_by_tensor"], run.recorded_at["pi_median_by_tensor"]
    tensors, updates = np.meshgrid(np.arange(TENSORS), at[: len(values)] + 1, indexing="ij")
    return pack(pi={"tensor": tensors.ravel(), "update": updates.ravel(), "median_pi": values.T.ravel()})


def claims(seeds: Sequence[Numbers], scale: str) -> list[Claim]:
    """Whether most tensors are near 0 and the last weight matrix is bright."""
    return judge(seeds, scale, WORKERS)


def judge(seeds: Sequence[Numbers], scale: str, workers: int) -> list[Claim]:
    """The claims for a number of workers."""
    maps = [heat(seed) for seed in seeds]
    near = np.array([(pi[:LAST] < NEAR).mean() for pi in maps])
    second = np.array([pi[:, pi.shape[1] // 2 :].mean(axis=1) for pi in maps])
    last, others = second[:, LAST], second[:, :LAST].mean(axis=1)
    return [
        Claim(
            f"with {workers} workers the medians of tensors 0 to 13 are mostly near 0",
            f"share of the recorded medians below {NEAR:g}, more than {MOSTLY:.0%} for every seed",
            f"{task(scale)}: {numbers(near)}",
            bool((near > MOSTLY).all()),
        ),
        Claim(
            f"with {workers} workers the last weight matrix, tensor 14, is bright",
            "its mean over the second half of the run above the mean of tensors 0 to 13, for every seed",
            f"tensor 14: {numbers(last)}; tensors 0 to 13: {numbers(others)}",
            bool((last > others).all()),
        ),
    ]


def heat(seed: Numbers) -> np.ndarray:
    """(tensors, commits at which they were recorded): the medians of one seed."""
    return table(seed, "pi")["median_pi"].reshape(TENSORS, -1)


def draw(figure: Any, seeds: Sequence[Numbers], scale: str) -> None:
    """The map of seed 0, because a mean would blur its bursts; next to it, the means over time of all seeds."""
    del scale
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
    pi, updates = heat(seeds[0]), table(seeds[0], "pi")["update"]
    extent = (0, updates.max(), TENSORS - 0.5, -0.5)
    image = left.imshow(pi, aspect="auto", extent=extent, interpolation="nearest", cmap="magma", vmin=0, vmax=5)
    left.set(title="seed 0", xlabel="server updates", ylabel="tensor")
    names = [f"{layer} {part}" for layer in LAYERS for part in ("weight", "bias")]
    left.set_yticks(range(TENSORS), [f"{name}  {k}" for k, name in enumerate(names)], size=7.5)
    left.grid(False)
    figure.colorbar(image, ax=left, label="median of π", pad=0.01)
    for seed in seeds:
        right.plot(heat(seed).mean(axis=1), range(TENSORS), "o", color=BLUE, markersize=4, alpha=0.7)
    right.axhline(LAST, color=VERMILION, linewidth=0.8, zorder=1)
    right.set(title="means", xlabel="median of π", xlim=(0, None))
