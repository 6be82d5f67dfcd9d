"""Timelines, time budgets and timetables, read off the artists: every second of every worker, once."""

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from asyncsim import plots
from asyncsim.cluster import Cluster, Gossip, Network, Pipeline, Server, faults, simulate
from asyncsim.costs import cost
from asyncsim.delays import Constant, Exponential, Gamma
from asyncsim.plots import _timeline as spans
from asyncsim.trace import NEVER, Fate, Fault, Faults, Trace, Unfinished
from asyncsim.trace._columns import end_of_trace
from tests.cluster.problems import clusters
from tests.problems import refusals

# Worker 0 commits once, through every stage; worker 1's job is cancelled; worker 2 goes down, while the server pauses.
BY_HAND = Trace(
    workers=3,
    worker=[0, 0],
    read_version=[0, 0],
    version=[0, 0],
    pull_version=[0, 0],
    closes_step=[False, True],
    read_time=[0.0, 8.0],
    start_time=[1.0, 8.0],
    finish_time=[3.0, 10.0],
    arrive_time=[4.0, 10.0],
    serve_time=[6.0, 10.0],
    commit_time=[7.0, 10.0],
    unfinished=Unfinished(
        worker=[2, 1, 1],
        read_version=[0, 0, 0],
        read_time=[0.0, 0.0, 5.0],
        start_time=[0.0, 0.5, 5.5],
        finish_time=[np.inf, 4.0, np.inf],
        end_version=[0, 0, NEVER],
        end_time=[2.0, 5.0, np.inf],
        fate=[Fate.CRASHED, Fate.DROPPED, Fate.IN_FLIGHT],
    ),
    faults=Faults(
        kind=[Fault.SLOWDOWN, Fault.CRASH, Fault.OFFLINE, Fault.MESSAGE_LOST, Fault.SERVER_PAUSE],
        worker=[1, 2, 2, 0, -1],
        start_time=[0.0, 2.0, 3.0, 3.5, 4.5],
        end_time=[3.0, 6.0, 7.0, 3.9, 5.0],
    ),
)


def drawn(trace, **window):
    """Label -> artist."""
    ax = Figure().subplots()
    return {artist.get_label(): artist for artist in plots.draw_timeline(ax, trace, **window)}, ax


def rectangles(artist):
    """(rectangles, 4): left, right, and the lane's edges."""
    corners = np.array([path.vertices[:4] for path in artist.get_paths()])
    return np.column_stack([corners[:, 0, 0], corners[:, 2, 0], corners[:, 0, 1], corners[:, 1, 1]])


def seconds(artists, label):
    if label not in artists:
        return 0.0
    boxes = rectangles(artists[label])
    return float((boxes[:, 1] - boxes[:, 0]).sum())


def lane(artists, label):
    return np.round(rectangles(artists[label])[:, 2:].mean(axis=1)).tolist()


class TestByHand:
    @pytest.mark.parametrize(
        ("label", "expected", "lanes"),
        [
            ("reading or sending", [(0, 1), (3, 4), (0, 0.5), (5, 5.5)], {0, 1}),
            ("computing", [(1, 3), (8, 10), (5.5, 10)], {0, 1}),
            ("computing in vain", [(0, 2), (0.5, 4)], {1, 2}),
            ("sent, no commit", [(4, 5)], {1}),
            ("waiting for the server", [(4, 6)], {0}),
            ("in service", [(6, 7)], {0}),
            ("idle or blocked", [(7, 8), (7, 10)], {0, 2}),
            ("down", [(2, 7)], {2}),
        ],
    )
    def test_activities(self, label, expected, lanes):
        artists, _ = drawn(BY_HAND, stop=10.0)
        assert sorted(map(tuple, rectangles(artists[label])[:, :2].tolist())) == sorted(expected)
        assert set(lane(artists, label)) == lanes

    def test_commits(self):
        artists, _ = drawn(BY_HAND, stop=10.0)
        for label, time in (("commit", 7.0), ("closing commit", 10.0)):
            (tick,) = artists[label].get_segments()
            assert tick[:, 0].tolist() == [time, time]
            assert tick[:, 1].mean() == 0
        assert artists["closing commit"].get_linewidth()[0] > artists["commit"].get_linewidth()[0]

    def test_faults(self):
        artists, ax = drawn(BY_HAND, stop=10.0)
        pause, slow = rectangles(artists["server pause"])[0], rectangles(artists["slowdown"])[0]
        assert pause.tolist() == [4.5, 5.0, -0.5, 2.5]
        assert slow[:2].tolist() == [0.0, 3.0]
        assert 1 < slow[2] < slow[3] < 1.5  # in the gap below lane 1
        assert artists["message lost"].get_xdata().tolist() == [3.5]
        assert artists["message lost"].get_ydata().tolist() == [0]
        assert ax.get_ylim()[0] > ax.get_ylim()[1]  # worker 0 on top

    def test_wasted_work_is_hatched_and_paler(self):
        artists, _ = drawn(BY_HAND, stop=10.0)
        vain, work = artists["computing in vain"], artists["computing"]
        assert vain.get_hatch()
        assert not work.get_hatch()
        np.testing.assert_allclose(vain.get_edgecolor(), work.get_facecolor())
        assert vain.get_facecolor()[0, :3].sum() > work.get_facecolor()[0, :3].sum()

    def test_a_window(self):
        artists, ax = drawn(BY_HAND, start=3.5, stop=6.0, workers=[1, 0])
        assert ax.get_xlim() == (3.5, 6.0)
        assert [text.get_text() for text in ax.get_yticklabels()] == ["1", "0"]
        assert "down" not in artists
        assert "slowdown" not in artists
        assert "commit" not in artists
        assert rectangles(artists["waiting for the server"])[0, :2].tolist() == [4.0, 6.0]
        assert lane(artists, "waiting for the server") == [1]
        assert seconds(artists, "computing in vain") == 0.5

    def test_the_legend_names_what_occurs(self):
        artists, ax = drawn(BY_HAND, stop=10.0)
        assert [text.get_text() for text in ax.get_legend().get_texts()] == list(artists)
        assert len(artists) == 13

    def test_beyond_the_record_is_nothing(self):
        artists, ax = drawn(dataclasses.replace(BY_HAND, faults=Faults()), stop=50.0)
        assert ax.get_xlim() == (0.0, 50.0)
        assert max(rectangles(a)[:, 1].max() for name, a in artists.items() if "commit" not in name[-6:]) == 10.0


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters(), st.integers(0, 3), st.floats(0.0, 0.9), st.floats(0.05, 1.2))
def test_every_worker_does_one_thing_at_a_time(cluster, seed, first, share):
    trace = simulate(cluster, commits=40, seed=seed)
    end = end_of_trace(trace)
    start, stop = first * end, (first + share) * end
    found = spans.activities(trace, np.arange(trace.workers, dtype=np.int32), start, stop)
    stop = min(stop, end)
    for worker in range(trace.workers):
        own = [span.rows(span.worker == worker) for span in found.values()]
        begins = np.sort(np.concatenate([span.start for span in own]))
        ends = np.sort(np.concatenate([span.end for span in own]))
        if start < stop:
            assert (begins[0], ends[-1]) == (start, stop)
        np.testing.assert_array_equal(begins[1:], ends[:-1])


class TestWindow:
    def test_by_default_some_eight_jobs_of_a_worker(self):
        trace = simulate(Cluster(5, Constant(2.0)), commits=500)
        _, ax = drawn(trace)
        assert ax.get_xlim() == (0.0, 16.0)
        _, ax = drawn(trace, start=190.0)
        assert ax.get_xlim() == (190.0, 200.0)  # the trace ends

    def test_of_many_workers_the_first_are_drawn_and_that_is_said(self):
        trace = simulate(Cluster(1000, Gamma(1.0, 0.3)), commits=3000)
        artists, ax = drawn(trace)
        assert set(lane(artists, "computing")) == set(range(24))
        assert "workers 0 to 23 of 1,000" in [text.get_text() for text in ax.texts]
        artists, ax = drawn(trace, workers=[999])
        assert len(artists["commit"].get_segments()) == np.count_nonzero(trace.worker == 999)
        assert not ax.texts

    @pytest.mark.parametrize("lanes", [0.5, 3, 40])
    def test_labels_of_lanes_have_room(self, lanes):
        ax = Figure(figsize=(5, lanes)).subplots()
        plots.draw_timeline(ax, simulate(Cluster(24, Constant(1.0)), commits=100))
        step = np.diff(ax.get_yticks())
        height = ax.get_window_extent().height / 100 * 72 / 24.8  # points of a lane
        assert (step * height >= 11.5).all()
        assert len(ax.get_yticks()) >= min(24, height * 24 / 12 / 2)


test_errors = refusals(
    ({"start": 5.0, "stop": 5.0}, "`start` must be before `stop`.*got 5 to 5"),
    ({"start": 99.0}, "end of the trace at 10 s"),
    ({"workers": [3]}, r"`workers` must name different workers; got \[3\]. .* 0 to 2"),
    ({"workers": [1, 1]}, r"got \[1, 1\]"),
    ({"workers": []}, r"got \[\]"),
    call=lambda arguments: drawn(BY_HAND, **arguments),
)


SESSIONS = faults.Sessions(Exponential(5.0), Exponential(2.0))
QUEUE = Server(service=Exponential(0.2))
AWAY = simulate(Cluster(4, Exponential(1.0), Network(latency=Exponential(0.2)), QUEUE, faults=[SESSIONS]), commits=200)
SIZES = {"message_bytes": 4, "parameter_bytes": 40}


@pytest.mark.quick
def test_bars_reach_the_whole_time(ax):
    bars = plots.draw_time_budget(ax, cost(AWAY, **SIZES))
    assert {bar.get_label() for bar in bars} == {"compute", "download", "upload", "queue", "service", "down"}
    tops = np.sum([[patch.get_height() for patch in bar.patches] for bar in bars], axis=0)
    np.testing.assert_allclose(tops, 1.0)
    colours = {tuple(bar.patches[0].get_facecolor()) for bar in bars}
    assert len(colours) == len(bars)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [bar.get_label() for bar in bars]


@pytest.mark.quick
@pytest.mark.parametrize(("schedule", "height"), [("pipedream", spans.HEIGHT), ("concurrent", spans.HEIGHT / 2)])
def test_every_pass_is_a_bar_in_its_lane(ax, schedule, height):
    law = Constant(1.0)
    table = Pipeline(stages=3, forward=law, backward=law, schedule=schedule).timetable(8)
    for artist, starts, ends in zip(
        plots.draw_timetable(ax, table),
        (table.forward_start, table.backward_start),
        (table.forward_end, table.backward_end),
        strict=True,
    ):
        boxes = np.array([path.get_extents().extents for path in artist.get_paths()])  # left, low, right, high
        np.testing.assert_allclose(boxes[:, [0, 2]], np.stack([starts.ravel(), ends.ravel()], axis=1))
        np.testing.assert_allclose(boxes[:, 3] - boxes[:, 1], height)
        assert (np.round(boxes[:, [1, 3]].mean(axis=1)) == np.tile(np.arange(3), 8)).all()
    assert [text.get_text() for text in ax.texts[:4]] == ["0", "0", "0", "1"]


def test_exchanges_are_lines_between_the_lanes_of_workers_on_a_graph(ax):
    trace = simulate(Gossip(5, Gamma(1.0, 0.5), graph="ring"), commits=40)
    (lines,) = [artist for artist in plots.draw_timeline(ax, trace, stop=4.0) if artist.get_label() == "exchange"]
    mixings = trace.mixings
    within = (mixings.time <= 4.0) & (mixings.source != mixings.target)
    expected = {
        (time, *sorted(pair))
        for time, *pair in zip(mixings.time[within], mixings.source[within], mixings.target[within], strict=True)
    }
    assert {(low[0], low[1], high[1]) for low, high in lines.get_segments()} == expected
