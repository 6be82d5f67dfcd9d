"""The figures of stability and staleness on small settings: identities, and drawings that agree with the numbers."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from asyncsim import theory
from figures import stability, staleness
from figures.common.tables import table, where

SIZES, GRID = (1, 3), np.geomspace(0.2, 3.2, 9)


@pytest.fixture(scope="module")
def maps():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(stability.WORKERS, "quick", SIZES)
        patch.setitem(stability.KAPPAS, "quick", GRID)
        patch.setitem(stability.SCHEDULES, "quick", 2)
        yield [stability.compute("quick", seed) for seed in (0, 1)]


def test_runs_of_workers_in_turn_grow_where_theory_says(maps):
    for rule in stability.RULES:
        limit = stability.last_limit(maps[0], rule, "constant")
        bounded, below = stability.shares(maps, "constant", rule) > 0.5, limit[:, None] > GRID
        assert (bounded == below)[below].all()
        if rule != "gem":  # GEM has windows of stability above its limit
            assert not bounded[~below].any()
            assert not any(stability.wrong_side(maps, rule))


def test_limits_are_those_of_theory(maps):
    downpour = stability.limits_of(maps[0], "constant", "downpour")["exact"]
    np.testing.assert_array_equal(downpour, [theory.constant_delay_limit(n - 1) for n in SIZES])
    adaptive = stability.limits_of(maps[0], "constant", "adaptive_staleness")["exact"]
    np.testing.assert_allclose(adaptive, downpour * SIZES)
    for rule in ("downpour", "momentum_sgd"):
        square, sure = stability.limits_of(maps[0], "exponential", rule).values()
        assert (square <= 1.01 * sure).all()
    np.testing.assert_allclose(stability.last_limit(maps[0], "gem")[0], theory.gem_single_worker_limit(), rtol=0.01)


def test_simulated_limits_are_near(maps):
    """A step of this coarse grid is √2."""
    for rule in ("downpour", "gem"):
        ratio = stability.simulated(maps, "exponential", rule) / stability.last_limit(maps[0], rule)
        assert (abs(np.log(ratio)) < np.log(1.6)).all()


@pytest.mark.parametrize(
    ("share", "crossing"), [([1, 1, 0, 1], 1.5), ([1, 0.75, 0.25, 0], 1.5), ([1, 1, 1, 1], 3.0), ([1, 0, 0, 0], 0.5)]
)
def test_first_crossing(share, crossing):
    assert stability.first_crossing(np.arange(4.0), np.array(share, float)) == pytest.approx(crossing)


def test_maps_are_drawn_as_computed(maps):
    figure = Figure()
    stability.draw(figure, maps, "quick")
    panels = iter(figure.axes)
    for law in stability.LAWS:
        for rule in stability.RULES:
            ax = next(panels)
            cells, *_ = ax.collections
            np.testing.assert_array_equal(cells.get_array(), stability.shares(maps, law, rule).T)
            expected = stability.limits_of(maps[0], law, rule)
            assert {line.get_label(): line.get_ydata().tolist() for line in ax.lines} == {
                name: kappas.tolist() for name, kappas in expected.items()
            }


def test_a_map_on_the_wrong_side_is_found(maps):
    wrong = [{**one, "cells.bounded": 1 - one["cells.bounded"]} for one in maps]
    assert stability.in_turn_claim(maps).holds
    assert not stability.in_turn_claim(wrong).holds


@pytest.fixture(scope="module")
def shapes():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staleness, "WORKERS", (2, 8))
        patch.setitem(staleness.COMMITS, "quick", 4000)
        yield [staleness.compute("quick", seed) for seed in (0, 1)]


def test_shares_and_probabilities_sum_to_one(shapes):
    for law in staleness.LAWS:
        share, pmf, commits = staleness.pooled(shapes, law)
        assert commits == 8000
        assert share.sum() == pytest.approx(1)
        assert 0.98 < pmf.sum() < 1 + 1e-6
        assert len(share) == len(pmf)


def test_claims_hold_and_can_fail(shapes, monkeypatch):
    monkeypatch.setattr(staleness, "WORKERS", (2, 8))
    assert all(claim.holds for claim in staleness.claims(shapes, "quick"))
    older = [{**one, "means.mean": one["means.mean"] + 1} for one in shapes]
    assert not staleness.claims(older, "quick")[0].holds
    other = [{**one, "distributions.predicted": np.roll(one["distributions.predicted"], 3)} for one in shapes]
    assert not staleness.claims(other, "quick")[1].holds


def test_equal_constants_commit_in_turn(shapes):
    for n in (2, 8):
        assert (where(table(shapes[0], "means"), law="constant", workers=n)["mean"] == n - 1).all()


def test_histograms_are_drawn_as_computed(shapes, monkeypatch):
    monkeypatch.setattr(staleness, "WORKERS", (2, 8))
    figure = Figure()
    staleness.draw(figure, shapes, "quick")
    shown = staleness.LARGEST_SHOWN * (staleness.N - 1) + 1
    for ax, law in zip(figure.axes, staleness.LAWS, strict=False):
        share, pmf, _ = staleness.pooled(shapes, law)
        simulated, predicted = ax.patches
        np.testing.assert_array_equal(simulated.get_data().values, share[:shown])
        np.testing.assert_array_equal(predicted.get_data().values, pmf[:shown])
    deviation, _ = staleness.deviations(shapes)
    for row, container in zip(deviation, figure.axes[5].containers, strict=False):
        np.testing.assert_allclose(container.lines[0].get_ydata(), 100 * row / np.array([1, 7]))
