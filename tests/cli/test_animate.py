"""`asyncsim animate` and `explore`: runs, comparisons and traces as pages, the page with sliders, and refusals."""

from pathlib import Path

import pytest

from asyncsim.animation._page import make_explorable
from tests.cli.commands import Command, Done, assert_one_line
from tests.study.test_load import OWN

pytestmark = pytest.mark.usefixtures("scripts")


def test_runs_comparisons_and_traces_are_animated(command: Command) -> None:
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


def test_an_existing_page_is_named_but_not_opened(command: Command) -> None:
    """Of an experiment, which holds no run of which a page could be made."""
    command("run", "powers.py", "--tag", "powers")
    Path("runs/powers/movie.html").write_text("moving")
    for name in ("runs/powers", "powers"):
        done = command("animate", name)
        assert (done.status, done.err) == (0, "")
        assert done.out.startswith("Page in ")
        assert done.out.endswith("runs/powers/movie.html\n")
    assert Path("runs/powers/movie.html").read_text() == "moving"


def test_a_run_with_parts_of_the_users_is_animated(command: Command) -> None:
    """The schedule is drawn without them, and a landscape with the script that has them."""
    Path("study.py").write_text(OWN)
    command("run", "study.py")
    done = command("animate", "runs/study")
    assert (done.status, done.out.split("\n")[0][:29]) == (0, "Movie(gravity, 4 workers, 0 t")
    assert_one_line(command("animate", "runs/study", "--principal"), 1, "was not rebuilt", "--script FILE")
    done = command("animate", "runs/study", "--principal", "--script", "study.py")
    assert (done.status, done.out[:24]) == (0, "Movie(landscape of gem, ")


def test_wrong_usage_is_one_line(command: Command) -> None:
    command("run", "study.py")
    command("run", "powers.py")
    for line, status, *words in (
        ("animate runs/studdy", 1, "'runs/studdy' does not exist", "'runs/study'"),
        ("animate runs/study --view gravitation", 2, "'gravitation' is not one of 'landscape', 'gravity'"),
        ("animate runs/study --out movie.avi", 2, "`--out` must end in .html, .gif or .mp4", "'.avi'"),
        ("animate runs/study --out no/movie.html", 2, "`--out` must be in a folder that exists; 'no' does not"),
        ("animate runs/study --start 99", 1, "`start` must be before `stop`"),
        ("animate runs/powers --view gravity", 1, "is an experiment, which holds no run"),
        ("explore --out page.gif", 2, "`--out` must end in .html or .htm; 'page.gif' ends in '.gif'"),
        ("explore --out nowhere/page.html", 2, "`--out` must be in a folder that exists; 'nowhere' does not"),
    ):
        assert_one_line(command(*line.split()), status, *words)


@pytest.mark.parametrize(("flags", "name"), [((), "runs/explore.html"), (("--out", "stale.html"), "stale.html")])
def test_explore_writes_a_page(command: Command, flags: tuple[str, ...], name: str) -> None:
    assert command("explore", *flags) == Done(0, f"Page in {name}\n", "")
    assert Path(name).read_text(encoding="utf-8") == make_explorable()
    assert {path.name for path in Path().iterdir()} >= {name.partition("/")[0]}
    assert command("explore", *flags).status == 0  # the same page


def test_explore_replaces_another_file_only_by_force(command: Command) -> None:
    Path("runs").mkdir(exist_ok=True)
    for name, flags in (("runs/explore.html", ()), ("mine.html", ("--out", "mine.html"))):
        Path(name).write_text("my notes")
        assert_one_line(command("explore", *flags), 2, name, "is another file", "--force")
        assert Path(name).read_text() == "my notes"
        assert command("explore", *flags, "--force").status == 0
        assert Path(name).read_text(encoding="utf-8") == make_explorable()


def test_html_writes_an_interactive_report(command: Command) -> None:
    assert command("run", "study.py", "--html").status == 0
    page = Path("runs/study/report.html").read_text(encoding="utf-8")
    assert "<title>gem on quadratic, 4 workers</title>" in page
    done = command("run", "--html", "study.py")  # a flag, not the script's name
    assert "found there" in done.out
    assert Path("runs/study/report.html").read_text(encoding="utf-8") == page
    command("run", "both.py", "--html")
    assert {path.parent.name for path in Path("runs/both").glob("*/report.html")} == {"gem", "downpour"}
    assert_one_line(command("run", "powers.py", "--html"), 2, "`--html` is for scenarios and comparisons")
