"""Pictures of sweeps hold the medians and quartiles that they are given."""

import itertools

import numpy as np
import pytest
from matplotlib.figure import Figure

from asyncsim.plots._comparison import draw_final_losses
from asyncsim.plots._page import draw_legend_beside, fit_tick_labels
from asyncsim.plots._sweep import draw_heat, draw_sweep

SETTINGS = {
    "learning_rate": np.array([0.01, 0.1, 1.0, 0.01, 0.1, 1.0]),
    "workers": np.array([4, 4, 4, 2, 2, 2]),
    "lower_quartile": np.array([0.3, 0.1, np.nan, 0.5, 0.2, 0.1]),
    "median": np.array([0.4, 0.2, np.nan, 0.6, 0.3, 0.2]),
    "upper_quartile": np.array([0.5, 0.3, np.nan, 0.7, np.nan, 0.3]),
}


def test_a_line_for_each_group_in_order(ax):
    lines = draw_sweep(ax, SETTINGS, "learning_rate", "final_loss", ["workers"])
    assert [line.get_label() for line in lines] == ["workers 2", "workers 4"]
    np.testing.assert_array_equal(lines[0].get_ydata(), [0.6, 0.3, 0.2])
    np.testing.assert_array_equal(lines[1].get_ydata(), [0.4, 0.2, np.nan])
    assert ax.get_xscale() == "log"
    assert ax.get_ylabel() == "final loss, median and quartiles"
    assert "×  diverged or missing" in [text.get_text() for text in ax.texts]


def over_rates(rows):
    """Settings of lines with three learning rates each, where NaN is a run that diverged."""
    median = np.array(rows, float).ravel()
    columns = dict.fromkeys(("lower_quartile", "median", "upper_quartile"), median)
    lines = np.repeat(np.arange(len(rows)), 3)
    return {"learning_rate": np.tile([0.1, 0.2, 0.3], len(rows)), "workers": lines, **columns}


LOST = {
    "logarithmic": [[1.0, 1e20, 1e22], [1.0, 2.0, np.nan]],
    "linear": [[-1.0, 0.0, 5.0], [-1.0, 2.0, np.nan]],
    "many lines": [*[[1.0, 2.0, 3.0]] * 8, *[[1.0, 2.0, np.nan]] * 4],
    "nothing but crosses": [[np.nan] * 3] * 2,
}


@pytest.mark.parametrize("drawn", ["sweep", "comparison"])
@pytest.mark.parametrize("rows", LOST.values(), ids=LOST)
def test_crosses_of_lost_runs_stand_above_all_points_and_apart(ax, rows, drawn):
    if drawn == "sweep":
        lines = draw_sweep(ax, over_rates(rows), "learning_rate", "final_loss", ["workers"])
    else:
        lines = draw_final_losses(
            ax, {f"line {i}": list(zip((1, 2, 3), row, strict=True)) for i, row in enumerate(rows)}
        )
    crosses = [line for line in ax.lines if line.get_marker() == "x"]
    heights = [line.get_transform().transform(line.get_xydata())[:, 1] for line in crosses]
    points = [ax.transData.transform(line.get_xydata())[:, 1] for line in lines]
    size = 5.5 / 72 * ax.figure.dpi
    highest = np.nanmax(np.concatenate([*points, [ax.bbox.y0]]))
    assert len(crosses) == sum(bool(np.isnan(row).any()) for row in rows)
    assert min(map(np.min, heights)) > highest + size  # a cross and a marker do not touch
    assert max(map(np.max, heights)) < ax.bbox.y1
    assert (-np.diff([height[0] for height in heights]) > size).all()


@pytest.mark.parametrize(("largest", "drawn"), [(False, [0.4, 0.2, 0.2]), (True, [0.6, 0.3, 0.2])])
def test_of_several_rows_at_a_point_the_best_is_drawn(largest, drawn):
    (line,) = draw_sweep(Figure().subplots(), SETTINGS, "learning_rate", "final_loss", largest=largest)
    np.testing.assert_array_equal(line.get_ydata(), drawn)


def test_words_on_the_horizontal_axis(ax):
    settings = {**SETTINGS, "rule": np.array(["gem", "agn", "gem", "agn", "gem", "agn"])}
    (line,) = draw_sweep(ax, settings, "rule", "final_loss")
    names = [label.get_text() for label in ax.get_xticklabels()]
    at = dict(zip(names, ax.get_xticks(), strict=True))
    found = dict(zip(line.get_xdata(), line.get_ydata(), strict=True))
    assert found[at["gem"]] == 0.3
    assert found[at["agn"]] == 0.2


def test_a_cell_for_each_pair(ax):
    mesh = draw_heat(ax, SETTINGS, "learning_rate", "workers", "final_loss")
    cells = np.ma.filled(mesh.get_array(), np.nan).reshape(2, 3)
    np.testing.assert_array_equal(cells, [[0.6, 0.3, 0.2], [0.4, 0.2, np.nan]])
    assert [text.get_text() for text in ax.texts] == ["0.6", "0.3", "0.2", "0.4", "0.2", "×", "×  diverged or missing"]


def test_what_was_tried_in_vain_has_a_cross_and_what_was_not_tried_has_none(ax):
    draw_heat(ax, {name: column[2:] for name, column in SETTINGS.items()}, "learning_rate", "workers", "final_loss")
    assert [text.get_position() for text in ax.texts if text.get_text() == "×"] == [(2.5, 1.5)]
    assert len(ax.texts) == 5  # three numbers, the cross, and what it means


@pytest.mark.parametrize(
    "values",
    [
        [0.01, 0.011, 0.012, 0.05, 0.1, 0.11, 0.5, 0.8],
        [0.100, 0.101, 0.102, 0.103, 0.2],
        [f"a_rather_long_name_{place}" for place in range(24)],
    ],
    ids=["logarithmic", "linear", "words"],
)
def test_labels_of_the_horizontal_axis_do_not_overlap(values):
    columns = {name: np.linspace(1.0, 2.0, len(values)) for name in ("lower_quartile", "median", "upper_quartile")}
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    ax = figure.subplots()
    lines = draw_sweep(ax, {"x": np.array(values), **columns}, "x", "final_loss")
    lines[0].set_label("a line with a long name")
    draw_legend_beside(ax, lines)
    fit_tick_labels(ax)
    figure.draw_without_rendering()
    labels = [label for label in ax.get_xticklabels() if label.get_text()]
    assert labels[0].get_text() == f"{values[0]}"[:20]
    if labels[0].get_rotation() == 0:
        boxes = sorted((label.get_window_extent() for label in labels), key=lambda box: box.x0)
        assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
    else:
        anchors = sorted(ax.transData.transform((label.get_position()[0], 0))[0] for label in labels)
        size = labels[0].get_size() / 72 * figure.dpi
        assert min(np.diff(anchors)) * np.sin(np.radians(labels[0].get_rotation())) > size


def test_words_stand_in_the_order_in_which_they_come(ax):
    settings = {name: values[:3] for name, values in SETTINGS.items()} | {"case": np.array(["b", "a", "c"])}
    (line,) = draw_sweep(ax, settings, "case", "final_loss")
    np.testing.assert_array_equal(line.get_xdata(), [0, 1, 2])
    np.testing.assert_array_equal(line.get_ydata(), [0.4, 0.2, np.nan])
