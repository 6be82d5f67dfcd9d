"""What a fitted cluster would do with another number of workers, with the band that the fit leaves open."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from asyncsim import theory
from asyncsim._checks import require_integer
from asyncsim.calibration._fit import Fit
from asyncsim.calibration._statistics import REPLICATES
from asyncsim.calibration._transforms import LEVEL
from asyncsim.cluster import Cluster, simulate
from asyncsim.delays import Constant, Exponential
from asyncsim.delays._per_worker import expand

LEAST_PER_WORKER = 60  # commits of a simulation
LEAST_COMMITS = 2000
MOST = 3  # times the log's workers, up to which a server whose service it does not show is trusted to keep up
LEAST_MOST = 4  # workers, for whom it always is
QUEUE = ("throughput", "staleness", "sd of staleness", "gap")  # statistics in which one that is not modelled shows
WARM_UP = 0.2  # share of the commits that do not count

TEMPLATE = '''"""What the cluster that was calibrated from {log} would do with another number of workers.

    asyncsim run {folder}/scenario.py --workers 40

The band holds what the log leaves open. `FIT.with_workers(n)` is the fitted cluster for scenarios of your own:
`asim.Scenario(rule=…, workload=…, cluster=FIT.with_workers(40))`.
"""

from pathlib import Path

import numpy as np

import asyncsim as asim
from asyncsim import plots
from asyncsim.calibration import ladder, what_if

FIT = asim.Fit.load(Path(__file__).with_name("fit.json"))


def compute(
    workers={workers}, least=1, points=6, draws=16, seed=0, fit=str(Path(__file__).with_name("fit.json"))
) -> dict[str, np.ndarray]:
    """Throughput and staleness of clusters drawn from the fit, against the number of workers.

    Args:
        workers: The largest number of workers.
        least: The smallest.
        points: How many numbers of workers.
        draws: Clusters for each of them.
        seed: Of the simulations.
        fit: The calibration.
    """
    return what_if(asim.Fit.load(fit), ladder(least, workers, points), draws=draws, seed=seed)


def draw(figure, numbers) -> None:
    """Throughput and staleness, with the band of the fit."""
    for ax, name, label in zip(
        figure.subplots(1, 2), ("throughput", "staleness"), ("commits per second", "mean staleness"), strict=True
    ):
        predicted = numbers[f"predicted_{{name}}"]
        ends = [numbers[f"{{name}}{{end}}"] for end in ("_low", "", "_high")]
        plots.draw_band(ax, numbers["workers"], *ends, theory=predicted if np.isfinite(predicted).all() else None)
        ax.set(ylabel=label, ylim=(0, None))
        ax.legend(fontsize="small")


experiment = asim.Experiment(compute, draw, title="The fitted cluster with other numbers of workers", size=(9.6, 4.6))

if __name__ == "__main__":
    asim.main(experiment)
'''


def what_if(fit: Fit, workers: Sequence[int], *, draws: int = 16, seed: int = 0) -> dict[str, NDArray[np.float64]]:
    """Throughput and mean staleness against the number of workers.

    For each number, clusters drawn from the fit are simulated, each once; the band holds what the log leaves open and
    the chance of a run of some 60 commits a worker.

    Args:
        fit: The calibration.
        workers: Numbers of workers; more than the log's repeat its workers in order.
        draws: Clusters for each number.
        seed: Of the simulations.

    Returns:
        Arrays of the length of `workers`: "workers"; "throughput" (the median, in commits per second),
        "throughput_low" and "throughput_high" (5 and 95 %), and the same for "staleness"; "predicted_throughput",
        where theory knows it (no service, or an exponential one), otherwise NaN; and "predicted_staleness", n - 1.

    Raises:
        ValueError: If a number is not an integer of at least 1, or the log does not show what n workers would do: its
            columns mix messages with queue and service; or they show no service, and workers without a queue do not
            make such a log, or are more than three times as many, for whom a service too short to be seen may be too
            long. The message names the columns that are needed; `fit.with_workers` says what the fit alone would say.

    Example:
        >>> import asyncsim as asim
        >>> log = asim.simulate(asim.Cluster(4, asim.delays.Exponential(1.0)), commits=1000)
        >>> found = what_if(asim.calibrate(log, law="exponential"), [4, 8], draws=4)
        >>> found["throughput"].round().tolist(), found["predicted_staleness"].tolist()
        ([4.0, 8.0], [3.0, 7.0])
    """
    numbers = [require_integer("workers", n, least=1, remedy="Use one worker or more.") for n in workers]
    _require_identified(fit, max([n for n in numbers if n != fit.workers], default=0))
    rows = []
    for n in numbers:
        commits = max(LEAST_COMMITS, LEAST_PER_WORKER * n)
        found = [_simulated(one, commits, seed + i) for i, one in enumerate(fit.sample(draws, seed=seed, workers=n))]
        ends = np.quantile(found, [0.5, (1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        rows.append([*ends.T.ravel(), _predicted(fit.with_workers(n)), n - 1])
    names = [f"{name}{end}" for name in ("throughput", "staleness") for end in ("", "_low", "_high")]
    columns = np.array(rows, np.float64).T
    return {
        "workers": np.array(numbers),
        **dict(zip([*names, "predicted_throughput", "predicted_staleness"], columns, strict=True)),
    }


def ladder(least: int, most: int, steps: int = 6) -> list[int]:
    """Whole numbers from one to another, evenly.

    Args:
        least, most: The first and the last number.
        steps: How many numbers, at least 1. If some are equal after rounding, they count once.

    Example:
        >>> ladder(1, 40), ladder(12, 12)
        ([1, 9, 17, 24, 32, 40], [12])
    """
    remedy = "Give numbers of workers, the larger one last."
    least = require_integer("least", least, least=1, remedy=remedy)
    most = require_integer("most", most, least=least, remedy=remedy)
    steps = require_integer("steps", steps, least=1, remedy="1 gives the first alone.")
    return sorted({round(n) for n in np.linspace(least, most, steps).tolist()})


def _require_identified(fit: Fit, most: int) -> None:
    """Refuse a number of workers for which the answer depends on a queue that the log does not show."""
    if not most or fit.model.shows_service:
        return
    without = "upload" in fit.model.stages or fit.cluster.server.is_instant
    why = None
    if fit.mixed:
        why = "its times from finish to commit mix messages, queue and service"
    elif without and most > max(MOST * fit.workers, LEAST_MOST):
        why = f"it shows no service, which may limit more than {MOST} times its {fit.workers} workers"
    elif odd := [name for name in fit.check(REPLICATES).refuted if name.startswith(QUEUE)]:
        why = f"the fit, whose queue it does not show, does not produce its {odd[0]}"
    if why is not None:
        remedy = "Log `arrive_time` and `serve_time`, or fit a `model` with a network and a server."
        raise ValueError(f"`workers` of {most} cannot be answered from the log: {why}. {remedy}")


def _simulated(cluster: Cluster, commits: int, seed: int) -> tuple[float, float]:
    trace = simulate(cluster, commits=commits, seed=seed)
    begin = int(WARM_UP * commits)
    rate = (commits - 1 - begin) / (trace.commit_time[-1] - trace.commit_time[begin])
    return rate, float(trace.staleness[begin:].mean())


def _predicted(cluster: Cluster) -> float:
    """Commits per second in the long run; NaN where no closed form is known."""
    latency = expand(cluster.network.latency, 1)[0].mean
    means = [law.mean for law in cluster.laws]
    if cluster.server.is_instant:
        return float(sum(1 / (mean + 2 * latency) for mean in means))
    if isinstance(cluster.server.service, Exponential) and len(set(means)) == 1:
        delays = [Constant(means[0]), Constant(2 * latency)]
        network = theory.mean_value_analysis(
            workers=cluster.workers, service=cluster.server.service, delays=delays, slots=cluster.server.slots
        )
        return network.throughput
    return float("nan")


def scenario_script(log: str, folder: str, workers: int) -> str:
    """The text of the script."""
    safe = [text.replace("\\", "/").replace('"', "'") for text in (log, folder)]
    return TEMPLATE.format(log=safe[0], folder=safe[1], workers=workers)


def own_part(script: str) -> str:
    """A script without what differs from log to log, so that one that somebody changed is noticed."""
    return re.sub(r"workers=\d+, least", "", script[script.find("from pathlib") :])
