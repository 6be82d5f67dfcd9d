"""How to split GPUs between rollouts and training, and the gain from staleness.

Of 16 GPUs some generate, with 8 samples each at a time, and the others train. Theory gives the fastest split, at which
generation and training take equally long, and the time of its steps, half a mean generation time. With a lead of 4
steps and slots that are refilled sample by sample, all measured times agree with theory, and that of the best split is
10 % longer. Slots that wait for the longest sample of their group need 10 GPUs in place of 8, and 1.4 times as long.

The second picture is the frontier: for every lead, the mean staleness and the time of the fastest split. Without a lead
a step takes nine times as long as theory's best split, because nothing is trained while the longest sample of a step is
generated. The first quarter of a step of lead nearly halves that. As long as the lead limits the system, the refill
makes no difference.

    asyncsim run scenarios/rollout_split.py
    asyncsim run scenarios/rollout_split.py --gpus 32 --cv 1.5 --out runs/rollout_split_32
"""

from typing import Any

import numpy as np

import asyncsim as asim
from asyncsim import delays
from asyncsim.plots.style import BLUE, GREY, VERMILION
from asyncsim.theory import rollouts as theory

REFILLS: tuple[Any, ...] = ("sample", "group")
COLOURS = (BLUE, VERMILION)


def compute(
    gpus=16, slots=8, train_rate=8.0, group=4, batch=8, cv=1.0, leads=(0.0, 0.25, 0.5, 1.0, 2.0, 4.0), steps=150
) -> dict[str, np.ndarray]:
    """The period of every split, and the fastest split for every lead.

    Args:
        gpus: Number of GPUs.
        slots: Samples that one GPU generates at the same time; each takes one unit of time on average.
        train_rate: Samples that one GPU trains in one unit of time.
        group: Samples of a group.
        batch: Groups of a step.
        cv: Coefficient of variation of the generation times.
        leads: Steps by which generation may lead.
        steps: Length of each run.
    """
    samples, splits = group * batch, np.arange(1, gpus)
    periods, staleness = np.empty((2, len(REFILLS), len(leads), len(splits)))
    for i, refill in enumerate(REFILLS):
        for j, lead in enumerate(leads):
            for k, generating in enumerate(splits):
                rollouts = asim.Rollouts(
                    slots=int(generating) * slots,
                    group=group,
                    batch=batch,
                    generate=delays.LogNormal(mean=1.0, cv=cv),
                    train=delays.Constant(samples / (train_rate * (gpus - generating))),
                    refill=refill,
                    lead=lead,
                )
                found = rollouts.ledger(commits=steps * batch).summary(warm_up=steps // 10)
                periods[i, j, k], staleness[i, j, k] = 1 / found["steps_per_second"], found["group_staleness"]
    loads = splits * slots / (train_rate * (gpus - splits))
    predicted = [
        theory.split_period(gpus=gpus, samples=samples, train_rate=train_rate, rollout_rate=slots, load=load)
        for load in loads
    ]
    best = theory.best_split(gpus=gpus, samples=samples, train_rate=train_rate, rollout_rate=slots)
    return {
        "splits": splits,
        "leads": np.array(leads),
        "refill": np.array(REFILLS),
        "period": periods,
        "staleness": staleness,
        "predicted": np.array(predicted),
        "best_split": np.array(best.rollout_gpus),
        "best_period": np.array(best.period),
    }


def draw(figure, numbers) -> None:
    """The period over the split with the largest lead, and the frontier of staleness and period."""
    left, right = figure.subplots(1, 2)
    left.plot(numbers["splits"], numbers["predicted"], color=GREY, label="predicted, refilled by sample")
    for refill, periods, staleness, colour, below in zip(
        numbers["refill"], numbers["period"], numbers["staleness"], COLOURS, (-12, 5), strict=True
    ):
        left.plot(numbers["splits"], periods[-1], "o", color=colour, label=f"refilled by {refill}")
        fastest = periods.argmin(axis=1)[:, None]
        place = np.take_along_axis(staleness, fastest, 1)[:, 0], np.take_along_axis(periods, fastest, 1)[:, 0]
        right.plot(*place, "o-", color=colour, label=f"refilled by {refill}")
        for lead, split, x, y in zip(numbers["leads"], numbers["splits"][fastest[:, 0]], *place, strict=True):
            right.annotate(
                f"{lead:g}: {split}", (x, y), (4, below), textcoords="offset points", fontsize=8, color=colour
            )
    left.axvline(numbers["best_split"], color=GREY, linestyle=":", label="best split, by theory")
    left.set(xlabel="GPUs that generate", ylabel="time of a step", yscale="log")
    left.set_yticks(ticks := [0.5, 1, 2, 4, 8], [f"{tick:g}" for tick in ticks])
    left.minorticks_off()
    left.legend()
    right.axhline(numbers["best_period"], color=GREY, linestyle=":", label="best period, by theory")
    right.set(xlabel="mean staleness", ylabel="time of a step, fastest split", title="lead: GPUs that generate")
    right.legend()


experiment = asim.Experiment(compute, draw, title="Splitting GPUs between rollouts and training", size=(11.0, 4.4))

if __name__ == "__main__":
    asim.main(experiment)
