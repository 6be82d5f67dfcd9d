"""`asyncsim show`, and `asyncsim run` of a folder or a tag: runs that are found again."""

import contextlib
import json
import shutil
from pathlib import Path

import pytest

from tests.cli.commands import Command, assert_one_line
from tests.store.problems import content_of

pytestmark = pytest.mark.usefixtures("scripts")


class TestShow:
    def test_a_run_shows_its_summary_and_settings(self, command: Command) -> None:
        command("run", "study.py", "--kappa", "2", "--tag", "strong")
        done = command("show", "strong")
        assert done.status == 0
        for words in ("runs/study,kappa=2: scenario, tagged strong", "final loss", "rule.kappa  "):
            assert words in done.out
        shown = json.loads(command("show", "runs/study,kappa=2", "--json").out)
        assert shown["summary"] == content_of("runs/study,kappa=2/summary.json")
        assert shown["scenario"]["rule"]["kappa"] == 2.0
        assert (shown["state"], shown["tags"]) == ("complete", ["strong"])
        assert shown["origin"]["changes"] == {"kappa": 2.0}

    def test_comparisons_and_experiments_are_shown(self, command: Command) -> None:
        command("run", "both.py")
        command("run", "powers.py")
        assert "downpour" in command("show", "runs/both").out
        assert "power" in command("show", "runs/powers").out
        assert json.loads(command("show", "runs/powers", "--json").out)["experiment"]["arguments"]["count"] == 4

    def test_an_unfinished_run_says_how_to_continue(self, command: Command) -> None:
        command("run", "study.py")
        Path("runs/study/summary.json").unlink()
        assert "interrupted; go on with it: asyncsim run runs/study" in command("show", "runs/study").out
        Path("runs/study/run.npz").unlink()
        assert "no results yet; go on with it" in command("show", "runs/study").out
        Path("runs/study/scenario.json").write_text("{")
        assert json.loads(command("show", "runs/study", "--json").out)["state"] == "damaged"
        assert (
            "Compute it again with its script: asyncsim run SCRIPT.py --out runs/study"
            in command("show", "runs/study").out
        )

    def test_a_folder_without_a_run_is_refused(self, command: Command) -> None:
        Path("runs").mkdir()
        for place in ("nothing", "runs", "study.py"):
            assert_one_line(command("show", place), 1, "`RUN` must be")


class TestRunAgain:
    def test_an_interrupted_run_continues_by_its_folder(self, command: Command) -> None:
        whole = json.loads(command("run", "study.py", "--seed", "3", "--tag", "base", "--json").out)
        Path("study.py").unlink()
        assert json.loads(command("run", "base", "--json").out) == whole
        Path("runs/study,seed=3/run.npz").unlink()
        again = json.loads(command("run", "runs/study,seed=3/", "--json").out)
        assert again["final_loss"] == whole["final_loss"]

    def test_a_changed_run_goes_beside_its_folder(self, command: Command) -> None:
        command("run", "study.py", "--seed", "3", "--tag", "base")
        changed = command("run", "base", "--workers", "5", "--json")
        place = Path("runs/study,workers=5,seed=3")
        assert json.loads(changed.out)["commits"] == 250  # 50 per worker, as the script says
        assert json.loads((place / "scenario.json").read_text())["origin"]["changes"] == {"seed": 3, "workers": 5}
        same = command("run", "study.py", "--workers", "5", "--seed", "3")
        assert f"{place}, found there" in same.out
        shutil.copytree("runs/study,seed=3", "elsewhere/gem40")
        command("run", "elsewhere/gem40", "--kappa", "2")
        assert Path("elsewhere/gem40,kappa=2/summary.json").is_file()
        assert command("run", "elsewhere/gem40", "--out", "copy").status == 0
        assert Path("copy/summary.json").is_file()

    def test_a_member_of_a_comparison_runs_alone(self, command: Command) -> None:
        command("run", "both.py")
        assert "runs/both/gem, found there" in command("run", "runs/both/gem").out
        assert command("run", "runs/both/gem", "--kappa", "2").status == 0
        assert Path("runs/both,gem,kappa=2/summary.json").is_file()
        assert set(json.loads(command("run", "runs/both", "--json").out)) == {"gem", "downpour"}
        assert "runs/both/gem, found there" in command("run", "runs/both/gem/scenario.json").out
        with contextlib.chdir("runs/both"):
            assert "gem, found there" in command("run", "gem").out
            assert command("run", "gem", "--kappa", "3").status == 0
        assert Path("runs/both,gem,kappa=3/summary.json").is_file()
        with contextlib.chdir("runs/both/gem"):
            assert "found there" in command("run", ".").out
            assert command("show", ".").status == 0

    def test_an_unknown_folder_suggests_the_nearest_script(self, command: Command) -> None:
        command("run", "study.py", "--tag", "baseline")
        assert_one_line(command("run", "basline"), 2, "SCENARIO.py must be a script", "Did you mean 'baseline'?")
        assert_one_line(command("run", "runs"), 2, "'runs' holds no run. Did you mean 'runs/study'?")
        assert_one_line(command("run", "runs/study", "--wrokers", "3"), 2, "Did you mean '--workers'?")
