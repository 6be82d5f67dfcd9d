"""Flags made of fields, and the helps that show them."""

import click
import pytest

from asyncsim.cli._command import app
from asyncsim.cli._options import Whole, field_flag
from asyncsim.cli._run import study_command
from asyncsim.cli._source import of_script
from asyncsim.cli._sweep import sweep_options
from asyncsim.scenario._scenario import all_fields
from asyncsim.study._load import study_of
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


def test_help_shows_the_flags_of_a_named_rule(command: Command) -> None:
    text = " ".join(command("run", "study.py", "--help", "--rule=agn", "--compute", "pareto").out.split())
    assert "--window INTEGER" in text
    assert "Step size η, by which the optimiser's updates are multiplied" in text
    assert "[0.05]" in text  # the learning rate is kept
    assert "--minimum NUMBER" in text
    assert "--kappa" not in text
    assert "--cv" not in text
    assert "use --help-for NAME." in text[-30:]


def test_help_for_shows_the_flags_of_a_name(command: Command) -> None:
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


def test_a_line_leaves_its_command_as_it_was() -> None:
    command = study_command(of_script(study_of("study.py"), "study.py"))
    flags = [parameter.name for parameter in command.params]
    context = command.make_context("run", ["--rule", "agn", "--window", "5"])
    assert (context.params["rule"], context.params["window"]) == ("agn", 5)
    assert [parameter.name for parameter in command.params] == flags
    assert "window" not in flags
    assert command.choices == {}


def options_of(command, path=()):
    """Every option of a command and of those below it, with its name in words."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from options_of(command.get_command(click.Context(command), name), (*path, name))
    else:
        yield from ((" ".join((*path, one.opts[0])), one) for one in command.params if isinstance(one, click.Option))


OPTIONS = [
    *options_of(app),
    *((f"sweep {one.opts[0]}", one) for one in sweep_options("")),
    *((f"run {flag.opts[0]}", flag) for flag in map(field_flag, all_fields())),
]


def test_every_option_for_whole_numbers_reads_them_by_one_rule():
    """As 1e3 and 1000.0, which other options and `run` take for bytes; no option has a rule of its own."""
    whole = 0
    for name, option in OPTIONS:
        assert type(option.type) not in (click.IntRange, type(click.INT)), name
        if isinstance(option.type, Whole) or option.type.name == "integer":
            whole += 1
            for text in ("1000", "1e3", "1000.0"):
                value = option.type.convert(text, option, None)
                assert (value, type(value)) == (1000, int), (name, text)
            for text in ("1.5", "1e-3", "inf", "nan", "ten", "1e999"):
                with pytest.raises(click.UsageError) as refused:
                    option.type.convert(text, option, None)
                assert f"{text!r} is not a whole number." in refused.value.message, (name, text)
        elif option.type.name == "integers":
            assert option.type.convert("1e3,8", option, None) == [1000, 8], name
    assert whole > 30


def test_bytes_are_written_as_for_a_run(command: Command) -> None:
    done = command("run", "study.py", "--out", "study")
    assert done.status == 0
    short, long = (command("cost", "study", "--message-bytes", size, "--json") for size in ("1e7", "10000000"))
    assert (short.status, short.out) == (0, long.out)
