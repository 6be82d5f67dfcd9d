"""Whom to wait for if one job in twenty takes ten times as long: loss against simulated time for six protocols.

Sixteen workers learn the digits with DOWNPOUR. Synchronous rounds wait for the slowest of sixteen, and more than half
of the rounds have a straggler; a few backup workers avoid most of the waiting; K-async and asynchronous workers never
wait, at the price of stale gradients. Each protocol is shown at its own best step size of a grid; all seeds and step
sizes are replayed side by side, on one schedule per protocol.

    asyncsim run scenarios/stragglers.py
    asyncsim run scenarios/stragglers.py --probability 0 --out runs/no_stragglers
"""

import numpy as np

import asyncsim as asim
from asyncsim import protocols, theory
from asyncsim.plots import draw_seeds
from asyncsim.reports.replicates import batched

STEP_SIZES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
PROTOCOLS = {
    "synchronous": protocols.Synchronous(),
    "backup 4": protocols.Synchronous(backup=4),
    "SSP, slack 3": protocols.SSP(3),
    "4-async": protocols.KAsync(4),
    "4-batch-async": protocols.KBatchAsync(4),
    "asynchronous": protocols.Asynchronous(),
}
INTERVALS = 40


def compute(workers=16, probability=0.05, factor=10.0, seconds=200.0, seeds=3, batch_size=16) -> dict[str, np.ndarray]:
    """Training loss of every protocol in equal intervals of the simulated time.

    Args:
        workers: Number of workers.
        probability: Share of the jobs that straggle.
        factor: How many times as long these take.
        seconds: Simulated seconds.
        seeds: Seeds of initial parameters and mini-batches, each with all step sizes.
        batch_size: Examples in a mini-batch.
    """
    law = asim.delays.Straggler(asim.delays.Gamma(mean=1.0, cv=0.2), probability=probability, factor=factor)
    workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=batch_size)
    lanes = batched(STEP_SIZES, seeds)
    edges = np.linspace(0.0, seconds, INTERVALS + 1)
    curves, rows = [], []
    for protocol in PROTOCOLS.values():
        trace = asim.simulate(asim.Cluster(workers, law, protocol=protocol), seconds=seconds)
        run = asim.replay(trace, asim.rules.Downpour(lanes.values), workload, seed=lanes.seeds)
        losses = asim.loss_against_time(trace, run, edges).reshape(seeds, len(STEP_SIZES), INTERVALS)
        lost = np.array([commit is not None for commit in run.divergences]).reshape(seeds, len(STEP_SIZES))
        # Long rounds leave intervals without a commit, but not a quarter of the time.
        ends = np.where(lost, np.inf, np.nanmean(losses[:, :, -INTERVALS // 4 :], axis=2)).mean(axis=0)
        best = int(ends.argmin())
        curves.append(losses[:, best])
        rows.append((STEP_SIZES[best], trace.seconds / trace.steps, trace.staleness.mean(), ends[best]))
    table = np.array(rows).T
    return {
        "protocol": np.array(list(PROTOCOLS)),
        "step_size": table[0],
        "seconds_per_step": table[1],
        "predicted": np.array([predicted_seconds(law, workers, protocol) for protocol in PROTOCOLS.values()]),
        "staleness": table[2],
        "last_loss": table[3],
        "time": (edges[1:] + edges[:-1]) / 2,
        "curves": np.array(curves),
    }


def predicted_seconds(law: asim.delays.Delay, workers: int, protocol: protocols.CommitProtocol) -> float:
    """Seconds per step if theory knows them for any law; otherwise NaN."""
    if isinstance(protocol, protocols.Synchronous):
        counted = workers - protocol.backup
        return float(theory.expected_order_statistic(law, k=counted, n=workers))
    if isinstance(protocol, (protocols.Asynchronous, protocols.KBatchAsync)):
        return law.mean * getattr(protocol, "k", 1) / workers
    return float("nan")


def draw(figure, numbers) -> None:
    """Median and range over the seeds."""
    ax = figure.subplots()
    for name, step, curves in zip(numbers["protocol"], numbers["step_size"], numbers["curves"], strict=True):
        full = np.isfinite(curves).all(axis=0)  # rounds can be longer than an interval
        draw_seeds(ax, numbers["time"][full], curves[:, full], label=f"{name}, step size {step:g}")
    ax.set(yscale="log", xlabel="simulated seconds", ylabel="training loss")
    ax.legend(bbox_to_anchor=(1.01, 1), loc="upper left")


experiment = asim.Experiment(compute, draw, title="Stragglers: whom to wait for", size=(9.0, 4.8))

if __name__ == "__main__":
    asim.main(experiment)
