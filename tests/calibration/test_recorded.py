"""Logs of a real server with 4 and with 16 sleeping processes, which `python -m tests.benchmarks.server` recorded."""

from pathlib import Path

import pytest

import asyncsim as asim
from tests.benchmarks.server import Job, measure

FEW, MANY = 4, 16  # workers
NEAR = 0.1  # of a measurement
TRUTH = Job(FEW, 400)


def log(workers: int) -> asim.Trace:
    return asim.Trace.from_csv(Path(__file__).with_name(f"server-{workers}.csv"), start="first")


@pytest.fixture(scope="module")
def fit() -> asim.Fit:
    return asim.calibrate(log(FEW))


@pytest.mark.quick
@pytest.mark.parametrize("workers", [FEW, MANY])
def test_a_real_log_is_read_with_all_its_stages(workers):
    """Workers start when they are there, so staleness is a little below n - 1 at first."""
    trace = log(workers)
    assert trace.workers == workers
    assert trace.version.tolist() == [*range(len(trace))]
    assert asim.statistics(trace).compute.contains == ()
    assert measure(trace)["staleness"] == pytest.approx(workers - 1, rel=0.01)


@pytest.mark.parametrize("stage", TRUTH.laws())
def test_the_laws_of_the_sleeps_come_out(stage, fit):
    """Within three standard errors. A sleep is too long by less than one, on a machine with a load of 11 on 2 cores."""
    for name, truth in (("mean", TRUTH.laws()[stage]), ("cv", TRUTH.cv)):
        one = fit.parameters[f"{stage}.{name}"]
        error = (one.high - one.low) / (2 * 1.645)
        assert one.identifiable
        assert abs(one.estimate - truth) < 3 * error, name


def test_another_number_of_workers_is_predicted(fit):
    answer, measured = fit.what_if(workers=MANY, draws=8), measure(log(MANY))
    for name, value in measured.items():
        assert answer[name].median == pytest.approx(value, rel=NEAR), name
