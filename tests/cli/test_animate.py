"""`asyncsim animate`: runs, comparisons and traces as pages, and what cannot be shown."""

from pathlib import Path

import pytest

from tests.cli.commands import Command, assert_one_line

pytestmark = pytest.mark.usefixtures("scripts", "empty_pages")


def test_a_run_a_comparison_and_a_trace(command: Command) -> None:
    command("run", "study.py")
    done = command("animate", "runs/study")
    assert (done.status, done.err) == (0, "")
    page = Path("runs/study/movie.html").read_text(encoding="utf-8")
    assert done.out.startswith("Movie(landscape of gem, 4 workers, 0 to ")  # of two parameters; replayed to record them
    assert "<title>gem on quadratic, 4 workers</title>" in page
    assert command("animate", "runs/study", "--view", "gravity", "--out", "a.html").status == 0
    assert Path("a.html").read_text(encoding="utf-8") != page
    done = command("animate", "runs/study/trace.npz", "--start", "2", "--stop", "9", "--out", "b.html")
    assert done.out.startswith("Movie(gravity, 4 workers, 2 to 9 s)")
    command("run", "both.py")
    done = command("animate", "runs/both", "--out", "c.html")
    assert done.out.startswith("Movie(landscape of gem, downpour, 4 workers, 0 to ")


def test_mistakes(command: Command) -> None:
    command("run", "study.py")
    command("run", "powers.py")
    for arguments, status, words in (
        (("runs/studdy",), 1, ("'runs/studdy' does not exist", "'runs/study'")),
        (("runs/study", "--view", "gravitation"), 2, ("`--view` must be landscape or gravity", "'gravity'")),
        (("runs/study", "--out", "movie.avi"), 2, ("`--out` must end in .html, .gif or .mp4", "'.avi'")),
        (("runs/study", "--out", "no/movie.html"), 2, ("`--out` must be in a folder that exists; 'no' does not",)),
        (("runs/study", "--start", "99"), 1, ("`start` must be before `stop`",)),
        (("runs/powers", "--view", "gravity"), 1, ("is an experiment, which holds no run",)),
    ):
        assert_one_line(command("animate", *arguments), status, *words)


def test_an_interactive_report(command: Command) -> None:
    assert command("run", "study.py", "--html").status == 0
    page = Path("runs/study/report.html").read_text(encoding="utf-8")
    assert "<title>gem on quadratic, 4 workers</title>" in page
    done = command("run", "--html", "study.py")  # a flag, not the script's name
    assert "found there" in done.out
    assert Path("runs/study/report.html").read_text(encoding="utf-8") == page
    command("run", "both.py", "--html")
    assert {path.parent.name for path in Path("runs/both").glob("*/report.html")} == {"gem", "downpour"}
    assert_one_line(command("run", "powers.py", "--html"), 2, "`--html` is for scenarios and comparisons")
