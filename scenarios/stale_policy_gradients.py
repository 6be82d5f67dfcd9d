"""Stale policy gradients are asynchronous SGD: how large a step may be when the data come from an older policy.

A policy writes 8 bits and is rewarded if at least 6 of them are 1; a penalty keeps it close to uniform bits. Rollouts
with the order "submission" and the lead s give data that are exactly s versions old. If the trainer ignores that (the
estimator "none"), its expected gradient is that of the *old* parameters, because the mean advantage is 0. The training
is therefore asynchronous SGD with a constant delay, which is stable for step sizes below (2/λ)·sin(π/(2(2s + 1))) with
the largest curvature λ = .0346 at the optimum: 57.9, 28.9, 17.9, 10.1 and 5.3 for s = 0, 1, 2, 4 and 8. The measured
limits agree within one hundredth, the spacing of the step sizes that are tried.

Above the limit, at 1.5 times the step size that staleness 4 allows, the uncorrected estimator does not settle. Weights
for whole sequences nearly repair this, and PPO's clip does. Weights for single tokens make it worse.

    asyncsim run scenarios/stale_policy_gradients.py
    asyncsim run scenarios/stale_policy_gradients.py --excess 2 --samples 16 --out runs/larger_steps
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import asyncsim as asim
from asyncsim import delays
from asyncsim.plots.style import BLUE, GREY, INK, VERMILION
from asyncsim.theory import constant_delay_limit

ESTIMATORS: tuple[Any, ...] = ("none", "token", "sequence", "ppo")
COLOURS = (INK, GREY, BLUE, VERMILION)
DISTANCE = 1e-3  # from the optimum, at which the search for the limit begins
SETTLED = 1e-5  # distance that counts as the optimum in single precision
FACTORS = np.linspace(0.9, 1.1, 21)  # of the predicted limit


def compute(
    least=6, bits=8, penalty=0.1, staleness=(0, 1, 2, 4, 8), steps=800, excess=1.5, samples=64, batch=2, seeds=4
) -> dict[str, np.ndarray]:
    """Predicted and measured limits, and how estimators fare above the limit.

    Args:
        least: Ones that are rewarded.
        bits: Bits of a sequence.
        penalty: Weight of the divergence from uniform bits.
        staleness: Versions by which the data are older, a whole number for each measured limit.
        steps: Steps of each run.
        excess: Step size of the estimators over the limit, at the second-largest staleness.
        samples: Sequences of a group.
        batch: Groups of a step.
        seeds: Runs of each estimator.
    """
    problem = {"least": least, "bits": bits, "penalty": penalty}
    theta, curvature = asim.workloads.Bits(**problem).optimum()
    predicted = np.array([constant_delay_limit(one) / curvature for one in staleness])
    exact = asim.workloads.Bits(**problem, start=theta + DISTANCE)
    measured = [
        limit * factor_of_limit(exact, theta, limit, schedule(one, steps, 1))
        for one, limit in zip(staleness, predicted, strict=True)
    ]
    trace, rate = schedule(staleness[-2], steps // 2, batch), excess * predicted[-2]
    runs = [
        asim.replay(
            trace,
            asim.rules.Downpour(rate),
            asim.workloads.Bits(**problem, samples=samples, estimator=estimator),
            seed=list(range(seeds)),
            record={"central": batch, "effective_sample_size": batch},
        )
        for estimator in ESTIMATORS
    ]
    return {
        "staleness": np.array(staleness),
        "predicted": predicted,
        "measured": np.array(measured),
        "curvature": np.array(curvature),
        "estimator": np.array(ESTIMATORS),
        "learning_rate": np.array(rate),
        "objective": objectives(exact, np.stack([run.unpacked("central")["theta"] for run in runs])).mean(axis=1),
        "best": np.array(float(exact.evaluate({"theta": jnp.asarray(theta)})["objective"])),
        "effective_sample_size": np.array([run.records["effective_sample_size"].mean() for run in runs]),
    }


def schedule(staleness: int, steps: int, batch: int) -> asim.Trace:
    """Steps whose data are exactly s versions old, after the first ones."""
    rollouts = asim.Rollouts(
        slots=batch * (staleness + 2),
        group=1,
        batch=batch,
        generate=delays.Uniform(0.5, 0.9),
        train=delays.Constant(1.0),
        lead=staleness,
        order="submission",
    )
    return asim.simulate(rollouts, commits=steps * batch)


def factor_of_limit(workload: asim.Workload, theta: np.ndarray, limit: float, trace: asim.Trace) -> float:
    """Between the largest stable and the smallest unstable step size, over the predicted limit."""
    rule, seeds = asim.rules.Downpour(limit * FACTORS), [0] * len(FACTORS)
    run = asim.replay(trace, rule, workload, seed=seeds, record={"central": 1}, stop_on_divergence=False)
    distance = np.abs(run.records["central"] - theta).max(axis=-1)
    second, *_, last = np.array_split(distance, 4, axis=1)[1:]
    grows = (last.max(axis=1) > second.max(axis=1)) & (last.max(axis=1) > SETTLED)
    first = int(grows.argmax()) if grows.any() else len(FACTORS) - 1
    return float(FACTORS[max(first - 1, 0) : first + 1].mean())


def objectives(workload: asim.workloads.Bits, theta: np.ndarray) -> np.ndarray:
    """(estimators, seeds, records) the exact objective, compiled once."""
    found = jax.vmap(jax.vmap(jax.vmap(lambda one: workload.evaluate({"theta": one})["objective"])))
    return np.asarray(jax.jit(found)(jnp.asarray(theta)))


def draw(figure, numbers) -> None:
    """The limits, and the objective over the steps for every estimator."""
    left, right = figure.subplots(1, 2, width_ratios=(1, 2))
    left.plot(numbers["staleness"], numbers["predicted"], color=GREY, label="predicted")
    left.plot(numbers["staleness"], numbers["measured"], "o", color=INK, label="measured")
    left.set(xlabel="staleness, in versions", ylabel="largest stable step size", yscale="log")
    left.set_yticks(ticks := [5, 10, 20, 40, 60], [str(tick) for tick in ticks])
    left.minorticks_off()
    left.legend()
    for estimator, values, colour in zip(numbers["estimator"], numbers["objective"], COLOURS, strict=True):
        right.plot(np.arange(1, len(values) + 1), values, color=colour, label=str(estimator))
    right.axhline(numbers["best"], color=GREY, linestyle=":", label="largest possible")
    title = f"staleness {numbers['staleness'][-2]}, step size {float(numbers['learning_rate']):.1f}"
    right.set(xlabel="step", ylabel="reward minus penalty", title=title)
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower right", ncols=5)


experiment = asim.Experiment(compute, draw, title="Stale policy gradients are asynchronous SGD", size=(10.0, 4.2))

if __name__ == "__main__":
    asim.main(experiment)
