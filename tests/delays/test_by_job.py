"""Laws of jobs known beforehand: moments, and that every simulated job takes the time of its number."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import faults, protocols
from asyncsim.delays import ByJob, Constant, Gamma


def times(job):
    """Of which no two are alike."""
    return 1.0 + (job * 0.6180339887498949) % 1.0


CLUSTERS = {
    "plain": {},
    "a queue": {"server": asim.Server(service=Constant(0.1))},
    "stopped": {"protocol": protocols.Ringmaster(4, stop=True)},
    "dropped": {"protocol": protocols.Ringmaster(4)},
    "backup workers": {"protocol": protocols.Synchronous(backup=2)},
    "lost and crashed": {
        "network": asim.Network(latency=Gamma(0.1, 0.3)),
        "faults": [faults.MessageLoss(0.3, 0.5), faults.Crash(1, 5.0, restart_after=3.0)],
    },
}


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_job_takes_the_time_of_its_number(name):
    """Which counts the jobs that the worker began to compute, those that never committed included."""
    laws = [ByJob(times, Constant(1.0 + 0.25 * worker)) for worker in range(5)]
    trace = asim.simulate(asim.Cluster(5, laws, **CLUSTERS[name]), commits=200)
    took = trace.finish_time - trace.start_time
    np.testing.assert_allclose(took, times(trace.started_before) * (1 + 0.25 * trace.worker), rtol=1e-9)
    lost = np.isfinite(trace.unfinished.start_time) & (trace.unfinished.fate != asim.trace.Fate.IN_FLIGHT)
    most = np.zeros(5, np.int64)
    np.maximum.at(most, trace.worker, trace.started_before)
    assert (most + 1).sum() <= 200 + lost.sum()
    assert (name in ("plain", "a queue")) == (not lost.any())


def test_the_noise_is_a_factor_of_the_mean():
    assert ByJob(lambda job: 1.0 + job % 3, Constant(2.0)).mean == pytest.approx(2 * 1.999)


def test_jobs_of_no_time():
    law = ByJob(lambda job: (job % 2).astype(float), typical=2)
    assert law.cdf([0.0, 0.5, 1.0]).tolist() == [0.5, 0.5, 1.0]


def test_times_of_a_wrong_shape_are_refused():
    with pytest.raises(ValueError, match=r"`times` must return shape \(1000,\) for 1000 jobs; got \(\)"):
        _ = ByJob(lambda job: 1.0).mean
    with pytest.raises(ValueError, match="must be finite and not negative; worker 0 drew -1"):
        asim.simulate(asim.Cluster(1, ByJob(lambda job: 1.0 - 2.0 * job)), commits=5)
