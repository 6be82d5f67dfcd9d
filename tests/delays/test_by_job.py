"""Laws of jobs known beforehand: moments, and that every simulated job takes what its number says."""

import pickle

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, faults, protocols
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
def test_a_job_takes_what_its_number_says(name):
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


def test_moments_and_samples():
    for noise in (Constant(1.0), Constant(2.0), Gamma(1.0, 0.3)):
        law = ByJob(lambda job: 1.0 + job % 3, noise)
        drawn = law.sample(np.random.default_rng(0), 100_000)
        error = np.sqrt(law.variance / len(drawn))
        assert law.mean == pytest.approx(1.999 * noise.mean)
        assert drawn.mean() == pytest.approx(law.mean, abs=5 * error)
        assert drawn.var() == pytest.approx(law.variance, rel=0.03)
        for t in (0.5, 2.0, 2.5, 7.0):
            assert (drawn <= t).mean() == pytest.approx(float(law.cdf(t)), abs=5 * 0.5 / np.sqrt(len(drawn)))
        cut, whole = np.random.default_rng(1), np.random.default_rng(1)
        if isinstance(noise, Constant):
            pieces = [law.sample(cut, 3), law.sample(cut, 4)]
            assert np.concatenate(pieces).tolist() == law.sample(whole, 7).tolist()
    assert isinstance(law, delays.Delay)
    assert law.cdf([-1.0, 99.0]).tolist() == [0.0, 1.0]


def test_jobs_of_no_time():
    law = ByJob(lambda job: (job % 2).astype(float), typical=2)
    assert law.cdf([0.0, 0.5, 1.0]).tolist() == [0.5, 0.5, 1.0]


def test_it_travels():
    law = ByJob(times)
    assert law.mean == pickle.loads(pickle.dumps(law)).mean


def test_mistakes():
    for arguments, message in (
        ((1.0,), "`times` must be a function; got 1.0"),
        ((times, 0.3), "`noise` must be a law of delays; got 0.3"),
        ((times, Constant(1.0), 0), "`typical` must be an integer of at least 1; got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            ByJob(*arguments)
    with pytest.raises(ValueError, match=r"`times` must return shape \(1000,\) for 1000 jobs; got \(\)"):
        _ = ByJob(lambda job: 1.0).mean
    with pytest.raises(ValueError, match="must be finite and not negative; worker 0 drew -1"):
        asim.simulate(asim.Cluster(1, ByJob(lambda job: 1.0 - 2.0 * job)), commits=5)
