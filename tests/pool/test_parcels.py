"""Parcels: objects that travel to other processes arrive whole, small and as the session has them."""

import dataclasses
import pickle
import sys
import threading
import types
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.components import _code_hash as code
from asyncsim.pool import _parcels as parcels
from asyncsim.pool._parcels import Packer, dumps, unpack
from tests.study.problems import scenario

_digits = asim.datasets.Digits()
OWN_ARRAYS = asim.datasets.Dataset(
    "own", _digits.train_inputs, _digits.train_labels, _digits.test_inputs, _digits.test_labels, classes=10
)
DIGITS = asim.workloads.Softmax(OWN_ARRAYS, batch_size=16)
HELPER = """
import threading

import study_of_a_session  # a circle

LOCK = threading.Lock()
SCALE = 1.0
"""
STUDY = """
import jax.numpy as jnp

import asyncsim as asim
import helper_of_a_session as helper

DECAY = 0.0


def start(key):
    return jnp.ones(2)


def loss(params, batch, key):
    return helper.SCALE * jnp.sum(params**2) + DECAY * jnp.sum(jnp.abs(params))


class Own(asim.rules.Downpour):
    factor: float = 1.0

    def send(self, gradient, state, view):
        print("I am the rule")
        return super().send(self.factor * gradient, state, view)
"""


def there_and_back(value: Any, folder: Path) -> Any:
    return unpack(folder, Packer(folder).pack(value))


def with_digits(**changes: Any) -> asim.Scenario:
    return dataclasses.replace(scenario(), workload=DIGITS, record=(), **changes)


@pytest.mark.quick
def test_large_arrays_of_shared_workloads_are_one_file(tmp_path: Path) -> None:
    many = asim.grid(with_digits(), seed=range(20))
    assert many[0].workload.device_data is not None  # which does not travel
    name = Packer(tmp_path).pack(many)
    files = {path.stem: path.stat().st_size for path in tmp_path.iterdir()}
    assert files.pop(name) < 150_000 < len(pickle.dumps(many[0]))
    assert len(files) == 2  # inputs to train with and to test with
    again = unpack(tmp_path, name)
    assert len({id(one.workload) for one in again}) == len({id(one.cluster) for one in again}) == 1
    assert [one.digest for one in again] == [one.digest for one in many]
    np.testing.assert_array_equal(again[0].workload.data.train_inputs, OWN_ARRAYS.train_inputs)
    assert again[0].workload.data.fingerprint == OWN_ARRAYS.fingerprint


def test_compiled_functions_and_functions_that_call_each_other(tmp_path: Path) -> None:
    scale = 3.0
    own = jax.jit(lambda x: scale * x)

    def even(n: int) -> bool:
        return True if n == 0 else odd(n - 1)

    def odd(n: int) -> bool:
        return False if n == 0 else even(n - 1)

    again, again_even, again_where = there_and_back([own, even, jnp.where], tmp_path)
    assert again(2.0) == 6.0
    assert (again.__name__, again.__wrapped__(2.0)) == (own.__name__, 6.0)
    assert code.hash_reachable("own", {"own": again}) == code.hash_reachable("own", {"own": own})
    assert again_even(10)
    assert again_where is jnp.where


def test_damaged_and_missing_files_are_refused(tmp_path: Path) -> None:
    name = Packer(tmp_path).pack(np.random.default_rng(0).normal(size=(100, 60)))
    (path,) = [path for path in tmp_path.iterdir() if path.stem != name]
    path.write_bytes(b"x" * path.stat().st_size)
    parcels._read.cache_clear()
    with pytest.raises(ValueError, match="holds a damaged file"):
        unpack(tmp_path, name)
    path.unlink()
    parcels._read.cache_clear()
    with pytest.raises(ValueError, match="lacks the file"):
        unpack(tmp_path, name)


def test_an_object_that_cannot_travel_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`scenarios` cannot be sent to other processes"):
        Packer(tmp_path).pack(threading.Lock())


def test_a_module_travels_without_the_parts_that_cannot() -> None:
    """Also one that names itself; what no pickle takes stays behind."""
    module = types.ModuleType("travelling_module")
    vars(module).update(value=3, itself=module, lock=threading.Lock())
    sys.modules[module.__name__] = module
    try:
        again = pickle.loads(dumps(module, [module]))
    finally:
        del sys.modules[module.__name__]
    assert again is not module
    assert again.value == 3
    assert again.itself is again
    assert not hasattr(again, "lock")


def test_a_sweep_computes_with_the_present_values_of_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In another process: those of the script's globals, of a module beside it, and of a rule that the script defines.

    A worker prints on standard error, because standard output belongs to the results.
    """
    (tmp_path / "helper_of_a_session.py").write_text(HELPER)
    (tmp_path / "study_of_a_session.py").write_text(STUDY)
    monkeypatch.syspath_prepend(tmp_path)
    import helper_of_a_session  # type: ignore[import-not-found]
    import study_of_a_session as study  # type: ignore[import-not-found]

    for name in ("helper_of_a_session", "study_of_a_session"):
        monkeypatch.setitem(sys.modules, name, sys.modules[name])
    workload = asim.Workload(init=study.start, loss=study.loss)
    cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
    base = asim.Scenario(cluster, study.Own(0.1, factor=0.5), workload, commits=6, record=())
    monkeypatch.setattr(study, "DECAY", 1.0)
    monkeypatch.setattr(helper_of_a_session, "SCALE", 2.0)
    asked = asim.grid(base, seed=range(2))
    capfd.readouterr()  # of this process, which has tried the rule
    results = [*asim.sweep(asked, jobs=1)]
    printed = capfd.readouterr()
    assert not printed.out
    assert "I am the rule" in printed.err
    for one, result in zip(asked, results, strict=True):
        alone = asim.run(one)
        assert result.run.loss[0] == 2.0 * 2 + 1.0 * 2
        np.testing.assert_array_equal(result.run.loss, alone.run.loss, strict=True)
        np.testing.assert_array_equal(result.run.central, alone.run.central, strict=True)
