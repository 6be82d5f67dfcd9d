"""Clocks of hosts that differ from the server's, in logs as the page on logs writes them, and as a server does."""

import re

import numpy as np
import pytest

import asyncsim as asim
from tests.calibration import heap

LATENCY, CV, COMMITS = 0.05, 0.2, 1200
GAMMAS = {"compute": "gamma", "latency": "gamma", "service": "gamma"}


def delayed(offsets, seed=0, answer=0.03):
    """A log of workers who stamp read, start and finish by their own clocks, some time after their last commit."""
    generator = np.random.default_rng(seed)
    shape = 1 / CV**2
    rows = []
    for worker, off in enumerate(offsets):
        commit = 1.0
        for job in range(COMMITS // len(offsets)):
            read = commit + (answer if job else 0.0)
            start = read + (generator.gamma(shape, LATENCY / shape) if job else 0.0)
            finish = start + generator.gamma(11, 0.5 / 11)
            arrive = finish + generator.gamma(shape, LATENCY / shape)
            commit = arrive + generator.gamma(25, 0.02 / 25)
            rows.append((worker, read + off, start + off, finish + off, arrive, arrive, commit))
    rows.sort(key=lambda row: row[-1])
    return dict(zip(heap.COLUMNS, np.array(rows).T, strict=True))


def clocks_in(fit):
    """Worker -> seconds that its clock is ahead, by the notes."""
    pattern = r"Worker (\d+)'s clock is ([\d.e-]+) s (ahead|behind)"
    found = [re.match(pattern, note) for note in fit.notes]
    return {int(match[1]): float(match[2]) * (1 if match[3] == "ahead" else -1) for match in found if match}


@pytest.mark.parametrize("off", [0.005, 0.01, 0.02, -0.01])
@pytest.mark.parametrize("seed", range(2))
def test_a_clock_of_a_client_shows_on_the_way_up_alone(off, seed):
    """Read and start are by one clock. Half of the offset counted, and made the latency shorter."""
    fit = asim.calibrate(asim.Trace.from_columns(delayed([0.0, 0.0, off, 0.0], seed)), law=GAMMAS, by_worker=False)
    found = clocks_in(fit)
    assert found.keys() == {2}
    error = LATENCY * CV * np.sqrt(2 / (COMMITS / 4))
    assert found[2] == pytest.approx(off, abs=4 * error)
    latency = fit.parameters["network.latency.mean"]
    assert abs(latency.estimate - LATENCY) < 4 * (latency.high - latency.low) / 3.29
    cv = fit.parameters["network.latency.cv"]
    assert abs(cv.estimate - CV) < 4 * (cv.high - cv.low) / 3.29


@pytest.mark.parametrize("off", [0.01, -0.01])
def test_a_read_by_the_clock_of_the_server_shows_the_offset_on_both_ways(off):
    cluster = heap.Cluster(4, heap.gamma(0.5, 0.3), heap.gamma(LATENCY, CV), heap.gamma(0.02, 0.2))
    columns = {name: np.array(column) for name, column in heap.simulate(cluster, COMMITS, 0).items()}
    skewed = (columns["worker"] == 1) & (columns["read_time"] > 0)
    columns |= {name: columns[name] + off * skewed for name in ("start_time", "finish_time")}
    fit = asim.calibrate(asim.Trace.from_columns(columns), law=GAMMAS, by_worker=False)
    found = clocks_in(fit)
    assert found.keys() == {1}
    assert found[1] == pytest.approx(off, abs=4 * LATENCY * CV / np.sqrt(2 * COMMITS / 4))
    latency = fit.parameters["network.latency.mean"]
    assert abs(latency.estimate - LATENCY) < 4 * (latency.high - latency.low) / 3.29


@pytest.mark.parametrize("seed", range(4))
def test_clocks_that_agree_have_no_note(seed):
    for columns in (delayed([0.0] * 4, seed), delayed([0.0] * 4, seed, answer=0.0)):
        assert not clocks_in(asim.calibrate(asim.Trace.from_columns(columns), law=GAMMAS, by_worker=False))
