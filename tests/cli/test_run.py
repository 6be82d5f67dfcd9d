"""`asyncsim run`: its output on each stream, the files that it keeps, and its exit status."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim._metrics import KEYS
from asyncsim.cli import _run as cli_run
from asyncsim.cli._progress import Bar
from asyncsim.cli._run import find_script
from tests.cli.commands import COMPARISON, SCRIPT, Command, assert_one_line
from tests.problems import interrupt
from tests.store.problems import content_of

pytestmark = pytest.mark.usefixtures("scripts")


class TestRun:
    @pytest.mark.whole_pages
    def test_a_run_prints_a_table_and_writes_a_folder(self, command: Command) -> None:
        done = command("run", "study.py")
        assert done.status == 0
        for words in ("commits", "200", "mean staleness", "final loss", "diverged", "runs/study"):
            assert words in done.out
        assert "a script may print" not in done.out
        assert Path("runs/study/report.png").is_file()
        assert "--force" in command("run", "study.py").out

    def test_json_alone_on_standard_output(self, command: Command) -> None:
        done = command("run", "study.py", "--json", "--out", "here")
        assert tuple(json.loads(done.out)) == KEYS
        assert json.loads(done.out) == content_of("here/summary.json")

    def test_minutes_are_announced(self, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cli_run, "LEAST_ANNOUNCED", 1e-9)
        assert "\nThis takes at least 0.00034 s.\n" in command("run", "study.py").err
        assert "This takes" not in command("run", "study.py").err  # results are there

    @pytest.fixture
    def asked(self, command: Command, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, str]]:
        """The study of `asyncsim run …`, which is not computed, and its folder."""

        def of(*arguments: str) -> tuple[Any, str]:
            found: list[tuple[Any, str]] = []
            monkeypatch.setattr(cli_run, "run_study", lambda study, name, out, *more, html: found.append((study, out)))
            assert command("run", *arguments).status == 0
            return found[-1]

        return of

    def test_flags_change_fields(self, asked: Callable[..., tuple[Any, str]]) -> None:
        flags = ["--workers", "3", "study.py", "--learning_rate=0.01", "--compute", "exponential", "--commits", "30"]
        study, folder = asked(*flags)
        assert (study.cluster, study.commits) == (asim.Cluster(3, asim.delays.Exponential(1.0)), 30)
        assert study.rule.learning_rate == 0.01
        assert folder == "runs/study,workers=3,compute=exponential,learning_rate=0.01,commits=30"

    def test_flags_of_another_law_are_accepted(self, asked: Callable[..., tuple[Any, str]]) -> None:
        flags = ("--compute", "uniform", "--low", "1", "--high", "2", "--eigenvalues", "1,2,3")
        study, folder = asked("study.py", *flags, "--record", "pi_mean,pi_median=5")
        assert study.cluster.compute == asim.delays.Uniform(1.0, 2.0)
        assert list(study.workload.eigenvalues) == [1.0, 2.0, 3.0]
        assert study.record == {"pi_mean": None, "pi_median": 5}  # None: every commit
        assert folder == "runs/study,compute=uniform,low=1,high=2,eigenvalues=1_2_3,record=pi_mean_pi_median-5"
        assert asked("study.py", "--record", "none")[0].record == {}

    @pytest.mark.parametrize("rule", ["downpour", "agn", "diloco"])
    def test_numbers_by_worker_are_lists(self, asked: Callable[..., tuple[Any, str]], rule: str) -> None:
        flags = ("--rule", rule, "--window", "1,2,3,4", "--bandwidth", "1e6,1e6,2e6,inf", "--upload-bandwidth", "1e5")
        study, folder = asked("study.py", *flags)
        assert study.rule.window == (1, 2, 3, 4)
        assert study.scheduled.local_steps == (1, 2, 3, 4)
        network = study.cluster.network
        assert (network.bandwidth, network.upload_bandwidth) == ((1e6, 1e6, 2e6, float("inf")), 1e5)
        assert folder.endswith(f"upload_bandwidth=100000,rule={rule},window=1_2_3_4")
        assert asked("study.py", "--local-steps", "1,1,1,1")[0].cluster.local_steps == (1, 1, 1, 1)

    def test_the_default_folder_names_the_changes(self, asked: Callable[..., tuple[Any, str]]) -> None:
        for flags, folder in (
            ("--seed 1 --workers 3 --kappa 1.0", "runs/study,workers=3,seed=1"),  # κ was 1 before
            ("--workers 3 --seed 1", "runs/study,workers=3,seed=1"),
            ("--workers 4 --commits 200 --mean 1", "runs/study"),  # nothing was changed
        ):
            assert asked("study.py", *flags.split())[1] == folder

    @pytest.mark.parametrize(
        "first", ["--seed 1 --momentum .5", "--momentum .5 --seed 1", "--rule-momentum .5 --seed 1 --kappa 1"]
    )
    def test_a_changed_folder_is_named_by_all_changes_however_given(self, command: Command, first: str) -> None:
        """In another order, by a longer name of a field, or with the value that it had."""
        assert command("run", "study.py", "--commits", "20", *first.split()).status == 0
        folder = "runs/study,momentum=0.5,commits=20,seed=1"
        assert Path(folder, "scenario.json").is_file()
        assert command("run", folder, "--momentum", ".6").status == 0
        assert Path("runs/study,momentum=0.6,commits=20,seed=1/scenario.json").is_file()

    def test_a_comparison_prints_a_row_for_each_scenario(self, command: Command) -> None:
        both = ("run", "both.py", "--commits-per-worker", "20")
        done = command(*both)
        assert done.status == 0
        assert {"gem", "downpour"} <= set(done.out.split())
        assert Path("runs/both,commits_per_worker=20/downpour/report.png").is_file()
        assert set(json.loads(command(*both, "--json").out)) == {"gem", "downpour"}

    def test_double_precision_is_another_study(self, command: Command) -> None:
        """What `JAX_ENABLE_X64=1` does to the command: the file holds float64, and float32 results are others."""
        asked = ("run", "study.py", "--record", "central=50", "--out", "double")
        with jax.enable_x64(True):
            assert command(*asked).status == 0
        assert json.loads(Path("double/scenario.json").read_text())["precision"] == "float64"
        with np.load("double/run.npz") as file:
            for name in ("loss", "records/central", "state/central", "state/rows"):
                assert file[name].dtype == np.float64
            assert (file["state/central"] != file["state/central"].astype(np.float32)).any()
        assert_one_line(command(*asked), 1, "`out` 'double' holds a different scenario", "--out", "--force")
        assert command(*asked, "--force").status == 0

    def test_an_experiment_prints_its_numbers(self, command: Command) -> None:
        done = command("run", "powers.py", "--count", "3", "--rule", "none")
        assert done.status == 0
        assert done.out.split()[:6] == ["power", "1", "2", "4", "last:", "4"]
        assert "runs/powers" in done.out
        assert json.loads(command("run", "powers.py", "--count", 3, "--rule", "none", "--json").out)["last"] == 4


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("run", "study.py", "--wokers", "3"), ("'--wokers'", "'--workers'?")),
            (("run", "study.py", "--workers", "many"), ("'--workers'", "'many' is not a whole number")),
            (("run", "study.py", "--commits", "0"), ("`commits` must be an integer of at least 1; got 0",)),
            (("run", "study.py", "--rule", "gme"), ("`rule`", "Did you mean 'gem'?")),
            (("run", "study.py", "--record", "pi_median=often"), ("'--record'", "not a list of name or name=number")),
            (("run", "study.py", "--out", ""), ("`--out` must name a folder; got ''",)),
            (("run", "study.py", "more.py"), ("unexpected extra argument", "more.py")),
            (("run", "study.py", "--lr", "1"), ("'--lr'", "'--learning-rate'?")),
            (("run", "study.py", "-n", "3"), ("'-n'", "'--workers'?")),
            (("run", "study.py", "-json"), ("'-json'", "'--json'?")),
            (("run", "study.py", "--rule", "gme", "--help"), ("Did you mean 'gem'?",)),
            (("run", "--help-for", "gme"), ("no law, protocol, rule or workload 'gme'", "gem")),
            (("run", "nowhere.py"), ("'nowhere.py' is not a file", "asyncsim run --help")),
            (("run", "study"), ("'study' is not a file", "Did you mean 'study.py'?")),
            (("run", "stdy.py"), ("Did you mean 'study.py'?",)),
            (("run", "."), ("'.' holds no run",)),
            (("run", "--workers", "3"), ("Missing argument SCENARIO.py",)),
            (("study.py",), ("No such command 'study.py'", "'asyncsim run study.py'?")),
            (("help",), ("No such command 'help'", "'--help'?")),
            (("run",), ("Missing argument SCENARIO.py",)),
            (("rum",), ("No such command 'rum'", "'run'?", "asyncsim --help")),
        ],
    )
    def test_wrong_usage_is_status_2(
        self, command: Command, arguments: tuple[str, ...], words: tuple[str, ...]
    ) -> None:
        assert_one_line(command(*arguments), 2, *words)
        assert not Path("runs").exists()

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("x = (", ("broken.py, line 1", "SyntaxError")),
            ("x = 1\ny = '\0'", ("broken.py, line 2: holds a NUL byte", "Save it as UTF-8")),
            ("\n\n1 / 0", ("broken.py, line 3", "ZeroDivisionError: division by zero")),
            ("import asyncsim as asim\nasim.Cluster(0, asim.delays.Constant(1.0))", ("line 2: `workers` must be",)),
            ("import nosuchmodule", ("broken.py, line 1", "No module named 'nosuchmodule'")),
            ("open('no/such/file')", ("line 1", "No such file or directory: no/such/file")),
            ("raise SystemExit(3)", ("broken.py, line 1", "SystemExit")),
            ("x = 3", ("broken.py defines no `scenario`, `comparison` or", "Write `scenario = asim.Scenario(...)`")),
            ("scenario = 3", ("broken.py defines no `scenario`", "Its `scenario` is of type int; write")),
            (SCRIPT.replace("scenario", "senario"), ("Rename `senario` to `scenario`",)),
            (COMPARISON + "experiment = comparison", ("defines both `experiment` and `comparison`",)),
        ],
    )
    def test_mistakes_of_a_script_name_file_and_line(self, command: Command, text: str, words: tuple[str, ...]) -> None:
        Path("broken.py").write_text(text)
        assert_one_line(command("run", "broken.py"), 1, *words)

    def test_the_script_is_the_first_word_that_is_no_flag(self) -> None:
        for line, place in (("--out x.py study.py", 2), ("--json study.py", 1), ("--help", None)):
            assert find_script(line.split(), cli_run.command.flags) == place


@pytest.mark.parametrize(
    ("part", "flags", "words"),
    [
        ((asim.Scenario, "schedule"), (), "Interrupted. Nothing has been replayed"),
        ((Bar, "update"), (), "commits; the same command continues from there."),
        ((Bar, "update"), ("--force",), "commits; without --force, the same command continues from there."),
    ],
    ids=["schedule", "replay", "replay by force"],
)
def test_an_interrupt_says_how_to_continue(
    command: Command, monkeypatch: pytest.MonkeyPatch, part: Any, flags: Any, words: str
) -> None:
    monkeypatch.setattr(*part, interrupt)
    assert_one_line(command("run", "study.py", *flags), 130, "Interrupted", words)


def test_the_schedule_comes_before_the_replay(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the bar says; on a terminal it is drawn."""
    states: list[tuple[str, float]] = []

    def note(bar: Any, task: Any, *, state: str, completed: float, total: float) -> None:
        states.append((state, completed / total))

    monkeypatch.setattr("rich.progress.Progress.update", note)
    assert command("run", "both.py").status == 0
    assert [state.split(":")[0] for state, _ in states if "schedule" in state] == ["schedule"]  # of both
    assert states[0] == (states[0][0], 1.0)
    assert states[0][0].startswith("schedule: 200 commits in ")
    assert states[1][0].startswith("200 of 200 commits")


def test_a_signal_ends_a_program_in_one_line() -> None:
    """SIGINT is sent by `tests/hostile`; that a kept run is continued is tested with studies."""
    often = "from asyncsim.engine import _chunks\n_chunks.LONGEST = 1024\nimport importlib\n"
    often += "importlib.import_module('asyncsim.study._replay').CHECKPOINT_EVERY = 0.0\n"
    Path("study.py").write_text(often + SCRIPT.replace('print("a script may print")', ""))
    flags = ("--commits", "60000", "--record", "none", "--json", "--out", "runs/study")
    started = subprocess.Popen(
        [sys.executable, "study.py", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not Path("runs/study/run.npz").exists() and started.poll() is None:
        time.sleep(0.001)
    started.send_signal(signal.SIGTERM)
    out, err = started.communicate(timeout=60)
    assert started.returncode == 128 + signal.SIGTERM, (out, err)
    assert err.count("\n") == 1
    assert "of 60,000 commits; the same command continues from there." in err
    assert set(os.listdir("runs/study")) == {"scenario.json", "trace.npz", "run.npz"}
    assert 0 < np.load("runs/study/run.npz")["commits"] < 60_000
