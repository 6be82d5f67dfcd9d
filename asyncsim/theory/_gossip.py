"""Workers on a graph that average variables of their own: how fast they agree, and the noise that keeps them apart."""

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asyncsim import _checks as checks
from asyncsim.components._checked import checked
from asyncsim.theory._parameters import Kappa, Workers

MOST_WORKERS = 2048  # of a matrix whose eigenvalues take a few seconds
WORK, SMALL = 2e10, 2e5  # of some seconds, and of a commit of few workers, in multiplications
SLACK = 1e-9  # of sums that should be 1, by rounding


def require_matrix(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return a square matrix of finite numbers with one row per worker."""
    array = np.asarray(value)
    matrix = np.asarray(checks.require_all_finite(name, array.astype(float) if array.dtype == bool else value), float)
    if matrix.ndim != 2 or len(set(matrix.shape)) != 1 or not 1 <= len(matrix) <= MOST_WORKERS:
        raise ValueError(
            f"`{name}` must be a square matrix of 1 to {MOST_WORKERS} rows; got shape {matrix.shape}. Give one row and "
            "column per worker."
        )
    return matrix


def require_mixing(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return a mixing matrix, whose entries are not negative, and whose rows and columns sum to 1."""
    matrix = require_matrix(name, value)
    sums = np.concatenate([matrix.sum(0), matrix.sum(1)])
    if (matrix < 0).any() or (np.abs(sums - 1) > SLACK).any():
        raise ValueError(
            f"`{name}` must have rows and columns that sum to 1, without negative numbers; got sums from "
            f"{sums.min():.6g} to {sums.max():.6g}. Use `weights` of one of `asyncsim.graphs`."
        )
    return matrix


def require_pairs(name: str, value: ArrayLike) -> NDArray[np.bool_]:
    """Return who exchanges with whom, with at least one neighbour for everybody."""
    matrix = require_matrix(name, value)
    if not np.isin(matrix, (0, 1)).all() or (matrix != matrix.T).any() or not (matrix.sum(1) - matrix.diagonal()).all():
        raise ValueError(
            f"`{name}` must be a symmetric matrix of 0 and 1 in which every worker has a neighbour; got "
            f"{checks.brief(value)}. Use `adjacency` of one of `asyncsim.graphs`."
        )
    return matrix.astype(bool) & ~np.eye(len(matrix), dtype=bool)


Mixing = Annotated[ArrayLike, require_mixing]
Pairs = Annotated[ArrayLike, require_pairs]


class GossipFloor(NamedTuple):
    """The stationary noise of variables that workers average, in units of the variance of an update's noise, η²s².

    Attributes:
        consensus: E (1/n) Σ |x_i - x̄|², how far the variables are apart.
        mean: E |x̄|², how far their mean is from the minimum.
    """

    consensus: float
    mean: float


@checked
def spectral_gap(mixing: Mixing) -> float:
    """Return 1 - |λ₂| of a mixing matrix: each round shrinks the distance from the mean by at least |λ₂| (exact).

    Args:
        mixing: W, (n, n), of which rows and columns sum to 1.

    Example:
        Rings mix slowly: with weights of a third, |λ₂| = (1 + 2 cos(2π/n))/3.

        >>> from asyncsim import graphs
        >>> [round(spectral_gap(graphs.Ring().weights(n)), 4) for n in (4, 8, 16)]
        [0.6667, 0.1953, 0.0507]
        >>> round(spectral_gap(graphs.Exponential().weights(16)), 4)
        0.4

    References:
        Boyd, Ghosh, Prabhakar and Shah 2006, "Randomized gossip algorithms", IEEE Transactions on Information Theory.
    """
    matrix: NDArray[np.float64] = mixing  # type: ignore[assignment]
    apart = matrix - 1 / len(matrix)  # without the mean, whose eigenvalue is 1
    return float(1 - np.abs(np.linalg.eigvals(apart)).max())


@checked
def pair_staleness(pairs: Pairs) -> NDArray[np.float64]:
    """Return each worker's mean staleness where a worker averages with one neighbour at random before its commit.

    Staleness counts the changes of the worker's own variable by others between its read and its commit. A commit of u
    changes one neighbour's variable, so worker v has Σ 1/deg(u) of these over its neighbours u, if all commit equally
    often. The mean over all workers is exactly 1, for every graph and any compute times. With exponential times, all
    equal, on a regular graph, P(k) = 2^(-k-1).

    Args:
        pairs: (n, n), 1 where two workers exchange, symmetric.

    Returns:
        (n,) mean staleness of each worker.

    Example:
        Everybody asks the centre of a star, whose variable changes n - 1 times as often:

        >>> from asyncsim import graphs
        >>> pair_staleness(graphs.Star().adjacency(5)).tolist()
        [4.0, 0.25, 0.25, 0.25, 0.25]
    """
    neighbours: NDArray[np.bool_] = pairs  # type: ignore[assignment]
    return (neighbours / neighbours.sum(1)[:, None]).sum(0)


@checked
def pair_consensus(pairs: Pairs, commits: Annotated[int, checks.require_integer, "Give a number of commits."]) -> float:
    """Return the share of Σ |x_i - x̄|² that is left after some commits that only average, without gradients (exact).

    Every commit averages a random worker, each equally often, with a random neighbour. The second moments X = E x xᵀ
    become Σ p_e W_e X W_e over the edges e. The variables start apart independently, with equal variances. On the
    complete graph each commit leaves exactly 1 - 1/(n - 1).

    Args:
        pairs: (n, n), 1 where two workers exchange, symmetric.
        commits: Number of commits, at least 0.

    Example:
        >>> from asyncsim import graphs
        >>> round(pair_consensus(graphs.Complete().adjacency(8), 1), 6), round(1 - 1 / 7, 6)
        (0.857143, 0.857143)
        >>> round(pair_consensus(graphs.Ring().adjacency(8), 20), 4)
        0.1198

    References:
        Boyd, Ghosh, Prabhakar and Shah 2006, as for `spectral_gap`, bound it by λ₂^commits.
    """
    neighbours: NDArray[np.bool_] = pairs  # type: ignore[assignment]
    workers = len(neighbours)
    most = int(WORK / (workers**3 + SMALL))
    checks.require_at_most("commits", commits, largest=most, remedy="Use fewer commits or workers.")
    chosen = neighbours / (workers * neighbours.sum(1)[:, None])
    rate = chosen + chosen.T  # of each edge, in either order
    laplacian, moments = _laplacian(rate), np.eye(workers) - 1 / workers
    for _ in range(commits):
        # With d = e_i - e_j, an edge has W = I - d dᵀ/2. The sum over edges of p·d dᵀ is the Laplacian.
        moved = laplacian @ moments
        variances = moments.diagonal()
        apart = variances[:, None] + variances - 2 * moments  # dᵀ X d of each edge
        moments = moments - (moved + moved.T) / 2 + _laplacian(rate * apart) / 4
    return float(np.trace(moments) / (workers - 1))


def _laplacian(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.diag(weights.sum(1)) - weights


@checked
def pair_noise_floor(kappa: Kappa, workers: Workers) -> GossipFloor:
    """Return the stationary noise where random pairs of all workers average before each commit (exact, without delay).

    On ½hx² with gradients of variance s², the worker i that commits gets (x_i + x_j)/2 - η(hx_i + ξ), and its partner
    j the mean. With P = E Σ x², Q = E (Σ x)², m = P/n, c = (Q - P)/(n(n - 1)) and κ = ηh a commit makes

        P + ((½ - κ)² - 5/4)·m + (1 - κ)·c + η²s²   and   Q·(1 - 2κ/n) + κ²m + η²s².

    Args:
        kappa: κ, step size times curvature, no unit.
        workers: Number of workers n, at least 2.

    Returns:
        Both variances in units of η²s², infinite where they grow.

    Example:
        >>> floor = pair_noise_floor(0.1, workers=8)
        >>> round(floor.consensus, 4), round(floor.mean, 4)
        (0.7219, 0.6335)

    References:
        Lian et al. 2018, "Asynchronous decentralized parallel stochastic gradient descent", ICML (AD-PSGD). The moments
        are derived here.
    """
    if workers < 2:
        raise ValueError(f"`workers` must be at least 2; got {workers}. A worker needs a partner.")
    n = float(workers)
    pairs = n * (n - 1)
    change = np.array(
        [[((0.5 - kappa) ** 2 - 1.25) / n - (1 - kappa) / pairs, (1 - kappa) / pairs], [kappa**2 / n, -2 * kappa / n]]
    )
    if not np.isfinite(change).all() or np.abs(np.linalg.eigvals(np.eye(2) + change)).max() >= 1:
        return GossipFloor(np.inf, np.inf)
    squares, square = np.linalg.solve(change, [-1.0, -1.0])
    return GossipFloor(float(squares / n - square / n**2), float(square / n**2))


@checked
def rounds_noise_floor(kappa: Kappa, mixing: Mixing, *, adapt_first: bool = False) -> GossipFloor:
    """Return the stationary noise of rounds with a mixing matrix, x ← W·x - η(hx + ξ) (exact).

    On ½hx² with gradients of variance s² and a symmetric W of eigenvalues λ_j, mode j has the variance
    η²s²/(1 - (λ_j - κ)²), and λ_j²η²s²/(1 - λ_j²(1 - κ)²) if the gradient comes first, x ← W·(x - η(hx + ξ)). The
    mean is the mode with λ = 1.

    Args:
        kappa: κ = ηh, step size times curvature, no unit.
        mixing: W, (n, n), symmetric, of which rows and columns sum to 1.
        adapt_first: Whether gradients are applied before the mixing.

    Returns:
        Both variances in units of η²s², infinite where they grow.

    Example:
        >>> from asyncsim import graphs
        >>> floor = rounds_noise_floor(0.1, graphs.Ring().weights(8))
        >>> round(floor.consensus, 4), round(floor.mean, 4)
        (1.18, 0.6579)

    References:
        Lian et al. 2017, "Can decentralized algorithms outperform centralized algorithms?" (D-PSGD). Sayed 2014,
        "Adaptation, learning, and optimization over networks", for the order of the two.
    """
    matrix: NDArray[np.float64] = mixing  # type: ignore[assignment]
    if not np.allclose(matrix, matrix.T, rtol=0, atol=SLACK):
        raise ValueError("`mixing` must be symmetric here; got another matrix. Use `weights` of an undirected graph.")
    values = np.sort(np.linalg.eigvalsh(matrix))[::-1]
    gain, size = (values * (1 - kappa), values**2) if adapt_first else (values - kappa, np.ones(len(values)))
    if (np.abs(gain) >= 1).any():
        return GossipFloor(np.inf, np.inf)
    modes = size / (1 - gain**2) / len(values)
    return GossipFloor(float(modes[1:].sum()), float(modes[0]))


@checked
def rounds_bias(kappa: Kappa, mixing: Mixing, minima: ArrayLike) -> NDArray[np.float64]:
    """Return where the variables of workers with different minima come to rest: x = W·x - κ(x - b) (exact).

    Mode j of the minima b is κ/(1 - λ_j + κ) of itself away from the mean, which is the mean of the minima.
    The rule `ExactDiffusion` has no such bias.

    Args:
        kappa: κ = ηh, step size times curvature, no unit.
        mixing: W, (n, n), of which rows and columns sum to 1.
        minima: b, (n,), where each worker's loss is least.

    Returns:
        (n,) the resting points.

    Example:
        >>> rounds_bias(0.5, [[0.5, 0.5], [0.5, 0.5]], [0.0, 3.0]).round(4).tolist()
        [1.0, 2.0]

    References:
        Yuan, Ling and Yin 2016, "On the convergence of decentralized gradient descent", SIAM Journal on Optimization.
    """
    matrix: NDArray[np.float64] = mixing  # type: ignore[assignment]
    if spectral_gap(matrix) < SLACK:
        raise ValueError("`mixing` must connect all workers; got one whose variables never agree. Add edges.")
    minima = np.asarray(checks.require_all_finite("minima", minima), float)
    if minima.shape != (len(matrix),):
        raise ValueError(f"`minima` must have shape ({len(matrix)},), one per worker; got {minima.shape}.")
    mean = minima.mean()
    # Without the mean, which is that of the minima, the equations have a solution for every small step.
    equations = (1 + kappa) * np.eye(len(matrix)) - matrix + 1 / len(matrix)
    return np.asarray(mean + np.linalg.solve(equations, kappa * (minima - mean)), np.float64)
