"""Titles wrap, and legends stay inside whatever figure a drawing function is given."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.legend import Legend

import asyncsim as asim
from asyncsim import plots
from asyncsim.plots._comparison import draw_comparison
from asyncsim.plots._page import draw_title
from asyncsim.plots._staleness import draw_shares

TRACE = asim.simulate(
    asim.Cluster(8, asim.delays.Exponential(1.0), server=asim.Server(service=asim.delays.Constant(0.1))),
    commits=200,
    seed=0,
)
PMF = asim.theory.staleness_pmf(asim.delays.Exponential(1.0), 8, 60)
LOSSES = {f"a rule with a name {number}": [(5, 0.1 + number), (10, 0.05)] for number in range(6)}
SHARES = np.linspace(1, 0, 12).reshape(4, 3)
LIMITS = {name: [1.0, 0.9, 0.7, 0.5] for name in ("mean square", "round robin", "almost sure")}
WORDS = "compute gamma, mean 1, cv 0.3, bandwidth inf, compression 1, shared False, latency 0.1, slots 1, seed 0"
N = [1, 2, 4, 8]

DRAWINGS = {
    "comparison": lambda figure: draw_comparison(figure, LOSSES, 2.3, "Final loss", WORDS),
    "shares": lambda figure: draw_shares(figure.subplots(), PMF, predicted=PMF),
    "stability": lambda figure: plots.draw_stability(figure.subplots(), N, [0.1, 1, 2], SHARES, limits=LIMITS),
    "staleness": lambda figure: plots.draw_staleness(figure.subplots(), TRACE, predicted=PMF),
    "staleness by worker": lambda figure: plots.draw_staleness_by_worker(figure.subplots(), TRACE, predicted=8 * [7]),
    "throughput": lambda figure: plots.draw_throughput(
        figure.subplots(), N, N, predicted=N, standard_error=N, knee=5.0, limit=5.0
    ),
    "timeline": lambda figure: plots.draw_timeline(figure.subplots(), TRACE),
}


@pytest.mark.filterwarnings("ignore:constrained_layout not applied")
@pytest.mark.parametrize(("size", "layout"), [((3, 2), "constrained"), ((10, 6), None)])
@pytest.mark.parametrize("draw", DRAWINGS.values(), ids=DRAWINGS)
def test_legends_stay_inside_the_figure(draw, size, layout):
    with plots.style():
        figure = Figure(size, layout=layout)
        draw(figure)
        figure.draw_without_rendering()
    legends = figure.findobj(Legend)
    assert legends
    for legend in legends:
        box = legend.get_window_extent()
        assert box.x0 >= -1
        assert box.y0 >= -1
        assert box.x1 <= figure.bbox.width + 1
        assert box.y1 <= figure.bbox.height + 1


@pytest.mark.parametrize("size", [(3, 2), (10, 6)])
def test_titles_wrap_and_leave_the_panels_alone(size):
    figure = Figure(size)
    ax = figure.subplots()
    draw_title(figure, "A title of some length that may not fit", WORDS)
    figure.draw_without_rendering()
    assert " ".join(text.get_text() for text in figure.texts) == f"A title of some length that may not fit {WORDS}"
    boxes = [text.get_window_extent() for text in figure.texts]
    assert max(box.x1 for box in boxes) <= figure.bbox.width
    assert max(box.y1 for box in boxes) <= figure.bbox.height
    assert all(above.y0 > below.y0 for above, below in pairwise(boxes))
    assert min(box.y0 for box in boxes) >= ax.get_window_extent().y1


def test_a_word_that_is_too_long_stands_alone():
    figure = Figure((1, 4))
    draw_title(figure, "title", f"a {'b' * 60} c")
    assert [text.get_text() for text in figure.texts] == ["title", "a", "b" * 60, "c"]


EMPTY = asim.simulate(asim.Cluster(2, asim.delays.Constant(1.0)), seconds=0.5)
NOTHING = asim.cost(EMPTY, message_bytes=4, parameter_bytes=40, seconds=0.0)


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda ax: [plots.draw_staleness(ax, EMPTY)], "No commits"),
        (lambda ax: plots.draw_staleness_by_worker(ax, EMPTY), "No commits"),
        (lambda ax: plots.draw_timeline(ax, EMPTY), "Nothing has happened yet: no timeline."),
        (lambda ax: plots.draw_time_budget(ax, NOTHING), "Nothing has happened"),
        (lambda ax: plots.draw_worker_losses(ax, [1.0, np.inf]), "The loss is not finite."),
    ],
)
def test_where_there_is_nothing_to_draw_it_is_said(draw, words, ax):
    (said,) = draw(ax)
    assert words in said.get_text()
