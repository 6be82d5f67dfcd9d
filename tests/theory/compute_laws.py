"""Compute laws that several tests of staleness share."""

import numpy as np

from asyncsim import delays

EIGHT = [delays.Exponential(1 / rate) for rate in (1, 1, 1, 1, 2, 2, 4, 8)]
FIVE = [
    delays.Gamma(1.0, 0.5),
    delays.Gamma(2.0, 0.5**0.5),
    delays.LogNormal(1.0, 0.5),
    delays.Exponential(0.7),
    delays.Uniform(0.2, 1.0),
]
HYPER = delays.HyperExponential(probabilities=(0.9, 0.1), means=(1 / 1.8, 1 / 0.2))
STRAGGLER = delays.Straggler(delays.Gamma(mean=1.0, cv=8**-0.5), probability=0.05, factor=10.0)
LOG_NORMAL = delays.LogNormal(mean=1.0, cv=np.expm1(0.25) ** 0.5)

CASES = [  # compute law and number of workers
    (delays.Exponential(1.0), 16),
    (delays.Gamma(mean=1.0, cv=0.5**-0.5), 16),
    (delays.Gamma(mean=1.0, cv=0.5**0.5), 16),
    (delays.Gamma(mean=1.0, cv=0.5), 16),
    (delays.Gamma(mean=1.0, cv=0.25), 16),
    (LOG_NORMAL, 16),
    (STRAGGLER, 16),
    (HYPER, 16),
    (EIGHT, 8),
]
CONTINUOUS = [
    delays.Erlang(mean=1.0, shape=3),
    delays.HalfNormal(base=0.2, spread=1.0),
    delays.Pareto(minimum=1.0, shape=2.5),
    delays.ShiftedExponential(0.5, 1.0),
    delays.Uniform(0.5, 2.0),
    delays.Weibull(mean=1.0, shape=0.7),
    delays.Scaled(LOG_NORMAL, scale=2.0, shift=1.0),
    delays.Mixture((0.5, 0.5), (delays.Uniform(1.0, 1.2), delays.Gamma(mean=3.0, cv=0.1))),
]
