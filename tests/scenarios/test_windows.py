"""The scenarios about windows and springs, on small settings: their claims hold in their own numbers."""

import numpy as np

from tests.scenarios.run import run


def test_agn_window():
    """Ten workers: accumulated DOWNPOUR fails with every seed where AGN learns with every seed."""
    numbers = run("agn_window", workers=(10,), windows=(10,), mini_batches=120, seeds=1, batch_size=8)
    assert dict(zip(numbers["rule"], numbers["failed_seeds"], strict=True)) == {"downpour": 1, "agn": 0, "aeasgd": 0}
    learns = dict(zip(numbers["rule"], numbers["learns_up_to"], strict=True))
    assert learns["downpour"] < 0.1 < learns["agn"]
    assert (numbers["all_accuracies"].max(axis=-1)[1:] > 0.9).all()


def test_easgd_exchange():
    lags = (1, 3)
    numbers = run("easgd_exchange", lags=lags, windows=(1,), mini_batches=200, seeds=1, batch_size=4)
    for i in range(2):
        np.testing.assert_allclose(numbers[f"limit_{i}"], numbers[f"exact_limit_{i}"], rtol=0.03)
    np.testing.assert_allclose(numbers["exact_limit_1"], numbers["centre_alone"], rtol=0.01)
    assert (numbers["exact_limit_0"] < numbers["centre_alone"]).all()
    atomic, separate = numbers["by_hand"]
    assert (atomic < 0.5).all()
    assert (separate[lags.index(1)] < 0.5).all()
    assert not (separate[lags.index(3), :, 0] < 100).any()  # α = 0.5
    assert (separate[lags.index(3), :, 1] < 0.5).all()  # α = 0.05
    atomic, separate = numbers["on_clusters"]
    assert numbers["commits_between"] > 2
    assert (atomic < 0.5).all()
    assert not (separate[0, :, 0] < 100).any()
    assert (separate[0, :, 1] < 0.5).all()
