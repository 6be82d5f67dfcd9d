"""The picture of a comparison, read off the artists."""

import numpy as np
from matplotlib.axes import Axes

from asyncsim.plots._comparison import draw_final_losses

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
