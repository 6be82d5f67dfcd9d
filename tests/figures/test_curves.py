"""Legends below a panel."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from asyncsim import plots
from figures.common.curves import name_below


@pytest.mark.parametrize("height", [1.5, 4.0, 9.0])
def test_a_legend_below_a_panel_covers_neither_curves_nor_labels_and_lies_on_the_page(height):
    with plots.style():
        figure = Figure(figsize=(5, height), layout="constrained")
        ax = figure.subplots()
        ax.plot([0, 1], [0, 1], label="a curve")
        ax.set_xlabel("workers")
        legend = name_below(ax, 2, "rules")
        FigureCanvasAgg(figure).draw()
    box, label = legend.get_window_extent(), ax.xaxis.label.get_window_extent()
    assert figure.bbox.y0 <= box.y0 < box.y1 <= label.y0 < label.y1 < ax.bbox.y0
