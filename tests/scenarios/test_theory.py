"""The scenarios that compare theory with simulations, and about the price of staleness, on small settings."""

import numpy as np
import pytest

from asyncsim import theory
from tests.scenarios.run import run


def test_stability_map():
    numbers = run("stability_map", workers=(1, 8), kappas=12, seeds=5)
    kappa = numbers["kappa"]
    for n, limit, share in zip(numbers["workers"], numbers["constant_delay"], numbers["constant_map"], strict=True):
        assert limit == theory.constant_delay_limit(n - 1)
        np.testing.assert_array_equal(
            share[abs(kappa / limit - 1) > 0.03], (kappa < limit)[abs(kappa / limit - 1) > 0.03]
        )
    for limit, share in zip(numbers["mean_square"], numbers["exponential_map"], strict=True):
        assert np.all(share[kappa < 0.8 * limit] == 1)
        assert np.all(share[kappa > 2 * limit] == 0)
    for name, maps in (("almost_sure", "exponential_map"), ("gem", "gem_map")):
        for limit, share in zip(numbers[name], numbers[maps], strict=True):
            assert np.all(share[kappa < 0.7 * limit] > 0.5)
            assert np.all(share[kappa > 1.4 * limit] < 0.5)
    assert np.all(numbers["gem"][1:] > numbers["almost_sure"][1:])


def test_noise_floor():
    numbers = run("noise_floor", workers=(1, 8), shares=(0.2, 0.5), ladder=(2, 8), commits=1500)
    assert numbers["largest_z"] < 7  # the largest of 8, seven degrees of freedom: each passes 6.2 once in 1000
    assert np.all(abs(numbers["energy"] - numbers["predicted_energy"]) < 6.2 * numbers["energy_error"])
    assert np.all(numbers["energy_error"] < 0.02 * numbers["energy"])
    allowed = numbers["energy"] < numbers["proxy_energy"]
    np.testing.assert_array_equal(allowed, numbers["ladder"] < numbers["most_workers"])


def test_implicit_momentum():
    numbers = run("implicit_momentum", workers=(2, 6), runs=40, schedules=8, commits=1200)
    np.testing.assert_array_equal(numbers["predicted"], 1 - 1 / numbers["workers"])
    for name, truth in (
        ("averaged", "predicted"),
        ("instrumental", "predicted"),
        ("least_squares", "predicted_least_squares"),
    ):
        error = numbers[f"{name}_error"]
        assert np.all(abs(numbers[name] - numbers[truth]) < 6.2 * error)
        assert np.all(error < 0.03)
    assert np.all(numbers["least_squares"] < numbers["predicted"] - 0.2)


@pytest.fixture(scope="module")
def eight_workers():
    return run("staleness_laws", workers=8, commits=6000, seeds=6)


def test_staleness_laws(eight_workers):
    numbers = eight_workers
    assert (numbers["predicted_mean"] == 7).all()
    np.testing.assert_allclose(numbers["mean"], 7, rtol=0.02)
    assert (abs(numbers["sd"] - numbers["predicted_sd"]) <= 5 * numbers["sd_error"] + 1e-9).all()
    assert (np.diff(numbers["predicted_sd"]) > 0).all()  # the laws are ordered by their spread
    assert (abs(numbers["median"] - numbers["predicted_median"]) <= 1).all()
    np.testing.assert_allclose(numbers["p99"], numbers["predicted_p99"], rtol=0.1)
    assert numbers["total_variation"][0] == 0.0
    assert (numbers["total_variation"] < 0.02).all()
    np.testing.assert_allclose(numbers["shares"].sum(axis=1), 1.0, atol=0.002)


def test_the_law_of_the_compute_time_is_the_limit(eight_workers):
    """The predicted distribution comes closer to the limit law with more workers."""

    def apart(numbers):
        pmf, limit = np.cumsum(numbers["pmf"][1:], axis=1), np.cumsum(numbers["limit"][1:], axis=1)
        return abs(pmf - limit).max(axis=1)

    many = run("staleness_laws", workers=32, commits=500, seeds=2)
    assert (apart(many) < 0.7 * apart(eight_workers)).all()


def test_error_runtime():
    numbers = run("error_runtime", workers=8, k=(4,), seconds=60.0, seeds=4, learning_rate=0.2)
    assert numbers["protocol"].tolist() == ["asynchronous", "4-async", "synchronous"]
    assert (np.diff(numbers["seconds_to_half"]) > 0).all()  # the fewer gradients per step, the faster
    assert (np.diff(numbers["predicted_end"]) < 0).all()  # and the higher the floor
    assert (np.diff(numbers["measured_end"]) < 0).all()
    assert (numbers["largest_z"] < 6).all()
    assert numbers["measured_end"] == pytest.approx(numbers["predicted_end"], rel=0.5)
    assert numbers["curves"].shape == (3, len(numbers["fine"]))
