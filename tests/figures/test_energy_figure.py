"""The figure of energies: its ratios are those of the runs, and on a quadratic those of theory."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from asyncsim import theory
from figures import energy, figure1
from figures.common.figure_set import CachedRun, Claim
from figures.common.tables import table, where

WORKERS = (3, 6)
STEPS = 20


class MadeUp:
    """Runs whose central energy is a known multiple of the proxy's, with outliers that the median ignores."""

    def __init__(self, ratio):
        self.ratio = ratio

    def get(self, scenario):
        n = scenario.cluster.workers
        at = np.arange(0, STEPS * n, 2)
        proxy = np.exp(-at / at[-1])
        central = self.ratio(scenario.rule.name, n) * proxy * np.where(at < 5 * n, 100.0, 1.0)
        records = {"energy_central": central, "energy_proxy": proxy}
        columns = dict.fromkeys(("loss", "commit_time"), np.zeros(STEPS * n))
        ends = {"diverged_at": None, "test_accuracy": np.nan, "final_loss": 0.1}
        return CachedRun(workers=n, records=records, recorded_at=dict.fromkeys(records, at), **columns, **ends)


def allowed(rule, workers):
    """GEM obeys (12), and DOWNPOUR's ratio is n."""
    return 0.9 if rule == "gem" else float(workers)


@pytest.fixture(scope="module")
def seeds():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(energy, "WORKERS", WORKERS)
        patch.setitem(energy.COMMITS, "quick", 2500)
        yield [energy.compute("quick", seed, MadeUp(allowed)) for seed in (0, 1)]


@pytest.fixture(autouse=True)
def few_workers(monkeypatch):
    monkeypatch.setattr(energy, "WORKERS", WORKERS)
    monkeypatch.setattr(energy, "SHOWN", WORKERS[0])


def test_gem_runs_are_those_of_figure_1(monkeypatch):
    monkeypatch.setattr(energy, "WORKERS", (5,))
    assert energy.scenarios("quick", 2)["gem", 5] == figure1.scenarios("quick", 2)["gem", 5]
    record = energy.scenarios("quick", 2)["downpour", 5].strides
    assert {name: figure1.scenarios("quick", 2)["gem", 5].strides[name] for name in record} == record


def test_ratios_are_medians_of_the_runs(seeds):
    for rule in energy.RULES:
        for n in WORKERS:
            row = where(table(seeds[0], "ratios"), rule=rule, workers=n)
            made = 0.9 if rule == "gem" else n
            np.testing.assert_allclose(row["ratio"], made)
            np.testing.assert_allclose(row["share"], 0.75 if rule == "gem" else 0.0, atol=0.02)
    assert np.isnan(energy.median_ratio(np.array([np.nan, np.inf]), np.ones(2)))


def test_the_quadratic_is_as_predicted(seeds):
    """Within some standard errors of the exact ratio, which are small enough to distinguish numbers of workers."""
    row = energy.quadratic_of(seeds)
    assert energy.scores(seeds).max() < 6  # six degrees of freedom
    assert (row["error"] < 0.05 * row["ratio"]).all()
    for law, delay in energy.LAWS.items():
        exact = [theory.energy_ratio(energy.KAPPA, workers=n, compute=delay) for n in WORKERS]
        np.testing.assert_array_equal(where(row, law=law)["predicted"], exact)


def judged(ratio, monkeypatch):
    monkeypatch.setattr(energy, "on_quadratic", lambda *arguments: QUADRATIC)
    return energy.claims([energy.compute("quick", 0, MadeUp(ratio))], "quick")


QUADRATIC = [
    {"law": law, "workers": n, "predicted": 1.0, "ratio": 1.02, "error": 0.01, "estimate": 1.0, "estimate_error": 0.01}
    for law in energy.LAWS
    for n in WORKERS
]


def test_claims_hold_or_not(monkeypatch):
    assert all(isinstance(claim, Claim) and claim.holds for claim in judged(allowed, monkeypatch))
    above = judged(lambda rule, n: allowed(rule, n) + 0.2, monkeypatch)
    assert [claim.holds for claim in above] == [False, True, True, True]
    falling = judged(lambda rule, n: 10 / allowed(rule, n), monkeypatch)
    assert [claim.holds for claim in falling] == [False, False, False, True]
    monkeypatch.setattr(energy, "ERRORS", 1)
    assert judged(allowed, monkeypatch)[3].holds is False


def test_what_is_drawn_is_what_was_computed(seeds):
    figure = Figure()
    energy.draw(figure, seeds, "quick")
    gem, downpour, ratios, quadratic = figure.axes
    for ax, rule in ((gem, "gem"), (downpour, "downpour")):
        rows = [where(table(one, "curves"), rule=rule, workers=WORKERS[0]) for one in seeds]
        for line, column in zip(ax.lines, ("central", "proxy"), strict=True):
            np.testing.assert_array_equal(line.get_ydata(), np.median([row[column] for row in rows], axis=0))
            np.testing.assert_array_equal(line.get_xdata(), rows[0]["worker_steps"])
    drawn = {line.get_label(): line.get_ydata() for line in ratios.lines}
    np.testing.assert_allclose(drawn["GEM"], [0.9, 0.9])
    np.testing.assert_allclose(drawn["DOWNPOUR"], WORKERS)
    np.testing.assert_allclose(drawn["DOWNPOUR, noise alone"], np.array(WORKERS) * (1 - 0.9**2))
    row = energy.quadratic_of(seeds)
    for container, law in zip(quadratic.containers, energy.LAWS, strict=True):
        np.testing.assert_array_equal(container.lines[0].get_ydata(), where(row, law=law)["ratio"])
    exact = next(line for line in quadratic.lines if line.get_label() == "constant times, exact")
    np.testing.assert_array_equal(exact.get_ydata()[[0, -1]], where(row, law="constant")["predicted"])


def test_runs_that_did_not_learn_are_hollow(seeds):
    figure, worse = Figure(), [dict(one) for one in seeds]
    for one in worse:
        one["ratios.training_loss"] = np.where(one["ratios.rule"] == "downpour", np.nan, 0.1)
    energy.draw_ratios(figure.subplots(), worse)
    hollow = next(line for line in figure.axes[0].lines if line.get_label() == "DOWNPOUR, did not learn")
    assert len(hollow.get_xdata()) == len(seeds) * len(WORKERS)
