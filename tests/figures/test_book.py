"""The book of figures: what is there is not made again, equal runs give equal bytes, and the command's manners."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import asyncsim as asim
from figures import NAMES
from figures.common import Claim, book, figure, kept, pack, table
from figures.common.book import Book


def fake(calls, **changes):
    """A figure whose numbers are the seed."""

    def compute(scale, seed, runs):
        calls.append(seed)
        return pack(curve={"x": np.arange(3), "y": seed + np.arange(3.0)}, final={"loss": [seed / 3]})

    def draw(page, seeds, scale):
        page.subplots().plot(table(seeds[-1], "curve")["y"])

    def claims(seeds, scale):
        return [Claim("it is small", "by looking", str(len(seeds)), len(seeds) < 3)]

    parts = {"TITLE": "A figure", "SIZE": (4.0, 3.0), "__file__": __file__, "scenarios": lambda scale, seed: {}}
    return SimpleNamespace(**{**parts, "compute": compute, "draw": draw, "claims": claims, **changes})


@pytest.fixture
def calls(monkeypatch):
    """Seeds that were computed by the one figure there is."""
    seeds = []
    monkeypatch.setattr(book, "find", lambda name: fake(seeds))
    return seeds


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TestBook:
    def test_a_second_run_computes_and_draws_nothing(self, tmp_path, calls):
        made = Book(tmp_path, seeds=2).make("one")
        assert (made.computed, made.drawn, calls) == ([0, 1], True, [0, 1])
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        again = Book(tmp_path, seeds=2).make("one")
        assert (again.computed, again.drawn, calls, again.claims) == ([], False, [0, 1], made.claims)
        assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    def test_equal_runs_give_equal_bytes(self, tmp_path, calls):
        for place in ("a", "b"):
            one = Book(tmp_path / place, seeds=1)
            one.conclude([one.make("one")])
        assert contents(tmp_path / "a") == contents(tmp_path / "b")
        names = {str(path) for path in contents(tmp_path / "a")}
        assert names >= {"one.pdf", "one.png", "one_curve.csv", "one_final.csv", "summary.md", "figures.json"}

    def test_another_seed_is_added_to_those_that_are_there(self, tmp_path, calls):
        Book(tmp_path, seeds=1).make("one")
        made = Book(tmp_path, seeds=3).make("one")
        assert (made.computed, made.drawn) == ([1, 2], True)
        assert (tmp_path / "one_final.csv").read_text() == "seed,loss\n0,0\n1,0.333333\n2,0.666667\n"

    def test_what_was_lost_is_drawn_again_without_computing(self, tmp_path, calls):
        Book(tmp_path, seeds=1).make("one")
        picture = (tmp_path / "one.png").read_bytes()
        (tmp_path / "one.png").unlink()
        made = Book(tmp_path, seeds=1).make("one")
        assert (made.computed, made.drawn) == ([], True)
        assert (tmp_path / "one.png").read_bytes() == picture

    def test_a_damaged_file_is_made_again(self, tmp_path, calls):
        Book(tmp_path, seeds=1).make("one")
        before = contents(tmp_path)
        for name in ("numbers/one_seed0.npz", "one.png", "one_final.csv"):
            (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:10])
            assert Book(tmp_path, seeds=1).make("one").drawn == (name[0] == "o")
            assert contents(tmp_path) == before
        assert calls == [0, 0]

    def test_other_code_other_runs_and_forgetting_compute_again(self, tmp_path, calls, monkeypatch):
        one = Book(tmp_path, seeds=1)
        one.make("one")
        assert one.missing(["one"]) == []
        one.forget(["one"])
        assert one.missing(["one"]) == [("one", 0)]
        assert one.make("one").computed == [0]
        with monkeypatch.context() as patch:
            patch.setattr(kept, "source_digest", lambda module: "other")
            assert one.missing(["one"]) == [("one", 0)]
        replayed = {"it": SimpleNamespace(digest="another")}
        monkeypatch.setattr(book, "find", lambda name: fake(calls, scenarios=lambda scale, seed: replayed))
        assert one.make("one").computed == [0]

    def test_a_folder_is_of_one_scale(self, tmp_path, calls):
        Book(tmp_path).make("one")
        Book(tmp_path).open()
        with pytest.raises(ValueError, match=r"`out` .* holds figures of scale quick\. Choose another folder"):
            Book(tmp_path, "paper").open()

    def test_the_table_of_claims_says_of_how_many_seeds_and_versions(self, tmp_path, calls):
        one = Book(tmp_path, seeds=3)
        one.conclude([one.make("one")])
        text = (tmp_path / "summary.md").read_text()
        assert f"asyncsim {asim.__version__}" in text
        assert "| one | it is small | by looking | 3 | **does not hold** |" in text

    def test_the_table_of_claims_keeps_the_figures_made_before(self, tmp_path, calls):
        first, then = Book(tmp_path, seeds=1), Book(tmp_path, seeds=1)
        first.conclude([first.make("figure3")])
        then.conclude([then.make("figure1")])
        rows = (tmp_path / "summary.md").read_text().splitlines()[-2:]
        assert [row.split(" | ")[0] for row in rows] == ["| figure1", "| figure3"]
        more = Book(tmp_path, seeds=3)
        more.conclude([more.make("figure1")])
        rows = (tmp_path / "summary.md").read_text().splitlines()[-2:]
        assert [row.split(" | ")[3] for row in rows] == ["3", "1"]  # each judged by the seeds that it is drawn with


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_complete(name):
    module = figure.find(name)
    assert module.TITLE
    assert len(module.SIZE) == 2
    for part in ("scenarios", "compute", "claims", "draw"):
        assert callable(getattr(module, part))


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """`asyncsim figures …` in a fresh folder: status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        with pytest.raises(SystemExit) as left:
            asim.main(arguments=["figures", *map(str, arguments)])
        return left.value.code, *capsys.readouterr()

    return run


class TestCommand:
    @pytest.fixture(autouse=True)
    def one_figure(self, monkeypatch):
        """The one figure that there is is fast."""
        self.calls = []
        monkeypatch.setattr(book, "find", lambda name: fake(self.calls))

    def test_json_is_one_object_on_standard_output(self, command, tmp_path):
        status, out, err = command("figure3", "--seeds", 2, "--json")
        assert status == 0
        claim = {"says": "it is small", "judged": "by looking", "measured": "2", "holds": True}
        assert json.loads(out) == {"figure3": {"claims": [claim]}}
        assert err == "figure3: computed 2 seeds\n"
        assert (tmp_path / "runs/figures/quick/figure3.pdf").read_bytes()[:4] == b"%PDF"

    def test_a_second_run_says_that_all_is_there(self, command):
        command("figure3")
        status, out, err = command("figure3")
        assert (status, err) == (0, "figure3: there already\n")
        assert "does not hold" in out
        assert self.calls == [0, 1, 2]

    def test_without_names_all_are_made(self, command):
        assert command("--seeds", 1)[2].count("computed 1 seed\n") == len(NAMES)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["figur3"], "There is no figure 'figur3'. Did you mean `figure3`?"),
            (["--seeds", "0"], "0 is not in the range x>=1"),
            (["--scale", "large"], "'large' is not one of 'quick', 'paper'"),
            (["--out", " "], "`--out` must name a folder"),
        ],
    )
    def test_wrong_usage_is_one_line(self, command, arguments, message):
        status, out, err = command(*arguments)
        assert (status, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1

    def test_ctrl_c_says_how_to_go_on(self, command, monkeypatch):
        def interrupt(*arguments):
            raise KeyboardInterrupt

        broken, figure1 = fake(self.calls, compute=interrupt), fake(self.calls)
        monkeypatch.setattr(book, "find", lambda name: broken if name == "energy" else figure1)
        status, out, err = command("figure1", "energy")
        assert (status, out) == (1, "")
        assert "Interrupted; the same command goes on from there." in err
        assert "| figure1 | it is small" in Path("runs/figures/quick/summary.md").read_text()

    def test_force_begins_anew(self, command):
        command("figure3", "--seeds", 1)
        assert command("figure3", "--seeds", 1, "--force")[2] == "figure3: computed 1 seed\n"
        assert self.calls == [0, 0]

    def test_the_help_names_every_figure(self, command):
        out = " ".join(command("--help")[1].split())
        assert "figure1 to figure10" in out
        assert all(name in out for name in NAMES[10:])

    def test_a_folder_that_cannot_be_made_is_an_error(self, command, tmp_path):
        (tmp_path / "file").write_text("")
        status, _, err = command("figure3", "--out", "file/here")
        assert status == 1
        assert "`out` 'file/here' cannot be made: Not a directory. Choose another folder." in err
