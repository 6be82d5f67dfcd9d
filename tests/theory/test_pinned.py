"""Calls by position, which programs outside this repository use."""

import pytest

from asyncsim import theory
from asyncsim.delays import Exponential, Gamma

pytestmark = pytest.mark.quick


def test_every_number_has_its_own_place():
    """Exchanging two of them changes the answer: the order is not arbitrary."""
    law, rates = Gamma(mean=1.0, cv=0.5), {"workers": 8, "compute_rate": 1.5, "service_rate": 40.0}
    for predict in (theory.throughput, theory.queue_length, theory.utilisation):
        assert predict(8, 1.5, 40.0) == predict(**rates) != pytest.approx(predict(8, 40.0, 1.5), rel=0.01)
    assert (theory.staleness_pmf(law, 3, 5) == theory.staleness_pmf(compute=law, workers=3, size=5)).all()
    assert theory.staleness_variance(law, 3) == theory.staleness_variance(compute=law, workers=3)
    assert theory.knee(1.0, 8.0) == 9.0
    assert theory.round_time(16, 4, 1.0, "k_sync") == pytest.approx(sum(1 / i for i in range(13, 17)))
    assert theory.round_time(16, 4, 2.0, "k_batch_async") == pytest.approx(4 / 32)
    assert theory.stability_limit(8, Exponential(3.0)) == pytest.approx((1 + 65**0.5) / 16)
    assert theory.noise_floor(0.1, 8, Exponential(3.0)) == pytest.approx(1.8 / (0.1 * (2.1 - 0.08)))
    assert theory.kinetic_energy(0.5, 4, Exponential(3.0)) == pytest.approx(4.0)
    assert theory.round_time(workers=16, rate=2.0, protocol="async") == pytest.approx(1 / 32)
