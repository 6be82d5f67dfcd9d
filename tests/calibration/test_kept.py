"""What the calibration keeps in a folder: damage means missing, and an error of our own is not damage."""

import zipfile

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.calibration import LogUniform, Model
from asyncsim.calibration import _npe as estimators
from asyncsim.calibration import _simulations as drawn

MODEL = Model(lambda p: asim.Cluster(2, delays.Gamma(p["mean"], 0.5)), {"mean": LogUniform(0.1, 10)})
JOB = drawn.Job(MODEL, 40, (("commit_time",),), 0)
SIZE = 4000


def group(rows: int = SIZE) -> drawn.Simulations:
    return drawn.Simulations(np.arange(1.0, rows + 1)[:, None], (np.ones((rows, 3)),))


def estimator() -> estimators.Estimator:
    """One that learned nothing, with the networks that a file must hold."""
    import jax

    p, k = 1, 3
    flows = tuple(estimators._new_flow(jax.random.key(i), p, k) for i in range(estimators.FLOWS))
    arrays = {name: np.full((k + 1, p), 2.0) for name in ("mean", "error")}
    arrays |= {name: np.full(k, 2.0) for name in ("middle", "spread", "least", "most")}
    arrays |= {name: np.full(p, 2.0) for name in ("centre", "scale", "covered")}
    arrays |= {name: np.full((2, p), 2.0) for name in ("prior", "level")}
    return estimators.Estimator(**arrays, kept=np.ones(k, bool), flows=flows, held_back=5, simulations=50)


def halve(path, name):
    """Change the type in the header of one array: half of the same bytes read as other numbers."""
    with zipfile.ZipFile(path) as archive:
        header = archive.read(f"{name}.npy")[:100]
    content = path.read_bytes()
    place = content.index(header) + header.index(b"<f8")
    path.write_bytes(content[:place] + b"<f4" + content[place + 3 :])


def test_simulations_with_a_damaged_header_are_missing(tmp_path):
    drawn.write_group(tmp_path, 0, group())
    found = drawn.read_group(tmp_path, 0, SIZE, JOB)
    np.testing.assert_array_equal(found.values, group().values)
    (path,) = tmp_path.iterdir()
    halve(path, "values")
    assert drawn.read_group(tmp_path, 0, SIZE, JOB) is None
    path.write_bytes(b"")
    assert drawn.read_group(tmp_path, 0, SIZE, JOB) is None
    assert drawn.read_group(tmp_path, 1, SIZE, JOB) is None


def test_simulations_of_another_size_are_missing(tmp_path):
    drawn.write_group(tmp_path, 0, group(10))
    assert drawn.read_group(tmp_path, 0, SIZE, JOB) is None


def test_an_estimator_with_a_damaged_header_is_missing(tmp_path):
    pytest.importorskip("flowjax")
    path = tmp_path / "estimator.npz"
    estimators.save_estimator(estimator(), path)
    found = estimators.load_estimator(path)
    np.testing.assert_array_equal(found.mean, estimator().mean)
    assert (found.held_back, found.simulations, len(found.flows)) == (5, 50, estimators.FLOWS)
    halve(path, "centre")
    assert estimators.load_estimator(path) is None
    path.write_bytes(b"")
    assert estimators.load_estimator(path) is None
    assert estimators.load_estimator(tmp_path / "none.npz") is None


def test_an_error_of_our_own_is_not_damage(tmp_path, monkeypatch):
    """It is raised, and nobody spends hours on simulations that are there."""
    pytest.importorskip("flowjax")
    estimators.save_estimator(estimator(), tmp_path / "estimator.npz")

    def broken(*given):
        raise KeyError("a bug")

    monkeypatch.setattr(estimators, "_new_flow", broken)
    with pytest.raises(KeyError, match="a bug"):
        estimators.load_estimator(tmp_path / "estimator.npz")
