"""Stationary staleness, also with a gap between pull and commit: two numerical routes and identities."""

from collections.abc import Sequence

import numpy as np
import pytest

from asyncsim import delays, simulate, theory
from asyncsim.cluster import Cluster, Server
from asyncsim.delays import Constant, Delay, Exponential, Gamma, LogNormal, Pareto, Scaled
from asyncsim.reports.staleness import staleness_theory

EIGHT = [delays.Exponential(1 / rate) for rate in (1, 1, 1, 1, 2, 2, 4, 8)]
STRAGGLER = delays.Straggler(delays.Gamma(mean=1.0, cv=8**-0.5), probability=0.05, factor=10.0)
CASES = [  # compute law, number of workers and size: each case needs something else of the numerics
    (delays.Gamma(mean=1.0, cv=0.5**-0.5), 6, 400),  # an infinite density at 0
    (delays.Gamma(mean=1.0, cv=0.25), 16, 100),
    (delays.LogNormal(mean=1.0, cv=np.expm1(0.25) ** 0.5), 6, 300),
    (STRAGGLER, 6, 900),
    (EIGHT, 8, 1200),
    (delays.HalfNormal(base=0.2, spread=1.0), 6, 100),
    (delays.Pareto(minimum=1.0, shape=3.5), 6, 150),
    (delays.Uniform(0.5, 2.0), 6, 60),
    (delays.Weibull(mean=1.0, shape=0.8), 6, 250),
    (delays.Mixture((0.5, 0.5), (delays.Uniform(1.0, 1.2), delays.Gamma(mean=3.0, cv=0.1))), 6, 100),
]


def moments(pmf: np.ndarray) -> tuple[float, float, float]:
    tau = np.arange(len(pmf))
    mean = pmf @ tau
    return pmf.sum(), mean, pmf @ tau**2 - mean**2


class TestExactValues:
    @pytest.mark.parametrize(("compute", "workers", "size"), CASES, ids=repr)
    def test_mass_mean_and_variance(self, compute: Delay | Sequence[Delay], workers: int, size: int) -> None:
        total, mean, variance = moments(theory.staleness_pmf(compute=compute, workers=workers, size=size))
        # Beyond the end lies what the Pareto tail leaves: P(X > 30 m) = (0.71/30)^3.5 = 2e-6, times about 200 commits.
        heavy = isinstance(compute, Pareto)
        assert total == pytest.approx(1, abs=2e-5 if heavy else 1e-7)
        assert mean == pytest.approx(workers - 1, abs=1e-2 if heavy else 1e-4)
        if not heavy:
            assert variance == pytest.approx(theory.staleness_variance(compute=compute, workers=workers), rel=2e-4)

    def test_exponential_by_the_general_route(self) -> None:
        laws = [Exponential(mean) for mean in (1.0, 0.5, 0.25)]
        general = [Gamma(mean=law.mean, cv=1.0) for law in laws]
        closed, found = (theory.staleness_pmf(compute=compute, workers=3, size=60) for compute in (laws, general))
        assert np.abs(found - closed).max() < 1e-10
        variance = theory.staleness_variance(compute=laws, workers=3)
        assert theory.staleness_variance(compute=general, workers=3) == pytest.approx(variance, abs=1e-4)

    def test_variance_of_exponential_times_by_the_lattice(self) -> None:
        """A Weibull law of shape 1 is not recognised as exponential."""
        assert theory.staleness_variance(delays.Weibull(mean=1.0, shape=1.0), 4) == pytest.approx(12, rel=1e-10)

    def test_variance_of_lognormal_times_by_the_renewal_equation(self) -> None:
        """E Var N(X) = 1 + 2 ∫ M (1 - F) - E X², where M = F + ∫ M(x - u) f(u) du, for times of mean 1.

        All integrands vanish at both ends with all their derivatives, so sums converge faster than any power of a step.
        """
        law, step = LogNormal(mean=1.0, cv=0.8), 1 / 128
        x = step * np.arange(150 / step)  # beyond which ∫ M (1 - F) is below 1e-9
        cdf, density = law.cdf(x), np.append(0.0, np.exp(law.log_density(x[1:])))[::-1]
        renewals = np.zeros(len(x))
        for place in range(1, len(x)):
            renewals[place] = cdf[place] + step * (renewals[1:place] @ density[-place:-1])
        counting = 1 + 2 * step * float(renewals @ (1 - cdf)) - (1 + 0.8**2)
        assert theory.staleness_variance(law, 4) == pytest.approx(3 * counting + 9 * 0.8**2, rel=2e-9)

    def test_gamma_by_the_lattice(self) -> None:
        # A scaled gamma law is not recognised as one: lattice and incomplete gamma functions must agree.
        for cv in (0.002, 0.5):
            laws = Gamma(mean=1.0, cv=cv), Scaled(Gamma(mean=0.5, cv=cv), scale=2.0)
            closed, lattice = (theory.staleness_pmf(compute=law, workers=16, size=200) for law in laws)
            assert np.abs(lattice - closed).max() < 1e-8
            one, other = (theory.staleness_variance(compute=law, workers=16) for law in laws)
            assert one == pytest.approx(other, rel=1e-5)

    def test_a_thousand_workers(self) -> None:
        total, mean, variance = moments(theory.staleness_pmf(compute=Gamma(mean=1.0, cv=0.2), workers=1000, size=3000))
        assert total == pytest.approx(1, abs=1e-8)
        assert mean == pytest.approx(999, abs=1e-4)
        expected = theory.staleness_variance(compute=Gamma(mean=1.0, cv=0.2), workers=1000)
        assert variance == pytest.approx(expected, rel=1e-5)

    def test_time_units_do_not_matter(self) -> None:
        for cv, scale in ((0.05, 1e-3), (1.5, 1e3)):
            here, there = (
                theory.staleness_pmf(compute=Gamma(mean=mean, cv=cv), workers=7, size=50) for mean in (1.0, scale)
            )
            assert np.abs(here - there).max() < 1e-8


class TestOtherMoments:
    def test_many_workers_approach_the_compute_law(self) -> None:
        # Kolmogorov distances .032 at n = 16 and .0084 at n = 64 are known from simulations.
        law = Gamma(mean=3.0, cv=0.5)
        for workers, distance in ((16, 0.034), (64, 0.009), (256, 0.004)):
            cdf = np.cumsum(theory.staleness_pmf(compute=law, workers=workers, size=6 * workers))
            limit = theory.staleness_limit_cdf((np.arange(6 * workers) + 0.5) / (workers - 1), compute=law)
            assert np.abs(cdf - limit).max() < distance

    def test_mean_rescaling_is_that_of_the_distribution(self) -> None:
        laws = [Gamma(1.0, 0.5), LogNormal(1.0, 0.5), delays.Uniform(0.2, 1.0)]
        direct = theory.staleness_pmf(compute=laws, workers=3, size=150) @ (1 / np.arange(1, 151))
        assert theory.mean_rescaling(compute=laws, workers=3) == pytest.approx(direct, abs=1e-5)


NONE = Constant(0.0)


@pytest.mark.parametrize("law", [Exponential(2.0), Gamma(1.0, 0.4)])
def test_staleness_without_a_gap_is_the_usual_law(law):
    found = theory.gap_staleness_pmf(compute=law, workers=5, pull_to_commit=NONE, size=30)
    np.testing.assert_allclose(found, theory.staleness_pmf(law, 5, 30), atol=1e-7)
    variance = theory.gap_staleness_variance(compute=law, workers=5, pull_to_commit=NONE)
    assert variance == pytest.approx(theory.staleness_variance(law, 5), rel=1e-5)
    assert theory.gap_staleness_mean(compute=law, workers=5, pull_to_commit=NONE) == 4.0


@pytest.mark.parametrize("law", [Exponential(1.0), Gamma(1.0, 0.3), LogNormal(1.0, 0.5)])
def test_moments_are_those_of_the_distribution(law):
    gap = {"compute": law, "workers": 6, "pull_to_commit": Constant(0.4)}
    pmf, values = theory.gap_staleness_pmf(**gap, size=120), np.arange(120)
    mean = theory.gap_staleness_mean(**gap)
    assert pmf.sum() == pytest.approx(1.0, abs=1e-6)
    assert pmf @ values == pytest.approx(mean, abs=1e-5)
    assert pmf @ (values - mean) ** 2 == pytest.approx(theory.gap_staleness_variance(**gap), rel=1e-4)


def test_unequal_workers_have_a_mean():
    laws = [Gamma(1.0, 0.5), Gamma(1.0, 0.5), Exponential(3.0)]
    cluster = Cluster(3, laws, server=Server(atomic=False, resume="own", pull_to_commit=Exponential(0.5)))
    known = staleness_theory(cluster)
    assert known.pmf is None
    trace = simulate(cluster, commits=40_000)
    # The gap alone; for the error, commits are taken as independent, in blocks of ten.
    between = (trace.version - trace.pull_version)[400:]
    error = between.std() / np.sqrt(len(between) / 10)
    assert abs(known.mean - 2 - between.mean()) < 4 * error
    assert known.mean == theory.gap_staleness_mean(compute=laws, workers=3, pull_to_commit=Exponential(0.5))
