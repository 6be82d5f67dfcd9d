"""The state at a time agrees with the trace, by a plain look at every row."""

import numpy as np
import pytest

from asyncsim import Trace
from asyncsim.animation import _states
from asyncsim.animation._film import make_film
from asyncsim.animation._states import DOING, States
from asyncsim.trace import Fault
from tests.animation.problems import TRACES, trace_of
from tests.problems import refusals

STAGES = ("start_time", "finish_time", "arrive_time", "serve_time", "commit_time")


def moments(trace, film, count=60):
    """Times between events, far enough from any that rounding to ticks does not matter, and all over the trace."""
    columns = [getattr(trace, name) for name in ("read_time", *STAGES)]
    columns += [getattr(trace.unfinished, name) for name in ("read_time", "start_time", "finish_time", "end_time")]
    events = np.unique(np.concatenate([*columns, trace.faults.start_time, trace.faults.end_time]))
    events = events[np.isfinite(events) & (events <= trace.seconds)]
    middles = ((events[1:] + events[:-1]) / 2)[np.diff(events) > 4 / film.per_second]
    return middles[:: max(1, len(middles) // count)]


def looked_up(trace, now):
    """Version, commits, and each worker's doing, read version and staleness, from the trace's own columns."""
    done = trace.commit_time <= now
    version = int(np.count_nonzero(trace.closes_step & done))
    down = np.isin(trace.faults.kind, (Fault.CRASH, Fault.OFFLINE))
    workers = []
    for worker in range(trace.workers):
        faults = trace.faults
        away = down & (faults.worker == worker) & (faults.start_time <= now) & (now < faults.end_time)
        doing, read = "idle", -1
        for row in np.flatnonzero((trace.worker == worker) & (trace.begin_time <= now) & (now < trace.commit_time)):
            passed = sum(bool(getattr(trace, stage)[row] <= now) for stage in STAGES)
            doing, read = ("reading", "computing", "sending", "waiting", "in service")[passed], trace.read_version[row]
        rest = trace.unfinished
        for row in np.flatnonzero((rest.worker == worker) & (rest.begin_time <= now) & (now < rest.end_time)):
            passed = int(rest.start_time[row] <= now) + int(rest.finish_time[row] <= now)
            doing, read = ("reading", "computing", "sending")[passed], rest.read_version[row]
        workers.append(("down", -1) if away.any() else (doing, int(read)))
    return version, int(done.sum()), workers


@pytest.mark.quick
@pytest.mark.parametrize("name", TRACES)
def test_the_state_is_that_of_the_trace(name):
    trace = trace_of(name)
    states = States(make_film(trace), {})
    times = moments(trace, states.film)
    assert len(times) > 8
    for now in times:
        state = states.at(now)
        version, commits, workers = looked_up(trace, now)
        assert (state.version, state.commits) == (version, commits)
        assert [(DOING[doing], read) for doing, read in zip(state.doing, state.read, strict=True)] == workers
        stale = [version - read if doing not in ("idle", "down") else -1 for doing, read in workers]
        assert state.stale.tolist() == stale
        assert state.stalest == (int(np.argmax(stale)) if max(stale) >= 0 else -1)
        for kind, found in (("sending", state.up), ("reading", state.down), ("in service", state.service)):
            assert found == [worker for worker, (doing, _) in enumerate(workers) if doing == kind]
        waiting = [worker for worker, (doing, _) in enumerate(workers) if doing == "waiting"]
        assert sorted(state.queue) == waiting
        arrivals = [trace.arrive_time[(trace.worker == w) & (trace.arrive_time <= now)].max() for w in state.queue]
        assert arrivals == sorted(arrivals)


@pytest.mark.parametrize("name", TRACES)
def test_what_happens_at_a_commit_has_happened(name):
    """And just before, its worker is as stale as the trace says, if no two commits are at one tick."""
    trace = trace_of(name)
    states = States(make_film(trace), {})
    ticks = states.commit_ticks
    for row in range(0, len(trace), 7):
        state = states.at(ticks[row] / states.film.per_second)
        assert state.commits == np.count_nonzero(ticks <= ticks[row])
        assert state.version == np.count_nonzero(trace.closes_step[: state.commits])
        before = states.at((ticks[row] - 0.5) / states.film.per_second)
        if before.commits == row:
            assert before.stale[trace.worker[row]] == trace.staleness[row]


def test_a_window_counts_what_came_before():
    trace = trace_of("network and queue")
    whole, window = States(make_film(trace), {}), States(make_film(trace, 4.0, 7.0), {})
    assert window.film.seconds == pytest.approx((4.0, 7.0), abs=2e-3)
    for now in (4.31, 5.2, 6.9):
        one, other = whole.at(now), window.at(now)
        assert (one.version, one.commits, one.stale.tolist()) == (other.version, other.commits, other.stale.tolist())
    assert window.at(0.0).time == window.film.seconds[0]  # times outside are moved to the rim
    assert window.at(99.0).commits == whole.at(7.0).commits


@pytest.mark.parametrize("name", TRACES)
def test_workers_drift_smoothly_within_the_circle(name):
    trace = trace_of(name)
    states = States(make_film(trace), {})
    times = np.linspace(0, trace.seconds, 2000)[1200:1500]
    found = np.array([_states.gravity_places(states, now) for now in times])
    assert (np.hypot(*np.moveaxis(found, -1, 0)) <= 1).all()
    pace = np.linalg.norm(np.diff(found, axis=0), axis=-1).max() / (times[1] - times[0])
    assert pace * states.film.typical / states.film.per_second < 25  # circles in a typical job: nobody jumps


def test_a_worker_is_as_far_out_as_it_is_stale():
    """Long after the last commit, and before the next, the distance is the law's of its staleness."""
    trace = Trace.from_commits([0, 1, 0, 0, 0], commit_time=[1.0, 2.0, 3.0, 4.0, 30.0])
    states = States(make_film(trace), {})
    radius = np.hypot(*_states.gravity_places(states, 29.0).T)
    assert states.at(29.0).stale.tolist() == [0, 2]
    shares = 1 - np.exp(-np.array([0, 2]) / states.film.mean_staleness)
    wanted = _states.NEAREST + (1 - _states.NEAREST) * shares
    assert radius == pytest.approx(wanted)


test_windows_that_show_nothing = refusals(
    (
        lambda: make_film(Trace.from_commits([0, 1], [0.0, 0.0])),
        "`trace` must have times that pass; here all 2 commits are at 0",
    ),
    (lambda: make_film(Trace.from_commits([], workers=2)), "`trace` must have times that pass"),
    (lambda: make_film(trace_of("plain"), start=99.0), "`start` must be before `stop` and the trace's end at"),
    (lambda: make_film(trace_of("plain"), start=-1.0), "`start` must be finite and not negative; got -1.0"),
    (lambda: make_film(trace_of("plain"), stop=0.0), "`stop` must be finite and positive; got 0.0"),
    (
        lambda: make_film(Trace.from_commits(np.arange(30_000) % 9)),
        "30,000 commits in this window, and a movie holds 20,000",
    ),
)


def test_a_window_of_a_long_trace_is_shown():
    film = make_film(Trace.from_commits(np.arange(100_000) % 9), 500.0, 600.0)
    assert (film.commits, film.version, film.row) == (101, 499, 499)
