"""Which set-up is best? The loss per second, per byte, per joule and per unit of money has four different answers.

Six set-ups learn the digits with DOWNPOUR until the training loss is below 0.3, each at its own best step size.
Messages are those of a model of ten million parameters (40 MB, and 0.1 s on the link), and a gradient takes a second on
average. Workers draw 300 W while they compute and 60 W while they wait; one costs 3 an hour, or 1 as a spot instance
that is preempted every 20 s on average.

Twelve fast and four slow workers without waiting are the fastest. Four workers that take four local steps between
synchronous commits send a third of the bytes of the next best. Four asynchronous workers need the least energy, because
their gradients are hardly stale and nobody waits. Eight spot instances cost the least money, although preemption wastes
a part of their computations. Synchronous rounds of all sixteen are the worst by time, energy and money.

    asyncsim run scenarios/cost_ranking.py
    asyncsim run scenarios/cost_ranking.py --target 0.1 --commits 2000 --out runs/cost_ranking_low
"""

from typing import NamedTuple

import numpy as np

import asyncsim as asim
from asyncsim import delays, faults, protocols
from asyncsim.costs import cost_over_time, sizes
from asyncsim.plots.style import BLUE, GREEN, GREY, INK, PINK, SKY, VERMILION
from asyncsim.reports.replicates import batched

STEP_SIZES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
FAST, SLOW = delays.Gamma(mean=1.0, cv=0.3), delays.Gamma(mean=3.0, cv=0.3)
FAST_WORKERS = 12
PREEMPTED = faults.Sessions(online=delays.Exponential(20.0), offline=delays.Exponential(5.0))
NETWORK = asim.Network(latency=delays.Constant(0.02), bandwidth=4e8, message_bytes=4e7)
POWER = asim.Power(busy=300.0, idle=60.0, server=100.0)
ON_DEMAND = asim.Price(per_hour=3.0, egress_per_gigabyte=0.002, server_per_hour=1.0)
SPOT = asim.Price(per_hour=1.0, egress_per_gigabyte=0.002, server_per_hour=1.0, spot=True)
MEASURES = {  # name -> label and unit of an axis
    "seconds": ("seconds", 1.0),
    "bytes": ("gigabytes sent", 1e9),
    "joules": ("kilojoules", 1e3),
    "money": ("money", 1.0),
}
COLOURS = (BLUE, SKY, GREY, GREEN, VERMILION, PINK)
SMOOTHED = 80  # gradients in a running mean of the loss


class SetUp(NamedTuple):
    """Workers, how they wait for each other, the local steps of a commit, and whether they are spot instances."""

    workers: int
    protocol: protocols.CommitProtocol
    window: int = 1
    spot: bool = False


SET_UPS = {
    "16 asynchronous": SetUp(16, protocols.Asynchronous()),
    "16, 8-async": SetUp(16, protocols.KAsync(8)),
    "16 synchronous": SetUp(16, protocols.Synchronous()),
    "4 asynchronous": SetUp(4, protocols.Asynchronous()),
    "4, local steps": SetUp(4, protocols.Synchronous(), window=4),
    "8 on spot": SetUp(8, protocols.Asynchronous(), spot=True),
}


def compute(target=0.3, commits=1400, seeds=4, hidden=32) -> dict[str, np.ndarray]:
    """What every set-up has spent when its loss is below the target, and its loss against all four measures.

    Args:
        target: Training loss to be reached.
        commits: Length of each run.
        seeds: Seeds of initial parameters and mini-batches, each with all step sizes.
        hidden: Units of the hidden layer.
    """
    workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=(hidden,), batch_size=16)
    rows = [one_set_up(set_up, workload, target, commits, seeds) for set_up in SET_UPS.values()]
    table = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    ranks = {f"rank_by_{name}": 1 + table[name].argsort().argsort() for name in MEASURES}
    return {"set_up": np.array(list(SET_UPS)), **table, **ranks}


def one_set_up(
    set_up: SetUp, workload: asim.Workload, target: float, commits: int, seeds: int
) -> dict[str, float | np.ndarray]:
    """Step size, spent seconds, bytes, joules and money at the target, and the curves up to the end of the run."""
    laws = [FAST if worker < FAST_WORKERS else SLOW for worker in range(set_up.workers)]
    away = [PREEMPTED] if set_up.spot else []
    cluster = asim.Cluster(set_up.workers, laws, NETWORK, protocol=set_up.protocol, faults=away)
    rule = asim.rules.Downpour(0.1, window=set_up.window)
    scenario = asim.Scenario(cluster, rule, workload, commits=commits)
    trace, lanes = scenario.simulate(), batched(STEP_SIZES, seeds)
    run = asim.replay(trace, asim.rules.Downpour(lanes.values, window=set_up.window), workload, lanes.seeds, record=())
    price = SPOT if set_up.spot else ON_DEMAND
    spent = cost_over_time(trace, **sizes(scenario), power=POWER, price=price)
    means = np.stack([asim.plots.running_mean(loss, SMOOTHED // set_up.window) for loss in run.loss])
    means = np.where(np.isfinite(means), means, np.inf).reshape(seeds, len(STEP_SIZES), commits)
    middle = np.median(means, axis=0)
    reached = np.where((middle < target).any(axis=1), (middle < target).argmax(axis=1), commits)
    best = int(reached.argmin())
    there = reached[best] < commits
    at_target = {name: float(spent[name][reached[best]]) if there else np.inf for name in MEASURES}
    curves = {f"{name}_curve": spent[name] for name in MEASURES}
    return {"step_size": STEP_SIZES[best], **at_target, "loss_curve": middle[best], **curves}


def draw(figure, numbers) -> None:
    """The loss against each of the four measures, up to the target, and a mark on the best."""
    panels = figure.subplots(1, len(MEASURES), sharey=True)
    for panel, (name, (label, unit)) in zip(panels, MEASURES.items(), strict=True):
        best = int(numbers[name].argmin())
        for place, (set_up, color) in enumerate(zip(numbers["set_up"], COLOURS, strict=True)):
            shown = numbers[f"{name}_curve"][place] <= numbers[name][place]
            x, y = numbers[f"{name}_curve"][place][shown] / unit, numbers["loss_curve"][place][shown]
            panel.plot(x, y, color=color, linewidth=2.4 if place == best else 1.2, label=str(set_up))
            if place == best:
                panel.plot(x[-1], y[-1], "o", color=INK, zorder=4)
        panel.set(xlabel=label, title=str(numbers["set_up"][best]), yscale="log", xlim=(0, None))
    panels[0].set(ylabel="training loss")
    panels[-1].legend(bbox_to_anchor=(1.02, 1), loc="upper left")


experiment = asim.Experiment(compute, draw, title="Best by seconds, bytes, joules and money", size=(13.0, 4.0))

if __name__ == "__main__":
    asim.main(experiment)
