"""The distribution of staleness, over all commits and worker by worker."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._checks import columns, require_integer
from asyncsim._metrics import number
from asyncsim.delays import FloatArray
from asyncsim.plots._page import draw_legend_below, draw_legend_inside, draw_title, remark, say, size_in_points
from asyncsim.plots.style import BLUE, INK, VERMILION
from asyncsim.trace import Fate, Trace
from asyncsim.trace._invariants import conservation
from asyncsim.trace._statistics import total_variation

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BARS = 80
EQUAL = "n − 1"
PAGE_SIZES = {False: (7.2, 4.4), True: (9.6, 4.4)}  # inches, by whether a second panel shows the workers
SHOWN = 0.9995  # share of the commits, and of the prediction, that the axis reaches


def draw_staleness(ax: "Axes", trace: Trace, *, predicted: ArrayLike | None = None) -> "Artist":
    """Histogram of staleness, as shares of the commits, with the mean that the outstanding reads imply.

    If nothing was discarded, the staleness of all commits adds up to the other reads outstanding at the commits that
    close a step, except for the jobs in flight at the end. So their mean number, over commits, is the mean staleness of
    a long run. It is n - 1 if each commit is a step and each worker always has a job. If jobs were cancelled, dropped,
    lost or crashed, part of that sum is their age, and the measured mean is marked instead.

    Args:
        ax: Where to draw.
        trace: The trace.
        predicted: (size,) P(τ = k) for k = 0, 1, …, drawn as an outline. The mass missing to 1 lies beyond its end.

    Returns:
        The steps of the histogram (`get_data().values` are the shares), or a text if there are no commits. The
        mark is the last of `ax.lines`, the outline the last of `ax.patches`. A remark gives the total variation
        distance ½ Σ |measured - predicted|, with all beyond the end of `predicted` as one value.

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
    longest = int(trace.staleness.max())
    reach = longest if pmf is None else max(longest, int(np.searchsorted(np.cumsum(pmf), SHOWN)))
    width = -(-(reach + 1) // MOST_BARS)
    edges = np.arange(0, reach + width + 1, width) - 0.5
    shares = np.histogram(trace.staleness, edges)[0] / len(trace)
    steps = ax.stairs(shares, edges, fill=True, color=BLUE, alpha=0.85)
    name, mark = _implied_mean(trace)
    values = [shares.max()]
    mean = f"mean {number(trace.staleness.mean())}"
    words = f"{mean}, longest {longest:,}"
    right = max(float(np.quantile(trace.staleness, SHOWN)), mark + 1)
    if pmf is not None:
        expected = in_bins(pmf, len(shares), width)
        ax.stairs(expected, edges, color=INK, linewidth=1.3, label="predicted")
        words = f"{mean}, total variation {number(total_variation(trace.staleness, pmf))}"
        right = max(right, float(np.searchsorted(np.cumsum(pmf), SHOWN)))
        values.append(expected.max())
    legend = min(0.5, (12 + 15 * len(values)) / size_in_points(ax)[1])  # its share of the height, which stays free
    look = {"color": VERMILION, "linewidth": 1.4, "linestyle": (0, (4, 3))}
    ax.axvline(mark, ymax=1 - legend, label=f"{name} = {number(mark)}", **look)
    share = "share of commits" if width == 1 else f"share of commits per {width} versions"
    ax.set(xlabel="staleness of a commit, in server versions", ylabel=share, ylim=(0, max(values) / (1 - legend)))
    ax.set_xlim(right=min(right, reach + 1) + width)
    remark(ax, words)
    draw_legend_inside(ax, "upper right")
    return steps


def draw_staleness_by_worker(ax: "Axes", trace: Trace, *, predicted: ArrayLike | None = None) -> "list[Artist]":
    """Mean staleness of each worker's commits, and the range from their 10 % to their 90 % quantile.

    Args:
        ax: Where to draw.
        trace: The trace.
        predicted: (workers,) mean staleness of each worker's commits, in server versions, not finite where unknown.

    Returns:
        The points of the means, the lines of the ranges (`get_segments()`, one per worker that committed), and the
        marks of the prediction if one is given, or one text if there are no commits.

    Raises:
        ValueError: If `predicted` is not one number per worker.

    Example:
        >>> from matplotlib.figure import Figure
        >>> means, ranges = draw_staleness_by_worker(Figure().subplots(), Trace.from_commits([0, 1, 0, 0, 1, 0]))
        >>> means.get_ydata().tolist()  # worker 0 reads more often
        [0.5, 1.5]
    """
    from matplotlib.ticker import MaxNLocator

    expected = None if predicted is None else _one_each(predicted, trace.workers)
    if not len(trace):
        return [say(ax, "No commits, no staleness.")]
    n, (mean, low, high) = trace.workers, _by_worker(trace)
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
    ax.set(xlabel="worker", ylabel="staleness, in server versions", ylim=(0, None))
    ax.set_xlim(-0.6 - 0.01 * n, n - 0.4 + 0.01 * n)
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    ax.grid(visible=False, axis="x")
    for handle in filter(None, draw_legend_below(ax, artists).legend_handles):
        handle.set(linewidth=5, markersize=6)  # visible where the marks themselves are thin
    return artists


def draw_shares(
    ax: "Axes", shares: ArrayLike, *, predicted: ArrayLike | None = None, most: int | None = None
) -> "list[Artist]":
    """Draw the measured distribution of staleness filled, the predicted one as an outline, and the measured mean.

    Args:
        ax: Where to draw.
        shares: (size,) share of the commits with staleness 0, 1, …
        predicted: (size,) P(τ = k), or None.
        most: Largest staleness shown, by default far enough for 99.95 % of the commits.

    Returns:
        The measured shares, the predicted ones if given, and the line at the measured mean.

    Example:
        >>> from matplotlib.figure import Figure
        >>> measured, outline, mean = draw_shares(Figure().subplots(), [0.5, 0.5], predicted=[0.4, 0.6])
        >>> outline.get_data().values.tolist(), float(mean.get_xdata()[0])
        ([0.4, 0.6, 0.0], 0.5)
    """
    from matplotlib.ticker import MaxNLocator

    (measured,) = columns(shares=shares)
    most = int(np.searchsorted(np.cumsum(measured), SHOWN)) + 1 if most is None else most
    most = require_integer("most", most, least=0, remedy="Give the largest staleness to show.")
    width = -(-(most + 1) // MOST_BARS)
    bins = -(-(most + 1) // width)
    edges = np.arange(bins + 1) * width - 0.5
    look = {"fill": True, "color": BLUE, "alpha": 0.85, "label": "simulated"}
    artists: list[Artist] = [ax.stairs(in_bins(measured, bins, width), edges, **look)]
    if predicted is not None:
        expected = in_bins(columns(predicted=predicted)[0], bins, width)
        artists.append(ax.stairs(expected, edges, color=INK, linewidth=1.3, label="predicted"))
    mean = float(measured @ np.arange(len(measured)))
    artists.append(
        ax.axvline(mean, color=VERMILION, linewidth=1.4, linestyle=(0, (4, 3)), label=f"mean {number(mean)}")
    )
    ax.set(xlabel="staleness of a commit, in server versions", xlim=(-0.02 * most - 1, edges[-1] + 0.5))
    ax.set_ylabel("share of commits" if width == 1 else f"share of commits per {width} versions")
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    draw_legend_below(ax, artists)
    return artists


def draw_staleness_page(
    figure: "Figure",
    shares: FloatArray,
    predicted: FloatArray | None,
    title: str,
    subtitle: str,
    trace: Trace | None = None,
    worker_means: FloatArray | None = None,
) -> None:
    """The picture of `asyncsim staleness`: the distribution, and with a trace the means of the workers."""
    panels = figure.subplots(1, 1 if trace is None else 2, squeeze=False)[0]
    draw_shares(panels[0], shares, predicted=predicted)
    if trace is not None:
        draw_staleness_by_worker(panels[1], trace, predicted=worker_means)
        panels[0].set_title("All commits")
        panels[1].set_title("Worker by worker")
    draw_title(figure, title, subtitle)


def _implied_mean(trace: Trace) -> tuple[str, float]:
    """The mean staleness that the outstanding reads imply, and its name."""
    rest, n = trace.unfinished, trace.workers
    ended = rest.fate != Fate.IN_FLIGHT
    if (np.minimum(rest.end_version, trace.steps) > rest.read_version)[ended].any():
        return "mean", float(trace.staleness.mean())
    pairs = conservation(trace)[1]
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
    """Shares of single values, added up in bins of `width` values, without those beyond the last bin."""
    whole = np.pad(shares, (0, max(0, bins * width - len(shares))))
    return whole[: bins * width].reshape(bins, width).sum(axis=1)


def _one_each(predicted: ArrayLike, workers: int) -> FloatArray:
    means = np.asarray(predicted, np.float64)
    if means.shape != (workers,):
        raise ValueError(
            f"`predicted` must have shape ({workers},); got {means.shape}. Give one mean staleness per worker."
        )
    return means


def _by_worker(trace: Trace) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean, 10 % and 90 % quantile of each worker's staleness, NaN where it never committed."""
    order = np.argsort(trace.worker, kind="stable")
    ends = np.cumsum(np.bincount(trace.worker, minlength=trace.workers))
    rows = np.full((trace.workers, 3), np.nan)
    for worker, own in enumerate(np.split(trace.staleness[order], ends[:-1])):
        if len(own):
            rows[worker] = own.mean(), *np.quantile(own, (0.1, 0.9))
    return rows[:, 0], rows[:, 1], rows[:, 2]
