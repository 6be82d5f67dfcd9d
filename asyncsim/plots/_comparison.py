"""Several runs in one picture: final losses against the number of workers, and losses over commits, time and costs."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from asyncsim._metrics import metric
from asyncsim.plots._page import draw_legend_beside, draw_title, mark_lost, tick_at, use_logarithm
from asyncsim.plots._report import PER_WORKER, running_mean
from asyncsim.plots.style import DASHED, GREY, rule_colors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

SIZE = (7.2, 4.8)  # inches
MARKERS = "osD^vP"

Points = Sequence[tuple[int, float | None]]
SIDE_SIZE = (9.6, 4.8)  # inches
WINDOW = 5  # commits of each worker in a running mean
BEYOND = 10  # times the largest loss of a run that does not diverge
MARKED = 2000  # points of a line: more make a file large and show nothing
SPENT = {"bytes": "bytes sent", "joules": "energy, in joules", "money": "money"}  # name -> label of an axis


def draw_final_losses(ax: "Axes", losses: Mapping[str, Points], start: float | None = None) -> "list[Line2D]":
    """Draw a line of final losses per rule or setting, crosses for diverged runs, and the loss before training."""
    lines = []
    for number, ((rule, points), color) in enumerate(zip(losses.items(), rule_colors(losses), strict=True)):
        x, y = (np.array(column, float) for column in zip(*sorted(points, key=lambda p: p[0]), strict=True))
        y[~np.isfinite(y)] = np.nan
        lines += ax.plot(x, y, marker=MARKERS[number % len(MARKERS)], label=rule, color=color)
    if start is not None and math.isfinite(start):
        ax.axhline(start, color=GREY, linewidth=1, linestyle=DASHED, zorder=1, label="before training")
    use_logarithm(ax, *(line.get_ydata() for line in lines), [] if start is None else [start])
    mark_lost(ax, lines, "diverged")
    tick_at(ax.xaxis, sorted({n for points in losses.values() for n, _ in points}))
    ax.set(xlabel="workers n", ylabel=metric("final_loss").label)
    return lines


def draw_comparison(
    figure: "Figure", losses: Mapping[str, Points], start: float | None, title: str, subtitle: str = ""
) -> None:
    """Draw the page of a comparison: `draw_final_losses`, a legend in the order in which lines end, and a title."""
    ax = figure.subplots()
    lines = draw_final_losses(ax, losses, start)
    ends = {line.get_label(): float(np.nan_to_num(np.asarray(line.get_ydata())[-1], nan=np.inf)) for line in lines}
    handles = ax.get_legend_handles_labels()[0]
    draw_legend_beside(ax, sorted(handles, key=lambda handle: -ends.get(handle.get_label(), np.inf)))
    draw_title(figure, title, subtitle)


class Curve(NamedTuple):
    """The training loss of a run."""

    name: str  # for the legend
    workers: int  # number of workers n
    loss: np.ndarray  # (commits,) mini-batch losses
    seconds: np.ndarray  # (commits,) simulated times
    gradients: np.ndarray  # (commits,) gradients taken so far
    diverged: bool = False  # whether the run ended because it diverged
    spent: Mapping[str, np.ndarray] = {}


def _have_one_window(curves: Sequence[Curve]) -> bool:
    """Return whether all commits of all runs took as many gradients."""
    return len(np.unique(np.concatenate([np.diff(curve.gradients, prepend=0) for curve in curves]))) < 2


def axes_of(curves: Sequence[Curve]) -> list[str]:
    """Return the costs that all of these curves have, one panel each."""
    return [name for name in SPENT if curves and all(name in curve.spent for curve in curves)]


def size_of(curves: Sequence[Curve]) -> tuple[float, float]:
    """Return the inches that the picture of these curves takes."""
    return SIDE_SIZE[0] * (2 + len(axes_of(curves))) / 2, SIDE_SIZE[1]


def draw_side_by_side(figure: "Figure", curves: Sequence[Curve], title: str, subtitle: str = "") -> "list[Line2D]":
    """Draw training losses against the commits of each worker, against simulated time, and against costs.

    Where commits take different numbers of gradients, in one run or from run to run, gradients take their place.
    """
    spent, one_window = axes_of(curves), _have_one_window(curves)
    panels = figure.subplots(1, 2 + len(spent), sharey=True)
    against_commits, against_last = panels[0], panels[-1]
    means = [running_mean(curve.loss, WINDOW * curve.workers) for curve in curves]
    most = None  # the loss at which a diverging line leaves the picture
    if any(curve.diverged for curve in curves):
        # A diverging line counts with its first loss alone, so that it does not set the scale for the others.
        losses = np.concatenate([m[:1] if curve.diverged else m for curve, m in zip(curves, means, strict=True)])
        losses = losses[np.isfinite(losses)]
        most = BEYOND * float(losses.max()) if len(losses) else None
    lines: list[list[Line2D]] = [[] for _ in panels]
    colors = rule_colors(curve.name for curve in curves)
    for curve, mean, color in zip(curves, means, colors, strict=True):
        # The first loss above the limit, or the length: the added entry is always found.
        below = len(mean) if most is None else int(np.argmax(np.append(~(mean <= most), True)))
        points = np.unique(np.linspace(0, below - 1, min(below, MARKED)).astype(int))
        label = f"{curve.name} (diverged)" if curve.diverged else curve.name
        done = np.arange(len(mean)) + 1 if one_window else curve.gradients
        places = [done / curve.workers, curve.seconds, *(curve.spent[name] for name in spent)]
        for panel, drawn, x in zip(panels, lines, places, strict=True):
            drawn += panel.plot(x[points], mean[points], label=label, linewidth=1.4, color=color)
            if curve.diverged and len(points):
                panel.plot(x[points][-1], mean[points][-1], "x", color=color, markeredgewidth=2)
    use_logarithm(against_commits, *(line.get_ydata() for line in lines[0]))
    label = PER_WORKER if one_window else "gradients of each worker"
    against_commits.set(xlabel=label, ylabel="training loss")
    for panel, label in zip(panels[1:], ("simulated seconds", *(SPENT[name] for name in spent)), strict=True):
        panel.set(xlabel=label)
    draw_legend_beside(against_last, lines[-1])
    draw_title(figure, title, subtitle)
    return [line for drawn in lines for line in drawn]
