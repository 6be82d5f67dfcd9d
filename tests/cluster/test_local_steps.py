"""Jobs of several gradients: their times, their numbers in the trace, and where rules and clusters must agree."""

import dataclasses
import math

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, protocols, rules

GAMMA = delays.Gamma(mean=1.0, cv=0.5)
BOWL = asim.workloads.Quadratic([1.0, 0.1])
CLUSTERS = {
    "fast path": {},
    "fast queue": {"server": asim.Server(service=delays.Exponential(0.1))},
    "no network": {"protocol": protocols.KSync(2)},
    "network": {"network": asim.Network(latency=delays.Constant(0.1))},
    "pull before commit": {"server": asim.Server(atomic=False)},
    "faults": {"faults": [asim.faults.Slowdown(worker=0, start=3.0, seconds=40.0, factor=2.0)]},
}


def agn(window, cluster=None, **length):
    cluster = asim.Cluster(workers=4, compute=GAMMA) if cluster is None else cluster
    return asim.Scenario(cluster, rules.AGN(0.05, window=window), BOWL, **(length or {"commits": 400}))


@pytest.mark.quick
@pytest.mark.parametrize("parts", CLUSTERS.values(), ids=CLUSTERS)
def test_a_job_takes_the_sum_of_its_local_steps_in_every_simulation(parts):
    steps = asim.simulate(asim.Cluster(4, GAMMA, local_steps=25, **parts), commits=200)
    jobs = asim.simulate(asim.Cluster(4, delays.Gamma(25.0, 0.1), **parts), commits=200)
    assert steps.local_steps.tolist() == [25] * 4
    assert dataclasses.replace(steps, local_steps=None).digest == jobs.digest


@pytest.mark.parametrize("law", [GAMMA, delays.LogNormal(1.0, 0.5), delays.Uniform(0.5, 1.5)], ids=repr)
def test_means_grow_with_the_local_steps_and_cvs_fall_with_their_root(law):
    steps, jobs = 16, 4000
    trace = asim.simulate(asim.Cluster(4, law, local_steps=steps), commits=jobs)
    times = trace.finish_time - trace.start_time
    cv = math.sqrt(law.variance) / law.mean / math.sqrt(steps)
    assert times.mean() == pytest.approx(steps * law.mean, rel=5 * cv / math.sqrt(jobs))
    # The relative standard error of a standard deviation is near 1/√(2N) for sums that are nearly normal.
    assert times.std() / times.mean() == pytest.approx(cv, rel=5 / math.sqrt(2 * jobs) + 5 * cv / math.sqrt(jobs))


def test_constant_windows_of_ten_take_exactly_ten_times_as_long():
    cluster = asim.Cluster(4, delays.Constant(0.5))
    one, ten = (agn(window, cluster).schedule() for window in (1, 10))
    np.testing.assert_array_equal(ten.commit_time, 10 * one.commit_time)
    np.testing.assert_array_equal(ten.worker, one.worker)


def test_a_sweep_over_windows_at_equal_seconds_takes_equally_many_gradients():
    scenarios = asim.grid(agn(1, seconds=400.0), window=[1, 4, 20])
    expected = 4 * 400.0  # workers that are always busy, one gradient a second each
    for scenario, result in zip(scenarios, asim.sweep(scenarios), strict=True):
        # A worker's number of gradients in T seconds has variance cv²·T, and up to one window is cut off at the end.
        error = 5 * 0.5 * math.sqrt(expected) + 4 * scenario.rule.window
        assert abs(result.summary["commits"] * scenario.rule.window - expected) < error


def test_workers_may_take_different_numbers_of_local_steps():
    cluster = asim.Cluster(3, delays.Constant(1.0), local_steps=[1, 2, 4])
    trace = asim.simulate(cluster, commits=20)
    times = {worker: set((trace.finish_time - trace.start_time)[trace.worker == worker]) for worker in range(3)}
    assert times == {0: {1.0}, 1: {2.0}, 2: {4.0}}
    assert cluster.local_steps == (1, 2, 4)


def test_a_fleet_has_one_law_of_jobs_for_each_law_and_number():
    """Laws are compared, fitted and drawn by their objects, of which a large fleet has few."""
    laws, steps = [delays.Gamma(1.0, 0.5)] * 3 + [delays.Gamma(2.0, 0.5)] * 3, [4, 4, 9, 4, 4, 4]
    cluster = asim.Cluster(6, laws, local_steps=steps)
    assert cluster.laws == tuple(map(delays.sum_of, laws, steps))
    assert len({id(law) for law in cluster.laws}) == 3
    plain = dataclasses.replace(cluster, local_steps=None)
    assert plain.laws is plain.compute


def test_the_numbers_of_a_fleet_keep_their_shares_when_it_shrinks():
    cluster = asim.Cluster(4, [delays.Constant(1.0)] * 2 + [delays.Constant(3.0)] * 2, local_steps=[6, 6, 2, 2])
    smaller = asim.components.override(cluster, workers=2)
    assert (smaller.local_steps, [law.mean for law in smaller.laws]) == ((6, 2), [6.0, 6.0])


def test_times_of_whole_jobs_and_speeds_that_change():
    by_job = delays.ByJob(lambda job: 1.0 + job % 2)
    assert asim.Cluster(2, by_job, local_steps=9).laws == (by_job, by_job)
    law = delays.VariableSpeed(delays.Constant(1.0), delays.Profile(times=(0.0,), speeds=(0.5,)))
    trace = asim.simulate(asim.Cluster(1, law, local_steps=3), commits=2)
    assert trace.commit_time.tolist() == [6.0, 12.0]


WRONG = [
    (0, "`local_steps` must be an integer of at least 1; got 0"),
    (2.5, "`local_steps` must be an integer or a sequence of integers or None; got 2.5"),
    (True, "`local_steps` must be an integer or a sequence of integers or None; got True"),
    ("3", "`local_steps` must be an integer or a sequence of integers or None; got '3'"),
    ([1, 2], "`local_steps` must be one number per worker; got 2 for 3"),
    ([1, 2, 0], "`local_steps` must be an integer of at least 1; got 0"),
]


@pytest.mark.parametrize(("steps", "message"), WRONG, ids=lambda value: repr(value)[:20])
def test_numbers_that_are_none(steps, message):
    with pytest.raises(ValueError, match=message):
        asim.Cluster(3, GAMMA, local_steps=steps)


def test_a_cluster_that_contradicts_the_window_is_refused():
    for steps, window in ((5, 10), ([10, 10, 10, 5], 10), (5, 1)):
        with pytest.raises(ValueError, match=f"`local_steps` must be the window of 'agn', {window}"):
            agn(window, asim.Cluster(4, GAMMA, local_steps=steps))
    assert agn(10, asim.Cluster(4, GAMMA, local_steps=10)).schedule().digest == agn(10).schedule().digest


def test_a_trace_that_contradicts_the_window_is_refused():
    trace = agn(10).schedule()
    assert trace.local_steps.tolist() == [10] * 4
    with pytest.raises(ValueError, match="`trace` must have jobs with as many gradients as the window of 'agn', 5"):
        asim.replay(trace, rules.AGN(0.05, window=5), BOWL)
    unknown = dataclasses.replace(trace, local_steps=None)
    np.testing.assert_array_equal(
        asim.replay(trace, rules.AGN(0.05, window=10), BOWL).loss,
        asim.replay(unknown, rules.AGN(0.05, window=10), BOWL).loss,
    )


def test_traces_keep_their_local_steps_in_files_and_digests(tmp_path):
    trace = asim.simulate(asim.Cluster(3, GAMMA, local_steps=[1, 2, 4]), commits=9)
    trace.save(tmp_path / "trace.npz")
    loaded = asim.Trace.load(tmp_path / "trace.npz")
    assert (loaded.local_steps.tolist(), loaded.digest) == ([1, 2, 4], trace.digest)
    assert dataclasses.replace(trace, local_steps=[1, 2, 5]).digest != trace.digest


@pytest.mark.parametrize(
    ("steps", "message"),
    [([1, 2], "must have one entry per worker"), ([1, 2, 0], "must be at least 1"), ([1, 2, 2.5], "must be a column")],
)
def test_wrong_local_steps_of_a_trace(steps, message):
    trace = asim.simulate(asim.Cluster(3, GAMMA), commits=9)
    with pytest.raises(asim.TraceError, match=f"`local_steps` {message}"):
        dataclasses.replace(trace, local_steps=steps).check()


def test_a_pipeline_says_that_local_steps_take_no_time():
    pipeline = asim.Pipeline(stages=2, forward=delays.Constant(1.0))
    network = asim.workloads.MLP(asim.datasets.Digits(), hidden=(4,), batch_size=8)
    scenario = asim.Scenario(pipeline, rules.Downpour(0.1, window=2), network, commits=4)
    with pytest.warns(UserWarning, match="The 2 local steps of 'downpour' take no time on Pipeline"):
        scenario.schedule()
