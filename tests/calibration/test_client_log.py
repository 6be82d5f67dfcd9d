"""Logs that the clients write: worker, read_time and commit_time. What was not recorded is in no statistic."""

import re

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.calibration import LogUniform, Model
from asyncsim.calibration._calibrate import _hides_stages
from asyncsim.calibration._statistics import recorded_columns, summaries
from tests.calibration import heap
from tests.calibration.test_npe import quickly  # noqa: F401

MEAN, WORKERS = 0.9, 8


def client_log(seed=0, pause=0.05, seconds=60.0):
    """Workers that wait a little between a commit and the next read, each by its own clock."""
    generator, rows = np.random.default_rng(seed), []
    for worker in range(WORKERS):
        time = 0.0
        while time < seconds:
            read = time + (generator.exponential(pause) if time else 0.0)
            time = read + generator.gamma(4, MEAN / 4)
            rows.append((worker, read, time))
    rows = sorted((row for row in rows if row[2] < seconds), key=lambda row: row[2])
    return dict(zip(("worker", "read_time", "commit_time"), np.array(rows).T, strict=True))


MODEL = Model(
    lambda p: asim.Cluster(WORKERS, delays.Gamma(p["mean"], p["cv"])),
    {"mean": LogUniform(0.1, 10.0), "cv": LogUniform(0.1, 2.0)},
)


@pytest.fixture(scope="module")
def log():
    return asim.Trace.from_columns(client_log())


@pytest.mark.parametrize("pause", [0.1, 0.4])
def test_a_pause_before_the_read_is_named(pause):
    """The fitted cluster reads at once, so that it commits more often than the workers of the log."""
    trace = asim.Trace.from_columns(client_log(pause=pause, seconds=200.0))
    fit = asim.calibrate(trace, law="gamma")
    (note,) = [note for note in fit.notes if note.startswith("Workers read")]
    idle, more = float(note.split()[2]), float(re.search(r"up to (\d+)%", note)[1]) / 100
    assert idle == pytest.approx(pause, rel=0.1)
    answer = fit.what_if(draws=8)["throughput"].median * trace.seconds / len(trace) - 1
    assert answer == pytest.approx(more, abs=0.03)


@pytest.mark.parametrize("pause", [0.0, 0.005])
def test_a_pause_that_hardly_matters_is_not_named(pause):
    trace = asim.Trace.from_columns(client_log(pause=pause))
    assert not [note for note in asim.calibrate(trace, law="gamma").notes if note.startswith("Workers read")]


def test_a_filled_in_column_is_not_recorded(log):
    assert recorded_columns(log) == ("commit_time",)
    without = asim.Trace.from_columns({name: client_log()[name] for name in ("worker", "commit_time")})
    assert recorded_columns(without) == ("commit_time",)
    assert summaries(log, recorded_columns(log)).keys() == summaries(without, ("commit_time",)).keys()


@pytest.mark.parametrize("missing", ["start_time", "finish_time", "arrive_time", "serve_time"])
def test_every_column_that_is_recorded_counts(missing):
    cluster = heap.Cluster(6, heap.gamma(1.0, 0.3), heap.gamma(0.1, 0.5), heap.gamma(0.05, 0.3))
    columns = heap.simulate(cluster, 200, seed=0)
    del columns[missing]
    recorded = recorded_columns(asim.Trace.from_columns(columns))
    assert recorded == tuple(name for name in columns if name not in ("worker", "read_time"))


@pytest.mark.parametrize("fit_with", ["laws", "likelihood", "npe"])
def test_the_truth_is_in_an_interval_of_some_width(fit_with, log, quickly):  # noqa: F811
    if fit_with == "laws":
        fit, name = asim.calibrate(log, law="gamma"), "compute.mean"
    elif fit_with == "likelihood":
        fit, name = asim.calibrate(log, MODEL, method="likelihood"), "mean"
    else:
        fit, name = asim.calibrate(log, MODEL, simulations=600, jobs=0), "mean"
    one = fit.parameters[name]
    assert one.low < one.estimate < one.high
    assert one.identifiable
    # Commits alone do not tell the pause between them from a job.
    truth = MEAN + (0.05 if fit_with == "npe" else 0.0)
    assert abs(np.log(one.estimate / truth)) < 2 * np.log(one.high / one.low)


def test_a_log_with_reads_is_not_one_of_commits_alone(log):
    """So the default stays with the likelihood of its jobs, whatever the gaps between them."""
    fit = asim.calibrate(log)
    assert fit.method == "likelihood"
    assert not _hides_stages(fit, log)


@pytest.mark.parametrize("law", [delays.Constant(1.0), delays.Exponential(1.0)], ids=repr)
def test_no_width_identifies_nothing(law):
    """A constant is known up to rounding. The cv of an exponential law is an assumption."""
    fit = asim.calibrate(asim.simulate(asim.Cluster(4, law), commits=200), law=type(law))
    for parameter in fit.parameters.values():
        assert parameter.low < parameter.high or not parameter.identifiable
    assert fit.parameters["compute.mean"].identifiable


def test_a_prior_that_excludes_the_log_identifies_nothing(log, quickly):  # noqa: F811
    """Draws beyond the prior are moved to its end, one and all."""
    far = Model(MODEL.build, {"mean": LogUniform(20.0, 40.0), "cv": LogUniform(0.1, 2.0)})
    fit = asim.calibrate(log, far, simulations=600, jobs=0)
    mean = fit.parameters["mean"]
    assert mean.low < mean.high or not mean.identifiable
