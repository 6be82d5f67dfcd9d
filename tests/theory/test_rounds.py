"""Order statistics and seconds per step: closed forms against quadrature, order identities and samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsim import theory
from asyncsim.delays import (
    Constant,
    Delay,
    Empirical,
    Exponential,
    Gamma,
    LogNormal,
    Mixture,
    Pareto,
    Scaled,
    ShiftedExponential,
    Uniform,
    Weibull,
)

pytestmark = pytest.mark.quick

STANDARD_ERRORS = 5
CLOSED = [
    Exponential(2.0),
    Uniform(1.0, 3.0),
    Pareto(minimum=1.0, shape=3.0),
    Pareto(minimum=2.0, shape=1.5),
    ShiftedExponential(0.5, 2.0),
]
OTHER = [
    Gamma(mean=1.0, cv=0.1),
    Gamma(mean=1.0, cv=2.0),
    LogNormal(mean=2.0, cv=0.5),
    Weibull(mean=1.0, shape=0.7),
    Mixture((0.9, 0.1), (Constant(1.0), Exponential(3.0))),
    Empirical([1.0, 2.0, 2.0, 7.0]),
]


class TestOrderStatistics:
    @pytest.mark.parametrize("law", CLOSED, ids=repr)
    @pytest.mark.parametrize(("k", "n"), [(1, 1), (1, 16), (8, 16), (16, 16), (999, 1000), (1000, 1000)])
    def test_closed_form_is_the_quadrature(self, law: Delay, k: int, n: int) -> None:
        # A law scaled by 1 is not recognised: it goes through the quadrature.
        known = theory.expected_order_statistic(law, k=k, n=n)
        assert theory.expected_order_statistic(Scaled(law, scale=1.0), k=k, n=n) == pytest.approx(known, rel=1e-6)

    @pytest.mark.parametrize("law", CLOSED + OTHER, ids=repr)
    def test_ranks_average_to_the_mean_and_increase(self, law: Delay) -> None:
        ranks = [theory.expected_order_statistic(law, k=k, n=5) for k in range(1, 6)]
        assert np.mean(ranks) == pytest.approx(law.mean, rel=1e-6)
        assert (np.diff(ranks) > 0).all()

    @pytest.mark.parametrize("law", OTHER, ids=repr)
    def test_samples(self, law: Delay) -> None:
        drawn = np.sort(law.sample(np.random.default_rng(3), 20_000 * 6).reshape(-1, 6), axis=1)
        error = drawn.std(axis=0) / 20_000**0.5
        known = [theory.expected_order_statistic(law, k=k, n=6) for k in range(1, 7)]
        assert (np.abs(drawn.mean(axis=0) - known) <= STANDARD_ERRORS * error).all()

    def test_atoms_are_exact(self) -> None:
        coin = Mixture((0.5, 0.5), (Constant(1.0), Constant(2.0)))
        found = [theory.expected_order_statistic(coin, k=k, n=3) for k in (1, 2, 3)]
        assert found == pytest.approx([1.125, 1.5, 1.875], rel=1e-12)

    def test_known_values(self) -> None:
        for shape, known in ((3.0, 2.2906), (1.5, 5.7097)):
            law = Pareto(minimum=1 - 1 / shape, shape=shape)  # mean 1
            assert theory.expected_order_statistic(law, k=16, n=16) == pytest.approx(known, abs=5.1e-5)

    @given(n=st.integers(1, 200), data=st.data())
    @settings(max_examples=8, deadline=None)
    def test_a_triangle_of_identities(self, n: int, data: st.DataObject) -> None:
        """Dropping one of n + 1 delays at random: (n + 1 - k) E X_{k:n+1} + k E X_{k+1:n+1} = (n + 1) E X_{k:n}."""
        k, law = data.draw(st.integers(1, n)), Gamma(mean=1.0, cv=0.6)
        low, high = (theory.expected_order_statistic(law, k=rank, n=n + 1) for rank in (k, k + 1))
        found = ((n + 1 - k) * low + k * high) / (n + 1)
        assert found == pytest.approx(theory.expected_order_statistic(law, k=k, n=n), rel=1e-7)

    def test_errors(self) -> None:
        with pytest.raises(ValueError, match="`k` must be at most `n`"):
            theory.expected_order_statistic(Exponential(1.0), k=3, n=2)


class TestRoundTime:
    @pytest.mark.parametrize(("k", "known"), [(1, 0.06250), (4, 0.27752), (8, 0.66287), (15, 2.38073), (16, 3.38073)])
    def test_k_sync(self, k: int, known: float) -> None:
        for protocol in ("k_sync", "k_async"):
            found = theory.round_time(workers=16, k=k, rate=1.0, protocol=protocol)
            assert found == pytest.approx(known, abs=5.1e-6)

    @pytest.mark.parametrize(("k", "known"), [(4, 0.25), (16, 1.0), (40, 2.5)])
    def test_batches(self, k: int, known: float) -> None:
        for protocol in ("k_batch_sync", "k_batch_async"):
            assert theory.round_time(workers=16, k=k, rate=1.0, protocol=protocol) == pytest.approx(known)

    def test_ends_of_the_scale(self) -> None:
        assert theory.round_time(workers=16, rate=2.0, protocol="sync") == pytest.approx(3.38072899 / 2)
        assert theory.round_time(workers=16, rate=2.0, protocol="async") == pytest.approx(1 / 32)
        shifted = ShiftedExponential(0.5, 0.5)
        assert theory.round_time_of_law(compute=shifted, workers=16, protocol="sync") == pytest.approx(
            2.19036, abs=6e-6
        )

    @pytest.mark.parametrize(("protocol", "k"), [("sync", None), ("k_sync", 3), ("k_batch_async", 9), ("async", None)])
    def test_of_a_law_agrees_for_exponential_laws(self, protocol: str, k: int | None) -> None:
        special = theory.round_time(workers=8, k=k, rate=0.5, protocol=protocol)
        general = theory.round_time_of_law(compute=Exponential(2.0), workers=8, k=k, protocol=protocol)
        assert general == pytest.approx(special)

    def test_speed_up(self) -> None:
        assert theory.asynchronous_speed_up(compute=Exponential(3.0), workers=16) == pytest.approx(16 * 3.38072899)
        assert theory.asynchronous_speed_up(compute=Constant(3.0), workers=16) == pytest.approx(16)

    def test_what_has_no_form_says_so(self) -> None:
        for protocol in ("k_async", "k_batch_sync"):
            with pytest.raises(ValueError, match="`round_time` for exponential laws"):
                theory.round_time_of_law(compute=Gamma(mean=1.0, cv=0.5), workers=4, k=2, protocol=protocol)
        with pytest.raises(ValueError, match="`rate`"):
            theory.round_time(workers=4, rate=0.0, protocol="async")
