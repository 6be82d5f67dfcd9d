"""Timers: the integral of the speed over a job is its work, whatever the speed."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsim.delays import Timer, slowed, steady
from tests.delays.speeds import done

LENGTHS = st.floats(0.01, 10.0)
SPEEDS = st.one_of(st.just(0.0), st.floats(0.01, 5.0))
STEPS = st.lists(st.tuples(LENGTHS, SPEEDS), max_size=6)
JOBS = st.lists(st.tuples(st.floats(0.0, 3.0), st.floats(0.0, 20.0)), min_size=1, max_size=6)
WINDOWS = st.lists(st.tuples(st.floats(0.0, 20.0), LENGTHS, st.floats(0.1, 8.0)), max_size=3)


def segments(steps: list[tuple[float, float]]) -> list[tuple[float, float]]:
    ends = itertools.accumulate(length for length, _ in steps)
    return [*((end, speed) for end, (_, speed) in zip(ends, steps, strict=True)), (math.inf, 1.5)]


@given(STEPS, JOBS)
def test_integral_of_the_speed_is_the_work(steps, jobs) -> None:
    timer, start = Timer(segments(steps)), 0.0
    for gap, work in jobs:  # a gap may be shorter than the job before, which was then stopped
        start += gap
        duration = timer.duration(start, work)
        assert done(segments(steps), start, start + duration) == pytest.approx(work, rel=1e-9, abs=1e-9)


@given(STEPS, st.floats(0.0, 20.0), st.floats(0.0, 5.0), st.floats(0.0, 5.0))
def test_a_job_is_as_long_as_its_halves(steps, start: float, first: float, second: float) -> None:
    half = Timer(segments(steps)).duration(start, first)
    rest = Timer(segments(steps)).duration(start + half, second)
    assert half + rest == pytest.approx(Timer(segments(steps)).duration(start, first + second), rel=1e-7, abs=1e-7)


@given(JOBS)
def test_durations_of_a_steady_timer_are_the_work(jobs) -> None:
    timer = steady()
    start = 0.0
    for gap, work in jobs:
        start += gap
        assert timer.duration(start, work) == work


@given(STEPS, WINDOWS, JOBS)
def test_slowed_divides_the_speed_in_its_windows(steps, windows, jobs) -> None:
    spans = [(start, start + length, factor) for start, length, factor in windows]
    timer, start = slowed(Timer(segments(steps)), spans), 0.0
    for gap, work in jobs:
        start += gap
        duration = timer.duration(start, work)
        assert done(segments(steps), start, start + duration, spans) == pytest.approx(work, rel=1e-9, abs=1e-9)


def test_slowed_by_hand() -> None:
    spans = [(2.0, 6.0, 4.0)]
    for start, work, duration in [(0, 2, 2), (0, 2.5, 4), (0, 3, 6), (0, 4, 7), (3, 0.5, 2), (6, 5, 5), (1, 9, 12)]:
        assert slowed(steady(), spans).duration(start, work) == duration


def test_a_pause_and_a_slowdown_without_end() -> None:
    assert slowed(steady(), [(1.0, 3.0, math.inf)]).duration(0.0, 2.0) == 4.0
    assert slowed(steady(), [(1.0, math.inf, 2.0)]).duration(0.0, 5.0) == 9.0


def test_windows_multiply_where_they_overlap() -> None:
    spans = [(0.0, 4.0, 2.0), (2.0, 6.0, 3.0)]
    # 2 s at 1/2, 2 s at 1/6, 2 s at 1/3, then full speed
    for timer in (slowed(steady(), spans), slowed(slowed(steady(), spans[:1]), spans[1:])):
        assert timer.duration(0.0, 3.0) == pytest.approx(6 + 3 - (1 + 1 / 3 + 2 / 3))


def test_a_used_timer_can_be_slowed() -> None:
    timer = Timer([(2.0, 1.0), (4.0, 0.5), (math.inf, 1.0)])
    timer.duration(1.0, 1.5)
    assert slowed(timer, [(3.0, 4.0, 2.0)]).duration(1.0, 1.75) == 3.0


def test_no_work_takes_no_time() -> None:
    assert Timer([(5.0, 0.0), (math.inf, 1.0)]).duration(1.0, 0.0) == 0.0


def test_only_segments_of_the_last_job_are_kept() -> None:
    timer = Timer((float(end), 1.0 + end % 2) for end in itertools.count(1))
    for start in range(0, 20_000, 7):
        timer.duration(float(start), 30.0)
        assert len(timer._kept) <= 32


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_bad_work_is_named(bad: float) -> None:
    with pytest.raises(ValueError, match=rf"`work` must be finite and not negative; got {bad}\. Give"):
        steady().duration(0.0, bad)


@pytest.mark.parametrize("bad", [1.0, -1.0, math.nan, math.inf])
def test_time_does_not_go_back(bad: float) -> None:
    timer = steady()
    timer.duration(2.0, 9.0)
    with pytest.raises(ValueError, match=rf"`start` must be finite and not before 2\.0, .*; got {bad}\. Ask"):
        timer.duration(bad, 1.0)


def test_segments_that_end_are_named() -> None:
    with pytest.raises(ValueError, match=r"`segments` must go on for ever; got an end at 3\.0\. Make infinity"):
        Timer([(3.0, 1.0)]).duration(1.0, 9.0)


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ((-1.0, 2.0, 2.0), r"`start` must be finite and not negative; got -1\.0"),
        ((2.0, 2.0, 2.0), r"`end` must be after `start`, 2\.0; got 2\.0"),
        ((2.0, math.nan, 2.0), r"`end` must be after `start`, 2\.0; got nan"),
        ((2.0, 3.0, 0.0), r"`factor` must be finite and positive; got 0\.0"),
        ((2.0, math.inf, math.inf), "`factor` must be finite and positive; got inf"),
    ],
)
def test_bad_windows_are_named(window: tuple[float, float, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        slowed(steady(), [window])


def test_many_jobs_end_where_one_long_one_does() -> None:
    steps = [(0.7, 0.3), (1.1, 2.0), (0.2, 0.0)] * 30
    works = np.random.default_rng(0).exponential(0.4, 50)
    timer, now = Timer(segments(steps)), 0.0
    for work in works:
        now += timer.duration(now, work)
    assert now == pytest.approx(Timer(segments(steps)).duration(0.0, works.sum()))
