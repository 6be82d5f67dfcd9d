"""The time of workers and stages: who computes, waits and commits when, faults, and shares of the whole."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asyncsim._checks import brief, require_integer, require_not_negative, require_positive
from asyncsim.cluster._pipeline import Timetable
from asyncsim.components._checked import checked
from asyncsim.costs import Cost
from asyncsim.plots._page import draw_legend_below, remark, say, size_in_points
from asyncsim.plots.style import (
    AMBER,
    BLUE,
    BROWN,
    INK,
    MIST,
    PALE_GREY,
    PALE_SKY,
    PALE_STEEL,
    PINK,
    SKY,
    SLATE,
    STEEL,
    VERMILION,
)
from asyncsim.trace import Fate, Fault, Trace
from asyncsim.trace._columns import end_of_trace, tick_of
from asyncsim.trace._spans import (
    COMMITTED,
    DOWN_FAULTS,
    Bools,
    JobSpans,
    Spans,
    find_jobs,
    gaps,
    joined,
    spells,
    union,
)
from asyncsim.trace._variables import is_on_graph

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.container import BarContainer
    from matplotlib.text import Text

COMPUTING, WASTED = "computing", "computing in vain"
NETWORK, SENT = "reading or sending", "sent, no commit"
WAITING, SERVICE = "waiting for the server", "in service"
IDLE, DOWN = "idle or blocked", "down"
MOST_LANES = 24
JOBS = 8  # of a worker, in a window without `stop`
HEIGHT = 0.72  # of a lane, whose distance to the next is 1
SECONDS_REMEDY = "Give seconds from the start of the run."

LOOKS: dict[str, dict[str, Any]] = {
    COMPUTING: {"facecolor": STEEL},
    WASTED: {"facecolor": PALE_STEEL, "edgecolor": STEEL, "hatch": "//////"},
    NETWORK: {"facecolor": MIST},
    SENT: {"facecolor": PALE_SKY, "edgecolor": MIST, "hatch": "......"},
    WAITING: {"facecolor": AMBER},
    SERVICE: {"facecolor": BROWN},
    IDLE: {"facecolor": PALE_GREY},
    DOWN: {"facecolor": SLATE},
}
MOST_NUMBERED = 60  # passes in which the number of the micro-batch can be read
MOST_APART = 60  # workers whose bars do not touch
PARTS: dict[str, dict[str, Any]] = {  # from the bottom to the top, in the colours of the timeline
    "compute": LOOKS[COMPUTING],
    "download": {"facecolor": MIST},
    "upload": {"facecolor": PALE_SKY, "edgecolor": MIST, "hatch": "......"},
    "queue": LOOKS[WAITING],
    "service": LOOKS[SERVICE],
    "waiting": LOOKS[IDLE],
    "down": LOOKS[DOWN],
}


def seconds_per_job(trace: Trace) -> float:
    """Return the mean seconds from one job of a worker to its next, over all workers and the whole trace."""
    ended = len(trace) + int(np.count_nonzero(trace.unfinished.fate != Fate.IN_FLIGHT))
    return end_of_trace(trace) * trace.workers / max(ended, 1)


def activities(trace: Trace, workers: NDArray[np.int32], start: float, stop: float) -> dict[str, Spans]:
    """Return the activities of workers between two times, as far as the trace shows."""
    end = end_of_trace(trace)
    stop = min(stop, end)
    jobs = _jobs(trace, workers, start, stop, end)

    # Stages are numbered in their order: read, compute, send, wait, service (see `JobSpans.stage`).
    def stage(number: int, which: Bools) -> Spans:
        return jobs.stage(number).rows(which).within(start, stop)

    # Computations in flight at the end are not wasted: they may still commit.
    every, committed, in_flight = np.full(len(jobs.worker), True), jobs.fate == COMMITTED, jobs.fate == Fate.IN_FLIGHT
    down = union(spells(trace, *DOWN_FAULTS).within(start, stop), workers, start, stop)
    # A worker that is down is not idle, although it has no job.
    busy = joined(jobs.whole.within(start, stop), down)
    return {
        IDLE: gaps(busy, workers, start, stop),
        NETWORK: joined(stage(0, every), stage(2, committed)),
        COMPUTING: stage(1, committed | in_flight),
        WASTED: stage(1, ~(committed | in_flight)),
        SENT: stage(2, ~committed),
        WAITING: stage(3, every),
        SERVICE: stage(4, every),
        DOWN: down,
    }


def _jobs(trace: Trace, workers: NDArray[np.int32], start: float, stop: float, end: float) -> JobSpans:
    """Return the jobs that touch the window."""
    done = np.isin(trace.worker, workers) & (trace.commit_time >= start) & (trace.begin_time <= stop)
    unfinished, last = trace.unfinished, np.minimum(trace.unfinished.end_time, end)
    ended = np.isin(unfinished.worker, workers) & (last >= start) & (unfinished.begin_time <= stop)
    return find_jobs(trace, end, done, ended)


@checked
def draw_timeline(
    ax: "Axes", trace: Trace, *, start: float = 0.0, stop: float | None = None, workers: Sequence[int] | None = None
) -> "list[Artist]":
    """Draw the activities of each worker against simulated time: one lane per worker, the first on top.

    Jobs that were cancelled, dropped, lost or crashed are hatched. A gap between two jobs is "idle or blocked" whatever
    its reason, since a trace does not show it. Lines between lanes are exchanges of workers on a graph.

    Args:
        ax: Where to draw.
        trace: The trace.
        start: Left end, in seconds.
        stop: Right end, in seconds, by default after about eight jobs of a worker, or the end of the trace.
        workers: Workers to draw, from top to bottom, by default all, or the first 24 of more (with a remark).

    Returns:
        One artist for each kind of thing that occurs, named by its `get_label()`, or one text if the trace is empty.

    Raises:
        ValueError: If the window is empty or a worker does not exist.

    Example:
        >>> from matplotlib.figure import Figure
        >>> artists = draw_timeline(Figure().subplots(), Trace.from_commits([0, 1, 2, 0, 1, 2]))
        >>> [artist.get_label() for artist in artists]
        ['computing', 'commit']
    """
    start = require_not_negative("start", start, remedy=SECONDS_REMEDY)
    end = end_of_trace(trace)
    if end == 0:
        return [say(ax, "Nothing has happened yet: no timeline.")]
    lanes = _lanes(workers, trace.workers)
    if stop is None:
        stop = min(end, start + JOBS * seconds_per_job(trace))
    stop = require_positive("stop", stop, remedy=SECONDS_REMEDY)
    if not start < min(stop, end):
        raise ValueError(
            f"`start` must be before `stop` and the end of the trace at {end:g} s; got {start:g} to {stop:g}."
        )
    window = start, min(stop, end)
    spans = activities(trace, lanes, *window)
    # Kinds without an interval get no artist, so the legend names only what occurs.
    artists: list[Artist] = [
        _rectangles(ax, _lane_of(lanes, spans[name].worker), spans[name].start, spans[name].end, label=name, **look)
        for name, look in LOOKS.items()
        if len(spans[name].worker)
    ]
    artists += _draw_commits(ax, trace, lanes, *window) + _draw_faults(ax, trace, lanes, *window)
    artists += _draw_exchanges(ax, trace, lanes, *window)
    draw_legend_below(ax, artists)  # first, as it may make the panel lower
    _arrange(ax, trace, lanes, start, stop)
    if workers is None and len(lanes) < trace.workers:
        remark(ax, f"workers 0 to {len(lanes) - 1} of {trace.workers:,}")
    return artists


def _lanes(workers: Sequence[int] | None, n: int) -> NDArray[np.int32]:
    """Return the worker of each lane."""
    if workers is None:
        return np.arange(min(n, MOST_LANES), dtype=np.int32)
    remedy = f"Workers are numbered from 0 to {n - 1}."
    numbers = [require_integer("workers", worker, remedy=remedy) for worker in workers]
    if not numbers or max(numbers) >= n or len(set(numbers)) < len(numbers):
        raise ValueError(f"`workers` must name different workers; got {brief(numbers)}. {remedy}")
    return np.array(numbers, np.int32)


def _draw_faults(ax: "Axes", trace: Trace, lanes: NDArray[np.int32], start: float, stop: float) -> "list[Artist]":
    """Draw faults other than workers that are down: pauses behind all lanes, slow spells below a lane, losses on it."""
    artists: list[Artist] = []
    pauses = spells(trace, Fault.SERVER_PAUSE).within(start, stop)
    if len(pauses.start):
        middle, look = np.full(len(pauses.start), (len(lanes) - 1) / 2), {"facecolor": PINK, "alpha": 0.45}
        look |= {"height": float(len(lanes)), "zorder": 0.5, "label": "server pause"}
        artists.append(_rectangles(ax, middle, pauses.start, pauses.end, **look))
    slow = spells(trace, Fault.SLOWDOWN).within(start, stop)
    slow = slow.rows(np.isin(slow.worker, lanes))
    if len(slow.start):
        below, look = _lane_of(lanes, slow.worker) + HEIGHT / 2 + 0.08, {"height": 0.1, "facecolor": VERMILION}
        artists.append(_rectangles(ax, below, slow.start, slow.end, label="slowdown", **look))
    lost = spells(trace, Fault.MESSAGE_LOST)
    lost = lost.rows(np.isin(lost.worker, lanes) & (lost.start >= start) & (lost.start <= stop))
    if len(lost.start):
        look = {"color": VERMILION, "markeredgewidth": 1.8, "zorder": 4, "label": "message lost"}
        artists += ax.plot(lost.start, _lane_of(lanes, lost.worker), "x", **look)
    return artists


def _draw_commits(ax: "Axes", trace: Trace, lanes: NDArray[np.int32], start: float, stop: float) -> "list[Artist]":
    """Draw commits as ticks: high and strong where a step closes, else short and thin."""
    visible = np.isin(trace.worker, lanes) & (trace.commit_time >= start) & (trace.commit_time <= stop)
    closes = trace.closes_step
    strong = "commit" if closes.all() else "closing commit"
    artists: list[Artist] = []
    for name, which, half, width in (("commit", visible & ~closes, 0.3, 0.9), (strong, visible & closes, 0.44, 1.5)):
        if which.any():
            x, y = trace.commit_time[which], _lane_of(lanes, trace.worker[which])
            artists.append(ax.vlines(x, y - half, y + half, colors=INK, linewidths=width, zorder=3, label=name))
    return artists


def _draw_exchanges(ax: "Axes", trace: Trace, lanes: NDArray[np.int32], start: float, stop: float) -> "list[Artist]":
    """Draw a line between the lanes of workers whose variables are mixed, from the first to the last of one event."""
    mixings = trace.mixings
    apart = (mixings.source != mixings.target) & (mixings.time >= start) & (mixings.time <= stop)
    both = np.stack([mixings.source[apart], mixings.target[apart]], axis=1)
    visible = np.isin(both, lanes).all(axis=1)
    if not visible.any() or not is_on_graph(trace):
        return []
    ends = _lane_of(lanes, both[visible].ravel()).reshape(-1, 2)
    _, first = np.unique(mixings.event[apart][visible], return_index=True)
    # A mixing of many workers has one row for each pair, all with one event: one line from its first to its last lane.
    low, high = np.minimum.reduceat(ends.min(1), first), np.maximum.reduceat(ends.max(1), first)
    look = {"colors": VERMILION, "linewidths": 0.9, "alpha": 0.8, "zorder": 3.5, "label": "exchange"}
    return [ax.vlines(mixings.time[apart][visible][first], low, high, **look)]


def _rectangles(
    ax: "Axes", middle: NDArray[Any], start: NDArray[Any], end: NDArray[Any], height: float = HEIGHT, **look: Any
) -> "PolyCollection":
    from matplotlib.collections import PolyCollection

    low, high = middle - height / 2, middle + height / 2
    corners = np.stack([start, low, start, high, end, high, end, low], axis=1).reshape(-1, 4, 2)
    collection = PolyCollection(list(corners), **{"linewidth": 0, "zorder": 2, **look})
    ax.add_collection(collection, autolim=False)
    return collection


def _lane_of(lanes: NDArray[np.int32], worker: NDArray[np.int32]) -> NDArray[np.intp]:
    """Return the lane of each of these workers."""
    order = np.argsort(lanes)
    return order[np.searchsorted(lanes, worker, sorter=order)]


def _arrange(ax: "Axes", trace: Trace, lanes: NDArray[np.int32], start: float, stop: float) -> None:
    ax.set(xlim=(start, stop), ylim=(len(lanes) - 0.4, -0.6), xlabel="time, in seconds", ylabel="worker")
    room = max(1, int(size_in_points(ax)[1] / 12))  # labels, of 12 points each
    labelled = np.arange(0, len(lanes), -(-len(lanes) // room))
    ax.set_yticks(labelled, [tick_of(trace, lanes[lane]) for lane in labelled], parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False, axis="y")
    ax.spines["left"].set_visible(False)


@checked
def draw_timetable(ax: "Axes", timetable: Timetable) -> "list[Artist]":
    """Draw every forward and backward pass as a bar in the lane of its stage, the first stage on top.

    Few passes carry the number of their micro-batch. Where a stage computes two passes at once, they share its lane:
    forward passes in the upper half, backward passes in the lower.

    Args:
        ax: Where to draw.
        timetable: Timetable of an `asyncsim.Pipeline`.

    Example:
        >>> import asyncsim as asim
        >>> from matplotlib.figure import Figure
        >>> pipeline = asim.Pipeline(stages=3, forward=asim.delays.Constant(1.0))
        >>> bars = draw_timetable(Figure().subplots(), pipeline.timetable(5))
        >>> [(artist.get_label(), len(artist.get_paths())) for artist in bars]
        [('forward', 15), ('backward', 15)]
    """
    stages = timetable.forward_start.shape[1]
    starts = np.concatenate([timetable.forward_start, timetable.backward_start])
    ends = np.concatenate([timetable.forward_end, timetable.backward_end])
    order = np.lexsort((ends, starts), axis=0)
    starts, ends = (np.take_along_axis(times, order, axis=0) for times in (starts, ends))
    half = HEIGHT / 2 if (starts[1:] < ends[:-1]).any() else 0.0  # two passes at once
    kinds = (
        ("forward", timetable.forward_start, timetable.forward_end, SKY, INK, (-HEIGHT / 2, HEIGHT / 2 - half)),
        ("backward", timetable.backward_start, timetable.backward_end, BLUE, "white", (half - HEIGHT / 2, HEIGHT / 2)),
    )
    artists: list[Artist] = []
    for name, start, end, color, ink, (top, bottom) in kinds:
        lane = np.broadcast_to(np.arange(stages), start.shape)
        look = {"facecolor": color, "edgecolor": "white", "linewidth": 0.8, "zorder": 1, "label": name}
        middle = (lane + (top + bottom) / 2).ravel()
        artists.append(_rectangles(ax, middle, start.ravel(), end.ravel(), height=bottom - top, **look))
        if start.size <= MOST_NUMBERED:
            for (m, s), x in np.ndenumerate((start + end) / 2):
                ax.text(x, s + (top + bottom) / 2, str(m), ha="center", va="center", color=ink, fontsize="x-small")
    ax.set(xlim=(0, timetable.seconds or 1.0), ylim=(stages - 0.5, -0.5), xlabel="seconds", ylabel="stage")
    ax.set_yticks(range(stages))
    return artists


@checked
def draw_time_budget(ax: "Axes", cost: Cost) -> "list[BarContainer] | list[Text]":
    """Draw the time of each worker, in parts that sum to the whole: one stacked bar for each worker.

    Args:
        ax: Where to draw.
        cost: The cost of a run, as `asyncsim.cost` returns it.

    Returns:
        The bars of each part that occurs, from the bottom to the top, or one text if no time passed.

    Example:
        >>> import asyncsim as asim
        >>> from matplotlib.figure import Figure
        >>> server = asim.Server(service=asim.delays.Constant(0.5))
        >>> trace = asim.simulate(asim.Cluster(4, asim.delays.Constant(1.0), server=server), commits=40)
        >>> bars = draw_time_budget(Figure().subplots(), asim.cost(trace, message_bytes=0, parameter_bytes=0))
        >>> [bar.get_label() for bar in bars]
        ['compute', 'queue', 'service']
    """
    if not cost.duration:
        return [say(ax, "Nothing has happened yet: no time was spent.")]  # type: ignore[list-item]
    worker, base = np.arange(cost.workers), np.zeros(cost.workers)
    width = 0.8 if cost.workers <= MOST_APART else 1.0
    drawn = []
    for name, look in PARTS.items():
        share = cost.seconds[name] / cost.duration
        if share.any():
            drawn.append(ax.bar(worker, share, width, bottom=base, label=name, **{"linewidth": 0, **look}))
            base = base + share
    ax.set(xlabel="worker", ylabel="share of the time", xlim=(-0.6, cost.workers - 0.4), ylim=(0, 1))
    ax.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[attr-defined]
    ax.grid(visible=False, axis="x")
    draw_legend_below(ax, drawn)
    return drawn
