"""The pictures of a comparison and of a calibration, read off the artists."""

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import asyncsim as asim
from asyncsim.costs import cost_over_time
from asyncsim.plots._calibration import draw_quantiles
from asyncsim.plots._comparison import Curve, draw_final_losses, draw_side_by_side, size_of

LOSSES = {"gem": [(10, 0.05), (5, 0.07)], "downpour": [(5, 0.08), (10, None)]}


class TestFinalLosses:
    def test_lines_in_order_of_workers(self, ax: Axes) -> None:
        lines = draw_final_losses(ax, LOSSES, start=2.3)
        assert [list(map(float, line.get_ydata())) for line in lines[:1]] == [[0.07, 0.05]]  # type: ignore[arg-type]
        assert [float(tick) for tick in ax.get_xticks()] == [5.0, 10.0]
        assert ax.get_yscale() == "log"

    def test_a_diverged_run_is_a_cross(self, ax: Axes) -> None:
        draw_final_losses(ax, LOSSES)
        crosses = [line for line in ax.lines if line.get_marker() == "x"]
        assert [np.asarray(line.get_xdata()).tolist() for line in crosses] == [[10.0]]
        assert "diverged" in " ".join(text.get_text() for text in ax.texts)


def test_a_panel_for_each_thing_spent_by_all():
    trace = asim.simulate(asim.Cluster(4, asim.delays.Exponential(1.0)), commits=200)
    run = asim.replay(trace, asim.rules.Downpour(0.05), asim.workloads.Quadratic([1.0] * 10))
    power = asim.Power(busy=3.0, idle=1.0)
    spent = cost_over_time(trace, message_bytes=4, parameter_bytes=40, power=power)
    rich = Curve("a", 4, run.loss, trace.commit_time, run.gradients, spent=spent)
    poor = rich._replace(name="b", spent={"bytes": spent["bytes"]})
    figure = Figure()
    lines = draw_side_by_side(figure, [rich, rich], "Two")
    assert len(figure.axes) == 4
    assert [ax.get_xlabel() for ax in figure.axes][2:] == ["bytes sent", "energy, in joules"]
    np.testing.assert_array_equal(lines[-1].get_xdata(), spent["joules"])
    figure = Figure()
    draw_side_by_side(figure, [rich, poor], "Two")
    assert len(figure.axes) == 3
    assert size_of([rich, poor])[0] > size_of([poor._replace(spent={})])[0]


def test_runs_with_different_windows_are_compared_over_gradients():
    trace, workload = asim.Trace.from_commits([0, 1, 0, 0, 1]), asim.workloads.Quadratic([1.0])

    def curve(window):
        run = asim.replay(trace, asim.rules.AGN(0.1, window=window), workload)
        return Curve(str(window), 2, run.loss, trace.commit_time, run.gradients)

    for windows, label, ends in (
        ((1, 1), "commits of each worker", [2.5, 2.5]),
        ((5, 5), "commits of each worker", [2.5, 2.5]),
        ((1, 5), "gradients of each worker", [2.5, 12.5]),
        (((2, 7), (2, 7)), "gradients of each worker", [10.0, 10.0]),  # 3·2 + 2·7 = 20 of both workers
    ):
        figure = Figure()
        lines = draw_side_by_side(figure, [curve(window) for window in windows], "Two")
        assert figure.axes[0].get_xlabel() == label
        assert [line.get_xdata()[-1] for line in lines] == [*ends, 5.0, 5.0]  # and over seconds


@pytest.mark.parametrize("value", [0.02, 3.0])
def test_a_constant_is_drawn_at_its_value_and_not_at_its_rounding_errors(ax, value):
    draw_quantiles(ax, value * (1 + np.array([-1e-15, 0, 2e-15])), np.full(3, value))
    assert ax.get_xlim() == ax.get_ylim() == pytest.approx((0.9 * value, 1.1 * value))


def test_the_diagonal_spans_data_and_law(ax):
    draw_quantiles(ax, np.array([1.0, 2.0, 3.0]), np.array([0.5, 2.0, 2.5]))
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[0.5, 0.5], [3.0, 3.0]])
