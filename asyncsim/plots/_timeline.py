"""The timeline of a cluster: who reads, computes, waits and commits, and what goes wrong."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import require_integer, require_not_negative, require_positive
from asyncsim.plots import _spans as sp
from asyncsim.plots._page import draw_legend_below, remark, say, size_in_points
from asyncsim.plots.style import (
    AMBER,
    BLUE,
    GREEN,
    INK,
    PALE_BLUE,
    PALE_GREY,
    PALE_SKY,
    PINK,
    SKY,
    SLATE,
    VERMILION,
)
from asyncsim.trace import Fault, Trace
from asyncsim.trace._tables import end_of_trace

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection

MOST_LANES = 24
JOBS = 8  # of a worker, in a window without `stop`
HEIGHT = 0.72  # of what a lane shows; lanes are 1 apart
_SINCE = "Give seconds from the start of the run."

LOOKS: dict[str, dict[str, Any]] = {
    sp.COMPUTING: {"facecolor": BLUE},
    sp.VAIN: {"facecolor": PALE_BLUE, "edgecolor": BLUE, "hatch": "//////"},
    sp.NETWORK: {"facecolor": SKY},
    sp.SENT: {"facecolor": PALE_SKY, "edgecolor": SKY, "hatch": "......"},
    sp.WAITING: {"facecolor": AMBER},
    sp.SERVICE: {"facecolor": GREEN},
    sp.IDLE: {"facecolor": PALE_GREY},
    sp.DOWN: {"facecolor": SLATE},
}


def draw_timeline(
    ax: "Axes",
    trace: Trace,
    *,
    start: float = 0.0,
    stop: float | None = None,
    workers: Sequence[int] | None = None,
) -> "list[Artist]":
    """What each worker did when: one lane per worker, the first on top, against simulated time.

    Jobs that were cancelled, dropped, lost or crashed are hatched. What a trace does not show is not made up: a gap
    between two jobs is "idle or blocked" whatever its reason, and whether an uncommitted job was in transfer or waiting
    after computing stays open.

    Args:
        ax: Where to draw.
        trace: The trace.
        start: Left end, in seconds.
        stop: Right end, in seconds; by default after about eight jobs of a worker, or the end of the trace.
        workers: Which workers, from top to bottom; by default all, or the first 24 of more (then a remark says so).

    Returns:
        One artist for each kind of thing that occurs, named by its `get_label()`: rectangles of activities and faults
        (`get_paths()`, x in seconds), ticks of commits (`get_segments()`) and crosses of lost messages (`get_xdata()`).
        One text if the trace is empty.

    Raises:
        ValueError: If the window is empty or a worker does not exist.

    Example:
        >>> from matplotlib.figure import Figure
        >>> artists = draw_timeline(Figure().subplots(), Trace.from_commits([0, 1, 2, 0, 1, 2]))
        >>> [artist.get_label() for artist in artists]
        ['computing', 'commit']
        >>> len(artists[0].get_paths()), len(artists[1].get_segments())  # three jobs are in flight, one has just begun
        (8, 6)
    """
    start = require_not_negative("start", start, remedy=_SINCE)
    end = end_of_trace(trace)
    if end == 0:
        return [say(ax, "Nothing has happened yet: no timeline.")]
    lanes = _lanes(workers, trace.workers)
    if stop is None:
        stop = min(end, start + JOBS * sp.seconds_per_job(trace))
    stop = require_positive("stop", stop, remedy=_SINCE)
    if not start < min(stop, end):
        raise ValueError(
            f"`start` must be before `stop` and the end of the trace at {end:g} s; got {start:g} to {stop:g}."
        )
    window = start, min(stop, end)
    artists: list[Artist] = [
        *_draw_activities(ax, trace, lanes, *window),
        *_draw_commits(ax, trace, lanes, *window),
        *_draw_faults(ax, trace, lanes, *window),
    ]
    draw_legend_below(ax, artists)  # first, as it may make the panel lower
    _arrange(ax, lanes, start, stop)
    if workers is None and len(lanes) < trace.workers:
        remark(ax, f"workers 0 to {len(lanes) - 1} of {trace.workers:,}")
    return artists


def _lanes(workers: Sequence[int] | None, n: int) -> NDArray[np.int32]:
    """The worker of each lane."""
    if workers is None:
        return np.arange(min(n, MOST_LANES), dtype=np.int32)
    remedy = f"Workers are numbered from 0 to {n - 1}."
    numbers = [require_integer("workers", worker, least=0, remedy=remedy) for worker in workers]
    if not numbers or max(numbers) >= n or len(set(numbers)) < len(numbers):
        raise ValueError(f"`workers` must name different workers; got {numbers}. {remedy}")
    return np.array(numbers, np.int32)


def _draw_activities(
    ax: "Axes", trace: Trace, lanes: NDArray[np.int32], start: float, stop: float
) -> "list[PolyCollection]":
    found = sp.activities(trace, lanes, start, stop)
    return [
        _rectangles(ax, _place(lanes, found[name].worker), found[name].start, found[name].end, label=name, **look)
        for name, look in LOOKS.items()
        if len(found[name].worker)
    ]


def _draw_faults(ax: "Axes", trace: Trace, lanes: NDArray[np.int32], start: float, stop: float) -> "list[Artist]":
    """Faults other than workers that are down: pauses behind all lanes, slow spells below a lane, losses on it."""
    artists: list[Artist] = []
    pauses = sp.spells(trace, Fault.SERVER_PAUSE).within(start, stop)
    if len(pauses.start):
        middle, look = np.full(len(pauses.start), (len(lanes) - 1) / 2), {"facecolor": PINK, "alpha": 0.45}
        look |= {"height": float(len(lanes)), "zorder": 0.5, "label": "server pause"}
        artists.append(_rectangles(ax, middle, pauses.start, pauses.end, **look))
    slow = sp.spells(trace, Fault.SLOWDOWN).within(start, stop)
    slow = slow.rows(np.isin(slow.worker, lanes))
    if len(slow.start):
        below, look = _place(lanes, slow.worker) + HEIGHT / 2 + 0.08, {"height": 0.1, "facecolor": VERMILION}
        artists.append(_rectangles(ax, below, slow.start, slow.end, label="slowdown", **look))
    lost = sp.spells(trace, Fault.MESSAGE_LOST)
    lost = lost.rows(np.isin(lost.worker, lanes) & (lost.start >= start) & (lost.start <= stop))
    if len(lost.start):
        look = {"color": VERMILION, "markeredgewidth": 1.8, "zorder": 4, "label": "message lost"}
        artists += ax.plot(lost.start, _place(lanes, lost.worker), "x", **look)
    return artists


def _draw_commits(ax: "Axes", trace: Trace, lanes: NDArray[np.int32], start: float, stop: float) -> "list[Artist]":
    """Ticks: high and strong where a step closes, else short and thin."""
    from matplotlib.collections import LineCollection

    seen = np.isin(trace.worker, lanes) & (trace.commit_time >= start) & (trace.commit_time <= stop)
    closes = trace.closes_step
    strong = "commit" if closes.all() else "closing commit"
    artists: list[Artist] = []
    for name, which, half, width in (("commit", seen & ~closes, 0.3, 0.9), (strong, seen & closes, 0.44, 1.5)):
        if which.any():
            x, y = trace.commit_time[which], _place(lanes, trace.worker[which])
            ticks = np.stack([np.stack([x, y - half], axis=1), np.stack([x, y + half], axis=1)], axis=1)
            artists.append(LineCollection(list(ticks), colors=INK, linewidths=width, zorder=3, label=name))
            ax.add_collection(artists[-1], autolim=False)  # type: ignore[arg-type]
    return artists


def _rectangles(
    ax: "Axes", middle: NDArray[Any], start: NDArray[Any], end: NDArray[Any], height: float = HEIGHT, **look: Any
) -> "PolyCollection":
    from matplotlib.collections import PolyCollection

    low, high = middle - height / 2, middle + height / 2
    corners = np.stack([start, low, start, high, end, high, end, low], axis=1).reshape(-1, 4, 2)
    collection = PolyCollection(list(corners), **{"linewidth": 0, "zorder": 2, **look})
    ax.add_collection(collection, autolim=False)
    return collection


def _place(lanes: NDArray[np.int32], worker: NDArray[np.int32]) -> NDArray[np.intp]:
    """The lane of each of these workers."""
    order = np.argsort(lanes)
    return order[np.searchsorted(lanes, worker, sorter=order)]


def _arrange(ax: "Axes", lanes: NDArray[np.int32], start: float, stop: float) -> None:
    ax.set(xlim=(start, stop), ylim=(len(lanes) - 0.4, -0.6), xlabel="time, in seconds", ylabel="worker")
    room = max(1, int(size_in_points(ax)[1] / 12))  # labels, of 12 points each
    shown = np.arange(0, len(lanes), -(-len(lanes) // room))
    ax.set_yticks(shown, [str(lanes[place]) for place in shown])
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")
    ax.spines["left"].set_visible(False)
