"""Compressors: unbiased where they say so, contractions with the constants they give, and bytes counted by hand."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asyncsim.components._families import built_in_classes
from asyncsim.compressors import QSGD, Compressor, Identity, LowRank, Natural, RandK, ScaledSign, TopK, bytes_of
from tests.problems import assert_refused, refusals
from tests.tables import COMPRESSORS

VECTORS = 2500
SIZE = 24
ERRORS = 5  # standard errors
SHAPE = (4, 6)  # of the same numbers as a matrix
ALL = [*(make() for make in COMPRESSORS.values()), TopK(k=1), QSGD(1), LowRank(2)]  # a new one needs a row in the table
unbiased = pytest.mark.parametrize("compressor", [one for one in ALL if one.unbiased], ids=repr)
named = pytest.mark.parametrize("compressor", ALL, ids=repr)


@pytest.fixture(scope="module")
def vectors():
    """Name -> (VECTORS, SIZE): normal, heavy-tailed, sparse, and of one sign with one large number."""
    rng, many = np.random.default_rng(0), (VECTORS, SIZE)
    heavy = rng.standard_cauchy(many)
    sparse = rng.normal(size=many) * (rng.random(many) < 1.5 / SIZE)
    sparse[:, 0] += sparse.any(axis=1) == 0  # none of zeros alone
    spiked = rng.random(many)
    spiked[np.arange(len(spiked)), rng.integers(SIZE, size=len(spiked))] *= 100
    return {"normal": rng.normal(size=many), "heavy": heavy, "sparse": sparse, "spiked": spiked}


def compress(compressor, key, vector):
    """C of a vector, which is a matrix for those that look at matrices; a fresh Q for `LowRank`."""
    update = vector if compressor.whole else vector.reshape(SHAPE)
    state = compressor.start(update)
    if isinstance(compressor, LowRank):
        state = (jax.random.normal(key, (SHAPE[1], compressor.rank)),)
    return compressor.compress(key, update, state)[0].reshape(-1)


def example(compressor):
    return jax.ShapeDtypeStruct((SIZE,) if compressor.whole else SHAPE, "float32")


@cache
def ratio(compressor, share):
    """‖share·C(x) - x‖²/‖x‖² for keys and vectors."""

    def one(key, vector):
        left = share * compress(compressor, key, vector) - vector
        return (left**2).sum() / (vector**2).sum()

    return jax.jit(jax.vmap(one))


def ratios(compressor, many, share=1.0):
    """The ratio of each vector, with a draw of its own, and the standard error of their mean."""
    keys = jax.random.split(jax.random.key(1), len(many))
    found = np.asarray(ratio(compressor, share)(keys, jnp.asarray(many, jnp.float32)), float)
    return found, found.std() / np.sqrt(len(found))


@named
def test_a_compressor_is_a_contraction(compressor, vectors):
    """With its δ, each time if nothing is drawn, else in the mean; an unbiased one as error feedback uses it."""
    delta = compressor.delta(example(compressor))
    assert 0 < delta <= 1
    random = compressor.draws or isinstance(compressor, LowRank)
    for many in vectors.values():
        found, error = ratios(compressor, many, share=delta if compressor.unbiased else 1.0)
        assert (found.mean() - ERRORS * error if random else found.max()) <= 1 - delta + 1e-5


@unbiased
def test_the_variance_is_at_most_omega(compressor, vectors):
    omega = compressor.omega(example(compressor))
    for many in vectors.values():
        found, error = ratios(compressor, many)
        assert found.mean() <= omega + ERRORS * error + 1e-6
        if isinstance(compressor, RandK):  # whose variance is that of every vector
            assert abs(found.mean() - omega) < ERRORS * error


def test_omega_is_reached():
    """A number of 4/3 is the hardest for `Natural`; d equal ones have √d - 1 with ternary QSGD, whose ω is √d."""
    single, error = ratios(Natural(), np.full((VECTORS, SIZE), 4 / 3))
    assert abs(single.mean() - 1 / 8) < ERRORS * error
    equal, error = ratios(QSGD(1), np.ones((VECTORS, SIZE)))
    assert abs(equal.mean() - (np.sqrt(SIZE) - 1)) < ERRORS * error


@unbiased
def test_an_unbiased_compressor_has_the_right_mean(compressor):
    """The mean over many draws, number by number."""
    vector = jnp.asarray(np.random.default_rng(3).normal(size=SIZE), jnp.float32)
    drawn = jax.jit(jax.vmap(partial(compress, compressor), (0, None)))
    found = np.asarray(drawn(jax.random.split(jax.random.key(2), 20_000), vector), float)
    error = found.std(axis=0) / np.sqrt(len(found)) + 1e-7
    assert (np.abs(found.mean(axis=0) - vector) / error).max() < ERRORS


@pytest.mark.parametrize("compressor", [one for one in ALL if one.whole], ids=repr)
def test_a_tree_is_one_vector(compressor):
    """All tensors together, in the order of the tree: the engine may pass either."""
    vector = jnp.asarray(np.random.default_rng(4).normal(size=SIZE), jnp.float32)
    tree = {"a": vector[:4], "b": [vector[4:14].reshape(2, 5), vector[14:].reshape(5, 2)]}
    key = jax.random.key(5)
    whole, _ = compressor.compress(key, vector, compressor.start(vector))
    parts, _ = compressor.compress(key, tree, compressor.start(tree))
    np.testing.assert_array_equal(jnp.concatenate([part.ravel() for part in jax.tree.leaves(parts)]), whole)
    assert compressor.bytes(tree) <= compressor.bytes(vector) + 3  # each tensor in whole bytes


@named
def test_zeros_stay_zeros_and_infinity_shows(compressor):
    key = jax.random.key(6)
    assert not compress(compressor, key, jnp.zeros(SIZE)).any()
    broken = jnp.ones(SIZE).at[0].set(jnp.nan)
    if not isinstance(compressor, RandK):  # which may leave the number out
        assert not jnp.isfinite(compress(compressor, key, broken)).all()


def test_natural_gives_powers_of_two(x64):
    for dtype in (jnp.float64, jnp.bfloat16):
        vector = jnp.asarray(np.random.default_rng(8).normal(size=SIZE), dtype)
        rounded, _ = Natural().compress(jax.random.key(0), vector, ())
        assert rounded.dtype == dtype
        powers = np.log2(np.abs(np.asarray(rounded, float)))
        np.testing.assert_array_equal(powers, np.round(powers))
        assert (jnp.sign(rounded) == jnp.sign(vector)).all()


@pytest.mark.parametrize("compressor", [QSGD(16), ScaledSign()], ids=repr)
def test_sums_over_many_narrow_numbers_are_wide(compressor):
    """4096 ones: in bfloat16 they add up to 256."""
    ones = jnp.ones(4096, jnp.bfloat16)
    found, _ = compressor.compress(jax.random.key(0), ones, ())
    assert found.dtype == jnp.bfloat16
    assert float(found.astype(jnp.float32).mean()) == pytest.approx(1.0, rel=0.2)


class TestLowRank:
    """PowerSGD."""

    @pytest.fixture
    def matrix(self):
        return jnp.asarray(np.random.default_rng(9).normal(size=(8, 10)))

    def test_low_rank_compression_projects(self, x64, matrix):
        compressor = LowRank(2)
        found, _ = compressor.compress((), matrix, compressor.start(matrix))
        assert np.linalg.matrix_rank(found) == 2
        left = float(((matrix - found) ** 2).sum())
        assert left == pytest.approx(float((matrix**2).sum() - (found**2).sum()))

    def test_a_warm_start_finds_the_best_approximation(self, x64, matrix):
        compressor, before = LowRank(2), np.inf
        state = compressor.start(matrix)
        for _ in range(300):
            found, state = compressor.compress((), matrix, state)
            left = float(((matrix - found) ** 2).sum())
            assert left <= before * (1 + 1e-12)
            before = left
        tail = np.linalg.svd(matrix, compute_uv=False)[2:]
        assert left == pytest.approx((tail**2).sum(), rel=1e-6)

    def test_matrices_of_lower_rank_are_sent_exactly_and_leave_a_search_that_goes_on(self, x64, matrix):
        compressor = LowRank(2)
        state = compressor.start(matrix)
        for column in range(3):  # of rank 1, each in a row of its own
            single = jnp.zeros((8, 10)).at[column].set(matrix[column])
            found, state = compressor.compress((), single, state)
            np.testing.assert_allclose(found, single, atol=1e-12)
        found, state = compressor.compress((), jnp.zeros((8, 10)), state)
        assert not found.any()
        assert (jnp.linalg.norm(state[0], axis=0) > 1e-3).all()

    def test_vectors_and_small_matrices_are_sent_as_they_are(self):
        tree = {"b": jnp.arange(5.0), "small": jnp.arange(6.0).reshape(2, 3), "w": jnp.ones((3, 3, 4, 9))}
        compressor = LowRank(2)
        found, state = compressor.compress((), tree, compressor.start(tree))
        np.testing.assert_array_equal(found["b"], tree["b"])
        np.testing.assert_array_equal(found["small"], tree["small"])
        assert [jnp.shape(q) if len(q) else () for q in state] == [(), (), (9, 2)]
        assert compressor.bytes(tree) == 4 * (5 + 6 + 2 * (36 + 9))
        assert compressor.delta(tree) == 2 / 9


def test_all_are_tested():
    assert {type(one) for one in ALL} == set(built_in_classes("compressors").values())


def test_bytes_by_hand():
    params = {"w": jax.ShapeDtypeStruct((100, 50), "float32"), "b": jax.ShapeDtypeStruct((50,), "float32")}
    size = 5050
    expected = {
        Identity(): 4 * size,
        TopK(0.01): 8 * 51,
        TopK(0.9): 4 * size,  # places would take more bytes than the numbers that are left out
        RandK(0.01): 4 * 51 + 8,
        QSGD(1): 4 + -(-2 * size // 8),
        QSGD(7): 4 + 4 * size // 8,
        ScaledSign(): 4 + -(-size // 8),
        Natural(): -(-9 * 5000 // 8) + -(-9 * 50 // 8),
        LowRank(2): 4 * (2 * 150 + 50),
    }
    assert {one: one.bytes(params) for one in expected} == expected
    assert TopK(0.01).bytes(jax.ShapeDtypeStruct((100,), "bfloat16")) == 6


test_bad_arguments_are_named = refusals(
    (lambda: TopK(0), "`fraction` must be finite and positive; got 0"),
    (lambda: TopK(1.5), "`fraction` must be at most 1, all parameters; got 1.5"),
    (lambda: RandK(-0.1), "`fraction` must be finite and positive; got -0.1"),
    (lambda: RandK(float("nan")), "`fraction` must be finite and positive; got nan"),
    (lambda: TopK("1%"), "`fraction` must be finite and positive; got '1%'"),
    (lambda: TopK(), "Exactly one of `fraction` and `k` must be given; got neither"),
    (lambda: RandK(0.1, k=3), "Exactly one of `fraction` and `k` must be given; got both"),
    (lambda: TopK(k=0), "`k` must be an integer of at least 1; got 0"),
    (lambda: TopK(k=2.5), "`k` must be an integer of at least 1; got 2.5"),
    (lambda: TopK(k=11).bytes(jnp.zeros(10)), "`k` must be at most the number of parameters, 10; got 11"),
    (lambda: QSGD(0), "`levels` must be an integer of at least 1; got 0"),
    (lambda: LowRank(0), "`rank` must be an integer of at least 1; got 0"),
    (lambda: LowRank(1.5), "`rank` must be an integer of at least 1; got 1.5"),
)
pytest.mark.quick(test_bad_arguments_are_named)


class Half(Compressor, named=False):
    """A biased compressor whose author forgot its δ."""

    def compress(self, key, update, state):
        return jax.tree.map(lambda x: x / 2, update), state

    def bytes(self, params):
        return bytes_of(params)


class Doubtful(Half, named=False):
    """One that says that it is unbiased, and gives no ω."""

    unbiased = True


@pytest.mark.parametrize("kind", [Half, Doubtful])
def test_a_compressor_without_its_constants_says_which_to_define(kind):
    assert_refused(
        lambda: kind().delta(jnp.ones(3)), rf"`delta` of {kind.__name__} must be defined.*Return δ in \(0, 1\]"
    )
