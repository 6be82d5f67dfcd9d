"""Figure 7: AlexNet with 8 and 16 workers and a fixed total batch.

The paper claims that GEM trains AlexNet on ImageNet with 8 and 16 workers, each with 1/n of a total batch of 1024. The
claims are judged by the mean loss of the last tenth of the run, compared with that of even odds, and by which of the
two ends lower after the same number of commits per worker (in the paper 16 workers: 5.73 against 5.96, from 6.91).

The full network needs an accelerator and pictures in ImageNet's format, in the folder named by the environment variable
ASYNCSIM_IMAGENET. If it is not set, a small AlexNet with the same sixteen tensors learns images of 32 × 32 pixels, and
the line below the title says so. It starts with the same plateau, which it leaves only with a larger η than the paper's
.01.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import asyncsim as asim
from asyncsim.plots import draw_seeds
from figures.common import scales
from figures.common.averages import loss_curve
from figures.common.curves import COLOURS, draw_paper
from figures.common.figure_set import UNCACHED, Claim, RunCache, each_n
from figures.common.paper import paper_curves
from figures.common.tables import Numbers, over_seeds, pack, stack, table, where

TITLE = "Figure 7: training loss of AlexNet with 8 and 16 workers"
SIZE = (8.0, 4.2)
WORKERS = (8, 16)
VARIABLE = "ASYNCSIM_IMAGENET"
PER_CLASS = 35  # images of ImageNet from each half, in memory: 70 000 of 588 kB in all, 39 GiB
LIMIT_GIB = 40.0
LEARNED = 0.95  # times the loss of even odds; the paper's curves end at .86 and .83 times


@dataclass(frozen=True)
class Training:
    """What AlexNet learns, and how.

    Attributes:
        task: What is learned, in words.
        batch: Total batch, which the workers share.
        learning_rate: η.
        commits_per_worker: Commits per worker on average.
    """

    task: str
    batch: int
    learning_rate: float
    commits_per_worker: int


QUICK = Training("not ImageNet: a small AlexNet, same 16 tensors, on digits as 32 × 32 × 3", 128, 0.05, 200)
SMALL = Training("not ImageNet: a small AlexNet, same 16 tensors, on MNIST as 32 × 32 × 3", 256, 0.05, 1000)
FULL = Training("AlexNet on the images of ASYNCSIM_IMAGENET", 1024, 0.01, 2015)


def training_of(scale: str) -> Training:
    """Digits at scale quick; at scale paper, the paper's training if its data are named, otherwise the small one."""
    if scales.scale_of(scale).name == "quick":
        return QUICK
    return FULL if os.environ.get(VARIABLE) else SMALL


def task(scale: str) -> str:
    """What is learned, for the line below the title."""
    return training_of(scale).task


def note(scale: str) -> str:
    """Why the page does not show the paper's curves; "" if it does."""
    return "" if training_of(scale) is FULL else "the paper's curves are of ImageNet"


@cache
def data(scale: str) -> asim.datasets.Dataset:
    """The images of a scale."""
    chosen = training_of(scale)
    if chosen is FULL:
        return asim.datasets.ImageFolder(os.environ[VARIABLE], per_class=PER_CLASS, limit_gib=LIMIT_GIB)
    return asim.datasets.AsColour(asim.datasets.Digits() if chosen is QUICK else asim.datasets.MNIST())


@cache
def workload(scale: str, workers: int) -> asim.Workload:
    """AlexNet, with each worker's share of the batch."""
    return asim.workloads.AlexNet(data(scale), batch_size=training_of(scale).batch // workers)


def scenarios(scale: str, seed: int) -> dict[int, asim.Scenario]:
    """One run for each number of workers, with the medians that figures 9 and 10 show."""
    chosen = training_of(scale)
    return {
        n: asim.Scenario(
            cluster=asim.Cluster(n, scales.NEARLY_EQUAL),
            rule=scales.gem(chosen.learning_rate),
            workload=workload(scale, n),
            commits_per_worker=chosen.commits_per_worker,
            seed=seed,
            record={"pi_median_by_tensor": n},
        )
        for n in WORKERS
    }


def compute(scale: str = "quick", seed: int = 0, runs: RunCache = UNCACHED) -> dict[str, np.ndarray]:
    """Loss curves, the mean loss of the last tenth, and the loss of even odds."""
    curves, final = [], []
    for n, scenario in scenarios(scale, seed).items():
        run = runs.get(scenario)
        curves.append({"workers": n, **loss_curve(run)})
        last = run.loss[-(len(run.loss) // 10) :].mean(dtype=np.float64)
        final.append({"workers": n, "training_loss": last, "test_accuracy": run.test_accuracy})
    return pack(curves=stack(curves), final=stack(final), odds={"loss": [np.log(data(scale).classes)]})


def claims(seeds: Sequence[Numbers], scale: str) -> list[Claim]:
    """Whether GEM trains it, and whether 16 workers learn more than 8 in the same commits per worker."""
    odds = table(seeds[0], "odds")["loss"].item()
    losses = over_seeds(seeds, "final", "training_loss")
    shown = each_n(WORKERS, losses)
    return [
        Claim(
            "GEM trains AlexNet with 8 and 16 workers",
            f"mean loss of the last tenth below {LEARNED:g} times that of even odds, {odds:.3g}, for every seed",
            f"{task(scale)}: {shown}",
            bool((losses < LEARNED * odds).all()),
        ),
        Claim(
            "after the same number of commits per worker, 16 workers have a lower loss than 8",
            "the same means, for every seed",
            shown,
            bool((losses[:, 1] < losses[:, 0]).all()),
        ),
    ]


def draw(figure: Any, seeds: Sequence[Numbers], scale: str) -> None:
    """A curve for each number of workers, with the paper's behind them if the task is the paper's."""
    ax = figure.subplots()
    for n, colour in zip(WORKERS, COLOURS, strict=False):
        if training_of(scale) is FULL:
            theirs = where(paper_curves("figure7_imagenet"), workers=n)
            draw_paper(ax, theirs["worker_steps"], theirs["training_loss"])
        steps = where(table(seeds[0], "curves"), workers=n)["worker_steps"]
        losses = over_seeds(seeds, "curves", "training_loss", workers=n)
        draw_seeds(ax, steps, losses, label=f"{n} workers", color=colour)
    ax.set(xlabel="commits of each worker", ylabel="training loss", ylim=(0, None))
    ax.legend()
