"""Queues and protocols against the simulator: means over independent seeds, within five standard errors."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from asyncsim import Cluster, Network, Server, Trace, protocols, simulate, theory
from asyncsim.delays import Constant, Delay, Exponential, Gamma, LogNormal, Uniform, Weibull
from tests.theory.compute_laws import EIGHT, FIVE, HYPER, LOG_NORMAL, STRAGGLER

STANDARD_ERRORS = 5
SEEDS, COMMITS = 16, 1200  # a multiple of 8: two workers in lockstep alternate
LONG, WARM_UP = 5000, 1000


def agree(cluster: Cluster, measure: Callable[[Trace], list[float]], known: list[float]) -> None:
    rows = [measure(simulate(cluster, commits=COMMITS, seed=seed)) for seed in range(SEEDS)]
    error = np.std(rows, axis=0, ddof=1) / SEEDS**0.5
    difference = np.abs(np.mean(rows, axis=0) - known)
    assert (difference <= STANDARD_ERRORS * error + 1e-12).all(), (difference, error)


def rate(trace: Trace) -> float:
    """Commits per second in the second half of a run, after the warm-up."""
    half = COMMITS // 2
    return half / (trace.commit_time[-1] - trace.commit_time[half - 1])


def after_warm_up(trace: Trace) -> np.ndarray:
    return trace.staleness[COMMITS // 4 :]


@pytest.mark.parametrize("service_rate", [2.0, 5.0, 40.0])
def test_queue_staleness(service_rate: float) -> None:
    case = {"workers": 8, "compute_rate": 1.0, "service_rate": service_rate}
    cdf = np.cumsum(theory.queue_staleness_pmf(**case, size=400))
    points = np.searchsorted(cdf, [0.1, 0.5, 0.9])
    agree(
        Cluster(8, Exponential(1.0), server=Server(service=Exponential(1 / service_rate))),
        lambda trace: [
            rate(trace),
            np.mean((after_warm_up(trace) - 7.0) ** 2),
            *[np.mean(after_warm_up(trace) <= point) for point in points],
        ],
        [theory.throughput(**case), theory.queue_staleness_variance(**case), *cdf[points]],
    )


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


@pytest.mark.parametrize("law", [Gamma(mean=1.0, cv=0.5), Uniform(0.0, 2.0)], ids=repr)
def test_any_law(law: Delay) -> None:
    for protocol, name, k in ((protocols.KAsync(4), "k_async", 4), (protocols.KBatchAsync(4), "k_batch_async", 4)):
        mean = theory.batched_staleness_mean(protocol=name, workers=8, k=k)
        agree(Cluster(8, law, protocol=protocol), lambda trace: [after_warm_up(trace).mean()], [mean])
    for protocol, name, k in (
        (protocols.KSync(3), "k_sync", 3),
        (protocols.Synchronous(), "sync", None),
        (protocols.KBatchAsync(4), "k_batch_async", 4),
    ):
        seconds = theory.round_time_of_law(compute=law, workers=8, k=k, protocol=name)
        collect = protocol.terms(8).collect
        agree(Cluster(8, law, protocol=protocol), lambda trace, c=collect: [c / rate(trace)], [seconds])


@pytest.mark.parametrize(("workers", "slack"), [(2, 0), (2, 3), (5, 1), (8, 3)])
def test_ssp(workers: int, slack: int) -> None:
    agree(
        Cluster(workers, Exponential(0.5), protocol=protocols.SSP(slack)),
        lambda trace: [rate(trace), after_warm_up(trace).mean()],
        [
            theory.ssp_throughput(workers=workers, slack=slack, rate=2.0),
            theory.ssp_staleness_mean(workers=workers, slack=slack),
        ],
    )


class TestAgainstTheSimulator:
    @pytest.mark.parametrize(
        ("compute", "workers"),
        [
            (Exponential(1.0), 16),
            (Gamma(mean=1.0, cv=0.4), 16),
            (LOG_NORMAL, 10),
            (Weibull(mean=1.0, shape=0.7), 8),
            (STRAGGLER, 16),
            (HYPER, 6),
            (EIGHT, 8),
            (FIVE, 5),
        ],
        ids=repr,
    )
    def test_distribution_and_variance(self, compute: Delay | Sequence[Delay], workers: int) -> None:
        pmf = theory.staleness_pmf(compute=compute, workers=workers, size=50 * workers)
        cdf = np.cumsum(pmf)
        variance = theory.staleness_variance(compute=compute, workers=workers)
        points = np.unique(np.searchsorted(cdf, [0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98]))
        rows = []
        for seed in range(SEEDS):
            tau = simulate(Cluster(workers, compute=compute), commits=LONG, seed=seed).staleness[WARM_UP:]
            rows.append([np.mean((tau - workers + 1.0) ** 2), *[np.mean(tau <= point) for point in points]])
        measured, error = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / SEEDS**0.5
        assert (np.abs(measured - [variance, *cdf[points]]) <= STANDARD_ERRORS * error).all()
        assert (error[1:] < 0.01).all()  # or the line above would say nothing

    def test_worker_means(self) -> None:
        rows = []
        for seed in range(SEEDS):
            trace = simulate(Cluster(5, compute=FIVE), commits=LONG, seed=seed)
            tau, worker = trace.staleness[WARM_UP:], trace.worker[WARM_UP:]
            rows.append([tau[worker == w].mean() for w in range(5)])
        error = np.std(rows, axis=0, ddof=1) / SEEDS**0.5
        known = theory.worker_staleness(compute=FIVE, workers=5)
        assert (np.abs(np.mean(rows, axis=0) - known) <= STANDARD_ERRORS * error).all()

    def test_mean_from_the_start_without_burn_in(self) -> None:
        runs = [simulate(Cluster(10, Exponential(1.0)), commits=60, seed=s).staleness.mean() for s in range(196)]
        known = theory.staleness_mean_from_start(workers=10, commits=60)
        assert abs(np.mean(runs) - known) <= STANDARD_ERRORS * np.std(runs, ddof=1) / 14
