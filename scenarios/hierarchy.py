"""Servers of regions under a global one, against one server far away, in equal time.

Three regions of four workers learn the digits. A message between regions takes two seconds, twice as long as a
gradient. Around one far server each worker waits for its answer, with one gradient in a commit or with a window of
local steps. In a hierarchy it commits to its region's server, which pushes to the global one now and then. Each system
has the step size of the grid that is best for it.

    asyncsim run scenarios/hierarchy.py
    asyncsim run scenarios/hierarchy.py --latency 8 --seeds 12
"""

from functools import partial

import numpy as np

import asyncsim as asim
from asyncsim.plots.style import BLUE, GREY, VERMILION
from asyncsim.reports.replicates import replicate

SYSTEMS = {"far server": GREY, "far, local steps": VERMILION, "hierarchy": BLUE}


def compute(
    regions=3,
    workers=4,
    latency=2.0,
    seconds=100.0,
    commits_per_push=16,
    merge_weight=0.5,
    global_step=1 / 3,
    window=8,
    learning_rate=(0.025, 0.05, 0.1, 0.2, 0.4, 0.8),
    seeds=5,
) -> dict[str, np.ndarray]:
    """Test loss of each system at its best step size, with gradients and messages between regions.

    Args:
        regions: Number of regions.
        workers: Number of workers of each region.
        latency: Seconds of a message between regions, each way. A gradient takes one.
        seconds: Simulated time of every run.
        commits_per_push: Commits of a region from a merge to its next push.
        merge_weight: Share of the global value in a merge.
        global_step: Step size of the global server: 1 adds the changes of the regions, 1/3 averages those of three.
        window: Local steps of a worker that commits to a far server, in the second system.
        learning_rate: Grid of step sizes.
        seeds: Seeds of schedule, initial parameters and mini-batches.
    """
    law = asim.delays.Gamma(mean=1.0, cv=0.5)
    far = asim.Network(latency=asim.delays.Constant(latency))
    workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=16)
    hierarchy = asim.Hierarchy(
        [asim.Cluster(workers, law)] * regions, commits_per_push, network=far, merge_weight=merge_weight
    )

    def measure(system: str, step: float, seed: int) -> dict[str, float]:
        cluster, rule = asim.Cluster(regions * workers, law, network=far), asim.rules.Downpour(step)
        if system == "far, local steps":
            rule = asim.rules.local(asim.rules.Downpour(1 / (regions * workers)), window=window, learning_rate=step)
        elif system == "hierarchy":
            cluster, rule = hierarchy, asim.rules.hierarchical(rule, asim.rules.Downpour(global_step))
        scenario = asim.Scenario(cluster, rule, workload, seconds=seconds, seed=seed, record=())
        result = asim.run(scenario)
        of_pushes = (result.trace.from_variable >= 0).sum() if system == "hierarchy" else result.run.commits
        gradients = result.run.gradients[-1]
        return {"test_loss": result.summary["test_loss"], "gradients": gradients, "far_messages": 2 * of_pushes}

    best = []
    for system in SYSTEMS:
        rows = [replicate(partial(measure, system, step), seeds) for step in learning_rate]
        place = int(np.nanargmin([row["test_loss"] for row in rows]))
        best.append({"learning_rate": learning_rate[place], **rows[place]})
    columns = {name: np.array([row[name] for row in best]) for name in best[0]}
    return {"system": np.array([*SYSTEMS]), **columns}


def draw(figure, numbers) -> None:
    """Test loss in equal time, and the gradients and far messages that it took."""
    left, right = figure.subplots(1, 2)
    names, places = numbers["system"], np.arange(len(numbers["system"]))
    for place, name in enumerate(names):
        error = 2 * numbers["test_loss_error"][place]
        left.errorbar(place, numbers["test_loss"][place], error, fmt="o", color=SYSTEMS[name])
    left.set(ylabel="test loss", yscale="log")
    left.set_xticks(
        places, [f"{name}\nη = {step:g}" for name, step in zip(names, numbers["learning_rate"], strict=True)]
    )
    right.bar(places - 0.2, numbers["gradients"], 0.4, color=BLUE, label="gradients")
    right.bar(places + 0.2, numbers["far_messages"], 0.4, color=GREY, label="messages between regions")
    right.set(yscale="log")
    right.set_xticks(places, names)
    right.legend()


experiment = asim.Experiment(compute, draw, title="Regions under a global server, in equal time", size=(10.0, 4.2))

if __name__ == "__main__":
    asim.main(experiment)
