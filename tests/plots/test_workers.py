"""Pictures of workers whose data differ, read off the artists."""

from functools import partial

import numpy as np
import pytest
from matplotlib.figure import Figure

import asyncsim as asim
from asyncsim.plots import draw_label_counts, draw_worker_losses
from tests.problems import refusals


@pytest.mark.parametrize("workers", [3, 60])
def test_label_counts_show_every_example(ax, workers):
    shared = asim.datasets.partition(asim.datasets.Digits(), workers)
    image = draw_label_counts(ax, shared.label_counts)
    assert image.get_array().sum() == 1438
    np.testing.assert_array_equal(image.get_array().T, shared.label_counts)
    assert len(ax.figure.axes) == 2
    assert len(ax.get_xticks()) <= max(20, workers if workers <= 20 else 20)


def test_counts_of_zero_can_be_drawn(ax):
    assert draw_label_counts(ax, np.zeros((2, 3)), colorbar=False).get_array().shape == (3, 2)
    assert len(ax.figure.axes) == 1


def test_losses_of_workers(ax):
    dots, mean = draw_worker_losses(ax, [0.5, 1.5, 1.0], objective=0.8)
    assert dots.get_ydata().tolist() == [0.5, 1.5, 1.0]
    assert mean.get_ydata()[0] == 0.8
    assert ax.get_xlabel() == "worker"
    assert ax.get_ylim()[0] == 0


NOT_COUNTS = [1, 2], [[-1]], np.zeros((0, 3))
WHY = r"`counts` must be \(workers, classes\) numbers of examples; got shape"
test_what_cannot_be_meant = refusals(
    *((partial(draw_label_counts, Figure().subplots(), counts), WHY) for counts in NOT_COUNTS),
    (
        lambda: draw_worker_losses(Figure().subplots(), [1.0, 2.0], [0.2, 0.3, 0.5]),
        r"`shares` must be as long as `losses`, 2 numbers; got shape \(3,\)",
    ),
)


@pytest.mark.parametrize(("rule", "shown"), [("downpour", True), ("gem", False)])
def test_the_report_shows_how_each_worker_fares_where_there_is_no_scaling(rule, shown):
    torn = asim.workloads.Quadratic([1.0], minima=[0.0, 2.0, 4.0])
    trace = asim.Trace.from_commits([0, 0, 1, 0, 2, 0])
    run = asim.replay(trace, asim.rules.by_name(rule)(0.1), torn, record=("pi_mean",) if rule == "gem" else ())
    panel = asim.plots.draw_report(Figure(), trace, run, "title")[3]
    assert (panel.get_title() == "Loss of each worker's own part") == shown
    if shown:
        np.testing.assert_allclose(panel.lines[0].get_xdata(), [4 / 6, 1 / 6, 1 / 6])
        np.testing.assert_allclose(panel.lines[0].get_ydata(), run.evaluate_workers()["worker_loss"])
