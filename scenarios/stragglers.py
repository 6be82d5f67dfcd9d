"""Whom to wait for, when one job in twenty takes ten times as long: loss against the clock for six protocols.

Sixteen workers learn the digits with DOWNPOUR. Synchronous rounds wait for the slowest of sixteen, and more than half
of the rounds have a straggler; a few backup workers cure most of it; K-async and asynchronous commits never wait, at
the price of stale gradients. Each protocol is shown at its own best step size of a grid, all seeds and step sizes
being replayed side by side over one schedule a protocol.

    asyncsim run scenarios/stragglers.py
    asyncsim run scenarios/stragglers.py --probability 0 --out runs/no_stragglers
"""

import numpy as np

import asyncsim as asim
from asyncsim import protocols, theory

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


def compute(
    workers: int = 16,
    probability: float = 0.05,
    factor: float = 10.0,
    seconds: float = 200.0,
    seeds: int = 3,
    batch_size: int = 16,
) -> dict[str, np.ndarray]:
    """Training loss of every protocol in equal intervals of the simulated time.

    Args:
        workers: Number of workers.
        probability: Share of the jobs that straggle.
        factor: By how much these take longer.
        seconds: Simulated seconds.
        seeds: Seeds of first parameters and mini-batches, each with all step sizes.
        batch_size: Examples in a mini-batch.
    """
    law = asim.delays.Straggler(asim.delays.Gamma(mean=1.0, cv=0.2), probability=probability, factor=factor)
    workload = asim.workloads.mlp(asim.datasets.digits(), hidden=(32,), batch_size=batch_size)
    grid = np.tile(STEP_SIZES, seeds)
    edges = np.linspace(0.0, seconds, INTERVALS + 1)
    curves, rows = [], []
    for protocol in PROTOCOLS.values():
        trace = asim.simulate(asim.Cluster(workers, law, protocol=protocol), seconds=seconds)
        run = asim.replay(
            trace, asim.rules.downpour(grid), workload, seed=[s for s in range(seeds) for _ in STEP_SIZES]
        )
        losses = asim.loss_against_time(trace, run, edges).reshape(seeds, len(STEP_SIZES), INTERVALS)
        lost = np.array([commit is not None for commit in run.divergences]).reshape(seeds, len(STEP_SIZES))
        # Long rounds leave intervals without a commit: the last quarter holds some.
        ends = np.where(lost, np.inf, np.nanmean(losses[:, :, -INTERVALS // 4 :], axis=2)).mean(axis=0)
        best = int(ends.argmin())
        curves.append(losses[:, best])
        rows.append((STEP_SIZES[best], trace.seconds / trace.steps, trace.staleness.mean(), ends[best]))
    table = np.array(rows).T
    return {
        "protocol": np.array(list(PROTOCOLS)),
        "step_size": table[0],
        "seconds_a_step": table[1],
        "predicted": np.array([predicted_seconds(law, workers, protocol) for protocol in PROTOCOLS.values()]),
        "staleness": table[2],
        "last_loss": table[3],
        "time": (edges[1:] + edges[:-1]) / 2,
        "curves": np.array(curves),
    }


def predicted_seconds(law: asim.delays.Delay, workers: int, protocol: protocols.CommitProtocol) -> float:
    """Seconds a step where theory knows them for any law, else NaN."""
    if isinstance(protocol, protocols.Synchronous):
        counted = workers - protocol.backup
        return float(theory.expected_order_statistic(law, k=counted, n=workers))
    if isinstance(protocol, (protocols.Asynchronous, protocols.KBatchAsync)):
        return law.mean * getattr(protocol, "k", 1) / workers
    return float("nan")


def draw(figure, numbers) -> None:
    """Median over the seeds, with their range."""
    ax = figure.subplots()
    for name, step, curves in zip(numbers["protocol"], numbers["step_size"], numbers["curves"], strict=True):
        there = np.isfinite(curves).all(axis=0)
        (line,) = ax.plot(numbers["time"][there], np.median(curves, axis=0)[there], label=f"{name}, step size {step:g}")
        low, high = curves.min(axis=0)[there], curves.max(axis=0)[there]
        ax.fill_between(numbers["time"][there], low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    ax.set(yscale="log", xlabel="simulated seconds", ylabel="training loss")
    ax.legend(bbox_to_anchor=(1.01, 1), loc="upper left")


experiment = asim.Experiment(compute, draw, title="Stragglers: whom to wait for", size=(9.0, 4.8))

if __name__ == "__main__":
    asim.main(experiment)
