"""Pages about rollouts and pipelines: their staleness and first seconds, and the stability of stale gradients."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._metrics import number
from asyncsim.cluster._pipeline import Timetable
from asyncsim.plots._page import draw_legend_below, draw_title
from asyncsim.plots._staleness import draw_shares
from asyncsim.plots._timeline import draw_timeline, draw_timetable
from asyncsim.plots.style import BLUE, GREY, INK, VERMILION
from asyncsim.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SYSTEM_SIZE = (9.6, 4.4)  # inches


def draw_system_page(figure: "Figure", shares: ArrayLike, first: Trace | Timetable, title: str, subtitle: str) -> None:
    """The distribution of staleness, and the first seconds: of rollouts in a trace, of a pipeline in a timetable."""
    left, right = _panels(figure, shares)
    if isinstance(first, Trace):
        left.set_title("Trained samples")
        left.set(xlabel="staleness of a trained sample, in versions", ylabel="share of trained samples")
        draw_timeline(right, first)
        right.set(ylabel="group under way")
    else:
        left.set_title("All stages")
        left.set(xlabel="staleness of a stage, in its updates", ylabel="share of stages and micro-batches")
        draw_legend_below(right, draw_timetable(right, first))
    right.set_title("The first seconds")
    draw_title(figure, title, subtitle)


def draw_rollouts_stability(figure: "Figure", report: Mapping[str, Any]) -> None:
    """The distribution of staleness, and the growth of runs over the step size with predicted and measured limits."""
    left, right = _panels(figure, report["staleness"]["shares"])
    left.set(xlabel="staleness of a group, in versions", ylabel="share of trained groups")
    rates, growth = np.array(report["growth"]).T
    right.loglog(rates, growth, ".-", color=INK, markersize=4)
    right.axhline(1.0, color=GREY, linewidth=0.8)
    lines = {
        "predicted": (report["predicted"]["learning_rate"], BLUE, "-"),
        "measured": (report["measured"]["learning_rate"], VERMILION, "-"),
        "predicted with the measured spread": (report["predicted"]["mixture"], BLUE, ":"),
    }
    for label, (rate, colour, dash) in lines.items():
        right.axvline(rate, color=colour, linestyle=dash, label=f"{label}, {number(rate)}")
    right.set(xlabel="step size", ylabel="growth of the distance from the optimum")
    right.legend(fontsize="small")
    title = "Largest stable step size of stale policy gradients"
    draw_title(figure, title, "Growth: largest distance in the last quarter of a run over that in the second quarter")


def _panels(figure: "Figure", shares: ArrayLike) -> "tuple[Axes, Axes]":
    left, right = figure.subplots(1, 2)
    draw_shares(left, np.asarray(shares))
    return left, right
