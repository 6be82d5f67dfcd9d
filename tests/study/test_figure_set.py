"""A set of figures: existing results are reused, equal runs give equal bytes, claims are judged."""

import os
from types import SimpleNamespace

import pytest

import asyncsim as asim
from asyncsim.study import figure_set, keep
from asyncsim.study.figure_set import FigureSet, source_files
from tests.study.fake_figure import fake


@pytest.fixture
def calls():
    """The seeds that were computed."""
    return []


@pytest.fixture
def make_set(tmp_path, calls):
    """A set of two figures, which are alike."""

    def make(folder=tmp_path, seeds=1, scale="small", **changes):
        figures = {"one": fake(calls, **changes), "two": fake(calls, **changes)}
        return FigureSet(folder, figures, scale, "nothing is learned", seeds)

    return make


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_second_call_computes_and_draws_nothing(tmp_path, calls, make_set):
    made = make_set(seeds=2).make("one")
    assert (made.computed, made.drawn, calls) == ([0, 1], True, [0, 1])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    again = make_set(seeds=2).make("one")
    assert (again.computed, again.drawn, calls, again.claims) == ([], False, [0, 1], made.claims)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}


def test_equal_runs_give_equal_bytes(tmp_path, make_set):
    for folder in ("a", "b"):
        figures = make_set(tmp_path / folder)
        figures.conclude([figures.make("one")])
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    names = {str(path) for path in contents(tmp_path / "a")}
    assert names >= {"one.pdf", "one.png", "one_curve.csv", "one_final.csv", "summary.md", "figures.json"}


def test_a_further_seed_is_added_to_the_existing_ones(tmp_path, make_set):
    make_set(seeds=1).make("one")
    made = make_set(seeds=3).make("one")
    assert (made.computed, made.drawn) == ([1, 2], True)
    assert (tmp_path / "one_final.csv").read_text() == "seed,loss\n0,0\n1,0.333333\n2,0.666667\n"


def test_a_lost_picture_is_drawn_again_without_computing(tmp_path, make_set):
    make_set().make("one")
    picture = (tmp_path / "one.png").read_bytes()
    (tmp_path / "one.png").unlink()
    made = make_set().make("one")
    assert (made.computed, made.drawn) == ([], True)
    assert (tmp_path / "one.png").read_bytes() == picture


def test_a_damaged_file_is_replaced(tmp_path, calls, make_set):
    make_set().make("one")
    before = contents(tmp_path)
    for name in ("numbers/one_seed0.npz", "one.png", "one_final.csv"):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:10])
        assert make_set().make("one").drawn == (name[0] == "o")
        assert contents(tmp_path) == before
    assert calls == [0, 0]


def test_other_code_other_runs_and_forgetting_compute_again(make_set, monkeypatch):
    figures = make_set()
    figures.make("one")
    assert figures.read("one", 0) is not None
    figures.forget(["one"])
    assert figures.read("one", 0) is None
    assert figures.make("one").computed == [0]
    with monkeypatch.context() as patch:
        patch.setattr(figure_set, "source_digest", lambda module: "other")
        assert figures.read("one", 0) is None
    replayed = {"it": SimpleNamespace(digest="another")}
    assert make_set(scenarios=lambda scale, seed: replayed).make("one").computed == [0]


def test_a_folder_holds_one_scale(make_set):
    make_set().make("one")
    with make_set().claim():
        pass
    with (
        pytest.raises(ValueError, match=r"`out` .* holds figures of scale small\. Choose another folder"),
        make_set(scale="large").claim(),
    ):
        pass


def test_one_process_at_a_time(tmp_path, make_set, monkeypatch):
    monkeypatch.setattr(keep, "PATIENCE", 0.0)
    left = tmp_path / "numbers" / f".one_seed0.npz.{'0' * 16}.tmp"
    left.parent.mkdir()
    left.write_bytes(b"half")
    with make_set().claim():
        assert not left.exists()  # its writer was killed
        with pytest.raises(ValueError, match=f"`out` .* is in use by process {os.getpid()}"), make_set().claim():
            pass
    with make_set().claim():
        make_set().make("one")
    assert not [path for path in contents(tmp_path) if path.name.endswith(("lock", "holder"))]


def test_a_missing_figure_is_an_error_that_suggests_the_nearest(make_set):
    with pytest.raises(ValueError, match=r"no figure 'tow'\. Did you mean `two`\? The figures are one, two\."):
        make_set().find("tow")


def test_the_summary_tells_seeds_and_versions(tmp_path, make_set):
    figures = make_set(seeds=3)
    figures.conclude([figures.make("one")])
    text = (tmp_path / "summary.md").read_text()
    assert f"asyncsim {asim.__version__}" in text
    assert "nothing is learned. " in text
    assert "| one | it is small | by looking | 3 | **does not hold** |" in text


def test_the_summary_keeps_the_figures_made_before(tmp_path, make_set):
    first, then = make_set(), make_set()
    first.conclude([first.make("two")])
    then.conclude([then.make("one")])
    rows = (tmp_path / "summary.md").read_text().splitlines()[-2:]
    assert [row.split(" | ")[0] for row in rows] == ["| one", "| two"]
    more = make_set(seeds=3)
    more.conclude([more.make("one")])
    rows = (tmp_path / "summary.md").read_text().splitlines()[-2:]
    assert [row.split(" | ")[3] for row in rows] == ["3", "1"]  # each judged by the seeds that it is drawn with


def test_the_subtitle_names_task_seeds_and_note(make_set):
    assert make_set(seeds=1).subtitle("one", 1) == "nothing is learned; 1 seed"
    changes = {"task": lambda scale: f"digits, {scale}", "note": lambda scale: "in red", "SEEDS_SHOWN": "their mean"}
    assert make_set(**changes).subtitle("one", 2) == "digits, small; 2 seeds: their mean; in red"


def test_the_code_of_a_figure_is_its_module_and_what_it_imports_of_its_package(tmp_path):
    package = tmp_path / "pictures"
    (package / "common").mkdir(parents=True)
    code = {
        "__init__": "",
        "first": "import numpy\nfrom pictures import second\nfrom outside import thing",
        "second": "from pictures.common.colours import RED",
        "third": "from pictures import first",
        "common/__init__": "",
        "common/colours": "RED = 1",
    }
    for name, text in code.items():
        (package / f"{name}.py").write_text(text)
    (tmp_path / "outside.py").write_text("")
    found = {str(path.relative_to(package)) for path in source_files(package / "first.py")}
    assert found == {"__init__.py", "first.py", "second.py", "common/colours.py"}
