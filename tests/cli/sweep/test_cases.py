"""`asyncsim sweep --case`: protocols and rules under names, in tables, pictures and lists of runs."""

import json

import pytest

from tests.cli.commands import assert_one_line

CASES = ("--case", "async:protocol=asynchronous", "--case", "2-async:protocol=k_async,k=2")
LINE = (*CASES, "--case", "sync:protocol=synchronous", "--grid", "seed=0:2", "--commits", "20", "--store", "store")


@pytest.fixture
def cases(command, script):
    found = command("sweep", script, *LINE, "--json")
    assert found.status == 0, found.err
    return json.loads(found.out)


def test_one_command_sweeps_all_protocols(cases):
    assert cases["columns"]["case"] == [case for case in ("async", "2-async", "sync") for _ in range(2)]
    assert cases["columns"]["k"] == [None, None, 2, 2, None, None]


def test_a_table_has_a_dash_where_a_case_lacks_the_field(cases, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    lines = [line.split() for line in command("sweep", "table", "store").out.splitlines()]
    head = next(line for line in lines if "case" in line)
    (row,) = (line for line in lines if line[:1] == ["sync"] and line[head.index("seed")] == "0")
    assert row[head.index("k")] == "–"


def test_runs_are_found_by_the_name_of_their_case(cases, command):
    found = json.loads(command("runs", "store", "--where", "case=2-async", "--json").out)
    assert len(found) == 2


def test_a_picture_has_a_line_for_each_case(cases, command):
    done = command("sweep", "plot", "store", "--x", "case", "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["best"]["columns"]["case"]


def test_each_case_has_its_own_step_sizes(command, script):
    line = ("--case", "GEM:rule=gem,learning_rate=.05,.1", "--case", "DOWNPOUR:rule=downpour,learning_rate=.02")
    found = json.loads(command("sweep", script, *line, "--commits", "20", "--store", "store", "--json").out)
    assert found["columns"]["case"] == ["GEM", "GEM", "DOWNPOUR"]
    assert found["columns"]["learning_rate"] == [0.05, 0.1, 0.02]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--case sync", "`--case sync` must be NAME:FIELD=VALUES in one word"),
        ("--case protocol=synchronous", "must be NAME:FIELD=VALUES in one word"),
        ("--case a:protocl=synchronous", "`--case` names 'protocl', which is not a field. Did you mean `protocol`?"),
        ("--case a:kappa=2 --case a:kappa=3", "`--case` names 'a' twice"),
        ("--case a:kappa=2,kappa=3", "`--case` names 'kappa' twice"),
        ("--case a:kappa=2 --grid kappa=1,2", "`kappa` is set by 'case' and by 'kappa'"),
        ("--case a:kappa=2 --case b:kappa=2.0", "`case` 'a' and 'b' are the same scenario"),
        ("--case a:protocol=synchronous,k=2", "`case` 'a' does not fit: `k` is not a field of"),
    ],
)
def test_wrong_cases_are_refused(command, script, line, message):
    assert_one_line(command("sweep", script, *line.split(), "--store", "store"), 2, message)


def test_a_comparison_of_cases_has_no_columns_of_fields_that_the_case_implies(cases, command):
    compared = command("sweep", "table", "store", "--by", "case")
    assert compared.status == 0, compared.err
    head = next(line.split() for line in compared.out.splitlines() if line.startswith("case"))
    assert "protocol" in head
    assert "k" not in head
    assert "2-async − async: " in compared.out
    assert "sync − async: " in compared.out
    assert "they also differ in protocol, k" in compared.out
    assert " & k & " not in command("sweep", "table", "store", "--by", "case", "--latex").out
    assert " & k & " in command("sweep", "table", "store", "--latex").out
