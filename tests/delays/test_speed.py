"""Speeds that change with time, and the timers of workers: the integral of the speed over a job is its work."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsim.delays import Constant, Exponential, Gamma, Profile, SlowPeriods, Timer, VariableSpeed, slowed, steady
from tests.delays.laws import Own
from tests.problems import refusals

SPEEDS = [
    Profile((0.0,), (1.0,)),
    Profile((0.0, 2.0), (1.0, 0.5)),
    Profile((0.0, 1.0, 2.5), (0.2, 0.0, 3.0), period=4.0),
    Profile((0.0, 1.0), (1.0, 0.0), period=1.5),
    SlowPeriods(factor=4.0, fast=Exponential(3.0), slow=Exponential(1.0)),
    SlowPeriods(factor=0.5, fast=Gamma(2.0, 0.4), slow=Constant(0.3)),
    SlowPeriods(factor=10.0, fast=Own(2.0), slow=Own(2.0)),
]


def done(segments, start: float, end: float, windows=()) -> float:
    """Work done from start to end, by midpoints between every two corners."""

    def speed_at(time: float) -> float:
        slower = math.prod(factor for begin, stop, factor in windows if begin < time < stop)
        return next(speed for until, speed in segments if time < until) / slower

    corners = {start, end, *(until for until, _ in segments), *(t for window in windows for t in window[:2])}
    inside = itertools.pairwise(sorted(corner for corner in corners if start <= corner <= end))
    return sum((right - left) * speed_at((left + right) / 2) for left, right in inside)


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def busy(law: VariableSpeed, jobs: int, seed: int = 1) -> np.ndarray:
    """Durations of the jobs of a worker that is always busy."""
    timer, now, durations = law.timer(generator(seed)), 0.0, []
    for work in law.work.sample(generator(seed + 1000), jobs).tolist():
        durations.append(timer.duration(now, work))
        now += durations[-1]
    return np.array(durations)


@pytest.mark.parametrize("speed", SPEEDS, ids=repr)
def test_integral_of_the_speed_is_the_work(speed) -> None:
    law = VariableSpeed(Exponential(1.0), speed)
    works, durations = law.work.sample(generator(1001), 60), busy(law, 60)
    assert (durations == busy(law, 60)).all()  # the same generator, the same speed
    ends = np.cumsum(durations)
    known = list(itertools.takewhile(lambda s: s[0] < 10 * ends[-1] + 50, speed.segments(generator())))
    known.append((math.inf, getattr(speed, "speeds", [1.0])[-1]))
    for end, duration, work in zip(ends, durations, works, strict=True):
        assert done(known, end - duration, end) == pytest.approx(work, rel=1e-9)


def test_mean_speed_of_profiles() -> None:
    assert Profile((0.0, 2.0), (1.0, 0.5)).mean == 0.5
    repeating = Profile((0.0, 1.0, 2.5), (0.2, 0.0, 3.0), period=4.0)
    assert repeating.mean == pytest.approx((0.2 + 4.5) / 4)
    assert VariableSpeed(Constant(4.7), repeating).mean == pytest.approx(4.0)  # a period's work takes a period


@pytest.mark.parametrize("speed", [speed for speed in SPEEDS if isinstance(speed, SlowPeriods)], ids=repr)
def test_long_run_mean_of_slow_periods(speed: SlowPeriods) -> None:
    law = VariableSpeed(Exponential(0.5), speed)
    means = np.array([busy(law, 1000, seed).mean() for seed in range(12)])
    # A worker begins fast; over 1000 jobs the bias is far below the standard error.
    assert abs(means.mean() - law.mean) <= 5 * means.std(ddof=1) / math.sqrt(12)
    assert means.std() < 0.1 * law.mean


test_invalid_arguments_are_named = refusals(
    (lambda: Profile((0.0, 1.0), (1.0,)), "`times` and `speeds` must be as many; got 2 and 1"),
    (lambda: Profile((), ()), r"`times` must increase from 0; got \(\)"),
    (lambda: Profile((1.0,), (1.0,)), r"`times` must increase from 0; got \(1\.0,\)"),
    (lambda: Profile((0.0, 1.0, 1.0), (1.0, 1.0, 1.0)), "`times` must increase from 0; got"),
    (lambda: Profile((0.0,), (-1.0,)), r"`speeds` must be finite and not negative; got -1\.0"),
    (lambda: Profile((0.0, 1.0), (1.0, 0.0)), r"`speeds` must let all work end; got \(1\.0, 0\.0\)"),
    (lambda: Profile((0.0,), (0.0,), period=1.0), r"`speeds` must let all work end; got \(0\.0,\)"),
    (lambda: Profile((0.0, 1.0), (1.0, 1.0), period=1.0), r"`period` must be after the last .* 1\.0; got 1\.0"),
    (lambda: SlowPeriods(2.0, Constant(0.0), Constant(0.0)), "`fast` and `slow` must not both be 0"),
    (lambda: VariableSpeed(Constant(1.0), 2.0), r"`speed` must be a speed; got 2\.0\. Use a `Profile`"),  # type: ignore[arg-type]
    start="^",
)


LENGTHS = st.floats(0.01, 10.0)
DRAWN = st.one_of(st.just(0.0), st.floats(0.01, 5.0))
STEPS = st.lists(st.tuples(LENGTHS, DRAWN), max_size=6)
JOBS = st.lists(st.tuples(st.floats(0.0, 3.0), st.floats(0.0, 20.0)), min_size=1, max_size=6)
WINDOWS = st.lists(st.tuples(st.floats(0.0, 20.0), LENGTHS, st.floats(0.1, 8.0)), max_size=3)


def segments(steps: list[tuple[float, float]]) -> list[tuple[float, float]]:
    ends = itertools.accumulate(length for length, _ in steps)
    return [*((end, speed) for end, (_, speed) in zip(ends, steps, strict=True)), (math.inf, 1.5)]


@settings(max_examples=20)
@given(JOBS)
def test_durations_of_a_steady_timer_are_the_work(jobs) -> None:
    timer = steady()
    for start, (_, work) in enumerate(jobs):
        assert timer.duration(start, work) == work


@settings(max_examples=60)
@given(STEPS, WINDOWS, JOBS)
def test_slowed_divides_the_speed_in_its_windows(steps, windows, jobs) -> None:
    spans = [(start, start + length, factor) for start, length, factor in windows]
    timer, start = slowed(Timer(segments(steps)), spans), 0.0
    for gap, work in jobs:  # a gap may be shorter than the job before, which was then stopped
        start += gap
        duration = timer.duration(start, work)
        assert done(segments(steps), start, start + duration, spans) == pytest.approx(work, rel=1e-9, abs=1e-9)


def test_a_pause_and_a_slowdown_without_end() -> None:
    assert slowed(steady(), [(1.0, 3.0, math.inf)]).duration(0.0, 2.0) == 4.0
    assert slowed(steady(), [(1.0, math.inf, 2.0)]).duration(0.0, 5.0) == 9.0


def test_a_used_timer_can_be_slowed() -> None:
    timer = Timer([(2.0, 1.0), (4.0, 0.5), (math.inf, 1.0)])
    timer.duration(1.0, 1.5)
    assert slowed(timer, [(3.0, 4.0, 2.0)]).duration(1.0, 1.75) == 3.0


def test_only_segments_of_the_last_job_are_kept() -> None:
    timer = Timer((float(end), 1.0 + end % 2) for end in itertools.count(1))
    for start in range(0, 20_000, 7):
        timer.duration(float(start), 30.0)
        assert len(timer._kept) <= 32


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_bad_numbers_are_named(bad: float) -> None:
    timer = steady()
    timer.duration(2.0, 9.0)
    with pytest.raises(ValueError, match=rf"`work` must be finite and not negative; got {bad}\. Give"):
        timer.duration(2.0, bad)
    with pytest.raises(ValueError, match=rf"`start` must be finite and not before 2\.0, .*; got {bad}\. Ask"):
        timer.duration(bad, 1.0)


def test_segments_that_end_are_named() -> None:
    timer = Timer([(2.0, 0.0), (3.0, 1.0)])
    assert timer.duration(1.0, 0.0) == 0.0  # no work takes no time, even at speed 0
    with pytest.raises(ValueError, match=r"`segments` must go on for ever; got an end at 3\.0\. Make infinity"):
        timer.duration(1.0, 9.0)


test_bad_windows_are_named = refusals(
    ((-1.0, 2.0, 2.0), r"`start` must be finite and not negative; got -1\.0"),
    ((2.0, 2.0, 2.0), r"`end` must be after `start`, 2\.0; got 2\.0"),
    ((2.0, math.nan, 2.0), r"`end` must be after `start`, 2\.0; got nan"),
    ((2.0, 3.0, 0.0), r"`factor` must be finite and positive; got 0\.0"),
    ((2.0, math.inf, math.inf), "`factor` must be finite and positive; got inf"),
    call=lambda window: slowed(steady(), [window]),
)
