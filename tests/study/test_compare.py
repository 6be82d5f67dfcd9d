"""Comparisons: several scenarios side by side, in one folder."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import asyncsim as asim
from asyncsim.cli._compare import short_names
from asyncsim.files import _npz as npz
from asyncsim.study import _replay, _run
from asyncsim.study._compare import final_losses, subtitle
from asyncsim.study._store import open_store
from tests.problems import refusals
from tests.store.problems import content_of
from tests.study.problems import FILES, contents, no_replay, present, scenario

pytestmark = pytest.mark.usefixtures("empty_pages")


def both() -> asim.Comparison:
    return asim.Comparison({"gem_4": scenario(), "downpour_4": scenario(rule="downpour")}, title="Two")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The folder of a comparison, its results, the names in its progress, and its picture."""
    folder, seen = tmp_path_factory.mktemp("compared"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_run, "draw_report", lambda figure, **options: None)
        pages = drawn(patch)
        results = asim.compare(both(), folder, progress=lambda name, progress: seen.append(name))
    return folder, results, {*seen}, pages[-1]


def drawn(patch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are saved from now on."""
    figures: list[Figure] = []
    savefig = Figure.savefig
    patch.setattr(Figure, "savefig", lambda self, *args, **more: (figures.append(self), savefig(self, *args, **more)))
    return figures


class TestPicture:
    """Curves over commits and time at one number of workers, final losses against it at several."""

    def test_at_one_number_of_workers(self, compared: Any) -> None:
        left, right = compared[3].axes
        assert (left.get_xlabel(), right.get_xlabel()) == ("commits of each worker", "simulated seconds")
        assert [len(line.get_xdata()) for line in left.get_lines()] == [400, 400]

    @pytest.mark.whole_pages
    def test_at_several(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_run, "draw_report", lambda figure, **options: None)
        pages = drawn(monkeypatch)
        grid = {
            f"{name}_{n}": scenario(workers=n, kappa=kappa, commits_per_worker=5)
            for name, kappa in (("gem", 1.0), ("gem_2", 2.0))
            for n in (2, 4)
        }
        results = asim.compare(asim.Comparison(grid), tmp_path)
        (ax,) = pages[-1].axes
        assert ax.get_xlabel() == "workers n"
        losses = final_losses(results)  # lines, which are the names without the workers
        assert {name: [n for n, _ in points] for name, points in losses.items()} == {"gem": [2, 4], "gem_2": [2, 4]}


class TestFolder:
    def test_each_scenario_has_a_folder_and_is_reused(self, compared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        folder, results, seen, _ = compared
        assert seen == {"gem_4", "downpour_4"}
        assert content_of(folder / "summary.json") == {name: result.summary for name, result in results.items()}
        assert {path.name for path in (folder / "gem_4").iterdir()} == FILES
        before = contents(folder / "gem_4")
        monkeypatch.setattr(_replay, "finish", no_replay)
        assert not any(result.recomputed for result in asim.compare(both(), folder).values())
        assert contents(folder / "gem_4") == before

    def test_another_title_draws_the_picture_again_and_computes_nothing(
        self, compared: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_replay, "finish", no_replay)
        pages = drawn(monkeypatch)
        for title in ("Other", both().title):
            asim.compare(replace(both(), title=title), compared[0])
            before = (compared[0] / "report.png").read_bytes()
            asim.compare(replace(both(), title=title), compared[0])
            assert (compared[0] / "report.png").read_bytes() == before
        assert len(pages) == 2

    @pytest.mark.parametrize("name", ["run.npz", "trace.npz"])
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"format_version": 99}, "was written by a newer asyncsim .*Update asyncsim"),
            ({"note/owner": "0" * 16}, r"is not the .*Delete it"),
        ],
    )
    def test_a_sound_file_that_cannot_be_read_is_refused_and_stays(
        self, compared: Any, name: str, change: dict[str, Any], words: str
    ) -> None:
        path = (compared[0] / "gem_4").resolve() / name
        before = path.read_bytes()
        with np.load(path) as file:
            arrays = {**file} | change
        rewritten = path.with_suffix(".new")  # Schedules are hard links.
        npz.write(rewritten, arrays, version=arrays.pop("format_version"))
        rewritten.replace(path)
        content = path.read_bytes()
        with pytest.raises(ValueError, match=words):
            asim.compare(both(), compared[0])
        assert path.read_bytes() == content
        path.write_bytes(before)

    def test_a_different_comparison_is_refused(self, compared: Any) -> None:
        with pytest.raises(ValueError, match=r"different comparison: `scenarios\.gem_4\.seed` is 0 there and 3 here"):
            asim.compare(both().override(seed=3), compared[0])

    @pytest.mark.usefixtures("short_chunks")
    def test_old_results_stay_until_the_new_ones_are_complete(self, tmp_path: Path) -> None:
        def interrupt(name: str, progress: asim.Progress) -> None:
            if name == "downpour_4":
                raise KeyboardInterrupt

        asim.compare(both(), tmp_path)
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        names = {path.name for path in tmp_path.iterdir()}
        other = both().override(seed=1)
        with pytest.raises(asim.ReplayInterrupted):
            asim.compare(other, tmp_path, force=True, progress=interrupt)
        assert {path: path.read_bytes() for path in before} == before
        results = asim.compare(other, tmp_path)
        assert not results["gem_4"].recomputed
        assert results["downpour_4"].folder == (tmp_path / "downpour_4").resolve()
        digests = {scenario.digest for scenario in other.scenarios.values()}
        assert present(open_store(tmp_path / "runs")) == digests
        assert {path.name for path in tmp_path.iterdir()} == names

    def test_runs_that_are_being_computed_are_not_replaced(self, compared: Any) -> None:
        folder = compared[0]
        with (
            open_store(folder / "runs").lease(["0123456789abcdef"]),
            pytest.raises(ValueError, match=f"is in use by process {os.getpid()} on "),
        ):
            asim.compare(both(), folder, force=True)
        assert all(result.recomputed for result in asim.compare(both(), folder, force=True).values())


def test_names_of_a_grid() -> None:
    grid = asim.grid(scenario(), learning_rate=[0.1, 0.2], rule=["gem", "downpour"], workers=[2, 4])
    names = [*asim.Comparison(grid).scenarios]
    assert names[:3] == ["gem_0.1_2", "gem_0.1_4", "downpour_0.1_2"]
    assert [*asim.Comparison(grid[:1]).scenarios] == ["all"]
    by_hand = {"gem_2": scenario(workers=2), "gem_4": scenario(workers=4)}
    assert [*asim.Comparison(asim.grid(scenario(), workers=[2, 4])).scenarios] == ["2", "4"]
    assert asim.Comparison(by_hand).override(seed=1).scenarios["gem_4"].seed == 1


def test_a_change_reaches_every_scenario_that_has_the_field() -> None:
    changed = both().override(learning_rate=0.2, kappa=2.0, workers=7).scenarios
    assert changed["gem_4"].rule.numbers == {"learning_rate": 0.2, "momentum": 0.9, "kappa": 2.0}
    assert changed["downpour_4"].rule.numbers == {"learning_rate": 0.2}
    assert {one.cluster.workers for one in changed.values()} == {7}


test_what_is_refused = refusals(
    (lambda: both().override(rule="gem"), "`rule` is compared here"),
    (lambda: both().override(kapa=2.0), r"`kapa` is not a field of these scenarios. Did you mean `kappa`\?"),
    (lambda: asim.Comparison({}), "`scenarios` must hold at least one"),
    (lambda: asim.Comparison({"../x": scenario()}), r"names that are possible for a folder; got '\.\./x'"),
    (lambda: asim.Comparison([scenario(), scenario()]), "two of them are the same"),
    (lambda: asim.Comparison([3]), "number 1 is a int"),  # type: ignore[list-item]
)


def test_a_run_is_named_by_the_end_of_its_path_where_that_tells_it_apart() -> None:
    assert [*short_names([(text, Path(text)) for text in ("runs/b", "runs/c")])] == ["b", "c"]
    assert [*short_names([(text, Path(text)) for text in ("a", "runs/b", "other/b")])] == ["a", "runs/b", "other/b"]


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ([{"commits": 40}, {"commits": 40, "kappa": 2.0}], ""),
        ([{"commits": 40}, {"commits_per_worker": 10, "kappa": 2.0}], ""),
        ([{"commits_per_worker": 10}, {"commits_per_worker": 10, "workers": 8}], ""),
        ([{"seconds": 5.0}, {"seconds": 5.0, "workers": 8}], ""),
        ([{"commits": 40}, {"commits": 80}], "lengths differ: 40 commits, 80 commits"),
        ([{"commits": 40}, {"seconds": 5.0}], "lengths differ: 40 commits, 5 s"),
        ([{"seconds": 5.0}, {"seconds": 9.0}], "lengths differ: 5 s, 9 s"),
    ],
)
def test_a_picture_says_that_lengths_differ(changes: list[dict[str, Any]], remark: str) -> None:
    comparison = asim.Comparison({str(place): scenario(**one) for place, one in enumerate(changes)})
    assert ("lengths differ" in subtitle(comparison)) == bool(remark)
    assert subtitle(comparison).endswith(remark)
