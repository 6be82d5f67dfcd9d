"""The scenarios of data that differ, on small settings: their claims hold in their own numbers."""

import numpy as np
import pytest

from tests.scenarios.run import load, run, run_loaded

SMALL = {"workers": 6, "slow": 3, "factor": 6.0, "seconds": 60.0, "seeds": 2, "step_sizes": (0.0625, 0.25, 1.0)}


@pytest.mark.networks
def test_who_is_biased():
    numbers = run("heterogeneous", **SMALL, only="downpour,rennala,ia2sgd,synchronous")
    alike = np.isin(numbers["rule"], load("heterogeneous")["ALIKE"])
    assert alike.tolist() == [False, False, True, True]
    assert numbers["gap"][~alike].min() > 2 * numbers["gap"][alike].max()
    assert numbers["gap"][~alike].min() > np.median(abs(numbers["without_gap"]))  # of two seeds each
    slow = dict(zip(numbers["rule"], numbers["slow_share"], strict=True))
    assert slow["downpour"] == pytest.approx(1 / 7, abs=0.02)
    assert slow["synchronous"] == pytest.approx(0.5, abs=0.05)
    assert numbers["label_counts"].shape == (6, 10)


def test_its_rows():
    """Ten rules and the synchronous one; a row that there is not is named."""
    rows = load("heterogeneous")["rows"]
    assert len(rows("all")) == 11
    with pytest.raises(ValueError, match=r"`only` must name rows, of downpour, .*; got 'dwonpour'"):
        rows("dwonpour")


@pytest.mark.networks
def test_ringleaders_protocol():
    script = load("ringleader_protocol")
    methods = script["METHODS"]
    for name in ("asynchronous SGD", "IA²SGD"):  # the same code as the others
        del methods[name]
    for name, (make, arguments, protocol, step_sizes, color) in methods.items():
        methods[name] = (make, arguments, protocol, step_sizes[:2], color)
    numbers = run_loaded(script, clients=12, seconds=60.0, seeds=1, hidden=4)
    assert numbers["method"].tolist() == ["Ringleader", "Malenia"]
    assert numbers["curves"].shape == (2, 1, 2, 60)
    assert np.isfinite(numbers["curves"]).all()
    commits = dict(zip(numbers["method"], numbers["commits"], strict=True))
    assert commits["Ringleader"] > commits["Malenia"]  # whose jobs are stopped


def test_its_clients_take_as_long_as_published():
    """1 to n seconds, dealt out anew for each seed, and a half-normal beside them."""
    script = load("ringleader_protocol")
    trace = script["schedule"](10, script["protocols"].Asynchronous(), 3000.0, 4)
    seconds = np.array([np.diff(trace.commit_time[trace.worker == client]) for client in range(10)], dtype=object)
    base = np.random.default_rng(4).permutation(10) + 1.0
    for client, times in enumerate(seconds):
        assert times.min() >= base[client]
        expected = np.sqrt(2 / np.pi) * (client + 1) ** 0.5
        assert abs(times.mean() - base[client] - expected) < 4 * times.std() / len(times) ** 0.5
