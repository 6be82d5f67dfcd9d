"""A run that is saved and loaded is the same run. That it resumes so is tested in `test_chunks.py`."""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine._run_file import read
from tests.problems import assert_refused, noisy_quadratic

RULE = asim.rules.GEM(learning_rate=0.05)
WORKLOAD = noisy_quadratic()
TRACE = asim.simulate(asim.Cluster(4, asim.delays.Exponential(1.0)), commits=300, seed=1)
RECORD = ("energy_central", "pi_median")


def half(seed: int | tuple[int, ...] = 0) -> asim.Run:
    return asim.replay(TRACE, RULE, WORKLOAD, seed, record=RECORD, commits=150)


def assert_same(one: asim.Run, other: asim.Run) -> None:
    for name in ("commits", "workers", "seed", "diverged_at"):
        assert getattr(one, name) == getattr(other, name)
    trees = [(run.loss, dict(run.records), dict(run.recorded_at), run.central, run.state) for run in (one, other)]
    assert jax.tree.structure(trees[0]) == jax.tree.structure(trees[1])
    for a, b in zip(*map(jax.tree.leaves, trees), strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


@pytest.mark.parametrize("seed", [0, (3, 4)])
def test_a_loaded_run_is_the_same(tmp_path: Path, seed: int | tuple[int, ...]) -> None:
    before = half(seed)
    before.save(tmp_path / "run.npz")
    after = asim.Run.load(tmp_path / "run.npz", RULE, WORKLOAD)
    assert_same(after, before)
    assert (after.traits, after.digest) == (before.traits, before.digest)


def test_another_rule_workload_or_precision_is_refused(tmp_path: Path) -> None:
    path, central = tmp_path / "run.npz", "`state/central`"
    half().save(path)
    for rule, workload, reason in (
        (RULE, asim.workloads.Quadratic([1.0]), rf"{central} has shape \(1, 3\) where \(1, 1\) is expected"),
        (asim.rules.Downpour(0.1), WORKLOAD, r"`state/rows` has shape .* is expected"),
    ):
        message = rf"run\.npz' holds no run of this rule .*{reason}.* Give those"
        assert_refused(partial(asim.Run.load, path, rule, workload), message)
    arrays = dict(np.load(path))
    np.savez(path, **arrays | {"state/central": arrays["state/central"].astype(np.float16)})
    message = rf"{central} is float16 where float(32|64) is expected"
    assert_refused(lambda: asim.Run.load(path, RULE, WORKLOAD), message)


@pytest.mark.parametrize("dtype", ["U9", "S9", "m8[s]", [("a", float)]], ids=str)
@pytest.mark.parametrize("name", ["loss", "worker"])
def test_arrays_that_are_no_numbers_are_refused(tmp_path: Path, name: str, dtype: Any) -> None:
    path = tmp_path / "run.npz"
    half().save(path)
    arrays: dict[str, Any] = dict(np.load(path))
    arrays[name] = np.zeros(arrays[name].shape, dtype)
    np.savez(path, **arrays)
    assert_refused(lambda: asim.Run.load(path, RULE, WORKLOAD), rf"`{name}` is .* where numbers are expected")


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    with pytest.raises(FileNotFoundError, match=r"run\.npz' is not a file"):
        asim.Run.load(path, RULE, WORKLOAD)
    TRACE.save(path)
    assert_refused(lambda: asim.Run.load(path, RULE, WORKLOAD), "holds no run")
    half().save(path)
    older = r"run\.npz' holds no run, or was written by an older asyncsim \(format 3; .* Make the run again"
    for version, message in ((3, older), (99, r"newer asyncsim \(format 99; .* Update asyncsim")):
        np.savez(path, **dict(np.load(path)) | {"format_version": version})
        assert_refused(lambda: asim.Run.load(path, RULE, WORKLOAD), message)
    path.write_bytes(path.read_bytes()[:1000])
    assert_refused(lambda: asim.Run.load(path, RULE, WORKLOAD), r"run\.npz' is damaged or not a run file .*Restore it")


def two_places(key: Any) -> Any:
    del key
    return {"a.b": np.ones(2, np.float32), "a": {"b": np.full(3, 2.0, np.float32)}, "c": np.zeros(1, np.float32)}


def squares(params: Any, batch: Any, key: Any) -> Any:
    del batch, key
    return sum((leaf**2).sum() for leaf in jax.tree.leaves(params))


def test_parameters_whose_paths_are_one_text_keep_their_own_names(tmp_path: Path) -> None:
    run = asim.replay(TRACE, asim.rules.Downpour(0.01), asim.Workload(two_places, squares), commits=4)
    run.save(tmp_path / "run.npz")
    central = read(tmp_path / "run.npz", None, None)["central"]
    assert {name: len(values) for name, values in central.items()} == {"['a.b']": 2, "['a']['b']": 3, "c": 1}
    np.testing.assert_array_equal(central["['a.b']"], run.central["a.b"])
    np.testing.assert_array_equal(central["['a']['b']"], run.central["a"]["b"])


class Remembering(asim.rules.Downpour, named=False):
    """A rule whose server has the first and the last central variable, at two paths of one text."""

    def start_server(self, params: Any, /) -> Any:
        return {"a/b": params, "a": {"b": params}}

    def apply(self, central: Any, server: Any, message: Any, view: Any, /) -> Any:
        central, _ = super().apply(central, (), message, view)
        return central, {**server, "a": {"b": central}}


def test_states_of_the_server_whose_paths_are_one_text_are_read_into_their_own_places(tmp_path: Path) -> None:
    rule = Remembering(0.01)
    run = asim.replay(TRACE, rule, WORKLOAD, commits=4)
    run.save(tmp_path / "run.npz")
    assert_same(asim.Run.load(tmp_path / "run.npz", rule, WORKLOAD), run)
    assert run.state.server["a/b"].tolist() != run.state.server["a"]["b"].tolist()
