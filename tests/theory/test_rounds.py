"""Order statistics, seconds per step, error curves and complexities: closed forms, quadrature, identities, samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsim import delays, theory
from asyncsim.delays import Constant, Delay, Exponential, Gamma, Mixture, Pareto
from tests.theory.replicates import many_paths

STANDARD_ERRORS = 5
GAMMA = Gamma(mean=1.0, cv=0.5)
CLOSED = [
    Exponential(2.0),
    delays.Uniform(1.0, 3.0),
    Pareto(minimum=1.0, shape=3.0),
    Pareto(minimum=2.0, shape=1.5),
    delays.ShiftedExponential(0.5, 2.0),
]
OTHER = [
    Gamma(mean=1.0, cv=2.0),
    delays.Weibull(mean=1.0, shape=0.7),
    Mixture((0.9, 0.1), (Constant(1.0), Exponential(3.0))),
    delays.Empirical([1.0, 2.0, 2.0, 7.0]),
]


@pytest.mark.quick
class TestOrderStatistics:
    @pytest.mark.parametrize("law", CLOSED, ids=repr)
    @pytest.mark.parametrize(("k", "n"), [(1, 1), (1, 16), (8, 16), (16, 16), (999, 1000), (1000, 1000)])
    def test_closed_form_is_the_quadrature(self, law: Delay, k: int, n: int) -> None:
        # A law scaled by 1 is not recognised: it goes through the quadrature.
        known, found = (theory.expected_order_statistic(one, k=k, n=n) for one in (law, delays.Scaled(law, scale=1.0)))
        assert found == pytest.approx(known, rel=1e-6)

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


@pytest.mark.quick
@pytest.mark.parametrize(("protocol", "k"), [("sync", None), ("k_sync", 3), ("k_batch_async", 9), ("async", None)])
def test_seconds_of_a_step_agree_for_exponential_laws(protocol: str, k: int | None) -> None:
    special = theory.round_time(8, k, 0.5, protocol)
    assert theory.round_time_of_law(compute=Exponential(2.0), workers=8, k=k, protocol=protocol) == special


TIMES = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
GIVEN = {"workers": 8, "kappa": 0.1, "rate": 1.0, "noise": 0.0025}


def test_known_curve() -> None:
    known = [0.66930, 0.42472, 0.14862, 0.04177, 0.04041, 0.02273, 0.02228]
    assert theory.error_curve(TIMES, **GIVEN) == pytest.approx(known, abs=5.1e-6)


@pytest.mark.parametrize(("protocol", "k"), [("async", 1), ("k_async", 4), ("sync", 8), ("k_batch_sync", 3)])
def test_floors(protocol: str, k: int) -> None:
    workers = 8 if "async" in protocol else k
    floor = 0.0025 * theory.exponential_noise_floor(0.1, workers, k)
    assert theory.error_curve([500.0], **GIVEN, protocol=protocol, k=k)[0] == pytest.approx(floor)


def test_identities() -> None:
    one = {"kappa": 0.3, "rate": 2.0, "noise": 0.01}
    alone = theory.error_curve(TIMES, workers=1, **one)
    assert theory.error_curve(TIMES, workers=1, **one, protocol="sync") == pytest.approx(alone)
    for protocol in ("k_async", "k_sync", "k_batch_sync"):
        assert theory.error_curve(TIMES, workers=1, **one, protocol=protocol, k=1) == pytest.approx(alone)
    everyone = theory.error_curve(TIMES, workers=5, **one, protocol="k_async", k=5)
    assert theory.error_curve(TIMES, workers=5, **one, protocol="sync") == pytest.approx(everyone)
    assert theory.error_curve(TIMES, workers=5, **one, protocol="k_async", k=1) == pytest.approx(
        theory.error_curve(TIMES, workers=5, **one)
    )


def test_times_in_any_order_and_start() -> None:
    forwards = theory.error_curve(TIMES, **GIVEN)
    assert theory.error_curve(TIMES[::-1], **GIVEN)[::-1] == pytest.approx(forwards)
    silent = {**GIVEN, "noise": 0.0}
    assert theory.error_curve([0.0, 1.0], **silent, start=3.0) == pytest.approx(
        9 * theory.error_curve([0.0, 1.0], **silent)
    )
    assert theory.error_curve([0.0], **GIVEN, start=-3.0) == pytest.approx([9.0])


@pytest.mark.parametrize(("protocol", "k"), [("async", 1), ("k_async", 2), ("k_sync", 3), ("k_batch_sync", 3)])
def test_against_many_plain_runs(protocol: str, k: int) -> None:
    """Where runs are after as many steps as they make in 1.5 s, which does not depend on who takes part."""
    n, runs, kappa, s2 = 4, 20_000, 0.3, 0.04
    fresh = "async" not in protocol  # as if only the K whose gradients are taken were there
    paths = many_paths(
        lambda x: x, workers=k if fresh else n, learning_rate=kappa, commits=40, runs=runs, k=k, noise=s2**0.5 / kappa
    )
    rates = np.full(k, n) if "batch" in protocol else n - np.arange(k)
    seconds = np.random.default_rng(7).exponential(1 / rates, (runs, 40, k)).sum(axis=2).cumsum(axis=1)
    squares = paths[np.arange(runs), (seconds < 1.5).sum(axis=1)] ** 2
    known = theory.error_curve([1.5], workers=n, kappa=kappa, rate=1.0, noise=s2, protocol=protocol, k=k)[0]
    assert abs(squares.mean() - known) <= STANDARD_ERRORS * squares.std() / runs**0.5


SETTING = {"gap": 1.0, "noise": 10.0, "accuracy": 0.1}
fleets = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=20)


def test_square_roots() -> None:
    seconds = np.sqrt(np.arange(1, 101)).tolist()
    order, useful = theory.rennala_complexity(seconds=seconds, **SETTING)
    assert (round(order, 2), useful) == (107.59, 100)
    assert theory.minibatch_complexity(seconds=seconds, **SETTING) == pytest.approx(200.0)
    assert theory.asynchronous_complexity(seconds=seconds, **SETTING) == pytest.approx(107.59, abs=5.1e-3)


@given(seconds=fleets, noise=st.floats(0.0, 100.0))
def test_rennala_is_never_above_the_others(seconds: list[float], noise: float) -> None:
    case = {"seconds": seconds, "gap": 2.0, "noise": noise, "accuracy": 0.5}
    optimal = theory.rennala_complexity(**case)[0] * (1 - 1e-12)
    asynchronous = theory.asynchronous_complexity(**case)
    assert optimal <= asynchronous
    assert asynchronous <= theory.minibatch_complexity(**case) * (1 + 1e-12)


@given(seconds=fleets, gradients=st.integers(1, 50))
def test_collection(seconds: list[float], gradients: int) -> None:
    time = theory.collection_time(seconds=seconds, gradients=gradients)
    assert time <= theory.collection_bound(seconds=seconds, gradients=gradients) * (1 + 1e-9)
    tau = np.array(seconds)
    assert np.floor(time / tau * (1 + 1e-9)).sum() >= gradients
    assert np.floor(time / tau * (1 - 1e-9)).sum() < gradients
