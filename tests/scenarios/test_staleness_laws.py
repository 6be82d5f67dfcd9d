"""The scenarios about staleness and its price, on small settings: measured and predicted values."""

import numpy as np
import pytest

from tests.scenarios.run import run

pytestmark = pytest.mark.usefixtures("optimised")  # replays long enough to be worth it


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
