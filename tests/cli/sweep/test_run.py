"""`asyncsim sweep SCRIPT`: a grid from the command line, and one line for every mistake."""

import json

import pytest

from asyncsim.cli._sweep.axes import parse_values
from asyncsim.components._field import Field
from asyncsim.study._store import open_store
from tests.cli.commands import COMPARISON, GRID, assert_one_line
from tests.study.problems import fail_where


def test_a_grid_runs_all_combinations(done):
    assert done["fields"] == ["learning_rate", "seed"]
    assert done["columns"]["seed"] == [0, 1, 2] * 2
    assert done["columns"]["status"] == ["done"] * 6
    assert done["columns"]["commits"] == [40] * 6


@pytest.mark.parametrize(
    "flags",
    [
        "",
        "--service .05",
        "--latency .1",
        "--bandwidth 100 --shared true",
        "--protocol synchronous",
        "--protocol k_async --k 2",
        "--seconds 1e-9",
        "--service .05 --seconds 1e-9",
        "--service .05 --lanes 2",
    ],
)
def test_a_length_in_seconds_can_be_swept(command, script, flags):
    asked = ("--grid", "learning_rate=.02,.05", "--seconds", "4", *flags.split(), "--store", "store", "--json")
    found = command("sweep", script, *asked)
    assert found.status == 0, found.err
    columns = json.loads(found.out)["columns"]
    assert columns["status"] == ["done", "done"]
    assert columns["commits"][0] == columns["commits"][1]
    assert (columns["commits"][0] == 0) == ("1e-9" in flags)
    assert json.loads(command("sweep", "status", "store", "--json").out)["done"] == 2


def test_draws_are_reproducible_by_their_seed(command, script):
    drawn = ("--sample", "learning_rate=loguniform:1e-3:1", "--count", "2", "--grid", "seed=0:2", "--commits", "40")
    columns = json.loads(command("sweep", script, *drawn, "--json").out)["columns"]
    assert columns["seed"] == [0, 1, 0, 1]
    rates = columns["learning_rate"]
    assert rates[0] == rates[1] != rates[2] == rates[3]


def test_a_sweep_without_a_grid_notes_that_it_is_one_run(command, script):
    found = command("sweep", script, "--commits", "40")
    assert found.status == 0
    assert "neither --grid nor --sample is given, so this is a single run" in found.err
    found = command("sweep", script, *GRID)
    assert "single run" not in found.err
    assert "Final loss, quartiles over the seeds:" in found.out
    assert "Results in runs/study,sweep: asyncsim sweep table runs/study,sweep" in found.out


@pytest.fixture
def asked(monkeypatch):
    """Scenarios and options of each sweep, which is not computed."""
    asked = []
    monkeypatch.setattr("asyncsim.cli._sweep.sweep", lambda scenarios, store, **more: asked.append((scenarios, more)))
    monkeypatch.setattr("asyncsim.cli._sweep.report", lambda found, as_json: None)
    return asked


@pytest.mark.parametrize(
    "varied",
    [("--grid", "fraction=.5,1"), ("--sample", "fraction=uniform:.5:1", "--count", "2")],
    ids=["grid", "draws"],
)
def test_a_required_field_may_come_from_what_is_varied_alone(command, script, varied, asked):
    found = command("sweep", script, "--commits", "40", "--compressor", "top_k", *varied)
    assert found.status == 0, found.err
    ((scenarios, _),) = asked
    assert len({one.rule.compressor.fraction for one in scenarios}) == len(scenarios) == 2


def test_a_missing_required_field_is_an_error(command, script):
    assert_one_line(command("sweep", script, "--compressor", "top_k", "--grid", "seed=0:2"), 2, "`fraction`")


def test_several_values_of_a_flag_suggest_a_grid(command, script, asked):
    flags = "--lanes 2 --jobs 3 --patience 0 --run-limit 0.5 --shared-schedule --retry-failed"
    assert command("sweep", script, "--grid", "seed=0:2", *flags.split()).status == 0
    (_, options), given = asked[0], {"lanes": 2, "patience": 0.0, "run_limit": 0.5, "jobs": 3}
    assert options.items() >= {**given, "shared_schedule": True, "retry_failed": True}.items()


def test_patience_ends_the_wait_for_another_process(command, script):
    swept = ("sweep", script, "--commits", "40", "--store", "store", "--grid", "seed=0:2")
    digest = json.loads(command(*swept, "--json").out)["columns"]["digest"][0]
    store = open_store("store")
    store.discard(digest)
    with store.lease([digest]):
        assert_one_line(command(*swept, "--patience", "0.3"), 1, "Waited 0 seconds for process", "Done: 1 of 2 runs")


def test_a_run_over_its_limit_has_failed(command, script):
    found = command("sweep", script, "--commits", "400000", "--grid", "seed=0:2", "--run-limit", ".01")
    assert found.status == 1
    assert "2 of 2 runs failed, the first with: it took longer than 0.01 seconds" in found.err


def test_a_failure_has_a_status(command, script, monkeypatch):
    fail_where(monkeypatch, lambda rate: "no")
    found = command("sweep", script, "--grid", "seed=0:2", "--store", "store")
    assert found.status == 1
    assert "2 of 2 runs failed, the first with: ZeroDivisionError: no" in found.err
    assert "failed: seed 0\n  ZeroDivisionError: no" in command("sweep", "status", "store").out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--grid", "learnin_rate=1"), "Did you mean `learning_rate`?"),
        (("--grid", "seed=5:5"), "'5:5' is an empty range"),
        (("--grid", "workers=2,x"), "`workers` does not take its value number 2: 'x' is not a whole number"),
        (("--grid", "learning_rate=.1,,.2"), "an empty value number 2"),
        (("--grid", "learning_rate=0:1"), "A range first:end is for whole numbers"),
        (("--grid", "seed"), "it has no `=`"),
        (("--grid", "seed="), "`seed` has no values"),
        (("--grid", "seed=0..9"), "A range is first:end or first:end:step."),
        (("--grid", "workers=5 10"), "A list is a,b,c."),
        (("--grid", "seed=0:100000000000"), "more than 10,000,000 values"),
        (("--grid", "learning_rate", ".1,.2"), "take one word, FIELD=VALUES"),
        (("--learning-rate", ".1,.2"), "Several values are given as --grid learning_rate=a,b,c."),
        (("--count", "5"), "`--count 5` needs `--sample FIELD=DRAW`"),
        (("--sample", "learning_rate=.1,.2", "--count", "0"), "0 is not in the range x>=1"),
        (("--sample-seed", "-1"), "-1 is not in the range x>=0"),
        (("--sample", "seed=1,2", "--grid", "seed=1", "--count", "1"), "both name 'seed'"),
        (("--sample", "learning_rate=normal:0:1", "--count", "1"), "uniform or loguniform"),
        (("--scheduler", "localhost"), "must be an address with a port"),
        (("--grid", "seed=1", "--grid", "seed=2"), "names 'seed' twice"),
        (("--sample", "learning_rate=uniform:0:1"), "`--count` must be given"),
        (("--sample", "learning_rate=uniform:0", "--count", "2"), "uniform:LOW:HIGH"),
        (("--store", "study.py"), "`store` 'study.py' is a file"),
        (("--store", "."), "holds other files"),
    ],
)
def test_wrong_values_are_refused(command, script, arguments, words):
    assert_one_line(command("sweep", script, *arguments), 2, words)


def test_an_unreachable_scheduler_is_an_error(command, script, monkeypatch):
    assert_one_line(command("sweep", script, "--scheduler-file", "no.json"), 1, "'no.json' is not a file")
    assert_one_line(command("sweep", script, "--scheduler-file", "study.py"), 1, "not one that Dask has written")
    pytest.importorskip("distributed", reason="a Dask cluster")
    monkeypatch.setattr("asyncsim.cli._sweep.CONNECT_SECONDS", 0.5)
    assert_one_line(command("sweep", script, "--scheduler", "tcp://127.0.0.1:9"), 1, "cannot be reached within")


def test_only_scenarios_are_swept(command, tmp_path):
    (tmp_path / "both.py").write_text(COMPARISON)
    assert_one_line(command("sweep", "both.py", "--grid", "seed=0:2"), 2, "has a comparison")
    assert_one_line(command("sweep", "table", "nothing"), 2, "does not exist")
    assert_one_line(command("sweep", "stauts", "store"), 2, "No such command 'stauts'. Did you mean 'status'?")


@pytest.mark.parametrize("more", [("--json",), ()])
def test_an_infinite_bandwidth_can_be_swept(command, script, more):
    found = command("sweep", script, "--latency", ".02", "--grid", "seed=0:2", "--jobs", "0", "--store", "store", *more)
    assert (found.status, found.err.count("Error")) == (0, 0)
    assert command("sweep", "table", "store", *more).status == 0


@pytest.mark.quick
def test_lists_and_ranges_are_values():
    assert parse_values(Field("seed", "integer", ""), "4:0:-2") == [4, 2]
    assert parse_values(Field("window", "integer by worker", ""), "10, [10,20,40],1:3") == [10, [10, 20, 40], 1, 2]
    assert parse_values(Field("bandwidth", "number by worker", ""), "[1e6,inf]") == [[1e6, float("inf")]]
    assert parse_values(Field("hidden", "integers", ""), "64,32;16") == [[64, 32], [16]]
    assert parse_values(Field("on", "switch", ""), "true,false") == [True, False]
    assert parse_values(Field("rule", "text", "", choices=("gem", "agn")), "agn, gem") == ["agn", "gem"]
