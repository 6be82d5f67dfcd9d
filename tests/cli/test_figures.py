"""`asyncsim figures`: its output, and how it ends."""

import json
import sys
from functools import partial
from pathlib import Path

import pytest

from asyncsim.cli import _source as script
from figures import catalogue
from tests.cli.commands import assert_one_line
from tests.figures.fake_figure import fake
from tests.problems import interrupt

NAMES = tuple(catalogue.FIGURES)


@pytest.fixture
def command(command):
    """`asyncsim figures …` in a fresh folder."""
    return partial(command, "figures")


class TestCommand:
    @pytest.fixture(autouse=True)
    def fast_figures(self, monkeypatch):
        """All figures are fakes."""
        self.figures = {name: fake() for name in NAMES}
        monkeypatch.setattr(catalogue, "FIGURES", self.figures)

    def test_claims_are_printed_as_json_and_as_a_table(self, command, tmp_path):
        status, out, err = command("figure3", "--seeds", 2, "--json")
        assert status == 0
        claim = {"says": "it is small", "judged": "by looking", "measured": "2", "holds": True}
        assert json.loads(out) == {"figure3": {"claims": [claim]}}
        assert err == "figure3: computed 2 seeds\n"
        assert (tmp_path / "runs/figures/quick/figure3.pdf").read_bytes()[:4] == b"%PDF"
        status, out, err = command("figure3")
        assert (status, err) == (0, "figure3: computed 1 seed\n")
        assert out.splitlines()[0] == "figure3  does not hold  it is small"
        assert "runs/figures/quick/summary.md" in out
        assert command("figure3")[2] == "figure3: there already\n"
        assert command("figure3", "--force")[2] == "figure3: computed 3 seeds\n"

    def test_the_list_has_a_line_for_each_figure(self, command):
        status, out, err = command("--list")
        assert (status, err) == (0, "")
        assert [line.split()[0] for line in out.splitlines()] == list(NAMES)
        assert all(line.endswith("  A figure") for line in out.splitlines())
        assert json.loads(command("--list", "figure3", "--json")[1]) == {"figure3": "A figure"}
        assert not Path("runs").exists()

    def test_all_figures_are_the_default(self, command, monkeypatch):
        monkeypatch.setattr(catalogue, "FIGURES", dict([*self.figures.items()][:2]))
        assert command("--seeds", 1)[2].count("computed 1 seed\n") == 2

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["figur3"], "There is no figure 'figur3'. Did you mean `figure3`?"),
            (["--seeds", "0"], "0 is not in the range x>=1"),
            (["--scale", "large"], "'large' is not one of 'quick', 'paper'"),
        ],
    )
    def test_wrong_usage_is_one_line(self, command, arguments, message):
        assert_one_line(command(*arguments), 2, message)

    def test_ctrl_c_says_how_to_go_on(self, command):
        self.figures["energy"] = fake(compute=interrupt)
        status, out, err = command("figure1", "energy")
        assert (status, out) == (130, "")
        assert "Interrupted; the same command continues from there." in err
        assert "| figure1 | it is small" in Path("runs/figures/quick/summary.md").read_text()


def test_figures_need_a_clone(command, monkeypatch, tmp_path):
    for name in [name for name in sys.modules if name.partition(".")[0] == "figures"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(script, "__file__", str(tmp_path / "site-packages" / "asyncsim" / "cli" / "script.py"))
    assert_one_line(command("--list"), 1, "The figures are part of the repository, not of the installed package")
