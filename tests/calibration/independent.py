"""Calibration judged by 66 logs of a simulator that shares no code with asyncsim.

    python -m tests.calibration.independent            # the table, some minutes
    python -m tests.calibration.independent --first 6  # the first clusters only
    python -m tests.calibration.independent --seeds 3  # three logs of each

22 clusters, each with the logs of three sets of columns. Of every parameter that is called identified, does the 90 %
interval hold the truth? And is the throughput with a third, twice and three times as many workers (of the first log)
within 20 % of the truth, or refused?
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest

import asyncsim as asim
from asyncsim.calibration import Fit, what_if
from tests.calibration import heap
from tests.calibration.heap import Cluster, Law, gamma, lognormal, straggler, weibull

WORKERS, COMMITS = 12, 1200
ASKED = (4, 24, 36)  # numbers of workers
NEAR = 0.2  # of the truth
SEEN = {
    "commits": ("worker", "commit_time"),
    "four": ("worker", "commit_time", "read_time", "finish_time"),
    "all": heap.COLUMNS,
}
MESSAGES, SERVICE = gamma(0.1, 0.5), gamma(0.05, 0.3)
COMPUTE = (gamma(1.0, 0.3), lognormal(1.0, 0.5), weibull(1.0, 1.5), straggler(1.0, 0.2, 0.08, 4.0))


class Judged(NamedTuple):
    """One log."""

    name: str  # of cluster and columns
    held: dict[str, bool]  # parameter that is called identified -> whether its interval holds the truth
    errors: dict[int, float]  # number of workers -> relative error of the throughput, NaN if refused


def clusters() -> dict[str, Cluster]:
    """Name -> cluster: every law with and without messages and queue, and six of another spread."""
    found = {}
    for compute in COMPUTE:
        for latency in (None, MESSAGES):
            for service in (None, SERVICE):
                found[_name(compute.name, latency, service)] = Cluster(WORKERS, compute, latency, service)
    wide, slow = gamma(1.0, 1.0), lognormal(0.03, 1.0)
    for latency, service in ((None, None), (MESSAGES, None), (None, slow), (MESSAGES, slow)):
        found[_name("gamma cv 1", latency, service)] = Cluster(WORKERS, wide, latency, service)
    found["lognormal, long messages"] = Cluster(WORKERS, COMPUTE[1], lognormal(0.4, 0.5), None)
    found["gamma, full queue"] = Cluster(WORKERS, COMPUTE[0], None, gamma(0.1, 0.5))
    return found


def judge(name: str, cluster: Cluster, columns: str, seed: int, asked: Sequence[int] = ASKED) -> Judged:
    """Fit one log and compare with the truth."""
    fit = asim.calibrate(logged(cluster, columns, COMMITS, seed), method="likelihood", seed=seed)
    truth = true_parameters(cluster, columns)
    held = {
        key: one.low <= truth[key] <= one.high
        for key, one in fit.parameters.items()
        if one.identifiable and key in truth
    }
    errors = {n: answer(fit, n, draws=8) / heap.throughput(cluster, n, commits=20_000) - 1 for n in asked}
    return Judged(f"{name}; {columns}", held, errors)


def logged(cluster: Cluster, columns: str, commits: int, seed: int) -> asim.Trace:
    """The log of a cluster, with some of its columns."""
    log = heap.simulate(cluster, commits, seed)
    return asim.Trace.from_columns({column: log[column] for column in SEEN[columns]}, cluster.workers)


def answer(fit: Fit, workers: int, draws: int) -> float:
    """Commits per second, or NaN if refused."""
    try:
        return float(what_if(fit, [workers], draws=draws)["throughput"][0])
    except ValueError:
        return math.nan


def true_parameters(cluster: Cluster, columns: str) -> dict[str, float]:
    """Mean and cv of what the columns show: a stage, or several together where no time lies between them."""
    none = Law("none", lambda r: 0.0, 0.0, 0.0)
    latency, service = cluster.latency or none, cluster.service or none
    if columns == "commits":
        return dict(zip(("compute.mean", "compute.cv"), _cycles(cluster), strict=True))
    if columns == "four":
        found = {"compute": _sum(latency, cluster.compute), "upload": _sum(latency, service)}
    else:
        found = {"compute": _sum(cluster.compute), "network.latency": _sum(latency)}
    found["server.service"] = _sum(service)
    return {f"{stage}.{name}": pair[i] for stage, pair in found.items() for i, name in enumerate(("mean", "cv"))}


def _sum(*laws: Law) -> tuple[float, float]:
    mean = sum(law.mean for law in laws)
    return mean, math.sqrt(sum((law.mean * law.cv) ** 2 for law in laws)) / mean if mean else 0.0


def _cycles(cluster: Cluster, commits: int = 60_000) -> tuple[float, float]:
    """Mean and cv of the times between two commits of a worker."""
    log = heap.simulate(cluster, commits, 12345)
    times, worker = np.array(log["commit_time"]), np.array(log["worker"])
    cycles = np.concatenate([np.diff(times[worker == w]) for w in range(cluster.workers)])
    return float(cycles.mean()), float(cycles.std() / cycles.mean())


def _name(compute: str, latency: Law | None, service: Law | None) -> str:
    return compute + (", messages" if latency else "") + (", queue" if service else "")


def judged(first: int | None = None, seeds: int = 1) -> Iterator[Judged]:
    """All logs, or those of the first clusters."""
    for number, (name, cluster) in enumerate(list(clusters().items())[:first]):
        for columns in SEEN:
            for seed in range(seeds):
                yield judge(name, cluster, columns, 100 * number + seed, () if seed else ASKED)


def main() -> None:
    """Print the table and what comes of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, help="so many clusters [all]")
    parser.add_argument("--seeds", type=int, default=1, help="logs of each [1]")
    given = parser.parse_args()
    found = []
    for one in judged(given.first, given.seeds):
        found.append(one)
        missed = ", ".join(name for name, held in one.held.items() if not held) or "-"
        errors = "  ".join("refused" if math.isnan(e) else f"{e:+7.1%}" for e in one.errors.values())
        print(f"{one.name:38} {sum(one.held.values())}/{len(one.held)} hold  {errors}  missed: {missed}", flush=True)
    for name in dict.fromkeys(one.name for one in found):
        held = [held for one in found if one.name == name for held in one.held.values()]
        p_value = binomtest(sum(held), len(held), 0.9, "less").pvalue if held else math.nan
        print(f"{name:38} {sum(held)}/{len(held)} hold, p-value of 90 % or more {p_value:.2f}")
    for columns in SEEN:
        mine = [one for one in found if one.name.endswith(f"; {columns}")]
        names = dict.fromkeys(name for one in mine for name in one.held)
        for name in names:
            held = [one.held[name] for one in mine if name in one.held]
            error = math.sqrt(0.09 / len(held))
            print(f"{columns}: {name:22} {sum(held)}/{len(held)} hold, {np.mean(held):.3f} (± {error:.3f})")
        errors = np.array([list(one.errors.values()) for one in mine if one.errors])
        answered = errors[np.isfinite(errors)]
        worst = f"worst {np.abs(answered).max():.1%}" if len(answered) else "all refused"
        off = int((np.abs(answered) > NEAR).sum())
        print(f"{columns}: what_if {len(answered)} of {errors.size} answered, {off} off, {worst}")


if __name__ == "__main__":
    main()
