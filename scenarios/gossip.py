"""Workers on a graph against a parameter server, at equal bytes.

Sixteen workers learn the digits, each with its share of the classes. On a graph they average their models in pairs
(AD-PSGD); around a server they are asynchronous. Every commit sends two models either way, so that equal commits are
equal bytes. A graph that mixes badly leaves the models apart, and each of them is worse than their mean, which is what
is evaluated.

    asyncsim run scenarios/gossip.py
    asyncsim run scenarios/gossip.py --learning-rate .2 --seeds 12
"""

from functools import partial

import numpy as np

import asyncsim as asim
from asyncsim import graphs, theory
from asyncsim.plots.style import BLUE, GREY, VERMILION
from asyncsim.reports.replicates import replicate

SERVER = "server"


def compute(
    graph=("ring", "torus", "exponential", "complete"),
    workers=16,
    alpha=0.3,
    commits=4000,
    learning_rate=0.1,
    seeds=5,
) -> dict[str, np.ndarray]:
    """Loss, and how far apart the models are, for each graph and for a server.

    Args:
        graph: Names of graphs.
        workers: Number of workers.
        alpha: How alike the workers' data are: parts of a Dirichlet law over the classes, nearly one class each at .1.
        commits: Commits of all workers together. Each sends two models.
        learning_rate: Step size of a worker on a graph. A server's is divided by the number of workers, because each
            gradient changes the one model, and not one of many whose mean is evaluated.
        seeds: Seeds of schedule, initial parameters, mini-batches and partition.
    """
    law = asim.delays.Gamma(mean=1.0, cv=0.5)

    def measure(name: str, seed: int) -> dict[str, float]:
        data = asim.datasets.partition(
            asim.datasets.Digits(), workers, by="dirichlet", alpha=alpha, seed=seed, least=16
        )
        workload = asim.workloads.MLP(data, hidden=(32,), batch_size=16)
        if name == SERVER:
            cluster, step = asim.Cluster(workers, law), learning_rate / workers
        else:
            cluster, step = asim.Gossip(workers, law, graph=name), learning_rate
        trace = asim.simulate(cluster, commits=commits, seed=seed)
        values = asim.replay(trace, asim.rules.Downpour(step), workload, seed=seed).evaluate()
        distance = values.get("consensus_distance", 0.0)
        return {"test_loss": values["test_loss"], "apart": distance, "staleness": trace.staleness.mean()}

    rows = [replicate(partial(measure, name), seeds) for name in (*graph, SERVER)]
    gaps = [theory.spectral_gap(graphs.by_name(name)().weights(workers)) for name in graph]
    return {
        "graph": np.array([*graph, SERVER]),
        "spectral_gap": np.array([*gaps, np.nan]),
        **{name: np.array([row[name] for row in rows]) for name in rows[0]},
    }


def draw(figure, numbers) -> None:
    """Loss at the mean of the models, and the distance between them."""
    left, right = figure.subplots(1, 2)
    names, places = numbers["graph"], np.arange(len(numbers["graph"]))
    colors = [GREY if name == SERVER else BLUE for name in names]
    for place, color in zip(places, colors, strict=True):
        error = 2 * numbers["test_loss_error"][place]
        left.errorbar(place, numbers["test_loss"][place], error, fmt="o", color=color)
    left.set(ylabel="test loss at the mean of the models, ± 2 errors")
    left.set_xticks(places, names)
    inside = places[:-1]
    right.errorbar(inside, numbers["apart"][:-1], 2 * numbers["apart_error"][:-1], fmt="s", color=VERMILION)
    right.set(ylabel="squared distance from the mean model", ylim=(0, None))
    right.set_xticks(
        inside, [f"{name}\n1 − |λ₂| = {gap:.2g}" for name, gap in zip(names, numbers["spectral_gap"], strict=True)][:-1]
    )


experiment = asim.Experiment(compute, draw, title="Workers on a graph, at equal bytes", size=(10.0, 4.2))

if __name__ == "__main__":
    asim.main(experiment)
