"""Logs of commits alone whose workers commit in turn: by a server that is always busy, or because they are regular."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.calibration import _calibrate
from asyncsim.calibration._model import Clusters, Evidence, Parameter, default_model
from asyncsim.calibration._waiting import takes_turns

COMMITS = 300


def regular(workers, jitter, drifts=False, seed=0):
    """Workers with jobs of 1 s that began one after another, late by some share of a job, which may add up."""
    late = jitter * np.random.default_rng(seed).standard_normal((COMMITS // workers, workers))
    times = np.arange(1, len(late) + 1)[:, None] + np.arange(workers) / workers + (late.cumsum(0) if drifts else late)
    order = np.argsort(times, axis=None)
    return asim.Trace.from_columns({"worker": order % workers, "commit_time": times.ravel()[order]})


def served(compute, service=1 / 6, workers=6):
    """A log of a server that takes a constant time."""
    cluster = asim.Cluster(workers, compute, server=asim.Server(service=delays.Constant(service)))
    return asim.simulate(cluster, commits=COMMITS)


def alone(log):
    return asim.Trace.from_commits(log.worker, log.commit_time, workers=log.workers, start=0.0)


IN_TURN = {
    "constant": lambda: regular(6, 0.0),
    "1 % late": lambda: regular(6, 0.01),
    "5 % late": lambda: regular(3, 0.05),
    "two": lambda: regular(2, 0.02),
    "twelve": lambda: regular(12, 0.003),
    "drifting": lambda: regular(6, 0.003, drifts=True),
    "busy server": lambda: alone(served(delays.Constant(0.4))),
    "busy server, jobs that vary": lambda: alone(served(delays.Gamma(0.4, 0.1))),
}


@pytest.mark.parametrize("kind", IN_TURN)
def test_commits_in_turn_identify_neither_computing_nor_service_and_no_other_number_of_workers(kind):
    log = IN_TURN[kind]()
    fit = asim.calibrate(log, by_worker=False)
    assert not any(parameter.identifiable for parameter in fit.parameters.values())
    assert any("commit in turn" in note and "`arrive_time` and `serve_time`" in note for note in fit.notes)
    with pytest.raises(ValueError, match=r"commit in turn at nearly equal intervals.* Log `arrive_time`"):
        fit.what_if(workers=log.workers + 2, draws=2)


def test_the_cluster_of_the_log_itself_is_answered_and_others_are_nan():
    fit = asim.calibrate(regular(6, 0.01), law="gamma", by_worker=False)
    with pytest.warns(UserWarning, match="commit in turn"):
        answers = asim.calibration.what_if(fit, [6, 8], draws=2)
    assert np.isfinite(answers["throughput"]).tolist() == [True, False]


NOT_IN_TURN = {
    "jobs of a busy server that overtake": lambda: alone(served(delays.Exponential(0.4))),
    "a server with time left": lambda: alone(served(delays.Gamma(1.0, 0.5), 0.15)),
    "workers who begin together": lambda: alone(
        asim.simulate(asim.Cluster(12, delays.Gamma(1.0, 0.01)), commits=COMMITS)
    ),
    "two of them": lambda: alone(asim.simulate(asim.Cluster(2, delays.Gamma(1.0, 0.01)), commits=COMMITS)),
    "jobs that vary": lambda: alone(asim.simulate(asim.Cluster(6, delays.Gamma(1.0, 0.3)), commits=COMMITS)),
    "one worker": lambda: alone(asim.simulate(asim.Cluster(1, delays.Constant(1.0)), commits=COMMITS)),
}


@pytest.mark.parametrize("kind", NOT_IN_TURN)
def test_other_logs_are_not_in_turn(kind):
    assert not takes_turns(NOT_IN_TURN[kind]())


def test_other_columns_identify_a_busy_server():
    fit = asim.calibrate(served(delays.Gamma(0.4, 0.1)), by_worker=False)
    assert fit.parameters["server.service.mean"].identifiable
    assert fit.what_if(workers=8, draws=2)["throughput"].median == pytest.approx(6.0, rel=1e-3)


def test_simulation_does_not_tell_them_apart_either(monkeypatch):
    model = default_model(6)
    rows = {name: Parameter(0.1, 0.09, 0.11, "npe", True) for name in model.names}
    fitted = Clusters.of(model, rows, np.full((2, len(rows)), 0.1), ("commit_time",))
    monkeypatch.setattr(_calibrate, "fit_by_simulation", lambda *_: (fitted, [], Evidence({})))
    fit = asim.calibrate(regular(6, 0.0), method="npe")
    assert fit.hidden == model.names
    with pytest.raises(ValueError, match="commit in turn"):
        fit.what_if(workers=8, draws=2)
    assert any("commit in turn" in note for note in fit.notes)
