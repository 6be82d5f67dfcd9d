"""Sweeps in a picture: a measured quantity against a field, with its spread over the seeds, or over two fields."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim._metrics import field_text, metric, metric_text, sort_key, spaced
from asyncsim.plots._page import (
    draw_legend_beside,
    draw_title,
    fit_tick_labels,
    mark_lost,
    remark,
    tick_at,
    use_logarithm,
)
from asyncsim.plots.style import GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

SIZE = (7.2, 4.6)  # inches
MARKERS = "osD^vPX*"
LOST = "diverged or missing"
SPREAD = 10.0  # largest over smallest value from which an axis is logarithmic
Columns = Mapping[str, np.ndarray]


def draw_sweep(
    ax: "Axes", settings: Columns, x: str, y: str, by: Sequence[str] = (), *, largest: bool = False
) -> "list[Line2D]":
    """Draw medians over the seeds against a field, with the quartiles as a band."""
    from matplotlib.ticker import PercentFormatter

    lines = []
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row in range(len(settings["median"])):
        groups.setdefault(tuple(settings[name][row].item() for name in by), []).append(row)
    numeric = settings[x].dtype.kind in "iuf"
    positions = {value: index for index, value in enumerate(dict.fromkeys(settings[x].tolist()))}
    for number, (group, places) in enumerate(sorted(groups.items(), key=lambda entry: tuple(map(sort_key, entry[0])))):
        rows = _best(settings, x, places, largest)
        rows = rows if numeric else sorted(rows, key=lambda row: positions[settings[x][row].item()])
        at = np.array([value if numeric else positions[value] for value in settings[x][rows].tolist()], float)
        low, middle, high = (settings[f][rows] for f in ("lower_quartile", "median", "upper_quartile"))
        label = ", ".join(f"{spaced(name)} {field_text(value)}" for name, value in zip(by, group, strict=True))
        lines += ax.plot(at, middle, marker=MARKERS[number % len(MARKERS)], label=label or None)
        colour = lines[-1].get_color()
        ax.fill_between(at, low, np.where(np.isnan(high), middle, high), color=colour, alpha=0.18, linewidth=0)
    if numeric:
        _spread(ax, settings[x])
    else:
        ax.set_xticks(list(positions.values()), list(positions))
    if metric(y).kind == "share":
        ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    else:
        use_logarithm(ax, settings["median"], settings["lower_quartile"], settings["upper_quartile"])
    mark_lost(ax, lines, LOST)
    ax.set(xlabel=spaced(x), ylabel=f"{metric(y).label}, median and quartiles")
    fit_tick_labels(ax)
    return lines


def draw_heat(ax: "Axes", settings: Columns, x: str, y: str, of: str, *, largest: bool = False) -> "QuadMesh":
    """Draw medians over the seeds as colours over two fields."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import PercentFormatter

    columns, rows = (sorted(dict.fromkeys(settings[name].tolist()), key=sort_key) for name in (x, y))
    cells = np.full((len(rows), len(columns)), np.nan)
    tried = np.zeros(cells.shape, bool)
    for row, value in enumerate(settings["median"]):
        at = rows.index(settings[y][row].item()), columns.index(settings[x][row].item())
        # Other fields may differ, too: a cell shows its best setting, and `fmin` leaves out those without a value.
        cells[at] = (np.fmax if largest else np.fmin)(cells[at], value)
        tried[at] = True
    scores = cells[np.isfinite(cells)]
    logarithmic = scores.size > 0 and scores.min() > 0 and scores.max() >= SPREAD * scores.min()
    mesh = ax.pcolormesh(cells, cmap="viridis_r", norm=LogNorm() if logarithmic else None, edgecolors="white")
    ax.set_xticks(np.arange(len(columns)) + 0.5, [*map(field_text, columns)])
    ax.set_yticks(np.arange(len(rows)) + 0.5, [*map(field_text, rows)])
    for (row, column), value in np.ndenumerate(cells):
        lost = np.isnan(value)
        if tried[row, column] and (lost or cells.size <= 100):
            # Text on a dark cell is white.
            dark = not lost and np.asarray(mesh.norm(value)) > 0.55
            words, color = ("×", GREY) if lost else (metric_text(of, value), "white" if dark else "black")
            ax.text(column + 0.5, row + 0.5, words, ha="center", va="center", size=8, color=color)
    if np.isnan(cells[tried]).any():
        remark(ax, f"×  {LOST}")
    ax.set(xlabel=spaced(x), ylabel=spaced(y))
    ax.tick_params(length=0)
    ax.grid(visible=False)
    percent = PercentFormatter(1.0) if metric(of).kind == "share" else None
    ax.figure.colorbar(mesh, ax=ax, label=f"{metric(of).label}, median", format=percent)
    fit_tick_labels(ax)
    return mesh


def draw_sweep_page(
    figure: "Figure",
    settings: Columns,
    x: str,
    y: str,
    by: Sequence[str],
    *,
    heat: bool = False,
    largest: bool = False,
    subtitle: str = "",
) -> None:
    """Draw the picture of `asyncsim sweep plot`: `draw_sweep` with a legend, or `draw_heat`, below a title."""
    ax = figure.subplots()
    if heat:
        draw_heat(ax, settings, x, by[0], y, largest=largest)
    else:
        lines = draw_sweep(ax, settings, x, y, by, largest=largest)
        if by:
            draw_legend_beside(ax, lines)
    against = spaced(f"{x} and {by[0]}" if heat else x)
    label = metric(y).label
    draw_title(figure, f"{label[:1].upper()}{label[1:]} against {against}", subtitle)
    fit_tick_labels(ax)


def _best(settings: Columns, x: str, places: Sequence[int], largest: bool) -> list[int]:
    """Return, of the rows of a line, that with the best median at each value of x, in the order of the values."""
    score = np.nan_to_num((-1 if largest else 1) * np.asarray(settings["median"]), nan=np.inf)
    chosen: dict[Any, int] = {}
    for row in places:
        value = settings[x][row].item()
        if value not in chosen or score[row] < score[chosen[value]]:
            chosen[value] = row
    return [chosen[value] for value in sorted(chosen, key=sort_key)]


def _spread(ax: "Axes", values: np.ndarray) -> None:
    """Scale the x axis logarithmically if its values span orders of magnitude, with a tick at each of a few."""
    places = np.unique(values[np.isfinite(values)])
    if places.size and places[0] > 0 and places[-1] >= SPREAD * places[0]:
        ax.set_xscale("log")
    if 0 < places.size <= 12:
        tick_at(ax.xaxis, places.tolist())
