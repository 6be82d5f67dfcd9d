"""Folders of one kind that are named where another kind belongs: refused with the argument, the value and a remedy."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.study._experiment import Experiment
from figures.common.figure_set import FigureSet
from tests.cli.commands import SCRIPT
from tests.conftest import draw_empty_pages
from tests.study.problems import scenario
from tests.study.test_foreign import contents


def run(out: Path, seed: int = 1, **options: Any) -> None:
    asim.run(scenario(commits=40, seed=seed), out, **options)


def compare(out: Path, seed: int = 1, **options: Any) -> None:
    asim.compare(asim.Comparison({"gem": scenario(commits=40, seed=seed)}), out, **options)


def experiment(out: Path, seed: int = 1, **options: Any) -> None:
    def compute(seed: int = 0) -> dict[str, np.ndarray]:
        """Return a number.

        Args:
            seed: The number.
        """
        return {"seed": np.array(seed)}

    made = Experiment(compute, lambda figure, numbers: None, size=(1, 1)).override(seed=seed)
    made.run(out, **options)


def sweep(store: Path, seed: int = 1) -> None:
    asim.sweep([scenario(commits=40, seed=seed)], store, jobs=0)


def figures(out: Path) -> None:
    with FigureSet(out, {}, "quick", "a task").lease():
        pass


def calibrate(store: Path) -> None:
    pytest.importorskip("flowjax", reason="neural posteriors need the extra calibrate")
    model = asim.calibration.Model(
        lambda p: asim.Cluster(2, asim.delays.Gamma(p["mean"], 0.5)), {"mean": asim.calibration.Uniform(0.5, 2.0)}
    )
    log = asim.Trace.from_commits([0, 1] * 30, np.arange(60.0), workers=2)
    asim.calibrate(log, model, store=store, simulations=500, jobs=0)


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of each kind, and a file."""
    top = tmp_path_factory.mktemp("places")
    with pytest.MonkeyPatch.context() as patch:
        draw_empty_pages(patch)
        for write in (run, compare, experiment, sweep):
            write(top / write.__name__, seed=0)
    (top / "file").write_text("mine")
    (top / "entry").symlink_to(top / "sweep" / scenario(commits=40, seed=0).digest)
    return top


STORES = ("sweep", "compare/runs")
INSIDE = ("sweep/new", "sweep/traces", "sweep/traces/new", "entry", "compare/gem", "compare/runs/new")
PLACES = ("run", "compare", "experiment", *STORES, *INSIDE, "file", "file/new")
REFUSED = [
    *((write, place, {}) for write in (run, compare, experiment) for place in PLACES),
    *((write, p, {"force": True}) for write in (run, compare, experiment) for p in PLACES if p != write.__name__),
    *((sweep, place, {}) for place in PLACES if place not in STORES),
    *((figures, place, {}) for place in PLACES),
    *((calibrate, place, {}) for place in PLACES),
]


@pytest.mark.parametrize("write", [run, compare, experiment, sweep, figures, calibrate])
def test_a_folder_of_another_kind_is_refused_and_stays(top: Path, write: Callable[..., None]) -> None:
    argument = "store" if write in (sweep, calibrate) else "out"
    before, complaints = contents(top), []
    for _, place, options in [one for one in REFUSED if one[0] is write]:
        try:
            write(top / place, **options)
            complaints.append(f"{place} is taken")
        except (ValueError, OSError) as error:
            said = str(error)
            is_clear = f"`{argument}` {str(top / place)!r}" in said and ("Choose another" in said or "Give a" in said)
            complaints += [] if is_clear else [f"{place}: {said}"]
        if contents(top) != before:
            complaints.append(f"{place} has changed")
            before = contents(top)
    assert not complaints


def test_an_entry_of_the_study_itself_is_its_folder(top: Path) -> None:
    """As in `asyncsim run` of an entry, which has a picture then."""
    assert not asim.run(scenario(commits=40, seed=0), top / "compare" / "gem").recomputed


def test_results_may_lie_beside_a_store(top: Path, tmp_path: Path) -> None:
    """And not among its entries."""
    sweep(tmp_path / "store", seed=0)
    before = contents(tmp_path)
    run(tmp_path, picture=False)
    assert before.items() <= contents(tmp_path).items()


@pytest.mark.parametrize(
    "words",
    [
        ("run", "study.py", "--out"),
        ("run", "study.py", "--force", "--out"),
        ("sweep", "study.py", "--grid", "seed=0:2", "--jobs", "0", "--store"),
        ("staleness", "--out"),
        ("stability", "--out"),
        ("figures", "--out"),
    ],
)
def test_so_does_every_command(
    top: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.py").write_text(SCRIPT)
    before = contents(top)
    for place in ("sweep/new", "entry", *(STORES if "sweep" not in words else ("run", "compare", "experiment"))):
        with pytest.raises(SystemExit) as left:
            asim.main(arguments=[*words, str(top / place)])
        assert left.value.code == 2
        said = capsys.readouterr().err.splitlines()[-1]
        assert f"{os.fspath(top / place)!r}" in said
        assert "Choose another folder" in said
    assert contents(top) == before
