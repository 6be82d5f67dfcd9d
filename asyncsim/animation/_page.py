"""Movies, reports and the explorable as one page each: self-contained, nothing from outside, and no library."""

import base64
import hashlib
import html
import json
import re
import zlib
from importlib import resources
from typing import Any

import numpy as np

from asyncsim.animation._film import Film
from asyncsim.animation._graph import GraphFilm
from asyncsim.animation._mechanism import Mechanism
from asyncsim.animation._paths import UNITS, Path, Plane
from asyncsim.files._json import to_plain

LOSS_DIGITS, LAW_DIGITS, PI_DIGITS = 3, 5, 3
WATCHED = 45.0  # seconds in which the whole film is shown, where that is neither too slow nor too fast to follow
JOBS_PER_SECOND = (0.25, 2.0)  # of a worker, at the speed that a page starts with
EXPLORE_TITLE = "How stale may a gradient be?"
EXPLORE_SUBTITLE = "Drag a slider, and the simulated cluster answers at once."
COMMENT = re.compile(r"^\s*//.*\n| // .*$", re.MULTILINE)
INDENT = re.compile(r"^\s+", re.MULTILINE)
SPACED = re.compile(r"""("[^"\n]*"|`[^`]*`)| *([][{}(),;:=<>?*&|]+) *""")  # a text, or signs without spaces
JOINED = re.compile(r"(?<=[;{,(])\n")  # the end of a line that goes on, or of a statement with its semicolon


def fill(name: str, words: dict[str, str], film: dict[str, Any] | None, shared: str = "common") -> str:
    """Fill the page name.html with name.css, name.js and the parts that all pages share."""
    page = _source(f"{name}.html")
    style = _source("common.css") + _source(f"{name}.css")
    graph = ("graph",) if name == "movie" and film is not None and "graph" in film else ()
    script = "".join(_source(f"{part}.js") for part in ("theme", shared, *graph, name))
    style, script = INDENT.sub("", style), INDENT.sub("", COMMENT.sub("", script))
    script = JOINED.sub("", SPACED.sub(lambda match: match[1] or match[2], script))
    text = json.dumps(to_plain(film), separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    parts = {
        **{key: html.escape(value) for key, value in words.items()},
        "style": style,
        "script": script,
        "style_hash": f"'sha256-{_hash(style)}'",
        "script_hash": f"'sha256-{_hash(script)}'",
        "film": base64.b64encode(zlib.compress(text.encode(), 9)).decode(),
    }
    return re.sub(r"{{(\w+)}}", lambda match: parts[match[1]], page)  # in one pass: a title may look like a placeholder


def make_explorable() -> str:
    """Return the page as text: self-contained, and without any request to a network."""
    return fill("explore", {"title": EXPLORE_TITLE, "subtitle": EXPLORE_SUBTITLE}, None, shared="explore_core")


def events(film: Film) -> dict[str, Any]:
    """Return a film as short whole numbers: times as differences, and constant columns as one number."""
    jobs, m = film.jobs, film.committing
    ends = jobs.end[:m]
    begin, start, finish, end = (getattr(jobs, name)[m:] for name in ("begin", "start", "finish", "end"))
    done = {
        "worker": jobs.worker[:m].tolist(),
        "closes": _column(jobs.closes[:m].astype(int)),
        "stale": _column(film.staleness),
        "end": _column(np.diff(ends, prepend=0.0)),
        "serve": _column(ends - jobs.serve[:m]),
        "arrive": _column(jobs.serve[:m] - jobs.arrive[:m]),
        "finish": _column(jobs.arrive[:m] - jobs.finish[:m]),
        "start": _column(jobs.finish[:m] - jobs.start[:m]),
        "begin": _column(jobs.start[:m] - jobs.begin[:m]),
    }
    rest = {
        "worker": jobs.worker[m:].tolist(),
        "read": jobs.read[m:].tolist(),
        "begin": _column(begin),
        "start": _column(_lasted(begin, start)),
        "finish": _column(_lasted(start, finish)),
        "end": _column(_lasted(finish, end)),
    }
    until = np.minimum(jobs.end, film.stop)
    last = np.searchsorted(jobs.end[: film.commits], until, side="right")
    versions = film.version + film.closed[last]
    if film.graph is not None:
        done["read"] = jobs.read[:m].tolist()
        versions = film.graph.versions(film.stop)[jobs.worker]
    live = (versions - jobs.read)[film.commits :]  # of those that do not commit in the window
    job = film.typical / film.per_second
    slowest, fastest = (jobs * job for jobs in JOBS_PER_SECOND)
    first, last = film.seconds
    names = ("workers", "per_second", "start", "stop", "row", "version", "commits", "typical")
    return {
        **{name: getattr(film, name) for name in names},
        "jobs": done,
        "rest": rest,
        "down": film.down.tolist(),
        "peak": int(live.max(initial=1)),
        "speed": float(f"{min(max((last - first) / WATCHED, slowest), fastest):.2g}"),
        **({"names": [film.who(worker) for worker in range(film.workers)]} if film.names else {}),
        **({} if film.graph is None else {"graph": _graph_part(film.graph)}),
    }


def _graph_part(graph: GraphFilm) -> dict[str, Any]:
    """Return a graph for the page: times as differences, and the distances as whole hundredths."""
    return {
        "places": np.round(graph.places, 9),
        "edges": graph.edges,
        "senders": [pairs.tolist() for pairs in graph.senders],
        "kind": _column(graph.kind),
        "lasted": _column(graph.last - graph.first),
        "last": np.diff(graph.last, prepend=0.0).astype(np.int64),
        **({"variable": graph.variable, "regions": graph.regions} if graph.regions else {}),
        "base": graph.base,
        "changes": [np.diff(ticks, prepend=0.0).astype(np.int64) for ticks in graph.changes],
        "distanceAt": graph.distance_at,
        "distance": np.round(100 * graph.distance).astype(np.int64),
    }


def plane_part(plane: Plane) -> dict[str, Any]:
    """Return a plane for the page."""
    window = [plane.low[0], plane.high[0], plane.low[1], plane.high[1]]
    units = [plane.round(np.array(minimum)).astype(int).tolist() for minimum in plane.minima]
    part: dict[str, Any] = {"window": window, "minima": units, "names": plane.names}
    if plane.heights is None:
        return part
    return {**part, "side": len(plane.heights), "slopes": np.diff(plane.heights.ravel(), prepend=0)}


def path_part(path: Path) -> dict[str, Any]:
    """Return a run's path through the plane for the page: differences, in whole units."""
    steps = np.diff(path.units, axis=0, prepend=0.0).astype(int).T
    part: dict[str, Any] = {"path": steps, "diverged": path.diverged_at}
    if path.offsets is not None:
        part["offsets"] = [_ints(axis) for axis in path.offsets.T]
    if path.mechanism is not None:
        part["mechanism"] = _mechanism_part(path.mechanism, path.plane)
    return part


def _mechanism_part(mechanism: Mechanism, plane: Plane) -> dict[str, Any]:
    """Return vectors and points in whole units, and π with three digits."""
    vectors = {"update": mechanism.update, "proxy": mechanism.proxy}
    span = (plane.high - plane.low) / UNITS
    scaled = {name: v if v is None else [_ints(axis) for axis in np.round(v / span).T] for name, v in vectors.items()}
    since = [_ints(axis) for axis in plane.round(plane.project(mechanism.since)).T]
    pi = mechanism.pi
    if pi is not None:
        pi = [[value if np.isfinite(value) else None for value in digits(axis, PI_DIGITS)] for axis in pi.T]
    return {**scaled, "since": since, "pi": pi, "clamped": mechanism.clamped}


def digits(values: Any, count: int) -> list[float]:
    """Round numbers to some significant digits."""
    return [float(f"{value:.{count}g}") for value in np.asarray(values, float)]


def _source(name: str) -> str:
    return resources.files("asyncsim.animation").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _lasted(first: Any, last: Any) -> Any:
    """Return the ticks from one time to another, or infinity where the other never comes."""
    return np.where(np.isfinite(last), last - np.where(np.isfinite(first), first, 0.0), np.inf)


def _column(values: Any) -> Any:
    """Return a column as whole numbers, null for events that never happen, and one number if all are equal."""
    plain = _ints(values)
    return plain[0] if plain and all(value == plain[0] for value in plain) and plain[0] is not None else plain


def _ints(values: Any) -> list[int | None]:
    return [int(value) if np.isfinite(value) else None for value in np.asarray(values, float)]
