"""Flags made of fields, and the helps that show them."""

import pytest

from asyncsim.scenario._scenario import all_fields
from tests.cli.commands import Command

pytestmark = pytest.mark.usefixtures("scripts")


def test_help_explains_every_field(command: Command) -> None:
    done = command("run", "--help-for", "all")
    assert done.status == 0
    text = "".join(done.out.split())  # lines are also broken at hyphens
    for field in all_fields():
        assert f"--{field.name.replace('_', '-')}" in text
        assert "".join(field.help.split()) in text


def test_help_of_a_script_shows_present_values(command: Command) -> None:
    text = " ".join(command("run", "study.py", "--help").out.split())
    assert "--workers INTEGER Number of workers n, at least 1. [4]" in text
    assert "[0.05]" in text
    assert "--hidden" not in text


def test_help_of_another_rule(command: Command) -> None:
    text = " ".join(command("run", "study.py", "--help", "--rule=agn", "--compute", "pareto").out.split())
    assert "--window INTEGER" in text
    assert "Step size η, by which the optimiser's updates are multiplied" in text
    assert "[0.05]" in text  # the learning rate is kept
    assert "--minimum NUMBER" in text
    assert "--kappa" not in text
    assert "--cv" not in text
    assert "use --help-for NAME." in text[-30:]


def test_help_for_a_name(command: Command) -> None:
    text = " ".join(command("run", "--help-for", "ringmaster").out.split())
    assert "With --protocol ringmaster: --limit INTEGER" in text
    assert "With --rule ringmaster: --learning-rate NUMBER" in text
    assert "--rule-limit" in text
    assert "no flags of its own" in command("run", "study.py", "--help-for", "asynchronous").out


def test_help_is_short_and_fits(command: Command) -> None:
    lines = command("run", "--help").out.splitlines()
    assert len(lines) < 40
    assert "--learning-rate NUMBER" not in " ".join(lines)
    found_again = ("runs", "show", "compare", "tag", "untag", "retag", "tags", "path", "completion")
    others = ("run", "figures", "rules", "trace", "staleness", *found_again)
    for arguments in ((), ("run", "study.py"), *((name,) for name in others)):
        done = command(*arguments, "-h")
        assert done.status == 0
        assert max(map(len, done.out.splitlines())) <= 80


def test_an_experiments_own_field_is_not_a_component(command: Command) -> None:
    text = " ".join(command("run", "powers.py", "--rule", "other", "--help").out.split())
    assert "--rule NAME A word that is no update rule. [gem]" in text
    assert "--help-for" not in text
