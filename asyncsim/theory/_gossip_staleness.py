"""The distribution of staleness where workers on a graph average in pairs, for compute laws without atoms.

A job of worker v of length x sees each neighbour u commit N_u(x) times, an equilibrium renewal count, and each of these
commits changes the variable of v with probability 1/deg(u):

    E z^τ = (1/n) Σ_v ∫ F(dx) Π_u E (1 - (1 - z)/deg(u))^N_u(x), over the neighbours u of v.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from asyncsim.components._checked import checked
from asyncsim.delays import Delay, Exponential, FloatArray
from asyncsim.delays._per_worker import groups
from asyncsim.theory._asynchronous import is_round_robin, require_no_atoms
from asyncsim.theory._generating_function import (
    SIMULATE,
    ComplexArray,
    count_tails,
    count_transform,
    invert,
    longest_time,
    make_quadrature,
    power,
)
from asyncsim.theory._gossip import Pairs, pair_staleness
from asyncsim.theory._numerics import require_size
from asyncsim.theory._parameters import Size

MOST_COMMITS = 10**6  # of a worker in one job of another: beyond any that is computed

Degrees = tuple[tuple[int, int], ...]  # degrees of a worker's neighbours, each with their number


@checked
def pair_staleness_pmf(pairs: Pairs, compute: Delay, size: Size) -> FloatArray:
    """Return P(τ = 0), ..., P(τ = size - 1) where a worker averages with one neighbour at random before its commit.

    Staleness counts the changes of the worker's own variable by others, as in `pair_staleness`, over the commits of all
    workers. Exact up to rounding for exponential and constant times: a worker v with s_v = Σ 1/deg(u) over its
    neighbours u has

        exponential: P(τ = k) = s^k/(1 + s)^(k + 1), which is 2^(-k - 1) on a regular graph
        constant:    τ is the number of successes of independent trials, with 1/deg(u) for each neighbour

    and numerical for other laws, with errors as in `staleness_pmf`, whose other assumptions it shares.

    Args:
        pairs: (n, n), 1 where two workers exchange, symmetric.
        compute: The law of all workers.
        size: Number of probabilities, at least 1.

    Returns:
        Probabilities, shape (size,). The remaining mass lies beyond.

    Raises:
        ValueError: If an argument is out of range, or the law has atoms (unless it is constant) or too heavy a tail.

    Example:
        >>> from asyncsim import graphs
        >>> from asyncsim.delays import Constant, Exponential
        >>> ring = graphs.Ring().adjacency(8)
        >>> pair_staleness_pmf(ring, Exponential(2.0), size=4).tolist()
        [0.5, 0.25, 0.125, 0.0625]
        >>> pair_staleness_pmf(ring, Constant(2.0), size=4).round(4).tolist()
        [0.25, 0.5, 0.25, 0.0]

    References:
        Cox 1962, "Renewal Theory" (equilibrium counts). The thinning by the graph is derived here.
    """
    neighbours: NDArray[np.bool_] = pairs  # type: ignore[assignment]
    workers = len(neighbours)
    laws = groups(compute, workers)
    if isinstance(compute, Exponential):
        means, counts = np.unique(pair_staleness(neighbours), return_counts=True)
        require_size(f"`size` = {size}", float(size) * len(means), "Ask for fewer probabilities.")
        share = 1 / (1 + means)
        return counts / workers * share @ np.power(1 - share[:, None], np.arange(size, dtype=np.float64))
    kinds = Counter(_neighbour_degrees(neighbours))
    if is_round_robin(laws):
        # Everybody commits once during a job.
        return invert(lambda z: _mean_product(kinds, lambda a: a, z), size)
    require_no_atoms(laws)
    quadrature = make_quadrature(laws, longest_time(laws))
    tails = count_tails(compute, quadrature.x, MOST_COMMITS)
    degrees = {degree for several in kinds for degree, _ in several}
    operations = 8.0 * size * tails.size * len(degrees)
    require_size(f"`size` = {size}, `compute` = {compute!r}", size * len(quadrature.x), SIMULATE, operations=operations)

    return invert(lambda z: quadrature.weights[0] @ _mean_product(kinds, partial(count_transform, tails), z), size)


def _neighbour_degrees(neighbours: NDArray[np.bool_]) -> Iterator[Degrees]:
    """Yield for each worker the degrees of its neighbours, with the number of neighbours of each degree."""
    degree = neighbours.sum(1)
    for row in neighbours:
        yield tuple(sorted(Counter(degree[row].tolist()).items()))


def _mean_product(
    kinds: Mapping[Degrees, int], transform: Callable[[ComplexArray], ComplexArray], z: ComplexArray
) -> ComplexArray:
    """Return the mean over workers of Π E a^N over the neighbours, at a = 1 - (1 - z)/degree."""
    degrees = {degree for several in kinds for degree, _ in several}
    single = {degree: transform(1 - (1 - z) / degree) for degree in degrees}
    total: ComplexArray = np.zeros((), np.complex128)
    for several, workers in kinds.items():
        product: ComplexArray = np.full((), workers, np.complex128)
        for degree, number in several:
            product = product * power(single[degree], number)
        total = total + product
    return total / sum(kinds.values())
