"""The figures of the gap between pull and commit: the runs that they need, their drawings, claims that can fail."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import asyncsim as asim
from asyncsim.trace import with_gap
from figures import figure3, figure8, gap, gap_runs
from figures.common.figure_set import CachedRun, RunCache
from figures.common.gap import GapScenario, apart
from figures.common.paper import paper_curves
from figures.common.tables import over_seeds, pack, stack, table, where

pytestmark = pytest.mark.usefixtures("tiny")


class MadeUp:
    """Runs whose loss and π are known functions of scenario and commit."""

    def __init__(self):
        self.asked = []

    def get(self, scenario):
        self.asked.append(scenario)
        n, total = scenario.cluster.workers, scenario.total
        at = np.arange(n - 1, total, n)
        gap = getattr(scenario, "gap", 0)
        pi = np.linspace(5.0, gap, len(at))
        records = {"pi_median": pi, "pi_median_by_tensor": np.stack([pi, 0 * pi], axis=1)}
        return CachedRun(
            workers=n,
            loss=np.full(total, 0.1 + gap + scenario.seed),
            commit_time=np.zeros(total),
            records=records if scenario.rule.name == "gem" else {},
            recorded_at=dict.fromkeys(records, at),
            diverged_at=None,
            test_accuracy=0.9,
            final_loss=0.1 * gap + n,
        )


def quadratic(seed=0):
    cluster = asim.Cluster(4, asim.delays.Gamma(mean=1.0, cv=0.3))
    return asim.Scenario(cluster, asim.rules.GEM(0.1), asim.workloads.Quadratic([1.0, 0.1]), commits=40, seed=seed)


def test_the_gap_is_part_of_the_scenario(tmp_path):
    """Of its runs, of its digest, and so of the cache."""
    plain, runs = quadratic(), RunCache(tmp_path)
    found = {g: runs.get(apart(plain, g)) for g in (0, 1, 3)}
    for g, run in found.items():
        trace = with_gap(plain.simulate(), g)
        np.testing.assert_array_equal(run.loss, asim.replay(trace, plain.rule, plain.workload).loss)
        np.testing.assert_array_equal(runs.get(apart(plain, g)).loss, run.loss)
    assert len({tuple(run.loss) for run in found.values()}) == len(list(tmp_path.glob("*/*/run.npz"))) == 3


def test_the_gap_survives_a_change():
    changed = apart(quadratic(), 2).override(commits=10)
    assert isinstance(changed, GapScenario)
    assert (changed.gap, changed.total) == (2, 10)
    assert changed == apart(quadratic().override(commits=10), 2) != apart(quadratic().override(commits=10), 3)


@pytest.mark.parametrize("module", [gap, gap_runs])
def test_uses_exactly_the_runs_that_it_names(module):
    runs = MadeUp()
    module.compute("quick", 3, runs)
    assert set(runs.asked) == {*module.scenarios("quick", 3).values()}


def test_whole_runs_are_those_of_the_figures_apart():
    named = gap_runs.scenarios("quick", 1)
    assert named["workers", 20] == apart(figure3.scenarios("quick", 1)[20], gap_runs.GAP)
    assert named["kappa", 4.0] == apart(figure8.scenarios("quick", 1)[4.0], gap_runs.GAP)


@pytest.fixture
def seeds():
    return [gap.compute("quick", seed, MadeUp()) for seed in (0, 1)]


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_the_gap_is_drawn_as_computed(seeds, scale):
    page = Figure()
    gap.draw(page, seeds, scale)
    for line in page.axes[0].get_lines()[: len(gap.LAWS)]:
        np.testing.assert_allclose(line.get_ydata(), np.array(gap.GAPS) + 0.6)  # the median of seeds 0 and 1
    line = next(line for line in page.axes[2].get_lines() if line.get_label() == "g = 2")
    both = over_seeds(seeds, "curves", "median_pi", case="gem_amplified", law=gap.IN_TURN, gap=2)
    np.testing.assert_allclose(line.get_ydata(), np.median(both, axis=0))
    if scale == "paper":
        (theirs,) = (line for line in page.axes[1].get_lines() if line.get_label() == "the paper")
        curve = where(paper_curves("figure8a_kappa_loss"), kappa=4)
        np.testing.assert_array_equal(theirs.get_ydata(), curve["training_loss"][curve["worker_steps"] <= 100])


LOW, RISING = np.full(len(gap.GAPS), 0.1), np.linspace(0.1, 2.3, len(gap.GAPS))


def numbers(gem=LOW, amplified=RISING, downpour=RISING, highest=11.5, pi=0.4):
    """The numbers of a seed in which these losses of the gaps are the last ones, whatever the law."""
    losses = dict.fromkeys(gap.CASES, LOW) | {"gem": gem, "gem_amplified": amplified, "downpour_large": downpour}
    rows = [
        {
            "case": name,
            "law": law,
            "gap": case.gaps,
            "training_loss": losses[name][-len(case.gaps) :],
            "highest": highest,
        }
        for name, case in gap.CASES.items()
        for law in case.laws
    ]
    curves = {"case": "gem_ten", "law": gap.NEARLY_EQUAL, "gap": gap.GAPS, "median_pi": pi}
    return pack(final=stack(rows), curves=stack([curves]))


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [
        ([{}], [True] * 5),
        ([{"amplified": np.where(RISING > 2, np.nan, RISING)}], [True] * 5),
        ([{}, {"amplified": LOW}], [False, True, True, True, True]),
        ([{"gem": RISING}], [False, True, True, True, True]),
        ([{"amplified": np.full(len(LOW), 2.3)}], [True, False, True, True, True]),
        ([{}, {"downpour": LOW}], [True, True, False, True, True]),
        ([{"downpour": RISING[::-1]}], [True, True, False, True, True]),
        ([{}, {"highest": 7.0}], [True, True, True, False, True]),
        ([{}, {"pi": 4.0}], [True, True, True, True, False]),
    ],
)
def test_claims_of_the_gap_can_fail(seeds, expected):
    found = gap.claims([numbers(**changes) for changes in seeds], "paper")
    assert [claim.holds for claim in found] == expected


def test_whole_runs_are_drawn_and_judged():
    seeds, page = [gap_runs.compute("quick", seed, MadeUp()) for seed in (0, 1)], Figure()
    gap_runs.draw(page, seeds, "paper")
    final, medians, loss, kappa = (ax.get_lines() for ax in page.axes)
    np.testing.assert_allclose(final[-1].get_ydata(), np.array(figure3.WORKERS) + 0.1 * gap_runs.GAP)
    line = next(line for line in kappa if line.get_label() == "κ = 3")
    both = over_seeds(seeds, "kappa_curves", "median_pi", kappa=3.0)
    np.testing.assert_allclose(line.get_ydata(), np.median(both, axis=0))
    assert len(medians) == 2 * len(figure3.WORKERS)
    assert len(loss) == 2 * len(figure8.KAPPAS)
    found = gap_runs.claims(seeds, "quick")
    expected = figure8.claims([figure8.amplified(figure8.scenarios("quick", s), MadeUp()) for s in (0, 1)], "quick")
    assert len(found) == 2 + len(expected)
    assert all(claim.says.startswith(f"with g = {gap_runs.GAP}: ") for claim in found)
    assert found[0].holds is False  # these losses rise with the number of workers
    assert table(seeds[0], "workers_final")["workers"].tolist() == [*figure3.WORKERS]
