"""The written-out generator is JAX's, and its normals are normal."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32
from scipy import stats

from asyncsim.workloads._analytic import standard_normal, threefry


def test_the_words_are_those_of_jax():
    key = jax.random.key_data(jax.random.key(2**31 - 1))
    high, low = jnp.arange(1000, dtype=jnp.uint32), jnp.arange(1000, 2000, dtype=jnp.uint32)
    np.testing.assert_array_equal(
        jnp.concatenate(threefry(key, high, low)), threefry_2x32(key, jnp.concatenate([high, low]))
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_law_is_normal(dtype, x64):
    """Kolmogorov and Smirnov's distance stays below its 0.9999 quantile."""
    size = 100_001  # odd
    values = np.asarray(standard_normal(jax.random.key(2), size, dtype))
    assert (values.shape, values.dtype) == ((size,), dtype)
    assert stats.kstest(values, "norm").statistic < stats.kstwobign.isf(1e-4) / np.sqrt(size)


def test_neighbouring_keys_and_draws_are_uncorrelated():
    """And draws under vmap equal those one at a time."""
    keys, draw = jax.random.split(jax.random.key(3), 2), partial(standard_normal, size=50_000, dtype=jnp.float32)
    first, second = np.asarray(jax.vmap(draw)(keys), float)
    np.testing.assert_array_equal(first, draw(keys[0]))
    for a, b in ((first, second), (first[1:], first[:-1]), (first[: len(first) // 2], first[len(first) // 2 :])):
        assert abs(np.mean(a * b)) < 4.5 / np.sqrt(len(a))


def test_another_generator_of_jax_is_used_as_it_is():
    key = jax.random.key(0, impl="rbg")
    np.testing.assert_array_equal(standard_normal(key, 9, jnp.float32), jax.random.normal(key, (9,)))
