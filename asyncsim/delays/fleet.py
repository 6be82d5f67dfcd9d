"""Fleets: one law per worker, for workers of different speeds, derived from one law.

Each function returns a tuple that `Cluster(workers, compute=...)` takes, or `windows_by_speed` one that the `window` of
a rule takes. Workers are counted from 1 here: worker i is entry i - 1 of the tuple.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from asyncsim._checks import brief, require_count, require_integer, require_not_negative, require_positive
from asyncsim.components._checked import checked
from asyncsim.delays._bounded import Constant
from asyncsim.delays._gamma import Gamma
from asyncsim.delays._law import Delay, FloatArray
from asyncsim.delays._law import scaled as scale_law
from asyncsim.delays._per_worker import Law, require_laws, require_mean
from asyncsim.delays._speed import VariableSpeed

__all__ = ["Law", "gamma_machines", "linear", "scaled", "square_root", "two_classes", "windows_by_speed"]

_Workers = Annotated[int, require_count, "Use one worker or more."]
_Slow = Annotated[int, require_integer, "Give the number of slow workers."]
_Factor = Annotated[float, require_positive, "5 makes a slow worker's jobs five times as long."]
_Mean = Annotated[float, require_positive, "Give the mean delay in seconds."]
_TaskCv = Annotated[float, require_not_negative, "Use 0 for tasks that always take the same time."]
_MachineCv = Annotated[float, require_not_negative, "Use 0 for equal machines."]
_Window = Annotated[int, require_count, "Give the local steps of the fastest worker."]
_Seed = Annotated[int, require_integer, "Give the fleet another seed."]


@checked
def scaled(law: Law, factors: Sequence[float] | FloatArray) -> tuple[Law, ...]:
    """Let worker i take `factors[i - 1]` times as long as `law` says.

    Args:
        law: The law of a worker with factor 1, which may be a `VariableSpeed`.
        factors: One positive factor per worker.

    Returns:
        One law per worker, of the family of `law` if scaling stays in it.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> scaled(Exponential(mean=2.0), [1.0, 3.0])
        (Exponential(mean=2.0), Exponential(mean=6.0))
    """
    if np.ndim(factors) != 1:
        raise ValueError(f"`factors` must be a sequence; got {brief(factors)}. Give one factor per worker.")
    return tuple(scale_law(law, factor) for factor in np.asarray(factors).tolist())


@checked
def linear(law: Law, workers: _Workers) -> tuple[Law, ...]:
    """Let worker i take i times as long, i = 1 ... n.

    Args:
        law: The law of the first worker, in seconds.
        workers: Number of workers n.

    Example:
        >>> from asyncsim.delays import Constant
        >>> [law.mean for law in linear(Constant(2.0), workers=3)]
        [2.0, 4.0, 6.0]
    """
    return scaled(law, _ranks(workers))


@checked
def square_root(law: Law, workers: _Workers) -> tuple[Law, ...]:
    """Let worker i take √i times as long, i = 1 ... n.

    Arguments as in `linear`.

    Example:
        >>> from asyncsim.delays import Constant
        >>> [law.mean for law in square_root(Constant(1.0), workers=4)][::3]
        [1.0, 2.0]
    """
    return scaled(law, np.sqrt(_ranks(workers)))


@checked
def two_classes(law: Law, workers: _Workers, slow: _Slow, factor: _Factor) -> tuple[Law, ...]:
    """Let the last `slow` workers take `factor` times as long as the others.

    Args:
        law: The law of the others.
        workers: Number of workers n.
        slow: Number of slow workers, 0 ... n.
        factor: Duration of a slow worker's job relative to the others, for example 5.

    Example:
        >>> from asyncsim.delays import Constant
        >>> [law.mean for law in two_classes(Constant(1.0), workers=3, slow=1, factor=5.0)]
        [1.0, 1.0, 5.0]
    """
    ranks = _ranks(workers)
    if slow > workers:
        raise ValueError(
            f"`slow` must be at most `workers`, {brief(workers)}; got {brief(slow)}. Make fewer of them slow."
        )
    return scaled(law, np.where(ranks > workers - slow, factor, 1.0))


@checked
def gamma_machines(
    workers: _Workers, mean: _Mean, task_cv: _TaskCv, machine_cv: _MachineCv, seed: _Seed
) -> tuple[Delay, ...]:
    """Draw machines with gamma means and gamma tasks: p_i ~ Gamma(mean, machine_cv), delays ~ Gamma(p_i, task_cv).

    Args:
        workers: Number of machines n.
        mean: Mean delay over machines and tasks, in seconds.
        task_cv: Coefficient of variation of the tasks on one machine, V_task. With 0 they have no spread.
        machine_cv: Coefficient of variation of the machines' means, V_mach. With 0 they are equal.
        seed: Seed of the machines' means, an integer of at least 0. One more machine does not change the others'.

    Returns:
        One law per machine: `Gamma`, or `Constant` if `task_cv` is 0.

    Example:
        >>> gamma_machines(workers=2, mean=1.0, task_cv=0.1, machine_cv=0.0, seed=0)
        (Gamma(mean=1.0, cv=0.1), Gamma(mean=1.0, cv=0.1))

    References:
        Ali, Siegel, Maheswaran, Hensgen and Ali 2000, "Task execution time modeling for heterogeneous
        computing systems".
    """
    machines = Gamma(mean, machine_cv) if machine_cv else Constant(mean)
    generator = np.random.default_rng(seed)
    # The ranks refuse a number of workers that no array can hold.
    means = machines.sample(generator, len(_ranks(workers)))
    return scaled(Gamma(1.0, task_cv) if task_cv else Constant(1.0), means)


@checked
def windows_by_speed(compute: Sequence[Delay | VariableSpeed], window: _Window) -> tuple[int, ...]:
    """Return a window for each worker, in proportion to its speed, so that all jobs take about as long.

    H_w = max(1, round(H·v_w/max v)) with the speed v_w = 1/mean: the fastest worker makes H local steps (dynamic local
    updates, DyLU).

    Args:
        compute: The laws of one gradient of each worker, in seconds.
        window: Local steps of the fastest worker, H.

    Returns:
        One number of local steps per worker, which the `window` of a rule takes.

    Raises:
        ValueError: If `compute` is not one law per worker, or the mean of a law is not positive and finite.

    Example:
        A gradient takes 1, 2 and 5 seconds, so that windows of 20, 10 and 4 take 20 seconds each:

        >>> import asyncsim as asim
        >>> fleet = scaled(asim.delays.Gamma(mean=1.0, cv=0.3), [1.0, 2.0, 5.0])
        >>> rule = asim.rules.AGN(0.1, window=windows_by_speed(fleet, 20))
        >>> rule.window
        (20, 10, 4)

    References:
        Liu, Chhaparia, Douillard, Kale, Rusu, Shen, Szlam and Ranzato 2024, "Asynchronous Local-SGD Training for
        Language Modeling", arXiv 2401.09135.
    """
    means = np.array([require_mean(law) for law in require_laws("compute", compute, (Delay, VariableSpeed))])
    return tuple(np.maximum(np.rint(window * (means.min() / means)), 1).astype(int).tolist())


def _ranks(workers: int) -> FloatArray:
    """Return the numbers of the workers, 1 ... n, shape (workers,)."""
    return np.arange(1.0, 1 + workers)
