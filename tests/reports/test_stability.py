"""Simulated stability and floors, where closed forms give their values."""

from functools import partial

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import theory
from asyncsim.delays import Constant, Erlang, Exponential, Gamma, Uniform
from asyncsim.reports import stability as reports
from asyncsim.reports.stability import (
    Question,
    limits_map,
    momentum_rule,
    predict_limits,
    simulated_floor,
    simulated_limit,
    stability_map,
    stability_report,
)
from tests.problems import refusals

LAW = Exponential(1.0)
KINDS = [(0.0, "none"), (0.6, "server"), (0.6, "worker")]


def test_one_worker_is_bounded_below_two():
    share = stability_map([1], [0.01, 0.5, 1.0, 1.5, 1.97, 2.03, 3.0, 100.0], LAW, seeds=2)
    assert share.tolist() == [[1, 1, 1, 1, 1, 0, 0, 0]]


@pytest.mark.parametrize(("momentum", "where"), KINDS)
def test_random_schedules_agree_well_below_and_above_the_mean_square_limit(momentum, where):
    limit = theory.stability_limit(workers=8, compute=LAW, momentum=momentum, where=where)
    share = stability_map([8], [0.5 * limit, 3 * limit], LAW, momentum_rule(momentum, where), seeds=8)
    assert share.tolist() == [[1, 0]]


def test_single_runs_look_stable_beyond_the_mean_square_limit():
    """At 1.05 times the limit E x² grows, and most single runs decay all the same."""
    n, kappa = 8, 1.05 * theory.exponential_limit(8)
    path = theory.exponential_moments(kappa, n, 3200)
    assert path[2400:].max() > 1e4 * path[800:1600].max()
    assert stability_map([n], [kappa], LAW, seeds=32, cycles=400)[0, 0] > 0.8


def test_gem_is_lost_where_one_worker_is():
    limit = theory.gem_single_worker_limit(0.9)
    share = stability_map(
        [1, 3], [0.1, 0.97 * limit, 1.03 * limit], Constant(1.0), partial(asim.rules.GEM, momentum=0.9)
    )
    assert share.tolist() == [[1, 1, 0], [1, 1, 0]]


@pytest.mark.parametrize(("momentum", "where"), KINDS)
def test_the_limit_of_a_round_robin_is_found(momentum, where):
    expected = theory.constant_delay_limit(4, momentum, where)
    rule = momentum_rule(momentum, where)
    found = simulated_limit(5, Constant(1.0), rule, low=expected / 5, high=20 * expected, cycles=400)
    assert abs(found.value - expected) < 3 * found.error
    assert found.error < 0.01 * expected


def test_the_limit_of_single_runs_is_the_zero_of_the_lyapunov_exponent():
    found = simulated_limit(4, LAW, low=0.3, high=4.0, seeds=16)
    order = np.random.default_rng(5).integers(4, size=(16, 4000))
    expected = theory.almost_sure_limit(order, low=0.5, high=2.0)
    assert abs(found.value - expected) < 4 * np.hypot(found.error, 0.012)  # the scatter of `expected` is .012
    assert found.error < 0.05


def test_a_report_holds_prediction_and_simulation(monkeypatch):
    monkeypatch.setattr(reports, "REPORT_SCHEDULES", 12)
    report = stability_report(Question(5, LAW), [0.1])
    predicted, simulated = report["predicted"], report["simulated"]
    assert predicted["stability_limit"] == pytest.approx(theory.exponential_limit(5))
    assert predicted["kappa"] == simulated["kappa"] == [predicted["stability_limit"] / 2, 0.1]
    for key in ("noise_floor", "kinetic_energy"):
        for mean, found, error in zip(predicted[key], simulated[key], simulated[f"{key}_error"], strict=True):
            assert abs(mean - found) < 6.2 * error < 0.5 * mean
    assert predicted["stability_limit"] < simulated["almost_sure_limit"] < predicted["mean_limit"]
    assert simulated["bounded_share"][0] == 1.0
    assert simulated["bounded_share"][-1] < 0.25


def test_a_report_without_a_result_still_simulates(monkeypatch):
    monkeypatch.setattr(reports, "REPORT_SCHEDULES", 4)
    monkeypatch.setattr(reports, "FLOOR_SCHEDULES", 2)
    report = stability_report(Question(4, Gamma(1.0, 0.3)), [100.0])
    assert report["note"].startswith("no limit in mean square, floor or energy is known for this law")
    assert report["predicted"]["stability_limit"] is None
    assert report["predicted"]["noise_floor"] == [None, None]
    limit = report["simulated"]["almost_sure_limit"]
    assert theory.constant_delay_limit(3) < limit < theory.exponential_limit(4)
    assert report["simulated"]["kappa"][0] == limit / 2
    assert report["simulated"]["noise_floor"][0] > 0
    assert report["simulated"]["noise_floor"][1] is None


@pytest.mark.parametrize("compute", [Gamma(1.0, 0.3), Gamma(1.0, 1e-3), Erlang(1.0, 40), Uniform(1.0, 2.0)], ids=repr)
def test_a_reason_is_in_words_for_the_reader_of_a_table(compute):
    """It is no error text: it names no argument of a function."""
    limits, note = predict_limits(Question(8, compute))
    assert limits["stability_limit"] is None
    assert "`" not in note
    assert note.endswith(".")


def test_momentum_at_the_server_has_no_limit_of_the_mean():
    limits, note = predict_limits(Question(4, LAW, 0.5, "server"))
    assert note is None
    assert limits["mean_limit"] is None
    assert limits["stability_limit"] == theory.stability_limit(workers=4, compute=LAW, momentum=0.5, where="server")


test_errors = refusals(
    (lambda: stability_map([0], [1.0], LAW), "`workers` must be an integer of at least 1"),
    (lambda: stability_map([2], [-1.0], LAW), "`kappas` must be positive"),
    (lambda: stability_map([2], [1.0], LAW, seeds=0), "`seeds` must be an integer of at least 1"),
    (lambda: stability_map([2], [1.0], LAW, cycles=2), "`cycles` must be an integer of at least 8"),
    (lambda: simulated_floor(2, [0.1], LAW, seeds=1), "`seeds` must be an integer of at least 2"),
    (lambda: simulated_floor(2, [0.1], LAW, commits=1), "`commits` must be an integer of at least 10"),
    (lambda: momentum_rule(0.5), "`where` must be 'server' or 'worker'"),
    (lambda: simulated_limit(3, LAW, low=0.01, high=0.1, seeds=2), "stays bounded up to"),
    (lambda: simulated_limit(3, LAW, low=3.0, high=9.0, seeds=2), "grows at `low`"),
)


@pytest.mark.parametrize("compute", [Constant(1.0), LAW])
def test_progress_is_reported_for_every_stage_to_its_end(compute, monkeypatch):
    for number in ("REPORT_SCHEDULES", "FLOOR_SCHEDULES", "MAP_COLUMNS", "MAP_SCHEDULES"):
        monkeypatch.setattr(reports, number, 2)
    told, question = {}, Question(2, compute)
    for ask in (stability_report, limits_map):
        ask(question, progress=lambda stage, share: told.setdefault(stage, []).append(share))
    assert len(told) == 3
    for shares in told.values():
        np.testing.assert_allclose(shares, np.arange(1, len(shares) + 1) / len(shares))
