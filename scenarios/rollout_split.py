"""How to split GPUs between rollouts and training, and the gain from staleness.

Of 16 GPUs some generate, with 8 samples each at a time, and the others train. A formula gives the fastest split, at
which generation and training take equally long, and the time of its steps, half a mean generation time. With a lead of
4 steps and slots that are refilled sample by sample, all measured times agree with it, and that of the best split is
10 % longer. Slots that wait for the longest sample of their group need 10 GPUs in place of 8, and 1.4 times as long.

The formula leaves out the lead. Of 64 GPUs it gives half to generation and predicts steps of 0.125, but the lead
admits only the samples of 5 steps at a time, each of which takes 2 or more. The bound with the lead is 0.42 for this
split, and the run measures 0.47. The fastest splits have 10 to 17 GPUs that generate, and steps of 0.44. `best_split`
and `best_period` are those of the fastest run, and `formula_leaves_out` says what the formula does not know.

The second picture is the frontier: for every lead, the mean staleness and the time of the fastest split. Without a lead
a step takes nine times as long as in the formula, because nothing is trained while the longest sample of a step is
generated. The first quarter of a step of lead nearly halves that. As long as the lead limits the system, the refill
makes no difference.

    asyncsim run scenarios/rollout_split.py
    asyncsim run scenarios/rollout_split.py --gpus 32 --cv 1.5 --out runs/rollout_split_32
"""

from typing import Any

import numpy as np

import asyncsim as asim
from asyncsim import delays
from asyncsim.plots.style import BLUE, GREY, INK, VERMILION
from asyncsim.theory import rollouts as theory

REFILLS: tuple[Any, ...] = ("sample", "group")
COLOURS = (BLUE, VERMILION)
LEFT_OUT = {  # whether the lead binds at the formula's split -> what the formula leaves out
    True: "the lead, which binds",
    False: "waiting for single samples",
}


def compute(
    gpus=16, slots=8, train_rate=8.0, group=4, batch=8, cv=1.0, leads=(0.0, 0.25, 0.5, 1.0, 2.0, 4.0), steps=150
) -> dict[str, np.ndarray]:
    """The period of every split, and the fastest split for every lead, measured and predicted.

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
    bounds = [
        theory.throughput_bounds(
            generate=delays.LogNormal(mean=1.0, cv=cv),
            train=samples / (train_rate * (gpus - generating)),
            slots=int(generating) * slots,
            group=group,
            batch=batch,
            lead=leads[-1],
        )
        for generating in splits
    ]
    loads = splits * slots / (train_rate * (gpus - splits))
    gpu = {"gpus": gpus, "samples": samples, "train_rate": train_rate, "rollout_rate": slots}
    formula = theory.best_split(**gpu)
    _, lead, split = np.unravel_index(periods.argmin(), periods.shape)
    nearest = np.abs(splits - formula.rollout_gpus).argmin()
    return {
        "splits": splits,
        "leads": np.array(leads),
        "refill": np.array(REFILLS),
        "period": periods,
        "staleness": staleness,
        "fastest": periods.min(axis=(0, 1)),
        "predicted": np.array([theory.split_period(**gpu, load=load) for load in loads]),
        "bound": np.array([samples / min(bound) for bound in bounds]),
        "binding": np.array([bound.binding for bound in bounds]),
        "best_split": np.array(splits[split]),
        "best_lead": np.array(leads[lead]),
        "best_period": np.array(periods.min()),
        "formula_split": np.array(formula.rollout_gpus),
        "formula_period": np.array(formula.period),
        "formula_leaves_out": np.array(LEFT_OUT[bounds[nearest].binding == "lead"]),
        "bound_of_formula_split": np.array(samples / min(bounds[nearest])),
    }


def draw(figure, numbers) -> None:
    """The period over the split with the largest lead, and the frontier of staleness and period."""
    left, right = figure.subplots(1, 2)
    left.plot(numbers["splits"], numbers["predicted"], color=GREY, label="formula, without a lead")
    left.plot(numbers["splits"], numbers["bound"], color=INK, label="bound with the lead")
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
    left.axvline(numbers["formula_split"], color=GREY, ymax=0.5, linestyle=":", label="best split of the formula")
    left.set(xlabel="GPUs that generate", ylabel="time of a step", yscale="log")
    left.set_yticks(ticks := [0.5, 1, 2, 4, 8], [f"{tick:g}" for tick in ticks])
    left.minorticks_off()
    left.legend()
    right.axhline(numbers["formula_period"], color=GREY, linestyle=":", label="best period of the formula")
    right.set(xlabel="mean staleness", ylabel="time of a step, fastest split", title="lead: GPUs that generate")
    right.margins(x=0.1)  # room for the last pair of numbers
    right.legend()


experiment = asim.Experiment(compute, draw, title="Splitting GPUs between rollouts and training", size=(11.0, 4.4))

if __name__ == "__main__":
    asim.main(experiment)
