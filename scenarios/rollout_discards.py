"""An age bound drops the tokens of long answers, and with them the knowledge of their prompts.

Where an age bound limits staleness, samples that became too old are dropped, and these are the long ones. Three kinds
of prompts are equally frequent, and their answers take 1, 2 and 4 units of time on average. With an age of at most 2
versions, two thirds of the generation are wasted in the system below. Only a tenth of the trained samples belong to the
prompts with the longest answers, so that the policy learns these last. An admission bound (`lead`) wastes nothing and
trains on all prompts equally often. At the same staleness it makes fewer steps in a second, because these contain long
answers, too. The fluid limit predicts the waste and the shares of the prompts.

    asyncsim run scenarios/rollout_discards.py
    asyncsim run scenarios/rollout_discards.py --slots 128 --out runs/more_slots
"""

from typing import Any

import numpy as np

import asyncsim as asim
from asyncsim import delays
from asyncsim.plots.style import BLUE, GREY, INK, VERMILION
from asyncsim.theory import rollouts as theory

COLOURS = (BLUE, GREY, VERMILION)


def compute(
    lengths=(1.0, 2.0, 4.0), ages=(2, 4, 8, 16), slots=64, batch=16, train=0.1, cv=0.5, steps=400, learned_age=2
) -> dict[str, np.ndarray]:
    """Waste, shares of the prompts and learned rewards, for age bounds and for admission bounds.

    Args:
        lengths: Mean generation time of the samples of each kind of prompt.
        ages: Age bounds, in versions; the leads are the same numbers halved.
        slots: Samples that are generated at the same time.
        batch: Samples of a step.
        train: Time of a step.
        cv: Coefficient of variation of the generation times of one kind of prompt.
        steps: Length of each run.
        learned_age: The age bound whose learning is shown, and of which the lead has the mean staleness.
    """
    workload = asim.workloads.Bits(
        least=[6] * len(lengths), samples=16, baseline="exact", lengths=lengths, counts="jobs"
    )
    system: dict[str, Any] = {
        "slots": slots,
        "group": 1,
        "batch": batch,
        "generate": delays.LogNormal(mean=1.0, cv=cv),
        "train": delays.Constant(train),
        "prompt": workload.prompts(),
    }
    aged = [measured(asim.Rollouts(**system, max_age=age), workload, steps) for age in ages]
    admitted = [measured(asim.Rollouts(**system, lead=age / 2), workload, steps) for age in ages]
    one = ages.index(learned_age)
    same = asim.Rollouts(**system, lead=round(float(aged[one]["staleness"]), 2))
    learned = [rewards(asim.Rollouts(**system, max_age=learned_age), workload, steps), rewards(same, workload, steps)]
    predicted = [predictions(lengths, cv, age, slots, batch, train) for age in ages]
    return {
        "ages": np.array(ages),
        "lengths": np.array(lengths),
        **{f"aged_{name}": np.array([row[name] for row in aged]) for name in aged[0]},
        **{f"admitted_{name}": np.array([row[name] for row in admitted]) for name in admitted[0]},
        "predicted_wasted": np.array([wasted for wasted, _ in predicted]),
        "predicted_shares": np.array([shares for _, shares in predicted]),
        "rewards": np.array(learned),
        "learned_age": np.array(learned_age),
    }


def measured(rollouts: asim.Rollouts, workload: asim.workloads.Bits, steps: int) -> dict[str, Any]:
    """Numbers of one system."""
    summary = rollouts.ledger(commits=steps * rollouts.batch).summary(warm_up=steps // 10)
    trace = asim.simulate(rollouts, commits=steps * rollouts.batch)
    context = workload.prompts().contexts(trace.worker, trace.started_before)[len(trace) // 10 :]
    names = ("staleness", "wasted", "trained_length", "steps_per_second")
    return {name: summary[name] for name in names} | {
        "shares": np.bincount(context, minlength=workload.contexts) / len(context)
    }


def predictions(lengths, cv: float, age: int, slots: int, batch: int, train: float) -> tuple[float, np.ndarray]:
    """Wasted share and shares of the prompts in the fluid limit: a prompt counts as often as its samples are kept."""
    laws = [delays.LogNormal(mean=length, cv=cv) for length in lengths]
    law = delays.Mixture(weights=[1 / len(laws)] * len(laws), laws=laws)
    found = theory.age_cutoff(generate=law, train=train, slots=slots, samples=batch, max_age=age)
    generator = np.random.default_rng(0)
    kept = [np.clip(age + 1 - (train + one.sample(generator, 20_000)) / found.period, 0, 1).mean() for one in laws]
    return found.wasted, np.array(kept) / np.sum(kept)


def rewards(rollouts: asim.Rollouts, workload: asim.workloads.Bits, steps: int) -> np.ndarray:
    """The exact reward of every kind of prompt after the training."""
    trace = asim.simulate(rollouts, commits=steps * rollouts.batch)
    found = asim.replay(trace, asim.rules.Downpour(0.4), workload).evaluate()
    return np.array([found[f"reward_{context}"] for context in range(workload.contexts)])


def draw(figure, numbers) -> None:
    """Waste against staleness, shares of the prompts, and rewards on them."""
    left, middle, right = figure.subplots(1, 3)
    left.plot(numbers["aged_staleness"], numbers["aged_wasted"], "o", color=VERMILION, label="age bound")
    left.plot(numbers["aged_staleness"], numbers["predicted_wasted"], color=GREY, label="predicted")
    left.plot(numbers["admitted_staleness"], numbers["admitted_wasted"], "s", color=BLUE, label="admission bound")
    left.set(xlabel="mean staleness", ylabel="wasted share of generation", ylim=(-0.03, 1))
    left.legend()
    for context, (length, colour) in enumerate(zip(numbers["lengths"], COLOURS, strict=False)):
        middle.plot(numbers["ages"], numbers["aged_shares"][:, context], "o", color=colour, label=f"length {length:g}")
        middle.plot(numbers["ages"], numbers["predicted_shares"][:, context], color=colour)
    middle.axhline(1 / len(numbers["lengths"]), color=INK, linestyle=":", linewidth=0.9)
    middle.set(xlabel="age bound, in versions", ylabel="share of trained samples", xscale="log")
    middle.set_xticks(numbers["ages"], [str(age) for age in numbers["ages"]])
    middle.minorticks_off()
    middle.legend()
    place = np.arange(len(numbers["lengths"]))
    label = f"age bound {numbers['learned_age']}"
    right.bar(place - 0.2, numbers["rewards"][0], 0.4, color=VERMILION, label=label)
    right.bar(place + 0.2, numbers["rewards"][1], 0.4, color=BLUE, label="admission, as stale")
    right.set(xlabel="length of the prompt's answers", ylabel="reward after training", ylim=(0, 1.3))
    right.set_xticks(place, [f"{length:g}" for length in numbers["lengths"]])
    right.legend()


experiment = asim.Experiment(compute, draw, title="What an age bound drops", size=(12.0, 4.0))

if __name__ == "__main__":
    asim.main(experiment)
