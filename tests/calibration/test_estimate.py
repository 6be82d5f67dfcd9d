"""Uncertainty about the law: Akaike weights, and intervals and samples over all families."""

import math

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.calibration._choose import Group, StageFit, alternatives, estimate, observed_moments, weights

QUICK = ("exponential", "gamma", "weibull", "lognormal")


def log_of(law, commits, seed):
    """A log of one worker: its durations and nothing else."""
    times = np.cumsum(law.sample(np.random.default_rng(seed), commits))
    return asim.Trace.from_commits([0] * commits, times, start=0.0)


@pytest.fixture(autouse=True)
def few_laws(monkeypatch):
    """Those that are fitted in no time."""
    monkeypatch.setattr("asyncsim.calibration._choose.LAWS", QUICK)


@pytest.mark.quick
def test_akaike_weights_sum_to_one():
    found = weights({"gamma": 12.0, "weibull": 10.0, "lognormal": 11.0, "pareto": 80.0})
    assert sum(found.values()) == pytest.approx(1.0)
    assert found["weibull"] / found["gamma"] == pytest.approx(math.e)
    assert found["lognormal"] / found["gamma"] == pytest.approx(math.exp(0.5))
    assert "pareto" not in found
    durations = delays.Gamma(1.0, 0.5).sample(np.random.default_rng(0), 50)
    fitted = {name: [estimate(name, durations)] for name in ("gamma", "weibull")}
    ratio = math.exp((fitted["weibull"][0].aic - fitted["gamma"][0].aic) / 2)
    by_family = {one.estimates[0].family: one.weight for one in alternatives(fitted)}
    assert by_family["gamma"] / by_family["weibull"] == pytest.approx(ratio)


def test_families_are_drawn_by_weight():
    durations = delays.Gamma(1.0, 0.8).sample(np.random.default_rng(0), 100)
    halves = [estimate("gamma", durations[:50]), estimate("gamma", durations[50:])]
    other = [estimate("weibull", durations[:50]), estimate("weibull", durations[50:])]
    found = alternatives({"gamma": halves, "weibull": other})
    groups = tuple(Group("", (worker,), one) for worker, one in enumerate(halves))
    first, second = StageFit(groups, {}, {}, alternatives=found).draw(np.random.default_rng(0), 2000)
    assert [type(law) for law in first] == [type(law) for law in second]
    share = np.mean([isinstance(law, delays.Gamma) for law in first])
    weight = next(one.weight for one in found if one.estimates[0].family == "gamma")
    assert 0.05 < weight < 0.95
    assert abs(share - weight) < 4 * math.sqrt(weight * (1 - weight) / 2000)


def test_intervals_count_the_choice():
    """Near cv 1 an exponential law is often chosen, of which the cv is 1 without any doubt."""
    law, inside, alone = delays.Gamma(1.0, 1.04), [], []
    for seed in range(25):
        fit = asim.calibrate(log_of(law, 150, seed))
        one, family = fit.parameters["compute.cv"], fit.model.stages["compute"].groups[0].estimate.family
        assert one.low <= one.estimate <= one.high
        inside.append(one.low <= 1.04 <= one.high)
        if family == "exponential":
            named = asim.calibrate(log_of(law, 150, seed), law="exponential").parameters["compute.cv"]
            alone.append(named.low == named.high == 1.0)
            assert one.high - one.low > 0.05
    assert len(alone) > 4
    assert all(alone)
    assert np.mean(inside) > 0.9 - 3.5 * math.sqrt(0.09 / 25)


@pytest.mark.parametrize(
    ("law", "wider"), [(delays.Gamma(1.0, 0.5), "straggler"), (delays.Exponential(1.0), "hyperexponential")]
)
def test_what_the_log_does_not_tell_widens_no_mean(law, wider):
    """A mixture of which the components are alike has a mean as sure as that of the law that made the durations."""
    fit = asim.calibrate(log_of(law, 300, seed=0), law=wider)
    found, error = fit.parameters["compute.mean"], math.sqrt(law.variance / 300)
    assert found.high - found.low == pytest.approx(3.29 * error, rel=0.25)
    means = [cluster.laws[0].mean for cluster in fit.sample(200)]
    assert np.std(means) == pytest.approx(error, rel=0.3)


def test_families_are_kept_and_a_named_law_has_no_others(assert_kept_whole):
    log = log_of(delays.Gamma(1.0, 1.0), 150, 1)
    fit, named = asim.calibrate(log), asim.calibrate(log, law="gamma")
    assert len({type(cluster.compute) for cluster in fit.sample(100)}) > 1
    assert_kept_whole(fit)
    assert named.model.stages["compute"].alternatives == ()
    assert {type(cluster.compute) for cluster in named.sample(20)} == {delays.Gamma}


def test_of_workers_that_differ():
    law = delays.Gamma(1.0, 1.0)
    cluster = asim.Cluster(4, delays.fleet.two_classes(law, 4, slow=2, factor=6.0))
    fit = asim.calibrate(asim.simulate(cluster, commits=300, seed=2))
    stage = fit.model.stages["compute"]
    assert len(stage.groups) == 2
    assert len(stage.alternatives) > 1
    assert all(len(one.estimates) == 2 for one in stage.alternatives)
    assert any(len({type(one) for one in cluster.compute}) == 1 for cluster in fit.sample(5))
    each = asim.Cluster(3, [delays.Exponential(mean) for mean in (1.0, 4.0, 16.0)])
    apart = asim.calibrate(asim.simulate(each, commits=400, seed=2)).model.stages["compute"]
    assert [len(one.estimates) for one in apart.alternatives] == [3] * len(apart.alternatives)


@pytest.mark.quick
def test_moments_without_a_law():
    """Of sums of two stages, a few of them censored: mean and cv have 90 % intervals that hold nine in ten."""
    generator, count, logs = np.random.default_rng(0), 800, 400
    whole = generator.gamma(2.0, 0.5, (logs, count)) + generator.gamma(4.0, 0.1, (logs, count))
    limits = generator.exponential(100.0, (logs, count))
    truth = np.array([1.4, math.sqrt(2 * 0.5**2 + 4 * 0.1**2) / 1.4])
    held = np.zeros(2)
    for durations, limit in zip(whole, limits, strict=True):
        ended = durations <= limit
        found = observed_moments(durations[ended], limit[~ended])
        held += np.abs(found[:, 0] - truth) <= 1.645 * found[:, 1]
    assert np.all(np.abs(held / logs - 0.9) < 4 * math.sqrt(0.09 / logs)), held / logs
    exact = observed_moments(np.array([1.0, 2.0, 6.0]), np.array([3.0]))  # a censored one is as long as the longest
    assert exact[0, 0] == pytest.approx((1.0 + 2.0 + 2 * 6.0) / 4)


def test_sums_of_stages_are_as_wide_as_their_moments_say():
    """Downloads are in computing times of which no family is right; a law that is named is taken for granted."""
    law = delays.Gamma(1.0, 1.0)
    cluster = asim.Cluster(4, law, network=asim.Network(latency=delays.Gamma(0.1, 0.5)))
    trace = asim.simulate(cluster, commits=300, seed=0)
    names = ("worker", "commit_time", "read_time", "finish_time")
    log = asim.Trace.from_columns({name: getattr(trace, name) for name in names}, workers=4)
    fit, named = asim.calibrate(log, method="likelihood"), asim.calibrate(log, method="likelihood", law="gamma")
    for name in ("compute", "upload"):
        (observed,) = fit.model.stages[name].observed
        for kind, (middle, error) in zip(("mean", "cv"), observed, strict=True):
            one = fit.parameters[f"{name}.{kind}"]
            assert one.low <= middle - 1.64 * error
            assert one.high >= middle + 1.64 * error
            assert one.low <= one.estimate <= one.high
    assert not len(named.model.stages["compute"].observed)
    both = asim.calibrate(trace, method="likelihood")
    assert not any(len(stage.observed) for stage in both.model.stages.values() if not stage.contains)


@pytest.mark.parametrize("shape", [1.2, 1.6, 2.5])
def test_an_infinite_spread_has_ends(shape):
    """A Pareto law of shape 2 or less has no variance. Warnings, as of infinity less infinity, are errors of tests."""
    jobs = 0.002 * (1 + np.random.default_rng(0).pareto(shape, (2, 200)))
    times = np.cumsum(jobs, axis=1).ravel()
    log = asim.Trace.from_columns({"worker": np.repeat([0, 1], 200), "commit_time": times})
    cv = asim.calibrate(log, law="pareto", method="likelihood").parameters["compute.cv"]
    assert cv.low <= cv.estimate <= cv.high
    assert cv.identifiable == np.isfinite(cv.high) == (shape > 2)
