"""Equal workers get one law and unequal ones do not, whatever family that takes and however few jobs each has."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.calibration._choose import choose
from asyncsim.calibration._laws import _describe_differences
from asyncsim.calibration._stages import Stage

STRAGGLERS = delays.Straggler(delays.Gamma(0.7143, 0.2), probability=0.08, factor=6.0)
FAST, SLOW = delays.Gamma(1.0, 0.2), delays.Gamma(1.8, 0.2)


def of_workers(law, workers, jobs, seed, slow=0, factor=1.0):
    """The durations of some workers, of whom the first are slow."""
    worker = np.repeat(np.arange(workers, dtype=np.int32), jobs)
    durations = law.sample(np.random.default_rng(seed), len(worker))
    return Stage(np.where(worker < slow, factor * durations, durations), worker)


def test_equal_workers_with_stragglers_are_equal():
    """Twenty jobs or fewer are too few for a straggler law of each worker's own."""
    log = asim.simulate(asim.Cluster(18, STRAGGLERS), commits=360, seed=3)
    fit = asim.calibrate(log, method="likelihood")
    (group,) = fit.model.stages["compute"].groups
    assert group.estimate.family == "straggler"
    assert fit.model.stages["compute"].p_equal > 0.01
    mean = fit.parameters["compute.mean"]
    error = math.sqrt(STRAGGLERS.variance / 360)
    assert mean.high - mean.low == pytest.approx(2 * 1.645 * error, rel=0.3)
    assert abs(mean.estimate - STRAGGLERS.mean) < 4 * error


def test_slow_workers_with_stragglers_are_found():
    found = choose(of_workers(STRAGGLERS, 8, 12, seed=1, slow=3, factor=2.5), 8, None)
    assert [group.workers for group in found.groups] == [(3, 4, 5, 6, 7), (0, 1, 2)]
    assert {group.estimate.family for group in found.groups} == {"straggler"}
    fast, slow = (group.estimate.law.mean for group in found.groups)
    assert slow / fast == pytest.approx(2.5, rel=0.4)


def test_a_mixture_is_chosen_where_something_is_slow():
    """By AIC alone, one log in twenty of a gamma law has stragglers, of whom nothing is known."""
    durations = delays.Gamma(1.0, 0.5).sample(np.random.default_rng([38, 0, 360]), 360)
    found = choose(Stage(durations, np.zeros(360, np.int32)), 1, None)
    assert min(found.aic, key=found.aic.__getitem__) == "straggler"
    assert found.groups[0].estimate.family == "gamma"
    assert "straggler" in [one.estimates[0].family for one in found.alternatives]
    slow = choose(of_workers(STRAGGLERS, 1, 360, seed=0), 1, None)
    assert slow.groups[0].estimate.family == "straggler"


@pytest.mark.parametrize(
    ("law", "jobs"),
    [
        (delays.Gamma(1.0, 0.4), 12),
        (delays.Exponential(1.0), 12),
        (delays.LogNormal(1.0, 1.0), 12),
        (delays.Uniform(1.0, 2.0), 60),  # the likelihood ratio of an end has two degrees of freedom, not one
        (delays.ShiftedExponential(1.0, 0.5), 60),
    ],
    ids=repr,
)
def test_equal_workers_are_equal(law, jobs):
    """The p-value of equal workers is uniform, also for a dozen jobs each, where likelihood ratios are too large."""
    workers = 16 if jobs == 12 else 12
    found = np.array([choose(of_workers(law, workers, jobs, seed), workers, law.name).p_equal for seed in range(60)])
    assert abs(found.mean() - 0.5) < 3.5 / math.sqrt(12 * 60)
    assert (found < 0.01).mean() < 0.01 + 4 * math.sqrt(0.0099 / 60)


def test_one_slow_worker_is_named():
    fit = asim.calibrate(asim.simulate(asim.Cluster(5, [SLOW, *[FAST] * 4]), commits=300, seed=0), law="gamma")
    assert "Two classes of workers: worker 0 takes 1." in fit.notes[0]


@pytest.mark.parametrize(
    ("factor", "words"), [(1.004, "worker 3 takes nearly as long"), (1.5, "takes 1.5 times as long")]
)
def test_nearly_equal_workers_do_not_take_one_time_as_long(factor, words):
    def group(label, workers, mean):
        law = delays.Gamma(mean, 0.3)
        return SimpleNamespace(label=label, workers=workers, estimate=SimpleNamespace(law=law))

    choice = SimpleNamespace(groups=[group("fast", (0, 1, 2), 1.0), group("slow", (3,), factor)], p_equal=1e-4)
    (note,) = _describe_differences("compute", choice)
    assert words in note
    assert " 1 times" not in note
