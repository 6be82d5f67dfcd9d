"""Logs of a clock that ticks in whole seconds, or in milliseconds where jobs are as short."""

import numpy as np
import pytest

import asyncsim as asim
from tests.calibration import heap
from tests.calibration.heap import Cluster, gamma

COLUMNS = {
    "versions": ("worker", "commit_time", "version"),
    "reads": ("worker", "read_time", "commit_time"),
    "all": heap.COLUMNS,
}
ROUNDED = {"down": np.floor, "nearest": np.round}
COMMITS = 600


def cluster(unit: float, mean: float, workers: int = 8) -> Cluster:
    """A cluster whose jobs take `mean` ticks of a clock, and its messages and updates a fiftieth of it."""
    short = gamma(0.02 * mean * unit, 0.4)
    return Cluster(workers, gamma(mean * unit, 0.4), short, short)


def logged(unit: float, mean: float, columns: str, rounding: str, seed: int = 1) -> tuple[dict[str, np.ndarray], float]:
    """Columns of such a log, and its true rate."""
    log = heap.simulate(cluster(unit, mean), COMMITS, seed)
    chosen = {name: np.asarray(log[name]) for name in COLUMNS[columns] if name in log}
    rounded = {
        name: ROUNDED[rounding](values / unit) * unit if name.endswith("_time") else values
        for name, values in chosen.items()
    }
    return rounded | ({"version": np.arange(COMMITS)} if columns == "versions" else {}), COMMITS / max(
        log["commit_time"]
    )


@pytest.mark.parametrize(
    ("unit", "mean", "columns", "rounding", "law"),
    [
        (1.0, 0.3, "reads", "down", None),
        (1.0, 3.0, "all", "nearest", None),
        (1.0, 0.3, "all", "nearest", "gamma"),
        (1.0, 1.0, "versions", "down", "gamma"),
        (1.0, 1.0, "all", "down", "gamma"),
        (1.0, 3.0, "reads", "nearest", "gamma"),
        (0.001, 0.5, "versions", "nearest", "gamma"),
        (0.001, 0.5, "all", "down", "gamma"),
    ],
)
def test_the_rate_of_a_log_with_a_coarse_clock_is_that_of_its_fit(
    unit: float, mean: float, columns: str, rounding: str, law: str | None
) -> None:
    log, rate = logged(unit, mean, columns, rounding)
    trace = asim.Trace.from_columns(log)
    fit = asim.calibrate(trace, method="likelihood", law=law, by_worker=law is None)
    answer = fit.what_if(draws=4, steps=1000)["throughput"]
    # The log ends up to a tick before or after its last commit, and has jobs of a relative error of cv / sqrt(commits).
    error = 3 * 0.4 / COMMITS**0.5 + unit / trace.seconds
    assert answer.low / (1 + error) < rate < answer.high * (1 + error)
    assert abs(answer.median / rate - 1) < 2 * error


@pytest.mark.parametrize(("mean", "rounding"), [(1.0, "nearest"), (3.0, "down")])
def test_mean_and_cv_of_rounded_jobs_are_the_true_ones(mean: float, rounding: str) -> None:
    trace = asim.Trace.from_columns(logged(1.0, mean, "all", rounding)[0])
    fit = asim.calibrate(trace, method="likelihood", by_worker=False)
    deviation = 0.4 / COMMITS**0.5
    assert fit.parameters["compute.mean"].estimate == pytest.approx(mean, rel=4 * deviation)
    # Without the correction the cv is .57 for jobs of one tick, and .42 for jobs of three.
    assert fit.parameters["compute.cv"].estimate == pytest.approx(0.4, abs=0.4 * 4 / (2 * COMMITS) ** 0.5)
    assert any("ticks of 1 s" in note for note in fit.notes)


@pytest.mark.parametrize("unit", [1.0, 0.001])
@pytest.mark.parametrize("rounding", ROUNDED)
def test_equal_rows_of_a_coarse_clock_are_to_be_numbered_and_then_have_the_true_rate(
    unit: float, rounding: str
) -> None:
    log, rate = logged(unit, 0.5, "versions", rounding)
    with pytest.raises(
        asim.TraceError, match=r"number the rows, .* in `version` \(0, 1, 2, …\), .* Remove the row only"
    ):
        asim.Trace.from_columns({name: log[name] for name in ("worker", "commit_time")})
    again = asim.Trace.from_columns(log)
    assert len(again) / again.seconds == pytest.approx(rate, abs=rate * 2 * unit / again.seconds)


@pytest.mark.parametrize("rounding", ROUNDED)
@pytest.mark.parametrize(("tick", "mean", "workers"), [(0.5, 1.0, 4), (1.0, 3.0, 4), (1.0, 1.0, 16), (2.0, 3.0, 4)])
def test_intervals_of_stages_shorter_than_a_tick_are_as_wide_as_the_rounding_leaves_them(
    tick: float, mean: float, workers: int, rounding: str
) -> None:
    truth = {"network.latency.mean": 0.2, "server.service.mean": 0.1 if workers == 4 else 0.04}
    latency, service = (gamma(seconds, 0.3) for seconds in truth.values())
    log = heap.simulate(Cluster(workers, gamma(mean, 0.3), latency, service), 1200, seed=1)
    rounded = {
        name: ROUNDED[rounding](np.asarray(values) / tick) * tick if name.endswith("_time") else np.asarray(values)
        for name, values in log.items()
    }
    fit = asim.calibrate(asim.Trace.from_columns(rounded), law={"compute": "gamma"}, by_worker=False)
    for name, seconds in truth.items():
        parameter = fit.parameters[name]
        # A stage shorter than a tick takes none or one of them, and each commit has one service and two messages.
        error = (seconds * (tick - seconds) / (2400 if "latency" in name else 1200)) ** 0.5
        assert abs(parameter.estimate - seconds) < 4 * error
        assert parameter.high - parameter.low > 2 * error
    assert not any("arrive only then" in note for note in fit.notes)


@pytest.mark.parametrize("rounding", ROUNDED)
def test_a_shape_that_the_clock_hides_is_not_identified(rounding: str) -> None:
    log, _ = logged(1.0, 3.0, "all", rounding)
    fit = asim.calibrate(asim.Trace.from_columns(log), law={"compute": "gamma"}, by_worker=False)
    assert not any(
        parameter.identifiable
        for name, parameter in fit.parameters.items()
        if name.startswith(("network", "server")) and name.endswith(".cv")
    )
    compute = fit.parameters["compute.cv"]
    assert compute.identifiable
    assert abs(compute.estimate - 0.4) < 4 * (compute.high - compute.low) / 3.29


def test_equal_rows_of_a_fine_clock_are_to_be_removed() -> None:
    log = heap.simulate(cluster(1.0, 1.0), COMMITS, 2)
    rows = np.sort(np.append(np.arange(COMMITS), np.arange(100, 140)))
    with pytest.raises(asim.TraceError, match=r"\(40 rows are repeated\); row 101 has .*\. Remove the row; or"):
        asim.Trace.from_columns({name: np.asarray(log[name])[rows] for name in ("worker", "commit_time")})


def test_a_queue_that_a_coarse_clock_hides_asks_for_its_fractions_first() -> None:
    trace = asim.Trace.from_columns(logged(1.0, 3.0, "versions", "down")[0])
    fit = asim.calibrate(trace, method="likelihood", law="gamma", by_worker=False)
    with pytest.raises(ValueError, match=r"cannot be answered from the log: .* Log times with their fractions, and"):
        fit.what_if(workers=16, draws=4)


def test_jobs_of_two_constant_times_are_not_taken_for_rounded_ones() -> None:
    """Their differences are whole, but none is 0."""
    law = [asim.delays.Constant(1.0)] * 4 + [asim.delays.Constant(3.0)] * 4
    fit = asim.calibrate(asim.simulate(asim.Cluster(8, law), commits=400), method="likelihood")
    assert not any("ticks" in note for note in fit.notes)
