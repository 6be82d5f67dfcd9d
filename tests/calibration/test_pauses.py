"""Workers that pause between a commit and their next read, of which a fitted cluster knows nothing."""

import heapq

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays

NAMES = ("worker", "read_time", "start_time", "finish_time", "arrive_time", "serve_time", "commit_time")
COMPUTE, MESSAGE, SERVICE = (1.0, 0.3), (0.05, 0.5), (0.01, 0.3)  # mean and cv of gamma laws


def rows_of(workers, pause, commits, seed):
    """Simulate workers that pause after each commit, with a plain loop: a row for each commit."""
    generator, jobs, rows, free = np.random.default_rng(seed), [], [], 0.0

    def draw(mean, cv):
        return float(generator.gamma(1 / cv**2, mean * cv**2))

    def begin(worker, read, start):
        finish = start + draw(*COMPUTE)
        heapq.heappush(jobs, (finish + draw(*MESSAGE), worker, read, start, finish))

    for worker in range(workers):
        begin(worker, 0.0, 0.0)
    while len(rows) < commits:
        arrive, worker, read, start, finish = heapq.heappop(jobs)
        serve = max(arrive, free)
        free = serve + draw(*SERVICE)
        rows.append((worker, read, start, finish, arrive, serve, free))
        read = free + (draw(pause, 0.5) if pause else 0.0)
        begin(worker, read, read + draw(*MESSAGE))
    return rows


def log_of(rows, columns=NAMES):
    table = dict(zip(NAMES, zip(*rows, strict=True), strict=True))
    return asim.Trace.from_columns({name: np.array(table[name]) for name in columns})


CLIENT = ("worker", "read_time", "commit_time")


@pytest.mark.parametrize("columns", [NAMES, CLIENT], ids=["all", "client"])
@pytest.mark.parametrize("pause", [0.25, 1.0])
def test_a_question_about_workers_that_pause_is_refused_with_a_remedy_that_works(pause, columns):
    """The fitted cluster commits too often by the pause's share. Without `read_time` the pause is a part of the job."""
    rows = rows_of(8, pause, 1500, seed=1)
    fit = asim.calibrate(log_of(rows, columns), law="gamma")
    cycle = 8 * rows[-1][-1] / 1500
    assert fit.log.idle == pytest.approx(pause / cycle, rel=0.05)
    assert any("Workers read" in note and "no such pause" in note for note in fit.notes)
    with pytest.raises(ValueError, match=r"`workers` of 16 cannot .* pause for \d+% .* Leave out `read_time`"):
        fit.what_if(workers=16)
    without = log_of(rows, [name for name in columns if name != "read_time"])
    answer = asim.calibrate(without, law="gamma", method="likelihood").what_if(workers=16, draws=2)
    truth = 1500 / rows_of(16, pause, 1500, seed=2)[-1][-1]
    assert answer["throughput"].median == pytest.approx(truth, rel=0.04)


@pytest.mark.parametrize("columns", [NAMES, CLIENT], ids=["all", "client"])
def test_workers_that_read_at_once_do_not_pause(columns):
    fit = asim.calibrate(log_of(rows_of(8, 0.0, 800, seed=1), columns), law="gamma")
    assert fit.log.idle == 0.0
    assert not any("no such pause" in note for note in fit.notes)


@pytest.mark.parametrize("latency", [0.05, 0.2, 0.5])
def test_a_pull_in_a_request_of_its_own_is_no_pause(latency):
    """The reply to the commit and the request travel for two latencies, and the fitted cluster does the same."""
    laws = {"network": asim.Network(latency=delays.Gamma(latency, 0.3))}
    server = asim.Server(service=delays.Gamma(0.02, 0.3), atomic=False)
    log = asim.simulate(asim.Cluster(8, delays.Gamma(1.0, 0.3), server=server, **laws), commits=1200)
    fit = asim.calibrate(log, law="gamma")
    assert fit.log.idle == 0.0
    assert not any("no such pause" in note for note in fit.notes)
    again = asim.simulate(fit.cluster, commits=1200)
    assert again.seconds == pytest.approx(log.seconds, rel=0.04)
