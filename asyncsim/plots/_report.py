"""The report of a run: its loss, staleness, energies and π, each against the commits of a worker, and all on a page."""

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import columns, require_count
from asyncsim._metrics import counted
from asyncsim.components._checked import checked
from asyncsim.engine import Run
from asyncsim.engine._quantities import CONSENSUS
from asyncsim.plots._page import draw_legend_inside, draw_title, remark, say, use_logarithm
from asyncsim.plots._staleness import draw_staleness
from asyncsim.plots._workers import draw_worker_losses
from asyncsim.plots.style import BLUE, DASHED, GREEN, GREY, VERMILION, require_color
from asyncsim.trace import Trace

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

SIZE = (9.6, 6.6)  # inches
SMOOTHED = 5  # commits of each worker in a running mean, about as in the paper's curves
PER_WORKER = "commits of each worker"
MOST_POINTS = 2000  # of a line: more than a picture has pixels only makes it slow


@checked
def draw_report(
    figure: "Figure", trace: Trace, run: Run, title: str, subtitle: str = "", *, predicted: ArrayLike | None = None
) -> "list[Axes]":
    """Draw four panels of a run: loss, staleness, energies and π, or if there is no π the workers' own losses.

    Of workers on a graph that recorded `consensus_distance`, the last panel shows how far their models are apart.

    Args:
        figure: An empty figure (see `asyncsim.plots.style` for the look).
        trace: Schedule of the run.
        run: The run.
        title: The run.
        subtitle: With which settings.
        predicted: (size,) P(τ = k), drawn over the measured staleness as in `draw_staleness`.
    """
    panels = list(figure.subplots(2, 2).flat)
    draw_loss(panels[0], run)
    draw_staleness(panels[1], trace, predicted=predicted)
    draw_energies(panels[2], run)
    # Where there is no π and workers differ, the loss of each.
    measures = {} if _recorded(run, "pi_median") or _recorded(run, "pi_mean") else run.evaluate_workers()
    if _recorded(run, CONSENSUS):
        last = "Distance of the models from their mean"
        _draw_consensus(panels[3], run)
    elif run.several or "worker_loss" not in measures or not run.commits:
        last = "Scaling π of the updates"
        draw_pi(panels[3], run)
    else:
        last = "Loss of each worker's own part"
        shares = np.bincount(trace.worker[: run.commits], minlength=trace.workers) / run.commits
        draw_worker_losses(panels[3], measures["worker_loss"], shares)
    names = ("Training loss", "Staleness", "Kinetic energy", last)
    for panel, name in zip(panels, names, strict=True):
        panel.set_title(name)
    draw_title(figure, title, subtitle)
    return panels


@checked
def running_mean(values: np.ndarray, window: Annotated[int, require_count, "1 smooths nothing."]) -> np.ndarray:
    """Return the mean of each value and up to `window` - 1 before it, NaN from the first non-finite value.

    Args:
        values: One number for each commit.
        window: Number of values to average, at least 1.

    Example:
        >>> running_mean(np.array([1.0, 3.0, 5.0, 7.0]), window=2).tolist()
        [1.0, 2.0, 4.0, 6.0]
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 1:
        raise ValueError(f"`values` must be a list of numbers; got shape {values.shape}.")
    broken = np.flatnonzero(~np.isfinite(values))
    sound = values[: broken[0]] if len(broken) else values
    sums = np.cumsum(sound)
    sums[window:] -= sums[:-window].copy()
    means = sums / np.minimum(np.arange(1, len(sound) + 1), window)
    return np.concatenate([means, np.full(len(values) - len(sound), np.nan)])


@checked
def draw_loss(
    ax: "Axes",
    run: Run,
    *,
    label: str | None = None,
    color: str = BLUE,
    x: ArrayLike | None = None,
    xlabel: str = PER_WORKER,
) -> "Line2D":
    """Draw the training loss against the commits of each worker, as a running mean over about five of them.

    Args:
        ax: Where to draw.
        run: The run. Of several seeds, the mean is drawn.
        label: Label for a legend.
        color: Colour of the line.
        x: (commits,) another horizontal axis, such as `trace.commit_time` or a value of
            `asyncsim.costs.cost_over_time`: bytes, joules or money spent by each commit. It may be longer than the run.
        xlabel: Label of the horizontal axis, for example "energy, in joules".

    Raises:
        ValueError: If `x` has fewer numbers than the run has commits.

    Example:
        >>> import asyncsim as asim
        >>> from matplotlib.figure import Figure
        >>> trace = asim.Trace.from_commits([0, 1] * 50)
        >>> run = asim.replay(trace, asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0]))
        >>> float(draw_loss(Figure().subplots(), run).get_xdata()[-1])
        50.0
        >>> float(draw_loss(Figure().subplots(), run, x=trace.commit_time, xlabel="seconds").get_xdata()[-1])
        100.0
    """
    require_color(color)
    line = _draw_running_mean(ax, run, "loss", x, label=label, color=color)
    use_logarithm(ax, line.get_ydata())
    ax.set(xlabel=xlabel, ylabel="training loss")
    ends = [commit for commit in run.divergences if commit is not None]
    if ends:
        x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        sound = np.flatnonzero(np.isfinite(y))
        if len(sound):
            ax.plot(x[sound[-1]], y[sound[-1]], "x", color=VERMILION, markeredgewidth=2, clip_on=False)
        which = (
            f"{len(ends)} of {counted(len(run.divergences), 'seed')} diverged, the first" if run.several else "diverged"
        )
        remark(ax, f"{which} at commit {min(ends):,}", VERMILION)
    return line


@checked
def draw_energies(ax: "Axes", run: Run) -> "list[Artist]":
    """Draw the kinetic energies of the central variable and its proxy, summed over parameters, where recorded.

    Args:
        ax: Where to draw.
        run: The run.
    """
    names = (("energy_central", "central variable", BLUE), ("energy_proxy", "proxy", VERMILION))
    recorded = [look for look in names if _recorded(run, look[0])]
    lines = [_draw_running_mean(ax, run, name, label=label, color=color) for name, label, color in recorded]
    if not lines:
        return [say(ax, "No energies were recorded.")]
    use_logarithm(ax, *(line.get_ydata() for line in lines))
    ax.set(xlabel=PER_WORKER, ylabel="kinetic energy")
    draw_legend_inside(ax, "best")
    if not _recorded(run, "energy_proxy"):
        remark(ax, "no proxy, or not recorded")
    return [*lines]


@checked
def draw_pi(ax: "Axes", run: Run) -> "Artist":
    """Draw the median of π over all parameters against commits per worker, as a running mean over about five.

    Args:
        ax: Where to draw.
        run: The run. If it has no π, a text says so.
    """
    if not _recorded(run, "pi_median"):
        return say(ax, "No π in this run: its rule scales nothing,\nor it was not recorded.")
    line = _draw_running_mean(ax, run, "pi_median", color=GREEN)
    ax.axhline(1.0, color=GREY, linewidth=0.8, linestyle=DASHED, zorder=1)
    ax.set(xlabel=PER_WORKER, ylabel="median of π")
    ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
    return line


@checked
def draw_seeds(ax: "Axes", x: ArrayLike, ys: ArrayLike, **look: Any) -> "Line2D":
    """Draw the median over seeds as a line, and their range as a band.

    Args:
        ax: Where to draw.
        x: (points,).
        ys: (seeds, points). Values that are not finite are ignored. Where no seed has a value any more, a cross marks
            the end of the line.
        look: Of the line: `label`, `color`, …

    Example:
        >>> from matplotlib.figure import Figure
        >>> line = draw_seeds(Figure().subplots(), [1, 2], [[1.0, 2.0], [3.0, np.nan], [5.0, 4.0]])
        >>> line.get_ydata().tolist()
        [3.0, 3.0]
    """
    (x,), ys = columns(x=x), np.atleast_2d(np.asarray(ys, np.float64))
    if ys.shape[1:] != x.shape:
        raise ValueError(f"`ys` must have shape (seeds, {len(x)}), one number per entry of `x`; got {ys.shape}.")
    ys = np.where(np.isfinite(ys), ys, np.nan)
    some = np.asarray(np.isfinite(ys).any(axis=0))
    middle, low, high = (np.full(len(x), np.nan) for _ in range(3))
    middle[some], low[some], high[some] = (f(ys[:, some], axis=0) for f in (np.nanmedian, np.nanmin, np.nanmax))
    (line,) = ax.plot(x, middle, **look)
    if len(ys) > 1:
        ax.fill_between(x, low, high, color=line.get_color(), alpha=0.18, linewidth=0)
    if some.any() and not some[-1]:
        last = np.flatnonzero(some)[-1]
        ax.plot(x[last], middle[last], "x", color=line.get_color(), markeredgewidth=2, clip_on=False)
    return line


def _draw_consensus(ax: "Axes", run: Run) -> None:
    """Draw how far the models of workers on a graph are apart, of several seeds the mean."""
    at, values = run.recorded_at[CONSENSUS], np.asarray(run.records[CONSENSUS], np.float64)
    mean = values.mean(axis=0) if run.several else values
    ax.plot((at + 1) / run.workers, mean, color=GREEN)
    use_logarithm(ax, mean)
    ax.set(xlabel=PER_WORKER, ylabel="(1/n) Σ |x_i − x̄|²")


def _recorded(run: Run, name: str) -> bool:
    return len(run.recorded_at.get(name, ())) > 0


def _draw_running_mean(ax: "Axes", run: Run, name: str, x: ArrayLike | None = None, **style: Any) -> "Line2D":
    """Draw the running mean of the loss, or of a record, over `SMOOTHED` commits of each worker."""
    loss = name == "loss"
    values, at = (run.loss, np.arange(run.commits)) if loss else (run.records[name], run.recorded_at[name])
    positions = (np.arange(run.commits) + 1) / run.workers if x is None else np.asarray(x, np.float64)
    if positions.ndim != 1 or len(positions) < run.commits:
        raise ValueError(f"`x` must have a number for each of {run.commits} commits; got shape {positions.shape}.")
    rows, means = smoothed(run, values, at, MOST_POINTS)
    return ax.plot(positions[at[rows]], means, **style)[0]


def smoothed(run: Run, values: Any, at: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return evenly spread rows of values at these commits, and their means over `SMOOTHED` commits of each worker."""
    values = np.asarray(values, np.float64)
    values = values.mean(axis=0) if run.several else values
    every = (at[-1] - at[0]) / (len(at) - 1) if len(at) > 1 else 1.0
    means = running_mean(values, max(1, round(SMOOTHED * run.workers / max(every, 1.0))))
    rows = np.unique(np.linspace(0, len(at) - 1, min(len(at), most)).round().astype(int))
    return rows, means[rows]
