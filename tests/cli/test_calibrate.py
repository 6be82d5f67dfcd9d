"""`asyncsim calibrate`: a table, a picture, a fit that is read back, and a scenario that runs."""

import json
from pathlib import Path

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from tests.cli.commands import assert_one_line


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "cluster.csv"
    cluster = asim.Cluster(3, delays.Gamma(1.0, 0.3), server=asim.Server(service=delays.Constant(0.1)))
    asim.simulate(cluster, commits=120).to_csv(path)
    return str(path)


@pytest.mark.whole_pages
def test_from_a_log_to_a_scenario(command, log):
    done = command("calibrate", log, "--out", "mine", "--law", "gamma")
    assert (done.status, done.err) == (0, "")
    assert "compute.mean" in done.out
    assert "not identifiable" not in done.out
    assert "The model produces such logs" in done.out
    assert (Path() / "mine" / "calibration.png").stat().st_size > 10_000
    fit = asim.Fit.load(Path() / "mine" / "fit.json")
    assert fit.cluster.server.service.mean == pytest.approx(0.1)
    ran = command("run", "mine/scenario.py", "--workers", "20", "--points", "2", "--draws", "2", "--out", "more")
    assert ran.status == 0
    last = next(line.split() for line in ran.out.splitlines() if line.split()[:1] == ["20"])
    assert float(last[1]) == pytest.approx(10.0, rel=0.05)  # the server's limit


def test_quickly_and_as_json(command, log):
    done = command("calibrate", log, "--out", "mine", "--law", "gamma", "--quick", "--json")
    found = json.loads(done.out)
    assert found["hidden"] == ["latency"]
    assert found["checks"] is None
    assert found["parameters"]["server.service.value"]["low"] == pytest.approx(0.1)
    (Path() / "mine" / "scenario.py").write_text("# my own\n")
    again = command("calibrate", log, "--out", "mine", "--law", "gamma", "--quick")
    assert "Akaike" not in again.out  # the law is named
    assert "your changed scenario.py was kept" in again.out
    assert (Path() / "mine" / "scenario.py").read_text() == "# my own\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing.csv",), ("missing.csv", "does not exist")),
        (("settings.toml",), ("settings.toml", "neither a trace (.npz) nor a CSV log", "worker,commit_time")),
        (("--law", "gama"), ("gama", "gamma")),
        (("--law", "constant"), ("must be equal for a constant law",)),
        (("--lwa", "gamma"), ("--lwa", "--law")),
    ],
)
def test_mistakes(command, log, arguments, words):
    Path("settings.toml").write_text("[project]\n")
    given = (log, *arguments) if arguments[0].startswith("--") else arguments
    done = command("calibrate", *given)
    assert_one_line(done, 2, *words)


def test_a_folder_that_cannot_be_written_to(command, log, monkeypatch):
    """Before minutes of simulation, not after them."""
    monkeypatch.setattr("asyncsim.cli._calibrate.os.access", lambda path, mode: False)
    monkeypatch.setattr("asyncsim.cli._calibrate.calibrate", None)
    assert_one_line(command("calibrate", log, "--out", "mine"), 1, "`out`", "cannot be written to", "another folder")


SCRIPT = """
import asyncsim as asim
from asyncsim.calibration import LogUniform, Model

model = Model(lambda p: asim.Cluster(3, asim.delays.Gamma(p["mean"], 0.3)), prior={"mean": LogUniform(0.1, 10)})
"""


@pytest.fixture
def normal(monkeypatch):
    """The residuals of the regression are taken as normal: networks are tested in `tests/calibration/test_npe.py`."""

    def draw(flow, key, rows, count):
        return np.random.default_rng(0).normal(size=(count, len(rows), 1))

    made = {"FLOWS": 1, "_new_flow": lambda *sizes: None, "_flows": lambda *data: (None,), "_drawing": lambda: draw}
    for name, value in made.items():
        monkeypatch.setattr(f"asyncsim.calibration._npe.{name}", value)


def test_by_simulation(command, log, normal):
    """A user's model: a table with coverage, a picture, and a fit that a scenario uses."""
    pytest.importorskip("flowjax", reason="neural posteriors need the extra calibrate")
    Path("model.py").write_text(SCRIPT)
    arguments = ("calibrate", log, "--out", "mine", "--model", "model.py", "--simulations", "500", "--jobs", "0")
    done = command(*arguments)
    assert (done.status, done.err) == (0, "")
    assert "coverage" in done.out
    assert "does NOT produce such logs" in done.out  # there is a server in the log, and none in the model
    again = command(*arguments, "--quick", "--json")
    found = json.loads(again.out)
    assert found["method"] == "npe"
    assert found["simulations"] == 500
    assert asim.Fit.load(Path() / "mine" / "fit.json").with_workers(9).workers == 9


OWN = """
import asyncsim as asim
from asyncsim.calibration import LogUniform, Model

def build(p):
    server = asim.Server(service=asim.delays.Constant(p["service"]))
    return asim.Cluster(3, asim.delays.Gamma(p["mean"], 0.3), server=server)

model = Model(build, prior={"mean": LogUniform(0.1, 10), "service": LogUniform(0.001, 1)})
"""


def test_a_model_by_likelihood(command, log):
    """A table, a picture, and a fit that a scenario uses."""
    Path("model.py").write_text(OWN)
    done = command("calibrate", log, "--out", "mine", "--model", "model.py", "--method", "likelihood")
    assert (done.status, done.err) == (0, "")
    assert "by the likelihood of the durations" in done.out
    assert "coverage" not in done.out.lower()
    assert "The model produces such logs" in done.out
    fit = asim.Fit.load(Path() / "mine" / "fit.json")
    assert fit.with_workers(9).server.service.mean == pytest.approx(0.1)
    again = command("calibrate", log, "--model", "model.py", "--method", "likelihood", "--quick", "--json")
    assert json.loads(again.out)["widths"]["mean"] < 0.1


def test_scripts_without_a_model(command, log):
    for script, words in (
        ("x = 1", "model.py defines no `model`"),
        ("model = 3", "a `model` of type int"),
        ("import asyncsim as asim\nmodel = asim.calibration.Model(3, {})", "model.py, line 2: `build`"),
    ):
        Path("model.py").write_text(script)
        assert_one_line(command("calibrate", log, "--model", "model.py"), 2, words)


def test_mixed_stages_are_fitted_but_not_extrapolated(command):
    """Messages and a queue between finish and commit: the fit is printed, with the columns that would separate them."""
    network, server = asim.Network(latency=delays.Gamma(0.1, 0.5)), asim.Server(service=delays.Gamma(0.1, 0.3))
    log = asim.simulate(asim.Cluster(8, delays.Gamma(1.0, 0.3), network=network, server=server), commits=500)
    mixed = {name: getattr(log, name) for name in ("worker", "read_time", "finish_time", "commit_time")}
    asim.Trace.from_columns(mixed).to_csv("mixed.csv")
    done = command("calibrate", "mixed.csv", "--out", "mine", "--law", "gamma")
    assert (done.status, done.err) == (0, "")
    assert "No answer for other numbers of workers: `workers` of 24 cannot be answered from the log" in done.out
    assert "Log `arrive_time` and `serve_time`" in done.out
    assert "Simulate more workers" not in done.out
    found = json.loads(command("calibrate", "mixed.csv", "--law", "gamma", "--json").out)
    assert "mix messages, queue and service" in found["refusal"]
