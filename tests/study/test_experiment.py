"""Experiments: functions as studies."""

import dataclasses
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

import asyncsim as asim
from tests.problems import assert_refused
from tests.store.problems import content_of
from tests.study.problems import scenario

CALLS = []


def powers(base: float = 2.0, exponents: tuple[int, ...] = (0, 1, 2), noisy: bool = False) -> dict:
    """Powers of a number.

    Args:
        base: The number.
        exponents: The powers to which it is raised.
        noisy: Whether one of them is not a number.
    """
    CALLS.append(base)
    values = base ** np.array(exponents, float)
    if noisy:
        values[0] = np.nan
    return {"exponent": np.array(exponents), "power": values, "matrix": np.eye(2), "sum": values.sum()}


def draw(figure, numbers):
    figure.subplots().plot(numbers["exponent"], numbers["power"])


EXPERIMENT = asim.Experiment(powers, draw, title="Powers")


def test_fields_come_from_the_signature_and_the_docstring():
    fields = {field.name: field for field in EXPERIMENT.fields()}
    assert [(f.kind, f.value, f.help) for f in fields.values()] == [
        ("number", 2.0, "The number."),
        ("integers", (0, 1, 2), "The powers to which it is raised."),
        ("switch", False, "Whether one of them is not a number."),
    ]


def test_values_of_unknown_names_are_refused_like_changes():
    for name, remedy in (("bse", r" Did you mean `base`\?"), ("store", "")):
        message = rf"`{name}` is not a field of this experiment\.{remedy}"
        assert_refused(lambda name=name: asim.Experiment(powers, draw, values={name: 2}), message)
        assert_refused(lambda name=name: EXPERIMENT.override(**{name: 2}), message)
    assert asim.Experiment(powers, draw, "Powers", values={"base": 3.0}).digest == EXPERIMENT.override(base=3.0).digest


def test_the_summary_has_columns_and_single_numbers_without_nan():
    findings = EXPERIMENT.override(base=3.0, noisy=True).run()
    assert findings.summary == {"exponent": [0, 1, 2], "power": [None, 3.0, 9.0], "sum": None}
    assert findings.numbers["matrix"].shape == (2, 2)


def test_a_second_run_computes_nothing(tmp_path):
    CALLS.clear()
    first = EXPERIMENT.run(tmp_path)
    picture = (tmp_path / "report.png").read_bytes()
    second = EXPERIMENT.run(tmp_path)
    assert (first.recomputed, second.recomputed, len(CALLS)) == (True, False, 1)
    np.testing.assert_array_equal(second.numbers["power"], [1, 2, 4])
    assert content_of(tmp_path / "summary.json") == second.summary == first.summary
    EXPERIMENT.run(tmp_path, force=True)
    assert len(CALLS) == 2
    assert (tmp_path / "report.png").read_bytes() == picture
    with pytest.raises(ValueError, match=r"holds a different experiment: `arguments.base` is 2.0 there and 3.0 here"):
        EXPERIMENT.override(base=3.0).run(tmp_path)


@pytest.mark.parametrize("size", [(3.0, 4.8), (7.2, 2.0)])
def test_another_size_draws_the_picture_again_and_computes_nothing(tmp_path, size):
    first, other = (dataclasses.replace(EXPERIMENT, size=shape) for shape in (EXPERIMENT.size, size))
    assert first.digest == other.digest  # before a run changes the list of calls, which `powers` reaches
    first.run(tmp_path)
    assert not other.run(tmp_path).recomputed
    pixels = struct.unpack_from(">2L", (tmp_path / "report.png").read_bytes(), 16)
    assert pixels == tuple(round(inches * 150) for inches in size)


def test_numbers_of_another_experiment_are_refused(tmp_path):
    one, other = EXPERIMENT.override(base=2.0), EXPERIMENT.override(base=3.0)
    one.run(tmp_path / "one")
    other.run(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "numbers.npz", tmp_path / "one" / "numbers.npz")
    with pytest.raises(ValueError, match=r"numbers\.npz' is not the file of this experiment.*Delete it"):
        one.run(tmp_path / "one")


def test_invalid_arguments_are_named():
    with pytest.raises(ValueError, match=r"`bass` is not a field of this experiment. Did you mean `base`\?"):
        EXPERIMENT.override(bass=1.0)
    with pytest.raises(ValueError, match="`compute` must have a default for every argument; `n` has none"):
        asim.Experiment(lambda n: {}, draw)


def swept(rates=(0.1, 0.2), fail=False, store=None):
    """A sweep.

    Args:
        rates: Step sizes.
        fail: Whether to fail after the sweep.
        store: Where its runs are kept.
    """
    results = asim.sweep(asim.grid(scenario(commits=20, record=()), learning_rate=rates), store, jobs=0)
    if fail:
        with open(Path(store).parent / "computed", "a") as file:  # a list would be a part of the experiment
            file.write(f"{len(results.computed)} ")
    if fail and Path(store).parent.joinpath("fail").exists():
        raise KeyboardInterrupt
    return {"rate": rates, "loss": results.table()["final_loss"]}


def test_runs_in_its_store_are_kept_until_the_numbers_are_there(tmp_path):
    experiment = asim.Experiment(swept, lambda figure, numbers: figure.subplots().plot(numbers["loss"]))
    assert [field.name for field in experiment.fields()] == ["rates", "fail"]
    (tmp_path / "fail").touch()
    with pytest.raises(KeyboardInterrupt):
        experiment.override(fail=True).run(tmp_path)
    (tmp_path / "fail").unlink()
    again = experiment.override(fail=True).run(tmp_path)
    assert (tmp_path / "computed").read_text() == "2 0 "
    assert not (tmp_path / "store").exists()
    np.testing.assert_array_equal(again.numbers["loss"], experiment.run().numbers["loss"])
