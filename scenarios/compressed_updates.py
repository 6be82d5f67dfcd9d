"""Costs and gains of compressed updates: bytes against loss against seconds, behind slow uplinks.

Ten workers learn digits by asynchronous SGD. A job computes for a second; the central variable comes down in 0.4 s, and
an update, sent in full, goes up in 4 s: three quarters of a worker's time belong to its uplink. Each compressor runs
with its best step size of a grid, on the schedule that its own message sizes make. Left: test loss against the bytes
that a worker has sent; middle: against simulated seconds; right: seconds until a given test loss, with error feedback
and without.

Until a test loss of 0.15 it takes 222 s without compression, 90 to 114 s with a quarter to a tenth of the bytes, 54 s
with signs (a thirty-second) and 60 s with the top 1 % (a fiftieth); medians of three seeds. Conclusion: where the
uplink is the bottleneck, smaller messages win, because more commits fit into the same time, 3.0 times as many with a
tenth of the bytes, and error feedback makes up for the parts that each of them leaves out. Below a tenth the way down
and the job itself take most of the time: a fiftieth of the bytes adds only a fifth of the commits. Without error
feedback, biased compressors lose most of the gain if they are strong (144 s with signs, 180 s with the top 1 %, which
also ends at twice the loss), and unbiased ones need half the step size.

    asyncsim run scenarios/compressed_updates.py
    asyncsim run scenarios/compressed_updates.py --upload-seconds 0.4 --out runs/compressed_fast
"""

import jax
import numpy as np

import asyncsim as asim
from asyncsim import compressors
from asyncsim.compressors import Compressor
from asyncsim.plots.style import AMBER, BLUE, GREEN, GREY, INK, PINK, SKY, VERMILION
from asyncsim.reports.replicates import batched

COMPRESSORS: dict[str, tuple[Compressor, str]] = {
    "none": (compressors.Identity(), INK),
    "natural": (compressors.Natural(), GREY),
    "top 10 %": (compressors.TopK(0.1), SKY),
    "QSGD, 7 levels": (compressors.QSGD(7), GREEN),
    "random 10 %": (compressors.RandK(0.1), AMBER),
    "rank 2": (compressors.LowRank(2), PINK),
    "signs": (compressors.ScaledSign(), BLUE),
    "top 1 %": (compressors.TopK(0.01), VERMILION),
}
POINTS = 100  # of a curve
TICKS = (30, 60, 100, 200, 400)  # seconds
FEEDBACK = (True, False)


def compute(
    workers=10,
    seconds=600.0,
    upload_seconds=4.0,
    download_seconds=0.4,
    step_sizes=(0.05, 0.1, 0.2, 0.4),
    target=0.15,
    hidden=(64,),
    batch_size=16,
    seeds=3,
) -> dict[str, np.ndarray]:
    """Test losses over time with every compressor, each with its best step size.

    Args:
        workers: Number of workers, whose jobs compute for one second on average.
        seconds: Simulated seconds.
        upload_seconds: Seconds that an update in full takes on a worker's link.
        download_seconds: Seconds that the central variable takes.
        step_sizes: Step sizes to choose from, by the median test loss at the end.
        target: The test loss whose time is looked up.
        hidden: Widths of the hidden layers.
        batch_size: Examples in a mini-batch.
        seeds: Seeds of initial parameters, mini-batches and draws, on one schedule.
    """
    workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=tuple(hidden), batch_size=batch_size)
    params = jax.eval_shape(workload.init, jax.random.key(0))
    full = asim.rules.message_bytes(asim.rules.Downpour(0.1), params)
    network = asim.Network(bandwidth=full / download_seconds, upload_bandwidth=full / upload_seconds)
    cluster = asim.Cluster(workers, asim.delays.Gamma(1.0, cv=0.3), network=network)
    times = np.linspace(seconds / POINTS, seconds, POINTS)
    lanes = batched(np.array(step_sizes), seeds)
    rows = []
    for compressor, _ in COMPRESSORS.values():
        for feedback in FEEDBACK:
            rule = asim.rules.compressed(asim.rules.Downpour(step_sizes[0]), compressor, feedback)
            trace = asim.Scenario(cluster, rule, workload, seconds=seconds).simulate()
            several = asim.rules.compressed(asim.rules.Downpour(lanes.values), compressor, feedback)
            record = {"test_loss": max(1, len(trace) // POINTS)}
            run = asim.replay(trace, several, workload, seed=lanes.seeds, record=record)
            losses = asim.central_against_time(trace, run, "test_loss", times)[1].reshape(seeds, -1, POINTS)
            best = int(np.median(np.nan_to_num(losses[..., -1], nan=np.inf), axis=0).argmin())
            rows.append(
                {
                    "bytes": asim.rules.message_bytes(rule, params),
                    "commits": np.searchsorted(trace.commit_time, times, side="right"),
                    "step_size": step_sizes[best],
                    "test_loss": losses[:, best],
                    "seconds_to_target": [first_time(times, one, target) for one in losses[:, best]],
                }
            )
    shape = (len(COMPRESSORS), len(FEEDBACK))
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return {
        "compressor": np.array(list(COMPRESSORS)),
        "times": times,
        "workers": np.array(workers),
        "target": np.array(target),
        **{name: column.reshape(*shape, *column.shape[1:]) for name, column in columns.items()},
    }


def first_time(times: np.ndarray, losses: np.ndarray, target: float) -> float:
    """When a loss is first at most the target; infinity if it never is."""
    reached = losses <= target
    return float(times[reached.argmax()]) if reached.any() else np.inf


def draw(figure, numbers) -> None:
    """Loss against bytes, loss against seconds, and seconds against the size of an update."""
    left, middle, right = figure.subplots(1, 3)
    losses = np.median(numbers["test_loss"][:, 0], axis=1)
    sent = numbers["commits"][:, 0] * numbers["bytes"][:, :1] / numbers["workers"]
    for place, name in enumerate(numbers["compressor"]):
        color = COMPRESSORS[str(name)][1]
        left.plot(sent[place], losses[place], color=color, linewidth=1.4)
        middle.plot(numbers["times"], losses[place], color=color, linewidth=1.4, label=name)
    for ax in (left, middle):
        ax.set(yscale="log", ylabel="test loss")
    left.set(xscale="log", xlabel="bytes that a worker has sent", title="For the same bytes")
    middle.set(xlabel="simulated seconds", title="In the same time")
    middle.legend(fontsize="small")
    draw_target(right, numbers)


def draw_target(ax, numbers) -> None:
    """Seconds until the target, against the size of an update; the others stand on a line at the end."""
    last = numbers["times"][-1]
    seconds = np.minimum(np.median(numbers["seconds_to_target"], axis=2), last)
    for place, name in enumerate(numbers["compressor"]):
        color = COMPRESSORS[str(name)][1]
        size = numbers["bytes"][place, 0]
        ax.plot([size, size], seconds[place], color=color, linewidth=1)
        ax.plot(size, seconds[place, 1], "o", color=color, markerfacecolor="white", markersize=7)
        ax.plot(size, seconds[place, 0], "o", color=color, markersize=7)
    if (seconds == last).any():
        ax.axhline(last, color=GREY, linewidth=1)
    ax.plot([], [], "o", color=INK, label="with error feedback")
    ax.plot([], [], "o", color=INK, markerfacecolor="white", label="without")
    ax.set(xscale="log", yscale="log", xlabel="bytes of an update", ylabel="simulated seconds")
    ax.set_title(f"Until a test loss of {float(numbers['target']):g}")
    ax.set_yticks(TICKS, [str(tick) for tick in TICKS])
    ax.minorticks_off()
    ax.legend(fontsize="small")


experiment = asim.Experiment(compute, draw, title="Smaller updates behind slow uplinks", size=(13.0, 4.6))

if __name__ == "__main__":
    asim.main(experiment)
