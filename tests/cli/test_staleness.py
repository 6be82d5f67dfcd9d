"""`asyncsim staleness`: its output and files, and that both of its columns are right."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from asyncsim import delays, theory
from asyncsim.cli._theory import cluster_of
from asyncsim.cluster import Cluster, Network, Server, protocols
from asyncsim.reports import staleness as module
from asyncsim.reports.staleness import staleness_report, total_variation_by_chance
from tests.cli.commands import assert_one_line

GAMMA = delays.Gamma(1.0, 0.3)
NUMBERS = ["mean", "sd", "median", "p99"]


@pytest.fixture
def command(command):
    """`asyncsim staleness …` in a fresh folder."""
    return partial(command, "staleness")


def found(command, *arguments):
    status, out, err = command(*arguments, "--json")
    assert (status, err) == (0, "")
    assert len(out.splitlines()) == 1
    return json.loads(out)


def test_json_keys_and_files(command):
    numbers = found(command, "--commits", 2000)
    assert list(numbers)[:3] == ["predicted", "simulated", "total_variation"]
    assert list(numbers["predicted"]) == list(numbers["simulated"]) == NUMBERS
    assert (numbers["workers"], numbers["commits"], numbers["seed"]) == (20, 2000, 0)
    assert json.loads(Path("runs/staleness/staleness.json").read_text()) == numbers


def test_table(command):
    status, out, err = command("--compute", "gamma", "--cv", "0.3", "--commits", 2000, "--out", "here")
    assert (status, err) == (0, "")
    for words in ("predicted", "simulated", "standard deviation", "Total variation", "exact", "here"):
        assert words in out
    assert Path("here/staleness.png").is_file()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"compute": "exponential", "mean": 2.0}, Cluster(20, delays.Exponential(2.0))),
        ({"compute": "lognormal"}, Cluster(20, delays.LogNormal(1.0, 0.3))),  # cv is kept
        ({"workers": 6, "compute": "weibull", "shape": 0.8}, Cluster(6, delays.Weibull(1.0, 0.8))),
        ({"service": 0.25}, Cluster(20, GAMMA, server=Server(service=delays.Exponential(0.25)))),
        ({"service": 0.0}, Cluster(20, GAMMA)),
        ({"protocol": "k_async", "k": 2}, Cluster(20, GAMMA, protocol=protocols.KAsync(2))),
        ({"workers": 6, "slow": 2, "slowness": 3.0}, Cluster(6, delays.fleet.two_classes(GAMMA, 6, 2, 3.0))),
        ({"latency": 0.2}, Cluster(20, GAMMA, network=Network(latency=delays.Constant(0.2)))),
    ],
)
def test_flags_make_the_cluster(given, expected):
    """Predictions for clusters are tested among the reports."""
    assert cluster_of(given) == expected


@pytest.mark.whole_pages
def test_two_panels_where_workers_differ(command):
    assert found(command, "--workers", 6, "--slow", 2, "--commits", 2000)["predicted"]["mean"] == 5.0
    assert Path("runs/staleness/staleness.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("flags", "mean", "words"),
    [
        (["--protocol", "ssp", "--slack", 1], None, "at most (n - 1)(2 slack + 1) = 57"),
        (["--protocol", "k_async", "--k", 4], 4.0, "n/K - 1 = 4"),
        (["--latency", 0.2], 19.0, "n - 1 = 19"),
        (["--compute", "weibull", "--mean", 1, "--shape", 0.1], 19.0, "too heavy"),
        (["--protocol", "ringmaster", "--limit", 9], None, "nothing is known for this protocol"),
    ],
)
def test_where_theory_has_no_result(command, flags, mean, words):
    status, out, err = command(*flags, "--commits", 500)
    assert (status, err) == (0, "")
    assert words in out.replace("\n", " ")
    numbers = json.loads(Path("runs/staleness/staleness.json").read_text())
    assert numbers["predicted"] is None
    assert numbers["total_variation"] is None
    assert numbers["predicted_mean"] == mean
    assert list(numbers["simulated"]) == NUMBERS


def test_the_prediction_does_not_depend_on_the_simulation():
    cluster = cluster_of({"compute": "exponential", "workers": 8})
    short, long = (staleness_report(cluster, commits, 0).numbers["predicted"] for commits in (1, 5000))
    assert short == pytest.approx(long)


def test_infinite_variance_is_null():
    known = module.staleness_theory(Cluster(4, delays.Pareto(1.0, 1.9)))
    assert known.mean == 3.0
    assert module._predicted_summary(known, np.array([0.6, 0.4]))["sd"] is None


def test_a_start_that_is_too_long_is_said(command, monkeypatch):
    monkeypatch.setattr(module, "MOST_WARM_UP_COMMITS", 100)
    status, out, _ = command("--cv", 0.05, "--commits", 500)
    assert status == 0
    assert "too short" in out
    assert "warm-up of 100," in out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--compute", "exponential", "--cv", 0.3], "`cv`"),
        (["--protocol", "k_async"], "`k`"),
        (["--workers", 10**12], "`workers` of 1000000000000 takes at least 200 TB"),
        (["--commits", 0], "`commits`"),
        (["--seed", -1], "`seed`"),
        (["--service", -1], "`service`"),
        (["--slow", 21], "`slow`"),
    ],
)
def test_wrong_usage_is_one_line(command, flags, words):
    assert_one_line(command(*flags), 2, words, "asyncsim staleness --help")


def test_by_chance_is_what_independent_values_give():
    pmf, generator = theory.staleness_pmf(delays.Exponential(1.0), 8, 200), np.random.default_rng(0)
    measured = [np.abs(generator.multinomial(5000, pmf / pmf.sum()) / 5000 - pmf).sum() / 2 for _ in range(200)]
    assert total_variation_by_chance(pmf, 5000) == pytest.approx(np.mean(measured), rel=0.05)
