"""The generating function E z^τ of stationary staleness, for any compute laws without atoms.

Between the read and the commit of one worker, the others are independent renewal processes in equilibrium, so

    E z^τ = Σ_i share_i ∫ F_i(dx) Π_{w≠i} E z^{N_w(x)}

with F_i the compute law of worker i, share_i its share of the commits and N_w(x) an equilibrium renewal count.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from asyncsim.delays import Delay, FloatArray
from asyncsim.delays._per_worker import Group
from asyncsim.theory.staleness._quadrature import Quadrature, longest_time, quadrature
from asyncsim.theory.staleness._renewal import count_tails

ComplexArray = NDArray[np.complex128]
_NUMBERS_AT_ONCE = 2**19  # complex numbers per block: 8 MiB stay in the caches
_MISSING = 1e-6  # probability that may be lost beyond the longest compute time considered


def staleness_transform(laws: tuple[Group, ...], z: NDArray, most: int) -> NDArray:
    """E z^τ at every z, |z| <= 1; the coefficients of powers above z^most may be wrong."""
    rule, tails = _prepared(laws, most)
    block = max(1, _NUMBERS_AT_ONCE // (len(rule.x) * len(laws)))
    parts = [_transform_block(laws, rule, tails, z[i : i + block]) for i in range(0, len(z), block)]
    return np.concatenate(parts)


def staleness_distribution(laws: tuple[Group, ...], size: int) -> FloatArray:
    """P(τ = 0..size-1) by inverting the transform on a circle inside the unit disc, shape (size,)."""
    return invert(lambda z: staleness_transform(laws, z, size), size)


def invert(transform: Callable[[ComplexArray], ComplexArray], size: int) -> FloatArray:
    """The coefficients of z^0, ..., z^{size - 1} of a generating function, shape (size,)."""
    length = 2 * size
    radius = 10.0 ** (-11 / length)
    z = radius * np.exp(-2j * np.pi * np.arange(size + 1) / length)
    values = np.fft.irfft(transform(z), length)[:size]
    return np.maximum(values * radius ** -np.arange(size), 0.0)


def transform_of_equal(rule: Quadrature, cycle: Delay, others: int, z: ComplexArray, most: int) -> ComplexArray:
    """∫ F(dx) (E z^{N(x)})^others for the one law F of the quadrature, and counts N of renewals of law `cycle`."""
    tails = count_tails(cycle, rule.x, most)
    block = max(1, _NUMBERS_AT_ONCE // len(rule.x))
    parts = [
        rule.weights[0] @ _power(_count_transform(tails, z[i : i + block]), others) for i in range(0, len(z), block)
    ]
    return np.concatenate(parts)


def _prepared(laws: tuple[Group, ...], most: int) -> tuple[Quadrature, list[FloatArray]]:
    """Quadrature up to a time beyond which a staleness of at most `most` is negligible, and the counts at its nodes."""
    longest = longest_time(laws)
    cycle = 1 / sum(group.workers / group.law.mean for group in laws)
    horizon = 1.5 * most * cycle + 8 * min(group.law.mean for group in laws)
    while horizon < longest and _missing(laws, horizon, most) > _MISSING:
        horizon *= 2
    rule = quadrature(laws, min(horizon, longest))
    return rule, [count_tails(group.law, rule.x, most) for group in laws]


def _missing(laws: tuple[Group, ...], horizon: float, most: int) -> float:
    """A bound on P(delay > horizon, τ <= most) for one worker."""
    tail = max(float(1 - group.law.cdf(horizon)) for group in laws)
    others = sum(group.workers for group in laws) - 1
    if tail < _MISSING or others < 1:
        return tail
    allowed = int(2 * most / others) + 1
    few = 0.0
    for group in laws:
        tails = count_tails(group.law, np.array([horizon]), allowed)
        few = max(few, 1 - float(tails[allowed - 1, 0]) if len(tails) >= allowed else 1.0)
    needed = -(-others // 2)
    return tail * min(1.0, 4 * few) ** needed


def _transform_block(laws: tuple[Group, ...], rule: Quadrature, tails: list[FloatArray], z: NDArray) -> NDArray:
    single = [_count_transform(tail, z) for tail in tails]  # each (points, arguments)
    counts = [group.workers for group in laws]
    before = _running_products(single, counts)
    after = _running_products(single[::-1], counts[::-1])[::-1]
    total = np.zeros(z.shape, dtype=z.dtype)
    for index, group in enumerate(laws):
        others = before[index] * after[index] * _power(single[index], group.workers - 1)
        total += group.workers * group.share * (rule.weights[index] @ others)
    return total


def _count_transform(tails: FloatArray, z: NDArray) -> NDArray:
    """E z^N = 1 + (z - 1) Σ_j P(N >= j) z^{j-1}, shape (points, arguments)."""
    powers = z ** np.arange(len(tails))[:, None]
    if np.isrealobj(z):
        return 1 + (z - 1) * (tails.T @ powers)
    return 1 + (z - 1) * (tails.T @ powers.real + 1j * (tails.T @ powers.imag))


def _running_products(single: list[NDArray], counts: list[int]) -> list[NDArray]:
    """The product of all factors before each one, each to the power of its count."""
    products = [np.ones(())]
    for factor, count in zip(single[:-1], counts[:-1], strict=True):
        products.append(products[-1] * _power(factor, count))
    return products


def _power(base: NDArray, exponent: int) -> NDArray:
    """Integer power by squaring: several times faster than complex `**`."""
    result = np.ones(())
    while exponent:
        if exponent % 2:
            result = result * base
        base, exponent = (base * base if exponent > 1 else base), exponent // 2
    return result
