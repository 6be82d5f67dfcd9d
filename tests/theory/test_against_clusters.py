"""Queues and protocols against the simulator: means over independent seeds, within five standard errors."""

from collections.abc import Callable

import numpy as np
import pytest

from asyncsim import Cluster, Network, Server, Trace, protocols, theory
from asyncsim.delays import Constant, Delay, Exponential, Gamma, LogNormal
from tests.cluster.problems import over_seeds

STANDARD_ERRORS = 5
SEEDS, COMMITS = 12, 1200  # a multiple of 8: two workers in lockstep alternate


def agree(cluster: Cluster, measure: Callable[[Trace], list[float]], known: list[float]) -> None:
    mean, error = over_seeds(measure, cluster, COMMITS, SEEDS)
    difference = np.abs(mean - known)
    assert (difference <= STANDARD_ERRORS * error + 1e-12).all(), (difference, error)


def rate(trace: Trace) -> float:
    """Commits per second in the second half of a run, after the warm-up."""
    half = COMMITS // 2
    return half / (trace.commit_time[-1] - trace.commit_time[half - 1])


def after_warm_up(trace: Trace) -> np.ndarray:
    return trace.staleness[COMMITS // 4 :]


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("compute", [Constant(1.0), LogNormal(mean=1.0, cv=0.8)], ids=repr)
def test_throughput_of_any_compute_law(compute: Delay, slots: int) -> None:
    service = Exponential(0.2)
    network = theory.mean_value_analysis(workers=9, service=service, delays=[compute], slots=slots)
    cluster = Cluster(9, compute, server=Server(service=service, slots=slots))

    def measure(trace: Trace) -> list[float]:
        half = slice(COMMITS // 2, None)
        return [rate(trace), np.mean(trace.commit_time[half] - trace.arrive_time[half])]

    agree(cluster, measure, [network.throughput, network.waiting])


@pytest.mark.parametrize("pull", ["at_read", "before_commit"])
def test_separate_requests(pull: str) -> None:
    compute, latency, service = Gamma(mean=1.0, cv=0.5), Constant(0.2), Exponential(0.15)
    # The server's answer and the request; then the parameters, a second pull if there is one, and the update.
    before, after = [latency] * 2, [latency] * (2 if pull == "at_read" else 4) + [compute]
    cluster = Cluster(
        8, compute, network=Network(latency=latency), server=Server(service=service, atomic=False, pull=pull)
    )
    averages = theory.mean_value_analysis(workers=8, service=service, delays=before + after)
    mean = theory.separate_pull_staleness_mean(workers=8, service=service, before_read=before, after_read=after)
    agree(cluster, lambda trace: [rate(trace), after_warm_up(trace).mean()], [averages.throughput, mean])


@pytest.mark.parametrize(
    ("protocol", "name", "k"),
    [
        (protocols.KAsync(3), "k_async", 3),
        (protocols.KBatchAsync(3), "k_batch_async", 3),
        (protocols.KBatchAsync(12), "k_batch_async", 12),
        (protocols.KBatchSync(5), "k_batch_sync", 5),
        (protocols.KSync(3), "k_sync", 3),
        (protocols.Synchronous(), "sync", None),
        (protocols.Asynchronous(), "async", None),
    ],
    ids=repr,
)
def test_batched_protocols(protocol: protocols.CommitProtocol, name: str, k: int | None) -> None:
    pmf = theory.batched_staleness_pmf(protocol=name, workers=8, k=k, size=4)
    collect = protocol.terms(8).collect
    seconds = theory.round_time(workers=8, k=k, rate=0.5, protocol=name)
    agree(
        Cluster(8, Exponential(2.0), protocol=protocol),
        lambda trace: [collect / rate(trace), *[np.mean(after_warm_up(trace) == tau) for tau in range(4)]],
        [seconds, *pmf],
    )
    if name in ("k_sync", "sync", "k_batch_async"):
        law = Gamma(mean=1.0, cv=0.5)
        seconds = theory.round_time_of_law(compute=law, workers=8, k=k, protocol=name)
        agree(Cluster(8, law, protocol=protocol), lambda trace: [collect / rate(trace)], [seconds])


@pytest.mark.parametrize(("workers", "slack"), [(5, 1), (8, 3)])  # fewer have closed forms
def test_ssp_agrees_with_simulation(workers: int, slack: int) -> None:
    agree(
        Cluster(workers, Exponential(0.5), protocol=protocols.SSP(slack)),
        lambda trace: [rate(trace), after_warm_up(trace).mean()],
        [
            theory.ssp_throughput(workers=workers, slack=slack, rate=2.0),
            theory.ssp_staleness_mean(workers=workers, slack=slack),
        ],
    )


def test_mean_from_the_start_without_burn_in() -> None:
    mean, error = over_seeds(lambda trace: trace.staleness.mean(), Cluster(10, Exponential(1.0)), 60, seeds=196)
    assert abs(mean - theory.staleness_mean(workers=10, commits=60)) <= STANDARD_ERRORS * error
