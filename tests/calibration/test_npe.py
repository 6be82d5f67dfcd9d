"""Calibration by simulation: models, statistics, simulations that are kept, posteriors, and refusals."""

import json
from functools import partial

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.calibration import LogUniform, Model, Uniform, _calibrate, default_model
from asyncsim.calibration import _npe as networks
from asyncsim.calibration._statistics import COLUMNS, recorded_columns, summaries
from asyncsim.files._json import write_owned
from tests.problems import refusals

WORKERS, COMMITS, SIMULATIONS = 4, 120, 660  # so many are one group
PRIOR = {
    "mean": LogUniform(0.1, 10),
    "cv": Uniform(0.05, 1.0),
    "service": LogUniform(1e-3, 1),
    "nothing": LogUniform(1, 9),
}
TRUTH = {"mean": 2.0, "cv": 0.3, "service": 0.2}


def build(p, workers=WORKERS):
    server = asim.Server(service=delays.Constant(p["service"]))
    return asim.Cluster(workers, delays.Gamma(p["mean"], p["cv"]), server=server)


MODEL = Model(build, PRIOR)
SYNCHRONOUS = asim.Cluster(2, delays.Constant(1.0), protocol=asim.protocols.Synchronous())


def alone(trace):
    return asim.Trace.from_commits(trace.worker, trace.commit_time, workers=trace.workers)


@pytest.fixture(scope="module")
def log():
    return alone(asim.simulate(build(TRUTH), commits=COMMITS, seed=4))


@pytest.fixture(scope="module")
def quickly():
    """One small flow: what is tested is the way, not how sharp the posterior is."""
    pytest.importorskip("flowjax", reason="neural posteriors need the extra calibrate")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"FLOWS": 1, "LAYERS": 1, "WIDTH": 16, "DEPTH": 1, "EPOCHS": 15, "KNOTS": 4}.items():
            patch.setattr(networks, name, value)
        yield


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def fit(quickly, log, store):
    return asim.calibrate(log, MODEL, simulations=SIMULATIONS, jobs=0, store=store)


@pytest.mark.quick
def test_hidden_parameters_come_back(fit):
    """What an interval holds in 9 of 10 logs is within twice its width in all."""
    for name, truth in TRUTH.items():
        one = fit.parameters[name]
        assert one.method == "npe"
        assert one.identifiable
        assert abs(np.log(one.estimate / truth)) < 2 * np.log(one.high / one.low)
        assert fit.evidence.widths[name] < 0.5
    assert fit.parameters["service"].estimate == pytest.approx(0.2, rel=0.1)
    assert fit.cluster.workers == WORKERS
    assert fit.check(16).fits
    assert fit.hidden == ("nothing",)
    assert fit.evidence.widths["nothing"] > 0.7
    assert any("nothing is not identifiable" in note for note in fit.notes)
    assert fit.evidence.held_back == SIMULATIONS // 10  # of which the coverage was counted
    assert set(fit.evidence.coverage) == set(PRIOR)
    assert all(0.5 < share <= 1 for share in fit.evidence.coverage.values())


def test_samples_are_of_the_posterior(fit):
    clusters = fit.sample(200)
    service = [cluster.server.service.mean for cluster in clusters]
    assert np.median(service) == pytest.approx(fit.parameters["service"].estimate, rel=0.05)
    assert len(fit.sample(700)) == 700
    assert fit.sample(3) == fit.sample(3) != fit.sample(3, seed=9)


def test_a_fit_by_simulation_survives_its_file(fit, assert_kept_whole):
    path = assert_kept_whole(fit)
    found = json.loads(path.read_text())
    del found["model"]["clusters"]
    path.write_text(json.dumps(found))
    with pytest.raises(ValueError, match=r"cannot be loaded.*'clusters'.*Or calibrate again"):
        asim.Fit.load(path)


def test_an_estimator_serves_other_logs(fit, log, store, monkeypatch):
    monkeypatch.setattr("asyncsim.calibration._npe.simulations", None)
    monkeypatch.setattr("asyncsim.calibration._npe.learn", None)
    monkeypatch.setattr("asyncsim.calibration._npe.write_owned", None)  # as of a store that cannot be written to
    options = {"simulations": SIMULATIONS, "jobs": 0, "store": store}
    assert asim.calibrate(log, Model(partial(build), PRIOR), **options).parameters == fit.parameters
    slower = alone(asim.simulate(build({**TRUTH, "mean": 6.0}), commits=COMMITS, seed=5))
    assert asim.calibrate(slower, MODEL, **options).parameters["mean"].low > fit.parameters["mean"].high


def test_a_law_that_the_model_has_not_is_flagged(quickly, store, judged_by_few):
    wild = asim.Cluster(WORKERS, delays.Straggler(delays.Gamma(1.0, 0.1), probability=0.03, factor=20.0))
    trace = alone(asim.simulate(wild, commits=COMMITS, seed=1))
    found = asim.calibrate(trace, MODEL, simulations=SIMULATIONS, jobs=0, store=store)
    assert not found.check(16).fits


def test_notes_name_a_prior_that_excludes_the_log(quickly, store, judged_by_few):
    slow = alone(asim.simulate(build({**TRUTH, "mean": 200.0}), commits=COMMITS, seed=1))
    found = asim.calibrate(slow, MODEL, simulations=SIMULATIONS, jobs=0, store=store)
    assert any(note.startswith("The prior excludes this log") for note in found.notes)
    assert found.parameters["mean"].high <= 10
    assert not found.check(16).fits


def test_times_without_a_unit():
    """With ratios only, coordinates of a log on another scale are the same."""
    model = default_model(WORKERS)
    values = model.at(np.full((1, 4), 0.3))
    cycle = np.array([7.0])
    np.testing.assert_allclose(
        model.to_coordinates(values * [3.0, 1.0, 3.0, 3.0], 3 * cycle), model.to_coordinates(values, cycle)
    )
    np.testing.assert_allclose(model.from_coordinates(model.to_coordinates(values, cycle), 7.0), values)
    trace = asim.simulate(model.cluster(values[0]), commits=100)
    slower = asim.Trace.from_commits(trace.worker, 5 * trace.commit_time, workers=WORKERS)
    one, other = (list(summaries(log, ("commit_time",)).values()) for log in (trace, slower))
    np.testing.assert_allclose(one[1:], other[1:], atol=1e-9)
    assert other[0] - one[0] == pytest.approx(np.log(5))


def test_coordinates_go_back():
    stragglers = lambda p: asim.Cluster(2, delays.Straggler(delays.Gamma(p["mean"], 0.5), p["p"], 1 + p["more"]))  # noqa: E731
    model = Model(stragglers, {"mean": LogUniform(0.1, 10), "p": Uniform(0, 0.3), "more": Uniform(0, 5)})
    values = model.at(np.random.default_rng(0).random((50, 3)))
    coordinates = model.to_coordinates(values)
    np.testing.assert_allclose(model.from_coordinates(coordinates), values, rtol=1e-9, atol=1e-9)
    assert model.allows(coordinates).all()
    assert not model.allows(coordinates + 10).any()


def test_columns_that_a_log_has():
    network, server = asim.Network(latency=delays.Gamma(0.1, 0.3)), asim.Server(service=delays.Gamma(0.3, 0.3))
    trace = asim.simulate(asim.Cluster(3, delays.Gamma(1.0, 0.3), network=network, server=server), commits=60)
    assert recorded_columns(trace) == COLUMNS
    assert recorded_columns(alone(trace)) == ("commit_time",)
    columns = {name: getattr(trace, name) for name in ("worker", "finish_time", "commit_time")}
    assert recorded_columns(asim.Trace.from_columns(columns)) == ("finish_time", "commit_time")
    assert all(np.isfinite(list(summaries(trace, seen).values())).all() for seen in (COLUMNS, ("commit_time",)))


def test_a_damaged_estimator_is_missing_and_an_error_of_our_own_is_raised(fit, store, tmp_path, monkeypatch):
    """Else one would spend hours on simulations that are there."""
    (path,) = store.glob("*/estimator-*.npz")
    found = networks.load_estimator(path)
    assert (found.held_back, found.simulations, len(found.flows)) == (SIMULATIONS // 10, SIMULATIONS, 1)
    assert networks.load_estimator(tmp_path / "none.npz") is None
    damaged = tmp_path / path.parent.name / path.name
    damaged.parent.mkdir()
    damaged.write_bytes(path.read_bytes()[:-100])
    assert networks.load_estimator(damaged) is None

    def broken(*given):
        raise KeyError("a bug")

    monkeypatch.setattr(networks, "_new_flow", broken)
    with pytest.raises(KeyError, match="a bug"):
        networks.load_estimator(path)


def test_the_default_of_commits_alone(monkeypatch):
    """By simulation if there was a queue, unless workers differ or flowjax is missing, which is said."""
    models = []

    def simulation(log, used, model, *settings, **options):
        models.append(model)
        raise InterruptedError

    monkeypatch.setattr(_calibrate, "fit_by_simulation", simulation)
    monkeypatch.setattr(_calibrate, "has_flowjax", lambda: True)
    queued = alone(asim.simulate(build({**TRUTH, "service": 0.5}), commits=COMMITS))
    with pytest.raises(InterruptedError):
        asim.calibrate(queued, by_worker=False)
    assert models == [default_model(WORKERS)]
    assert asim.calibrate(queued, law="gamma").method == "likelihood"
    free = asim.simulate(asim.Cluster(4, delays.Gamma(1.0, 0.3)), commits=COMMITS)
    assert asim.calibrate(free, by_worker=False).method == "likelihood"
    assert asim.calibrate(alone(free), by_worker=False).method == "likelihood"
    fleet = delays.fleet.two_classes(delays.Gamma(1.0, 0.1), 4, slow=1, factor=3.0)
    busy = asim.Cluster(4, fleet, server=asim.Server(service=delays.Constant(0.4)))
    differ = asim.calibrate(alone(asim.simulate(busy, commits=COMMITS)))
    assert differ.method == "likelihood"
    assert "give a `model` of such workers" in differ.notes[0]
    assert len(models) == 1

    monkeypatch.setattr(_calibrate, "has_flowjax", lambda: False)
    assert "pip install" in asim.calibrate(queued, by_worker=False).notes[0]


FEW = asim.Trace.from_commits(np.arange(35) % WORKERS, np.arange(2, 37))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"simulations": 10}, "`simulations` must be an integer of at least 500"),
        ({"model": default_model(5)}, "`model` must build clusters of 4 workers, as the log has; got 5"),
        ({"model": "gamma"}, "`model` must be an asyncsim Model or an asyncsim Rollouts or None; got 'gamma'"),
        ({"law": "gamma"}, "`law` must be left out"),
        ({"jobs": -1}, "`jobs` must be an integer of at least 0"),
        ({"store": ""}, "`store` must be the path of a folder"),
        ({"store": "/proc/none/here"}, "`store` .* cannot be made"),
        ({"log": FEW}, "must have 40 commits or more, 10 for each worker; got 35"),
    ],
)
def test_bad_input(quickly, log, options, message):
    with pytest.raises(ValueError, match=message):
        asim.calibrate(**{"log": log, "model": MODEL, "jobs": 0, "simulations": 500, **options})


@pytest.mark.parametrize("name", ["thesis.tex", "about.json"])
def test_a_folder_of_other_files_is_left_alone(quickly, log, tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(ValueError, match="holds other files"):
        asim.calibrate(log, MODEL, simulations=500, jobs=0, store=tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "mine"}
    (tmp_path / name).unlink()
    write_owned(tmp_path / "about.json", {"format": 99}, "simulations")
    with pytest.raises(ValueError, match=r"`store` .* was written by a newer asyncsim \(format 99; .*Update asyncsim"):
        asim.calibrate(log, MODEL, simulations=500, jobs=0, store=tmp_path)


test_models_that_are_refused = refusals(
    (("gamma", PRIOR), "`build` must be a function"),
    ((build, {}), "`prior` must be a mapping"),
    ((build, {"mean": 3.0}), "`prior` of 'mean' must be a distribution; got 3.0"),
    ((build, {**PRIOR, "servce": Uniform(0, 1)}, ("servic",)), "`times` must be names.*service"),
    ((build, {"maen": Uniform(0.1, 1)}), "it asks for 'service'|it asks for 'mean'.*maen"),
    ((lambda p: 3, PRIOR), "`build` must give an asynchronous asyncsim.Cluster; got int"),
    ((lambda p: SYNCHRONOUS, PRIOR), "`build` must give an asynchronous asyncsim.Cluster; got Synchronous"),
    ((lambda p: asim.Cluster(2, delays.Gamma(-p["mean"], 1.0)), PRIOR), "`build` fails at mean=1, "),
    call=lambda arguments: Model(*arguments),
)


def test_who_makes_some_jobs_and_stops_is_simulated_while_all_are_there(quickly):
    """Each worker makes as many commits and leaves: simulated clusters lose nobody, and nor does the part compared."""
    trace = asim.simulate(build(TRUTH), commits=2 * COMMITS, seed=4)
    number = np.zeros(len(trace), int)
    for worker in range(trace.workers):
        number[trace.worker == worker] = np.arange((trace.worker == worker).sum())
    kept = number < COMMITS // trace.workers
    leavers = asim.Trace.from_commits(trace.worker[kept], trace.commit_time[kept], workers=trace.workers)
    fit = asim.calibrate(leavers, MODEL, simulations=SIMULATIONS, jobs=0)
    assert any("seem to have stopped" in note for note in fit.notes)
    assert any("successive commits were used" in note for note in fit.notes)
    first_to_leave = min(leavers.commit_time[leavers.worker == w].max() for w in range(trace.workers))
    assert fit.log.checked <= (leavers.commit_time <= first_to_leave).sum()
    mean = fit.parameters["mean"]
    assert mean.identifiable
    assert abs(np.log(mean.estimate / TRUTH["mean"])) < np.log(mean.high / mean.low)
