"""Where the central variable is and where workers read: the run's own records, to the fineness of the plane."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.animation._paths import UNITS
from tests.animation.problems import POINTS, trace_of, two_runs
from tests.problems import refusals


@pytest.mark.parametrize("window", [{}, {"start": 3.0, "stop": 6.0}])
@pytest.mark.parametrize("name", ["network and queue", "several a step"])
def test_central_variable_and_reads_are_those_of_the_run(name, window):
    trace, runs = two_runs(name)
    movie = asim.animate(trace, runs, **window)
    fine = (movie.plane.high - movie.plane.low) / UNITS
    for now in np.linspace(window.get("start", 0.0), window.get("stop", trace.seconds), 25):
        state = movie.at(now)
        rows = {w: np.flatnonzero((trace.worker == w) & (trace.begin_time <= state.time)) for w in range(trace.workers)}
        for key, run in runs.items():
            way, reads = run.unpacked("central")["x"], run.unpacked("read")["x"]
            if state.commits:
                assert np.abs(np.array(state.central[key]) - way[state.commits - 1]).max() < fine.max()
            else:
                assert state.central[key] == pytest.approx((8.0, 6.0), abs=fine.max())
            for worker in np.flatnonzero((state.stale >= 0) & (state.job < movie.states.film.committing)):
                assert np.abs(state.places[key][worker] - reads[rows[worker][-1]]).max() < fine.max()


def test_a_job_that_never_commits_is_where_it_read():
    trace, runs = two_runs()
    movie, way = asim.animate(trace, runs), runs["DOWNPOUR"].unpacked("central")["x"]
    film = movie.states.film
    jobs = range(film.committing, len(film.jobs))
    assert len(jobs) == trace.workers
    for job in jobs:
        place = movie.states.paths["DOWNPOUR"].places(np.array([job]))[0]
        assert place == pytest.approx(way[int(film.jobs.read[job]) - 1], abs=0.02)


def test_a_job_that_begins_within_the_last_tick_moves_no_other():
    """The window ends at 3.00004 s, and its last tick at 3.001 s, between which worker 0 begins another job."""
    trace = asim.Trace.from_commits([0, 1, 0, 0, 1], commit_time=[2.0, 2.5, 3.0005, 3.5, 4.0])
    rule, workload = asim.rules.AEASGD(0.02, window=2, rho=5.0), asim.workloads.Surface("booth", start=(8.0, 6.0))
    run = asim.replay(trace, rule, workload, record=POINTS)
    movie = asim.animate(trace, run, stop=3.00004)
    assert movie.states.film.stop / movie.states.film.per_second == pytest.approx(3.001)
    fine = (movie.plane.high - movie.plane.low).max() / UNITS
    assert movie.at(2.9).places["aeasgd"][1] == pytest.approx(run.unpacked("read")["x"][4], abs=fine)


def test_a_run_that_diverged_is_shown_until_then():
    trace = trace_of("plain")
    workload = asim.workloads.Surface("beale", start=(-2.0, -1.0))
    run = asim.replay(trace, asim.rules.Downpour(0.5), workload, record=POINTS)
    movie = asim.animate(trace, run)
    assert run.diverged_at is not None
    ticks = movie.states.commit_ticks / movie.states.film.per_second
    assert movie.at(0.0).central["downpour"] == pytest.approx((-2.0, -1.0), abs=0.01)
    assert movie.at(ticks[run.diverged_at] + 0.01).central["downpour"] is None
    assert f'"diverged":{run.diverged_at}' in str(movie._parts()).replace(" ", "").replace("'", '"')
    movie.page()


def test_principal_directions_of_a_larger_model():
    trace, workload = trace_of("plain"), asim.workloads.Quadratic([4.0, 1.0, 0.0], start=[1.0, 2.0, 3.0])
    run = asim.replay(trace, asim.rules.Downpour(0.1), workload, record=POINTS)
    movie = asim.animate(trace, run, view="landscape", directions="principal")
    plane, way = movie.plane, run.unpacked("central")["x"]
    assert plane.directions @ plane.directions.T == pytest.approx(np.eye(2), abs=1e-5)
    assert plane.directions[:, 2] == pytest.approx(np.zeros(2), abs=1e-5)  # in which nothing moves
    back = plane.origin + np.array(movie.at(trace.seconds).central["downpour"]) @ plane.directions
    assert back == pytest.approx(way[-1], abs=0.01)
    assert plane.heights is not None  # the loss in the plane
    given = asim.animate(trace, run, view="landscape", directions=[[1, 0, 0], [0, 2, 0]])
    assert np.abs(given.plane.directions) == pytest.approx(np.eye(3)[:2])
    assert asim.animate(trace, run).view == "gravity"


def test_the_landscape_is_lowest_at_its_minimum():
    movie = asim.animate(*two_runs())
    plane = movie.plane
    row, column = np.unravel_index(plane.heights.argmin(), plane.heights.shape)
    lowest = plane.low + np.array([column, row]) / (len(plane.heights) - 1) * (plane.high - plane.low)
    assert lowest == pytest.approx((1.0, 3.0), abs=0.5)
    assert plane.minima == ((1.0, 3.0),)
    assert plane.heights.min() < 100 < plane.heights.max() == 1000


BOOTH, THREE = asim.workloads.Surface("booth", start=(2.0, 2.0)), asim.workloads.Quadratic([1.0, 2.0, 3.0])


def replayed(workload=BOOTH, **options):
    return asim.replay(trace_of("plain"), asim.rules.Downpour(0.01), workload, **{"record": POINTS, **options})


def plain(run, **options):
    return asim.animate(trace_of("plain"), run, **options)


def test_a_run_that_ends_before_its_trace_is_shown_until_then():
    assert plain(replayed(commits=5)).at(9.0).central["downpour"] is None


test_mistakes = refusals(
    (lambda: plain(None, view="landscape"), "`run` must be given for view='landscape'"),
    (lambda: plain(None, view="landscap"), "`view` must be one of .* Did you mean 'landscape'"),
    (lambda: plain([BOOTH]), "`run` must be an asyncsim Run or a mapping or None; got"),
    (lambda: plain({}), "`run` must be a run, or name -> run; got {}"),
    (lambda: plain(replayed(seed=(0, 1))), "`run` 'downpour' has 2 seeds; a movie shows one"),
    (lambda: plain(replayed(record=()), view="landscape"), "must hold 'central' of every commit, where"),
    (lambda: plain(replayed(record={"central": 2, "read": 1})), "where it is recorded at 20 of 40 commits"),
    (lambda: plain(replayed(), directions="first"), "`directions` must be 'principal' or two rows; got 'first'"),
    (lambda: plain(replayed(), directions=[[1, 0, 0]]), "`directions` must be two independent rows of 2 numbers"),
    (lambda: plain(replayed(), window=(0, 1)), "`window` must be "),
    (lambda: plain(replayed(), view="gravity", window=(0, 1)), "`window` is for view='landscape'"),
    (lambda: plain(replayed(THREE), view="landscape"), "`view` 'landscape' is for two parameters; 'quadratic' has 3"),
    (lambda: asim.animate(trace_of("ties"), replayed(THREE)), "`trace` must be the one that was replayed"),
    (lambda: asim.animate(replayed(THREE)), r"`trace` must be an asyncsim.Trace; got Run"),
    (
        lambda: plain({"two": replayed(), "three": replayed(THREE)}, view="landscape"),
        "`run` must hold runs of one model",
    ),
    (
        lambda: plain(replayed(commits=5), start=5.0),
        "`start` must be before the end of the run 'downpour', which ends after 5",
    ),
)
