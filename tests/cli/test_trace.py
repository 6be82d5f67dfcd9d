"""`asyncsim trace`: what it finds, what it prints where, and with which status it leaves."""

import csv
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncsim.cluster import Cluster, Network, Server, faults, protocols, simulate
from asyncsim.delays import Exponential, Gamma
from asyncsim.store import tags
from asyncsim.trace import Fate, Trace
from tests.cli.commands import Command, Done, assert_one_line
from tests.trace.test_trace import assert_equal

CLUSTER = Cluster(
    workers=4,
    compute=Gamma(1.0, 0.5),
    network=Network(latency=Exponential(0.1)),
    server=Server(service=Exponential(0.1)),
    protocol=protocols.Ringmaster(3, stop=True),
    faults=[faults.Crash(1, 3.0, 2.0), faults.Slowdown(2, 5.0, 4.0, 2.0), faults.ServerPause(8.0, 1.0)],
)
TRACE = simulate(CLUSTER, commits=60)
CANCELLED = int(np.flatnonzero(TRACE.unfinished.fate == Fate.CANCELLED)[0])
IN_FLIGHT = int(np.flatnonzero(TRACE.unfinished.fate == Fate.IN_FLIGHT)[0])


@pytest.fixture
def command(command: Command) -> Command:
    """`asyncsim trace …` in a fresh folder that holds trace.npz and trace.csv."""
    TRACE.save("trace.npz")
    TRACE.to_csv("trace.csv")
    return partial(command, "trace")


def damage_npz(table: str, name: str, row: int, value: Any) -> None:
    with np.load("trace.npz") as archive:
        arrays = dict(archive)
    key = f"{table}.{name}" if table else name
    if isinstance(value, str):
        value = 99
    arrays[key][row] = value
    np.savez("trace.npz", **arrays)


def damage_csv(table: str, name: str, row: int, value: Any) -> None:
    path = Path("trace.faults.csv" if table == "faults" else "trace.csv")
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    line = row + (len(TRACE) if table == "unfinished" else 0) + 1
    rows[line][rows[0].index(name)] = str(value)
    path.write_text("\n".join(map(",".join, rows)))


# Table, column, row, value, and what the error must name.
DAMAGE = [
    ("", "worker", 20, 9, "`worker`"),
    ("", "worker", 20, -7, "`worker`"),
    ("", "worker", 20, (TRACE.worker[20] + 1) % 4, "the same worker's previous job"),
    ("", "version", 20, 21, "`version` must count"),
    ("", "closes_step", 20, False, "`version` must count"),
    ("", "read_version", 20, TRACE.read_version[20] - 1, "`read_version`"),
    ("", "read_version", 20, 21, "`read_version` must be from 0 to `version`"),
    ("", "pull_version", 20, 0, "`pull_version`"),
    ("", "read_time", 20, np.nan, "`read_time`"),
    ("", "read_time", 20, -1.0, "`read_time` must be finite and not negative"),
    ("", "start_time", 20, 0.0, "`start_time` must not precede `read_time`"),
    ("", "finish_time", 20, 0.0, "`finish_time` must not precede `start_time`"),
    ("", "arrive_time", 20, 0.0, "`arrive_time` must not precede `finish_time`"),
    ("", "serve_time", 20, 0.0, "`serve_time` must not precede `arrive_time`"),
    ("", "commit_time", 20, 0.0, "`commit_time` must not"),
    ("", "commit_time", 20, 1e9, "`commit_time` must not decrease"),
    ("", "commit_time", 20, np.nan, "`commit_time`"),
    ("unfinished", "worker", CANCELLED, 9, "`"),
    ("unfinished", "read_version", CANCELLED, 61, "read_version`"),
    ("unfinished", "end_version", CANCELLED, 0, "end_version`"),
    ("unfinished", "end_time", CANCELLED, 0.0, "end_time`"),
    ("unfinished", "end_time", IN_FLIGHT, 1e9, "end_time` must be infinite for jobs in flight"),
    ("unfinished", "fate", CANCELLED, "canceled", "fate` must be"),
    ("faults", "kind", 0, "crush", "kind` must be"),
    ("faults", "worker", 0, 9, "worker` must be"),
    ("faults", "end_time", 0, 0.0, "`faults.end_time` must not precede `start_time`"),
]


class TestCheck:
    @pytest.mark.parametrize("file", ["trace.npz", "trace.csv"])
    def test_ok_in_one_line(self, command: Command, file: str) -> None:
        done = command("check", file)
        assert (done.status, done.err) == (0, "")
        assert done.out.startswith("ok: 60 commits in 60 steps by 4 workers")
        assert done.out.count("\n") == 1

    @pytest.mark.parametrize("damage", [damage_npz, damage_csv])
    @pytest.mark.parametrize(("table", "name", "row", "value", "words"), DAMAGE)
    def test_finds_damage(
        self, command: Command, damage: Callable[..., None], table: str, name: str, row: int, value: Any, words: str
    ) -> None:
        damage(table, name, row, value)
        file = "trace.npz" if damage is damage_npz else "trace.csv"
        done = command("check", file)
        assert_one_line(done, 1, f"{file}' holds no valid trace", "" if "nan" in str(value) else words)
        if damage is damage_csv and not (table == "" and name in ("version", "closes_step", "worker", "commit_time")):
            line = row + 2 + (len(TRACE) if table == "unfinished" else 0)
            assert f"line {line}" in done.err

    @pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
    @pytest.mark.parametrize("file", ["trace.npz", "trace.csv"])
    def test_finds_a_cut_file(self, command: Command, file: str, share: float) -> None:
        content = Path(file).read_bytes()
        Path(file).write_bytes(content[: int(share * len(content))])
        assert_one_line(command("check", file), 1, file)

    @pytest.mark.parametrize("change", ["lost", "twice", "swapped"])
    def test_finds_rows_out_of_place(self, command: Command, change: str) -> None:
        lines = Path("trace.csv").read_text().splitlines()
        if change == "lost":
            del lines[20]
        elif change == "twice":
            lines.insert(20, lines[20])
        else:
            lines[20:22] = lines[21], lines[20]
        Path("trace.csv").write_text("\n".join(lines))
        assert_one_line(command("check", "trace.csv"), 1, "trace.csv' holds no valid trace", "; line 2")

    def test_finds_another_kind_of_file(self, command: Command) -> None:
        Path("trace.npz").write_bytes(Path("trace.csv").read_bytes())
        assert_one_line(command("check", "trace.npz"), 1, "trace.npz' is a CSV file", "let its name end in .csv")
        Path("trace.npz").write_bytes(b"PK\x03\x04\xff")
        assert_one_line(command("check", "trace.npz"), 1, "trace.npz' is damaged or not a trace file")
        Path("trace.csv").write_bytes(b"PK\x03\x04\xff")
        assert_one_line(command("check", "trace.csv"), 1, "trace.csv' holds no valid trace: it must be UTF-8")

    def test_a_log_needs_two_columns(self, command: Command) -> None:
        Path("log.csv").write_text("worker,commit_time\na,1\nb,2\n")
        assert command("check", "log.csv").out.startswith("ok: 2 commits in 2 steps by 2 workers, 2 s")
        Path("log.csv").write_text("worker,committime\na,1\n")
        assert_one_line(command("check", "log.csv"), 1, "`commit_time` is missing", "Rename `committime`")

    def test_unix_time(self, command: Command) -> None:
        Path("log.csv").write_text("worker,commit_time\na,1700000001.5\nb,1700000002\n")
        assert ", 2 s, " in command("check", "log.csv", "--start", "1.7e9").out
        assert_one_line(
            command("check", "log.csv", "--start=1.8e9"), 1, "`commit_time` must be finite and not negative"
        )
        assert_one_line(command("check", "trace.npz", "--start", "1"), 2, "`--start` is for CSV logs")
        assert_one_line(
            command("check", "log.csv"), 1, "from the start of the run; line 2 has 1700000001.5", "`--start`"
        )
        assert ", 0.5 s, " in command("check", "log.csv", "--start", "first").out
        assert_one_line(command("check", "log.csv", "--start", "frist"), 2, "got 'frist'", "first")
        assert ", 0.5 s, " in command("check", "log.csv", "--start", "1700000001.5").out


class TestInfo:
    def test_json_alone_on_standard_output(self, command: Command) -> None:
        found = json.loads(command("info", "trace.npz", "--json").out)
        assert found == json.loads(command("info", "trace.csv", "--json").out)
        assert found["statistics"]["commits"] == 60
        assert found["statistics"]["fates"]["cancelled"] == (TRACE.unfinished.fate == Fate.CANCELLED).sum()
        assert found["statistics"]["faults"]["crash"] == 1
        assert found["measured"]["mean_staleness"] == TRACE.staleness.mean()
        assert set(found["predicted"]["mean_staleness"]) == {"value", "assumes"}

    def test_table(self, command: Command) -> None:
        simulate(Cluster(8, Exponential(1.0), server=Server(service=Exponential(0.2))), commits=4000).save("queue.npz")
        done = command("info", "queue.npz")
        lines = done.out.splitlines()
        assert (done.status, done.err) == (0, "")
        assert max(map(len, lines)) <= 100
        assert "compute time: mean, cv" in done.out
        assert "mean of compute time, by worker" in done.out
        report = json.loads(command("info", "queue.npz", "--json").out)
        line = next(line for line in lines if line.startswith("mean staleness"))
        assert line.split()[2:] == [f"{report['measured']['mean_staleness']:.4g}", "7", "(1)"]
        notes = [line for line in lines if line.startswith("(")]
        assert {note[4:] for note in notes} == {entry["assumes"] for entry in report["predicted"].values()}

    def test_an_empty_trace(self, command: Command) -> None:
        Trace.from_commits([], workers=2).save("empty.npz")
        assert "commits" in command("info", "empty.npz").out
        assert json.loads(command("info", "empty.npz", "--json").out)["measured"]["mean_staleness"] is None
        assert command("check", "empty.npz").out.startswith("ok: 0 commits")


class TestExport:
    @pytest.mark.parametrize("flags", [("out.csv",), ("out.data", "--format", "csv")])
    def test_there_and_back(self, command: Command, flags: tuple[str, ...]) -> None:
        done = command("export", "trace.npz", *flags)
        assert done == Done(0, f"Wrote {flags[0]}\n", "")
        assert_equal(Trace.from_csv(flags[0]), TRACE)
        assert command("export", "trace.csv", "back.npz").status == 0
        assert_equal(Trace.load("back.npz"), TRACE)

    def test_chrome(self, command: Command) -> None:
        assert command("export", "trace.csv", "out.json").status == 0
        assert json.loads(Path("out.json").read_text())["traceEvents"]

    def test_a_damaged_file_leaves_nothing(self, command: Command) -> None:
        damage_csv("", "version", 20, 21)
        assert_one_line(command("export", "trace.csv", "out.npz"), 1, "holds no valid trace")
        assert not Path("out.npz").exists()

    def test_no_such_folder(self, command: Command) -> None:
        assert_one_line(command("export", "trace.csv", "no/out.npz"), 1, "could not be written", "existing folder")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("Missing command",)),
        (("chek", "trace.npz"), ("No such command 'chek'", "'check'")),
        (("check",), ("Missing argument 'FILE'",)),
        (("check", "none.npz"), ("'none.npz' does not exist",)),
        (("info", "trace.npz", "--jsn"), ("--jsn",)),
        (("export", "trace.npz"), ("Missing argument 'OUT'",)),
        (("export", "trace.npz", "out.txt"), ("OUT must end in .csv, .json or .npz; got 'out.txt'",)),
        (("export", "trace.npz", "out.csv", "--format", "cvs"), ("`--format` must be one of", "Did you mean 'csv'?")),
    ],
)
def test_wrong_usage_is_status_2(command: Command, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    assert_one_line(command(*arguments), 2, *words, "--help")


def test_help(command: Command) -> None:
    text = " ".join(command("--help").out.split())
    for word in ("check", "info", "export", "worker and commit_time"):
        assert word in text


def test_a_run_and_its_tag(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a trace is wanted, the folder of a run will do, and its tag."""
    monkeypatch.setenv("ASYNCSIM_TAGS", "tags.json")
    Path("runs/gem").mkdir(parents=True)
    TRACE.save("runs/gem/trace.npz")
    tags.add("runs/gem", "baseline")
    wanted = command("check", "trace.npz").out
    assert command("check", "runs/gem").out == wanted
    assert command("check", "baseline").out == wanted
    assert_one_line(command("check", "basline"), 2, "Did you mean 'baseline'?")
    assert_one_line(command("check", "runs"), 2, "has no trace.npz. Did you mean 'runs/gem'?")
