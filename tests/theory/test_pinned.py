"""Calls by position, which programs outside this repository use, mean what calls by keyword do."""

import pytest

from asyncsim import theory
from asyncsim.delays import Exponential, Gamma

pytestmark = pytest.mark.quick

LAW = Gamma(mean=1.0, cv=0.5)
FAST = Exponential(0.5)
CALLS = [
    (theory.staleness_pmf, {"compute": LAW, "workers": 3, "size": 5}),
    (theory.staleness_variance, {"compute": LAW, "workers": 3}),
    (theory.throughput, {"workers": 8, "compute_rate": 1.5, "service_rate": 4.0}),
    (theory.queue_length, {"workers": 8, "compute_rate": 1.5, "service_rate": 4.0}),
    (theory.utilisation, {"workers": 8, "compute_rate": 1.5, "service_rate": 4.0}),
    (theory.knee, {"compute_rate": 1.5, "service_rate": 4.0}),
    (theory.round_time, {"workers": 8, "k": 3, "rate": 2.0, "protocol": "k_sync"}),
    (theory.round_time, {"workers": 8, "k": None, "rate": 2.0, "protocol": "sync"}),
    (theory.stability_limit, {"workers": 4, "compute": FAST, "momentum": 0.5, "where": "worker"}),
    (theory.noise_floor, {"kappa": 0.1, "workers": 4, "compute": FAST, "momentum": 0.5, "where": "server"}),
    (theory.kinetic_energy, {"kappa": 0.1, "workers": 4, "compute": FAST, "momentum": 0.5, "where": "server"}),
]


@pytest.mark.parametrize(("function", "arguments"), CALLS)
def test_position_is_keyword(function, arguments):
    assert function(*arguments.values()) == pytest.approx(function(**arguments), rel=1e-14)
    reordered = dict(reversed(arguments.items()))
    assert function(*arguments.values()) == pytest.approx(function(**reordered), rel=1e-14)


def test_every_number_has_its_own_place():
    """Exchanging two of them changes the answer: the order is not arbitrary."""
    assert theory.throughput(8, 1.5, 4.0) != pytest.approx(theory.throughput(8, 4.0, 1.5), rel=0.01)
    assert theory.knee(1.0, 8.0) == 9.0
    assert theory.round_time(16, 4, 1.0, "k_sync") == pytest.approx(sum(1 / i for i in range(13, 17)))
    assert theory.round_time(16, 4, 2.0, "k_batch_async") == pytest.approx(4 / 32)
    assert theory.stability_limit(8, Exponential(3.0)) == pytest.approx((1 + 65**0.5) / 16)
    assert theory.noise_floor(0.1, 8, Exponential(3.0)) == pytest.approx(1.8 / (0.1 * (2.1 - 0.08)))
    assert theory.kinetic_energy(0.5, 4, Exponential(3.0)) == pytest.approx(4.0)


def test_k_may_be_omitted_by_keyword():
    assert theory.round_time(workers=16, rate=2.0, protocol="async") == pytest.approx(1 / 32)
