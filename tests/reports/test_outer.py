"""The largest stable outer step: predicted where it is exact, simulated with windows of local steps."""

import numpy as np
import pytest

from asyncsim import theory
from asyncsim.delays import Constant, Exponential
from asyncsim.reports import stability
from asyncsim.reports.outer import OUTER, OuterQuestion, outer_map, outer_report, window_range
from tests.problems import refusals


@pytest.fixture(autouse=True)
def few_schedules(monkeypatch):
    for name in ("REPORT_SCHEDULES", "MAP_SCHEDULES"):
        monkeypatch.setattr(stability, name, 4)
    monkeypatch.setattr(stability, "MAP_COLUMNS", 3)


@pytest.mark.parametrize("kind", OUTER)
def test_workers_in_turn_have_the_limit_of_theory(kind, x64):
    """Constant times are a round robin, of which the prediction is exact."""
    question = OuterQuestion(3, Constant(1.0), kind, 0.8, learning_rate=0.1, window=6, curvatures=(0.2, 1.0))
    report = outer_report(question)
    predicted, simulated = report["predicted"], report["simulated"]
    assert abs(simulated["limit"] - predicted["limit"]["in_turn"]) < 3 * simulated["limit_error"]
    assert simulated["limit_error"] < 0.01 * simulated["limit"]
    assert predicted["limit"]["fresh"] == theory.outer_limit(0.8, 0, kind)
    c = theory.window_curvature(0.1, 6)
    expected = {"least": theory.window_curvature(0.02, 6), "largest": c}
    assert report["window_curvature"] == pytest.approx(expected, rel=1e-12)
    assert predicted["outer_step"]["in_turn"] == pytest.approx(predicted["limit"]["in_turn"] / c)
    assert simulated["outer_step"] == pytest.approx(simulated["limit"] / c)


def test_random_times_have_a_limit_of_their_own(x64):
    report = outer_report(OuterQuestion(4, Exponential(1.0), window=5))
    simulated, in_turn = report["simulated"], report["predicted"]["limit"]["in_turn"]
    assert simulated["limit"] > in_turn + 3 * simulated["limit_error"]


@pytest.mark.parametrize(
    ("steps", "window", "largest"),
    [((0.1, 0.5), 2, 0.5), ((0.1, 0.5), 3, 0.5), ((0.5, 1.5), 2, 1.0), ((0.5, 1.5), 3, 1.5), ((1.2, 1.5), 2, 1.2)],
)
def test_the_worst_curvature_is_the_one_of_which_a_window_covers_most(steps, window, largest):
    found = window_range(1.0, window, steps)
    every = [theory.window_curvature(step, window) for step in np.linspace(*steps, 1001)]
    assert found.step == largest
    assert found.largest == pytest.approx(max(every), abs=1e-5)
    assert found.least == pytest.approx(min(every), abs=1e-5)


def test_the_map_has_the_limits_of_a_round_robin():
    workers, products, share, limits = outer_map(OuterQuestion(2, Constant(1.0), "damped", 0.5))
    assert workers == [1, 3, 8]
    for row, n, limit in zip(share, workers, limits, strict=True):
        assert limit["constant_delay_limit"] == theory.outer_limit(0.5, n - 1, "damped")
        assert (row[products < 0.8 * limit["constant_delay_limit"]] == 1).all()
        assert (row[products > 1.3 * limit["constant_delay_limit"]] == 0).all()


test_mistakes = refusals(
    (lambda: window_range(0.1, 2, ()), "`curvatures` must"),
    (lambda: window_range(0.1, 2, (1.0, -1.0)), "`curvatures` must be positive"),
    (lambda: window_range(0.0, 2, (1.0,)), "`learning_rate` must be finite and positive; got 0.0"),
    (
        lambda: window_range(0.5, 2, (1.0, 4.0)),
        "`learning_rate` times the largest curvature must be less than 2; got 2",
    ),
    (lambda: outer_report(OuterQuestion(2, Constant(1.0), window=0)), "`window` must be an integer of at least 1"),
    (lambda: outer_report(OuterQuestion(2, Constant(1.0), momentum=1.0)), "`momentum` must"),
    (lambda: outer_report(OuterQuestion(2, Constant(1.0), kind="adam")), "`kind` must be one of"),
)
