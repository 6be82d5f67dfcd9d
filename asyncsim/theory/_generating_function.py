"""The generating function E z^τ of stationary staleness, for any compute laws without atoms.

Between the read and the commit of one worker, the others are independent renewal processes in equilibrium, so

    E z^τ = Σ_i share_i ∫ F_i(dx) Π_{w≠i} E z^{N_w(x)}

with F_i the compute law of worker i, share_i its share of the commits and N_w(x) an equilibrium renewal count. With m
the mean of the law F of that count and A_j(x) = ∫_0^x F^{*j}(u) du (A_0(x) = x),

    P(N(x) >= j) = (A_{j-1}(x) - A_j(x)) / m
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import brief
from asyncsim.delays import Delay, Erlang, Exponential, FloatArray, Gamma
from asyncsim.delays._per_worker import Group
from asyncsim.theory._numerics import gauss, integrals, quantile, require_size

ComplexArray = NDArray[np.complex128]
_NUMBERS_AT_ONCE = 2**19  # complex numbers per block: 8 MiB stay in the caches
_TRUNCATED_PROBABILITY = 1e-6  # probability that may be lost beyond the longest compute time considered
_NODES = 8  # points per panel at which g is evaluated
_FINE = 16  # points per panel at which F is evaluated
_TAIL_PROBABILITY = 1e-11  # probability of compute times beyond the last node of a quadrature
_GAMMA = (Exponential, Gamma, Erlang)  # laws whose convolutions are gamma laws, too, so that A_j has a closed form
_NEGLIGIBLE_SHARE = 1e-12  # of the law's mean: the integrals A_j shrink with j, and end at the first one below
_TALBOT = 24  # nodes: with more, rounding in exp(2/5 · 24) exceeds the error of the contour
GAMMA_OPERATIONS = 1000  # operations that take the time of one incomplete gamma function
SIMULATE = "Use fewer workers or a less variable law, or simulate: `asyncsim staleness` measures it."
_MOST_CELLS = 2**18  # cells of a lattice with one convolution per count
_MOST_CELLS_ONCE = 2**21  # cells of a lattice with one convolution in all


class Quadrature(NamedTuple):
    """Times at which to evaluate g, shape (points,), and one row of weights per law, shape (laws, points)."""

    x: FloatArray
    weights: FloatArray


def staleness_transform(laws: tuple[Group, ...], z: NDArray, max_staleness: int) -> NDArray:
    """Return E z^τ at every z, |z| <= 1. The coefficients of powers above z^max_staleness may be wrong."""
    # The integral stops at a time beyond which a staleness of at most `max_staleness` is improbable enough.
    longest = longest_time(laws)
    cycle = 1 / sum(group.workers / group.law.mean for group in laws)
    horizon = 1.5 * max_staleness * cycle + 8 * min(group.law.mean for group in laws)
    while horizon < longest and _bound_omission(laws, horizon, max_staleness) > _TRUNCATED_PROBABILITY:
        horizon *= 2
    quadrature = make_quadrature(laws, min(horizon, longest))
    return transform_at_nodes(
        laws, quadrature, [count_tails(group.law, quadrature.x, max_staleness) for group in laws], z
    )


def transform_at_nodes(laws: tuple[Group, ...], quadrature: Quadrature, tails: list[FloatArray], z: NDArray) -> NDArray:
    """Return E z^τ by a quadrature over the times of `laws`, with the tails of the counts at its nodes."""
    rows = sum(len(tail) for tail in tails)
    operations = 4.0 * len(z) * len(quadrature.x) * (rows + len(laws))
    arguments = f"`workers` = {sum(group.workers for group in laws)}, `compute` = {_name_laws(laws)}"
    require_size(arguments, rows * len(quadrature.x), SIMULATE, operations=operations)
    # The arguments z are taken in blocks, so that a block's array over nodes and laws fits into the caches.
    block = max(1, _NUMBERS_AT_ONCE // (len(quadrature.x) * len(laws)))
    parts = [_transform_block(laws, quadrature, tails, z[i : i + block]) for i in range(0, len(z), block)]
    return np.concatenate(parts)


def invert(transform: Callable[[ComplexArray], ComplexArray], size: int) -> FloatArray:
    """Return coefficients of z^0, ..., z^{size - 1} by inversion on a circle inside the unit disc, shape (size,)."""
    require_size(f"`size` = {brief(size)}", 2 * size, "Ask for fewer probabilities.")
    length = 2 * size
    # The coefficient of z^k is mixed with that of z^{k + length}, which the radius damps by 1e-11.
    radius = 10.0 ** (-11 / length)
    z = radius * np.exp(-2j * np.pi * np.arange(size + 1) / length)
    values = np.fft.irfft(transform(z), length)[:size]
    return np.maximum(values * radius ** -np.arange(size), 0.0)


def _name_laws(laws: tuple[Group, ...]) -> str:
    return brief(laws[0].law) if len(laws) == 1 else f"{len(laws)} laws"


def _bound_omission(laws: tuple[Group, ...], horizon: float, max_staleness: int) -> float:
    """Return a bound on P(delay > horizon, τ <= max_staleness) for one worker."""
    tail = max(float(1 - group.law.cdf(horizon)) for group in laws)
    others = sum(group.workers for group in laws) - 1
    if tail < _TRUNCATED_PROBABILITY or others < 1:
        return tail
    # If τ <= max_staleness, at least half of the others commit fewer than `allowed` times. There are at most 4^needed
    # choices of a half.
    allowed = int(2 * max_staleness / others) + 1
    few = 0.0
    for group in laws:
        tails = count_tails(group.law, np.array([horizon]), allowed)
        few = max(few, 1 - float(tails[allowed - 1, 0]) if len(tails) >= allowed else 1.0)
    needed = -(-others // 2)
    return tail * min(1.0, 4 * few) ** needed


def _transform_block(laws: tuple[Group, ...], quadrature: Quadrature, tails: list[FloatArray], z: NDArray) -> NDArray:
    single = [count_transform(tail, z) for tail in tails]  # each (points, arguments)
    counts = [group.workers for group in laws]
    before = _running_products(single, counts)
    after = _running_products(single[::-1], counts[::-1])[::-1]
    total = np.zeros(z.shape, dtype=z.dtype)
    for index, group in enumerate(laws):
        others = before[index] * after[index] * power(single[index], group.workers - 1)
        total += group.workers * group.share * (quadrature.weights[index] @ others)
    return total


def count_transform(tails: FloatArray, z: NDArray) -> NDArray:
    """Return E z^N = 1 + (z - 1) Σ_j P(N >= j) z^{j-1}, shape (points, arguments)."""
    powers = z ** np.arange(len(tails))[:, None]
    if np.isrealobj(z):
        return 1 + (z - 1) * (tails.T @ powers)
    return 1 + (z - 1) * (tails.T @ powers.real + 1j * (tails.T @ powers.imag))


def _running_products(single: list[NDArray], counts: list[int]) -> list[NDArray]:
    """Return, for each factor, the product of all factors before it, each to the power of its count."""
    products = [np.ones(())]
    for factor, count in zip(single[:-1], counts[:-1], strict=True):
        products.append(products[-1] * power(factor, count))
    return products


def power(base: NDArray, exponent: int) -> NDArray:
    """Return an integer power by squaring, which is several times faster than complex `**`."""
    result = np.ones(())
    while exponent:
        if exponent % 2:
            result = result * base
        base, exponent = (base * base if exponent > 1 else base), exponent // 2
    return result


def make_quadrature(laws: tuple[Group, ...], longest: float) -> Quadrature:
    """Return nodes and weights such that weights[l] @ g(x) = ∫_0^longest g(x) F_l(dx) for all laws at once."""
    edges = _panels(laws, longest)
    return Quadrature(gauss(edges, _NODES)[0].ravel(), np.array([_weights(group.law, edges).ravel() for group in laws]))


def longest_time(laws: tuple[Group, ...]) -> float:
    """Return the time that no law exceeds with a probability above 1e-11."""
    return max(float(quantile(group.law, 1 - _TAIL_PROBABILITY)) for group in laws)


def _panels(laws: tuple[Group, ...], longest: float) -> FloatArray:
    """Return the edges of panels, halved while one holds much probability, or is wide and not empty."""
    workers = sum(group.workers for group in laws)
    cycle = min(group.law.mean for group in laws)
    heaviest, widest = 1 / (6 + np.sqrt(workers)), cycle * min(0.5, 8 / np.sqrt(workers))
    # A law's support may end inside a panel: its ends are edges from the start.
    ends = [float(quantile(group.law, end)) for group in laws for end in (1e-14, 1 - 1e-14)]
    edges = np.unique([0.0, *[end for end in ends if end < longest], longest])
    while True:
        mass = np.max([np.diff(group.law.cdf(edges)) for group in laws], axis=0)
        width = np.diff(edges)
        split = ((mass > heaviest) & (width > 1e-9 * cycle)) | ((mass > 1e-8) & (width > widest))
        if not split.any():
            return edges
        edges = np.sort(np.concatenate([edges, (edges[:-1] + width / 2)[split]]))
        require_size(
            f"`workers` = {brief(workers)}, `compute` = {_name_laws(laws)}", _NODES * _FINE * len(edges), SIMULATE
        )


def _weights(law: Delay, edges: FloatArray) -> FloatArray:
    """Return ∫ l_i dF = [l_i F] - ∫ l_i' F for the Lagrange polynomials l_i of every panel, shape (panels, nodes)."""
    right, slopes = _lagrange()
    inside, _ = gauss(edges, _FINE)
    # F is measured from the left end of each panel, because near 1 only its differences have digits left.
    start = law.cdf(edges[:-1])[:, None]
    return (law.cdf(edges[1:])[:, None] - start) * right - (law.cdf(inside) - start) @ slopes


def _lagrange() -> tuple[FloatArray, FloatArray]:
    """Return l_i(1), and quadrature weights times l_i' at the fine points, on [-1, 1]."""
    points, _ = np.polynomial.legendre.leggauss(_NODES)
    fine, fine_weights = np.polynomial.legendre.leggauss(_FINE)
    to_powers = np.linalg.inv(np.vander(points, increasing=True))  # column i: coefficients of l_i
    powers = np.arange(1, _NODES)
    slopes = (fine[:, None] ** (powers - 1) * powers) @ to_powers[1:]
    return to_powers.sum(axis=0), fine_weights[:, None] * slopes


def count_tails(law: Delay, x: FloatArray, max_terms: int) -> FloatArray:
    """Return P(N(x) >= j) for j = 1, 2, ... until negligible at the largest x, at most `max_terms` of them."""
    if isinstance(law, _GAMMA):
        A = _gamma_integrals(law, x, max_terms)
    else:  # Richardson extrapolation: the lattice's error is quadratic in its step
        step = lattice_step(law)
        coarse, fine = (_lattice_integrals(law, x, max_terms, h) for h in (step, step / 2))
        terms = min(len(coarse), len(fine))
        A = (4 * fine[:terms] - coarse[:terms]) / 3
    A = np.vstack([x, A])  # A_0, A_1, …
    return np.clip((A[:-1] - A[1:]) / law.mean, 0.0, 1.0)


def count_variance(law: Delay, x: FloatArray) -> FloatArray:
    """Return Var N(x) = x/m + (2/m) Σ_j A_j(x) - (x/m)², shape and accuracy as in `count_tails`."""
    if isinstance(law, _GAMMA):
        if law.variance > law.mean**2:
            return _wide_gamma_variance(law, x)
        total = _gamma_integrals(law, x, max_terms=10**9).sum(axis=0)
    else:
        step = lattice_step(law)
        total = (4 * _sum_integrals(law, x, step / 2) - _sum_integrals(law, x, step)) / 3
    return x / law.mean + 2 / law.mean * total - (x / law.mean) ** 2


def _wide_gamma_variance(law: Delay, x: FloatArray) -> FloatArray:
    """Return Var N(x) from its Laplace transform in x, for a shape a below 1: its only singularities are p <= 0.

    The transform of E N(x)² = x/m + (2/m) Σ_j A_j(x) is (1 + 2f/(1 - f))/(m p²) with f = (1 + scale p)^{-a}, and is
    inverted along Talbot's contour around the negative axis.
    """
    shape, scale = law.mean**2 / law.variance, law.variance / law.mean
    angle = np.pi * np.arange(1, _TALBOT) / _TALBOT
    contour = 0.4 * np.append(1.0, angle * (1 / np.tan(angle) + 1j))  # p x / nodes
    slope = np.append(0.5, 1 + 1j * (angle * (1 + 1 / np.tan(angle) ** 2) - 1 / np.tan(angle)))
    square = np.zeros(len(x))
    later = x > 0
    p = _TALBOT * contour / x[later, None]
    minus = np.expm1(shape * np.log1p(scale * p))  # 1/f - 1
    values = (1 + 2 / minus) / (law.mean * p * p) * np.exp(_TALBOT * contour) * slope
    square[later] = 0.4 * values.real.sum(axis=1) / x[later]
    return np.maximum(square - (x / law.mean) ** 2, 0.0)


def _sum_integrals(law: Delay, x: FloatArray, step: float) -> FloatArray:
    """Return Σ_j A_j as the power series A_1(z) / (1 - F(z)), inverted on a circle inside the unit disc."""
    masses, integral = lattice_law(law, float(x.max()), step, _MOST_CELLS_ONCE)
    size = 2 ** int(np.ceil(np.log2(2 * len(masses))))
    # The damping moves the circle inside the unit disc, away from the pole of 1 / (1 - F(z)) at z = 1. The coefficient
    # of z^{k + size} that is mixed in is large, because the sum grows with the square of x. Rounding counts at the end.
    damping = 10.0 ** (-14 / size * np.arange(len(masses)))
    spectrum = np.fft.rfft(integral * damping, size) / (1 - np.fft.rfft(masses * damping, size))
    return _interpolate(np.fft.irfft(spectrum, size)[: len(masses)] / damping, x / step)


def _gamma_integrals(law: Delay, x: FloatArray, max_terms: int) -> FloatArray:
    """Return A_j(x) = x P(ja, x) - ja P(ja + 1, x) in units of the scale, P the regularised incomplete gamma."""
    from scipy.special import gammainc

    shape, scale = law.mean**2 / law.variance, law.variance / law.mean
    y, rows = x / scale, []
    while len(rows) < max_terms and not (rows and rows[-1].max() <= _NEGLIGIBLE_SHARE * law.mean):
        numbers = (len(rows) + 1.0) * len(x)
        require_size(f"`compute` = {brief(law)}", numbers, SIMULATE, operations=GAMMA_OPERATIONS * numbers)
        total = shape * (len(rows) + 1)
        rows.append(scale * np.maximum(y * gammainc(total, y) - total * gammainc(total + 1, y), 0.0))
    return np.array(rows)


def _lattice_integrals(law: Delay, x: FloatArray, max_terms: int, step: float) -> FloatArray:
    masses, integral = lattice_law(law, float(x.max()), step)
    size = 2 ** int(np.ceil(np.log2(2 * len(masses))))
    spectrum = np.fft.rfft(masses, size)
    rows = [_interpolate(integral, x / step)]
    while len(rows) < max_terms and rows[-1].max() > _NEGLIGIBLE_SHARE * law.mean:
        operations = 100.0 * size * (len(rows) + 1)
        require_size(f"`compute` = {brief(law)}", (len(rows) + 1.0) * len(x), SIMULATE, operations=operations)
        # A convolution with the law turns A_j into A_{j+1}.
        integral = np.fft.irfft(np.fft.rfft(integral, size) * spectrum, size)[: len(masses)]
        rows.append(_interpolate(integral, x / step))
    return np.array(rows)


def lattice_law(
    law: Delay, longest: float, step: float, most_cells: int = _MOST_CELLS
) -> tuple[FloatArray, FloatArray]:
    """Return masses on 0, step, 2 step, ... past `longest` that keep the mean, and ∫F at these points."""
    cells = int(np.ceil(longest / step)) + 4
    if cells > most_cells:
        raise ValueError(
            f"`compute` has too heavy a tail for its spread; {law!r} would need {cells} lattice cells and at most "
            f"{most_cells} are tried. Simulate this one, or use `staleness_mean`, which holds for every law."
        )
    edges = np.arange(cells + 1, dtype=np.float64) * step
    integral = integrals(law.cdf, edges)
    # Second differences of ∫F divide every mass between its two neighbours on the lattice so that its mean is kept.
    masses = np.diff(integral, n=2, prepend=0.0) / step
    return masses, integral[:-1]


def lattice_step(law: Delay) -> float:
    """Return a step that resolves the narrowest 1/32 of the law's mass twice over, within reason."""
    quantiles = quantile(law, np.arange(0, 32) / 32)
    finest = min(law.mean / 256, (quantiles[24] - quantiles[8]) / 64)  # a density may be infinite somewhere
    return float(np.clip(np.diff(quantiles).min() / 2, max(finest, 1e-12 * law.mean), law.mean / 64))


def _interpolate(values: FloatArray, position: FloatArray) -> FloatArray:
    """Interpolate by the cubic through the four lattice points around each position."""
    first = np.clip(np.floor(position).astype(int) - 1, 0, len(values) - 4)
    t = position - first
    return (
        -(t - 1) * (t - 2) * (t - 3) / 6 * values[first]
        + t * (t - 2) * (t - 3) / 2 * values[first + 1]
        - t * (t - 1) * (t - 3) / 2 * values[first + 2]
        + t * (t - 1) * (t - 2) / 6 * values[first + 3]
    )
