"""The error curve against published numbers, limits in time, and a plain simulation of the quadratic."""

import numpy as np
import pytest

from asyncsim import theory

STANDARD_ERRORS = 5
TIMES = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
GIVEN = {"workers": 8, "kappa": 0.1, "rate": 1.0, "noise": 0.0025}


def test_known_curve() -> None:
    known = [0.66930, 0.42472, 0.14862, 0.04177, 0.04041, 0.02273, 0.02228]
    assert theory.error_curve(TIMES, **GIVEN) == pytest.approx(known, abs=5.1e-6)


def test_floors() -> None:
    n, k, s2 = 8, 0.1, 0.0025
    late = [1000.0]
    assert theory.error_curve(late, **GIVEN)[0] == pytest.approx(s2 * (1 + n * k) / (k * (2 + k - n * k * k)))
    assert theory.error_curve(late, **GIVEN, protocol="sync")[0] == pytest.approx(s2 / (n * k * (2 - k)))
    assert theory.error_curve(late, **GIVEN, protocol="k_batch_sync", k=3)[0] == pytest.approx(s2 / (3 * k * (2 - k)))
    half, e = 4, 2 * 8 * 4 / (4 * (16 - 4 - 1))
    floor = s2 * (1 + e * k) / (k * (2 * half + k * (2 * e * half - 2 * n + half) - e * k * k))
    assert theory.error_curve(late, **GIVEN, protocol="k_async", k=half)[0] == pytest.approx(floor)


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
    n, runs, kappa, s2 = 4, 20_000, 0.3, 0.04
    squares = final_squares(protocol, n, k, kappa, s2, seconds=1.5, runs=runs)
    known = theory.error_curve([1.5], workers=n, kappa=kappa, rate=1.0, noise=s2, protocol=protocol, k=k)[0]
    assert abs(squares.mean() - known) <= STANDARD_ERRORS * squares.std() / runs**0.5


def final_squares(protocol: str, n: int, k: int, kappa: float, s2: float, *, seconds: float, runs: int) -> np.ndarray:
    """x² at `seconds`, all runs side by side: in every round each run sees its next gradient."""
    rng = np.random.default_rng(7)
    x, held, gathered = np.ones(runs), np.ones((runs, n)), np.zeros(runs)
    waiting, now, count = np.zeros((runs, n), dtype=bool), np.zeros(runs), np.zeros(runs, dtype=int)
    each = np.arange(runs)
    waits = protocol in ("k_async", "k_sync")
    while True:
        now = now + rng.exponential(size=runs) / np.where(waits, n - waiting.sum(axis=1), n)
        if (now > seconds).all():
            return x**2
        live = now <= seconds
        worker = (rng.random((runs, n)) - 2 * waiting).argmax(axis=1)
        noise = rng.normal(0, s2**0.5, runs)
        gathered = np.where(live, gathered - kappa * held[each, worker] + noise, gathered)
        count = count + live
        waiting[each, worker] |= waits & live
        done = live & (count == k)
        x = np.where(done, x + gathered / k, x)
        if protocol in ("async", "k_async"):
            reads = done[:, None] & (waiting if waits else np.arange(n) == worker[:, None])
        else:
            reads = np.repeat(done[:, None], n, axis=1)
        held = np.where(reads, x[:, None], held)
        waiting[done] = False
        gathered, count = np.where(done, 0.0, gathered), np.where(done, 0, count)


def test_errors() -> None:
    with pytest.raises(ValueError, match="Simulate and replay"):
        theory.error_curve(TIMES, **GIVEN, protocol="k_batch_async", k=2)
    with pytest.raises(ValueError, match="`seconds`"):
        theory.error_curve([-1.0], **GIVEN)
    with pytest.raises(ValueError, match="`kappa`"):
        theory.error_curve(TIMES, **{**GIVEN, "kappa": 0.0})
