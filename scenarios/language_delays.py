"""What one late step does to the optimisers of a language model: AdamW and Muon with late gradients, for five seeds.

A transformer of 32 thousand parameters learns the topics of Python's interactive help by gradients that are all of one
age: n workers with equal, constant times commit in turn, so every gradient is n - 1 versions old, and a model that is
cut into six stages has gradients of age 5 at its first stage and 0 at its last. Left: the validation loss with delays
0, 1 and 5, each optimiser at its best step size for each delay. Right: the rise of the loss at the step size that is
best without delay, with uniform delays and in six stages.

One late step costs AdamW 0.305 ± 0.014 nats and Muon 0.089 ± 0.007 after 400 commits, each at its own best step size
(means and standard errors of five seeds). With a delay of five the two lose the same, 0.709 ± 0.012 and 0.686 ± 0.010,
but Muon's loss is lower at every delay. At a fixed step size six stages cost 0.58 of a uniform delay of five with
AdamW, and 0.35 of it with Muon. The 130 runs take about six minutes of CPU time.

    asyncsim run scenarios/language_delays.py
    asyncsim run scenarios/language_delays.py --commits 2000 --out runs/language_delays_long

Runs are kept one by one, so that the same command resumes an interrupted study.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import asyncsim as asim
from asyncsim.plots.style import BLUE, GREY, VERMILION

OPTIMISERS = {
    "AdamW": lambda step: asim.rules.ServerOptimiser(step, optimiser="adamw"),
    "Muon": lambda step: asim.rules.Muon(step),
}
COLOURS = {"AdamW": VERMILION, "Muon": BLUE}
FIXED = (2, 5, 8)  # delays at the best step size without delay
STAGES = 6  # of the pipeline, whose first stage has gradients of age 5
STEPS = {  # around the best step size of seed 0, by optimiser and delay
    ("AdamW", 0): (0.008, 0.016, 0.032),
    ("AdamW", 1): (0.002, 0.004, 0.008),
    ("AdamW", 5): (0.001, 0.002, 0.004),
    ("Muon", 0): (0.01, 0.02, 0.04),
    ("Muon", 1): (0.01, 0.02, 0.04),
    ("Muon", 5): (0.0025, 0.005, 0.01),
}

Plan = Mapping[tuple[str, Any], tuple[Any, Sequence[float]]]  # (optimiser, place) -> system and step sizes


def compute(commits=400, width=32, layers=2, seeds=5, store=None) -> dict[str, np.ndarray]:
    """Validation losses of both optimisers by delay and seed, at their best and at fixed step sizes.

    Args:
        commits: Length of each run.
        width: Numbers that represent a character.
        layers: Layers of the model.
        seeds: Seeds of initial parameters and mini-batches, each with all step sizes.
        store: Where runs are kept until all are done.
    """
    model = asim.workloads.Transformer(asim.datasets.Text(), layers, width)

    def measure(plan: Plan) -> dict[tuple[str, Any], np.ndarray]:
        """Return the (steps, seeds) validation losses of every entry, infinite where a run diverged."""
        runs = {
            (key, step, seed): asim.Scenario(
                system, OPTIMISERS[key[0]](step), model, commits=commits, seed=seed, record=()
            )
            for key, (system, steps) in plan.items()
            for step in steps
            for seed in range(seeds)
        }
        sweep = asim.sweep(runs.values(), store)
        ends = {key: sweep.result(run).summary["test_loss"] for key, run in runs.items()}
        return {
            key: np.array([[ends[key, step, seed] or np.inf for seed in range(seeds)] for step in steps])
            for key, (_, steps) in plan.items()
        }

    tables = measure({key: (of_delay(key[1]), steps) for key, steps in STEPS.items()})
    places = {key: int(np.median(table, axis=1).argmin()) for key, table in tables.items()}
    tuned = {key: tables[key][place] for key, place in places.items()}
    best = {key: STEPS[key][place] for key, place in places.items()}
    inside = {key: 0 < place < len(STEPS[key]) - 1 for key, place in places.items()}
    systems: dict[str, Any] = {f"delay {delay}": of_delay(delay) for delay in FIXED}
    systems["six stages"] = asim.Pipeline(STAGES, asim.delays.Constant(1.0))
    fixed = measure({(o, s): (system, [best[o, 0]]) for s, system in systems.items() for o in OPTIMISERS})
    pairs = list(tuned)
    return {
        "optimiser": np.array([name for name, _ in pairs]),
        "delay": np.array([delay for _, delay in pairs]),
        "step_size": np.array([best[pair] for pair in pairs]),
        "best_is_inside": np.array([inside[pair] for pair in pairs]),
        "loss": np.array([tuned[pair].mean() for pair in pairs]),
        "standard_error": np.array([error(tuned[pair]) for pair in pairs]),
        "rise": np.array([np.mean(tuned[pair] - tuned[pair[0], 0]) for pair in pairs]),
        "rise_error": np.array([error(tuned[pair] - tuned[pair[0], 0]) for pair in pairs]),
        "losses": np.array([tuned[pair] for pair in pairs]),
        "system": np.array(list(systems)),
        "fixed_losses": np.array([[fixed[name, system][0] for system in systems] for name in OPTIMISERS]),
    }


def of_delay(delay: int) -> asim.Cluster:
    """Return workers that commit in turn, so that every gradient is `delay` versions old once all have begun."""
    return asim.Cluster(delay + 1, asim.delays.Constant(1.0))


def error(differences: np.ndarray) -> float:
    """Return the standard error of a mean over seeds."""
    return float(np.std(differences, ddof=1) / np.sqrt(len(differences))) if len(differences) > 1 else np.nan


def draw(figure, numbers) -> None:
    """Losses of all seeds against the delay, and the rise at a fixed step size with its standard error."""
    left, right = figure.subplots(1, 2)
    for row, name in enumerate(OPTIMISERS):
        chosen = numbers["optimiser"] == name
        delays, losses = numbers["delay"][chosen], numbers["losses"][chosen]
        for delay, seeds in zip(delays, losses, strict=True):
            left.plot([delay] * len(seeds), seeds, "o", color=COLOURS[name], markersize=3)
        left.plot(delays, losses.mean(axis=1), color=COLOURS[name], label=name)
        rises = numbers["fixed_losses"][row] - losses[0]
        heights = np.arange(len(numbers["system"]))[::-1] + 0.15 - 0.3 * row
        errors = [error(rise) for rise in rises]
        right.errorbar(rises.mean(axis=1), heights, xerr=errors, fmt="o", color=COLOURS[name], markersize=4)
    left.set(xlabel="delay, versions", ylabel="validation loss, nats per character", title="Each at its best step size")
    left.legend()
    right.set_yticks(np.arange(len(numbers["system"]))[::-1], numbers["system"])
    right.axvline(0, color=GREY, linewidth=1)
    right.set(xlabel="rise of the loss, nats per character", title="At the best step size without delay")


experiment = asim.Experiment(compute, draw, title="Which optimiser may be late?", size=(11.0, 4.4))

if __name__ == "__main__":
    asim.main(experiment)
