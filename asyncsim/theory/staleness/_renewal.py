"""Equilibrium renewal counts: how many commits a worker in its stationary state makes within x seconds.

With N(x) that count, F the compute law, m its mean and A_j(x) = ∫_0^x F^{*j}(u) du (A_0(x) = x):

    P(N(x) >= j) = (A_{j-1}(x) - A_j(x)) / m
"""

import numpy as np

from asyncsim.delays import Delay, Erlang, Exponential, FloatArray, Gamma
from asyncsim.theory._laws import quantile
from asyncsim.theory._numerics import integrals

_GAMMA = (Exponential, Gamma, Erlang)
_NEGLIGIBLE = 1e-12
_MOST_CELLS = 2**18  # one convolution per count
_MOST_CELLS_ONCE = 2**21  # one convolution in all


def count_tails(law: Delay, x: FloatArray, most: int) -> FloatArray:
    """P(N(x) >= j) for j = 1, 2, ... until negligible at the largest x, at most `most` of them."""
    integrals = _gamma_integrals if isinstance(law, _GAMMA) else _extrapolated_integrals
    below = np.vstack([x, integrals(law, x, most)])
    return np.clip((below[:-1] - below[1:]) / law.mean, 0.0, 1.0)


def count_variance(law: Delay, x: FloatArray) -> FloatArray:
    """Var N(x) = x/m + (2/m) Σ_j A_j(x) - (x/m)², shape and accuracy as in `count_tails`."""
    if isinstance(law, _GAMMA):
        total = _gamma_integrals(law, x, most=10**9).sum(axis=0)
    else:
        step = lattice_step(law)
        total = (4 * _summed_integrals(law, x, step / 2) - _summed_integrals(law, x, step)) / 3
    return x / law.mean + 2 / law.mean * total - (x / law.mean) ** 2


def _summed_integrals(law: Delay, x: FloatArray, step: float) -> FloatArray:
    """Σ_j A_j as the power series A_1(z) / (1 - F(z)), inverted on a circle inside the unit disc."""
    masses, integral = lattice_law(law, float(x.max()), step, _MOST_CELLS_ONCE)
    size = 2 ** int(np.ceil(np.log2(2 * len(masses))))
    damping = 10.0 ** (-11 / size * np.arange(len(masses)))
    spectrum = np.fft.rfft(integral * damping, size) / (1 - np.fft.rfft(masses * damping, size))
    return _interpolated(np.fft.irfft(spectrum, size)[: len(masses)] / damping, x / step)


def _gamma_integrals(law: Delay, x: FloatArray, most: int) -> FloatArray:
    """A_j(x) = x P(ja, x) - ja P(ja + 1, x) in units of the scale, P the regularised incomplete gamma function."""
    from scipy.special import gammainc

    shape, scale = law.mean**2 / law.variance, law.variance / law.mean
    y, rows = x / scale, []
    while len(rows) < most and not (rows and rows[-1].max() <= _NEGLIGIBLE * law.mean):
        total = shape * (len(rows) + 1)
        rows.append(scale * np.maximum(y * gammainc(total, y) - total * gammainc(total + 1, y), 0.0))
    return np.array(rows)


def _extrapolated_integrals(law: Delay, x: FloatArray, most: int) -> FloatArray:
    """Richardson extrapolation: the lattice's error is quadratic in its step."""
    step = lattice_step(law)
    coarse, fine = (_lattice_integrals(law, x, most, h) for h in (step, step / 2))
    terms = min(len(coarse), len(fine))
    return (4 * fine[:terms] - coarse[:terms]) / 3


def _lattice_integrals(law: Delay, x: FloatArray, most: int, step: float) -> FloatArray:
    masses, integral = lattice_law(law, float(x.max()), step)
    size = 2 ** int(np.ceil(np.log2(2 * len(masses))))
    spectrum = np.fft.rfft(masses, size)
    rows = [_interpolated(integral, x / step)]
    while len(rows) < most and rows[-1].max() > _NEGLIGIBLE * law.mean:
        integral = np.fft.irfft(np.fft.rfft(integral, size) * spectrum, size)[: len(masses)]
        rows.append(_interpolated(integral, x / step))
    return np.array(rows)


def lattice_law(
    law: Delay, longest: float, step: float, most_cells: int = _MOST_CELLS
) -> tuple[FloatArray, FloatArray]:
    """Masses on 0, step, 2 step, ... past `longest` that keep the mean, and ∫F at these points."""
    cells = int(np.ceil(longest / step)) + 4
    if cells > most_cells:
        raise ValueError(
            f"`compute` has too heavy a tail for its spread; {law!r} would need {cells} lattice cells and at most "
            f"{most_cells} are tried. Simulate this one, or use `staleness_mean`, which holds for every law."
        )
    edges = np.arange(cells + 1, dtype=np.float64) * step
    integral = integrals(law.cdf, edges)
    masses = np.diff(integral, n=2, prepend=0.0) / step
    return masses, integral[:-1]


def lattice_step(law: Delay) -> float:
    """A step that resolves the narrowest 1/32 of the law's mass twice over, within reason."""
    quantiles = quantile(law, np.arange(0, 32) / 32)
    finest = min(law.mean / 256, (quantiles[24] - quantiles[8]) / 64)  # a density may be infinite somewhere
    return float(np.clip(np.diff(quantiles).min() / 2, finest, law.mean / 64))


def _interpolated(values: FloatArray, position: FloatArray) -> FloatArray:
    """Cubic through the four lattice points around each position."""
    first = np.clip(np.floor(position).astype(int) - 1, 0, len(values) - 4)
    t = position - first
    return (
        -(t - 1) * (t - 2) * (t - 3) / 6 * values[first]
        + t * (t - 2) * (t - 3) / 2 * values[first + 1]
        - t * (t - 1) * (t - 3) / 2 * values[first + 2]
        + t * (t - 1) * (t - 2) / 6 * values[first + 3]
    )
