"""Training losses of several runs, over commits, over time, and over bytes, energy and money."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from asyncsim.plots._page import draw_legend_beside, draw_title, use_logarithm
from asyncsim.plots._report import running_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

SIZE = (9.6, 4.8)  # inches
WINDOW = 5  # commits of each worker in a running mean
BEYOND = 10  # times the largest loss of a run that does not diverge
MARKED = 2000  # points of a line: more make a file large and show nothing
SPENT = {"bytes": "bytes sent", "joules": "energy, in joules", "money": "money"}  # name -> label of an axis


class Curve(NamedTuple):
    """The training loss of a run."""

    name: str  # for the legend
    workers: int  # number of workers n
    loss: np.ndarray  # (commits,) mini-batch losses
    seconds: np.ndarray  # (commits,) simulated times
    diverged: bool = False  # whether the run ended because it diverged
    spent: Mapping[str, np.ndarray] = {}


def axes_of(curves: Sequence[Curve]) -> list[str]:
    """What all of these curves know to have spent, each of which has a panel."""
    return [name for name in SPENT if curves and all(name in curve.spent for curve in curves)]


def size_of(curves: Sequence[Curve]) -> tuple[float, float]:
    """Inches that the picture of these curves takes."""
    return SIZE[0] * (2 + len(axes_of(curves))) / 2, SIZE[1]


def draw_side_by_side(figure: "Figure", curves: Sequence[Curve], title: str, subtitle: str = "") -> "list[Line2D]":
    """Training losses against the commits of each worker, against the simulated time, and against what was spent."""
    spent = axes_of(curves)
    panels = figure.subplots(1, 2 + len(spent), sharey=True)
    left, right = panels[0], panels[-1]
    means = [running_mean(curve.loss, WINDOW * curve.workers) for curve in curves]
    most = largest_shown(curves, means)
    lines: list[list[Line2D]] = [[] for _ in panels]
    for curve, mean in zip(curves, means, strict=True):
        below = len(mean) if most is None else int(np.argmax(np.append(~(mean <= most), True)))
        shown = np.unique(np.linspace(0, below - 1, min(below, MARKED)).astype(int))
        label = f"{curve.name} (diverged)" if curve.diverged else curve.name
        places = [(np.arange(len(mean)) + 1) / curve.workers, curve.seconds, *(curve.spent[name] for name in spent)]
        for panel, drawn, x in zip(panels, lines, places, strict=True):
            drawn += panel.plot(x[shown], mean[shown], label=label, linewidth=1.4)
            if curve.diverged and len(shown):
                panel.plot(x[shown][-1], mean[shown][-1], "x", color=drawn[-1].get_color(), markeredgewidth=2)
    use_logarithm(left, *(line.get_ydata() for line in lines[0]))
    left.set(xlabel="commits of each worker", ylabel="training loss")
    for panel, label in zip(panels[1:], ("simulated seconds", *(SPENT[name] for name in spent)), strict=True):
        panel.set(xlabel=label)
    draw_legend_beside(right, [(str(line.get_label()), line) for line in lines[-1]])
    draw_title(figure, title, subtitle)
    return [line for drawn in lines for line in drawn]


def largest_shown(curves: Sequence[Curve], means: Sequence[np.ndarray]) -> float | None:
    """The loss at which a line that diverges leaves the picture, ten times what the others need; None if none does."""
    if not any(curve.diverged for curve in curves):
        return None
    parts = [mean[:1] if curve.diverged else mean for curve, mean in zip(curves, means, strict=True)]
    values = np.concatenate(parts)
    values = values[np.isfinite(values)]
    return BEYOND * float(values.max()) if len(values) else None
