"""Protocols that take several gradients per step: moments, a closed tail and special cases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsim import theory

pytestmark = pytest.mark.quick

workers_and_k = st.integers(1, 30).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n)))


class TestBatchedStaleness:
    @pytest.mark.parametrize(("protocol", "variance"), [("k_async", 12.0), ("k_batch_async", 15.151)])
    def test_moments(self, protocol: str, variance: float) -> None:
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
