"""A model fitted by the exact likelihood: the same as the fit of stages where both say the same, and more."""

import math

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.calibration import LogUniform, Model, Uniform
from asyncsim.calibration._likelihood import log_likelihood
from asyncsim.calibration._stages import stages_of
from asyncsim.calibration._terms import measure_durations
from tests.problems import refusals

WIDE = LogUniform(1e-3, 100)
CV = Uniform(0.05, 1.5)
TIMES = ("read_time", "start_time", "finish_time", "arrive_time", "serve_time", "commit_time")


def whole(p):
    network = asim.Network(latency=delays.Exponential(p["latency"]))
    server = asim.Server(service=delays.Gamma(p["service"], p["jitter"]))
    return asim.Cluster(4, delays.Gamma(p["mean"], p["cv"]), network=network, server=server)


MODEL = Model(whole, {"mean": WIDE, "cv": CV, "latency": WIDE, "service": WIDE, "jitter": CV})
TRUTH = {"mean": 1.0, "cv": 0.4, "latency": 0.03, "service": 0.05, "jitter": 0.3}
STAGES = {
    "mean": "compute.mean",
    "cv": "compute.cv",
    "latency": "network.latency.mean",
    "service": "server.service.mean",
    "jitter": "server.service.cv",
}
LAWS = {"compute": "gamma", "latency": "exponential", "service": "gamma"}


@pytest.fixture(scope="module")
def log():
    return asim.simulate(whole(TRUTH), commits=400, seed=2)


@pytest.fixture(scope="module")
def fit(log):
    return asim.calibrate(log, MODEL, method="likelihood")


def without(trace, *names):
    kept = {name: getattr(trace, name) for name in ("worker", *TIMES) if name not in names}
    return asim.Trace.from_columns(kept, workers=trace.workers)


def fitted(cluster, build, prior, commits=400, seed=1):
    return asim.calibrate(asim.simulate(cluster, commits=commits, seed=seed), Model(build, prior), method="likelihood")


def within(parameter, truth):
    """Within four standard errors, an interval of 90 % being 3.29 of them."""
    return abs(math.log(parameter.estimate / truth)) < 4 * math.log(parameter.high / parameter.low) / 3.29


@pytest.mark.quick
def test_a_model_of_the_same_laws_equals_the_fit_of_stages(fit, log):
    """Estimates, and standard errors: there by draws, whose quantiles err by 3 %."""
    stages = asim.calibrate(log, method="likelihood", law=LAWS, by_worker=False)
    for name, other in STAGES.items():
        one, two = fit.parameters[name], stages.parameters[other]
        width = math.log(two.high / two.low)
        assert abs(math.log(one.estimate / two.estimate)) < 0.01 * width
        assert math.log(one.high / one.low) == pytest.approx(width, rel=0.1)
        assert (one.method, one.identifiable) == ("likelihood", True)
    assert (fit.method, fit.hidden, fit.notes) == ("likelihood", (), ())


def test_likelihood_by_hand():
    """Each worker's own law, and jobs in flight as censored."""
    cluster = asim.Cluster(2, [delays.Exponential(1.0), delays.Exponential(2.0)])
    trace = asim.simulate(cluster, commits=50, seed=0)
    terms, _ = measure_durations(trace, cluster, stages_of(trace).compute)
    assert list(terms) == ["compute"]
    took, mean = trace.commit_time - trace.read_time, np.array([1.0, 2.0])
    rest = trace.seconds - trace.unfinished.read_time
    by_hand = -(np.log(mean) + took[:, None] / mean)[np.arange(50), trace.worker].sum()
    by_hand -= (rest / mean[trace.unfinished.worker]).sum()
    assert log_likelihood(terms, cluster) == pytest.approx(by_hand)


def test_messages_under_way_at_the_end():
    """As censored: they had lasted since the read."""
    slow = asim.Cluster(6, delays.Exponential(1.0), network=asim.Network(latency=delays.Exponential(3.0)))
    trace = asim.simulate(slow, commits=60, seed=0)
    downloads = measure_durations(trace, slow, stages_of(trace).compute)[0]["download"]
    rest = trace.unfinished
    waiting = (rest.start_time > trace.seconds) & (rest.read_time < trace.seconds)
    assert len(downloads.durations) == 60 - 6
    assert sum(downloads.censored) == pytest.approx((trace.seconds - rest.read_time[waiting]).sum())
    assert waiting.sum() > 0


def test_a_parameter_of_two_laws():
    """Latency is twice the service: both identify it, and together better than each."""

    def build(p):
        network = asim.Network(latency=delays.Exponential(2 * p["time"]))
        server = asim.Server(service=delays.Exponential(p["time"]))
        return asim.Cluster(4, delays.Gamma(p["mean"], 0.3), network=network, server=server)

    found = fitted(build({"time": 0.02, "mean": 1.0}), build, {"time": WIDE, "mean": WIDE})
    assert within(found.parameters["time"], 0.02)
    error = math.log(found.parameters["time"].high / found.parameters["time"].low) / 3.29
    assert error == pytest.approx(1 / math.sqrt(3 * 400), rel=0.05)  # of 400 services and 800 messages
    assert found.cluster.network.latency.mean == pytest.approx(2 * found.cluster.server.service.mean)


def test_a_fleet_of_known_ratios(judged_by_few):
    speeds = np.linspace(1, 3, 5)

    def build(p):
        return asim.Cluster(5, [delays.Gamma(p["mean"] * k, p["cv"]) for k in speeds])

    truth = {"mean": 0.7, "cv": 0.3}
    found = fitted(build(truth), build, {"mean": WIDE, "cv": CV})
    assert all(within(found.parameters[name], value) for name, value in truth.items())
    assert found.notes == ()
    alike = fitted(build(truth), lambda p: asim.Cluster(5, delays.Gamma(p["mean"], 0.5)), {"mean": WIDE})
    assert any("Workers differ in compute" in note for note in alike.notes)
    assert "law of compute" in alike.check(8).suspect


def test_stragglers_and_none():
    def build(p):
        return asim.Cluster(4, delays.Straggler(delays.Gamma(p["mean"], 0.3), p["slow"], 5.0))

    prior = {"mean": WIDE, "slow": Uniform(0.0, 0.5)}
    found = fitted(build({"mean": 1.0, "slow": 0.1}), build, prior)
    assert within(found.parameters["slow"], 0.1)
    none = fitted(build({"mean": 1.0, "slow": 0.0}), build, prior)
    one = none.parameters["slow"]
    assert (one.estimate, one.low) == (0.0, 0.0)
    assert 1 / 400 < one.high < 4 / 400  # the rule of three, at 90 %: 2.3 / 400
    assert any("highest at the least value of the prior of slow, 0." in note for note in none.notes)


def test_a_constant_is_known_without_error():
    """Its parameter is, and what else depends on it; others are fitted as ever."""

    def build(p):
        server = asim.Server(service=delays.Constant(p["service"]))
        network = asim.Network(latency=delays.Constant(p["service"] * p["ratio"]))
        return asim.Cluster(4, delays.Gamma(p["mean"], 0.3), network=network, server=server)

    prior = {"ratio": WIDE, "mean": WIDE, "service": WIDE}
    found = fitted(build({"service": 0.05, "ratio": 2.0, "mean": 1.0}), build, prior)
    for name, truth in (("service", 0.05), ("ratio", 2.0)):
        one = found.parameters[name]
        assert one.low < one.estimate < one.high  # The rounding is all that is not known.
        assert (one.low, one.high) == (pytest.approx(truth, rel=3e-6), pytest.approx(truth, rel=3e-6))
        assert one.identifiable
    assert within(found.parameters["mean"], 1.0)


def test_the_least_delay():
    """An error on one side, exponential: the shortest of 400 delays is too long by tail / 400."""

    def build(p):
        return asim.Cluster(4, delays.ShiftedExponential(p["shift"], p["tail"]))

    found = fitted(build({"shift": 1.0, "tail": 0.5}), build, {"shift": WIDE, "tail": WIDE})
    one = found.parameters["shift"]
    assert one.high == one.estimate
    assert one.estimate - one.low == pytest.approx(math.log(10) * found.parameters["tail"].estimate / 400, rel=0.05)
    assert max(cluster.compute.shift for cluster in found.sample(100)) <= one.estimate


def test_an_active_bound_of_the_prior_is_reported():
    cluster = asim.Cluster(4, delays.Gamma(2.0, 0.4))
    found = fitted(cluster, lambda p: asim.Cluster(4, delays.Gamma(p["mean"], 0.4)), {"mean": LogUniform(0.1, 1.9)})
    assert found.parameters["mean"].estimate == 1.9
    assert any("greatest value of the prior of mean, 1.9: widen it" in note for note in found.notes)


def simpler(p):
    network = asim.Network(latency=delays.Exponential(p["latency"]))
    server = asim.Server(service=delays.Exponential(p["service"]))
    return asim.Cluster(4, delays.Exponential(p["mean"]), network=network, server=server)


SIMPLER = Model(simpler, {"mean": WIDE, "latency": WIDE, "service": WIDE})


def test_columns_that_are_missing():
    """Parameters of stages without columns are not identified, others are."""
    trace = asim.simulate(simpler(TRUTH), commits=200, seed=5)
    found = asim.calibrate(without(trace, "serve_time", "arrive_time"), SIMPLER, method="likelihood")
    assert found.hidden == ("service",)
    assert found.parameters["service"].method == "not observed"
    assert within(found.parameters["latency"], 0.03)  # by the reads alone
    assert any("shows no service by itself" in note for note in found.notes)
    lacks = asim.calibrate(without(trace, "start_time"), SIMPLER, method="likelihood")
    assert lacks.hidden == ("mean",)
    found = asim.calibrate(without(trace, "serve_time"), SIMPLER, method="likelihood")
    assert found.hidden == ()  # one place at the server, and the time of arrival, determine when service began
    assert within(found.parameters["service"], 0.05)
    nothing = r"shows no durations of compute.*Record `start_time`.*leave latency.*method=\"npe\""
    with pytest.raises(ValueError, match=nothing):
        asim.calibrate(asim.Trace.from_commits(trace.worker, trace.commit_time), SIMPLER, method="likelihood")


def test_a_product_is_identified_only_as_a_whole():
    build = lambda p: asim.Cluster(4, delays.Exponential(p["a"] * p["b"]))  # noqa: E731
    product = fitted(build({"a": 1.0, "b": 1.0}), build, {"a": LogUniform(0.1, 10), "b": LogUniform(0.1, 10)})
    assert product.hidden == ("a", "b")
    assert product.cluster.compute.mean == pytest.approx(1.0, rel=0.2)


def test_a_worker_that_goes_on_from_its_own_value():
    """It asks for nothing before it computes, so that no time of a message is shown; and computing is."""

    def build(p):
        server = asim.Server(service=delays.Exponential(0.02), atomic=False, resume="own")
        network = asim.Network(latency=delays.Exponential(p["latency"]))
        return asim.Cluster(4, delays.Gamma(p["mean"], 0.3), network=network, server=server)

    found = fitted(build({"mean": 2.0, "latency": 0.05}), build, {"mean": WIDE, "latency": WIDE}, commits=200)
    assert within(found.parameters["mean"], 2.0)
    assert found.hidden == ("latency",)
    assert any("shows no latency by itself" in note for note in found.notes)


def test_samples_and_files(fit, assert_kept_whole):
    means = [cluster.compute.mean for cluster in fit.sample(300)]
    one = fit.parameters["mean"]
    assert np.std(np.log(means)) == pytest.approx(math.log(one.high / one.low) / 3.29, rel=0.15)
    assert fit.check(8).fits
    assert_kept_whole(fit)


def test_a_law_that_does_not_fit(judged_by_few):
    build = lambda p: asim.Cluster(4, delays.LogNormal(p["mean"], p["cv"]))  # noqa: E731
    found = fitted(asim.Cluster(4, delays.Gamma(1.0, 0.6)), build, {"mean": WIDE, "cv": CV}, commits=1200)
    assert any("law does not fit compute" in note for note in found.notes)
    assert "law of compute" in found.check(8).suspect


def of_compute(law, others=None):
    cluster = {"workers": 4, **(others or {})}
    return Model(lambda p: asim.Cluster(compute=law(p["mean"]), **cluster), {"mean": LogUniform(0.1, 10)})


SPREAD = delays.Gamma(1.0, 0.3)


def gamma(mean):
    return delays.Gamma(mean, 0.3)


SLOW = delays.Profile((0.0, 5.0), (1.0, 0.5), 10.0)
COMPUTING, CONSTANT = (asim.simulate(asim.Cluster(4, law), commits=60) for law in (SPREAD, delays.Constant(20.0)))
ROWS = np.where(np.arange(60) == 31, 30, np.arange(60))  # a commit at the time of the one before, of the same worker
WITH_A_ZERO = asim.Trace.from_commits(COMPUTING.worker[ROWS], COMPUTING.commit_time[ROWS])
LATENT = asim.simulate(whole(TRUTH), commits=60)
test_what_is_refused = refusals(
    ((WITH_A_ZERO, lambda m: delays.LogNormal(m, 0.3)), "took 0 s, impossible with LogNormal"),
    ((COMPUTING, lambda m: delays.Uniform(0.0, m / 9)), "Widen the prior, or give another law"),
    ((COMPUTING, delays.Constant), "took from .* Constant is always the same"),
    ((COMPUTING, lambda m: delays.Straggler(delays.Constant(m), 0.1, 5.0)), r"without density, Straggler.*\"npe\""),
    ((COMPUTING, lambda m: delays.VariableSpeed(gamma(m), SLOW)), "when a job starts"),
    ((COMPUTING, gamma, {"workers": 5}), "must build clusters of 4 workers"),
    ((COMPUTING, lambda m: gamma(m * np.random.default_rng().random())), "must give the same cluster for the same"),
    ((COMPUTING, lambda m: gamma(1.0)), "no parameter that affects the stages"),
    ((COMPUTING, gamma, {"faults": [asim.faults.Crash(0, 1.0, 1.0)]}), "has faults"),
    ((LATENT, gamma), "shows messages to the workers"),
    ((CONSTANT, delays.Constant), "`prior` of 'mean' excludes the log: compute takes 20 s"),
    call=lambda given: asim.calibrate(given[0], of_compute(given[1], *given[2:]), method="likelihood"),
)


def test_errors_name_the_workers_of_the_log():
    """By its name where the log has names, and by its number elsewhere."""
    trace = asim.simulate(asim.Cluster(3, asim.delays.Gamma(1.0, 0.3)), commits=90)
    models = {
        "constant": lambda p: asim.Cluster(3, asim.delays.Constant(p["mean"])),
        "uniform": lambda p: asim.Cluster(3, asim.delays.Uniform(p["mean"], 1.01 * p["mean"])),
    }
    for build in models.values():
        model = asim.calibration.Model(build, {"mean": asim.calibration.LogUniform(0.5, 2.0)})
        for worker, name in ((trace.worker, "worker 0"), ([f"host-{n + 7}" for n in trace.worker], "host-")):
            log = asim.Trace.from_columns({"worker": worker, "commit_time": trace.commit_time})
            with pytest.raises(ValueError, match=f"cannot produce the log: compute of {name[:5]}") as caught:
                asim.calibrate(log, model, method="likelihood")
            assert ("worker" in str(caught.value).split("compute of ")[1].split(" took")[0]) == (name == "worker 0")
