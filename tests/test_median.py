"""The bitwise median is the median."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from asyncsim._trees import median

FLOATS = st.floats(-(2.0**99), 2.0**99, width=32, allow_subnormal=False)  # XLA flushes subnormal numbers to zero


compiled = jax.jit(median)


@settings(deadline=None)  # a new length is a new program
@given(arrays.arrays(np.float32, st.sampled_from([1, 2, 5, 8]), elements=FLOATS))
def test_any_numbers(values):
    # Half of each of the two middle numbers is added, so that huge ones do not overflow.
    ordered = np.sort(values)
    expected = ordered[(len(values) - 1) // 2] / 2 + ordered[len(values) // 2] / 2
    assert float(compiled(values)) == pytest.approx(float(expected), rel=1e-6, abs=1e-30)


@pytest.mark.parametrize("values", [[1.0, 1, 1, 1], [0.0, 0, 0, 5, 5], [0.0, -0.0, 2], [np.inf, 1, 0], [-np.inf, -1]])
def test_ties_and_infinities(values):
    assert float(median(jnp.array(values))) == np.median(values)


def test_a_nan_is_not_hidden():
    assert np.isnan(median(jnp.array([1.0, np.nan, 2.0])))


def test_double_precision_and_many(x64):
    values = np.random.default_rng(0).normal(size=(3, 1001))
    assert float(median(jnp.asarray(values))) == pytest.approx(np.median(values), rel=1e-15)
    side_by_side = jax.vmap(median)(jnp.asarray(values))
    np.testing.assert_allclose(side_by_side, np.median(values, axis=1), rtol=1e-15)
