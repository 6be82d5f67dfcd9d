"""One admission rule, three orders: the mean staleness of rollouts is the same, throughput and the maximum are not.

Rollout engines generate groups of samples while a trainer makes steps, and generation may lead by two steps. For any
law of generation times, any order and any refill, the mean staleness of a group is then 2, because admission fixes how
much is outstanding. The order in which steps take complete groups decides the rest. In the order of opening
("submission"), every group has staleness 2, and the trainer waits for the longest generation again and again. Those
that are complete first ("completion") let the trainer make twice as many steps, and the longest generations become
arbitrarily stale. A window in the order of opening lies between the two, with a maximum of 3.

With 96 slots, 8 groups of 4 samples in a step, log-normal generation times with a coefficient of variation of 1, and
steps of half a mean generation time, trained samples per mean generation time are 16.3, 18.7 and 32.7, and the largest
staleness is 2, 3 and 26. No order exceeds 38.5, the bound of Little's law.

    asyncsim run scenarios/rollouts.py
    asyncsim run scenarios/rollouts.py --lead 1 --cv 2 --out runs/rollouts_heavy
"""

from typing import Literal

import numpy as np

import asyncsim as asim
from asyncsim import delays
from asyncsim.plots.style import BLUE, GREY, INK, VERMILION
from asyncsim.reports.replicates import mean_and_error
from asyncsim.theory import rollouts as theory

COLOURS = (BLUE, INK, VERMILION)
WARM_UP = 0.1  # share of the steps
LARGEST_SHOWN = 10  # staleness up to which the distribution is drawn


def compute(slots=96, group=4, batch=8, lead=2, cv=1.0, train=0.5, steps=500, seeds=4) -> dict[str, np.ndarray]:
    """Staleness, throughput and idle shares for every order, with predictions.

    Args:
        slots: Samples that are generated at the same time.
        group: Samples of a group.
        batch: Groups of a step, and of the window.
        lead: Steps by which generation may lead.
        cv: Coefficient of variation of the generation times, whose mean is 1.
        train: Time of a step.
        steps: Length of each run.
        seeds: Number of runs for each order.
    """
    system = {"slots": slots, "group": group, "batch": batch, "generate": delays.LogNormal(mean=1.0, cv=cv)}
    orders: tuple[tuple[Literal["submission", "window", "completion"], int], ...]
    orders = (("submission", 1), ("window", batch), ("completion", 1))
    found = []
    for order, window in orders:
        rollouts = asim.Rollouts(**system, train=delays.Constant(train), lead=lead, order=order, window=window)
        bound = theory.largest_staleness(order, lead=lead, batch=batch, window=window)
        found.append({**one_order(rollouts, steps, seeds), "largest_predicted": bound})
    columns = {name: np.array([row[name] for row in found]) for name in found[0]}
    most = min(theory.throughput_bounds(**system, train=train, lead=lead))
    return {
        "order": np.array([order for order, _ in orders]),
        **columns,
        "lead": np.array(lead),
        "throughput_bound": np.array(most),
    }


def one_order(rollouts: asim.Rollouts, steps: int, seeds: int) -> dict[str, object]:
    """The numbers of one order, with standard errors over the seeds."""
    ledgers = [rollouts.ledger(commits=steps * rollouts.batch, seed=seed) for seed in range(seeds)]
    rows = [ledger.summary(warm_up=int(WARM_UP * steps)) for ledger in ledgers]
    staleness = np.concatenate([(one.trained_version - one.read_version)[one.trained_version >= 0] for one in ledgers])
    throughput = mean_and_error([row["samples_per_second"] for row in rows])
    return {
        "staleness": np.mean([row["group_staleness"] for row in rows]),
        "staleness_sd": np.mean([row["staleness_sd"] for row in rows]),
        "staleness_max": max(row["staleness_max"] for row in rows),
        "throughput": throughput.value,
        "throughput_error": throughput.error,
        "trainer_idle": np.mean([row["trainer_idle"] for row in rows]),
        "slots_idle": np.mean([row["slots_idle"] for row in rows]),
        "shares": np.bincount(np.minimum(staleness, 100), minlength=101) / len(staleness),
    }


def draw(figure, numbers) -> None:
    """The distribution of staleness for every order, and the throughput with its bound."""
    left, right = figure.subplots(1, 2, width_ratios=(2, 1))
    versions, place = np.arange(LARGEST_SHOWN + 1), np.arange(len(numbers["order"]))
    for k, (order, shares) in enumerate(zip(numbers["order"], numbers["shares"], strict=True)):
        label = f"{order}: mean {numbers['staleness'][k]:.2f}, largest {numbers['staleness_max'][k]:.0f}"
        left.bar(versions + 0.27 * (k - 1), shares[: len(versions)], 0.27, color=COLOURS[k], label=label)
    left.axvline(numbers["lead"], color=GREY, linestyle=(0, (4, 3)), linewidth=0.9)
    left.set(xlabel="staleness, in versions", ylabel="share of trained samples", xticks=versions)
    left.legend()
    right.bar(place, numbers["throughput"], 0.6, color=COLOURS)
    right.axhline(numbers["throughput_bound"], color=GREY, linestyle=":", label="bound of Little's law")
    right.set(ylabel="trained samples per mean generation time", ylim=(0, 1.25 * float(numbers["throughput_bound"])))
    right.set_xticks(place, numbers["order"])
    right.legend()


experiment = asim.Experiment(compute, draw, title="One admission rule, three orders", size=(10.0, 4.2))

if __name__ == "__main__":
    asim.main(experiment)
