"""Jobs that take as long as their data: the mini-batches of the clock are those of the replay."""

import dataclasses

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import protocols, rules
from asyncsim.delays import Constant
from asyncsim.engine.reference import replay_plainly
from asyncsim.workloads import Workload, job_times

EXAMPLES, WORKERS = 12, 4
SECONDS = 0.1 * 2.0 ** (np.arange(EXAMPLES) % 6)  # no two pairs of examples of different lengths take as long
PARTS = [[0, 1, 2], [3, 4, 5, 6], [7, 8], [9, 10, 11]]


def loss(params, batch, key):
    del key
    return ((params["x"] - batch) ** 2).mean()


GRADIENT = jax.jit(jax.value_and_grad(loss))  # compiled once, also for the plain loop


def make(**options):
    """Data whose examples can be told apart in the loss."""
    given = {"data": np.arange(EXAMPLES, dtype=np.float32), "batch_size": 2, "counts": "jobs", **options}
    return Workload(init=lambda key: {"x": np.zeros((), np.float32)}, loss=loss, gradient=GRADIENT, **given)


def schedule(workload, protocol, **options):
    laws = job_times(workload, SECONDS, WORKERS, seed=3, **options)
    return asim.simulate(asim.Cluster(WORKERS, laws, protocol=protocol), commits=60)


@pytest.mark.parametrize("parts", [None, PARTS])
def test_a_job_takes_as_long_as_the_mini_batch_that_its_commit_is_given(parts):
    workload, protocol = make(parts=parts), protocols.Ringmaster(3, stop=True)
    for padded, windows in ((False, 1), (True, 2), (False, (2, 1, 3, 1))):
        trace = schedule(workload, protocol, padded=padded, window=windows, overhead=0.5)
        took = trace.finish_time - trace.start_time
        for row in range(0, 60, 7):
            wanted, window = 0.0, int(np.broadcast_to(windows, WORKERS)[trace.worker[row]])
            for step in range(window):
                job = int(trace.started_before[row]) * window + step
                batch = SECONDS[np.asarray(workload.batch(3, int(trace.worker[row]), job)).astype(int)]
                wanted += 0.5 + (2 * batch.max() if padded else batch.sum())
            assert took[row] == pytest.approx(wanted)


@pytest.mark.parametrize(
    "rule", [rules.GEM(0.1), rules.AEASGD(0.1, window=2, rho=1.0), rules.AGN(0.1, window=(2, 1, 3, 1))]
)
def test_the_engine_agrees_with_the_plain_loop(rule):
    workload = make()
    trace = schedule(workload, protocols.Ringmaster(3, stop=True), window=rule.window)
    assert (trace.unfinished.fate == asim.trace.Fate.CANCELLED).sum() > 5
    with jax.enable_x64(True):
        plain, run = replay_plainly(trace, rule, workload, 3), asim.replay(trace, rule, workload, 3)
        np.testing.assert_allclose(run.loss, plain.loss, rtol=1e-10)
    other = asim.replay(trace, rule, make(counts="commits"), 3)
    assert not np.allclose(other.loss, run.loss, rtol=1e-3)
    assert other.digest != run.digest
    assert run.plan(trace).job.tolist() == trace.started_before.tolist()


def test_without_lost_jobs_both_counts_are_one():
    trace = asim.simulate(asim.Cluster(3, asim.delays.Gamma(1.0, 0.3)), commits=40)
    runs = [asim.replay(trace, rules.GEM(0.1), make(counts=counts)) for counts in ("commits", "jobs")]
    assert runs[0].loss.tolist() == runs[1].loss.tolist()
    assert runs[0].digest == runs[1].digest


def test_long_examples_are_selected_against():
    """With one example a job and jobs stopped when they are late, the longest examples hardly ever commit."""
    workload = make(batch_size=1)
    laws = job_times(workload, SECONDS, WORKERS, seed=3)
    trace = asim.simulate(asim.Cluster(WORKERS, laws, protocol=protocols.Ringmaster(4, stop=True)), commits=3000)
    rows = workload.shuffles().take(3, trace.worker, trace.started_before)[:, 0]
    used = np.bincount(rows % 6, minlength=6) / len(rows)
    assert used[0] > 1 / 6 + 5 * np.sqrt(1 / 6 * 5 / 6 / 3000)
    assert used[5] < 0.5 / 6


def test_a_description_tells_counts_and_times_apart():
    plain = asim.workloads.Softmax(asim.datasets.Digits(), batch_size=8)
    workload = dataclasses.replace(plain, counts="jobs")
    assert repr(workload) == "Softmax(digits, batch_size=8, counts='jobs')"
    one, same, longer = (
        asim.Scenario(asim.Cluster(2, job_times(workload, seconds, 2)), rules.Downpour(0.1), workload, commits=8)
        for seconds in (0.1, 0.1, 0.2)
    )
    assert one.describe() == same.describe() != longer.describe()
    assert one.simulate().seconds > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workload": asim.workloads.Quadratic([1.0])}, "`workload` must have data for `job_times`"),
        ({"workload": make(counts="commits")}, "must count jobs, .* it counts 'commits'. Give dataclasses.replace"),
        ({"workload": make(parts=PARTS), "workers": 3}, "is made for 4 workers; the cluster has 3"),
        ({"per_example": [1.0, 2.0]}, r"one per training example, 12; got shape \(2,\)"),
        ({"per_example": -1.0}, "`per_example` must be finite and not negative; got -1.0"),
        ({"overhead": -1.0}, "`overhead` must be finite and not negative; got -1"),
        ({"noise": [Constant(1.0)]}, "`noise` must have one law per worker; got 1 for 4"),
        ({"window": 0}, "`window` must be an integer of at least 1; got 0"),
        ({"window": [1, 2]}, "`window` must have one number per worker; got 2 for 4"),
    ],
)
def test_bad_arguments_are_named(change, message):
    arguments = {"workload": make(), "per_example": SECONDS, "workers": WORKERS} | change
    with pytest.raises(ValueError, match=message):
        job_times(**arguments)
