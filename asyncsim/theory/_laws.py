"""What the predictions need to know about a law of delays beyond `Delay`: quantiles and continuity."""

import numpy as np
from numpy.typing import ArrayLike

from asyncsim.delays import Delay, FloatArray

_BISECTIONS = 110  # from the largest float bracket in use down to neighbouring floats
_SMALLEST_ATOM = 1e-7


def quantile(law: Delay, probability: ArrayLike) -> FloatArray:
    """The smallest t with cdf(t) >= probability, by bisection down to rounding; same shape as `probability`."""
    probability = np.asarray(probability, dtype=np.float64)
    low, high = np.full(probability.shape, -0.0), np.full(probability.shape, max(law.mean, 1e-300))
    if not np.isfinite(high).all():
        high = np.ones(probability.shape)
    while (short := law.cdf(high) < probability).any() and high.max() < 1e300:
        high = np.where(short, 4 * high, high)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        below = law.cdf(middle) < probability
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high


def has_atoms(law: Delay) -> bool:
    """Whether some single delay has a probability above 1e-7, found from the distribution function alone."""
    if law.cdf(0.0) > _SMALLEST_ATOM:
        return True
    edges = np.unique(quantile(law, np.linspace(0, 1, 513)[1:-1]))
    # A density may be infinite at 0 (gamma with cv > 1), hence no cell that touches 0.
    edges = np.concatenate([edges[:1] / 2, edges, edges[-1:] * 2])
    low, high = edges[:-1], edges[1:]
    for _ in range(40):
        middle = (low + high) / 2
        left = law.cdf(middle) - law.cdf(low) >= law.cdf(high) - law.cdf(middle)
        low, high = np.where(left, low, middle), np.where(left, middle, high)
    return bool((law.cdf(high) - law.cdf(low)).max() > _SMALLEST_ATOM)
