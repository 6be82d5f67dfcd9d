"""Figure 4: speed-up at a fixed total batch.

The paper claims that GEM with 1, 2, 4, 8 and 16 workers, each with 1/n of a total batch of 256 examples, reaches a
given loss sooner with more workers. The claim is judged by the simulated seconds until the mean loss over five commits
per worker falls to a level.

The seconds are calibrated by two numbers: a mini-batch of 256 takes .25 s and one of 16 takes .052 s. They are the
seconds after which the paper's curves for one and sixteen workers pass a loss of 1, .5 and .3, divided by the commits
per worker after which runs of its network do (seed 0, gamma compute times with cv .3). A mini-batch then costs .0388 s
and .000825 s per example, and the curves for 2, 4 and 8 workers are predictions. They are not good ones: determined in
the same way, the paper's mini-batches of 128, 64 and 32 took .10, .062 and .053 s, where these costs give .144, .092
and .065. No fixed cost with a cost per example fits both one worker and all others.

The paper's own curves reach .2 (first point at or below) after 38, 13.5, 7, 5.5 and 4.5 s. With two workers, that is
more than twice as fast as with one. Part of it is due to GEM: a worker counts its own last step as motion of others, so
that n workers go n/(n + 1) as far as the proxy would (on a constant gradient), and more workers need fewer commits
each: 97, 76, 65, 65 and 57 to a loss of .3 in those runs.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

import asyncsim as asim
from asyncsim.engine.time_axis import mean_by_time
from asyncsim.plots import draw_seeds, use_plain_numbers
from asyncsim.plots.style import GREY
from figures.common import scales
from figures.common.averages import BLOCK
from figures.common.curves import COLOURS, draw_paper, name_below
from figures.common.figure_set import UNCACHED, CachedRun, Claim, RunCache, each_n, numbers
from figures.common.paper import paper_curves, why_no_curves
from figures.common.tables import Numbers, over_seeds, pack, stack, table, where

TITLE = "Figure 4: training loss against time, with a total batch of 256 shared by n workers"
SIZE = (9.6, 4.2)
WORKERS = (1, 2, 4, 8, 16)
BATCH = 256
MEASURED = {256: 0.25, 16: 0.052}  # examples -> seconds of a mini-batch; the two calibrated numbers
PER_EXAMPLE = (MEASURED[256] - MEASURED[16]) / (256 - 16)
OVERHEAD = MEASURED[16] - 16 * PER_EXAMPLE
CV = scales.NEARLY_EQUAL.cv
SECONDS = {"quick": 20.0, "paper": 60.0}
SPARE = 1.1  # times these seconds are simulated on average, so that slow schedules fill them too
BIN = 0.5  # seconds, as in the paper's curves
LEVEL = 0.2
CLOSE = 0.25  # relative error of a prediction that holds
note = why_no_curves


def scenarios(scale: str, seed: int) -> dict[int, asim.Scenario]:
    """One run for each number of workers, all of about the same simulated length."""
    return {n: one(scale, n, seed) for n in WORKERS}


def one(scale: str, workers: int, seed: int) -> asim.Scenario:
    """The standard experiment with mini-batches of 256/n, whose time depends on their size."""
    rule, share = scales.gem(scales.scale_of(scale).learning_rate), BATCH // workers
    law = asim.delays.for_batch(share, PER_EXAMPLE, OVERHEAD, CV)
    commits = round(SPARE * SECONDS[scale] / law.mean)
    return scales.scenario(
        scale, rule, workers, seed, compute=law, batch_size=share, commits_per_worker=commits, record={}
    )


def compute(scale: str = "quick", seed: int = 0, runs: RunCache = UNCACHED) -> dict[str, np.ndarray]:
    """Loss in equal intervals of time, and when it reached the level."""
    edges = np.arange(0.0, SECONDS[scale] + BIN / 2, BIN)
    curves, reached = [], []
    for n, scenario in scenarios(scale, seed).items():
        run = runs.get(scenario)
        curves.append(
            {"workers": n, "seconds": edges[1:], "training_loss": mean_by_time(run.commit_time, run.loss, edges)}
        )
        reached.append({"workers": n, "seconds": seconds_until(run, LEVEL)})
    return pack(curves=stack(curves), reached=stack(reached))


def seconds_until(run: CachedRun, level: float) -> float:
    """When the mean loss over `BLOCK` commits per worker is first at or below a level; NaN if it never is.

    They have the same number of examples for any n.
    """
    means = asim.plots.running_mean(run.loss, BLOCK * run.workers)
    below = np.flatnonzero(means <= level)
    return float(run.commit_time[below[0]]) if len(below) else np.nan


def claims(seeds: Sequence[Numbers], scale: str) -> list[Claim]:
    """Whether more workers are faster, and how well two calibrated costs predict the other times."""
    seconds = over_seeds(seeds, "reached", "seconds")
    theirs = paper_seconds()
    shown = f"seconds {each_n(WORKERS, seconds)}; speed-up over one worker {each_n(WORKERS, seconds[:, :1] / seconds)}"
    errors = np.median(seconds, axis=0)[1:-1] / theirs[1:-1] - 1
    return [
        Claim(
            "at a fixed total batch, more workers reach a given loss sooner",
            f"seconds to a loss of {LEVEL:g}, falling from each number of workers to the next, for every seed",
            shown,
            bool((np.diff(seconds, axis=1) < 0).all()),
        ),
        Claim(
            "ours: a fixed cost and a cost per example, calibrated with 1 and 16 workers, predict the others",
            f"median seconds to {LEVEL:g} with 2, 4 and 8 workers within {CLOSE:.0%} of the paper's",
            f"longer by a share of {numbers(errors)}" if scale == "paper" else "other data",
            bool((np.abs(errors) < CLOSE).all()) if scale == "paper" else None,
        ),
    ]


def paper_seconds() -> np.ndarray:
    """When the paper's curves are first at or below the level, for each number of workers."""
    curves = [where(paper_curves("figure4_speedup"), workers=n) for n in WORKERS]
    return np.array([curve["seconds"][np.argmax(curve["training_loss"] <= LEVEL)] for curve in curves])


def draw(figure: Any, seeds: Sequence[Numbers], scale: str) -> None:
    """Loss against time, and the time to the level against the number of workers."""
    left, right = figure.subplots(1, 2)
    draw_losses(left, seeds, scale)
    draw_reached(right, seeds, scale)


def draw_losses(ax: Any, seeds: Sequence[Numbers], scale: str) -> None:
    """A curve for each number of workers, with the paper's behind them."""
    for n, colour in zip(WORKERS, COLOURS, strict=False):
        if scale == "paper":
            theirs = where(paper_curves("figure4_speedup"), workers=n)
            draw_paper(ax, theirs["seconds"], theirs["training_loss"])
        seconds = where(table(seeds[0], "curves"), workers=n)["seconds"]
        losses = over_seeds(seeds, "curves", "training_loss", workers=n)
        draw_seeds(ax, seconds, losses, label=str(n), color=colour)
    ax.set(title="training loss", xlabel="simulated seconds", yscale="log")
    use_plain_numbers(ax)
    name_below(ax, 6, "workers")


def draw_reached(ax: Any, seeds: Sequence[Numbers], scale: str) -> None:
    """The median and every seed; dashed, a speed-up of n."""
    seconds = over_seeds(seeds, "reached", "seconds")
    if scale == "paper":
        draw_paper(ax, WORKERS, paper_seconds())
    line = draw_seeds(ax, WORKERS, seconds, label="simulated", color=COLOURS[0])
    ax.plot(WORKERS, seconds.T, "o", color=COLOURS[0], markersize=3.5)
    middle = np.asarray(line.get_ydata())[0]
    ideal = {"linestyle": (0, (4, 3)), "label": "n times as fast as one"}
    ax.plot(WORKERS, middle / np.array(WORKERS), color=GREY, **ideal)
    ax.set(title=f"simulated seconds to a loss of {LEVEL:g}", xlabel="workers", xscale="log", yscale="log")
    ax.set_xticks(WORKERS, [str(n) for n in WORKERS])
    ax.set_xticks([], minor=True)
    use_plain_numbers(ax)
    ax.legend()
