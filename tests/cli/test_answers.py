"""The folders of commands that answer a question: no answer replaces that to another question in silence."""

import json
import math
from pathlib import Path

import pytest

import asyncsim as asim
from asyncsim.cli import _calibrate as calibrate
from asyncsim.reports import stability
from tests.cli.commands import Command, assert_one_line

pytestmark = pytest.mark.usefixtures("scripts")
ASKED = {  # command -> two questions, and the difference between them
    "staleness": ("--commits 200", "--commits 200 --workers 6", "`workers` is 20 there and 6 here"),
    "staleness rollouts": ("--cluster areal --commits 80", "--cluster verl --commits 80", '"areal" there and "verl"'),
    "stability": ("--workers 3", "--workers 3 --kappa .2", "`kappa` is not given there and 0.2 here"),
    "calibrate": ("log.csv --quick", "other.csv --quick", '`log.name` is "log.csv" there and "other.csv" here'),
    "calibrate seed": ("log.csv --quick", "log.csv --quick --seed 1", "`seed` is 0 there and 1 here"),
    "compare": ("runs/one runs/two", "runs/one runs/three", "`runs.three` is not given there"),
    "compare power": ("runs/one runs/two", "runs/one runs/two --power busy=300,idle=60", "`power` is not given there"),
    "run": ("study.py", "study.py --kappa 2", "`rule.kappa` is not given there and 2.0 here"),
}


@pytest.fixture(params=ASKED)
def asked(request: pytest.FixtureRequest, command: Command, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str, str]:
    """Two lines of a command, and the difference between their questions."""
    for name in ("REPORT_SCHEDULES", "MAP_COLUMNS", "MAP_SCHEDULES"):
        monkeypatch.setattr(stability, name, 2)
    monkeypatch.setitem(stability.simulated_floor.__kwdefaults__ or {}, "commits", 1000)
    monkeypatch.setattr("asyncsim.cli._progress.QUIET_SECONDS", math.inf)
    monkeypatch.setattr(calibrate, "what_if", None)
    name = request.param.split()[0]
    one, other, difference = ASKED[request.param]
    if name == "compare":
        for place, kappa in enumerate(("one", "two", "three")):
            assert command("run", "study.py", "--kappa", place + 1, "--out", f"runs/{kappa}").status == 0
    if name == "calibrate":
        cluster = asim.Cluster(3, asim.delays.Gamma(1.0, 0.3))
        for seed, log in enumerate(("log.csv", "other.csv")):
            asim.simulate(cluster, commits=120, seed=seed).to_csv(log)
    return f"{name} {one}", f"{name} {other}", difference


def contents(top: str) -> dict[str, bytes]:
    """Every file below a folder, without the label, which has a date, and the times that a run took."""
    files = (path for path in Path(top).rglob("*") if path.is_file() and path.name not in ("question.json",))
    return {str(path): path.read_bytes() for path in files}


def test_a_folder_refuses_the_answer_to_another_question(command: Command, asked: tuple[str, str, str]) -> None:
    one, other, difference = asked
    assert command(*one.split(), "--out", "here").status == 0
    before = contents("here")
    assert_one_line(command(*other.split(), "--out", "here"), 1, "'here' holds a different", difference, "`--force`")
    assert contents("here") == before
    assert command(*one.split(), "--out", "here").status == 0
    assert contents("here") == before


def test_force_replaces_the_answer(command: Command, asked: tuple[str, str, str]) -> None:
    one, other, _ = asked
    command(*one.split(), "--out", "here")
    assert command(*other.split(), "--out", "here", "--force").status == 0
    assert_one_line(command(*one.split(), "--out", "here"), 1, "holds a different", "`--out`")
    assert not Path("here/.unfinished").exists()


def test_the_default_folder_has_the_difference_in_its_name(command: Command, asked: tuple[str, str, str]) -> None:
    one, other, _ = asked
    for line in (one, other):
        assert command(*line.split()).status == 0
    name = one.split()[0]
    folders = [path for path in Path("runs").iterdir() if path.name.startswith("study" if name == "run" else name)]
    assert len([path for path in folders if any(path.glob("*.json"))]) == 2


def test_one_question_in_two_spellings_has_one_folder(command: Command) -> None:
    for line in ("--commits 200 --compute gamma", "--commits 200 --workers 20 --cv .3 --compute gamma"):
        assert command("staleness", *line.split()).status == 0
    assert [path.name for path in Path("runs").iterdir()] == ["staleness,commits=200"]


def test_a_quick_calibration_keeps_the_picture_with_larger_clusters(command: Command) -> None:
    asim.simulate(asim.Cluster(3, asim.delays.Gamma(1.0, 0.3)), commits=120).to_csv("log.csv")
    Path("here").mkdir()
    assert command("calibrate", "log.csv", "--quick", "--out", "here").status == 0
    Path("here/calibration.png").write_text("larger clusters")
    assert command("calibrate", "log.csv", "--quick", "--out", "here").status == 0
    assert Path("here/calibration.png").read_text() == "larger clusters"


def test_a_folder_refuses_the_answer_of_another_command(command: Command) -> None:
    command("staleness", "--commits", "200", "--out", "here")
    words = '`command` is "staleness" there and "stability" here'
    assert_one_line(command("stability", "--out", "here"), 1, words)


def test_an_answer_without_its_question_is_foreign(command: Command) -> None:
    Path("here").mkdir()
    Path("here/staleness.json").write_text("{}")
    Path("here/notes.txt").write_text("mine")
    line = ("staleness", "--commits", "200", "--out", "here")
    assert_one_line(command(*line), 1, "'here' holds a 'staleness.json' but no 'question.json'", "`--force`")
    assert command(*line, "--force").status == 0
    assert json.loads(Path("here/staleness.json").read_text())["commits"] == 200
    assert Path("here/notes.txt").read_text() == "mine"


def test_pages_of_a_run_do_not_replace_each_other(command: Command) -> None:
    command("run", "study.py")
    for flags in ((), ("--stop", "9"), ("--view", "gravity", "--start", "1")):
        assert command("animate", "runs/study", *flags).status == 0
    names = {path.name for path in Path("runs/study").glob("*.html")}
    assert names == {"movie.html", "movie,stop=9.html", "movie,view=gravity,start=1.html"}
