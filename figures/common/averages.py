"""Curves as the paper draws them: means over blocks of a few commits per worker, which the paper calls worker steps."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncsim import Scenario
from figures.common.figure_set import CachedRun, RunCache
from figures.common.tables import pack, stack

BLOCK = 5  # commits per worker in a mean, as the paper's curves show


def loss_curve(run: CachedRun, block: int = BLOCK) -> dict[str, Any]:
    """Training loss: means over blocks of `block` commits per worker.

    Returns:
        Columns `worker_steps`, the ends of the blocks, and `training_loss`, NaN from where the run diverged.
    """
    return {"worker_steps": ends(run, block), "training_loss": in_blocks(run.loss, block * run.workers)}


def record_curve(run: CachedRun, name: str, block: int = BLOCK) -> np.ndarray:
    """Means of a recorded quantity over the same blocks, NaN from where the run diverged.

    Returns:
        (blocks,), or (blocks, …) if the quantity has axes of its own.

    Raises:
        ValueError: If the quantity was not recorded.
    """
    if name not in run.records:
        raise ValueError(f"`name` must be a recorded quantity; got {name!r}. Recorded were {', '.join(run.records)}.")
    values, at = np.asarray(run.records[name], np.float64), run.recorded_at[name]
    block_of = at // (block * run.workers)
    blocks = len(ends(run, block))
    inside = block_of < blocks
    sums = np.zeros((blocks, *values.shape[1:]))
    np.add.at(sums, block_of[inside], values[inside])
    counts = np.bincount(block_of[inside], minlength=blocks).reshape(-1, *[1] * (values.ndim - 1))
    means = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)
    if run.diverged_at is not None:
        means[run.diverged_at // (block * run.workers) :] = np.nan
    return means


def losses_of(scenarios: Mapping[tuple[str, int], Scenario], runs: RunCache) -> dict[str, np.ndarray]:
    """Tables of runs that are named by rule and workers: `curves` with their losses, `final` with how each ended."""
    curves, final = [], []
    for (rule, workers), scenario in scenarios.items():
        run, which = runs.get(scenario), {"rule": rule, "workers": workers}
        curves.append({**which, **loss_curve(run)})
        final.append({**which, "training_loss": run.final_loss, "test_accuracy": run.test_accuracy})
    return pack(curves=stack(curves), final=stack(final))


def ends(run: CachedRun, block: int = BLOCK) -> np.ndarray:
    """The ends of the blocks, in commits per worker."""
    return block * np.arange(1, run.commits_per_worker // block + 1)


def in_blocks(values: np.ndarray, size: int) -> np.ndarray:
    """Means over blocks of `size` values; an incomplete block at the end is left out.

    Example:
        >>> in_blocks(np.array([1.0, 3.0, 5.0, 7.0, 9.0]), 2).tolist()
        [2.0, 6.0]
    """
    blocks = len(values) // size
    return np.asarray(values[: blocks * size], np.float64).reshape(blocks, size).mean(axis=1)
