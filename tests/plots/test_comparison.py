"""What a comparison draws, read off the artists."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim import plots

LOSSES = {"gem": [(10, 0.05), (5, 0.07)], "downpour": [(5, 0.08), (10, None)]}


@pytest.fixture
def ax() -> Iterator[Axes]:
    with plots.style():
        yield Figure().subplots()


class TestFinalLosses:
    def test_lines_in_order_of_workers(self, ax: Axes) -> None:
        lines = plots.draw_final_losses(ax, LOSSES, start=2.3)
        assert [list(map(float, line.get_ydata())) for line in lines[:1]] == [[0.07, 0.05]]  # type: ignore[arg-type]
        assert [float(tick) for tick in ax.get_xticks()] == [5.0, 10.0]
        assert ax.get_yscale() == "log"

    def test_a_diverged_run_is_a_cross(self, ax: Axes) -> None:
        plots.draw_final_losses(ax, LOSSES)
        crosses = [line for line in ax.lines if line.get_marker() == "x"]
        assert [np.asarray(line.get_xdata()).tolist() for line in crosses] == [[10.0]]
        assert "diverged" in " ".join(text.get_text() for text in ax.texts)

    def test_all_diverged(self, ax: Axes) -> None:
        assert len(plots.draw_final_losses(ax, {"gem": [(5, None)]}, start=None)) == 1


class TestOneNumberOfWorkers:
    def test_a_row_each_the_best_first_with_its_value(self) -> None:
        """Not a column of dots: names are read at the rows, losses beside the points."""
        losses = {"downpour": [(20, 0.31)], "gem": [(20, 0.0512)], "agn": [(20, None)]}
        with plots.style():
            figure = Figure()
            ax = plots.draw_comparison(figure, losses, 2.3, "Title")
            figure.draw_without_rendering()
        assert [label.get_text() for label in ax.get_yticklabels()] == ["gem", "downpour", "agn"]
        rows = [text for text in ax.texts if text.get_text()]
        assert [text.get_text() for text in rows] == ["0.0512", "0.31", "diverged ×"]
        boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
        assert all(above.y0 >= below.y1 for above, below in pairwise(boxes))
        assert "20 workers" in ax.get_xlabel()
