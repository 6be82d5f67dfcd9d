"""A movie of a trace and of some rules' replays of it: as a page, a GIF, an MP4, or in a notebook."""

import html
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from asyncsim import _checks as checks
from asyncsim._metrics import counted
from asyncsim.animation import _page as page
from asyncsim.animation._chapters import Chapter, chosen_chapters, make_chapters
from asyncsim.animation._film import Film, make_film
from asyncsim.animation._graph import distances_of
from asyncsim.animation._paths import Path, Plane, losses, make_path, make_plane
from asyncsim.animation._states import State, States
from asyncsim.components._checked import checked
from asyncsim.engine import Run
from asyncsim.files._atomic import atomic_write
from asyncsim.plots.style import PALETTE, rule_colors
from asyncsim.trace import Trace

VIEWS = ("landscape", "gravity")
WRITERS = ("html", "gif", "mp4")  # methods of a movie, and the suffixes of their files
FRAME_HEIGHT = 560  # pixels of the notebook's frame
GIF_SECONDS, GIF_RATE = 9.0, 12.0


@dataclass(frozen=True, eq=False, repr=False)
class Movie:
    """A movie, as `animate` returns it. A notebook shows it.

    Attributes:
        view: "landscape" or "gravity".
        states: The film, and the runs' paths through the plane.
        names: Names of the runs.
        curves: Name of the run -> (commits of the window, loss after each), for the small curve.
        curve: Name of the loss in the small curve.
        plane: The plane of the landscape, or None.
        law: (size,) predicted P(τ = k), or None.
        title, subtitle: Plain text.
        chapters: Times with a sentence each, in their order.
    """

    view: str
    states: States
    names: tuple[str, ...]
    curves: Mapping[str, tuple[Any, Any]]
    curve: str
    plane: Plane | None
    law: np.ndarray | None
    title: str
    subtitle: str = ""
    chapters: tuple[Chapter, ...] = ()

    def at(self, seconds: float) -> State:
        """Return the state at a time, in seconds, as page, GIF and MP4 show it."""
        return self.states.at(seconds)

    def __repr__(self) -> str:
        first, last = self.states.film.seconds
        runs = f" of {', '.join(self.names)}" if self.names else ""
        return f"Movie({self.view}{runs}, {counted(self.states.film.workers, 'worker')}, {first:g} to {last:g} s)"

    def page(self) -> str:
        """Return the page as text. With `?t=12` in its address, it opens at 12 s and writes its state there."""
        return page.fill("movie", {"title": self.title, "subtitle": self.subtitle}, self._parts())

    def html(self, path: str | os.PathLike[str]) -> None:
        """Write the page: one file that needs nothing else.

        Raises:
            ValueError: If the file's name ends as that of another kind of file.
            OSError: If the file cannot be written. An existing file stays whole.
        """
        _require_suffix(path, "html", "htm")
        text = self.page()
        atomic_write(path, lambda file: file.write(text.encode()))

    def gif(
        self,
        path: str | os.PathLike[str],
        *,
        seconds: float = GIF_SECONDS,
        rate: float = GIF_RATE,
        size: tuple[int, int] | None = None,
    ) -> None:
        """Write the same states as an animated GIF that repeats.

        Args:
            path: The file.
            seconds: Length of the movie, in seconds.
            rate: Frames per second.
            size: Width and height in pixels, by default according to the number of panels.

        Raises:
            ValueError: If an argument is not positive, or the file's name ends as that of another kind of file.
            OSError: If the file cannot be written. An existing file stays whole.
        """
        from asyncsim.animation._frames import write_gif

        _require_suffix(path, "gif")
        write_gif(path, self, *_length(seconds, rate), size)

    def mp4(
        self,
        path: str | os.PathLike[str],
        *,
        seconds: float = 2 * GIF_SECONDS,
        rate: float = 2 * GIF_RATE,
        size: tuple[int, int] | None = None,
    ) -> None:
        """Write the same states as MP4, by ffmpeg.

        Args:
            path, seconds, rate, size: As for `gif`.

        Raises:
            ValueError: If an argument is not positive, there is no ffmpeg, or the file's name ends as that of another
                kind of file.
            OSError: If the file cannot be written. An existing file stays whole.
        """
        from asyncsim.animation._frames import write_mp4

        _require_suffix(path, "mp4")
        if shutil.which("ffmpeg") is None:
            raise ValueError("`mp4` needs the program ffmpeg, which is not on the path. Install it, or take `gif`.")
        write_mp4(path, self, *_length(seconds, rate), size)

    def _repr_html_(self) -> str:
        """Return the page in an isolated frame, for notebooks."""
        inside = html.escape(self.page(), quote=True)
        look = f'width="100%" height="{FRAME_HEIGHT}" style="border: 0" sandbox="allow-scripts"'
        return f'<iframe {look} title="{html.escape(self.title)}" srcdoc="{inside}"></iframe>'

    def _parts(self) -> dict[str, Any]:
        runs = []
        for name, color in zip(self.names, rule_colors(self.names), strict=True):
            commits, values = self.curves[name]
            curve = [np.asarray(commits), page.digits(values, page.LOSS_DIGITS)]
            way = page.path_part(self.states.paths[name]) if name in self.states.paths else {}
            runs.append({"name": name, "color": PALETTE.index(color), "curve": curve, **way})
        law = None if self.law is None else page.digits(np.round(self.law, 7), page.LAW_DIGITS)
        plane = None if self.plane is None else page.plane_part(self.plane)
        texts = [[chapter.seconds, chapter.text, chapter.worker] for chapter in self.chapters]
        rest = {"view": self.view, "runs": runs, "chapters": texts, "lossName": self.curve, "plane": plane, "law": law}
        return {**page.events(self.states.film), **rest}


@checked
def animate(
    trace: Trace,
    run: Run | Mapping[str, Run] | None = None,
    *,
    view: str | None = None,
    start: float = 0.0,
    stop: float | None = None,
    directions: Any = None,
    window: Sequence[Sequence[float]] | None = None,
    predicted: ArrayLike | None = None,
    chapters: Mapping[float, str] | None = None,
    title: str | None = None,
    subtitle: str = "",
) -> Movie:
    """Animate asynchronous SGD: each worker's copy, the messages under way, their effect and their staleness.

    In the view "landscape", each worker is a dot at the parameters that it read, and the line from there to the central
    variable is its staleness. It needs two parameters, or a plane of two directions among many. In the view "gravity",
    for any model or for none, workers are masses that drift away from the server as they grow stale and fall back as
    they read, and messages are edges. Both views also show every worker's staleness, its histogram over all commits,
    and the losses. Choose a worker, and you see the path of the central variable since its read and, if the run
    recorded `mechanism`, its gradient and how the rule shortens it. A job that never commits (cancelled, or unfinished
    at the end) is shown at the central variable that it read. A run that diverged is shown until then, with a note.

    Workers on a graph (`asyncsim.Gossip`) have fixed places: a ring on a circle, a star around its centre, a torus on
    a grid, and other graphs where springs along their edges pull them. Exchanges light up their edges, and draw both
    ends together for a moment. Messages that take time move along the edges. Colours are staleness. If the run recorded
    `central` at every commit, the size of a worker is the distance of its model from their mean.

    The workers of an `asyncsim.Hierarchy` stand around their region's server, and these servers around the global one,
    which carries its version: the farther, the longer their messages take. Commits, pushes and the answers that a
    region merges light up their edges.

    Args:
        trace: The schedule.
        run: Its replay, or name -> replay for several rules on this one schedule, in synchronised panels. For a
            landscape, replay with ``record=("central", "read")``.
        view: "landscape" or "gravity", by default a landscape if the model has two parameters and both were recorded.
        start: First second.
        stop: Last second, by default that of the last commit. A movie holds at most 20,000 commits.
        directions: The plane of a landscape of a larger model: two rows with one number for each parameter, or
            "principal" for the first two principal components of the first run's central variable.
        window: ((x0, x1), (y0, y1)), the part of the plane that is shown, by default chosen from the runs.
        predicted: (size,) P(τ = k), drawn over the histogram of staleness.
        chapters: Seconds -> one sentence, for the buttons below the slider, by default sentences about the first
            commit, the longest queue, the oldest gradient, failures, and where a rule shortens an update to nothing.
        title: Title, above the panels.
        subtitle: Second line, below the title.

    Returns:
        A `Movie`, with `html(path)`, `gif(path)` and `mp4(path)`. A notebook shows it.

    Raises:
        ValueError: If no time passes in the trace, it has too many commits, it is not that of a run, a landscape lacks
            a run or its records, or an argument does not fit.

    Example:
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=4, compute=asim.delays.Gamma(mean=1.0, cv=0.3))
        >>> trace, workload = asim.simulate(cluster, commits=40), asim.workloads.Surface("booth", start=(9.0, 9.0))
        >>> run = asim.replay(trace, asim.rules.Downpour(0.01), workload, record=("central", "read"))
        >>> movie = asim.animate(trace, run)
        >>> movie
        Movie(landscape of downpour, 4 workers, 0 to 11.35 s)
        >>> state = movie.at(5.0)
        >>> state.version, state.stale.tolist(), state.stalest
        (17, [5, 2, 0, 1], 0)
    """
    if not isinstance(trace, Trace):
        raise ValueError(f"`trace` must be an asyncsim.Trace; got {type(trace).__name__}. Give result.trace, say.")
    runs = _named(run)
    film = make_film(trace, start, stop)
    for replay in runs.values():
        replay.plan(trace)
    if film.graph is not None:
        film = _on_graph(film, trace, runs, view)
        view = "gravity"
    view = _view(view, runs)
    paths: dict[str, Path] = {}
    plane = None
    if view == "landscape":
        plane = make_plane(runs, directions, window)
        paths = {name: make_path(name, film, trace, replay, plane) for name, replay in runs.items()}
    elif directions is not None or window is not None:
        argument = "directions" if directions is not None else "window"
        raise ValueError(f"`{argument}` is for view='landscape'; this movie's view is {view!r}. Leave it out.")
    curves = {name: losses(film, replay, paths.get(name)) for name, replay in runs.items()}
    states = States(film, paths)
    return Movie(
        view=view,
        states=states,
        names=tuple(runs),
        curves={name: (commits, values) for name, (commits, values, _) in curves.items()},
        curve=next((name for _, _, name in curves.values()), ""),
        plane=plane,
        law=None if predicted is None else np.asarray(predicted, float),
        chapters=tuple(make_chapters(states) if chapters is None else chosen_chapters(chapters, states)),
        title=_title(trace, runs) if title is None else title,
        subtitle=subtitle,
    )


def _on_graph(film: Film, trace: Trace, runs: Mapping[str, Run], view: str | None) -> Film:
    """Return the film with the distances between models, if the first run recorded enough to know them."""
    if view == "landscape":
        raise ValueError(
            "`view` 'landscape' is for one central variable; the workers of this trace, or its regions, have one each. "
            "Choose view='gravity', which draws their graph."
        )
    assert film.graph is not None
    if film.graph.regions:
        return film
    distances = next((distances_of(trace, replay, film.row, film.commits) for replay in runs.values()), None)
    if distances is None:
        return film
    return replace(film, graph=replace(film.graph, distance_at=distances[0], distance=distances[1]))


def _named(run: Run | Mapping[str, Run] | None) -> dict[str, Run]:
    if run is None:
        return {}
    if isinstance(run, Run):
        run.require_scenario()
        run = {run.rule.name: run}
    runs = run
    if not isinstance(runs, Mapping) or not runs or not all(isinstance(replay, Run) for replay in runs.values()):
        raise ValueError(f"`run` must be a run, or name -> run; got {checks.brief(run)}. Give asim.replay(trace, …).")
    for name, replay in runs.items():
        if replay.several:
            raise ValueError(
                f"`run` {name!r} has {len(replay.divergences)} seeds; a movie shows one. Replay one of them."
            )
        if not replay.commits:
            raise ValueError(f"`run` {name!r} has no commits, so that nothing moves. Replay some.")
    return {str(name): replay for name, replay in runs.items()}


def _view(view: str | None, runs: Mapping[str, Run]) -> str:
    if view is not None and checks.require_one_of("view", view, choices=VIEWS) == "landscape" and not runs:
        raise ValueError("`run` must be given for view='landscape', which shows the central variable; got None.")
    recorded = all({"central", "read"} <= replay.records.keys() for replay in runs.values())
    few = all(sum(leaf.size for leaf in jax.tree.leaves(replay.central)) == 2 for replay in runs.values())
    return view or ("landscape" if runs and recorded and few else "gravity")


def _title(trace: Trace, runs: Mapping[str, Run]) -> str:
    if not runs:
        regions = f"in {counted(trace.variables - 1, 'region')}"
        where = "asynchronously" if trace.variables == 1 else "on a graph" if trace.pushes_from is None else regions
        return f"{counted(trace.computing, 'worker')}, {where}"
    workload = next(iter(runs.values())).workload
    task = getattr(workload, "landscape", workload.name)
    name, workers = getattr(task, "__qualname__", task), counted(trace.computing, "worker")
    return f"{' beside '.join(runs)} on {name}, {workers}, one schedule"


def _require_suffix(path: str | os.PathLike[str], kind: str, *also: str) -> None:
    """Refuse a name that promises another kind of file."""
    suffix = os.path.splitext(path)[1].lower().removeprefix(".")
    if suffix and suffix not in (kind, *also):
        others = [suffix] if suffix in WRITERS else [writer for writer in WRITERS if writer != kind]
        remedy = f"Call {' or '.join(f'`.{writer}(…)`' for writer in others)} for another kind of file."
        raise ValueError(f"`path` must end in .{kind} for `.{kind}(…)`; got {os.fspath(path)!r}. {remedy}")


def _length(seconds: float, rate: float) -> tuple[int, float]:
    """Return the number of frames, and the number per second."""
    lasts = checks.require_positive("seconds", seconds, remedy="Give the length of the picture, 9 say.")
    per_second = checks.require_positive("rate", rate, remedy="Give frames per second, 12 say.")
    return max(2, round(lasts * per_second)), per_second
