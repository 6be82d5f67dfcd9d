"""Arguments of a law that do not fit are refused in one line: the argument, the value, the remedy.

`tests/test_arguments.py` gives every argument values that are no numbers or out of range.
"""

import math

import numpy as np
import pytest

from asyncsim import delays
from asyncsim.delays import Constant, Exponential, Gamma, Scaled, Uniform
from tests.problems import refusals


def test_gamma_delays_of_which_most_underflow_are_allowed() -> None:
    law = Gamma(1.0, 1e3)
    share = np.mean(law.sample(np.random.default_rng(0), 100_000) > 0)
    assert share == pytest.approx(1 - law.cdf(np.finfo(float).tiny), abs=3e-4)
    assert Gamma(1.0, 1e4).variance == 1e8


UNDERFLOW = r"`cv` must leave delays that are not all 0 .*; got .*Give at most 10 000\.$"

test_invalid_arguments_are_named = refusals(
    (lambda: Gamma(1.0, 1e9), UNDERFLOW),
    (lambda: Gamma(1e-6, 1e200), UNDERFLOW),
    (lambda: Gamma(2.0, 1e5), UNDERFLOW),
    (lambda: Gamma(1.0, 0), r"`cv` must be finite and positive; got 0\. Use `Constant`"),
    (lambda: Uniform(2.0, 1.0), r"`low` must not exceed `high`; got 2\.0 > 1\.0\. Swap"),
    (lambda: delays.Erlang(1.0, 2.5), r"`shape` must be an integer of at least 1; got 2\.5\. Use `Gamma`"),
    (lambda: delays.Weibull(1.0, 0.05), r"`shape` must be at least 0\.1; got 0\.05\. .*use `Pareto`"),
    (lambda: delays.Weibull.from_cv(1.0, 1e3), r"`cv` must be at most 430; got 1000\.0\. Use `Pareto`"),
    (lambda: delays.Pareto(1.0, 1.0), r"`shape` must be above 1, or the mean would be infinite; got 1\.0\. Use"),
    (lambda: delays.Straggler(Constant(1.0), 1.5, 2.0), r"`probability` must be at most 1; got 1\.5\. Give"),
    (lambda: delays.Mixture((0.5, 0.6), (Constant(1.0),) * 2), r"`weights` must sum to 1; got \(0\.5, 0\.6\)\."),
    (lambda: delays.Mixture((-1.0,), (Constant(1.0),)), r"`weights` must be finite and not negative; got -1\.0\."),
    (lambda: delays.HyperExponential((1.0,), (math.nan,)), r"`means` must be finite and positive; got nan\."),
    (lambda: delays.Mixture((1.0,), (Constant(1.0),) * 2), "`weights` and `laws` must be as many; got 1 and 2"),
    (lambda: delays.Mixture((1.0,), (2.0,)), r"`laws` must be a law of delays; got 2\.0\. Use one"),
    (lambda: delays.HyperExponential((1.0,), (1.0, 2.0)), "`probabilities` and `means` must be as many; got 1"),
    (lambda: delays.Empirical([]), r"`values` must be a sequence of delays, at least one; got \[\]\. Give"),
    (lambda: delays.Empirical(np.ones((1, 2))), r"`values\[0\]` must be finite and .*; got \[1\.0, 1\.0\]"),
    start="^",
)


def test_whole_numbers_are_the_same_law() -> None:
    pairs = [
        (Constant(2), Constant(2.0)),
        (Uniform(0, 2), Uniform(0.0, 2.0)),
        (Exponential(1), Exponential(1.0)),
        (Gamma(1, 1), Gamma(1.0, 1.0)),
        (delays.LogNormal(np.int64(1), 1), delays.LogNormal(1.0, 1.0)),
        (delays.Pareto(1, 2), delays.Pareto(1.0, 2.0)),
        (delays.Erlang(1, np.int64(2)), delays.Erlang(1.0, 2)),
        (delays.HyperExponential([0, 1], np.array([1, 2])), delays.HyperExponential((0.0, 1.0), (1.0, 2.0))),
        (delays.Mixture([1], [Constant(1)]), delays.Mixture((1.0,), (Constant(1.0),))),
        (delays.Empirical(np.array([3, 1])), delays.Empirical((1.0, 3.0))),
        (Scaled(Constant(1), 2), Scaled(Constant(1.0), 2.0, 0.0)),
    ]
    for whole, law in pairs:
        assert (whole, repr(whole), hash(whole)) == (law, repr(law), hash(law))
