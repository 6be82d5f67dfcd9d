"""`asyncsim calibrate`: a table, a picture, a fit that is read back, and a scenario that runs; also of rollouts."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.cli import _calibrate as cli
from tests.cli.commands import assert_one_line


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    """Predictions for other clusters are of four short simulations: how accurate they are is tested with the fits."""
    monkeypatch.setattr(cli, "what_if", partial(cli.what_if, draws=4))
    monkeypatch.setattr("asyncsim.calibration._rollouts.STEPS", 80)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "cluster.csv"
    cluster = asim.Cluster(3, delays.Gamma(1.0, 0.3), server=asim.Server(service=delays.Constant(0.1)))
    asim.simulate(cluster, commits=120).to_csv(path)
    return str(path)


@pytest.mark.whole_pages
def test_a_log_gives_a_fit_a_picture_and_a_scenario(command, log):
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


def test_quick_omits_the_check(command, log):
    done = command("calibrate", log, "--out", "mine", "--law", "gamma", "--quick", "--json")
    found = json.loads(done.out)
    assert found["hidden"] == ["latency"]
    assert found["checks"] is None
    assert found["parameters"]["server.service.value"]["low"] == pytest.approx(0.1)


def test_a_log_in_other_words_is_fitted_with_its_names(command):
    """In JSON lines and milliseconds, of two classes of hosts. The fit repeats the notes about the log."""
    laws = [delays.Gamma(1.0, 0.3)] * 3 + [delays.Gamma(3.0, 0.3)] * 3
    trace = asim.simulate(asim.Cluster(6, laws), commits=300)
    lines = [
        json.dumps({"host": f"node-{worker + 6:02}", "pushed_at": 1000 * time, "loss": 0.1})
        for worker, time in zip(trace.worker.tolist(), trace.commit_time.tolist(), strict=True)
    ]
    Path("pushes.jsonl").write_text("\n".join(lines))
    flags = ("--columns", "worker=host,commit_time=pushed_at", "--unit", "ms", "--method", "likelihood", "--quick")
    done = command("calibrate", "pushes.jsonl", *flags)
    assert (done.status, done.err) == (0, "")
    assert "\nColumn 'loss' was ignored.\n" in done.out
    assert "workers node-09, node-10, node-11 take" in done.out
    assert len([*Path("runs").iterdir()]) == 1


def test_answers_for_the_numbers_that_are_asked_for_have_intervals(command, log):
    """They are in a folder that is named after the log and the flag."""
    done = command("calibrate", log, "--law", "gamma", "--workers", "6,4,8", "--json")
    found = json.loads(done.out)["what_if"]
    assert found["workers"] == [4, 6, 8]
    for name in ("throughput", "staleness"):
        for low, middle, high in zip(found[f"{name}_low"], found[name], found[f"{name}_high"], strict=True):
            assert low <= middle <= high
    (folder,) = {path.parent.name for path in Path().rglob("fit.json")}
    assert folder.startswith("calibrate,log=cluster,law=gamma,workers=6-4-8")
    printed = command("calibrate", log, "--law", "gamma", "--workers", "4,8", "--out", "other").out
    assert "commits per second, 95 %" in printed
    assert next(line.split() for line in printed.splitlines() if line.startswith("workers "))[-2:] == ["4", "8"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--workers", "four"], "`workers` must be numbers of workers; got 'four'"),
        (["--workers", "4,0"], "`workers` must be"),
        (["--workers", "4", "--quick"], "`quick` simulates nothing"),
    ],
    ids=str,
)
def test_numbers_of_workers_that_cannot_be_simulated_are_refused(command, log, flags, words):
    done = command("calibrate", log, *flags)
    assert done.status == 2
    assert words in done.err


@pytest.fixture
def two_classes(log, tmp_path):
    """Six fast workers, and two that take three times as long."""
    laws = [asim.delays.Gamma(1.0, 0.3)] * 6 + [asim.delays.Gamma(3.0, 0.3)] * 2
    asim.simulate(asim.Cluster(8, laws), commits=800).to_csv("classes.csv")
    return "classes.csv"


def test_answers_for_workers_of_a_class_have_intervals(command, two_classes):
    """Twelve more of the fast ones: 6 + 2/3 commits per second become 18 + 2/3."""
    done = command("calibrate", two_classes, "--law", "gamma", "--add", "fast=12", "--json")
    found = json.loads(done.out)["what_if"]
    assert found["workers"] == [20]
    assert found["throughput_low"][0] < found["throughput"][0] < found["throughput_high"][0]
    assert found["throughput"][0] == pytest.approx(18 + 2 / 3, rel=0.06)  # The mean has a standard error of 1.2 %.
    (folder,) = {path.parent.name for path in Path().rglob("fit.json")}
    assert folder.startswith("calibrate,log=classes,law=gamma,add=fast")
    flags = ("--law", "gamma", "--add", "slow=1,fast=2", "--workers", "8,9", "--out", "other")
    printed = command("calibrate", two_classes, *flags).out
    assert "(with 1 more of slow, 2 more of fast)" in printed
    assert next(line.split() for line in printed.splitlines() if line.startswith("workers "))[-2:] == ["11", "12"]


@pytest.mark.parametrize("sizes", ["12,16,24", "24,12,16,12"])
def test_answers_for_sizes_and_workers_of_a_class_have_intervals(command, sizes):
    """Twelve fast workers join each size, whose own workers are those of the log, again and again."""
    means = [1.0] * 9 + [3.0] * 3
    asim.simulate(asim.Cluster(12, [delays.Gamma(mean, 0.3) for mean in means]), commits=1200).to_csv("pushes.csv")
    done = command("calibrate", "pushes.csv", "--law", "gamma", "--workers", sizes, "--add", "fast=12", "--json")
    found = json.loads(done.out)["what_if"]
    assert found["workers"] == [24, 28, 36]
    truth = {"throughput": [22.0, 26.0, 32.0], "staleness": [23.0, 27.0, 35.0]}
    for name, values in truth.items():
        low, middle, high = (np.array(found[f"{name}{end}"]) for end in ("_low", "", "_high"))
        assert (low <= middle).all()
        assert (middle <= high).all()
        np.testing.assert_allclose(middle, values, rtol=0.06)  # The mean has a standard error of 1 %.
    (folder,) = {path.parent for path in Path().rglob("fit.json")}
    assert folder.name.startswith("calibrate,log=pushes,law=gamma,workers=")
    assert f"asyncsim run {folder}/scenario.py" in (folder / "scenario.py").read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fats=12", "'fats'. Did you mean 'fast'?"),
        ("fast", "`add` must be numbers of workers by class"),
        ("fast=", "`add` must be numbers of workers by class"),
        ("=12", "`add` must be numbers of workers by class"),
        ("fast=many", "`add` must be numbers of workers by class"),
        ("fast=1,fast=2", "each class once"),
        ("fast=0", "`add of 'fast'` must be"),
        ("fast=-2", "`add of 'fast'` must be"),
        ("fast=1.5", "`add` must be numbers of workers by class"),
        ("", "`add` must be numbers of workers by class"),
    ],
)
def test_classes_that_cannot_be_added_are_refused(command, two_classes, text, words):
    assert_one_line(command("calibrate", two_classes, "--law", "gamma", "--add", text), 2, words)


def test_a_log_without_classes_says_so(command, log):
    assert_one_line(command("calibrate", log, "--law", "gamma", "--add", "fast=2"), 2, "`add` needs a fit that")
    assert_one_line(command("calibrate", log, "--add", "fast=2", "--quick"), 2, "`quick` simulates nothing, and `add`")


def test_a_changed_scenario_is_not_replaced(command, log):
    (Path() / "mine").mkdir()
    (Path() / "mine" / "scenario.py").write_text("# my own\n")
    again = command("calibrate", log, "--out", "mine", "--law", "gamma", "--quick")
    assert "Akaike" not in again.out  # the law is named
    assert "your changed scenario.py was kept" in again.out
    assert (Path() / "mine" / "scenario.py").read_text() == "# my own\n"


FILES = {
    "settings.toml": "[project]",
    "groups.csv": "opened,ready,taken,trained\n1,2,2,3\n",
    "none.py": "x = 1",
    "three.py": "model = 3",
    "wrong.py": "import asyncsim as asim\nmodel = asim.calibration.Model(3, {})",
}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("missing.csv", ("missing.csv", "does not exist")),
        ("settings.toml", ("settings.toml", "neither a trace (.npz) nor a log", "worker,commit_time")),
        ("groups.csv", ("`log` must have 30 trained groups or more; got 1",)),
        ("LOG --law gama", ("gama", "gamma")),
        ("LOG --law constant", ("must be equal for a constant law",)),
        ("LOG --lwa gamma", ("--lwa", "--law")),
        ("LOG --model none.py", ("none.py defines no `model`",)),
        ("LOG --model three.py", ("a `model` of type int",)),
        ("LOG --model wrong.py", ("wrong.py, line 2: `build`",)),
    ],
)
def test_wrong_usage_is_one_line(command, log, line, words):
    for name, text in FILES.items():
        Path(name).write_text(text)
    assert_one_line(command("calibrate", *line.replace("LOG", log).split()), 2, *words)


def test_a_folder_without_write_permission_is_refused_first(command, log, monkeypatch):
    """Before minutes of simulation, not after them."""
    monkeypatch.setattr(cli.os, "access", lambda path, mode: False)
    monkeypatch.setattr(cli, "calibrate", None)
    assert_one_line(command("calibrate", log, "--out", "mine"), 1, "`out`", "cannot be written to", "another folder")


MODEL = """
import asyncsim as asim
from asyncsim.calibration import LogUniform, Model

def build(p):
    server = asim.Server(service=asim.delays.Constant(p["service"]))
    return asim.Cluster(3, asim.delays.Gamma(p["mean"], 0.3), server=server)

model = Model(build, prior={"mean": LogUniform(0.1, 10), "service": LogUniform(0.001, 1)})
"""


@pytest.fixture
def normal(monkeypatch):
    """The residuals of the regression are taken as normal: networks are tested in `tests/calibration/test_npe.py`."""

    def draw(flow, key, rows, count):
        return np.random.default_rng(0).normal(size=(count, len(rows), 1))

    made = {
        "FLOWS": 1,
        "_new_flow": lambda *sizes: None,
        "_train_flows": lambda *data: (None,),
        "_compiled_draw": lambda: draw,
    }
    for name, value in made.items():
        monkeypatch.setattr(f"asyncsim.calibration._npe.{name}", value)


def test_a_model_is_fitted_by_simulation(command, log, normal):
    """A user's model: a table with coverage, a picture, and a fit that a scenario uses."""
    pytest.importorskip("flowjax", reason="neural posteriors need the extra calibrate")
    Path("model.py").write_text(MODEL.replace('p["service"]', "0.0").replace(', "service": LogUniform(0.001, 1)', ""))
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


def test_a_model_is_fitted_by_its_likelihood(command, log):
    """A table, a picture, and a fit that a scenario uses."""
    Path("model.py").write_text(MODEL)
    done = command("calibrate", log, "--out", "mine", "--model", "model.py", "--method", "likelihood")
    assert (done.status, done.err) == (0, "")
    assert "by the likelihood of the durations" in done.out
    assert "coverage" not in done.out.lower()
    assert "The model produces such logs" in done.out
    fit = asim.Fit.load(Path() / "mine" / "fit.json")
    assert fit.with_workers(9).server.service.mean == pytest.approx(0.1)
    again = command("calibrate", log, "--model", "model.py", "--method", "likelihood", "--quick", "--json")
    assert json.loads(again.out)["widths"]["mean"] < 0.1


def test_mixed_stages_are_fitted_but_not_extrapolated(command):
    """Messages and a queue between finish and commit: the fit is printed, with the columns that would separate them."""
    network, server = asim.Network(latency=delays.Gamma(0.1, 0.5)), asim.Server(service=delays.Gamma(0.1, 0.3))
    log = asim.simulate(asim.Cluster(8, delays.Gamma(1.0, 0.3), network=network, server=server), commits=200)
    mixed = {name: getattr(log, name) for name in ("worker", "read_time", "finish_time", "commit_time")}
    asim.Trace.from_columns(mixed).to_csv("mixed.csv")
    done = command("calibrate", "mixed.csv", "--out", "mine", "--law", "gamma")
    assert (done.status, done.err) == (0, "")
    refusal = json.loads(command("calibrate", "mixed.csv", "--law", "gamma", "--json").out)["refusal"]
    assert f"No answer for other numbers of workers: {refusal}" in done.out
    assert "`workers` of 24 cannot be answered from the log: its times from finish to commit mix messages" in refusal
    assert "Log `arrive_time` and `serve_time`" in refusal
    assert "Simulate more workers" not in done.out
    # The log itself says how fast its own number of workers is.
    some = command("calibrate", "mixed.csv", "--law", "gamma", "--workers", "8,24", "--out", "some")
    assert (some.status, some.err) == (0, "")
    assert "No answer for some numbers of workers: `workers` of 24 cannot be answered" in some.out


SYSTEM = """import asyncsim as asim
one = asim.delays.Constant(1.0)
engines = {"slots": 32, "group": 4, "batch": 4, "refill": "group"}
model = asim.rollouts.areal(max_head_offpolicyness=1, generate=one, train=one, **engines)
"""


@pytest.fixture
def rollout_log(command):
    """A log of known rollouts, with Unix times and groups that were never trained."""
    law = delays.LogNormal(30.0, 0.8)
    hidden = asim.Rollouts(
        slots=32, group=4, batch=4, generate=law, train=delays.Gamma(9.0, 0.3), refill="group", lead=1
    )
    trace = asim.simulate(hidden, commits=240, seed=3)
    columns = np.stack([trace.start_time, trace.arrive_time, trace.serve_time, trace.commit_time], axis=1) + 1e9
    rows = [",".join(f"{value:.4f}" for value in row) for row in columns]
    rows += [f"{1e9 + start:.4f},,," for start in trace.unfinished.start_time]
    Path("log.csv").write_text("\n".join(["opened,ready,taken,trained", *rows, ""]))
    Path("system.py").write_text(SYSTEM)
    return trace


@pytest.mark.whole_pages
def test_a_log_of_rollouts_fits_rollouts(rollout_log, command):
    numbers = json.loads(command("calibrate", "log.csv", "--model", "system.py", "--json").out)
    own = numbers["what_if"]["lead"].index(1)
    found = numbers["what_if"]["steps_per_second"][own]
    assert found == pytest.approx(numbers["log"]["steps_per_second"], rel=0.05)
    assert numbers["log"]["group_staleness"] == pytest.approx(rollout_log.staleness.mean())
    assert numbers["fits"]
    fit = asim.Fit.load("runs/calibrate,log=log,model=system.py/fit.json")
    assert fit.cluster.generate.mean == numbers["parameters"]["generate.mean"]["estimate"]
    assert Path("runs/calibrate,log=log,model=system.py/calibration.png").stat().st_size > 10_000
    few = ("--lead", "2", "--points", "2", "--draws", "2", "--out", "more")
    assert command("run", "runs/calibrate,log=log,model=system.py/scenario.py", *few).status == 0
    assert command("trace", "check", "log.csv").status == 0


def test_without_a_script_a_group_is_one_sample(rollout_log, command):
    done = command("calibrate", "log.csv", "--quick")
    assert "a group counts as one sample on one of" in " ".join(done.out.split())
