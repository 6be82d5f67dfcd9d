"""Saved fits: they hold the model whole as descriptions of components, and loading runs no code."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.calibration._choose import Estimate, Group, StageFit
from asyncsim.calibration._laws import Laws
from asyncsim.components import NotRebuilt, describe, from_description

CONTENT = {
    "an older format": (lambda content: content | {"version": 6}, "written by an older asyncsim.*Calibrate again"),
    "a newer format": (lambda content: content | {"version": 99}, "written by a newer asyncsim.*Update"),
    "no calibration": (lambda content: {"format": "something else"}, "holds no calibration"),
    "a law as the model": (lambda content: content | {"model": {"kind": "delays.constant", "value": 1.0}}, "damaged"),
    "a text as the log": (lambda content: content | {"log": "log.csv"}, "damaged"),
    "no notes": (lambda content: {name: part for name, part in content.items() if name != "notes"}, "damaged"),
    "a part that lacks a field": (
        lambda content: content | {"log": {name: part for name, part in content["log"].items() if name != "commits"}},
        "cannot be loaded.*'commits'",
    ),
    "a field of no part": (lambda content: content | {"log": content["log"] | {"colour": 1}}, "has no `colour`"),
    "a module that is not imported": (
        lambda content: content | {"model": {"kind": "Model", "import": "planted:Model", "code": "0"}},
        "cannot be loaded.*'Model' is of your own.*Import the module",
    ),
}


@pytest.fixture(scope="module")
def fit():
    return asim.calibrate(asim.simulate(asim.Cluster(4, delays.Gamma(1.0, 0.3)), commits=200, seed=1), law="gamma")


@pytest.mark.quick
def test_parts_are_descriptions_of_components(fit, tmp_path):
    fit.save(tmp_path / "fit.json")
    content = json.loads((tmp_path / "fit.json").read_text())
    for name in ("model", "log", "evidence"):
        assert from_description(content[name]) == getattr(fit, name)


@pytest.mark.parametrize(("change", "message"), CONTENT.values(), ids=CONTENT)
def test_another_file_is_refused_with_the_reason(fit, tmp_path, change, message):
    fit.save(tmp_path / "fit.json")
    content = json.loads((tmp_path / "fit.json").read_text())
    (tmp_path / "fit.json").write_text(json.dumps(change(content)))
    with pytest.raises(ValueError, match=message):
        asim.Fit.load(tmp_path / "fit.json")


ESTIMATE = "model", "stages", "compute", "groups", 0, "estimate"
PLACES = [
    *(("version",), ("seed",), ("method",), ("notes",), ("log", "commits"), ("model", "seed"), ("model", "workers")),
    *((*ESTIMATE[:-1], "label"), (*ESTIMATE, "jobs"), (*ESTIMATE, "covariance"), (*ESTIMATE, "values")),
]
WRONG = ("x", -1, None, {}, [], 1e308, 10**400)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: str(place[-1]))
def test_a_file_with_another_value_is_refused_or_can_be_used(fit, tmp_path, place):
    fit.save(tmp_path / "fit.json")
    for wrong in WRONG:
        content = json.loads((tmp_path / "fit.json").read_text())
        part = content
        for step in place[:-1]:
            part = part[step]
        part[place[-1]] = wrong
        (tmp_path / "changed.json").write_text(json.dumps(content))
        try:
            loaded = asim.Fit.load(tmp_path / "changed.json")
        except ValueError:
            continue
        assert repr(loaded)
        assert loaded.parameters
        assert len(loaded.sample(2)) == 2


def test_loading_imports_no_module_that_a_file_names(fit, tmp_path, monkeypatch):
    (tmp_path / "planted.py").write_text("from pathlib import Path\nPath('executed').touch()\nclass Model: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    fit.save("fit.json")
    content = json.loads(Path("fit.json").read_text())
    for kind in ({"import": "planted:Model"}, {"kind": "planted.Model"}, {"kind": "calibration.planted.Model"}):
        Path("fit.json").write_text(json.dumps(content | {"model": kind}))
        with pytest.raises(NotRebuilt):
            asim.Fit.load("fit.json")
    assert "planted" not in sys.modules
    assert not Path("executed").exists()


def test_laws_of_many_workers_come_back():
    """The moments of 300 workers are more numbers than a description lists of one array."""
    estimates = [Estimate("gamma", (1.0 + i, 0.5), np.eye(2) / 100, 100, -20.0) for i in range(300)]
    groups = tuple(Group(f"[{i}]", (i,), estimate) for i, estimate in enumerate(estimates))
    moments = tuple(np.full((2, 2), float(i)) for i in range(300))
    stage = StageFit(groups, {"gamma": 3.0}, {}, 1e-9, observed=moments, quantiles=np.zeros((2, 199)))
    model = Laws(300, {"compute": stage}, 1, False, ("latency", "service"), 0)
    assert from_description(json.loads(json.dumps(describe(model)))) == model
