"""The record of a scenario's results: one writer, one reader, one owner of each file."""

import ast
from pathlib import Path

import pytest

import asyncsim as asim
from asyncsim.files import _npz as npz
from asyncsim.study import _result_files as record
from tests.study.problems import assert_same_result, assert_same_run, scenario

STUDY = Path(record.__file__).parent
WRITERS = {"OWNER", "save", "write_label", "run_file", "label_notes"}


@pytest.fixture(scope="module")
def result() -> asim.Result:
    return asim.run(scenario())


def names_in(module: Path) -> set[str]:
    """Names and attributes that a module uses."""
    nodes = [*ast.walk(ast.parse(module.read_text(encoding="utf-8")))]
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


@pytest.mark.parametrize("module", sorted(STUDY.glob("*.py")), ids=lambda path: path.stem)
def test_no_other_module_writes_files_of_an_entry(module: Path) -> None:
    """An experiment has numbers of another form, and the label of an `out` folder is written with its lease."""
    others = {"_result_files": WRITERS, "_experiment": {"OWNER"}, "_run": {"label_notes"}}
    assert names_in(module) & WRITERS <= others.get(module.stem, set())


@pytest.mark.parametrize("summary", [None, {"final_loss": 0.5}])
def test_a_replay_comes_back(result: asim.Result, tmp_path: Path, summary: dict[str, float] | None) -> None:
    """As a checkpoint, which has no summary, or complete."""
    replayed = record.Replayed(result.run, {"wall_seconds": 1.5, "compile_seconds": 0.5}, summary)
    record.write_run(scenario(), replayed, tmp_path / "run.npz")
    found = record.read_run(scenario(), tmp_path / "run.npz")
    assert_same_run(found.run, result.run)
    assert found[1:] == replayed[1:]


def test_a_replay_of_another_scenario_is_refused(result: asim.Result, tmp_path: Path) -> None:
    record.write_run(scenario(seed=1), record.Replayed(result.run, {}), tmp_path / "run.npz")
    with pytest.raises(ValueError, match="is not the run of this scenario"):
        record.read_run(scenario(), tmp_path / "run.npz")


@pytest.mark.parametrize("shared", [False, True])
def test_a_schedule_belongs_to_its_scenario_or_to_all_that_share_it(
    result: asim.Result, tmp_path: Path, shared: bool
) -> None:
    path = tmp_path / "trace.npz"
    record.write_trace(scenario(), result.trace, path, shared=shared)
    assert npz.read_notes(path)[npz.OWNER] == (scenario().schedule_digest if shared else scenario().digest)
    assert record.read_trace(scenario(), path).digest == result.trace.digest
    other = scenario(learning_rate=0.01)  # of the same schedule
    if shared:
        assert record.read_trace(other, path).digest == result.trace.digest
    else:
        with pytest.raises(ValueError, match="is not the trace of this scenario"):
            record.read_trace(other, path)


def test_a_folder_and_an_entry_read_alike(result: asim.Result, tmp_path: Path) -> None:
    """Though a store leaves out what only resumes a run."""
    asim.run(scenario(), tmp_path / "out", picture=False)
    asim.sweep([scenario()], tmp_path / "store", jobs=0)
    for folder in (tmp_path / "out", tmp_path / "store" / scenario().digest):
        found = record.read_result(scenario(), folder)
        assert_same_result(found, result)
        assert found.trace.digest == result.trace.digest
