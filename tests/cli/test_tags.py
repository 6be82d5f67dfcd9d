"""`asyncsim tag`, `untag`, `retag`, `tags` and `path`: their output and their exit status."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import Command, Done, assert_one_line
from tests.store.problems import write_label


@pytest.fixture(autouse=True)
def a_run(command: Command) -> Path:
    """A folder of results, in the folder of the command, and no tags."""
    place = Path("runs/gem 40")
    place.mkdir(parents=True)
    write_label(place, {"digest": "d"})
    return place


def test_a_tag_is_given_found_renamed_and_removed(command: Command, a_run: Path) -> None:
    place = a_run.absolute()
    assert command("tag", a_run) == Done(0, f"gem 40 → {place}\n", "")
    assert command("path", "gem 40") == Done(0, f"{place}\n", "")
    assert command("retag", "gem 40", "größe") == Done(0, f"größe → {place}\n", "")
    assert command("tag", "größe", "other").status == 0  # a tag of a tag's place
    assert list(json.loads(command("tags", "--json").out)) == ["größe", "other"]
    assert command("tags").out.splitlines()[0] == f"größe  {place}"
    assert command("tags", "--names").out == "größe\nother\n"
    assert command("untag", "größe").status == 0
    assert_one_line(command("path", "größe"), 1, "There is no tag 'größe'.")


def test_failures_have_a_status(command: Command, a_run: Path) -> None:
    command("tag", a_run, "base")
    assert_one_line(command("tag", a_run, "base"), 1, "The tag 'base' exists already", "--move")
    assert_one_line(command("path", "bse"), 1, "Did you mean 'base'?")
    assert_one_line(command("untag", "bse"), 1, "Did you mean 'base'?")
    assert_one_line(command("retag", "base", "a/b"), 1, "must not hold '/'")
    assert_one_line(command("tag", "runs/gm 40"), 1, "Did you mean 'runs/gem 40'?")
    assert_one_line(command("tag"), 2, "Missing argument 'RUN'")
    Path("tags.json").write_text("{")
    for arguments in (("tags",), ("path", "base"), ("tag", a_run, "x")):
        assert_one_line(command(*arguments), 1, "is damaged")


@pytest.mark.filterwarnings("always")
def test_the_list_marks_dangling_and_changed_tags(command: Command, a_run: Path) -> None:
    command("tag", a_run, "base")
    write_label(a_run, {"digest": "e"})
    assert "(changed" in command("tags").out
    done = command("path", "base")
    assert (done.status, done.out) == (0, f"{a_run.absolute()}\n")
    assert "Warning: " in done.err
    write_label(a_run, {"digest": "d"})
    a_run.rename("runs/moved")
    assert "(dangling; seems to have moved to" in command("tags").out
    assert json.loads(command("tags", "--json").out)["base"]["state"] == "dangling"
    assert_one_line(command("path", "base"), 1, "no longer there", "runs/moved")
    command("tag", "runs/moved", "base", "--move")
    assert command("path", "base").out == f"{Path('runs/moved').absolute()}\n"


def test_run_tags_its_folder(command: Command, scripts: None) -> None:
    done = command("run", "study.py", "--kappa", "2", "--tag", "strong")
    assert done.status == 0, done.err
    assert command("path", "strong").out == f"{Path('runs/study,kappa=2').absolute()}\n"
    assert command("run", "study.py", "--kappa", "2", "--tag", "strong").status == 0  # the same folder
    refused = command("run", "study.py", "--kappa", "3", "--tag", "strong")
    assert_one_line(refused, 1, "The tag 'strong' exists already", "asyncsim untag")
    assert not Path("runs/study,kappa=3").exists()
    assert_one_line(command("run", "study.py", "--tag", "a/b"), 2, "must not hold '/'")
