"""The bitwise median is the median."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from asyncsim._trees import median

FLOATS = st.floats(-(2.0**99), 2.0**99, width=32, allow_subnormal=False)  # XLA flushes subnormal numbers to zero


compiled = jax.jit(median)


@settings(deadline=None)  # a new length is a new program
@given(arrays.arrays(np.float32, st.sampled_from([1, 5, 8]), elements=FLOATS))
def test_any_numbers(values):
    # Half of each of the two middle numbers is added, so that huge ones do not overflow.
    ordered = np.sort(values)
    expected = ordered[(len(values) - 1) // 2] / 2 + ordered[len(values) // 2] / 2
    assert float(compiled(values)) == pytest.approx(float(expected), rel=1e-6, abs=1e-30)


@pytest.mark.parametrize(
    "values", [[1.0] * 5, [0.0, 0, 0, 5, 5], [0.0, -0.0, 0, 2, 2], [np.inf, 1, 0, 3, -1], [-np.inf, -1, -1, -3, 0]]
)
def test_ties_and_infinities(values):
    assert float(compiled(np.float32(values))) == np.median(values)


def test_a_nan_is_not_hidden():
    assert np.isnan(compiled(np.float32([1.0, np.nan, 2.0, 3.0, 4.0])))


def test_double_precision_and_many(x64):
    values = np.random.default_rng(0).normal(size=(3, 1001))
    batched = jax.jit(jax.vmap(median))(values)
    np.testing.assert_allclose(batched, np.median(values, axis=1), rtol=1e-15)
