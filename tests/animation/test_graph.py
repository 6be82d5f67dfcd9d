"""Movies of workers on a graph: places, exchanges, messages and distances follow from the trace and the run."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, graphs
from asyncsim.animation._film import make_film
from asyncsim.animation._graph import lay_out
from asyncsim.animation._report import report_page
from asyncsim.animation._states import States
from tests.animation.browser import Watched
from tests.animation.problems import GRAPH_TRACES, trace_of

NAMES = list(GRAPH_TRACES)
GRAPHS = {"ring": 9, "star": 9, "torus": 12, "complete": 6, "exponential": 8, "random_regular": 10}
WORKLOAD = asim.workloads.Quadratic([1.0, 0.3], noise=0.5)


def film_of(name):
    return make_film(trace_of(name))


def replayed(trace):
    return asim.replay(trace, asim.rules.Downpour(0.1), WORKLOAD, record=("central",))


@pytest.mark.parametrize("name", NAMES)
def test_staleness_counts_the_changes_of_the_workers_variable_by_others(name):
    trace = trace_of(name)
    states = States(film_of(name), {})
    mixings = trace.mixings
    firsts = np.flatnonzero(np.diff(mixings.event * 1000 + mixings.target, prepend=-1))
    counted = firsts[~mixings.own[firsts]]
    for now in np.linspace(0, 0.98 * trace.seconds, 30):
        state = states.at(float(now))
        now = state.time
        for worker in np.flatnonzero(state.stale >= 0):
            rows = (trace.variable == worker) & (trace.commit_time <= now)
            others = (mixings.target[counted] == worker) & (mixings.time[counted] <= now)
            version = np.count_nonzero(rows) + np.count_nonzero(others)
            assert state.stale[worker] == version - state.read[worker]


@pytest.mark.parametrize("name", NAMES)
def test_the_page_and_commits_have_the_staleness_of_the_trace(name):
    film = film_of(name)
    np.testing.assert_array_equal(film.staleness, trace_of(name).staleness)


@pytest.mark.parametrize("name", NAMES)
def test_every_mixing_is_an_exchange_when_it_happens(name):
    trace, film = trace_of(name), film_of(name)
    mixings = trace.mixings
    for event in np.unique(mixings.event)[::5]:
        rows = (mixings.event == event) & (mixings.target != mixings.source)
        pairs = set(zip(mixings.source[rows].tolist(), mixings.target[rows].tolist(), strict=True))
        now = np.round(mixings.time[rows][0] * film.per_second)
        assert pairs <= {(s, r) for s, r, strength in film.graph.flashes(now, film.typical) if strength == 1}


def test_messages_take_the_time_of_the_network():
    trace, film = trace_of("graph with messages"), film_of("graph with messages")
    lasted = (film.graph.last - film.graph.first) / film.per_second
    assert lasted == pytest.approx(np.full(len(lasted), 0.2), abs=1.1 / film.per_second)
    event = len(lasted) // 2
    middle = (film.graph.first[event] + film.graph.last[event]) / 2
    shares = {(s, r): share for s, r, share in film.graph.messages(middle)}
    (pair,) = film.graph.senders[film.graph.kind[event]].tolist()
    assert shares[tuple(pair)] == pytest.approx(0.5)
    assert not trace.mixings.own.all()


@pytest.mark.parametrize("name", GRAPHS)
def test_edges_are_those_of_the_graph(name):
    graph, workers = graphs.by_name(name)(), GRAPHS[name]
    trace = asim.simulate(asim.Gossip(workers, delays.Exponential(1.0), graph=graph), commits=60 * workers)
    expected = np.argwhere(np.triu(graph.adjacency(workers)))
    assert make_film(trace).graph.edges.tolist() == expected.tolist()


@pytest.mark.parametrize("name", GRAPHS)
def test_workers_lie_apart_within_the_circle(name):
    places = lay_out(graphs.by_name(name)().adjacency(GRAPHS[name]))
    assert np.linalg.norm(places, axis=1).max() <= 1 + 1e-9
    distance = np.linalg.norm(places[:, None] - places, axis=2)
    assert distance[np.triu_indices(len(places), 1)].min() > 0.15


def test_no_edge_of_a_torus_lies_on_a_third_worker():
    pairs = graphs.Torus().adjacency(16)
    places = lay_out(pairs)
    for a, b in np.argwhere(np.triu(pairs)):
        along = places[b] - places[a]
        for c in set(range(16)) - {a, b}:
            share = np.clip((places[c] - places[a]) @ along / (along @ along), 0, 1)
            assert np.linalg.norm(places[a] + share * along - places[c]) > 0.03


def test_a_star_lies_around_its_centre_and_a_ring_has_equal_sides():
    assert lay_out(graphs.Star().adjacency(7))[0].tolist() == [0, 0]
    ring = lay_out(graphs.Ring().adjacency(7))
    sides = np.linalg.norm(ring - np.roll(ring, 1, axis=0), axis=1)
    assert sides == pytest.approx(np.full(7, sides[0]))


def test_an_exchange_draws_both_ends_together_for_a_moment():
    film = film_of("graph in pairs")
    graph, event = film.graph, 3
    sender, receiver = graph.senders[graph.kind[event]][0]
    at, after = (graph.places_at(graph.last[event] + wait * film.typical, film.typical) for wait in (0.15, 1e6))
    near, far = (np.linalg.norm(places[sender] - places[receiver]) for places in (at, after))
    assert near < far
    np.testing.assert_array_equal(after, graph.places)


@pytest.mark.parametrize("name", NAMES)
def test_the_last_distances_are_those_of_the_variables(name):
    trace = trace_of(name)
    assert trace.mixings.before.max() < len(trace)
    run = replayed(trace)
    graph = asim.animate(trace, run).states.film.graph
    variables = np.asarray(run.variables["x"], float)
    expected = np.linalg.norm(variables - variables.mean(0), axis=1)
    found = graph.distances(run.commits)
    assert found / found.max() == pytest.approx(expected / expected.max(), rel=1e-4)
    assert graph.distance[0].tolist() == [0] * trace.workers


def test_a_movie_without_records_has_no_distances(tmp_path):
    movie = asim.animate(trace_of("graph in rounds"))
    assert movie.states.film.graph.distances(10) is None
    assert "variables" not in movie.chapters[0].text
    movie.gif(tmp_path / "movie.gif", seconds=0.5, rate=4)
    assert (tmp_path / "movie.gif").stat().st_size > 1000


def test_a_film_begins_in_the_middle():
    trace = trace_of("graph in pairs")
    whole, part = (States(make_film(trace, start), {}) for start in (0.0, trace.seconds / 2))
    now = 0.7 * trace.seconds
    assert part.at(now).stale.tolist() == whole.at(now).stale.tolist()
    assert part.at(now).commits == whole.at(now).commits


def test_the_interactive_report_of_a_run_on_a_graph(browser, tmp_path):
    trace = trace_of("graph in pairs")
    run = asim.replay(trace, asim.rules.Downpour(0.1), WORKLOAD, record={"consensus_distance": 4})
    (tmp_path / "report.html").write_text(report_page(trace, run, "title"))
    with Watched(browser, tmp_path / "report.html") as watched:
        watched.page.wait_for_function("window.report !== undefined")
        text = watched.page.inner_text("body")
        assert watched.page.evaluate("report.film.stale") == trace.staleness.tolist()
    assert "changes of a worker's own model by others" in text
    assert "Distance of the models from their mean" in text
    assert "server made" not in text


def test_a_landscape_of_several_variables_is_refused():
    trace = trace_of("graph in pairs")
    with pytest.raises(ValueError, match="one central variable"):
        asim.animate(trace, replayed(trace), view="landscape")
