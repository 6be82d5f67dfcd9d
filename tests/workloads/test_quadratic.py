"""The noisy quadratic: its gradient, its noise and its errors. The generator behind the noise is JAX's, written out."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32
from scipy import stats

import asyncsim as asim
from asyncsim.workloads._analytic import standard_normal, threefry
from tests.problems import refusals

EIGENVALUES = [0.5, 1.0, 4.0]


def params(*x: float) -> dict[str, jax.Array]:
    return {"x": jnp.array(x)}


@pytest.mark.quick
@pytest.mark.usefixtures("x64")
def test_gradient_is_that_of_the_loss() -> None:
    workload = asim.workloads.Quadratic(EIGENVALUES)
    at, key = params(1.0, -2.0, 0.3), jax.random.key(0)
    loss, gradient = workload.loss_and_gradient(at, None, key)
    by_jax = jax.value_and_grad(workload.loss)(at, None, key)
    assert gradient["x"].dtype == jnp.float64
    assert float(loss) == 0.5 * (0.5 * 1 + 4 + 4 * 0.09)
    np.testing.assert_array_equal(by_jax[0], loss)
    np.testing.assert_allclose(by_jax[1]["x"], gradient["x"], rtol=1e-15)


def test_noise_has_its_mean_and_variance_and_leaves_the_loss_alone() -> None:
    draws, sigma = 20_000, 0.7
    workload = asim.workloads.Quadratic(EIGENVALUES, noise=sigma)
    at = params(1.0, -2.0, 0.3)
    keys = jax.random.split(jax.random.key(0), draws)
    one = lambda key: workload.loss_and_gradient(at, workload.draw(key), key)  # noqa: E731
    loss, gradient = jax.vmap(one)(keys)
    noise = np.asarray(gradient["x"] - jnp.array(EIGENVALUES) * at["x"], float)
    assert np.ptp(loss) == 0
    assert np.abs(noise.mean(0)).max() < 4 * sigma / draws**0.5
    assert np.abs(noise.var(0) / sigma**2 - 1).max() < 4 * (2 / draws) ** 0.5
    correlation = np.corrcoef(noise.T) - np.eye(3)
    assert np.abs(correlation).max() < 4 / draws**0.5


def test_each_commit_has_noise_of_its_own() -> None:
    """Downpour with step 1 on h = 0 adds up the noise: its variance grows with the commits."""
    commits = 4_000
    workload = asim.workloads.Quadratic(np.zeros(50), noise=1.0, start=0.0)
    trace = asim.simulate(asim.Cluster(workers=8, compute=asim.delays.Exponential(mean=1.0)), commits=commits)
    x = np.asarray(asim.replay(trace, asim.rules.Downpour(1.0), workload).central["x"])
    assert np.square(x).mean() / commits == pytest.approx(1, abs=4 * (2 / 50) ** 0.5)


def test_whole_numbers_are_numbers() -> None:
    whole, real = (asim.workloads.Quadratic(one, noise=one[0], start=one[0]) for one in ([2, 1], [2.0, 1.0]))
    for made in ("init", "draw"):
        a, b = (jax.tree.leaves(getattr(workload, made)(jax.random.key(0))) for workload in (whole, real))
        np.testing.assert_array_equal(a, b, strict=True)


test_arguments_out_of_range_are_refused = refusals(
    ({"eigenvalues": []}, "`eigenvalues` must be a sequence of at least one number"),
    ({"eigenvalues": [[1.0]]}, "`eigenvalues` must be a sequence"),
    ({"eigenvalues": [1.0, np.nan]}, "`eigenvalues` must be finite"),
    ({"eigenvalues": "high"}, "`eigenvalues` must be a number"),
    ({"eigenvalues": [1.0], "noise": -1.0}, "`noise` must not be negative; got -1.0"),
    ({"eigenvalues": [1.0], "start": np.inf}, "`start` must be finite; got inf"),
    ({"eigenvalues": [1.0], "noise": 1e300}, r"`noise` must be at most 3\.4e\+38, the largest float32"),
    ({"eigenvalues": [1.0], "start": [1.0, 2.0]}, "`start` must be a scalar, or one value per eigenvalue"),
    call=lambda arguments: asim.workloads.Quadratic(**arguments),
)


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
