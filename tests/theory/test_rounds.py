"""Order statistics, staleness in batches, error curves and complexities: closed forms, identities and samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsim import delays, theory
from asyncsim.delays import Constant, Delay, Exponential, Gamma, Mixture, Pareto
from tests.theory.replicates import many_paths

STANDARD_ERRORS = 5
GAMMA = Gamma(mean=1.0, cv=0.5)
CLOSED = [
    Exponential(2.0),
    delays.Uniform(1.0, 3.0),
    Pareto(minimum=1.0, shape=3.0),
    Pareto(minimum=2.0, shape=1.5),
    delays.ShiftedExponential(0.5, 2.0),
]
OTHER = [
    Gamma(mean=1.0, cv=2.0),
    delays.Weibull(mean=1.0, shape=0.7),
    Mixture((0.9, 0.1), (Constant(1.0), Exponential(3.0))),
    delays.Empirical([1.0, 2.0, 2.0, 7.0]),
]


@pytest.mark.quick
class TestOrderStatistics:
    @pytest.mark.parametrize("law", CLOSED, ids=repr)
    @pytest.mark.parametrize(("k", "n"), [(1, 1), (1, 16), (8, 16), (16, 16), (999, 1000), (1000, 1000)])
    def test_closed_form_is_the_quadrature(self, law: Delay, k: int, n: int) -> None:
        # A law scaled by 1 is not recognised: it goes through the quadrature.
        known, found = (theory.expected_order_statistic(one, k=k, n=n) for one in (law, delays.Scaled(law, scale=1.0)))
        assert found == pytest.approx(known, rel=1e-6)

    @pytest.mark.parametrize("law", CLOSED + OTHER, ids=repr)
    def test_ranks_average_to_the_mean_and_increase(self, law: Delay) -> None:
        ranks = [theory.expected_order_statistic(law, k=k, n=5) for k in range(1, 6)]
        assert np.mean(ranks) == pytest.approx(law.mean, rel=1e-6)
        assert (np.diff(ranks) > 0).all()

    @pytest.mark.parametrize("law", OTHER, ids=repr)
    def test_order_statistics_agree_with_samples(self, law: Delay) -> None:
        drawn = np.sort(law.sample(np.random.default_rng(3), 20_000 * 6).reshape(-1, 6), axis=1)
        error = drawn.std(axis=0) / 20_000**0.5
        known = [theory.expected_order_statistic(law, k=k, n=6) for k in range(1, 7)]
        assert (np.abs(drawn.mean(axis=0) - known) <= STANDARD_ERRORS * error).all()


workers_and_k = st.integers(1, 30).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n)))


@pytest.mark.quick
class TestBatchedStaleness:
    @pytest.mark.parametrize(("protocol", "variance"), [("k_async", 12.0), ("k_batch_async", 15.151)])
    def test_batched_staleness_has_the_moments_of_its_distribution(self, protocol: str, variance: float) -> None:
        pmf, tau = theory.batched_staleness_pmf(protocol=protocol, workers=16, k=4, size=2000), np.arange(2000)
        assert theory.batched_staleness_mean(protocol=protocol, workers=16, k=4) == pytest.approx(pmf @ tau)
        assert pmf @ tau**2 - (pmf @ tau) ** 2 == pytest.approx(variance, abs=5.1e-4)

    @given(workers_and_k)
    def test_closed_tail_of_k_batch_async(self, pair: tuple[int, int]) -> None:
        n, k = pair[0] + 1, pair[1]
        pmf = theory.batched_staleness_pmf(protocol="k_batch_async", workers=n, k=k, size=20)
        q, tau = 1 - 1 / n, np.arange(1, 20)
        tail = q ** (tau * k) * (q**-k - 1) / (k * (1 / q - 1))
        assert 1 - np.cumsum(pmf)[:-1] == pytest.approx(tail, abs=1e-12)

    @given(workers_and_k)
    def test_special_cases(self, pair: tuple[int, int]) -> None:
        n, k = pair
        plain = theory.batched_staleness_pmf(protocol="async", workers=n, size=30)
        for protocol in ("k_async", "k_batch_async"):
            one = theory.batched_staleness_pmf(protocol=protocol, workers=n, k=1, size=30)
            assert one == pytest.approx(plain, abs=1e-12)
        for protocol, size in (("k_async", n), ("k_sync", k), ("k_batch_sync", k), ("sync", None)):
            fresh = theory.batched_staleness_pmf(protocol=protocol, workers=n, k=size, size=3)
            assert fresh.tolist() == [1, 0, 0]


@pytest.mark.parametrize(("protocol", "k"), [("async", 1), ("k_async", 2), ("k_sync", 3), ("k_batch_sync", 3)])
def test_against_many_plain_runs(protocol: str, k: int) -> None:
    """Where runs are after as many steps as they make in 1.5 s, which does not depend on who takes part."""
    n, runs, kappa, s2 = 4, 20_000, 0.3, 0.04
    fresh = "async" not in protocol  # as if only the K whose gradients are taken were there
    paths = many_paths(
        lambda x: x, workers=k if fresh else n, learning_rate=kappa, commits=40, runs=runs, k=k, noise=s2**0.5 / kappa
    )
    rates = np.full(k, n) if "batch" in protocol else n - np.arange(k)
    seconds = np.random.default_rng(7).exponential(1 / rates, (runs, 40, k)).sum(axis=2).cumsum(axis=1)
    squares = paths[np.arange(runs), (seconds < 1.5).sum(axis=1)] ** 2
    known = theory.error_curve([1.5], workers=n, kappa=kappa, rate=1.0, noise=s2, protocol=protocol, k=k)[0]
    assert abs(squares.mean() - known) <= STANDARD_ERRORS * squares.std() / runs**0.5


fleets = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=20)


@given(seconds=fleets, noise=st.floats(0.0, 100.0))
def test_rennala_is_never_above_the_others(seconds: list[float], noise: float) -> None:
    case = {"seconds": seconds, "gap": 2.0, "noise": noise, "accuracy": 0.5}
    optimal = theory.rennala_complexity(**case)[0] * (1 - 1e-12)
    asynchronous = theory.asynchronous_complexity(**case)
    assert optimal <= asynchronous
    assert asynchronous <= theory.minibatch_complexity(**case) * (1 + 1e-12)


@given(seconds=fleets, gradients=st.integers(1, 50))
def test_the_collection_time_is_the_first_with_enough_gradients(seconds: list[float], gradients: int) -> None:
    time = theory.collection_time(seconds=seconds, gradients=gradients)
    assert time <= theory.collection_bound(seconds=seconds, gradients=gradients) * (1 + 1e-9)
    tau = np.array(seconds)
    assert np.floor(time / tau * (1 + 1e-9)).sum() >= gradients
    assert np.floor(time / tau * (1 - 1e-9)).sum() < gradients
