"""The busy server: an independent recursion, limits, and the variance of staleness by two routes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsim import theory
from asyncsim.delays import Constant, Exponential, Gamma

# service rate -> variance of staleness: 16 workers, compute rate 1
KNOWN = {1000.0: 239.51, 32.0: 216.66, 16.0: 169.46, 8.0: 70.54, 2.0: 6.000}


@pytest.mark.parametrize("service_rate", KNOWN)
def test_moments_behind_a_queue_are_those_of_the_distribution(service_rate: float) -> None:
    case = {"workers": 16, "compute_rate": 1.0, "service_rate": service_rate}
    pmf, tau = theory.queue_staleness_pmf(**case, size=900), np.arange(900)
    assert pmf.sum() == pytest.approx(1)
    assert pmf @ tau == pytest.approx(15)
    assert theory.queue_staleness_variance(**case) == pytest.approx(KNOWN[service_rate], abs=5.1e-3)
    assert pmf @ (tau - 15) ** 2 == pytest.approx(theory.queue_staleness_variance(**case))
    assert theory.utilisation(**case) == pytest.approx(theory.throughput(**case) / service_rate)


class TestLimits:
    def test_a_fast_server_gives_the_geometric_law(self) -> None:
        queued = theory.queue_staleness_pmf(workers=8, compute_rate=1.0, service_rate=1e9, size=50)
        assert queued == pytest.approx(theory.staleness_pmf(compute=Exponential(1.0), workers=8, size=50), abs=1e-7)

    def test_a_saturated_server(self) -> None:
        exact = theory.queue_staleness_variance(workers=60, compute_rate=2.0, service_rate=6.0)
        assert exact == pytest.approx(theory.saturated_staleness_variance(compute_rate=2.0, service_rate=6.0), rel=1e-9)

    def test_the_knee_is_where_the_asymptotes_cross(self) -> None:
        n = theory.knee(compute_rate=0.4, service_rate=2.0)
        assert n / (1 / 0.4 + 1 / 2.0) == pytest.approx(2.0)

    @given(workers=st.integers(1, 2000), ratio=st.floats(0.01, 1000.0))
    @settings(max_examples=50, deadline=None)
    def test_throughput_is_below_both_asymptotes(self, workers: int, ratio: float) -> None:
        case = {"workers": workers, "compute_rate": 1.0, "service_rate": ratio}
        rate = theory.throughput(**case)
        assert 0 < rate <= min(workers, ratio) * (1 + 1e-9)
        # Workers at the server and workers that compute make n.
        assert theory.queue_length(**case) + rate == pytest.approx(workers)
        assert workers == 1 or rate >= theory.throughput(**{**case, "workers": workers - 1}) * (1 - 1e-9)


class TestMeanValueAnalysis:
    @pytest.mark.parametrize("workers", [1, 2, 7, 40])
    def test_equals_the_recursion(self, workers: int) -> None:
        thinking, service = 1.7, 0.2
        length = rate = 0.0
        for n in range(1, workers + 1):  # an arrival finds the queue of n - 1
            rate = n / (thinking + service * (1 + length))
            length = rate * service * (1 + length)
        delays = [Constant(0.5), Gamma(mean=1.2, cv=0.3)]
        network = theory.mean_value_analysis(workers=workers, service=Exponential(service), delays=delays)
        assert network.throughput == pytest.approx(rate)
        assert network.queue_length == pytest.approx(length)
        assert network.waiting == pytest.approx(length / rate)
        assert network.delay_lengths == pytest.approx([0.5 * rate, 1.2 * rate])
