"""The picture of each worker's time, and losses against seconds, energy and money, read off the artists."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import asyncsim as asim
from asyncsim import delays, faults, plots
from asyncsim.costs import cost_over_time
from asyncsim.plots._comparison import Curve, draw_side_by_side, size_of

NETWORK = asim.Network(latency=delays.Exponential(0.2))
AWAY = faults.Sessions(delays.Exponential(5.0), delays.Exponential(2.0))
CLUSTER = asim.Cluster(4, delays.Exponential(1.0), NETWORK, asim.Server(service=delays.Exponential(0.2)), faults=[AWAY])
TRACE = asim.simulate(CLUSTER, commits=200)
SIZES = {"message_bytes": 4, "parameter_bytes": 40}


@pytest.mark.quick
def test_bars_reach_the_whole_time(ax):
    bars = plots.draw_time_budget(ax, asim.cost(TRACE, **SIZES))
    assert {bar.get_label() for bar in bars} == {"compute", "download", "upload", "queue", "service", "down"}
    tops = np.sum([[patch.get_height() for patch in bar.patches] for bar in bars], axis=0)
    np.testing.assert_allclose(tops, 1.0)
    colours = {tuple(bar.patches[0].get_facecolor()) for bar in bars}
    assert len(colours) == len(bars)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [bar.get_label() for bar in bars]


def test_nothing_has_happened():
    (text,) = plots.draw_time_budget(Figure().subplots(), asim.cost(TRACE, **SIZES, seconds=0.0))
    assert "Nothing has happened" in text.get_text()


class TestLoss:
    RUN = asim.replay(TRACE, asim.rules.Downpour(0.05), asim.workloads.Quadratic([1.0] * 10))

    def test_too_few_numbers(self):
        with pytest.raises(ValueError, match="`x` must have a number for each of 200 commits"):
            plots.draw_loss(Figure().subplots(), self.RUN, x=[1.0, 2.0])

    def test_a_panel_for_each_thing_spent_by_all(self):
        power = asim.Power(busy=3.0, idle=1.0)
        spent = cost_over_time(TRACE, **SIZES, power=power)
        rich = Curve("a", 4, self.RUN.loss, TRACE.commit_time, spent=spent)
        poor = Curve("b", 4, self.RUN.loss, TRACE.commit_time, spent={"bytes": spent["bytes"]})
        figure = Figure()
        lines = draw_side_by_side(figure, [rich, rich], "Two")
        assert len(figure.axes) == 4
        assert [ax.get_xlabel() for ax in figure.axes][2:] == ["bytes sent", "energy, in joules"]
        np.testing.assert_array_equal(lines[-1].get_xdata(), spent["joules"])
        figure = Figure()
        draw_side_by_side(figure, [rich, poor], "Two")
        assert len(figure.axes) == 3
        assert size_of([rich, poor])[0] > size_of([poor._replace(spent={})])[0]
