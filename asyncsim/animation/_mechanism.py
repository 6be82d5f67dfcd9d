"""The recorded quantity `mechanism`: the update that a rule makes of every gradient, for the magnifier of a movie.

`mechanism` is recorded in a replay, and `make_mechanism` takes from the record the jobs that a page shows.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from asyncsim.engine import CommitView, Run
from asyncsim.engine._quantities import all_values
from asyncsim.trace import Trace
from asyncsim.trace._columns import previous_own_row

NAME = "mechanism"  # under which it is recorded
CLAMP = 5.0  # the largest π of the published script


def mechanism(commit: CommitView) -> jax.Array:
    """Record how a rule changes every gradient, so that a moving page can show it.

    Give it to `replay` as ``record={"central": 1, "read": 1, "mechanism": asim.animation.mechanism}``. Choose a worker
    on the page of `animate`, and you see its gradient, the motion of the others since its read, the length κ|m| that
    Gradient Energy Matching allows, and the factor π that follows.

    Args:
        commit: One commit.

    Returns:
        (4, parameters): the worker's own update Δθ, the proxy's step κ·m, the factor π, and the central variable that
        the worker pulled before its commit. A row is NaN if the rule has no such quantity.

    Example:
        >>> import asyncsim as asim
        >>> trace, record = asim.Trace.from_commits([0, 0]), {"mechanism": asim.animation.mechanism}
        >>> run = asim.replay(trace, asim.rules.GEM(0.1), asim.workloads.Quadratic([1.0]), record=record)
        >>> run.records["mechanism"][:, :3, 0].astype(float).round(3).tolist()  # Δθ, κ·m and π of both commits
        [[-0.1, -0.1, 1.0], [-0.09, -0.18, 0.889]]
    """
    pulled = all_values(commit.view.pulled)
    quantities = [commit.info.update, commit.info.proxy, commit.info.pi]
    rows = [jnp.full_like(pulled, jnp.nan) if quantity is None else all_values(quantity) for quantity in quantities]
    return jnp.stack([*rows, pulled])


@dataclass(frozen=True, eq=False)
class Mechanism:
    """The update of a rule for some jobs' gradients, each (jobs, 2), or None for a quantity that the rule lacks."""

    update: NDArray[np.float64]  # Δθ, the worker's own
    proxy: NDArray[np.float64] | None  # κ·m, which limits the motion since `since`
    pi: NDArray[np.float64] | None  # the factor by which the rule multiplies the update
    since: NDArray[np.float64]  # the point from which the motion of the others is counted
    clamped: bool  # whether π lies between 0 and `CLAMP`


def make_mechanism(run: Run, trace: Trace, rows: NDArray[np.int64], read: NDArray[np.float64]) -> Mechanism | None:
    """Return the mechanism of the commits `rows`, or None if it was not recorded or the run ends before them."""
    if NAME not in run.records or len(run.recorded_at[NAME]) < run.commits:
        return None
    values = np.asarray(run.records[NAME], float)
    if values.shape[1:] != (4, 2) or rows.max(initial=-1) >= len(values):
        return None
    update, proxy, pi, pulled = np.moveaxis(values, 1, 0)
    if not np.isfinite(update).any():
        return None
    if not (np.isfinite(pi).any() and np.isfinite(proxy).any()):
        return Mechanism(update[rows], None, None, read[rows], clamped=False)
    before = previous_own_row(trace.worker[: run.commits])[:, None]
    # The first gradient of each worker is taken at the start.
    last_pull = np.where(before >= 0, pulled[before[:, 0]], read[0])
    free = (pi > 0) & (pi < CLAMP)

    def mismatch(point: NDArray[np.float64]) -> float:
        """Return the median distance of π|Δθ| from κ|m| - |motion since the point|, over unclamped π."""
        error = np.abs(pi * np.abs(update) - (np.abs(proxy) - np.abs(pulled - point)))
        return float(np.median(error[free])) if free.any() else 0.0

    # A rule may count the motion from the last pull or from the read. The record does not say from which, so the
    # point is taken with which π = (κ|m| - |motion|)/|Δθ| holds better.
    since = min((last_pull, read), key=mismatch)
    clamped = bool(np.nanmin(pi) >= 0 and np.nanmax(pi) <= CLAMP)
    return Mechanism(update[rows], proxy[rows], pi[rows], since[rows], clamped)
