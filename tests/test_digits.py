"""`python -m tests.digits` notices a changed number and cases that are new or gone, and its tables are complete."""

import ast
import math
import subprocess
from pathlib import Path

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.components._families import FAMILIES, is_ours
from tests import tables
from tests.delays.laws import LAWS
from tests.digits import __main__ as command
from tests.digits import bits, cases
from tests.digits.compute import compute_case
from tests.digits.numbers import hash_part
from tests.digits.problems import WORKLOADS

RUN = "replays/downpour on quadratic, plain"
ROOT = Path(__file__).parents[1]


@pytest.fixture
def known(monkeypatch):
    """Compute two cases in this process, whatever is asked for."""
    chosen = {RUN: cases.all_cases()[RUN], "theory/mean": lambda: {"value": asim.theory.staleness_mean(workers=4)}}
    monkeypatch.setattr(command, "compute", lambda *_: {name: compute_case(make) for name, make in chosen.items()})
    return chosen


def compared(capsys, *words):
    """Return the status of the command, and the lines that it prints."""
    status = command.main(words)
    return status, capsys.readouterr().out.splitlines()


def test_equal_numbers_give_status_0(known, capsys, tmp_path):
    file = str(tmp_path / "known.json")
    assert command.main(["--out", file]) == 0
    assert f"{RUN} loss " in capsys.readouterr().out
    assert compared(capsys, "--against", file) == (0, ["0 of 2 cases differ, 0 are new, 0 are gone"])


def test_a_changed_number_is_reported_with_its_part_and_the_difference(known, capsys, tmp_path):
    file = str(tmp_path / "known.json")
    command.main(["--out", file])
    known[RUN] = lambda: cases.replay(tables.cluster(), asim.rules.Downpour(0.1001), WORKLOADS["quadratic"]())
    capsys.readouterr()
    status, (line, count) = compared(capsys, "--against", file)
    assert status == 1
    assert line.startswith(f"differs  {RUN}: loss ")
    assert "central" in line
    assert "schedule" not in line
    assert 1e-5 < float(line.split("loss ")[1].split(",")[0]) < 0.1
    assert count == "1 of 2 cases differ, 0 are new, 0 are gone"


def test_cases_that_one_side_cannot_compute_are_new_or_gone(known, capsys, tmp_path):
    def refuse():
        raise ValueError("`k` must be at least 1.")

    file = str(tmp_path / "known.json")
    known["theory/new"] = refuse
    command.main(["--out", file])
    known |= {"theory/new": known["theory/mean"], "theory/mean": refuse}
    capsys.readouterr()
    status, lines = compared(capsys, "--against", file)
    assert status == 1
    assert lines == [
        "gone     theory/mean: ValueError: `k` must be at least 1.",
        "new      theory/new: ValueError: `k` must be at least 1.",
        "0 of 2 cases differ, 1 are new, 1 are gone",
    ]


def test_another_revision_is_computed_with_its_own_library_and_these_cases(monkeypatch, tmp_path):
    """The folder that is compared holds the library of the commit, and the tests as they are here."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "asyncsim").mkdir()
    (tmp_path / "asyncsim" / "__init__.py").write_text("then = 1\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "cases.py").write_text("then = 1\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "then"]):
        subprocess.run([*git, *words], check=True)
    (tmp_path / "asyncsim" / "__init__.py").write_text("now = 1\n")
    (tmp_path / "tests" / "cases.py").write_text("now = 1\n")
    monkeypatch.setattr(command, "ROOT", tmp_path)

    def texts(tree, *_):
        return [(tree / name).read_text() for name in ("asyncsim/__init__.py", "tests/cases.py")]

    monkeypatch.setattr(command, "compute", texts)
    assert command.compute_revision("HEAD", [], False, 1, "") == ["then = 1\n", "now = 1\n"]
    assert command.compute_revision(None, [], False, 1, "") == ["now = 1\n", "now = 1\n"]


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (np.arange(3, dtype=np.int32), np.arange(3, dtype=np.int64), True),  # another width
        (np.float32([0.1]), np.float64([np.float32(0.1)]), True),
        ({"a": 1.0, "name": "x"}, {"a": 1.0, "name": "y"}, True),  # a text
        ({"b": 2.0, "a": 1.0}, {"a": 1.0, "b": 2.0}, True),  # another order of names
        ([np.nan, 1.0], [-np.nan, 1.0], True),
        ([1.0], [math.nextafter(1.0, 2.0)], False),  # the last bit
        ([0.0], [-0.0], False),
        ([1.0, 2.0], [2.0, 1.0], False),
        (np.zeros((2, 3)), np.zeros((3, 2)), False),
    ],
)
def test_a_hash_is_of_numbers_to_the_last_bit_and_of_nothing_else(one, other, equal):
    assert (hash_part(one).hash == hash_part(other).hash) == equal


def test_every_class_that_is_chosen_by_name_is_in_a_case():
    """A new rule, law, protocol, compressor or workload is in the tables, or this test names it."""
    examples = {
        "rules": [make() for make in cases.ALL_RULES.values()],
        "delays": LAWS,
        "protocols": [make() for make in tables.PROTOCOLS.values()],
        "compressors": [make() for make in tables.COMPRESSORS.values()],
        "workloads": [make() for make in WORKLOADS.values()],
    }
    for family, objects in examples.items():
        classes = {cls for cls in FAMILIES[family].values() if is_ours(cls)}
        assert classes - {type(one) for one in objects} == set(), family


def test_every_function_that_draws_and_every_preset_of_rollouts_is_in_a_case():
    assert {name for name in asim.plots.__all__ if name.startswith("draw_")} == set(cases.PICTURES)
    assert set(asim.rollouts.__all__) == set(cases.PRESETS)


def test_cases_use_public_names_only():
    """Private ones are moved from revision to revision."""
    for path in (*(ROOT / "tests" / "digits").glob("*.py"), ROOT / "tests" / "tables.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in getattr(node, "names", []) if hasattr(alias, "name")]
            if isinstance(node, ast.ImportFrom | ast.Import):
                assert not any(part.startswith("_") for name in modules for part in name.split(".")), path


def test_runs_alone_swept_and_resumed_have_equal_bits(capsys, monkeypatch):
    monkeypatch.setattr(bits, "JOBS", (0,))
    assert bits.compare_bits(["downpour on quadratic, plain"]) == 0
    assert capsys.readouterr().out.splitlines() == ["0 of 2 comparisons differ"]
    resume = bits.resume
    monkeypatch.setattr(bits, "resume", lambda scenario: resume(scenario.override(seed=4)))
    assert bits.compare_bits(["downpour on quadratic, plain"]) == 1
    assert capsys.readouterr().out.startswith("differs  downpour on quadratic, plain, resumed: ")
