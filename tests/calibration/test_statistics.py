"""Predictive p-values of all statistics together, and of the laws."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.calibration._choose import choose
from asyncsim.calibration._goodness import law_check
from asyncsim.calibration._stages import Stage
from asyncsim.calibration._statistics import compare_jointly, compare_statistics, summaries, summary, unit_of


def rows(values):
    return [{f"s{i}": float(value) for i, value in enumerate(row)} for row in values]


@pytest.fixture(scope="module")
def drawn():
    """Statistics that move together along one direction, far more than across it."""
    generator = np.random.default_rng(0)
    common = 5 * generator.normal(size=(4000, 1))
    return common + 0.1 * generator.normal(size=(4000, 6))


def test_p_values_are_uniform(drawn):
    found = np.array(
        [compare_jointly(rows(part[:1])[0], rows(part[1:])).p_value for part in drawn[:3250].reshape(50, 65, 6)]
    )
    assert abs(found.mean() - 0.5) < 4 / np.sqrt(12 * 50)
    assert abs(np.mean(found < 0.2) - 0.2) < 4 * np.sqrt(0.16 / 50)


def test_what_is_nowhere_together_is_found(drawn):
    """Each statistic alone is well within its spread."""
    log, replicates = {f"s{i}": (-1.0) ** i for i in range(6)}, rows(drawn[:64])
    assert min(check.p_value for check in compare_statistics(log, replicates).values()) > 0.5
    assert compare_jointly(log, replicates).p_value < 1e-9


def test_what_never_varies_counts_for_nothing():
    log, replicates = {"a": 1.0, "b": 2.0}, [{"a": 1.0, "b": 2.0}] * 20
    assert compare_jointly(log, replicates).p_value == 1.0


@pytest.mark.parametrize("slow", [0, 2])
def test_p_values_of_laws_are_uniform(slow):
    """Although the law was fitted to the same durations, and workers of two classes to some of them each."""
    worker, found = np.arange(240, dtype=np.int32) % 4, []
    for seed in range(60):
        durations = delays.Gamma(1.0, 0.5).sample(np.random.default_rng([seed, 1]), len(worker))
        stage = Stage(np.where(worker < slow, 3 * durations, durations), worker)
        check = law_check(stage, choose(stage, 4, "gamma", by_worker=slow > 0).groups, 0)
        assert check is not None
        found.append(check.p_value)
    assert abs(np.mean(found) - 0.5) < 4 / np.sqrt(12 * 60)
    assert np.mean(np.array(found) < 0.01) < 0.01 + 4 * np.sqrt(0.0099 / 60)


PURE = ("share", "cv", "autocorrelation", "geometric mean", "staleness,")


def test_every_statistic_has_a_unit_or_is_a_pure_number():
    """Those that a report may quote: shares, correlations and ratios have no unit, and the others say theirs."""
    trace = asim.simulate(asim.Cluster(3, delays.Gamma(1.0, 0.3)), commits=200)
    names = [*summary(trace), *(f"{name} (log)" for name in summaries(trace, ("finish_time", "commit_time")))]
    assert not [name for name in names if not unit_of(name) and not any(pure in name for pure in PURE)]
    assert unit_of("gap, 5 %") == "mean gaps"
    assert unit_of("previous commit to finish_time, 2 % (log)").startswith("logarithm of a time")
    assert unit_of("inter-commit time, median") == "s"
