"""Independent replicates to hold predictions against, by a plain NumPy loop."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim.reports.replicates import mean_and_error


def z_score(measured: ArrayLike, predicted: ArrayLike) -> NDArray[Any]:
    """How many standard errors the means of independent replicates, one a row, are away from predictions."""
    mean, error = mean_and_error(measured)
    return np.abs(mean - predicted) / error


def many_paths(
    gradient, *, workers, learning_rate, commits, runs, k=1, momentum=0.0, where="none", share=None, noise=0.0
):
    """(runs, commits + 1) paths from 1 in which a random set of k workers commits at every version."""
    rng, rows = np.random.default_rng(12), np.arange(runs)
    x, read, moment, velocity = np.ones(runs), np.ones((runs, workers)), np.zeros((runs, workers)), np.zeros(runs)
    path = [x]
    for _ in range(commits):
        if k == 1:
            chosen = rng.choice(workers, size=(runs, 1), p=share)
        else:
            chosen = rng.random((runs, workers)).argsort(axis=1)[:, :k]
        mine = rows[:, None], chosen
        update = -learning_rate * (gradient(read[mine]) + noise * rng.standard_normal((runs, k)))
        if where == "worker":
            update = moment[mine] = momentum * moment[mine] + update
        velocity = (momentum if where == "server" else 0.0) * velocity + update.mean(axis=1)
        x = x + velocity
        read[mine] = x[:, None]
        path.append(x)
    return np.stack(path, axis=1)
