"""DiLoCo's scenarios: 64 measured runs against the ring's formula, and the scenario for a cluster of your own."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest

import asyncsim as asim
from tests.scenarios.run import load, run, run_loaded

DATA = os.environ.get("ASYNCSIM_DATA", "")
with_runs = pytest.mark.skipif(
    not Path(DATA, "diloco", "runs.csv").is_file(), reason="set ASYNCSIM_DATA to a folder with diloco/runs.csv"
)


@pytest.fixture(scope="module")
def measured():
    """The numbers of the scenario, which are those of the 16 medians."""
    return run("diloco_measured", window=32)


def test_diloco_measured(measured):
    fast, few = measured["gigabits"] > 0.1, measured["window"] <= 8
    assert (abs(measured["error"])[fast & few] < 0.12).all()  # without a fitted number
    assert measured["median_error"] < 0.06
    assert measured["largest_error"] < 0.13
    assert (measured["error_of_fit"][~fast] > 0.05).all()  # what nobody has explained
    row = measured["windows"] == 32
    for share in (50, 75, 90):  # the bandwidths that are printed lie on the contours
        found = np.interp(share / 100, measured["busy"][row][0], measured["bandwidths"])
        assert measured[f"gigabits_for_{share}_percent"] == pytest.approx(found, rel=0.01)


def read_runs():
    """The runs in rounds on shaped networks, as rows of the scenario's table, and their algorithms."""
    with Path(DATA, "diloco", "runs.csv").open(encoding="utf-8") as file:
        runs = [run for run in csv.DictReader(file) if run["algorithm"] != "ddp" and run["bandwidth_bps"]]
    columns = [
        (
            float(run["H"]),
            float(run["bandwidth_bps"]) / 1e9,
            float(run["measured_bps"]) / 1e9,
            float(run["steps"]),
            1000 * float(run["compute_s"]) / float(run["steps"]),
            float(run["busy_share"]),
        )
        for run in runs
    ]
    return np.array(columns), np.array([run["algorithm"] for run in runs])


@with_runs
def test_the_bounds_hold_for_each_of_the_64_runs(measured):
    """The two fitted numbers are those of the medians, so no run of its own is fitted."""
    runs, _ = read_runs()
    assert len(runs) == 64
    script = load("diloco_measured", MEASURED=runs)
    fast, few = runs[:, 1] > 0.1, runs[:, 0] <= 8
    alone = script["simulated"](1.0, 0.0) / runs[:, -1] - 1
    assert (abs(alone)[fast & few] < 0.12).all()
    fit = float(measured["fitted_share"]), float(measured["fitted_wait_seconds"])
    both = script["simulated"](*fit) / runs[:, -1] - 1
    assert np.median(abs(both)[fast]) < 0.06
    assert abs(both)[fast].max() < 0.13
    assert (both[~fast] > 0.05).all()  # 50 Mbit/s, which nobody has explained


@with_runs
def test_the_table_in_the_scenario_has_the_medians_of_the_measured_runs():
    runs, algorithm = read_runs()
    runs = runs[algorithm == "diloco"]
    table = load("diloco_measured")["MEASURED"]
    for row in table:
        same = (runs[:, 0] == row[0]) & (runs[:, 1] == row[1])
        assert same.sum() == 3
        np.testing.assert_allclose(np.median(runs[same], axis=0), row, rtol=1e-3)


def test_diloco_measured_is_what_a_simulation_of_the_cluster_gives():
    """Sixteen workers of unequal steps, and a ring with latency, at one window and bandwidth of the map."""
    settings = {"workers": 16, "parameter_bytes": 1e9, "step_seconds": 0.5, "wait_seconds": 0.0, "bandwidth_share": 1.0}
    script = load("diloco_measured", fitted=lambda: (1.0, 0.0))  # which the map does not use
    numbers = run_loaded(script, **settings, latency=0.01, cv=0.2, rounds=60, window=8)
    (row,) = np.flatnonzero(numbers["windows"] == 8)
    network = asim.Network(
        asim.delays.Constant(0.01), bandwidth=numbers["bandwidths"][60] * 1e9 / 8, message_bytes=1e9, collective="ring"
    )
    law, rounds = asim.delays.Gamma(0.5, 0.2), asim.protocols.Synchronous()
    cluster = asim.Cluster(16, law, network=network, protocol=rounds, local_steps=8)
    trace = asim.simulate(cluster, commits=16 * 300, seed=1)
    busy = (trace.finish_time - trace.start_time).sum() / (16 * trace.seconds)
    assert numbers["busy"][row, 60] == pytest.approx(busy, rel=0.01)


def test_the_four_numbers_of_a_diloco():
    """Constant steps: a round adds the ring's exchange to its window, and a late worker its upload and download."""
    window, step, parameters, gigabits = 8, 0.025, 5e6, 2.0
    settings = {"window": window, "step_seconds": step, "parameters": int(parameters), "gigabits": gigabits, "cv": 0.0}
    numbers = run("diloco", **settings, latency=0.001, rounds=30, seeds=2)
    message = 4 * 8 * parameters / (gigabits * 1e9)
    of_round, late = window * step + 1.5 * message + 6 * 0.001, window * step + 2 * (message + 0.001)
    jobs = numbers["seconds"] / late  # of each worker, of which the last is cut off
    np.testing.assert_allclose(numbers["seconds_per_window"], [of_round, late, late], rtol=1 / jobs)
    np.testing.assert_allclose(numbers["busy_share"], window * step / np.array([of_round, late, late]), rtol=1 / jobs)
    limits = [asim.theory.outer_limit(0.9, delay) for delay in (0, 3, 3)]
    assert numbers["stable_outer_step"] == pytest.approx(limits)
    assert numbers["outer_step"] == pytest.approx([0.7, 0.7, limits[1] / 2])
    rounds, unstable, stable = numbers["loss"]
    assert max(rounds, stable) < unstable
