"""DiLoCo's scenarios: 64 measured runs against the ring's formula, and the authors' toy."""

import csv
import os
from pathlib import Path

import jax
import numpy as np
import optax
import pytest

import asyncsim as asim
from asyncsim.engine.reference import replay_plainly
from asyncsim.workloads._batches import init_key
from tests.problems import assert_close, tree_workload
from tests.rules.by_hand import own_steps
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


LOSSES = np.full((6, 4, 7), 1.3)  # of rows, seeds and outer steps
LOSSES[0, :, 3], LOSSES[1, :, 3] = 1.0, [1.1, 1.2, 1.1, 1.2]  # rounds are better with Nesterov …
LOSSES[2, :, 3], LOSSES[3, :, 4] = 1.2, 1.1 - 0.01 * np.arange(4)  # … and worse without momentum,
LOSSES[2, :, 1], LOSSES[3, :, 3] = 1.22, [1.2, 1.21, 1.22, 1.21]  # also at the authors' own steps.
LOSSES[4, :, 1] = [1.0, 1.3, 1.0, 1.3]
LOSSES[5, :, 2] = 1.2


@pytest.fixture(scope="module")
def toy():
    """The toy's numbers where the losses are those above."""
    return run_loaded(load("diloco_toy", measure=lambda *_: LOSSES, simulated_limit=lambda _: 1.0), examples=10_000)


def commit_times(grace, commits):
    """The authors' server: messages that arrive within the grace of the first are applied before their senders read."""
    window = 20 * np.array([0.58, 0.75, 1.51, 3.33])
    end, idle, now, first, times = window.copy(), np.zeros(4, bool), 0.0, None, []
    while len(times) < commits:
        worker = np.where(idle, np.inf, end).argmin()
        if not idle.all() and (first is None or end[worker] <= first + grace):
            now = end[worker]
            first = now if first is None else first
            idle[worker] = True
            times.append(now)
        else:
            end = np.where(idle, now + window, end)
            idle[:], first = False, None
    return np.array(times)


def test_the_grace_period_is_all_that_the_toy_lacks_for_the_printed_times(toy):
    np.testing.assert_allclose(commit_times(0.0, 400), toy["curve_seconds"][:400])
    np.testing.assert_allclose(commit_times(0.5, 400)[39::40], toy["printed_seconds"])


def test_the_times_of_the_toy_come_within_one_commit_of_the_printed_ones(toy):
    assert (abs(toy["simulated_steps"] - toy["printed_steps"]) <= 20).all()
    script = load("diloco_toy")
    rows = [line.strip("| ").split(" | ") for line in script["__doc__"].splitlines() if line.startswith("| ")]
    table = {name: [float(cell) for cell in cells] for name, *cells in rows}
    np.testing.assert_allclose(table["printed"], toy["printed_seconds"])
    np.testing.assert_allclose(table["simulated"], toy["simulated_seconds"], atol=0.051)
    rounds = script["schedule"](script["ROWS"]["rounds, Nesterov"], 5)
    np.testing.assert_allclose(rounds.commit_time[3::4], script["PRINTED_ROUND"] * np.arange(1, 6))


def test_verdicts_of_the_toy_compare_rows_seed_by_seed(toy):
    assert toy["best_outer_step"] == pytest.approx([0.35, 0.035, 1.4, 0.35 * 2**0.5, 0.0875, 0.175 / 2**0.5])
    assert str(toy["the_step_falls"]).startswith("10 times")
    assert str(toy["late_nesterov_is_worse_than_rounds"]).startswith("holds, -0.15")
    assert str(toy["without_momentum_late_is_better_than_rounds"]).startswith("holds, -0.115")
    assert str(toy["without_momentum_at_the_authors_step"]).startswith("holds, -0.0100")
    assert str(toy["delayed_is_better_than_late_nesterov"]).startswith("undecided, +0.0000")
    assert str(toy["delayed_is_better_than_rounds"]).startswith("undecided, +0.15")
    assert load("diloco_toy")["verdict"](np.array([0.1, 0.2, 0.1])).startswith("does not hold")
    assert not toy["at_the_edge"].any()


def test_limits_of_the_toy_are_of_fresh_messages_and_of_workers_in_turn(toy):
    limits = [(0.9, 0), (0.9, 3), (0.0, 0), (0.0, 3)]
    expected = [asim.theory.outer_limit(momentum, delay) for momentum, delay in limits]
    assert toy["predicted_limit"][:4] == pytest.approx(expected)
    assert np.isnan(toy["predicted_limit"][4:]).all()


def test_simulated_limits_of_the_toy_are_those_of_theory_where_delays_are_constant():
    """In rounds, and for workers in turn. The simulated limit is the last of a grid with a ratio of 2^(1/8)."""
    script = load("diloco_toy")
    rows = {name: script["ROWS"][name] for name in ("rounds, Nesterov", "asynchronous, Nesterov")}
    rows["in turn"] = rows.pop("asynchronous, Nesterov")._replace(protocol=asim.protocols.RoundRobin())
    for row in rows.values():
        limit = asim.theory.outer_limit(row.momentum, row.delay)
        assert script["simulated_limit"](row) <= limit < 1.01 * 2**0.125 * script["simulated_limit"](row)


def test_rows_of_the_toy_take_as_many_local_steps():
    script = load("diloco_toy")
    for row in script["ROWS"].values():
        trace = script["schedule"](row, 10)
        assert 800 <= trace.local_steps[trace.worker].sum() < 820


def test_the_optimiser_of_the_toy_has_no_memory_of_the_last_window(x64):
    """Three windows of one worker are three fresh optimisers, whose displacements move the server by half."""
    window, rate, workload = 4, 0.1, tree_workload()
    anew = load("diloco_toy")["Anew"](asim.rules.Downpour(0.5), window=window, learning_rate=rate, optimiser="adam")
    run = replay_plainly(asim.Trace.from_commits([0] * 3), anew, workload, seed=2)
    theta = workload.init(init_key(2))
    for turn in range(3):
        end, _ = own_steps(optax.adam(rate), workload, window, 2, 0, theta, None, turn * window)
        theta = jax.tree.map(lambda t, x: t + 0.5 * (x - t), theta, end)
    assert_close(run.central, theta, rtol=1e-9, atol=1e-12)


def test_outer_steps_of_the_toy_change_its_loss():
    """One row of small networks: a tiny outer step leaves the loss of guessing, larger ones lower it."""
    script = load("diloco_toy", GRID=np.array([0.5, 1.0, 2.0]))
    row = script["ROWS"]["asynchronous, delayed"]._replace(middle=1.0)
    script["compute"].__globals__["ROWS"] = {"tiny": row._replace(middle=1e-6), "usual": row}
    workload = asim.workloads.MLP(script["clusters"](10_000), hidden=(8,), batch_size=8)
    tiny, usual = script["measure"](workload, 3, range(2), 0.01)
    assert tiny.shape == (2, 3)
    first = [workload.evaluate(workload.init(jax.random.key(seed)))["test_loss"] for seed in range(2)]
    assert abs(tiny - np.mean(first)).max() < 0.1
    assert (usual.min(axis=1) < tiny.min(axis=1)).all()


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
