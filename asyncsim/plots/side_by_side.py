"""Training losses of several runs, over commits and over time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from asyncsim.plots.page import draw_legend_beside, draw_title, use_logarithm
from asyncsim.plots.report import running_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

SIZE = (9.6, 4.8)  # inches
WINDOW = 5  # commits of each worker in a running mean
BEYOND = 10  # times the largest loss of a run that does not diverge
MARKED = 2000  # points of a line: more make a file large and show nothing


class Curve(NamedTuple):
    """The training loss of a run.

    Attributes:
        name: For the legend.
        workers: Number of workers n.
        loss: (commits,) mini-batch losses.
        seconds: (commits,) simulated times.
        diverged: Whether the run ended because it diverged.
    """

    name: str
    workers: int
    loss: np.ndarray
    seconds: np.ndarray
    diverged: bool = False


def draw_side_by_side(figure: "Figure", curves: Sequence[Curve], title: str, subtitle: str = "") -> "list[Line2D]":
    """Training losses against the commits of each worker, and against the simulated time.

    Args:
        figure: An empty figure.
        curves: The runs.
        title, subtitle: Lines above the picture.

    Returns:
        The lines of the first panel and then those of the second, each a running mean over five commits of each worker.

    Example:
        >>> from matplotlib.figure import Figure
        >>> curve = Curve("gem", 2, np.array([4.0, 2.0, 1.0]), np.array([0.5, 1.0, 2.0]))
        >>> lines = draw_side_by_side(Figure(), [curve], "One run")
        >>> lines[0].get_xdata().tolist(), lines[1].get_xdata().tolist(), lines[0].get_ydata().round(2).tolist()
        ([0.5, 1.0, 1.5], [0.5, 1.0, 2.0], [4.0, 3.0, 2.33])
    """
    left, right = figure.subplots(1, 2, sharey=True)
    means = [running_mean(curve.loss, WINDOW * curve.workers) for curve in curves]
    most = largest_shown(curves, means)
    lines: tuple[list[Line2D], list[Line2D]] = ([], [])
    for curve, mean in zip(curves, means, strict=True):
        below = len(mean) if most is None else int(np.argmax(np.append(~(mean <= most), True)))
        shown = np.unique(np.linspace(0, below - 1, min(below, MARKED)).astype(int))
        label = f"{curve.name} (diverged)" if curve.diverged else curve.name
        for panel, drawn, x in (
            (left, lines[0], (np.arange(len(mean)) + 1) / curve.workers),
            (right, lines[1], curve.seconds),
        ):
            drawn += panel.plot(x[shown], mean[shown], label=label, linewidth=1.4)
            if curve.diverged and len(shown):
                panel.plot(x[shown][-1], mean[shown][-1], "x", color=drawn[-1].get_color(), markeredgewidth=2)
    use_logarithm(left, *(line.get_ydata() for line in lines[0]))
    left.set(xlabel="commits of each worker", ylabel="training loss")
    right.set(xlabel="simulated seconds")
    draw_legend_beside(right, [(str(line.get_label()), line) for line in lines[1]])
    draw_title(figure, title, subtitle)
    return [*lines[0], *lines[1]]


def largest_shown(curves: Sequence[Curve], means: Sequence[np.ndarray]) -> float | None:
    """The loss at which a line that diverges leaves the picture, ten times what the others need; None if none does.

    Example:
        >>> one, other = (Curve("", 1, np.array([1.0, 2.0, last]), np.arange(3.0), last > 2) for last in (1.5, 1e30))
        >>> largest_shown([one, other], [one.loss, other.loss]), largest_shown([one], [one.loss])
        (20.0, None)
    """
    if not any(curve.diverged for curve in curves):
        return None
    parts = [mean[:1] if curve.diverged else mean for curve, mean in zip(curves, means, strict=True)]
    values = np.concatenate(parts)
    values = values[np.isfinite(values)]
    return BEYOND * float(values.max()) if len(values) else None
