"""`asyncsim explore`: the page is written to a file, and the command says to which."""

from pathlib import Path

import pytest

from asyncsim.animation._page import make_explorable
from tests.cli.commands import Command, Done, assert_one_line

pytestmark = pytest.mark.usefixtures("scripts")


@pytest.mark.parametrize(("flags", "name"), [((), "explore.html"), (("--out", "stale.html"), "stale.html")])
def test_the_page_is_written(command: Command, flags: tuple[str, ...], name: str) -> None:
    assert command("explore", *flags) == Done(0, f"Page in {name}\n", "")
    assert Path(name).read_text(encoding="utf-8") == make_explorable()


def test_another_ending_or_folder_is_refused(command: Command) -> None:
    assert_one_line(command("explore", "--out", "page.gif"), 2, "`--out` must end in .html", "'page.gif'")
    assert_one_line(command("explore", "--out", "nowhere/page.html"), 1, "The folder does not exist")
