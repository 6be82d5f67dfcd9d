"""Figures 1, 3, 6, 8 and the assumptions: drawings agree with the numbers, and claims can fail."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from figures import assumptions, figure1, figure3, figure6, figure8
from figures.common import scales
from figures.common.averages import loss_curve
from figures.common.curves import THE_PAPER
from figures.common.figure_set import RunCache
from figures.common.paper import paper_curves
from figures.common.tables import over_seeds, pack, stack, table, where

MODULES = (figure1, figure3, figure6, figure8)
FEW = ((figure1, (5, 10)), (figure3, (5, 10)), (figure6, (5, 10)), (figure8, 5))


@pytest.fixture(scope="module")
def computed(tmp_path_factory):
    """Numbers of two seeds of every figure, with few workers and commits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(scales.SCALES, "quick", replace(scales.SCALES["quick"], commits_per_worker=20))
        for module, workers in FEW:
            patch.setattr(module, "WORKERS", workers)
        runs = RunCache(tmp_path_factory.mktemp("runs"))
        return {module: [module.compute("quick", seed, runs) for seed in range(2)] for module in MODULES}


@pytest.fixture
def numbers(computed, tiny, monkeypatch):
    """The same, while the figures have as few workers as they were computed with."""
    for module, workers in FEW:
        monkeypatch.setattr(module, "WORKERS", workers)
    return computed


def is_papers(line):
    return line.get_label().removeprefix("_") == THE_PAPER


def drawn(module, seeds, scale="quick"):
    page = Figure()
    module.draw(page, seeds, scale)
    return [[line for line in ax.get_lines() if len(line.get_xdata()) > 1] for ax in page.axes]


def test_numbers_are_those_of_the_runs(numbers):
    scenario = figure1.scenarios("quick", 1)["downpour", 10]
    mine = where(table(numbers[figure1][1], "curves"), rule="downpour", workers=10)
    np.testing.assert_array_equal(mine["training_loss"], loss_curve(RunCache().get(scenario))["training_loss"])


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_figure_1_draws_its_numbers(numbers, scale):
    panels = drawn(figure1, numbers[figure1], scale)
    for lines, rule in zip(panels[:3], figure1.RULES, strict=True):
        own = [line for line in lines if not is_papers(line)]
        for line, n in zip(own, figure1.WORKERS, strict=True):
            both = over_seeds(numbers[figure1], "curves", "training_loss", rule=rule, workers=n)
            np.testing.assert_allclose(line.get_ydata(), np.median(both, axis=0))
        assert len(lines) - len(own) == (2 if scale == "paper" else 0)


@pytest.mark.parametrize("scale", ["quick", "paper"])
@pytest.mark.parametrize("losses", [0.1, np.geomspace(2, 0.02, 12), np.geomspace(0.02, 2, 12)])
def test_no_legend_of_figure_1_covers_a_final_loss(scale, losses):
    page = Figure(figsize=figure1.SIZE, layout="constrained")
    figure1.draw(page, [made_up(figure1, *np.atleast_1d(losses))], scale)
    page.canvas.draw()
    ax = page.axes[3]
    legend = ax.get_legend().get_window_extent()
    dots = np.concatenate([ax.transData.transform(line.get_xydata()) for line in ax.get_lines()])
    assert not legend.count_contains(dots)


def test_the_papers_curve_is_drawn_behind_ours():
    seeds = [made_up(figure1, 0.1)]
    lines = [line for line in drawn(figure1, seeds, "paper")[1] if is_papers(line)]
    theirs = where(paper_curves("figure1b_downpour"), workers=20)
    np.testing.assert_array_equal(lines[2].get_ydata(), theirs["training_loss"])
    assert all(line.get_zorder() < 2 for line in lines)


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_figure_3_draws_both_medians(numbers, scale):
    for lines, name in zip(drawn(figure3, numbers[figure3], scale), figure3.MEDIANS, strict=True):
        own = [line for line in lines if not is_papers(line)]
        both = over_seeds(numbers[figure3], "curves", name, workers=10)
        np.testing.assert_allclose(own[1].get_ydata(), np.median(both, axis=0))


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_figures_6_and_8_draw_their_numbers(numbers, scale):
    papers = [sum(map(is_papers, lines)) for lines in drawn(figure6, numbers[figure6], scale)]
    assert papers == ([3, 2] if scale == "paper" else [0, 0])
    line = next(line for line in drawn(figure6, numbers[figure6], scale)[0] if line.get_label() == "momentum SGD")
    both = over_seeds(numbers[figure6], "curves", "training_loss", rule="momentum_sgd", workers=1)
    np.testing.assert_allclose(line.get_ydata(), np.median(both, axis=0))
    for lines, name in zip(drawn(figure8, numbers[figure8], scale), figure8.PAPER, strict=True):
        line = next(line for line in lines if line.get_label() == "κ = 3")
        both = over_seeds(numbers[figure8], "curves", name, kappa=3.0)
        np.testing.assert_allclose(line.get_ydata(), np.median(both, axis=0))
        assert sum(map(is_papers, lines)) == (4 if scale == "paper" else 0)


def made_up(module, *losses):
    """The numbers of one seed with these final losses, in the order of the rules (or values of κ)."""
    if module is figure8:
        return pack(final={"kappa": figure8.KAPPAS, "training_loss": losses}, curves=dying())
    rules = list(module.RULES if module is figure1 else module.PAPER) + (["momentum_sgd"] if module is figure6 else [])
    n = np.array(module.WORKERS)
    columns = {"rule": np.repeat(rules, len(n)), "workers": np.tile(n, len(rules))}
    values = (
        np.broadcast_to(np.ravel(np.array(losses, float)), len(n) * len(rules))
        if len(losses) == 1
        else np.ravel(losses)
    )
    final = {**columns, "training_loss": values, "test_accuracy": np.full(len(values), 0.9)}
    curves = {**columns, "worker_steps": np.ones(len(values)), "training_loss": values}
    return {f"final.{k}": v for k, v in final.items()} | {f"curves.{k}": v for k, v in curves.items()}


def verdicts(module, *losses):
    return [claim.holds for claim in module.claims([made_up(module, *losses)], "paper")]


PAPERS = [[0.074, 0.054, 0.041, 0.035], [0.084, 0.13, 1.3, 2.3], [0.33, 0.36, 0.39, 0.40]]


def test_figure_1_judges_the_papers_own_numbers_and_others():
    assert verdicts(figure1, *PAPERS) == [True, True, True]
    gem, downpour, adaptive = PAPERS
    assert verdicts(figure1, [0.03, 0.04, 0.05, 0.06], downpour, adaptive)[0] is False  # rises
    assert verdicts(figure1, [*gem[:3], np.nan], downpour, adaptive)[0] is False  # diverged
    assert verdicts(figure1, gem, [0.08, 0.1, 0.12, 0.14], adaptive)[1] is False  # never fails
    assert verdicts(figure1, gem, [0.08, 0.1, np.nan, np.nan], adaptive)[1] is True
    assert verdicts(figure1, gem, [0.08, 0.07, 1.3, 2.3], adaptive)[1] is False  # 10 workers are better than 5
    assert verdicts(figure1, gem, [1.2, 1.3, 2.3, 2.3], adaptive)[1] is False  # fails with 5 already
    assert verdicts(figure1, gem, downpour, [0.01, 0.4, 0.4, 0.4])[2] is False  # fast


def test_figure_6_and_8_judge_good_and_bad_numbers():
    good, failing = [0.06, 0.05, 0.04], [0.3, 2.3, np.nan]
    assert verdicts(figure6, good, failing, [0.1, 0.1, 0.1]) == [True, True]
    assert verdicts(figure6, [0.06, 2.3, 0.04], [0.3, 0.3, 2.3], [0.1, 0.1, 0.1]) == [False, False]
    assert verdicts(figure8, 0.07, 0.06, 0.08, 2.3)[:2] == [True, True]
    assert verdicts(figure8, 0.07, 0.06, 0.08, np.nan)[:2] == [True, True]
    assert verdicts(figure8, 0.07, 0.08, 0.08, 0.8)[:2] == [False, False]
    assert verdicts(figure8, np.nan, 0.06, 0.08, 2.3)[:2] == [False, False]


def dying(clamp=5.0, end=0.003):
    """The medians of π of a network that dies with κ = 4."""
    steps = np.arange(5, 905, 5)
    median = np.where(steps < 235, clamp, end)
    return {"kappa": np.full(len(steps), 4.0), "worker_steps": steps, "median_pi": median}


@pytest.mark.parametrize(("medians", "holds"), [({}, True), ({"clamp": 4.0}, False), ({"end": 0.5}, False)])
def test_figure_8_knows_how_pi_falls(medians, holds):
    assert figure8.falls([pack(curves=dying()), pack(curves=dying(**medians))]).holds is holds


def test_figure_3_requires_every_seed_to_fall():
    def seed(*medians):
        n = np.array(figure3.WORKERS)
        return {
            f"curves.{name}": np.array(v)
            for name, v in {"workers": n, **dict.fromkeys(figure3.MEDIANS, medians)}.items()
        }

    assert figure3.claims([seed(0.8, 0.5, 0.2, 0.1)], "quick")[0].holds
    assert not figure3.claims([seed(0.8, 0.5, 0.2, 0.1), seed(0.8, 0.5, 0.2, 0.3)], "quick")[0].holds


def diverging(*commits):
    """The rows of Algorithm 1, diverging at these commits."""
    rows = {"rule": "gem", "assumed": assumptions.PAPER, "workers": assumptions.ALL_WORKERS, "diverged_at": commits}
    return pack(final=stack([rows]))


def test_the_assumptions_are_compared_with_the_paper():
    theirs = assumptions.paper_medians(assumptions.ALL_WORKERS)
    names = [*assumptions.LAWS, *assumptions.VARIANTS]
    columns = {"assumed": np.repeat(names, len(theirs)), "rule": np.full(len(names) * len(theirs), "gem")}
    factor = np.where(columns["assumed"] == "gamma, cv .3", 1.0, 4.0)
    pi = np.tile(np.maximum(theirs, 0.01), len(names)) * factor
    columns |= {"median_pi": 2 * pi, "mean_tensor_median_pi": pi}
    seed = {**diverging(44, 62, 68, 75), **pack(fifths=columns)}
    assert assumptions.distance([seed], "paper", "gamma, cv .3", "mean_tensor_median_pi") == pytest.approx(0)
    assert assumptions.distance([seed], "paper", "exponential", "median_pi") == pytest.approx(3)
    claim = assumptions.claims([seed], "paper")[0]
    assert claim.holds
    assert claim.measured.endswith("Nearest: gamma, cv .3, mean of each tensor's own")
    assert assumptions.claims([seed], "paper")[1].holds
    assert not assumptions.claims([{**seed, **diverging(44, 62, 68, np.nan)}], "paper")[1].holds
    assert assumptions.claims([{**seed, "fifths.mean_tensor_median_pi": 4 * pi}], "paper")[0].holds is False


def test_the_assumptions_are_run_and_drawn(monkeypatch):
    monkeypatch.setitem(scales.SCALES, "quick", replace(scales.SCALES["quick"], commits_per_worker=30))
    monkeypatch.setattr(assumptions, "workers_of", lambda scale: (5,))
    few = {("gem_amplified", 5): "κ = 4", ("downpour_large", 5): "η doubled", ("downpour_large", 10): "more"}
    monkeypatch.setattr(assumptions, "FAILING", few)
    found = assumptions.compute("quick", 0, RunCache())
    final = table(found, "final")
    assert len(final["rule"]) == len(assumptions.scenarios("quick", 0)) == 4 + 2 + 4 + 2 + 3 * 4
    assert set(table(found, "fifths")["assumed"]) == {*assumptions.LAWS, *assumptions.VARIANTS}
    laws = [scenario.cluster.compute for scenario in assumptions.scenarios("quick", 0).values()]
    assert {str(law) for law in laws} == {str(law) for law in assumptions.LAWS.values()}
    page = Figure()
    assumptions.draw(page, [found], "quick")
    (line,) = (line for line in page.axes[1].get_lines() if line.get_label() == "exponential")
    expected = where(final, rule="downpour", assumed="exponential")["training_loss"]
    np.testing.assert_allclose(line.get_ydata(), expected)
    assert assumptions.claims([found], "quick")[0].holds is None
