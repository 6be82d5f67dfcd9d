"""From logs of known clusters back to the clusters, parameters that a log does not identify, and errors."""

import math

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.calibration._choose import estimate
from asyncsim.calibration._statistics import shorten
from tests.problems import refusals

HIDDEN = asim.Cluster(
    workers=6,
    compute=delays.Straggler(delays.Gamma(1.0, 0.3), probability=0.08, factor=5.0),
    network=asim.Network(latency=delays.Gamma(0.02, 0.5)),
    server=asim.Server(service=delays.Gamma(0.05, 0.2)),
)
SYNCHRONOUS = asim.Cluster(4, delays.Gamma(1.0, 0.3), protocol=asim.protocols.Synchronous())
TRUTH = {
    "compute.law.mean": 1.0,
    "compute.law.cv": 0.3,
    "compute.probability": 0.08,
    "compute.factor": 5.0,
    "network.latency.mean": 0.02,
    "network.latency.cv": 0.5,
    "server.service.mean": 0.05,
    "server.service.cv": 0.2,
}
LAWS = {"compute": "straggler", "latency": "gamma", "service": "gamma"}
GAMMAS = dict.fromkeys(LAWS, "gamma")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """What comes back from a file."""
    path = tmp_path_factory.mktemp("log") / "log.csv"
    asim.simulate(HIDDEN, commits=800, seed=3).to_csv(path)
    return asim.Trace.from_csv(path)


@pytest.fixture(scope="module")
def fit(log):
    return asim.calibrate(log, law=LAWS, by_worker=False)


def within(parameter, truth):
    """Within four standard errors, an interval of 90 % being 3.29 of them."""
    error = (parameter.high - parameter.low) / 3.29
    return abs(parameter.estimate - truth) < 4 * error


@pytest.mark.quick
def test_hidden_parameters_come_back(fit):
    assert [name for name, truth in TRUTH.items() if not within(fit.parameters[name], truth)] == []
    assert all(parameter.identifiable for parameter in fit.parameters.values())
    assert fit.hidden == fit.notes == ()
    assert fit.cluster.workers == 6
    assert fit.cluster.server.service.mean == fit.parameters["server.service.mean"].estimate
    assert fit.cluster.compute.mean == fit.parameters["compute.mean"].estimate
    with pytest.raises(KeyError, match=r"has no 'compute.men'.*Did you mean `compute.mean`"):
        fit.parameters["compute.men"]


def test_a_fit_survives_its_file(fit, tmp_path, assert_kept_whole):
    assert_kept_whole(fit)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match="holds no calibration"):
        asim.Fit.load(tmp_path / "other.json")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        asim.Fit.load(tmp_path / "missing.json")


def test_samples_spread_as_the_intervals_say(fit):
    means = [cluster.server.service.mean for cluster in fit.sample(400)]
    parameter = fit.parameters["server.service.mean"]
    inside = np.mean([parameter.low <= mean <= parameter.high for mean in means])
    assert abs(inside - 0.9) < 5 * math.sqrt(0.09 / 400)


def test_the_right_model_fits_and_another_does_not(fit, log, judged_by_few):
    assert fit.check(16).fits
    wrong = asim.calibrate(log, law={**LAWS, "compute": "exponential"}, by_worker=False)
    assert "law of compute" in wrong.check(16).suspect
    assert any("No law fits compute" in note for note in wrong.notes)


def test_few_simulated_logs_do_not_condemn_a_model():
    """A model that fits by default fits by fewer logs as well."""
    cluster, found = asim.Cluster(6, delays.Exponential(1.0)), []
    for seed in (19, 27, 38, 55):
        fit = asim.calibrate(asim.simulate(cluster, commits=80, seed=seed), law="exponential", by_worker=False)
        found.append(fit.check().fits)
        assert fit.check(16).fits or not found[-1]
    assert any(found)


def test_commits_alone(log, judged_by_few):
    """Parameters that are not identifiable are listed, and the hidden queue is noticed."""
    alone = asim.calibrate(asim.Trace.from_commits(log.worker, log.commit_time), law="gamma", by_worker=False)
    assert alone.hidden == ("latency", "service")
    for name in ("network.latency.mean", "server.service.mean"):
        parameter = alone.parameters[name]
        assert (parameter.identifiable, parameter.method) == (False, "not observed")
    assert alone.parameters["compute.mean"].estimate > 1.05 * HIDDEN.compute.mean
    assert "gap, 5 %" in alone.check(16).suspect


def columns_of(log, *times):
    """The log with some of its times, of commits alone, as a cluster that records no others writes it."""
    kept = {name: log.to_columns()[name][: len(log)] for name in ("worker", "commit_time", *times)}
    return asim.Trace.from_columns(kept, log.workers)


def test_fewer_columns(log):
    """The times that are left out are made up for as far as they can be."""
    for arrives in ((), ("arrive_time",)):
        kept = columns_of(log, "read_time", "start_time", "finish_time", *arrives)
        found = asim.calibrate(kept, law=GAMMAS, by_worker=False)
        assert found.parameters["server.service.mean"].estimate == pytest.approx(0.05, rel=0.1)
        assert found.parameters["server.service.mean"].identifiable == bool(arrives)
        assert any("The log lacks" in note for note in found.notes)
    whole = asim.calibrate(columns_of(log, "read_time", "finish_time"), law="gamma", by_worker=False)
    assert list(whole.model.stages) == ["compute", "upload"]
    assert whole.hidden == ("latency", "service")
    rest = float((log.commit_time - log.finish_time).mean())
    assert whole.parameters["upload.mean"].estimate == pytest.approx(rest, rel=0.02)
    assert any("The log lacks `arrive_time` and `serve_time`" in note for note in whole.notes)


@pytest.mark.parametrize(
    "law",
    [
        delays.Constant(0.7),
        delays.Gamma(2.0, 0.4),
        delays.LogNormal(2.0, 0.8),
        delays.ShiftedExponential(1.0, 0.5),
        delays.Uniform(1.0, 2.0),
    ],
    ids=repr,
)
def test_the_law_of_least_aic(law):
    found = asim.calibrate(asim.simulate(asim.Cluster(3, law), commits=600, seed=2), by_worker=False)
    assert type(found.cluster.compute) is type(law)


def test_workers_that_differ(assert_kept_whole):
    law = delays.Gamma(1.0, 0.3)
    classes = asim.Cluster(6, delays.fleet.two_classes(law, 6, slow=2, factor=1.5))
    found = asim.calibrate(asim.simulate(classes, commits=900), law="gamma")
    assert [group.workers for group in found.model.stages["compute"].groups] == [(0, 1, 2, 3), (4, 5)]
    assert within(found.parameters["compute.slow.mean"], 1.5)
    assert within(found.parameters["compute.fast.mean"], 1.0)
    assert "Two classes of workers: workers 4, 5 take 1.5 times as long" in found.notes[0]
    slow = [False] * 4 + [True] * 2
    assert [law.mean > 1.2 for law in found.with_workers(12).compute] == slow * 2
    assert_kept_whole(found)
    each = asim.calibrate(asim.simulate(asim.Cluster(4, delays.fleet.linear(law, 4)), commits=800), law="gamma")
    assert [round(one.mean) for one in each.cluster.compute] == [1, 2, 3, 4]
    assert "Workers differ" in each.notes[0]
    assert within(each.parameters["compute[2].mean"], 3.0)
    equal = asim.calibrate(asim.simulate(asim.Cluster(4, law), commits=400), law="gamma")
    assert equal.cluster.compute.mean == pytest.approx(1.0, abs=5 * 0.3 / 20)
    assert equal.model.stages["compute"].p_equal > 0.01


@pytest.mark.parametrize("service", [0.0, 0.1], ids=["alone", "with a queue"])
def test_jobs_in_flight_count_where_reads_are_recorded(service):
    """Jobs under way, which last longer than those that ended, are inferred where the log lacks them."""
    server = asim.Server(service=delays.Constant(service))
    cluster, found = asim.Cluster(40, delays.Exponential(1.0), server=server), {}
    for times in ((), ("read_time",), ("read_time", "start_time", "finish_time", "arrive_time", "serve_time")):
        logs = [columns_of(asim.simulate(cluster, commits=120, seed=seed), *times) for seed in range(8)]
        fits = [asim.calibrate(log, law="exponential", by_worker=False, method="likelihood") for log in logs]
        found[times] = np.array([fit.parameters["compute.mean"].estimate for fit in fits])
    first, second, third = found.values()
    np.testing.assert_allclose(second, first, rtol=1e-9)  # a read that follows the commit before says nothing new
    assert abs(third.mean() - 1) < 4 / math.sqrt(120 * 8)
    assert np.mean([(log.finish_time - log.start_time).mean() for log in logs]) < 0.95  # without those under way
    assert all(fit.model.stages["compute"].law is None for fit in fits)  # too many of them to judge the law


def test_a_server_with_requests_of_its_own():
    server = asim.Server(service=delays.Gamma(0.05, 0.2), atomic=False)
    network = asim.Network(latency=delays.Gamma(0.05, 0.5))
    cluster = asim.Cluster(4, delays.Gamma(1.0, 0.3), network=network, server=server)
    log = asim.simulate(cluster, commits=400)
    found = asim.calibrate(log, law=GAMMAS, by_worker=False)
    assert (shorten(log, 100).staleness == log.staleness[:100]).all()  # by which a long log is checked
    assert not found.cluster.server.atomic
    assert within(found.parameters["network.latency.mean"], 0.05)
    assert found.check(8).fits


def test_notes_name_trends_and_slow_periods():
    generator = np.random.default_rng(0)
    times = np.cumsum(generator.gamma(9, 1 / 9, 600) * np.linspace(1, 1.5, 600))
    trend = asim.calibrate(asim.Trace.from_commits([0] * 600, times), law="gamma")
    assert any("it has a trend" in note for note in trend.notes)
    assert any("One worker only" in note for note in trend.notes)
    slow = np.repeat(generator.random(60) < 0.3, 10) * 2 + 1
    times = np.cumsum(generator.gamma(9, 1 / 9, 600) * slow)
    periods = asim.calibrate(asim.Trace.from_commits([0] * 600, times), law="gamma")
    assert any("slow periods" in note for note in periods.notes)


def test_notes_name_clocks_that_differ(log):
    ahead = 0.006 * (log.worker == 3)
    columns = {name: getattr(log, name) for name in ("worker", "read_version", "version", "read_time")}
    columns |= {"start_time": log.start_time + ahead, "finish_time": log.finish_time + ahead}
    # A message seems to arrive before it was sent, by this clock: such a log would be refused.
    arrived = np.maximum(log.arrive_time, columns["finish_time"])
    columns |= {"arrive_time": arrived, "serve_time": np.maximum(log.serve_time, arrived)}
    trace = asim.Trace.from_columns({**columns, "commit_time": log.commit_time})
    found = asim.calibrate(trace, law={**GAMMAS, "latency": "exponential"}, by_worker=False)
    assert next(note for note in found.notes if "clock" in note).startswith("Worker 3's clock is 0.0")


def test_intervals_cover():
    """Of 300 gamma laws drawn at random, 90 % intervals of mean and cv hold the truth: z-scores are standard normal."""
    generator = np.random.default_rng(1)
    means, cvs = np.exp(generator.uniform(-3, 3, 300)), generator.uniform(0.1, 1.2, 300)
    inside = []
    for mean, cv in zip(means, cvs, strict=True):
        found = estimate("gamma", delays.Gamma(mean, cv).sample(generator, 200))
        errors = (np.log(found.values) - np.log([mean, cv])) / np.sqrt(np.diag(found.covariance))
        inside.append(np.abs(errors) < 1.645)
    for coverage in np.mean(inside, axis=0):
        assert abs(coverage - 0.9) < 3.5 * math.sqrt(0.09 / 300)


def test_a_least_duration_is_an_end_of_its_interval():
    """The law's own least lies below the shortest duration by an exponential amount: 9 of 10 intervals hold it."""
    law, inside = delays.ShiftedExponential(1.0, 0.5), []
    for seed in range(30):
        durations = law.sample(np.random.default_rng(seed), 40)
        log = asim.Trace.from_commits([0] * 40, np.cumsum(durations))
        shift = asim.calibrate(log, law="shifted_exponential").parameters["compute.shift"]
        assert shift.low < shift.estimate == shift.high
        inside.append(shift.low <= 1.0)
    assert abs(np.mean(inside) - 0.9) < 4 * math.sqrt(0.09 / 30)


def commits(count, times=None, **options):
    return asim.Trace.from_commits(np.arange(count) % 2, times, **options)


TIED = commits(60, np.repeat(np.arange(1.0, 16.0), 4))
UNEVEN = commits(60, np.repeat(np.cumsum(np.linspace(1.0, 2.0, 15)), 4))  # no coarse clock: its times are no ticks
HUGE = commits(200, 1e299 * np.arange(1.0, 201.0), start=0.0)
REQUESTS = asim.Trace.from_columns({"worker": [0, 1] * 20, "pull_version": [0, *range(39)]})
test_bad_input = refusals(
    ({"log": commits(10)}, "`log` must have 30 commits or more; got 10"),
    ({"log": asim.Trace.from_commits(np.arange(40))}, "must have a worker with two commits or more; all 40 have one"),
    ({"log": commits(40, np.zeros(40))}, "must have times that differ"),
    ({"log": commits(60)}, "`log` must have times, .* Give `commit_time`"),
    ({"log": commits(60), "method": "npe"}, "`log` must have times, "),
    ({"log": REQUESTS}, "`log` must have times, "),
    ({"log": HUGE}, r"its length is 2e\+301 s. Give the times in another unit"),
    ({"log": [1.0, 2.0]}, r"`log` must be an asyncsim Trace; got .* Make one with Trace.from_columns"),
    ({"method": "mcmc"}, "`method` must be one of 'likelihood', 'npe'; got 'mcmc'"),
    ({"law": "gama"}, "`law` must be one of .* Did you mean 'gamma'"),
    ({"law": {"service": "gamma"}}, "`law` of 'service' must be left out"),
    ({"law": "constant"}, "must be equal for a constant law"),
    ({"log": UNEVEN, "law": "lognormal"}, "must be positive, as a log-normal law never is 0"),
    ({"log": asim.simulate(SYNCHRONOUS, commits=40)}, "asynchronous"),
    call=lambda given: asim.calibrate(**{"log": commits(60, np.cumsum(np.linspace(0.5, 1, 60))), **given}),
)
