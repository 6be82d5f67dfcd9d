"""How large the steps stay, on average, when each is divided by its staleness plus one."""

from collections.abc import Sequence

import numpy as np

from asyncsim.delays import Delay, Exponential
from asyncsim.delays.per_worker import groups
from asyncsim.theory.staleness import is_round_robin, require_no_atoms

_PANEL_NODES = 12


def mean_rescaling(*, compute: Delay | Sequence[Delay], workers: int) -> float:
    """Exact stationary E[1 / (τ + 1)], the mean factor of the rule "adaptive staleness".

    equal exponential laws:  ln n / (n - 1)
    exponential laws:        Σ_i p_i · p_i ln(1 / p_i) / (1 - p_i), p_i = rate_i / Σ rates
    one constant:            1 / n
    any laws without atoms:  ∫_0^1 E z^τ dz by quadrature

    So n commits, one round, make a total step of about ln n single steps with exponential laws and of one in a
    round robin. Assumptions and numerical accuracy as in `staleness_pmf`.

    Args:
        compute: One law for all workers, or a sequence of one law per worker; times in seconds.
        workers: Number of workers n, at least 1.

    Returns:
        The mean factor, in (0, 1], no unit.

    Raises:
        ValueError: As `staleness_pmf`.

    Example:
        >>> from asyncsim.delays import Constant, Exponential
        >>> round(mean_rescaling(compute=Exponential(1.0), workers=10), 5)
        0.25584
        >>> mean_rescaling(compute=Constant(1.0), workers=10)
        0.1

    References:
        Hermans and Louppe 2018, "Gradient energy matching for distributed asynchronous gradient descent" (the
        baseline whose factor this is).
    """
    laws = groups(compute, workers)
    if workers == 1 or is_round_robin(laws):
        return 1 / workers
    if all(isinstance(group.law, Exponential) for group in laws):
        return float(sum(group.workers * _exponential_part(group.share) for group in laws))
    require_no_atoms(laws)
    from asyncsim.theory.generating_function import staleness_transform

    z, weights = _towards_one()
    return float(weights @ staleness_transform(laws, z, most=60 * workers))


def _exponential_part(share: float) -> float:
    return -share * share * np.log(share) / (1 - share)


def _towards_one() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [0, 1] with panels halved 20 times towards 1, where the transform of large n lives."""
    points, weights = np.polynomial.legendre.leggauss(_PANEL_NODES)
    edges = np.concatenate([[0.0], 1 - 0.5 ** np.arange(1, 21), [1.0]])
    widths = np.diff(edges)[:, None]
    return (edges[:-1, None] + widths * (points + 1) / 2).ravel(), (widths * weights / 2).ravel()
