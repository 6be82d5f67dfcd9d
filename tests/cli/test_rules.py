"""`asyncsim rules`: the table, one rule in detail, and both as JSON."""

import inspect
import json

import pytest

import asyncsim as asim
from asyncsim.cli._rules import explain
from asyncsim.components._families import FAMILIES, built_in_classes
from tests.cli.commands import assert_one_line

pytestmark = pytest.mark.quick
RULES = built_in_classes("rules")


@pytest.fixture(autouse=True)
def of_the_library_only(monkeypatch):
    """Without the rules and compressors that other tests in this process have defined."""
    for family in ("rules", "compressors", "weights", "step_schedules"):
        monkeypatch.setitem(FAMILIES, family, dict(built_in_classes(family)))


@pytest.fixture
def printed(command):
    """What `asyncsim rules …` prints on standard output."""

    def run(*arguments):
        done = command("rules", *arguments)
        assert done.status == 0
        return done.out

    return run


def summary(name):
    return inspect.getdoc(RULES[name]).splitlines()[0].replace("`", "")


def test_the_table_fits_a_terminal_and_names_every_rule(printed):
    lines = printed().splitlines()
    assert max(map(len, lines[:-2])) <= 80
    heads = [line.split()[0] for line in lines[1:] if line[:1].isalpha()]
    assert heads[: len(RULES)] == sorted(RULES)
    does, made = lines[0].index("summary"), lines[0].index("made for")
    text = "".join(line[does:made].strip() + " " for line in lines[1:])
    purposes = " ".join("".join(line[made:].strip() + " " for line in lines[1:]).split())
    for name, rule in RULES.items():
        assert summary(name) in text
        assert rule.purpose in purposes
        assert rule.purpose == rule.purpose.strip(". ")
        assert len(rule.purpose) <= 60


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_explained_in_full(printed, name):
    text = printed(name)
    words = " ".join(text.split()).replace("first- order", "first-order")  # broken at the hyphen
    assert max(map(len, text.partition("\n@")[0].splitlines())) <= 80
    assert words.startswith(f"{name}: {summary(name)}")
    assert asim.citation(name) in text
    for parameter in inspect.signature(RULES[name]).parameters.values():
        shown = "must be given" if parameter.default is parameter.empty else str(parameter.default)
        assert f"[{shown.lower()}]" in words.lower()
    assert "`" not in text.partition("\n@")[0]


def test_an_explanation_as_json_has_every_part(printed):
    found = json.loads(printed("gem", "--json"))
    assert found["defaults"]["kappa"] == 1.0
    assert found["arguments"]["kappa"].startswith("Amplification")
    assert found["bibtex"] == asim.citation("gem")


def test_an_argument_that_another_rule_describes(printed):
    adag, agn = (json.loads(printed(name, "--json"))["arguments"] for name in ("adag", "agn"))
    assert adag["optimiser"] == agn["optimiser"] != ""
    described = [explain(name)["arguments"] for family in ("rules", "compressors") for name in built_in_classes(family)]
    assert not [text for helps in described for text in helps.values() if text.startswith("As in") or not text]


@pytest.mark.parametrize(("name", "meant"), [("gme", "gem"), ("GEM", "gem"), ("momentum-sgd", "momentum_sgd")])
def test_an_unknown_name_suggests_the_nearest(command, name, meant):
    assert_one_line(command("rules", name), 2, f"There is no rule {name!r}. Did you mean {meant!r}?")


def test_what_changes_a_rule_is_listed_and_explained(printed):
    """Compressors, weights and rules around rules."""
    text, around = printed(), ("compressed", "local", "scheduled", "weighted", "with_proxy")
    for name in (
        *built_in_classes("compressors"),
        *built_in_classes("weights"),
        *built_in_classes("step_schedules"),
        *around,
    ):
        assert f"\n{name} " in text
        assert printed(name).startswith(f"{name}: ")
    assert "window         Local steps between two commits, H: one number, or one per" in printed("local")
    assert asim.citation("cosine_gate") in printed("cosine_gate")
    assert asim.citation(asim.rules.CosineGate(4)) == asim.citation("cosine_gate")


def test_json_lists_required_arguments(printed):
    listed = json.loads(printed("--json"))
    assert set(listed) == set(RULES)
    for name, described in listed.items():
        given = inspect.signature(RULES[name]).parameters
        assert described["required"] == [
            key for key, parameter in given.items() if parameter.default is parameter.empty
        ]
        assert set(described["required"]) | set(described["defaults"]) == set(given)
        for key, default in described["defaults"].items():
            assert default == given[key].default
        assert f"{{{described['citation']}," in asim.citation(name)
