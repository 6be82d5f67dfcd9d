"""Your DiLoCo in four numbers: seconds of a window, busy share, stable outer step and loss, in rounds and without.

You give the number of workers, the local steps H in a window, the parameters of your model, the bandwidth of a link and
the seconds of a local step. In rounds the workers exchange their displacements by a ring all-reduce. Asynchronously
each sends its own to a server with a link for each worker, and goes on with the newest parameters. The largest stable
outer step is theory's for a window that reaches its minimum (c = 1, which no curvature h with η·h ≤ 1 exceeds), without
delay in rounds and with a delay of n - 1 commits asynchronously. The loss is that of a small network on the digits,
whose messages take the time of yours, after the same simulated seconds.

    asyncsim run scenarios/diloco.py
    asyncsim run scenarios/diloco.py --workers 16 --window 100 --parameters 1e9 --gigabits 10 --step-seconds 0.4
"""

import numpy as np

import asyncsim as asim
from asyncsim import protocols, rules, theory
from asyncsim.plots.style import BLUE, GREEN, VERMILION
from asyncsim.reports.replicates import mean_and_error

KINDS = {
    "nesterov": rules.SharedNesterov,
    "damped": rules.DampedNesterov,
    "heavy_ball": rules.HeavyBall,
}  # outer optimisers that `theory.outer_limit` knows
BYTES = 4  # of a float32 parameter
GIGABIT = 1.25e8  # bytes
POINTS = 60  # of the curves


def compute(
    workers=4,
    window=32,
    parameters=30_846_720,
    gigabits=1.0,
    step_seconds=0.025,
    cv=0.1,
    latency=0.0,
    kind="nesterov",
    outer_step=0.7,
    momentum=0.9,
    learning_rate=1e-3,
    rounds=40,
    seeds=5,
) -> dict[str, np.ndarray]:
    """Times, stable outer steps and losses of three rows, all after the same simulated seconds.

    Args:
        workers: Number of workers, which torchft calls replica groups.
        window: Local steps in a window, H, or `sync_every`.
        parameters: Parameters of your model, float32.
        gigabits: Bandwidth of each worker's link, in Gbit/s.
        step_seconds: Mean seconds of a local step.
        cv: Coefficient of variation of the seconds of a local step, which are independent and gamma.
        latency: Seconds that a message takes besides its bytes.
        kind: Outer optimiser: "nesterov", "damped" or "heavy_ball".
        outer_step: Outer step size. The last row takes half of the largest stable one instead.
        momentum: Momentum of the outer optimiser.
        learning_rate: Step size of AdamW, the inner optimiser.
        rounds: Length of the runs, in rounds of the first row.
        seeds: Seeds of first parameters and mini-batches.
    """
    if kind not in KINDS:
        raise ValueError(f"`kind` must be one of {', '.join(KINDS)}; got {kind!r}.")
    law = asim.delays.Gamma(step_seconds, cv) if cv else asim.delays.Constant(step_seconds)
    link = {
        "latency": asim.delays.Constant(latency),
        "bandwidth": gigabits * GIGABIT,
        "message_bytes": BYTES * parameters,
    }
    ring, server = asim.Network(**link, collective="ring"), asim.Network(**link)
    together = asim.Cluster(workers, law, ring, protocol=protocols.Synchronous(), local_steps=window)
    in_rounds = asim.simulate(together, commits=workers * rounds)
    seconds = in_rounds.seconds
    late = asim.simulate(asim.Cluster(workers, law, server, local_steps=window), seconds=seconds)
    fresh, stale = (theory.outer_limit(momentum, delay, kind) for delay in (0, workers - 1))
    rows = {
        "rounds": (in_rounds, outer_step, fresh),
        "asynchronous": (late, outer_step, stale),
        "asynchronous, half the limit": (late, stale / 2, stale),
    }
    workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=(32,), batch_size=32)
    inner = {"window": window, "learning_rate": learning_rate, "optimiser": "adamw"}
    times, table, curves = np.linspace(0, seconds, POINTS + 1)[1:], [], []
    for trace, step, limit in rows.values():
        outer = KINDS[kind](step, momentum=momentum)
        run = asim.replay(trace, rules.local(outer, **inner), workload, seed=range(seeds))
        loss, error = mean_and_error(run.evaluate()["test_loss"])
        busy = (trace.finish_time - trace.start_time).sum() / (workers * seconds)
        table.append((workers * seconds / len(trace), busy, limit, step, loss, error))
        curves.append(np.interp(times, trace.commit_time, run.loss.mean(axis=0)))
    names = ("seconds_per_window", "busy_share", "stable_outer_step", "outer_step", "loss", "error")
    return {
        "row": np.array(list(rows)),
        **dict(zip(names, np.array(table).T, strict=True)),
        "seconds": np.array(seconds),
        "times": times,
        "curves": np.array(curves),
    }


def draw(figure, numbers) -> None:
    """Losses of the local steps over simulated seconds."""
    ax = figure.subplots()
    for name, color, curve in zip(numbers["row"], (BLUE, VERMILION, GREEN), numbers["curves"], strict=True):
        ax.plot(numbers["times"], curve, color=color, label=name)
    ax.set(xlabel="simulated seconds", ylabel="loss of the local steps", ylim=(0, 3))
    ax.legend()


experiment = asim.Experiment(compute, draw, title="Your DiLoCo", size=(6.4, 4.2))

if __name__ == "__main__":
    asim.main(experiment)
