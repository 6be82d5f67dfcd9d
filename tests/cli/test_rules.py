"""`asyncsim rules`: one line a rule, and the same as JSON."""

import inspect
import json

import pytest

import asyncsim as asim
from asyncsim.rules import CONSTRUCTORS


@pytest.fixture
def printed(capsys):
    """What `asyncsim rules …` prints on standard output."""

    def run(*flags):
        with pytest.raises(SystemExit) as left:
            asim.main(arguments=["rules", *flags])
        assert left.value.code == 0
        return capsys.readouterr().out

    return run


def test_one_line_a_rule(printed):
    lines = printed().splitlines()
    assert [line.partition("(")[0] for line in lines] == sorted(CONSTRUCTORS)
    for line, name in zip(lines, sorted(CONSTRUCTORS), strict=True):
        assert inspect.getdoc(CONSTRUCTORS[name]).splitlines()[0] in line
        assert line.endswith("]"), "no citation"


def test_json_says_what_must_be_given(printed):
    listed = json.loads(printed("--json"))
    assert set(listed) == set(CONSTRUCTORS)
    for name, described in listed.items():
        given = inspect.signature(CONSTRUCTORS[name]).parameters
        assert described["required"] == [
            key for key, parameter in given.items() if parameter.default is parameter.empty
        ]
        assert set(described["required"]) | set(described["defaults"]) == set(given)
        for key, default in described["defaults"].items():
            assert default == given[key].default
        assert f"{{{described['citation']}," in asim.citation(name)


def test_it_is_in_the_help(capsys):
    with pytest.raises(SystemExit):
        asim.main(arguments=["--help"])
    assert "rules" in capsys.readouterr().out
