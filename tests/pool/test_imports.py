"""Classes of the user's that only a run of their file makes: they are imported in the processes of a sweep."""

import dataclasses
import json
import multiprocessing
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.components import _code_hash as code
from asyncsim.components._user_files import own_modules
from asyncsim.pool import _imports as imports
from asyncsim.pool._parcels import Packer, dumps, unpack
from asyncsim.study._load import study_of
from tests.pool import own_classes as own
from tests.problems import assert_refused


@pytest.fixture(scope="module")
def alone() -> dict[str, list[float]]:
    """Name -> losses, of each workload in this process."""
    return {name: asim.run(scenario).run.loss.tolist() for name, scenario in own.SCENARIOS.items()}


def test_classes_of_a_module_in_a_sweep_on_two_processes(alone: dict[str, list[float]]) -> None:
    assert own.swept(*own.SCENARIOS) == alone


def test_classes_of_a_program_in_a_sweep_on_two_processes(alone: dict[str, list[float]]) -> None:
    names = ["equinox", "values"]
    done = subprocess.run([sys.executable, own.__file__, *names], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {name: alone[name] for name in names}


def test_classes_of_a_script_of_the_command(alone: dict[str, list[float]]) -> None:
    scenario = study_of(own.__file__)
    assert isinstance(scenario, asim.Scenario)
    (result,) = asim.sweep([scenario], jobs=1)
    assert result.run.loss.tolist() == alone["equinox"]


def described_again(folder: Path, name: str) -> list[str]:
    """Digests of scenarios in a parcel, computed from what has arrived."""
    return [dataclasses.replace(scenario).digest for scenario in unpack(folder, name)]


def test_digests_are_the_same_in_another_process(tmp_path: Path) -> None:
    modules = [module for module in own_modules() if module.__name__ == own.__name__]
    name = Packer(tmp_path, modules, code.hash_reachable).pack([*own.SCENARIOS.values()])
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        digests = executor.submit(described_again, tmp_path, name).result()
    assert digests == [scenario.digest for scenario in own.SCENARIOS.values()]


def sent(value: Any) -> bytes:
    return dumps(value, [own], code.hash_reachable)


def test_ordinary_classes_travel_by_value() -> None:
    assert b"own_classes.py" in sent(own.Scaled)
    for kind in (own.Pair, own.Color, own.Slotted, own.Attr, own.Held, own.Done, own.Own):
        assert not imports.needs_import(kind)
        assert b"_imports" not in sent(kind)


def test_a_class_stays_one_class_if_another_is_imported() -> None:
    """With instances that travel by value their classes would be others than those that the imported code names."""
    kinds = [own.Scaled, own.Duty, own.Done, own.Color]
    assert pickle.loads(sent(kinds)) == kinds
    assert pickle.loads(sent([own.Scaled, own.again]))[1] is own.again


@jax.tree_util.register_pytree_node_class
class Changed:
    FACTOR = 1.0

    def __init__(self, x: Any) -> None:
        self.x = x

    def tree_flatten(self) -> Any:
        return (self.FACTOR * self.x,), None

    @classmethod
    def tree_unflatten(cls, _: Any, children: Any) -> Any:
        return cls(*children)


def test_a_value_that_the_session_has_changed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    content = dumps(Changed, [sys.modules[__name__]], code.hash_reachable)
    assert pickle.loads(content) is Changed
    monkeypatch.setattr(Changed, "FACTOR", 2.0)
    assert_refused(lambda: pickle.loads(content), "'Changed' of .* reaches a global or an attribute that the session")


def test_a_file_that_is_missing_or_differs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "study_of_classes.py"
    path.write_text("import jax\n\n@jax.tree_util.register_static\nclass Own:\n    factor = 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    import study_of_classes  # type: ignore[import-not-found]

    monkeypatch.setitem(sys.modules, "study_of_classes", study_of_classes)
    content = dumps(study_of_classes.Own, [study_of_classes], code.hash_reachable)
    path.write_text(path.read_text().replace("1.0", "2.0"))
    assert_refused(lambda: pickle.loads(content), "'Own' of .* the file differs")
    path.unlink()
    assert_refused(lambda: pickle.loads(content), "'Own' of .* the file is not there")


def test_a_class_that_no_file_defines_is_refused_before_anything_is_computed() -> None:
    @jax.tree_util.register_static
    class Local:
        pass

    message = "`scenarios` cannot be sent to other processes: the class '.*Local' must be imported there"
    assert_refused(lambda: sent(Local), message)


def test_a_program_without_a_guard_is_refused() -> None:
    with imports._importing("own_classes", own.__file__), pytest.raises(RuntimeError, match="if __name__ =="):
        asim.sweep([own.scenario], jobs=0)
    np.testing.assert_equal(imports._running, [])
