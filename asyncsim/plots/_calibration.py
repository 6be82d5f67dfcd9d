"""A calibration in pictures: quantiles of data and law, posteriors, and predictions for other numbers of workers."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import columns, require_not_negative
from asyncsim.components._checked import checked
from asyncsim.delays import FloatArray
from asyncsim.plots._page import draw_title
from asyncsim.plots.style import BLUE, GREY, require_color

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Ends = tuple[float, float]  # of a range, NaN where a prior has none
BARS = 31
MANY_TIMES = 10  # between the ends of an axis, from which it is logarithmic
KNOWN = 0.1  # of a value without error, that is shown to each side
SHOWN = 0.1  # share of the prior that the draws cover, from which all of it is shown
ROUNDING = 1e-9  # relative difference of values that count as equal
FIT_SIZE = (10.0, 8.0)  # inches
MOST_PANELS = 6  # parameters that are drawn


def draw_quantiles(ax: "Axes", measured: FloatArray, predicted: FloatArray) -> None:
    """Draw quantiles of measured durations against those of a law at the same shares: on the diagonal, it fits."""
    low, high = min(measured.min(), predicted.min()), max(measured.max(), predicted.max())
    if high - low < ROUNDING * high:  # a constant: axes that magnify rounding errors would show nothing else
        low, high = 0.9 * low, 1.1 * high
        ax.set(xlim=(low, high), ylim=(low, high))
    ax.plot([low, high], [low, high], color=GREY, linewidth=1, zorder=1)
    ax.plot(predicted, measured, "o", color=BLUE, markersize=3, alpha=0.8)
    ax.set(xlabel="by the fitted law, seconds", ylabel="in the log, seconds")


@checked
def draw_proposal(ax: "Axes", mean: float, sd: float, **style: Any) -> "list[Line2D]":
    """Draw a normal proposal as a curve whose peak is 1, so that wide and narrow ones can be compared.

    Args:
        ax: Where to draw.
        mean, sd: Of the proposal.
        style: Of the line.

    Example:
        >>> from matplotlib.figure import Figure
        >>> line = draw_proposal(Figure().subplots(), 2.0, 0.5)[0]
        >>> float(line.get_ydata().max())
        1.0
    """
    sd = require_not_negative("sd", sd, remedy="Give a standard deviation.")
    away = np.linspace(-4, 4, 201)  # standard deviations
    return ax.plot(mean + sd * away, np.exp(-away * away / 2), **style)


def draw_posterior(ax: "Axes", draws: FloatArray, prior: Ends, interval: Ends, *, identifiable: bool) -> None:
    """Draw the posterior of a parameter (grey if the log does not identify it), its interval, and a wide prior."""
    least, most = float(draws.min()), float(draws.max())
    if most - least <= ROUNDING * abs(most):  # known without error: one bar in the middle
        least, most = least - KNOWN * (abs(least) or 1.0), most + KNOWN * (abs(most) or 1.0)
    low, high = prior
    if low > 0 and least > 0 and high > MANY_TIMES * low:  # the prior needs a logarithmic axis
        share = math.log(most / least) / math.log(high / low)
    else:
        share = (most - least) / (high - low)
    whole = not math.isnan(low) and (not identifiable or share > SHOWN)
    if not whole:
        low, high = min(least, interval[0]), max(most, interval[1])
    logarithmic = low > 0 and high > MANY_TIMES * low
    space = np.geomspace if logarithmic and least > 0 else np.linspace
    edges: Any = space(least, most, BARS)
    ax.hist(draws, edges, color=BLUE if identifiable else GREY)
    for end, label in zip(interval, ("90 % interval", None), strict=True):
        ax.axvline(end, color="black", linewidth=0.8, linestyle=":", label=label)
    if logarithmic:
        ax.set_xscale("log")
        if math.floor(math.log10(high)) - math.ceil(math.log10(low)) < 1:  # fewer than two powers of ten
            ends = [low, math.sqrt(low * high), high]
            ax.set_xticks(ends, [f"{end:.2g}" for end in ends])
        ax.tick_params(axis="x", which="minor", labelbottom=False)
    else:
        ax.locator_params(axis="x", nbins=4)
    if whole:
        ax.set_xlim(low, high)


@checked
def draw_band(
    ax: "Axes",
    workers: ArrayLike,
    low: ArrayLike,
    middle: ArrayLike,
    high: ArrayLike,
    theory: ArrayLike | None = None,
    color: str = BLUE,
) -> "list[Line2D]":
    """Draw predictions of a fit against the number of workers: median, 90 % band, and theory's curve.

    Args:
        ax: Where to draw.
        workers: (points,) numbers of workers, or values of another argument.
        low, middle, high: (points,) 5, 50 and 95 %.
        theory: (points,) by a closed form, None where there is none.
        color: Of median and band.

    Example:
        >>> from matplotlib.figure import Figure
        >>> lines = draw_band(Figure().subplots(), [1, 2], [0.9, 1.8], [1.0, 2.0], [1.1, 2.2], theory=[1.0, 2.0])
        >>> len(lines)
        2
    """
    require_color(color)
    places, low, middle, high = columns(workers=workers, low=low, middle=middle, high=high)
    ax.fill_between(places, low, high, color=color, alpha=0.25, linewidth=0, label="90 %")
    lines = ax.plot(places, middle, "o-", color=color, markersize=4, label="fitted system, simulated")
    if theory is not None:
        lines += ax.plot(places, columns(workers=places, theory=theory)[1], "--", color=GREY, label="theory")
    ax.set(xlabel="workers")
    return lines


def draw_fit(figure: "Figure", fit: Any, numbers: Any, log: str) -> None:
    """Draw the picture of `asyncsim calibrate`: stages or parameters above, other workers or leads below."""
    grid = figure.add_gridspec(1 if numbers is None else 2, 1)
    stages = fit.model.stages
    if stages:
        row = grid[0, 0].subgridspec(1, len(stages))
        for column, (name, stage) in enumerate(stages.items()):
            ax = figure.add_subplot(row[0, column])
            draw_quantiles(ax, *stage.quantiles)
            ax.set(title=f"{name}: {', '.join(stage.families)}")
    else:  # the posterior of each parameter, with its prior
        names = list(fit.parameters)[:MOST_PANELS]
        row = grid[0, 0].subgridspec(1, len(names))
        for column, name in enumerate(names):
            ax, parameter = figure.add_subplot(row[0, column]), fit.parameters[name]
            prior = fit.model.priors[name] or (math.nan, math.nan)  # a time of a model that fits ratios has no prior
            draw_posterior(
                ax, fit.draws[:, column], prior, (parameter.low, parameter.high), identifiable=parameter.identifiable
            )
            ax.set(xlabel=name, yticks=[], ylabel="draws of the posterior" if column == 0 else "")
            ax.set_title("" if parameter.identifiable else "not identifiable", fontsize="small")
            if column == 0:
                ax.legend(fontsize="small", frameon=True, framealpha=1.0, edgecolor="none")
    if numbers is not None:
        _draw_what_if(figure, fit, numbers, grid[1, 0])
    hidden = f"; not identifiable from the log: {', '.join(fit.hidden)}" if fit.hidden else ""
    size = fit.model.size(fit.log.commits, fit.workers)
    draw_title(figure, f"{type(fit.cluster).__name__} fitted to {log}", f"{size}{hidden}")


def _draw_what_if(figure: "Figure", fit: Any, numbers: Any, grid_cell: Any) -> None:
    """Draw throughput and mean staleness against the number of workers, or of rollouts against the lead."""
    varied = fit.model.varied
    values = np.asarray(numbers[varied], np.float64)
    finite = np.isfinite(values)  # no bound of the lead has no place on the axis
    for cell, (name, label) in zip(grid_cell.subgridspec(1, 2), fit.model.labels.items(), strict=False):
        ax = figure.add_subplot(cell)
        predicted = numbers.get(f"predicted_{name}", np.full(len(values), math.nan))
        ends = [numbers[f"{name}{end}"][finite] for end in ("_low", "", "_high")]
        draw_band(ax, values[finite], *ends, theory=predicted if np.isfinite(predicted).all() else None)
        present = getattr(fit.cluster, varied)
        if present is not None:
            ax.axvline(present, color="0.6", linewidth=0.8, linestyle=":", label="the log's")
        ax.set(xlabel=varied, ylabel=label, ylim=(0, None))
        ax.legend(fontsize="small")
