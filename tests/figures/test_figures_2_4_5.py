"""Figures 2, 4 and 5: their numbers, the drawings of these, and claims that can fail."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import asyncsim as asim
from figures import figure2, figure4, figure5
from figures.common import scales
from figures.common.figure_set import CachedRun, RunCache, cached_run
from figures.common.paper import paper_curves
from figures.common.tables import over_seeds, pack, stack, table, where

Numbers = dict[str, np.ndarray]
Computed = Callable[[ModuleType], list[Numbers]]


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few workers and commits, so that a test takes little longer than its compilation."""
    monkeypatch.setitem(scales.SCALES, "quick", replace(scales.SCALES["quick"], commits_per_worker=42, batch_size=32))
    monkeypatch.setattr(figure2, "WORKERS", 10)
    monkeypatch.setattr(figure2, "BINS", 20)
    monkeypatch.setattr(figure4, "WORKERS", (1, 2, 4))
    monkeypatch.setattr(figure4, "SECONDS", {"quick": 5.0, "paper": 60.0})
    monkeypatch.setattr(figure5, "WORKERS", 2)
    monkeypatch.setattr(figure5, "EPOCHS", 6)


@pytest.fixture(scope="module")
def computed() -> Computed:
    """The numbers of two seeds of a figure, computed once with the few workers and commits of `tiny`."""
    return cache(lambda module: [module.compute("quick", seed) for seed in (0, 1)])


def cached(loss: Any, time: Any, workers: int = 1, **rest: Any) -> CachedRun:
    given = dict.fromkeys(("diverged_at", "test_accuracy", "final_loss"))
    given |= {"records": {}, "recorded_at": {}, **rest}
    return CachedRun(loss=np.asarray(loss, np.float32), commit_time=np.asarray(time), workers=workers, **given)  # type: ignore[arg-type]


def drawn(module: ModuleType, seeds: list[Numbers], scale: str = "quick") -> list[Any]:
    figure = Figure()
    module.draw(figure, seeds, scale)
    figure.canvas.draw()
    return figure.axes


def labelled(ax: Any, label: str) -> list[np.ndarray]:
    return [
        np.asarray(line.get_ydata(), float) for line in ax.get_lines() if line.get_label().removeprefix("_") == label
    ]


def test_a_level_is_reached_by_the_mean_of_five_commits_per_worker() -> None:
    loss, time = np.linspace(2, 0, 81), np.linspace(0, 8, 81) ** 2
    means = [loss[k - 10 : k].mean() for k in range(10, 82)]
    first = next(k for k, mean in enumerate(means) if mean <= 0.5)
    assert figure4.seconds_until(cached(loss, time, workers=2), 0.5) == time[first + 9]
    assert np.isnan(figure4.seconds_until(cached([1.0, 1.0], [1.0, 2.0]), 0.5))


class TestFigure2:
    def test_draws_the_loss_that_it_computed(self, computed: Computed) -> None:
        seeds = computed(figure2)
        (ax,) = drawn(figure2, seeds)
        np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), over_seeds(seeds, "curves", "training_loss").mean(0))

    def test_the_mean_of_the_thirds_is_the_mean_of_all(self, computed: Computed) -> None:
        scenario, runs = figure2.scenarios("quick", 0)[10], RunCache()
        thirds = table(computed(figure2)[0], "thirds")["training_loss"]
        np.testing.assert_allclose(thirds.mean(), runs.get(scenario).loss.mean(), rtol=1e-4)

    def test_a_run_takes_the_two_thousand_seconds_of_the_paper(self) -> None:
        law: Any = figure2.scenarios("quick", 0)[10].cluster.compute
        assert scales.SCALES["paper"].commits_per_worker * law.mean == pytest.approx(2000)

    def test_the_papers_curve_is_behind(self) -> None:
        (ax,) = drawn(figure2, [hundred_workers()], "paper")
        np.testing.assert_array_equal(
            labelled(ax, "the paper")[0], paper_curves("figure2_hundred_workers")["training_loss"]
        )


def hundred_workers(
    thirds: tuple[float, ...] = (2.0, 0.2, 0.1), final: float = 0.05, accuracy: float = 0.993
) -> Numbers:
    curve = {"seconds": [10.0, 20.0, 30.0], "training_loss": thirds}
    return pack(
        curves=curve, thirds={"training_loss": thirds}, final={"training_loss": [final], "test_accuracy": [accuracy]}
    )


class TestFigure4:
    def test_draws_curves_and_seconds_that_it_computed(self, computed: Computed) -> None:
        seeds = computed(figure4)
        assert np.isfinite(table(seeds[0], "curves")["training_loss"]).all()  # every interval is filled
        left, right = drawn(figure4, seeds)
        for n in (1, 2, 4):
            expected = over_seeds(seeds, "curves", "training_loss", workers=n).mean(axis=0)
            np.testing.assert_allclose(labelled(left, str(n))[0], expected)
        seconds = over_seeds(seeds, "reached", "seconds")
        for workers in np.flatnonzero(np.isfinite(seconds).all(axis=0)):
            np.testing.assert_allclose(labelled(right, "simulated")[0][workers], seconds[:, workers].mean())

    def test_the_total_batch_is_fixed_and_the_two_calibrated_costs_are_met(self) -> None:
        scenarios = figure4.scenarios("quick", 0)
        alone: Any = scenarios[1].cluster.compute
        sixteenth = figure4.OVERHEAD + 16 * figure4.PER_EXAMPLE
        assert {n * scenario.workload.batch_size for n, scenario in scenarios.items()} == {256}
        assert (alone.mean, sixteenth) == pytest.approx((0.25, 0.052))

    def test_the_papers_curves_are_behind(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(figure4, "WORKERS", (1, 2, 4, 8, 16))
        left, right = drawn(figure4, [speed((38, 14, 7, 5.5, 4.5))], "paper")
        for theirs, n in zip(labelled(left, "the paper"), figure4.WORKERS, strict=True):
            curve = where(paper_curves("figure4_speedup"), workers=n)["training_loss"]
            np.testing.assert_array_equal(theirs, curve)
        assert labelled(right, "the paper")[0].tolist() == [38, 13.5, 7, 5.5, 4.5]


def speed(seconds: tuple[float, ...]) -> Numbers:
    each = list(zip(figure4.WORKERS, seconds, strict=True))
    curve = {"seconds": [0.5, 1.0], "training_loss": [2.0, 1.0]}
    return pack(
        curves=stack({"workers": n, **curve} for n, _ in each),
        reached=stack({"workers": n, "seconds": time} for n, time in each),
    )


class TestFigure5:
    def test_draws_the_losses_that_it_computed(self, computed: Computed) -> None:
        seeds = computed(figure5)
        for ax, loss in zip(drawn(figure5, seeds), figure5.LOSSES, strict=True):
            for line, rule in zip(ax.get_lines(), figure5.RULES, strict=True):
                np.testing.assert_allclose(line.get_ydata(), over_seeds(seeds, "curves", loss, rule=rule).mean(0))

    def test_an_epoch_ends_where_the_run_does(self) -> None:
        result = asim.run(figure5.scenarios("quick", 0)["gem"])
        run = cached_run(result)
        losses = figure5.by_epoch(run)
        assert losses["validation"][-1] == pytest.approx(result.summary["test_loss"])
        assert len(run.loss) == figure5.EPOCHS * (asim.datasets.Digits().train_inputs.shape[0] // 32)
        assert losses["training"][-1] == pytest.approx(run.loss[-11:].mean(), rel=1e-5)

    def test_a_run_that_diverged_ends_early(self) -> None:
        losses = figure5.by_epoch(cached(np.ones(48), np.arange(48), records={"test_loss": np.array([0.5, 0.4])}))
        np.testing.assert_array_equal(losses["validation"], [0.5, 0.4, *[np.nan] * 4])

    def test_the_papers_curves_are_behind(self) -> None:
        for ax, loss in zip(drawn(figure5, [epochs(gem=[1.0], momentum=[1.0])], "paper"), figure5.LOSSES, strict=True):
            for theirs, rule in zip(labelled(ax, "the paper"), figure5.RULES, strict=True):
                curve = where(paper_curves("figure5_generalization"), curve=f"{rule}_{loss}")
                np.testing.assert_array_equal(theirs, curve["loss"])


def epochs(**validation: list[float]) -> Numbers:
    return pack(
        curves=stack(
            {"rule": rule, "epochs": np.arange(1, len(losses) + 1), "validation": losses, "training": losses}
            for rule, losses in validation.items()
        )
    )


@pytest.mark.parametrize(
    ("module", "numbers", "expected"),
    [
        (figure2, lambda: hundred_workers(), [True, True]),
        (figure2, lambda: hundred_workers(thirds=(2.0, 0.1, 0.2)), [False, True]),
        (figure2, lambda: hundred_workers(final=np.nan), [False, True]),
        (figure2, lambda: hundred_workers(final=2.3), [False, True]),
        (figure2, lambda: hundred_workers(accuracy=0.98), [True, False]),
        (figure4, lambda: speed((38, 14, 7, 5.5, 4.5)), [True, True]),
        (figure4, lambda: speed((38, 14, 7, 5.5, 5.6)), [False, True]),
        (figure4, lambda: speed((38, 20, 7, 5.5, 4.5)), [True, False]),
        (figure4, lambda: speed((38, 14, 7, 5.5, np.nan)), [False, True]),
        (figure5, lambda: epochs(gem=[0.1, 0.05, *[0.03] * 5], momentum=[0.1] * 7), [True, True]),
        (figure5, lambda: epochs(gem=[*[0.01] * 5, 0.05, 0.05], momentum=[0.1] * 7), [False, True]),
        (figure5, lambda: epochs(gem=[0.2] * 7, momentum=[0.1] * 7), [True, False]),
        (figure5, lambda: epochs(gem=[0.2] * 7, momentum=[*[0.1] * 6, np.nan]), [True, True]),
        (figure5, lambda: epochs(gem=[*[0.1] * 6, np.nan], momentum=[0.1] * 7), [False, False]),
    ],
)
def test_claims(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, numbers: Callable[[], Numbers], expected: list[bool]
) -> None:
    """Those that the data of scale quick cannot judge are left open."""
    monkeypatch.setattr(figure4, "WORKERS", (1, 2, 4, 8, 16))
    assert [claim.holds for claim in module.claims([numbers()], "paper")] == expected
    if module is not figure5:
        assert [claim.holds for claim in module.claims([numbers()], "quick")] == [expected[0], None]


@pytest.mark.parametrize("module", [figure2, figure4, figure5])
def test_uses_exactly_the_runs_that_it_names(module: ModuleType) -> None:
    """Otherwise the estimated time, which is based on `scenarios`, would be wrong."""
    asked: list[asim.Scenario] = []

    class Noting(RunCache):
        def get(self, scenario: asim.Scenario) -> CachedRun:
            asked.append(scenario)
            total = scenario.total or 0
            time = np.linspace(0, 1000, total)
            record = {"test_loss": np.ones(figure5.EPOCHS)}
            return cached(np.ones(total), time, scenario.cluster.workers, records=record)

    module.compute("quick", 3, Noting())
    assert asked == [*module.scenarios("quick", 3).values()]
    assert all(scenario.seed == 3 and scenario.total for scenario in asked)
