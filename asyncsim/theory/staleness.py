"""Stationary staleness of asynchronous workers whose server takes no time: its whole distribution."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from asyncsim.checks import require_integer
from asyncsim.delays import Delay, Exponential, FloatArray
from asyncsim.delays.per_worker import Group, groups
from asyncsim.theory.laws import has_atoms


def staleness_pmf(compute: Delay | Sequence[Delay], workers: int, size: int) -> FloatArray:
    """Exact distribution of the staleness of one commit, P(τ = 0), ..., P(τ = size - 1).

    equal exponential laws:   P(τ = k) = (1/n) (1 - 1/n)^k
    exponential laws:         P(τ = k) = Σ_i p_i² (1 - p_i)^k, p_i = rate_i / Σ rates
    equal constant laws:      τ = n - 1, from the second round on
    any laws without atoms:   P(τ = k) = Σ_i p_i ∫ F_i(dx) P(Σ_{w≠i} N_w(x) = k), p_i = (1/m_i) / Σ_w 1/m_w,
                              N_w an equilibrium renewal count of law F_w

    Assumptions: asynchronous workers that never wait, independent delays, a server that takes no time, commit and
    following read in one instant; stationary, that is long after the common start (some 1/cv² rounds for a small
    coefficient of variation cv). Exact: the first three lines to rounding; the fourth is evaluated numerically,
    with absolute errors of some 1e-9 a value for light tails and at most 1e-6 in all for heavy ones. Its cost grows as
    the number of distinct laws times `size` times √n; a thousand equal workers take less than a second, a heavy tail
    with a large `size` takes some.

    Args:
        compute: One law for all workers, or a sequence of one law per worker; times in seconds.
        workers: Number of workers n, at least 1.
        size: How many probabilities, at least 1. The mean of τ is n - 1; 10 n leave out little for exponential laws.

    Returns:
        Probabilities, shape (size,); the rest of the mass is beyond.

    Raises:
        ValueError: If an argument does not fit; if a law has atoms (then commits keep the phase in which they
            started) unless all workers have one and the same constant; or if a tail is too heavy for the lattice.

    Example:
        >>> from asyncsim.delays import Constant, Exponential, Gamma
        >>> staleness_pmf(compute=Exponential(2.0), workers=4, size=3).tolist()
        [0.25, 0.1875, 0.140625]
        >>> staleness_pmf(compute=Constant(2.0), workers=3, size=4).tolist()
        [0.0, 0.0, 1.0, 0.0]
        >>> staleness_pmf(compute=Gamma(mean=1.0, cv=0.5), workers=4, size=5).round(3).tolist()
        [0.06, 0.153, 0.223, 0.222, 0.153]

    References:
        Mitliagkas, Zhang, Hadjis and Ré 2016, "Asynchrony begets momentum" (exponential laws).
        Cox 1962, "Renewal Theory" (equilibrium counts).
    """
    laws = groups(compute, workers)
    size = require_integer("size", size, least=1, remedy="Ask for one probability or more.")
    if workers == 1 or is_round_robin(laws):
        return np.where(np.arange(size) == workers - 1, 1.0, 0.0)
    if all(isinstance(group.law, Exponential) for group in laws):
        share = np.array([group.share for group in laws])
        weight = share**2 * [group.workers for group in laws]
        return weight @ np.power(1 - share[:, None], np.arange(size, dtype=np.float64))
    require_no_atoms(laws)
    from asyncsim.theory.generating_function import staleness_distribution

    return staleness_distribution(laws, size)


def staleness_limit_cdf(ratio: ArrayLike, *, compute: Delay) -> FloatArray:
    """Limit law of many equal workers: P(τ / (n - 1) <= ratio) -> F(ratio · m), F the compute law and m its mean.

    Exact as n -> ∞, approximate for finite n: staleness scaled to mean 1 has the law of a compute time scaled to
    mean 1. Assumptions as in `staleness_pmf`.

    Args:
        ratio: τ / (n - 1), no unit; any shape.
        compute: The law of all workers.

    Returns:
        Probabilities, the shape of `ratio`.

    Raises:
        ValueError: If the law has atoms, or its mean is not finite and positive.

    Example:
        >>> from asyncsim.delays import Uniform
        >>> staleness_limit_cdf([0.5, 1.0, 1.5], compute=Uniform(0.0, 4.0)).tolist()
        [0.25, 0.5, 0.75]
    """
    laws = groups(compute, 1)
    require_no_atoms(laws)
    return compute.cdf(np.asarray(ratio, dtype=np.float64) * compute.mean)


def require_no_atoms(laws: tuple[Group, ...]) -> None:
    """Refuse laws of which some single delay has a positive probability.

    Raises:
        ValueError: Which law, and what exists for it.
    """
    for group in laws:
        if has_atoms(group.law):
            raise ValueError(
                f"`compute` must have no atoms, unless all workers share one constant; got {group.law!r}. "
                "`staleness_mean` and `worker_staleness` hold for every law; simulate for the rest."
            )


def is_round_robin(laws: tuple[Group, ...]) -> bool:
    """Whether all workers share one constant."""
    return len(laws) == 1 and laws[0].law.variance == 0
