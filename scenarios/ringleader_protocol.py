"""Ringleader's experiment: 100 clients of all speeds whose data differ, and thirty seeds of who is fast.

The protocol of Maranjyan and Richtárik 2025, as their code has it: 100 clients with equally many images each, whose
mixes of labels are drawn from Dirichlet(0.1) once and for all; client i takes d_i + |N(0, i)| seconds for a gradient of
four images, where the d_i are the numbers 1 to 100, dealt out anew for each seed; two layers with ReLU; the step size
of each method is the best of a grid on one seed, by ‖∇f‖² of all images at the end; then thirty seeds with it. Malenia
takes at least one gradient of every client for a step and then stops all jobs. Asynchronous SGD stands beside the three
methods of the publication, with their grid.

What is not theirs: digits in the place of Fashion-MNIST, and so 32 hidden units in the place of 128; the seconds, 5000
in the place of 300 000; and the grids reach further up.

What to take from it: Ringleader and IA²SGD make a step with nearly every gradient and lead Malenia, which makes one per
round of the slowest client, by the time that a hundred of those take. Between the two, IA²SGD is a little ahead at
its best step size: what Ringleader guarantees in addition, delays of at most 2n - 2 steps whatever the speeds, does
not show here. Plain asynchronous SGD reaches no lower gradient of the mean than its bias towards the fast clients lets
it, however small its steps.

    asyncsim run scenarios/ringleader_protocol.py
    asyncsim run scenarios/ringleader_protocol.py --seconds 300000 --hidden 128 --out runs/as_published
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

import asyncsim as asim
from asyncsim import delays, protocols, rules
from asyncsim.plots import draw_label_counts
from asyncsim.plots.style import AMBER, BLUE, GREEN, VERMILION
from asyncsim.reports.replicates import side_by_side

STEP_SIZES = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
LARGE = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 4.0)
METHODS: dict[str, tuple[Any, dict[str, Any], Any, tuple[float, ...], str]] = {
    "Ringleader": (rules.ringleader, {}, protocols.Asynchronous(), STEP_SIZES, VERMILION),
    "Malenia": (rules.malenia, {"steps": "trace"}, protocols.Malenia(), LARGE, GREEN),
    "IA²SGD": (rules.ia2sgd, {}, protocols.Asynchronous(), STEP_SIZES, AMBER),
    "asynchronous SGD": (rules.downpour, {}, protocols.Asynchronous(), STEP_SIZES, BLUE),
}
RECORDS = 100  # of the gradient, per run
POINTS = 60  # of a curve
PARTITION_SEED = 0  # the same data for all seeds, as theirs


def compute(clients=100, alpha=0.1, seconds=5000.0, seeds=30, hidden=32, batch_size=4) -> dict[str, np.ndarray]:
    """‖∇f‖² against simulated time for every method and seed, at the method's best step size.

    Args:
        clients: Number of clients.
        alpha: Concentration of the labels.
        seconds: Simulated seconds.
        seeds: Seeds of speeds, mini-batches and first parameters; the first one also chooses the step sizes.
        hidden: Units in the hidden layer.
        batch_size: Images in a mini-batch.
    """
    shared = asim.datasets.partition(
        asim.datasets.digits(), clients, by="mixture", alpha=alpha, least=batch_size, seed=PARTITION_SEED
    )
    workload = asim.workloads.mlp(shared, (hidden,), batch_size)
    measure = Partial(gradient_norm, Partial(workload.loss), workload.device_data)
    grid = np.linspace(seconds / POINTS, seconds, POINTS)
    found: dict[str, list[Any]] = {"method": [], "step_size": [], "curves": [], "commits": [], "worst": []}
    for name, (make, arguments, protocol, step_sizes, _) in METHODS.items():
        lanes = side_by_side(step_sizes, 1)
        first = schedule(clients, protocol, seconds, 0)
        tuned = replay(first, make(lanes.values, **arguments), workload, lanes.seeds, measure)
        ends = np.where(np.isfinite(tuned.records["gradient"][:, -1]), tuned.records["gradient"][:, -1], np.inf)
        step = float(lanes.values[ends.argmin()])
        curves, commits, worst = [], [], []
        for seed in range(seeds):
            trace = first if seed == 0 else schedule(clients, protocol, seconds, seed)
            run = replay(trace, make(step, **arguments), workload, seed, measure)
            curves.append(values_at(trace, run, grid))
            commits.append(len(trace))
            worst.append(run.evaluate_workers()["worker_loss"].max())
        values = {"method": name, "step_size": step, "curves": curves, "commits": np.mean(commits), "worst": worst}
        for key, value in values.items():
            found[key].append(value)
    table = {key: np.array(values) for key, values in found.items()}
    ends = table["curves"][:, :, -1]
    return {
        "method": table["method"],
        "step_size": table["step_size"],
        "median": np.median(ends, axis=1),
        "lower_quartile": np.quantile(ends, 0.25, axis=1),
        "upper_quartile": np.quantile(ends, 0.75, axis=1),
        "better_than_malenia": (ends < ends[list(METHODS).index("Malenia")]).mean(axis=1),
        "worst_client": np.median(table["worst"], axis=1),
        "commits": table["commits"],
        "curves": table["curves"],
        "seconds": grid,
        "label_counts": shared.label_counts,
    }


def schedule(clients: int, protocol: Any, seconds: float, seed: int) -> asim.Trace:
    """The schedule of a seed: who is how fast, and how long every job takes."""
    base = np.random.default_rng(seed).permutation(clients) + 1.0
    laws = [delays.HalfNormal(base=float(base[i]), spread=(i + 1) ** 0.5) for i in range(clients)]
    return asim.simulate(asim.Cluster(clients, laws, protocol=protocol), seconds=seconds, seed=seed)


def replay(trace: asim.Trace, rule: asim.Rule, workload: asim.Workload, seed: Any, measure: Any) -> asim.Run:
    """The run, with ‖∇f‖² recorded now and then and at its last commit but few."""
    every = max(1, len(trace) // RECORDS)
    return asim.replay(trace, rule, workload, seed=seed, record={"gradient": (measure, every)})


def gradient_norm(loss: Any, data: Any, commit: asim.CommitView) -> jax.Array:
    """‖∇f(θ)‖² of all images."""
    slope = jax.grad(loss)(commit.central, data, jax.random.key(0))
    return sum((jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(slope)), jnp.zeros(()))


def values_at(trace: asim.Trace, run: asim.Run, times: np.ndarray) -> np.ndarray:
    """What was recorded last before each time."""
    clock = trace.commit_time[run.recorded_at["gradient"]]
    return run.records["gradient"][np.maximum(np.searchsorted(clock, times, side="right") - 1, 0)]


def draw(figure, numbers) -> None:
    """Median and quartiles over the seeds; beside them, who has which labels."""
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    colors = [method[-1] for method in METHODS.values()]
    for name, curves, color in zip(numbers["method"], numbers["curves"], colors, strict=True):
        low, middle, high = np.quantile(curves, (0.25, 0.5, 0.75), axis=0)
        left.plot(numbers["seconds"], middle, color=color, label=str(name))
        left.fill_between(numbers["seconds"], low, high, color=color, alpha=0.2, linewidth=0)
    left.set(yscale="log", xlabel="simulated seconds", ylabel="‖∇f‖², median and quartiles of the seeds")
    left.legend()
    draw_label_counts(right, numbers["label_counts"])
    right.set_title("who has which labels")


experiment = asim.Experiment(compute, draw, title="Ringleader's experiment", size=(11.0, 4.6))

if __name__ == "__main__":
    asim.main(experiment)
