"""Which step sizes stay bounded: a map over the number of workers, with predicted limits on it."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import brief
from asyncsim._metrics import number
from asyncsim.components._checked import checked
from asyncsim.delays import FloatArray
from asyncsim.plots._page import draw_legend_below, draw_title, of_shape, tick_at
from asyncsim.plots._staleness import draw_shares
from asyncsim.plots.style import BLUE, GREY, INK, PALE_BLUE, VERMILION

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GROWN, BOUNDED = "#FBFBFA", "#8FC1E3"  # pale enough for lines and their halos to be seen on either
LINES = ((VERMILION, "-"), (INK, (0, (4, 2))), (BLUE, (0, (1, 1.4))), ("#8A4A00", (0, (6, 2, 1, 2))))
MAP_SIZE = (6.6, 5.0)  # inches
PREDICTED = {"mean square": "stability_limit", "round robin": "constant_delay_limit"}  # label -> limit
EVENLY = 1e-6  # relative difference below which steps count as equal


@checked
def draw_stability(
    ax: "Axes",
    workers: ArrayLike,
    kappas: ArrayLike,
    outcome: ArrayLike,
    *,
    limits: Mapping[str, ArrayLike] | None = None,
    colorbar: bool = True,
) -> "list[Artist]":
    """Draw the share of runs that stayed bounded, by number of workers and step size, with limits as lines.

    A cell is centred on its values in the scale of each axis: logarithmic if they grow by factors rather than by
    steps. If they do neither evenly, the edges lie half-way.

    Args:
        ax: Where to draw.
        workers: (n,) numbers of workers, increasing.
        kappas: (k,) η·h = step size times curvature, increasing.
        outcome: (n, k) shares from 0 to 1, NaN where nothing was simulated.
        limits: Label -> (n,) η·h (NaN where there is no limit), drawn as lines and named below the axes.
        colorbar: Whether to explain the colours next to the axes.

    Returns:
        The cells (`get_array()` has one row per η·h, `get_coordinates()` the edges), and one line for each limit.

    Raises:
        ValueError: If a shape is wrong, values are not positive and increasing, or a share is outside [0, 1].

    Example:
        >>> from matplotlib.figure import Figure
        >>> shares, limits = [[1, 1, 0], [1, 0, 0]], {"mean square": [2.0, 1.28]}
        >>> cells, line = draw_stability(Figure().subplots(), [1, 2], [0.5, 1, 2], shares, limits=limits)
        >>> cells.get_array().tolist(), line.get_label(), line.get_ydata().tolist()
        ([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]], 'mean square', [2.0, 1.28])
    """
    from matplotlib.colors import LinearSegmentedColormap

    n, k = _increasing("workers", workers), _increasing("kappas", kappas)
    shares = of_shape("outcome", outcome, (len(n), len(k)), "Give one row per number of workers.")
    beyond = shares[(shares < 0) | (shares > 1)]
    if len(beyond):
        worst = beyond[np.abs(beyond - 0.5).argmax()]
        raise ValueError(f"`outcome` must hold shares from 0 to 1; got {worst:g}. Divide by the number of runs.")
    x_scale, y_scale = _scale(n), _scale(k)
    colours = LinearSegmentedColormap.from_list("bounded", [GROWN, PALE_BLUE, BOUNDED])
    edges = _edges(n, x_scale), _edges(k, y_scale)
    cells = ax.pcolormesh(*edges, shares.T, cmap=colours, vmin=0, vmax=1, edgecolors="white", linewidth=0.4, zorder=1)
    cells.set_label("share of runs that stay bounded")
    lines: list[Artist] = []
    for (colour, dash), (label, values) in zip(cycle(LINES), (limits or {}).items(), strict=False):
        row = of_shape(f"limits[{label!r}]", values, n.shape, "Give one η·h per number of workers.")
        # A limit that is known for one number of workers has no line, so it is a dot.
        mark = "o" if np.isfinite(row).sum() == 1 else ""
        style = {"color": colour, "linestyle": dash, "marker": mark, "linewidth": 1.8, "zorder": 3}
        lines += ax.plot(n, row, label=label, **style)
    ax.set(xscale=x_scale, yscale=y_scale, xlabel="workers n", ylabel="η·h, step size × curvature")
    ax.set(xlim=edges[0][[0, -1]], ylim=edges[1][[0, -1]])
    _mark_numbers(ax, n)
    if colorbar:
        bar = ax.figure.colorbar(cells, ax=ax, label=cells.get_label(), pad=0.02, fraction=0.05, ticks=[0, 0.5, 1])
        bar.outline.set_visible(False)  # type: ignore[operator]
    if lines:
        draw_legend_below(ax, lines)
    return [cells, *lines]


def draw_stability_page(
    figure: "Figure",
    workers: ArrayLike,
    kappas: ArrayLike,
    share: ArrayLike,
    limits: Sequence[Mapping[str, float | None]],
    subtitle: str,
    what: str | None = None,
) -> None:
    """Draw the picture of `asyncsim stability`: the map, with the limits from theory, of η·h or of `what`."""
    lines = {label: np.array([row.get(name) for row in limits], float) for label, name in PREDICTED.items()}
    curves = {label: line for label, line in lines.items() if np.isfinite(line).any()}
    ax = figure.subplots()
    draw_stability(ax, workers, kappas, share, limits=curves)
    if what is not None:
        ax.set_ylabel(what)
    draw_title(figure, "Which step sizes stay bounded", subtitle)


def draw_rollouts_stability(figure: "Figure", report: Mapping[str, Any]) -> None:
    """Draw the distribution of staleness, and the growth of runs over the step size, with the limits."""
    distribution, stability = figure.subplots(1, 2)
    draw_shares(distribution, np.array(report["staleness"]["shares"]))
    distribution.set(xlabel="staleness of a group, in versions", ylabel="share of trained groups")
    rates, growth = np.array(report["growth"]).T
    stability.loglog(rates, growth, ".-", color=INK, markersize=4)
    stability.axhline(1.0, color=GREY, linewidth=0.8)
    lines = {
        "predicted": (report["predicted"]["learning_rate"], BLUE, "-"),
        "measured": (report["measured"]["learning_rate"], VERMILION, "-"),
        "predicted with the measured spread": (report["predicted"]["mixture"], BLUE, ":"),
    }
    for label, (rate, colour, dash) in lines.items():
        stability.axvline(rate, color=colour, linestyle=dash, label=f"{label}, {number(rate)}")
    stability.set(xlabel="step size", ylabel="growth of the distance from the optimum")
    stability.legend(fontsize="small")
    title = "Largest stable step size of stale policy gradients"
    draw_title(figure, title, "Growth: largest distance in the last quarter of a run over that in the second quarter")


def _scale(values: FloatArray) -> str:
    """Return the scale on which the values are spaced more evenly, or logarithmic if neither is."""
    if len(values) < 3:
        return "log"
    # Evenly spaced values have equal differences, whose range is 0.
    spread = [np.ptp(np.diff(v)) / np.diff(v).mean() for v in (values, np.log(values))]
    return "linear" if spread[0] < spread[1] - EVENLY else "log"


def _edges(values: FloatArray, scale: str) -> FloatArray:
    """Return edges half-way between the values on this scale, and as far beyond the outer ones."""
    v = np.log(values) if scale == "log" else values
    half = np.diff(v) / 2 if len(v) > 1 else np.full(1, np.log(2) / 2 if scale == "log" else 0.5)
    # A single value gets a cell of its own: an octave, or one unit.
    edges = np.concatenate([[v[0] - half[0]], v[:-1] + half if len(v) > 1 else [], [v[-1] + half[-1]]])
    return np.exp(edges) if scale == "log" else edges


def _mark_numbers(ax: "Axes", workers: FloatArray) -> None:
    """Set ticks at the numbers of workers themselves, as many as fit, and plain numbers for η·h."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

    def apart(low: float, high: float) -> float:
        return float(np.log(high / low)) if ax.get_xscale() == "log" else high - low

    ticks = [workers[0]]
    # About twelve numbers fit below the axis.
    least = apart(workers[0], workers[-1]) / 11
    for value in workers[1:]:
        if apart(ticks[-1], value) >= least:
            ticks.append(value)
    tick_at(ax.xaxis, ticks)
    if ax.get_yscale() == "log":
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    ax.grid(visible=False)


def _increasing(name: str, values: ArrayLike) -> FloatArray:
    column = np.asarray(values, np.float64)
    if column.ndim != 1 or not len(column) or not (np.diff(column, prepend=0.0) > 0).all():
        raise ValueError(f"`{name}` must be positive and increasing, in one dimension; got {brief(values)}. Sort them.")
    return column
