"""`asyncsim calibrate`: a table, a picture, a fit that is read back, and a scenario that runs."""

import json
from pathlib import Path

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


def test_from_a_log_to_a_scenario(command, log):
    done = command("calibrate", log, "--out", "mine", "--law", "gamma")
    assert (done.status, done.err) == (0, "")
    assert "compute.mean" in done.out
    assert "not told" not in done.out
    assert "The model produces such logs" in done.out
    assert (Path() / "mine" / "calibration.png").stat().st_size > 10_000
    fit = asim.Calibration.load(Path() / "mine" / "fit.json")
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
    assert "your changed scenario.py was kept" in again.out
    assert (Path() / "mine" / "scenario.py").read_text() == "# my own\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("missing.csv",), ("missing.csv", "does not exist")),
        (("--law", "gama"), ("gama", "gamma")),
        (("--law", "constant"), ("must be equal for a constant law",)),
        (("--lwa", "gamma"), ("--lwa", "--law")),
    ],
)
def test_mistakes(command, log, arguments, words):
    given = arguments if arguments[0].endswith(".csv") else (log, *arguments)
    done = command("calibrate", *given)
    assert_one_line(done, 2, *words)
