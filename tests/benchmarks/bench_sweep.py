"""Sweeps compared with the same work in two loops that somebody writes by hand, and two processes with one."""

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.pool._slots import _begin

STEP_SIZES = tuple(0.01 * k for k in range(1, 11))
RECORD = {"energy_central": 3, "energy_proxy": 3, "pi_mean": 3, "pi_median": 16}  # what a scenario records by default


def base(commits):
    return asim.Scenario(
        cluster=asim.Cluster(workers=16, compute=asim.delays.Gamma(mean=1.0, cv=0.3)),
        rule=asim.rules.GEM(0.1),
        workload=asim.workloads.Quadratic([1.0, 0.5] * 5),
        commits=commits,
    )


def in_turn(seeds, commits):
    """Each step size by itself over the schedule of each seed."""
    scenario = base(commits)
    losses = []
    for seed in seeds:
        trace = asim.simulate(scenario.cluster, commits=commits, seed=seed)
        for step_size in STEP_SIZES:
            run = asim.replay(trace, asim.rules.GEM(step_size), scenario.workload, seed, record=RECORD)
            losses.append(run.final_loss())
    return np.reshape(losses, (-1, len(STEP_SIZES)))


def in_lanes(seeds, commits):
    """All step sizes in one program over the schedule of each seed."""
    scenario = base(commits)
    losses = []
    for seed in seeds:
        trace = asim.simulate(scenario.cluster, commits=commits, seed=seed)
        rule = asim.rules.GEM(np.array(STEP_SIZES))
        run = asim.replay(trace, rule, scenario.workload, [seed] * len(STEP_SIZES), record=RECORD)
        losses.append(run.final_loss())
    return np.array(losses)


def two_processes(loop, seeds, commits):
    halves = range(seeds // 2), range(seeds // 2, seeds)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context, initializer=_begin, initargs=({},)) as executor:
        return np.concatenate(list(executor.map(loop, halves, [commits, commits])))


@pytest.mark.parametrize(("lanes", "loop"), [(None, in_turn), (10, in_lanes)], ids=["in turn", "in lanes"])
def test_a_thousand_small_runs(lanes, loop, request, report, scaled, smoke, tmp_path):
    """The sweep also writes a thousand folders, each with the run, its schedule, its scenario and its summary."""
    seeds, commits = (4, 60) if smoke else (100, scaled(2000))
    asked = asim.grid(base(commits), learning_rate=STEP_SIZES, seed=range(seeds))
    stores = iter(tmp_path / str(number) for number in range(100))
    by_hand = two_processes(loop, seeds, commits)
    table = asim.sweep(asked, next(stores), jobs=2, lanes=lanes).table()
    np.testing.assert_allclose(table["final_loss"].reshape(len(STEP_SIZES), -1).T, by_hand, rtol=1e-5)
    if smoke:  # both have run, and the fixture below complains if it is asked for and not used
        return
    versus = request.getfixturevalue("versus")
    ratio = versus(
        lambda: asim.sweep(asked, next(stores), jobs=2, lanes=lanes),
        lambda: two_processes(loop, seeds, commits),
        rounds=3,
    )
    name = "1000 small runs in a sweep" if lanes is None else f"the same with {lanes} lanes"
    report(f"{name}, over two loops by hand", ratio, "", at_most=1.2 if lanes is None else 1.3)


NETWORK_STEP_SIZES = (0.1, 0.2)


def network(commits_per_worker):
    return asim.Scenario(
        cluster=asim.Cluster(workers=20, compute=asim.delays.Gamma(mean=1.0, cv=0.3)),
        rule=asim.rules.GEM(0.1),
        workload=asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=32),
        commits_per_worker=commits_per_worker,
    )


def networks_by_hand(seeds, commits_per_worker, folder):
    """One run after another, each kept in a file."""
    scenario = network(commits_per_worker)
    for seed in seeds:
        trace = asim.simulate(scenario.cluster, commits=20 * commits_per_worker, seed=seed)
        for step_size in NETWORK_STEP_SIZES:
            run = asim.replay(trace, asim.rules.GEM(step_size), scenario.workload, seed, record=RECORD)
            run.evaluate()
            run.save(f"{folder}/{step_size}_{seed}.npz")


def processes_by_hand(count, seeds, commits_per_worker, folder):
    """Processes that know nothing of each other, each with its share of the seeds."""
    folder.mkdir()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=({},)) as executor:
        shares = [range(place, seeds, count) for place in range(count)]
        list(executor.map(networks_by_hand, shares, [commits_per_worker] * count, [str(folder)] * count))


@pytest.mark.parametrize("runs", [200])
def test_two_processes(runs, report, smoke, tmp_path):
    """Beside what this machine's two cores give to two processes that share nothing.

    Each process imports JAX and compiles, whatever the number of runs, and two cores share their memory: by hand, two
    processes are not twice as fast as one either.
    """
    seeds, commits_per_worker = (2, 3) if smoke else (runs // len(NETWORK_STEP_SIZES), 400)
    asked = asim.grid(network(commits_per_worker), learning_rate=NETWORK_STEP_SIZES, seed=range(seeds))
    seconds = {}
    for jobs in (2,) if smoke else (1, 2):
        begun = time.perf_counter()
        processes_by_hand(jobs, seeds, commits_per_worker, tmp_path / f"by hand {jobs}")
        between = time.perf_counter()
        assert len(asim.sweep(asked, tmp_path / f"sweep {jobs}", jobs=jobs).computed) == len(asked)
        seconds[jobs] = between - begun, time.perf_counter() - between
    if smoke:
        return
    by_hand, swept = (one / two for one, two in zip(seconds[1], seconds[2], strict=True))
    report("200 runs of a small network by hand, two processes that share nothing", by_hand, "times one", at_least=1.8)
    report("200 runs of a small network in a sweep, two processes", swept, "times one", at_least=1.8)
    report("200 runs of a small network in a sweep, over two processes by hand", swept / by_hand, "", at_least=0.97)
