"""`asyncsim cost`, and energy and money in `asyncsim compare` and `asyncsim sweep table`."""

import json
from pathlib import Path

import pytest

import asyncsim as asim
from asyncsim.costs import sizes
from asyncsim.study._load import study_of
from tests.cli.commands import Command, assert_one_line

POWER, PRICE = asim.Power(busy=300.0, idle=60.0), asim.Price(per_hour=2.0, spot=True)
FLAGS = ("--power", "busy=300,idle=60", "--price", "per_hour=2, spot=true")


pytestmark = pytest.mark.usefixtures("scripts")


@pytest.fixture
def finished(command: Command, scripts: None) -> Path:
    """The folder of a run."""
    asim.run(study_of("study.py"), "one", picture=False)
    return Path("one")


@pytest.mark.quick
def test_cost_of_a_run_is_that_of_its_schedule(command: Command, finished: Path) -> None:
    result = asim.load(finished)
    expected = asim.cost(result.trace, **sizes(result), power=POWER, price=PRICE)
    done = command("trace", "cost", str(finished), *FLAGS, "--json")
    assert done.status == 0, done.err
    found = json.loads(done.out)
    assert {name: found[name] for name in expected.summary()} == expected.summary()
    assert found["by_worker"]["compute"] == expected.seconds["compute"].tolist()
    assert found["bytes_up"] == result.summary["bytes_up"] == 200 * 8
    assert done.out == command("cost", str(finished / "trace.npz"), *FLAGS, "--json").out


@pytest.mark.whole_pages
def test_the_table_has_a_row_for_each_part_of_the_time(command: Command, finished: Path) -> None:
    done = command("cost", str(finished), *FLAGS, "--plot", "time.png")
    assert done.status == 0, done.err
    assert Path("time.png").stat().st_size > 5_000
    for word in ("waiting", "compute", "down", "sum", "bytes up", "energy", "money", "100.00%"):
        assert word in done.out
    assert "does not separate these from compute: download, upload, queue, service" in done.out


def test_a_log_without_sizes_has_no_bytes(command: Command) -> None:
    asim.Trace.from_commits([0, 1, 0, 1]).to_csv("log.csv")
    done = command("cost", "log.csv")
    assert done.status == 0, done.err
    assert "give --message-bytes" in done.out
    assert json.loads(command("cost", "log.csv", "--json").out)["bytes_up"] is None
    sized = ("--message-bytes", "10", "--parameter-bytes", "100", "--json")
    found = json.loads(command("cost", "log.csv", *sized).out)
    assert (found["bytes_up"], found["bytes_down"]) == (40, 400)


def test_wrong_usage_is_one_line(command: Command) -> None:
    asim.Trace.from_commits([0, 1]).save("trace.npz")
    for flags, *words in (
        ("--power busy=300", "idle must be given"),
        ("--power bussy=300,idle=1", "bussy=300", "Did you mean `busy`"),
        ("--power busy=much,idle=1", "`busy` must be a number"),
        ("--power busy=-1,idle=1", "`busy` must be finite and not negative"),
        ("--price per_hour", "per_hour=…"),
    ):
        assert_one_line(command("cost", "trace.npz", *flags.split()), 2, *words)


@pytest.mark.parametrize(
    ("cluster", "machines", "method"),
    [
        ("Rollouts(slots=6, group=1, batch=2, generate=ONE, train=ONE, lead=1.0, sync=ONE)", 6, "ledger"),
        ('Pipeline(stages=3, forward=ONE, schedule="1f1b", micro_batches=4)', 3, "timetable"),
    ],
)
def test_slots_and_stages_are_the_workers(command: Command, cluster: str, machines: int, method: str) -> None:
    """Of a run of rollouts or of a pipeline, with sizes that only the user knows."""
    lines = [
        "import asyncsim as asim",
        "ONE = asim.delays.Exponential(1.0)",
        f"cluster = asim.{cluster}",
        "scenario = asim.Scenario(cluster, asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0]), commits=40)",
    ]
    Path("machines.py").write_text("\n".join(lines))
    assert command("run", "machines.py", "--out", "other").status == 0
    sized = ("--message-bytes", "10", "--parameter-bytes", "100", "--json")
    found = json.loads(command("cost", "other", *FLAGS, *sized).out)
    made = asim.load("other").scenario.cluster
    ledger = getattr(made, method)(40, 0)
    expected = asim.cost(ledger, message_bytes=10, parameter_bytes=100, power=POWER, price=PRICE)
    assert found["workers"] == machines
    assert {name: found[name] for name in expected.summary()} == expected.summary()


def test_the_log_of_rollouts_needs_the_number_of_machines(command: Command) -> None:
    """Its workers are places of groups: 24 of them for 96 slots would be a quarter of the bill."""
    engines = asim.Rollouts(
        slots=96, group=4, batch=8, generate=asim.delays.LogNormal(30.0, 1.0), train=asim.delays.Constant(15.0)
    )
    trace = asim.simulate(engines, commits=80)
    times = {"opened": trace.start_time, "ready": trace.arrive_time, "taken": trace.serve_time}
    rows = zip(*times.values(), trace.commit_time, strict=True)
    lines = [",".join([*times, "trained"]), *(",".join(map(repr, map(float, row))) for row in rows)]
    Path("log.csv").write_text("\n".join(lines))
    priced = ("cost", "log.csv", "--price", "per_hour=2")
    assert_one_line(command(*priced), 2, "`--machines` must be given with --price for the log of rollouts")
    assert_one_line(command("cost", "log.csv", "--power", "busy=300,idle=60"), 2, "`power` must be left out")
    found = json.loads(command(*priced, "--machines", "96", "--json").out)
    assert found["machines"] == 96
    assert found["money"] == pytest.approx(96 * 2 * found["duration"] / 3600)
    asim.Trace.from_csv("log.csv").save("log.npz")
    assert_one_line(command("cost", "log.npz", "--price", "per_hour=2"), 2, "`machines` must be given")


def test_energy_and_money_on_request(command: Command) -> None:
    """In `asyncsim compare` and `asyncsim sweep table`."""
    sweep = ("--grid", "seed=0:2", "--commits", "40", "--store", "store", "--jobs", "0")
    assert command("sweep", "study.py", *sweep).status == 0
    table = ("sweep", "table", "store")
    columns = json.loads(command(*table, *FLAGS, "--json").out)["columns"]
    one, other = (f"store/{digest}" for digest in columns["digest"])
    compared = json.loads(command("compare", one, other, *FLAGS, "--json").out)["results"]
    runs = [asim.load(place) for place in (one, other)]
    expected = [asim.cost(run.trace, **sizes(run), power=POWER, price=PRICE) for run in runs]
    for name in ("joules", "money"):
        assert columns[name] == [*compared[name].values()] == [getattr(cost, name) for cost in expected]
    assert columns["bytes_up"] == [*compared["bytes_up"].values()] == [40 * 8] * 2
    assert "joules" not in json.loads(command(*table, "--json").out)["columns"]
    assert "joules" not in json.loads(command("compare", one, other, "--json").out)["results"]
    assert "energy" in command(*table, *FLAGS).out
