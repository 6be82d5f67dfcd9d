"""The interactive report of a run: one page with its curves, its timeline, its staleness and its tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from asyncsim._metrics import counted
from asyncsim.animation import _page as page
from asyncsim.animation._film import make_film
from asyncsim.engine import Run
from asyncsim.engine._quantities import CONSENSUS
from asyncsim.plots._report import PER_WORKER, smoothed
from asyncsim.plots._staleness import unit_of
from asyncsim.trace import Trace
from asyncsim.trace._statistics import total_variation
from asyncsim.trace._variables import is_on_graph

MOST_POINTS = 600  # of a curve
MOST_COMMITS = 200_000  # in a timeline: a page of about 2 MB
MOST_SHARES = 240  # values of staleness, where larger ones count as the last
WORDS = {
    "loss": "The mini-batch loss of every commit, as a running mean, falls if the rule learns.",
    "energy": "The energy is the squared motion between a read and its commit; far above the proxy's, that of momentum "
    "SGD on one machine, the workers push too hard.",
    "pi": "The rule multiplies each update by π, which is below 1 if others have already moved the parameters.",
    "staleness": "The staleness is the number of steps that the server made between a gradient's read and its commit; "
    "without waiting, its mean is close to n − 1.",
    "graph": "The staleness is the number of changes of a worker's own model by others between a gradient's read and "
    "its commit; if each commit averages with one neighbour, its mean is 1.",
    "consensus": "The models of all workers differ by their own gradients, and exchanges bring them together.",
}
Rows = Sequence[tuple[str, str]]


def report_page(
    trace: Trace,
    run: Run,
    title: str,
    subtitle: str = "",
    *,
    predicted: ArrayLike | None = None,
    tables: Mapping[str, Rows] | None = None,
) -> str:
    """Return the report of a run as a self-contained page."""
    if run.several or not run.commits:
        what = counted(len(run.divergences), "seed") if run.several else "no commits"
        raise ValueError(f"`run` must be of one seed, with commits; this one has {what}. Replay with seed=0.")
    run.plan(trace)
    stop = float(trace.commit_time[MOST_COMMITS - 1]) if len(trace) > MOST_COMMITS else None
    remark = "" if stop is None else f"The timeline shows the first {MOST_COMMITS:,} of {len(trace):,} commits."
    film = make_film(trace, stop=stop, most=MOST_COMMITS)
    parts = {
        **page.events(film),
        "runs": [],
        "panels": [_loss(run), _energies(run), _consensus(run) or _pi(run)],
        "staleness": _staleness(trace, predicted),
        "tables": [{"title": name, "rows": [list(row) for row in rows]} for name, rows in (tables or {}).items()],
        "remark": remark,
    }
    return page.fill("report", {"title": title, "subtitle": subtitle}, parts)


def _loss(run: Run) -> dict[str, Any]:
    remark = "" if run.diverged_at is None else f"diverged at commit {run.diverged_at:,}"
    line = _line("training loss", run, run.loss, np.arange(run.commits))
    return _panel("Training loss", "loss", [line], remark)


def _energies(run: Run) -> dict[str, Any]:
    names = {"energy_central": "central variable", "energy_proxy": "proxy"}
    lines = [
        {**_line(label, run, run.records[name], run.recorded_at[name]), "color": color}
        for color, (name, label) in enumerate(names.items())
        if len(run.recorded_at.get(name, ()))
    ]
    return _panel("Kinetic energy", "energy", lines, "" if lines else "No energies were recorded.")


def _pi(run: Run) -> dict[str, Any]:
    at = run.recorded_at.get("pi_median", np.zeros(0, np.int64))
    lines = [{**_line("median of π", run, run.records["pi_median"], at), "color": 2}] if len(at) else []
    remark = "" if lines else "No π in this run: its rule scales nothing, or it was not recorded."
    return _panel("Scaling π of the updates", "pi", lines, remark, log=False)


def _consensus(run: Run) -> dict[str, Any] | None:
    """Return how far the models of workers on a graph are apart, if it was recorded."""
    at = run.recorded_at.get(CONSENSUS, np.zeros(0, np.int64))
    if not len(at):
        return None
    values = page.digits(run.records[CONSENSUS], 4)
    line = {"name": "(1/n) Σ |x_i − x̄|²", "x": page.digits((at + 1) / run.workers, 5), "y": values, "color": 2}
    return _panel("Distance of the models from their mean", "consensus", [line], "")


def _panel(title: str, kind: str, lines: list[dict[str, Any]], remark: str, *, log: bool = True) -> dict[str, Any]:
    return {"title": title, "x": PER_WORKER, "log": log, "lines": lines, "words": WORDS[kind], "remark": remark}


def _line(name: str, run: Run, values: Any, at: np.ndarray) -> dict[str, Any]:
    """Return the running mean that report.png draws, at some of its points."""
    rows, means = smoothed(run, values, at, MOST_POINTS)
    return {"name": name, "x": page.digits((at[rows] + 1) / run.workers, 5), "y": page.digits(means, 4)}


def _staleness(trace: Trace, predicted: ArrayLike | None) -> dict[str, Any]:
    law = None if predicted is None else np.asarray(predicted, float)
    size = min(int(trace.staleness.max()) + 1, MOST_SHARES)
    shares = np.bincount(np.minimum(trace.staleness, size - 1), minlength=size) / len(trace)
    return {
        "shares": page.digits(shares, 4),
        "law": None if law is None else page.digits(law[:MOST_SHARES], 4),
        "words": WORDS["graph" if is_on_graph(trace) else "staleness"],
        "unit": unit_of(trace),
        "mean": float(trace.staleness.mean()),
        "distance": None if law is None else total_variation(trace.staleness, law),
    }
