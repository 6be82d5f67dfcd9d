"""`asyncsim trace`: its findings, its output on each stream, and its exit status."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

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


@pytest.fixture
def command(command: Command) -> Command:
    """`asyncsim trace …` in a fresh folder that holds trace.npz and trace.csv."""
    TRACE.save("trace.npz")
    TRACE.to_csv("trace.csv")
    return partial(command, "trace")


class TestCheck:
    @pytest.mark.parametrize("file", ["trace.npz", "trace.csv"])
    def test_ok_in_one_line(self, command: Command, file: str) -> None:
        done = command("check", file)
        assert (done.status, done.err) == (0, "")
        assert done.out.startswith("ok: 60 commits in 60 steps by 4 workers")
        assert done.out.count("\n") == 1

    def test_a_damaged_trace_fails_the_check(self, command: Command) -> None:
        """Which damage is found is tested with traces. A damaged file is not exported."""
        with np.load("trace.npz") as archive:
            arrays = dict(archive)
        arrays["version"][20] = 21
        np.savez("trace.npz", **arrays)
        for arguments in (("check", "trace.npz"), ("export", "trace.npz", "out.csv")):
            assert_one_line(command(*arguments), 1, "trace.npz' holds no valid trace", "`version` must count")
        assert not Path("out.csv").exists()

    def test_a_file_of_another_kind_is_refused(self, command: Command) -> None:
        Path("trace.npz").write_bytes(Path("trace.csv").read_bytes())
        assert_one_line(command("check", "trace.npz"), 1, "trace.npz' is a CSV file", "let its name end in .csv")

    def test_a_log_in_unix_time_has_a_start(self, command: Command) -> None:
        Path("log.csv").write_text("worker,commit_time\na,1700000001.5\nb,1700000002\n")
        assert ", 2 s, " in command("check", "log.csv", "--start", "1.7e9").out
        assert_one_line(command("check", "trace.npz", "--start", "1"), 2, "`--start` is for logs")
        assert_one_line(
            command("check", "log.csv"), 1, "from the start of the run; line 2 has 1700000001.5", "`--start`"
        )
        assert ", 0.5 s, " in command("check", "log.csv", "--start", "first").out
        assert_one_line(command("check", "log.csv", "--start", "frist"), 2, "got 'frist'", "first")

    @pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".json", ".log"])
    def test_a_log_of_any_kind_with_names_of_its_own(self, command: Command, suffix: str) -> None:
        """In milliseconds."""
        rows = [("b", 1, 1500), ("a", 2, 2500), ("b", 3, 4250)]
        if suffix == ".json":
            text = json.dumps([dict(zip(("host", "loss", "pushed_at"), row, strict=True)) for row in rows])
        elif suffix == ".jsonl":
            text = "\n".join(f'{{"host": "{host}", "loss": {loss}, "pushed_at": {time}}}' for host, loss, time in rows)
        else:
            text = "\n".join("\t".join(map(str, row)) for row in [("host", "loss", "pushed_at"), *rows])
        Path(f"log{suffix}").write_text(text)
        flags = ("--columns", "worker=host, commit_time=pushed_at", "--unit", "ms")
        assert command("check", f"log{suffix}", *flags).out.startswith("ok: 3 commits in 3 steps by 2 workers, 4.25 s")
        report = json.loads(command("info", f"log{suffix}", *flags, "--json").out)
        assert (report["names"], report["notes"]) == (["a", "b"], ["Column 'loss' was ignored."])
        assert command("check", f"log{suffix}", *flags).out.endswith("\n\nColumn 'loss' was ignored.\n")

    @pytest.mark.parametrize(
        ("flags", "words"),
        [
            (("--columns", "worker"), "`--columns` must be NAME=COLUMN,…; got 'worker'"),
            (("--columns", "worker=a,worker=b"), "`--columns` must be NAME=COLUMN,…; got 'worker=b'"),
            (("--start", "soon"), "`start` must be a number, a date (ISO 8601) or 'first'; got 'soon'"),
            (("--unit", "min"), "'min' is not one of 's', 'ms', 'us', 'ns'"),
        ],
    )
    def test_wrong_options_of_a_log_are_refused(self, command: Command, flags: tuple[str, str], words: str) -> None:
        assert_one_line(command("check", "trace.csv", *flags), 2, words)
        assert_one_line(command("check", "trace.npz", "--unit", "ms"), 2, "`--unit` is for logs; got 'trace.npz'")


class TestInfo:
    def test_json_alone_on_standard_output(self, command: Command) -> None:
        found = json.loads(command("info", "trace.npz", "--json").out)
        assert found == json.loads(command("info", "trace.csv", "--json").out)
        assert found["statistics"]["commits"] == 60
        assert found["statistics"]["fates"]["cancelled"] == (TRACE.unfinished.fate == Fate.CANCELLED).sum()
        assert found["statistics"]["faults"]["crash"] == 1
        assert found["measured"]["mean_staleness"] == TRACE.staleness.mean()
        assert set(found["predicted"]["mean_staleness"]) == {"value", "assumes"}

    def test_the_table_has_measured_and_predicted_numbers(self, command: Command) -> None:
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

    def test_an_empty_trace_has_a_report(self, command: Command) -> None:
        Trace.from_commits([], workers=2).save("empty.npz")
        assert "commits" in command("info", "empty.npz").out
        assert json.loads(command("info", "empty.npz", "--json").out)["measured"]["mean_staleness"] is None
        assert command("check", "empty.npz").out.startswith("ok: 0 commits")

    def test_names_and_notes_follow_the_tables(self, command: Command) -> None:
        names = tuple(f"node-{number}" for number in range(12))
        replace(Trace.from_commits(range(12)), names=names, notes=("One note.", "Another.")).save("named.npz")
        lines = command("info", "named.npz").out.splitlines()
        assert lines[-5:] == [f"Workers: {', '.join(names[:8])} and 4 more", "", "One note.", "", "Another."]
        report = json.loads(command("info", "named.npz", "--json").out)
        assert (report["names"], report["notes"]) == ([*names], ["One note.", "Another."])


class TestExport:
    @pytest.mark.parametrize("flags", [("out.csv",), ("out.data", "--format", "csv")])
    def test_an_exported_trace_is_read_unchanged(self, command: Command, flags: tuple[str, ...]) -> None:
        done = command("export", "trace.npz", *flags)
        assert done == Done(0, f"Wrote {flags[0]}\n", "")
        assert_equal(Trace.from_csv(flags[0]), TRACE)
        assert command("export", "trace.csv", "back.npz").status == 0
        assert_equal(Trace.load("back.npz"), TRACE)

    def test_a_chrome_file_is_json(self, command: Command) -> None:
        assert command("export", "trace.csv", "out.json").status == 0
        assert json.loads(Path("out.json").read_text())["traceEvents"]

    def test_a_missing_folder_is_an_error(self, command: Command) -> None:
        assert_one_line(command("export", "trace.csv", "no/out.npz"), 1, "could not be written", "existing folder")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "Missing command"),
        ("chek trace.npz", "No such command 'chek'. Did you mean 'check'?"),
        ("check", "Missing argument 'FILE'"),
        ("check none.npz", "'none.npz' does not exist"),
        ("info trace.npz --jsn", "--jsn"),
        ("export trace.npz", "Missing argument 'OUT'"),
        ("export trace.npz out.txt", "OUT must end in .csv, .json or .npz; got 'out.txt'"),
        ("export trace.npz out.csv --format cvs", "'cvs' is not one of 'csv', 'chrome', 'npz'"),
    ],
)
def test_wrong_usage_is_status_2(command: Command, line: str, words: str) -> None:
    assert_one_line(command(*line.split()), 2, words, "--help")


def test_the_folder_of_a_run_stands_for_its_trace(command: Command) -> None:
    """Where a trace is wanted, the folder of a run will do, and its tag."""
    Path("runs/gem").mkdir(parents=True)
    TRACE.save("runs/gem/trace.npz")
    tags.add("runs/gem", "baseline")
    wanted = command("check", "trace.npz").out
    assert command("check", "runs/gem").out == wanted
    assert command("check", "baseline").out == wanted
    assert_one_line(command("check", "basline"), 2, "Did you mean 'baseline'?")
    assert_one_line(command("check", "runs"), 2, "has no trace.npz. Did you mean 'runs/gem'?")
