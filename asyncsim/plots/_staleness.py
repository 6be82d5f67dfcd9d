"""The distribution of staleness, over all commits and worker by worker."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._metrics import number
from asyncsim.cluster._pipeline import Timetable
from asyncsim.components._checked import checked
from asyncsim.delays import FloatArray
from asyncsim.plots._page import (
    draw_legend_below,
    draw_legend_inside,
    draw_title,
    of_shape,
    remark,
    say,
    size_in_points,
    tick_at_whole_numbers,
)
from asyncsim.plots._timeline import draw_timeline, draw_timetable
from asyncsim.plots.style import BLUE, DASHED, INK, VERMILION
from asyncsim.trace import Fate, Trace
from asyncsim.trace._columns import tick_of
from asyncsim.trace._invariants import conservation
from asyncsim.trace._statistics import total_variation
from asyncsim.trace._variables import is_on_graph

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import StepPatch

MOST_BARS = 80
MOST_NAMED = 16  # workers whose names fit below a panel
MARK: dict[str, Any] = {"color": VERMILION, "linewidth": 1.4, "linestyle": DASHED}  # of a mean
EQUAL = "n − 1"
SYSTEM_SIZE = (9.6, 4.4)  # inches, of a page of two panels
PAGE_SIZES = {False: (7.2, 4.4), True: SYSTEM_SIZE}  # by whether a second panel shows the workers
SHOWN = 0.9995  # share of the commits, and of the prediction, that the axis reaches


@checked
def draw_staleness(ax: "Axes", trace: Trace, *, predicted: ArrayLike | None = None) -> "Artist":
    """Draw the histogram of staleness, as shares of the commits, with the mean that the outstanding reads imply.

    If nothing was discarded, the mean staleness of a long run is the number of other reads outstanding at the commits
    that close a step, per commit: n - 1 if each commit is a step and each worker always has a job. If jobs were
    cancelled, dropped, lost or crashed, the measured mean is marked instead.

    Args:
        ax: Where to draw.
        trace: The trace.
        predicted: (size,) P(τ = k) for k = 0, 1, …, drawn as an outline. The mass missing to 1 lies beyond its end.

    Returns:
        The steps of the histogram, or a text if there are no commits. A remark gives the total variation distance
        ½ Σ |measured - predicted|, with all beyond the end of `predicted` as one value.

    Raises:
        ValueError: If `predicted` is not a distribution.

    Example:
        >>> from matplotlib.figure import Figure
        >>> steps = draw_staleness(Figure().subplots(), Trace.from_commits([0, 1, 2, 0, 1, 2]))
        >>> steps.get_data().values.round(3).tolist()  # staleness 0, 1 and 2
        [0.167, 0.167, 0.667]

    References:
        Koloskova, Stich and Jaggi 2022, "Sharper convergence guarantees for asynchronous SGD for distributed and
        federated learning" (the mean delay is set by the concurrency).
    """
    pmf = None if predicted is None else _distribution(predicted)
    if not len(trace):
        return say(ax, "No commits, no staleness.")
    reach = longest = int(trace.staleness.max())
    name, mark = _implied_mean(trace)
    words = f"longest {longest:,}"
    # The axis ends where nearly all commits lie, as a few very stale ones would squeeze the rest.
    right = max(float(np.quantile(trace.staleness, SHOWN)), mark + 1)
    if pmf is not None:
        end = int(np.searchsorted(np.cumsum(pmf), SHOWN))
        reach, right = max(longest, end), max(right, float(end))
        words = f"total variation {number(total_variation(trace.staleness, pmf))}"
    bars, width = _draw_bars(ax, np.bincount(trace.staleness) / len(trace), pmf, reach, unit=unit_of(trace))
    legend = min(0.5, (12 + 15 * len(bars)) / size_in_points(ax)[1])  # its share of the height, which stays free
    ax.axvline(mark, ymax=1 - legend, label=f"{name} = {number(mark)}", **MARK)
    ax.set_ylim(0, max(bar.get_data()[0].max() for bar in bars) / (1 - legend))
    ax.set_xlim(right=min(right, reach + 1) + width)
    remark(ax, f"mean {number(trace.staleness.mean())}, {words}")
    draw_legend_inside(ax, "upper right")
    return bars[0]


def unit_of(trace: Trace) -> str:
    """Return what staleness counts: on a graph, a worker's own changes do not count, and regions have a server each."""
    if is_on_graph(trace):
        return "changes by others"
    return "server versions" if trace.variables == 1 else "versions of its server"


def _draw_bars(
    ax: "Axes",
    shares: FloatArray,
    predicted: FloatArray | None,
    reach: int,
    label: str | None = None,
    unit: str = "server versions",
) -> "tuple[list[StepPatch], int]":
    """Draw bars of shares up to a staleness and the outline of a prediction. Return the number of values in a bar."""
    width = -(-(reach + 1) // MOST_BARS)
    bins = -(-(reach + 1) // width)
    edges = np.arange(bins + 1) * width - 0.5
    bars = [ax.stairs(in_bins(shares, bins, width), edges, fill=True, color=BLUE, alpha=0.85, label=label)]
    if predicted is not None:
        bars.append(ax.stairs(in_bins(predicted, bins, width), edges, color=INK, linewidth=1.3, label="predicted"))
    ax.set_xlabel(f"staleness of a commit, in {unit}")
    ax.set_ylabel("share of commits" if width == 1 else f"share of commits per {width} {unit.removeprefix('server ')}")
    return bars, width


@checked
def draw_staleness_by_worker(ax: "Axes", trace: Trace, *, predicted: ArrayLike | None = None) -> "list[Artist]":
    """Draw the mean staleness of each worker's commits, and the range from their 10 % to their 90 % quantile.

    Args:
        ax: Where to draw.
        trace: The trace.
        predicted: (workers,) mean staleness of each worker's commits, in server versions, not finite where unknown.

    Returns:
        The points of the means, the lines of the ranges, one per worker that committed, and the marks of the
        prediction if one is given, or one text if there are no commits.

    Raises:
        ValueError: If `predicted` is not one number per worker.

    Example:
        >>> from matplotlib.figure import Figure
        >>> means, ranges = draw_staleness_by_worker(Figure().subplots(), Trace.from_commits([0, 1, 0, 0, 1, 0]))
        >>> means.get_ydata().tolist()  # worker 0 reads more often
        [0.5, 1.5]
    """
    remedy = "Give one mean staleness per worker."
    expected = None if predicted is None else of_shape("predicted", predicted, (trace.workers,), remedy)
    if not len(trace):
        return [say(ax, "No commits, no staleness.")]
    n, (mean, low, high) = trace.workers, _by_worker(trace).T
    worker, room = np.flatnonzero(np.isfinite(mean)), size_in_points(ax)[0] / n
    bar = {"color": BLUE, "alpha": 0.35, "linewidth": np.clip(0.6 * room, 0.2, 5), "label": "10 % to 90 %"}
    ranges = ax.vlines(worker, low[worker], high[worker], **bar)
    points = ax.plot(worker, mean[worker], "o", color=BLUE, markersize=np.clip(0.6 * room, 1.4, 5.5), label="mean")[0]
    artists: list[Artist] = [points, ranges]
    if expected is not None:
        dash = {"markersize": np.clip(room, 2, 11), "markeredgewidth": np.clip(0.3 * room, 0.8, 1.8)}
        artists += ax.plot(np.arange(n), expected, "_", color=VERMILION, label="predicted mean", **dash)
        difference = np.abs(mean - expected)
        remark(ax, f"largest difference {number(difference[np.isfinite(difference)].max(initial=0.0))}")
    ax.set(xlabel="worker", ylabel=f"staleness, in {unit_of(trace)}", ylim=(0, None))
    ax.set_xlim(-0.6 - 0.01 * n, n - 0.4 + 0.01 * n)
    tick_at_whole_numbers(ax.xaxis)
    if trace.names and n <= MOST_NAMED:
        labels = [tick_of(trace, worker) for worker in range(n)]
        ax.set_xticks(range(n), labels, rotation=30, ha="right", parse_math=False)
    ax.grid(visible=False, axis="x")
    for handle in filter(None, draw_legend_below(ax, artists).legend_handles):
        handle.set(linewidth=5, markersize=6)  # visible where the marks themselves are thin
    return artists


def draw_shares(
    ax: "Axes", shares: FloatArray, *, predicted: FloatArray | None = None, unit: str = "server versions"
) -> None:
    """Draw 99.95 % of a distribution of staleness, the predicted one as an outline, and the measured mean."""
    most = int(np.searchsorted(np.cumsum(shares), SHOWN)) + 1
    bars, _ = _draw_bars(ax, shares, predicted, most, label="simulated", unit=unit)
    mean = float(shares @ np.arange(len(shares)))
    line = ax.axvline(mean, label=f"mean {number(mean)}", **MARK)
    ax.set_xlim(-0.02 * most - 1, bars[0].get_data()[1][-1] + 0.5)
    tick_at_whole_numbers(ax.xaxis)
    draw_legend_below(ax, [*bars, line])


def draw_staleness_page(
    figure: "Figure",
    shares: FloatArray,
    predicted: FloatArray | None,
    title: str,
    subtitle: str,
    trace: Trace | None = None,
    worker_means: FloatArray | None = None,
) -> None:
    """Draw the picture of `asyncsim staleness`: the distribution, and with a trace the means of the workers."""
    panels = figure.subplots(1, 1 if trace is None else 2, squeeze=False)[0]
    draw_shares(panels[0], shares, predicted=predicted, **({} if trace is None else {"unit": unit_of(trace)}))
    if trace is not None:
        draw_staleness_by_worker(panels[1], trace, predicted=worker_means)
        panels[0].set_title("All commits")
        panels[1].set_title("Worker by worker")
    draw_title(figure, title, subtitle)


def draw_system_page(figure: "Figure", shares: FloatArray, first: Trace | Timetable, title: str, subtitle: str) -> None:
    """Draw the distribution of staleness, and the first seconds of rollouts or regions (a trace) or of a pipeline."""
    distribution, schedule = figure.subplots(1, 2)
    draw_shares(distribution, shares)
    if isinstance(first, Trace) and first.variables > 1:
        distribution.set_title("Commits in regions")
        distribution.set(xlabel="staleness, in commits of the region", ylabel="share of commits")
        draw_timeline(schedule, first)
    elif isinstance(first, Trace):
        distribution.set_title("Trained samples")
        distribution.set(xlabel="staleness of a trained sample, in versions", ylabel="share of trained samples")
        draw_timeline(schedule, first)
        schedule.set(ylabel="group under way")
    else:
        distribution.set_title("All stages")
        distribution.set(xlabel="staleness of a stage, in its updates", ylabel="share of stages and micro-batches")
        draw_legend_below(schedule, draw_timetable(schedule, first))
    schedule.set_title("The first seconds")
    draw_title(figure, title, subtitle)


def _implied_mean(trace: Trace) -> tuple[str, float]:
    """Return the mean staleness that the outstanding reads imply, and its name."""
    rest, n = trace.unfinished, trace.workers
    ended = rest.fate != Fate.IN_FLIGHT
    if (np.minimum(rest.end_version, trace.steps) > rest.read_version)[ended].any():
        return "mean", float(trace.staleness.mean())
    pairs = conservation(trace)[1]
    if is_on_graph(trace):
        return "changes by others per job", pairs / len(trace)
    if not trace.closes_step.all():
        return "other outstanding reads per commit", pairs / len(trace)
    name = EQUAL if pairs == (n - 1) * len(trace) else "other outstanding reads"
    return name, pairs / len(trace)


def _distribution(predicted: ArrayLike) -> FloatArray:
    pmf = np.asarray(predicted, np.float64)
    if pmf.ndim != 1 or not len(pmf) or not (pmf >= -1e-9).all() or not pmf.sum() <= 1 + 1e-6:
        raise ValueError(
            f"`predicted` must be P(τ = k) for k = 0, 1, …, not negative and at most 1 in sum; got shape {pmf.shape} "
            f"and sum {pmf.sum():.6g}. Give probabilities, not counts."
        )
    return pmf


def in_bins(shares: FloatArray, bins: int, width: int) -> FloatArray:
    """Add up shares of single values in bins of `width` values, without those beyond the last bin."""
    whole = np.pad(shares, (0, max(0, bins * width - len(shares))))
    return whole[: bins * width].reshape(bins, width).sum(axis=1)


def _by_worker(trace: Trace) -> FloatArray:
    """Return (workers, 3) mean, 10 % and 90 % quantile of each worker's staleness, NaN without a commit."""
    order = np.argsort(trace.worker, kind="stable")
    ends = np.cumsum(np.bincount(trace.worker, minlength=trace.workers))
    rows = np.full((trace.workers, 3), np.nan)
    for worker, staleness in enumerate(np.split(trace.staleness[order], ends[:-1])):
        if len(staleness):
            rows[worker] = staleness.mean(), *np.quantile(staleness, (0.1, 0.9))
    return rows
