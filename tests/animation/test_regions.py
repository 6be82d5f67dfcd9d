"""Movies of hierarchies: places, commits, pushes, merges and staleness follow from the trace."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.animation._film import make_film
from asyncsim.animation._regions import lay_out_regions
from asyncsim.animation._states import States
from asyncsim.trace._variables import variable_of_worker
from tests.animation.problems import REGION_TRACES, trace_of

NAMES = list(REGION_TRACES)
WORKLOAD = asim.workloads.Quadratic([1.0, 0.3], noise=0.5)


def merges_of(trace):
    """Region and time of each merge."""
    rows = np.flatnonzero(np.diff(trace.mixings.event, prepend=-1))
    return trace.mixings.target[rows], trace.mixings.time[rows]


@pytest.mark.parametrize("name", NAMES)
def test_staleness_counts_changes_of_the_workers_variable(name):
    trace, film = trace_of(name), make_film(trace_of(name))
    states, variable = States(film, {}), variable_of_worker(trace)
    regions, times = merges_of(trace)
    for now in np.linspace(0, 0.98 * trace.seconds, 30):
        state = states.at(float(now))
        for worker in np.flatnonzero(state.stale >= 0):
            commits = (trace.variable == variable[worker]) & (
                np.round(trace.commit_time * film.per_second) <= now_of(film, state)
            )
            merged = (regions == variable[worker]) & (np.round(times * film.per_second) <= now_of(film, state))
            assert state.stale[worker] == commits.sum() + merged.sum() - state.read[worker]


def graph_of(film):
    assert film.graph is not None
    return film.graph


def now_of(film, state):
    return state.time * film.per_second + 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_commits_have_the_staleness_of_the_trace(name):
    np.testing.assert_array_equal(make_film(trace_of(name)).staleness, trace_of(name).staleness)


@pytest.mark.parametrize("name", NAMES)
def test_every_commit_push_and_merge_is_seen_when_it_arrives(name):
    trace, film = trace_of(name), make_film(trace_of(name))
    middle, servers = trace.workers, np.arange(trace.computing, trace.workers)
    expected = [
        (int(worker), middle if worker >= trace.computing else int(servers[variable]), time)
        for worker, variable, time in zip(trace.worker, trace.variable, trace.arrive_time, strict=True)
    ]
    expected += [(middle, int(servers[region]), time) for region, time in zip(*merges_of(trace), strict=True)]
    for sender, receiver, time in expected:
        now = np.round(time * film.per_second)
        assert (sender, receiver, 1.0) in graph_of(film).flashes(now, film.typical)


@pytest.mark.parametrize(("name", "latency"), [("regions", 0.5), ("regions of different sizes, with slow links", 0.2)])
def test_pushes_and_answers_take_the_time_of_the_far_link(name, latency):
    film = make_film(trace_of(name))
    far = [kind for kind, pairs in enumerate(graph_of(film).senders) if film.workers in pairs]
    lasted = (graph_of(film).last - graph_of(film).first)[np.isin(graph_of(film).kind, far)] / film.per_second
    assert len(lasted) > 3
    assert lasted == pytest.approx(np.full(len(lasted), latency), abs=1.1 / film.per_second)


@pytest.mark.parametrize("name", NAMES)
def test_the_global_server_counts_pushes(name):
    trace, film = trace_of(name), make_film(trace_of(name))
    for share in (0.3, 0.9):
        now = np.round(share * trace.seconds * film.per_second)
        pushes = (trace.from_variable >= 0) & (np.round(trace.commit_time * film.per_second) <= now)
        assert graph_of(film).versions(now)[-1] == pushes.sum()


@pytest.mark.parametrize("sizes", [[1], [4], [3, 3], [1, 6], [4] * 5, [8] * 8])
def test_workers_lie_around_their_server_and_apart(sizes):
    region_of = np.repeat(np.arange(len(sizes)), sizes)
    places = lay_out_regions(region_of, np.ones(len(sizes)))
    workers, servers, centre = places[: len(region_of)], places[len(region_of) : -1], places[-1]
    assert centre.tolist() == [0, 0]
    assert np.linalg.norm(places, axis=1).max() <= 1 + 1e-9
    to_servers = np.linalg.norm(workers[:, None] - servers, axis=2)
    assert to_servers.argmin(1).tolist() == region_of.tolist()
    distance = np.linalg.norm(places[:, None] - places, axis=2)
    assert distance[np.triu_indices(len(places), 1)].min() > 0.1


@pytest.mark.parametrize("seconds", [[0.0, 0.5, 1.0], [2.0, 0.1, 0.1, 0.3], [0.0, 3.0]])
def test_a_region_is_the_farther_from_the_global_server_the_longer_its_messages_take(seconds):
    network = asim.Network(latency=[delays.Constant(latency) for latency in seconds])
    cluster = asim.Hierarchy([asim.Cluster(3, delays.Gamma(1.0, 0.4))] * len(seconds), 3, network=network)
    places = graph_of(make_film(asim.simulate(cluster, commits=120))).places
    workers, servers = places[: 3 * len(seconds)], places[3 * len(seconds) : -1]
    farness = np.linalg.norm(servers, axis=1)
    between = (farness - farness.min()) / np.ptp(farness)
    np.testing.assert_allclose(between, (np.array(seconds) - min(seconds)) / np.ptp(seconds), atol=1e-9)
    nearest = np.linalg.norm(workers[:, None] - servers, axis=2).argmin(1)
    assert nearest.tolist() == np.repeat(np.arange(len(seconds)), 3).tolist()


def test_a_film_begins_in_the_middle():
    trace = trace_of("regions")
    whole, part = (States(make_film(trace, start), {}) for start in (0.0, trace.seconds / 2))
    now = 0.7 * trace.seconds
    assert part.at(now).stale.tolist() == whole.at(now).stale.tolist()
    assert part.at(now).messages == whole.at(now).messages


def test_a_run_with_its_records_has_a_movie(tmp_path):
    trace = trace_of("regions")
    run = asim.replay(trace, asim.rules.Downpour(0.1), WORKLOAD, record=("central",))
    movie = asim.animate(trace, run)
    assert "9 workers" in movie.title
    texts = " ".join(chapter.text for chapter in movie.chapters)
    assert "pushes its change" in texts
    assert "merges the global model" in texts
    movie.gif(tmp_path / "movie.gif", seconds=0.5, rate=4)
    assert (tmp_path / "movie.gif").stat().st_size > 1000
    with pytest.raises(ValueError, match="one central variable"):
        asim.animate(trace, run, view="landscape")


def test_a_movie_without_a_push_has_chapters():
    trace = asim.simulate(asim.Hierarchy([asim.Cluster(2, delays.Constant(1.0))], 50), commits=6)
    texts = [chapter.text for chapter in asim.animate(trace).chapters]
    assert not [text for text in texts if "push" in text]
    assert "mean staleness is" in texts[-1]


def test_the_page_of_a_usual_hierarchy_is_small():
    region = asim.Cluster(4, delays.Exponential(1.0))
    far = asim.Network(latency=delays.Constant(1.0))
    trace = asim.simulate(asim.Hierarchy([region] * 3, network=far), commits=400)
    assert len(asim.animate(trace).page().encode()) < 60_000
