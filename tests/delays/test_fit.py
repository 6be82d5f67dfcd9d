"""Every law fitted to durations: the densities, the highest likelihood, censoring, and impossible durations."""

import dataclasses
import math

import numpy as np
import pytest

from asyncsim import delays
from asyncsim.delays import _law as laws
from asyncsim.delays import scaled
from tests.delays.laws import CASES
from tests.problems import refusals

# Each law with a density, its arguments far from their bounds: others that are as likely are fitted as well.
FITTED = [
    delays.Uniform(0.5, 2.0),
    delays.Exponential(mean=0.7),
    delays.ShiftedExponential(shift=1.5, tail=0.5),
    delays.Gamma(mean=2.0, cv=0.4),
    delays.Erlang(mean=3.0, shape=5),
    delays.LogNormal(mean=3.0, cv=0.8),
    delays.HalfNormal(base=2.0, spread=0.5),
    delays.Weibull(mean=2.0, shape=0.7),
    delays.Pareto(minimum=2.0, shape=2.5),
    delays.HyperExponential((0.7, 0.3), (0.5, 6.0)),
    delays.Mixture((0.4, 0.6), (delays.Gamma(1.0, 0.2), delays.Gamma(4.0, 0.3))),
    delays.Straggler(delays.Gamma(1.0, 0.3), probability=0.1, factor=6.0),
]
MIXED = (delays.HyperExponential, delays.Mixture, delays.Straggler)
DURATIONS = 2000


def sampled(law):
    return law.sample(np.random.default_rng(0), DURATIONS)


def numbers(law):
    """The law's arguments in one flat list."""
    found = []
    for field in dataclasses.fields(law):
        value = getattr(law, field.name)
        parts = value if isinstance(value, tuple) else (value,)
        for part in parts:
            found += numbers(part) if dataclasses.is_dataclass(part) else [part]
    return found


def test_the_table_has_every_law_that_can_be_fitted():
    laws = {type(case.law) for case in CASES}
    assert laws - {type(law) for law in FITTED} == {delays.ByJob, delays.Constant, delays.Empirical, delays.Scaled}


@pytest.mark.parametrize("case", [case for case in CASES if case.twin is not None], ids=lambda case: repr(case.law))
def test_densities_are_those_of_scipy(case):
    times = np.array([0.05, 0.3, 0.51, 0.9, 1.6, 2.2, 3.5, 7.0])
    np.testing.assert_allclose(case.law.log_density(times), case.twin.logpdf(times), rtol=1e-9, atol=1e-9)
    assert case.law.log_density(-1.0) == -math.inf
    assert np.shape(case.law.log_density(1.0)) == ()


@pytest.mark.parametrize("law", FITTED, ids=repr)
class TestEveryFit:
    def test_no_neighbour_is_more_likely(self, law):
        """The truth is not, nor is a law whose times are all a little longer or shorter."""
        durations = sampled(law)[:400]
        found = type(law).fit(durations)
        best = delays.log_likelihood(found, durations)
        others = [law, *(scaled(found, factor) for factor in (0.999, 1.001))]
        assert best >= max(delays.log_likelihood(other, durations) for other in others) - 1e-6

    def test_masked_durations_never_enter(self, law):
        durations = sampled(law)[:200]
        masked = np.ma.array([*durations, 1000.0, np.nan], mask=[False] * 200 + [True] * 2)
        unended = np.ma.array([0.1, 1000.0], mask=[False, True])
        assert type(law).fit(masked, unended) == type(law).fit(durations, [0.1])

    def test_recovers_the_law(self, law):
        found = type(law).fit(sampled(law))
        if isinstance(law, delays.Erlang):
            assert found.shape == law.shape
        np.testing.assert_allclose(numbers(found), numbers(law), rtol=0.25 if isinstance(law, MIXED) else 0.08)

    def test_in_other_units(self, law):
        durations = sampled(law)[:200]
        found, other = type(law).fit(durations), type(law).fit(1000 * durations)
        np.testing.assert_allclose(numbers(scaled(found, 1000.0)), numbers(other), rtol=2e-3)

    def test_jobs_that_had_not_ended_count(self, law):
        """Cut at the 70 % quantile, the durations alone are too short; with the censored ones, the mean is right."""
        durations = sampled(law)[: 150 if isinstance(law, MIXED) else DURATIONS]
        cut = np.quantile(durations, 0.7)
        ended = durations[durations <= cut]
        found = type(law).fit(ended, np.full(len(durations) - len(ended), cut))
        if isinstance(law, (*MIXED, delays.Pareto)):  # the tail beyond the cut is guessed from its beginning
            assert found.mean > 1.2 * ended.mean()
        else:
            assert found.mean == pytest.approx(law.mean, rel=0.12)

    def test_a_job_far_in_the_tail_counts_as_far_as_it_has_lasted(self, law):
        """No neighbour is more likely, although the job has outlasted every quantile that 1 - cdf can tell from 1."""
        durations, censored = sampled(law)[:200], [100 * law.mean]
        found = type(law).fit(durations, censored)
        best = delays.log_likelihood(found, durations, censored)
        assert found.mean > type(law).fit(durations).mean
        others = [law, type(law).fit(durations), *(scaled(found, factor) for factor in (0.97, 1.03))]
        assert best >= max(delays.log_likelihood(other, durations, censored) for other in others) - 1e-6

    def test_equal_durations_are_refused(self, law):
        if not isinstance(law, delays.Exponential):
            with pytest.raises(ValueError, match=r"Use `Constant\(2\)`"):
                type(law).fit([2.0] * 50)


ZERO = r"`durations` must be positive.*entry 1 is 0\.0\. Leave such jobs out"
POSITIVE = (delays.Gamma, delays.LogNormal, delays.Weibull, delays.Pareto, delays.Erlang)


def test_masked_timings_are_no_constant_and_no_value():
    masked = np.ma.array([2.0, 2.0, 7.0], mask=[False, False, True])
    assert delays.Constant.fit(masked) == delays.Constant(2.0)
    assert delays.Empirical.fit(masked, np.ma.masked_all(3)) == delays.Empirical([2.0, 2.0])


test_what_cannot_be_fitted_is_refused = refusals(
    *(
        ((law.fit, durations), message)
        for law in (delays.Exponential, delays.Mixture)
        for durations, message in (
            ([1.0, math.nan], "entry 1 is nan"),
            ([1.0, -1.0], "entry 1 is -1.0"),
            ([[1.0, 2.0]], "list of numbers"),
            ("fast", "must be .*numbers"),
            ([], "got 0"),
        )
    ),
    *(((law.fit, [1.0, 0.0, 2.0]), ZERO) for law in POSITIVE),
    ((delays.Straggler.fit, [1.0, 2.0, 3.0]), "at least 20 for a law with stragglers; got 3"),
    ((delays.Constant.fit, [1.0, 1.1]), "must be equal for a constant law"),
    ((delays.Constant.fit, [1.0], [1.5]), "must be equal for a constant law"),
    ((delays.Empirical.fit, [1.0], [2.0]), "`censored` must be empty"),
    ((delays.log_likelihood, delays.Constant(1.0), [1.0]), "`law` must have a density"),
    call=lambda given: given[0](*given[1:]),
)


def test_a_censored_job_of_an_exponential_law_has_the_logarithm_of_its_survival():
    assert delays.log_likelihood(delays.Exponential(1.0), [1.0], censored=[40.0]) == pytest.approx(-41.0)


def test_a_duration_that_no_delay_outlasts_has_no_likelihood():
    assert delays.log_likelihood(delays.Uniform(0.0, 1.0), [0.5], censored=[2.0]) == -math.inf


def test_constant_and_empirical():
    assert delays.Constant.fit([2.0]) == delays.Constant(2.0)
    assert delays.Empirical.fit(np.array([2.0, 1.0])) == delays.Empirical([1.0, 2.0])


def test_stragglers_among_many_jobs(monkeypatch):
    """A start that is found on fewer jobs leads to the same maximum."""
    law, generator = delays.Straggler(delays.Gamma(1.0, 0.3), 0.08, 5.0), np.random.default_rng(0)
    durations, censored = law.sample(generator, 600), [0.5, 4.0, 7.0]
    monkeypatch.setattr(laws, "MANY", 400)
    found = delays.Straggler.fit(durations, censored)
    monkeypatch.setattr(laws, "MANY", len(durations))
    whole = delays.Straggler.fit(durations, censored)
    for one, other in ((found.law.mean, whole.law.mean), (found.factor, whole.factor)):
        assert one == pytest.approx(other, rel=1e-5)
    assert found.probability == pytest.approx(whole.probability, rel=1e-4)
