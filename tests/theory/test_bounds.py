"""Every function of theory at extreme arguments: bounded memory and time, the right number or a refusal."""

import inspect
import math
import sys
import tracemalloc
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.special import gammainc

from asyncsim import theory
from asyncsim.delays import Constant, Erlang, Exponential, Gamma, Uniform
from asyncsim.theory import _numerics, _parameters, _protocols, _stationary
from tests.theory.extremes import EXTREME_LAWS, FUNCTIONS, extreme_calls, usual_arguments

MOST_NUMBERS, MOST_OPERATIONS = 2**16, 2**25  # instead of the true bounds, which take gigabytes and minutes to reach
MOST_BYTES = 64 * 8 * MOST_NUMBERS + 2**24  # some copies of the largest array, and what does not depend on arguments
MOST_CALLS = 300_000  # of Python and C functions, for `MOST_OPERATIONS`
MAY_BE_NAN = {"energy_ratio": "NaN where the proxy itself is unstable", "bounded_queue": "`in_queue` of long queues"}


ONE = Exponential(1.0)
approx = pytest.approx


def wide_variance(cv: float) -> float:
    """Var τ of two gamma workers: ∫ f(y) Var N(y) dy + cv², over log y, with Var N from sums of incomplete gammas.

    Σ_j A(j a), with A(s) = E(y - Gamma(s))⁺ and a = 1/cv², is the integral of A/a by the Euler-Maclaurin formula, whose
    terms are smooth because a is small.
    """
    a, y = cv**-2, np.exp(np.linspace(-40, math.log(60), 1500))
    nodes, weights = np.polynomial.legendre.leggauss(40)
    ends = np.concatenate([[0.0], np.geomspace(1e-3, 200, 60)])
    s = (ends[:-1, None] + np.diff(ends)[:, None] * (nodes + 1) / 2).ravel()[:, None]
    w = (np.diff(ends)[:, None] * weights / 2).ravel()
    whole = w @ np.maximum(y * gammainc(s, y) - s * gammainc(s + 1, y), 0.0)
    h = 1e-4
    slope = (np.maximum(y * gammainc(h, y) - h * gammainc(1 + h, y), 0.0) - y) / h
    total = whole / a - y / 2 - a * slope / 12
    variance = cv**2 * y + 2 * cv**2 * total - (cv**2 * y) ** 2
    density = np.exp(a * np.log(y) - y - math.lgamma(a))
    return float(np.trapezoid(density * variance, np.log(y))) + cv**2


class TooManyError(BaseException):
    """Raised in the middle of a function that calls more functions than its bound allows."""


def counted(call: Any) -> Any:
    """Return the result of a call that may make `MOST_CALLS` calls and no more."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")
        if calls > MOST_CALLS:
            sys.setprofile(None)
            raise TooManyError

    sys.setprofile(count)
    try:
        return call()
    finally:
        sys.setprofile(None)


def answer(call: Any, label: str) -> tuple[Any, str | None]:
    """Return the result of a call, or 0 and the message with which it was refused."""
    try:
        return counted(call), None
    except ValueError as refusal:
        return 0.0, str(refusal)
    except BaseException as error:
        error.add_note(label)
        raise


def numbers(result: Any) -> np.ndarray:
    return np.concatenate([numbers(part) for part in result]) if isinstance(result, tuple) else np.ravel(result)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_extreme_arguments_are_answered_within_bounds_or_refused(function, monkeypatch):
    monkeypatch.setattr(_numerics, "MOST_NUMBERS", MOST_NUMBERS)
    monkeypatch.setattr(_numerics, "MOST_OPERATIONS", MOST_OPERATIONS)
    monkeypatch.setattr(_stationary, "MOST_UNKNOWNS", 400)
    monkeypatch.setattr(_protocols, "_MOST_STATES", 400)
    warnings.simplefilter("ignore", RuntimeWarning)  # of overflow, which a refusal reports
    tracemalloc.start()
    try:
        for label, arguments in extreme_calls(function):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            result, refusal = answer(partial(function, **arguments), label)
            peak = tracemalloc.get_traced_memory()[1] - before
            assert refusal is None or ("`" in refusal and "\n" not in refusal), (label, refusal)
            assert function.__name__ in MAY_BE_NAN or not np.isnan(numbers(result)).any(), (label, result)
            assert peak < MOST_BYTES, (label, peak)
    finally:
        tracemalloc.stop()


def test_the_table_has_laws_far_from_any_use():
    assert {round(law.variance**0.5, 9) for law in EXTREME_LAWS} >= {1e-6, 1e-3, 10.0, 50.0, 1e3}


# Functions of no argument that return what theory says far from usual arguments, and the right number.
FAR = {
    "nearly constant times": (
        lambda: theory.staleness_variance(Gamma(1.0, 1e-6), 4),
        approx(9e-12 + 3 * (2e-6 / math.sqrt(math.pi) - 1e-12), rel=1e-5),  # (n-1)²c² + (n-1)(GMD/m - c²)
    ),
    "cv 10, against E Var N(X) + cv² by mpmath": (
        lambda: theory.staleness_variance(Gamma(1.0, 10.0), 2),
        approx(wide_variance(10.0), rel=1e-5),
    ),
    "cv 1000": (lambda: theory.staleness_variance(Gamma(1.0, 1e3), 2), approx(wide_variance(1e3), rel=1e-4)),
    "one exponential stage, by the way for wide laws": (
        lambda: theory.staleness_variance(Gamma(1.0, 1 + 1e-9), 1000),
        approx(1000 * 999, rel=1e-6),
    ),
    "many exponential workers": (lambda: theory.stability_limit(10**9, ONE), approx(math.sqrt(2e-9), rel=1e-4)),
    "a long round robin": (
        lambda: theory.stability_limit(10**9, Constant(1.0)),
        approx(2 * math.sin(math.pi / (2 * (2 * 10**9 - 1)))),
    ),
    "a step that is small against rounding": (
        lambda: theory.kinetic_energy(1e-100, 8, Erlang(1.0, 2)),
        approx(4.0, rel=1e-5),  # n/2, of pure noise
    ),
    "its floor": (lambda: theory.noise_floor(1e-100, 8, ONE), approx(0.5e100, rel=1e-6)),
    "momentum next to 1, kept by 4 workers": (
        lambda: theory.constant_delay_limit(3, 1 - 1e-6, "worker"),
        approx(2e-6 / 3, rel=1e-4),  # 2(1 - μ)/τ
    ),
    "the longest of a billion": (
        lambda: theory.expected_order_statistic(ONE, k=10**9, n=10**9),
        approx(math.log(1e9) + 0.5772156649015329, rel=1e-9),
    ),
    "a billion jobs of two workers": (
        lambda: theory.collection_time(seconds=[1.0, 2.0], gradients=10**9),
        approx(2e9 / 3, abs=1),
    ),
    "a lead over all steps": (
        lambda: theory.rollouts.in_order_steps([1.0, 1.0], train=0.5, lead=10**9).tolist(),
        [1.5, 2.0],
    ),
    "training that takes forever": (lambda: theory.rollouts.in_order_period(mean=1e-9, train=1.0), 1.0),
    "an error curve at its floor": (
        lambda: theory.error_curve([1e9], workers=8, kappa=0.4, rate=1.0, noise=0.0025)[0],
        approx(0.0025 * theory.exponential_noise_floor(0.4, 8)),
    ),
    "a batch larger than the number of workers": (
        lambda: theory.batched_staleness_pmf(protocol="k_batch_async", workers=4, k=10**9, size=3).tolist(),
        approx([1 - 3e-9, 3e-9, 0.0], rel=1e-6),  # mean (n - 1)/K
    ),
    "preemption that is rare": (
        lambda: theory.preemption(compute=Uniform(1.0, 3.0), preemption_rate=1e-100)[:3],
        approx((0.5, 1.0, 1.0)),
    ),
    "preemption faster than any job": (
        lambda: theory.preemption(compute=Uniform(1.0, 3.0), preemption_rate=1e9)[:3],
        (0.0, 1.0, 0.0),
    ),
    "a job between rare preemptions": (
        lambda: theory.repeated_job_seconds(compute=Uniform(1.0, 3.0), preemption_rate=1e-100),
        approx(2.0),
    ),
    "idle workers of a lyapunov exponent": (
        lambda: theory.lyapunov_exponent(0.5, np.zeros(1000, int), workers=10**9),
        approx(math.log(0.5)),
    ),
    "one of two ahead by a million jobs": (
        lambda: theory.ssp_throughput(workers=2, slack=10**6, rate=1.0),
        approx(2 * (2e6 + 2) / (2e6 + 3)),
    ),
    "one worker, whatever its slack": (
        lambda: (
            theory.ssp_throughput(workers=1, slack=10**9, rate=3.0),
            theory.ssp_staleness_mean(workers=1, slack=10**9),
        ),
        (3.0, 0.0),
    ),
    "a server that is slower than a float tells": (
        lambda: (
            theory.mean_value_analysis(workers=4, service=Exponential(1e300), delays=[Exponential(1e-300)]).queue_length
        ),
        approx(4.0),
    ),
    "no other worker holds parameters": (
        lambda: theory.separate_pull_staleness_mean(
            workers=4, service=ONE, before_read=[Exponential(1e300)], after_read=[]
        ),
        approx(0.0, abs=1e-9),
    ),
    "shares of shortest times": (
        lambda: theory.useful_share(compute=Gamma(1.0, 1.0), workers=10**4, protocol="k_sync", k=5000),
        approx(theory.useful_share(compute=ONE, workers=10**4, protocol="k_sync", k=5000), rel=1e-6),
    ),
}


@pytest.mark.parametrize("case", FAR)
def test_numbers_far_from_use_are_right(case):
    ask, right = FAR[case]
    assert ask() == right


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: theory.stability_limit(2, Gamma(1.0, 1e-3)), "moments.*lyapunov_exponent"),
        (lambda: theory.staleness_pmf(ONE, 4, 10**9), "`size` = 1000000000 needs 1e[+]09 numbers in one array"),
        (
            lambda: theory.queue_staleness_pmf(workers=4, compute_rate=1.0, service_rate=1e100, size=10**6),
            "`size` = 1000000 needs .* steps",
        ),
        (
            lambda: theory.constant_delay_moments(1e-9, 2, 0.999999, "worker"),
            "`momentum` = 0.999999 is too close to 1",
        ),
        (
            lambda: theory.kinetic_energy(0.1, 10**6, ONE, momentum=1 - 2**-53, where="worker"),
            "`momentum` = 0.9999999999999999 is too close to 1",
        ),
        (lambda: theory.almost_sure_limit(np.zeros(9, int), low=1.0, high=-1.0), "`low` must be positive and less"),
        (lambda: theory.kernel_rate([0.5, 0.5], kappa=10**400), "`kappa` must be finite and positive"),
        (lambda: theory.staleness_mean(workers=10**400), "`workers` must be at most 1.8e[+]308; got 1.00e[+]400"),
        (lambda: theory.almost_sure_limit(np.zeros(9, int), low=1.0, high=10**400), "`high` must be a number"),
        (
            lambda: theory.mean_value_analysis(workers=2, service=ONE, delays=[1.0]),  # type: ignore[list-item]
            "`delays` must be a law of delays or a sequence",
        ),
        (
            lambda: theory.separate_pull_staleness_mean(workers=2, service=ONE, before_read=[1.0], after_read=[]),  # type: ignore[list-item]
            "`before_read` must be a law of delays or a sequence",
        ),
        (lambda: theory.throughput(10**9, 1.0, 1.0), "`workers` = 1000000000 needs 1e[+]09 numbers.*`knee`"),
        (lambda: theory.staleness_variance(Exponential(1e-300), 2), "`mean` must be from 1e-100 to 1e[+]100 seconds"),
        (lambda: theory.expected_path(lambda x: x, 1.0, workers=2, learning_rate=0.1, commits=10**9), "`commits` = 1"),
    ],
)
def test_a_refusal_names_argument_value_and_remedy(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()


OUT_OF_RANGE: dict[type, tuple[float, ...]] = {
    float: (5e-324, 1e-310, 1e-200, 1e200, 1.7e308),
    int: (2**53 + 2, 10**300),
}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_arguments_whose_powers_are_no_floats_are_refused_by_name(function):
    """As subnormal rates of a queue are, whose reciprocals are infinite."""
    usual = usual_arguments(function)
    parameters = inspect.signature(function).parameters.values()
    for one in parameters:
        checks = getattr(one.annotation, "__metadata__", ())
        if checks and checks[0] in (_parameters.require_scale, _parameters.require_scale_or_zero):
            numbers = OUT_OF_RANGE[float][3 * (checks[0] is _parameters.require_scale_or_zero) :]
        elif checks and checks[0] in (_parameters.require_count, _parameters.require_whole):
            numbers = OUT_OF_RANGE[int]
        else:
            continue
        for number in numbers:
            with pytest.raises(
                ValueError, match=rf"^`{one.name}` must be (from 1e-100 to 1e\+100|at most (9.01e\+15|1e\+100)); got"
            ):
                function(**{**usual, one.name: number})


def test_numbers_that_overflow_together_are_refused():
    with pytest.raises(ValueError, match=r"`service_rate` = 1e\+100 with `compute_rate` = 1e-100 gives numbers beyond"):
        theory.saturated_staleness_variance(compute_rate=1e-100, service_rate=1e100)
    with pytest.raises(ValueError, match="`start` gives numbers beyond the largest float"):
        theory.error_curve([1.0], workers=2, kappa=0.1, rate=1.0, start=1e300)
    with pytest.raises(ValueError, match=r"`batches` must be at most 1e\+06; got"):
        theory.rollouts.fluid(slots=96, samples=32, load=1.5, batches=2**53)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: theory.rollouts.unbounded_queue(mean=1e100, train=1.0, slots=2, samples=40),
        lambda: theory.rollouts.bounded_queue(mean=1.0, train=0.1, slots=1000, samples=4, batches=1)[:3],
        lambda: theory.rollouts.age_cutoff(
            generate=Uniform(0.9999982679491924, 1.0000017320508077), train=0.1, slots=8, samples=4, max_age=4
        ),
    ],
)
def test_rounding_makes_no_number_negative(ask):
    assert min(ask()) >= 0
