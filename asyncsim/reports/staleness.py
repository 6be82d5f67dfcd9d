"""The staleness of a cluster: results of theory, and their comparison with a simulation."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asyncsim import theory
from asyncsim._checks import require_count
from asyncsim.cluster import Cluster, Gossip, simulate
from asyncsim.cluster._gossip import IN_TURN, ROUNDS
from asyncsim.cluster._simulation import require_workers
from asyncsim.cluster.graphs import Directed
from asyncsim.cluster.protocols import Terms
from asyncsim.delays import Delay, Exponential, FloatArray, Sum, VariableSpeed
from asyncsim.delays._per_worker import distinct, groups
from asyncsim.theory._numerics import has_atoms
from asyncsim.trace import Trace
from asyncsim.trace._statistics import total_variation

__all__ = [
    "StalenessReport",
    "StalenessTheory",
    "predicted_staleness",
    "predicted_worker_means",
    "run_prediction",
    "staleness_report",
    "staleness_theory",
    "total_variation_by_chance",
    "warm_up_commits",
]

MOST_QUEUED_WORKERS = 200  # for more, the variance of staleness behind a queue takes too long: its cost grows as n³
MOST_WORK = 20_000  # distinct laws · size · √n that a run's report waits for, some tenths of a second
MOST_CV2 = 10  # squared coefficient of variation up to which that estimate of the work holds
RUN_REPORT_MEANS = 10  # mean stalenesses that the prediction in a run's report covers
REPORT_MEANS = (6, 20)  # mean stalenesses that the prediction in a staleness report covers, at least and at most
MOST_WARM_UP_COMMITS = 2_000_000  # longest warm-up of a staleness report
LARGEST_CV2 = 100.0  # squared coefficient of variation that stands for anything larger, infinity included


class StalenessTheory(NamedTuple):
    """The results of theory for the staleness of a cluster, and why they are exact or not known, in words."""

    reason: str
    mean: float | None = None
    variance: Callable[[], float | None] | None = None
    pmf: Callable[[int], FloatArray | None] | None = None  # for a size; both return None if the tail is too heavy


def predicted_staleness(cluster: Cluster | Gossip, size: int) -> FloatArray | None:
    """Return P(τ = 0), ..., P(τ = size - 1) of a cluster's stationary staleness, or None where theory has no result."""
    size = require_count("size", size, remedy="Ask for one probability or more.")
    result = staleness_theory(cluster)
    return None if result.pmf is None else result.pmf(size)


def staleness_theory(cluster: Cluster | Gossip) -> StalenessTheory:
    """Return the result that holds for a cluster, or without one only the reason why."""
    gossip, cluster = cluster if isinstance(cluster, Gossip) else None, around_a_server(cluster)
    if cluster.faults:
        return StalenessTheory("nothing is known with faults")
    laws = [law for law in cluster.laws if not isinstance(law, VariableSpeed)]
    if len(laws) < cluster.workers:
        return StalenessTheory("nothing is known for speeds that change with time")
    if not all(0 < law.mean < math.inf for law in laws):
        return StalenessTheory("nothing is known without finite, positive mean compute times")
    if gossip is not None:
        return _predict_gossip(gossip, laws)
    terms = cluster.protocol.terms(cluster.workers)
    if cluster.network.is_instant and cluster.server.is_instant and cluster.server.atomic:
        return _predict_instant(terms, laws)
    if cluster.server.atomic and _never_waits(terms):
        return _predict_queue(cluster, laws)
    if cluster.server.resume == "own" and _never_waits(terms):
        return _predict_gap(cluster, laws)
    return StalenessTheory("nothing is known for this protocol with a server or a network that takes time")


def around_a_server(cluster: Cluster | Gossip) -> Cluster:
    """Return the cluster, or that in which workers on a graph would compute at the same times."""
    return cluster.around_a_server() if isinstance(cluster, Gossip) else cluster


def run_prediction(cluster: Cluster | Gossip, trace: Trace) -> FloatArray | None:
    """Predict the distribution for the report of a run. None if the run is too short, or it would take too long."""
    if len(trace) < warm_up_commits(cluster):
        return None
    result = staleness_theory(cluster)
    if result.pmf is None or result.mean is None:
        return None
    size = min(int(trace.staleness.max()), math.ceil(RUN_REPORT_MEANS * result.mean)) + 1
    laws = distinct_laws(around_a_server(cluster))
    work = len(laws) * size * math.sqrt(cluster.workers)
    return result.pmf(size) if work <= MOST_WORK and max(map(squared_cv, laws)) <= MOST_CV2 else None


def predicted_worker_means(cluster: Cluster | Gossip) -> FloatArray | None:
    """Return each worker's mean staleness, shape (n,), if workers are asynchronous and never wait, else None."""
    if isinstance(cluster, Gossip):
        equal = cluster.network.is_instant and len(distinct(cluster.around_a_server().laws)) == 1
        graph: Any = cluster.graph
        in_turn = equal and cluster.exchange in IN_TURN and not isinstance(graph, Directed)
        return theory.pair_staleness(graph.adjacency(cluster.workers)) if in_turn else None
    if not cluster.takes_fast_path:
        return None
    laws = [law for law in cluster.laws if isinstance(law, Delay)]
    return theory.worker_staleness(compute=laws, workers=cluster.workers)


class StalenessReport(NamedTuple):
    """The staleness of a cluster, simulated from the common start on, and predicted."""

    cluster: Cluster | Gossip
    trace: Trace
    staleness: NDArray[np.int32]  # of the commits after the warm-up
    known: StalenessTheory
    pmf: FloatArray | None
    numbers: dict[str, Any]  # as `asyncsim staleness --json` prints them


def staleness_report(cluster: Cluster | Gossip, commits: int, seed: int) -> StalenessReport:
    """Simulate a cluster, discard the warm-up, and compare the next `commits` commits with theory."""
    commits = require_count("commits", commits, remedy="Ask for one commit or more.")
    require_workers(around_a_server(cluster))
    needed = warm_up_commits(cluster)
    warm_up = min(needed, MOST_WARM_UP_COMMITS)
    trace = simulate(cluster, commits=warm_up + commits, seed=seed)
    staleness, result = trace.staleness[warm_up:], staleness_theory(cluster)
    pmf = _predict_distribution(result, int(staleness.max()))
    if result.pmf is not None and pmf is None:
        result = result._replace(
            reason=f"too heavy a tail, or too many workers, for the distribution; the mean is {result.mean:.4g}"
        )
    median, p99 = (int(value) for value in np.quantile(staleness, (0.5, 0.99), method="inverted_cdf"))
    numbers = {
        "predicted": None if pmf is None else _summarise(result, pmf),
        "simulated": {"mean": float(staleness.mean()), "sd": float(staleness.std()), "median": median, "p99": p99},
        "total_variation": None if pmf is None else total_variation(staleness, pmf),
        "total_variation_by_chance": None if pmf is None else total_variation_by_chance(pmf, commits),
        "predicted_mean": result.mean,
        "assumption": result.reason,
        "workers": cluster.workers,
        "commits": commits,
        "warm_up": warm_up,
        "warm_up_needed": needed,
        "seed": seed,
    }
    return StalenessReport(cluster, trace, staleness, result, pmf, numbers)


def _predict_distribution(result: StalenessTheory, longest: int) -> FloatArray | None:
    """Predict the distribution, as long as the simulated one within limits, and up to its 99 % quantile."""
    if result.pmf is None or result.mean is None:
        return None
    least, most = (math.ceil(means * (result.mean + 1)) for means in REPORT_MEANS)
    pmf = result.pmf(min(max(longest + 1, least), most))
    # A distribution that ends before its 99 % quantile is replaced by the longest one.
    longer = result.pmf(most) if pmf is not None and pmf.sum() < 0.99 and len(pmf) < most else None
    return pmf if longer is None else longer


def _summarise(result: StalenessTheory, pmf: FloatArray) -> dict[str, float | None]:
    """Summarise a distribution: a quantile beyond its end is None, and so is an infinite standard deviation."""
    variance = None if result.variance is None else result.variance()
    reached = np.searchsorted(np.cumsum(pmf), np.array([0.5, 0.99]) - 1e-9)
    median, p99 = (int(place) if place < len(pmf) else None for place in reached)
    sd = math.sqrt(max(variance, 0.0)) if variance is not None and math.isfinite(variance) else None
    return {"mean": result.mean, "sd": sd, "median": median, "p99": p99}


def total_variation_by_chance(pmf: FloatArray, commits: int) -> float:
    """Approximate the mean total variation between a distribution and `commits` independent draws from it."""
    shares = np.append(pmf, max(0.0, 1 - float(pmf.sum())))
    return float(np.sqrt(2 * shares * (1 - shares) / (math.pi * commits)).sum() / 2)


def _predict_instant(terms: Terms, laws: list[Delay]) -> StalenessTheory:
    """Return the results for a network and a server that take no time."""
    n = len(laws)
    if _never_waits(terms):
        return _predict_asynchronous(laws)
    if terms.every is not None:
        return _predict_periodic(terms, laws)
    if terms.bound:
        return StalenessTheory(f"no distribution is known where steps wait for the oldest; at most {terms.bound}")
    match terms:
        case Terms(limit=1, slack=None, in_turn=False):
            return _always(0, "exact: only gradients of the current version count")
        case Terms(limit=None, slack=None, in_turn=True, collect=1):
            return _always(n - 1, "exact: workers commit in turn, from the second round on")
        case Terms(limit=None, slack=None, in_turn=False, wait=True, collect=k, bound=bound) if k == n or bound == 0:
            return _always(0, "exact: every step waits for all workers")
        case Terms(limit=None, slack=None, in_turn=False, wait=wait, collect=k) if k <= n or not wait:
            return _predict_batched("k_async" if wait else "k_batch_async", k, laws)
        case Terms(limit=None, slack=int(slack), in_turn=False, collect=1):
            bound = theory.ssp_staleness_bound(workers=n, slack=slack)
            reason = "no distribution is known for stale synchronous parallel"
            return StalenessTheory(f"{reason}; at most (n - 1)(2 slack + 1) = {bound}")
    return StalenessTheory("nothing is known for this protocol")


def _predict_periodic(terms: Terms, laws: list[Delay]) -> StalenessTheory:
    """Return the results for steps at fixed times: a job ends by the next one with the same probability each time."""
    assert terms.every is not None
    if terms.collect <= len(laws) or not _equal_exponential(laws):
        return StalenessTheory("nothing is known for steps at fixed times, but for equal exponential compute times")
    step = {"workers": len(laws), "rate": 1 / laws[0].mean, "every": terms.every}
    mean = theory.periodic_staleness_mean(**step)
    share = 1 / (1 + mean)
    return StalenessTheory(
        "exact: exponential compute times, steps at fixed times",
        mean,
        lambda: mean * (1 + mean),
        lambda size: np.asarray(share * (1 - share) ** np.arange(size), np.float64),
    )


def _never_waits(terms: Terms) -> bool:
    """Return whether each gradient is a step of its own: then it makes no difference whether a worker waits for it."""
    return terms._replace(wait=False, cancel=False) == Terms()


def _predict_asynchronous(laws: list[Delay]) -> StalenessTheory:
    n, mean = len(laws), theory.staleness_mean(workers=len(laws))
    distinct = [group.law for group in groups(laws, n)]
    if n == 1 or (len(distinct) == 1 and distinct[0].variance == 0):
        return _always(n - 1, "exact: equal constant compute times, from the second round on")
    if any(isinstance(law, Sum) for law in distinct):
        return _only_mean("no distribution is known for such sums of local steps", mean, "n - 1")
    if any(map(has_atoms, distinct)):
        return _only_mean("no distribution is known for a law with atoms", mean, "n - 1")
    reason = "exact: independent workers that never wait, a server that takes no time"
    variance, pmf = (partial(predict, laws, n) for predict in (theory.staleness_variance, theory.staleness_pmf))
    return StalenessTheory(reason, mean, _or_none(variance), _or_none(pmf))


def _or_none(predict: Callable[..., Any]) -> Callable[..., Any]:
    """Return a prediction that is None where theory refuses it: for too heavy a tail, or too many workers."""

    def ask(*arguments: Any) -> Any:
        try:
            return predict(*arguments)
        except ValueError:
            return None

    return ask


def _predict_queue(cluster: Cluster, laws: list[Delay]) -> StalenessTheory:
    """Return the results for a server that takes time, where pull, commit and read happen at one moment."""
    n, server, law = cluster.workers, cluster.server, laws[0]
    if not cluster.network.is_instant:
        return _only_mean("no distribution is known with a network that takes time", n - 1, "n - 1")
    if server.slots > 1 or not isinstance(server.service, Exponential) or not _equal_exponential(laws):
        return _only_mean(
            "the distribution is known only for exponential jobs and one exponential queue", n - 1, "n - 1"
        )
    rates = {"workers": n, "compute_rate": 1 / law.mean, "service_rate": 1 / server.service.mean}
    return StalenessTheory(
        "exact: exponential compute times, one exponential first-in first-out server",
        n - 1.0,
        (lambda: theory.queue_staleness_variance(**rates)) if n <= MOST_QUEUED_WORKERS else None,
        _or_none(lambda size: theory.queue_staleness_pmf(size=size, **rates)),
    )


def _predict_gap(cluster: Cluster, laws: list[Delay]) -> StalenessTheory:
    """Return the results for workers that pull some time before they commit, and go on from their own values."""
    n, server, law = cluster.workers, cluster.server, laws[0]
    if not (cluster.network.is_instant and server.is_instant):
        return StalenessTheory("nothing is known for own values with a server or a network that takes time")
    mean = theory.gap_staleness_mean(compute=laws, workers=n, pull_to_commit=server.pull_to_commit)
    formula = f"n - 1 and a gap of {mean - (n - 1):.4g} commits"
    if isinstance(law, Sum):
        return _only_mean("no distribution is known for such sums of local steps", mean, formula)
    if distinct_laws(cluster)[1:] or has_atoms(law) or server.pull_to_commit.variance:
        return _only_mean("the distribution is known only for equal laws and a constant gap in seconds", mean, formula)
    gap = {"compute": law, "workers": n, "pull_to_commit": server.pull_to_commit}
    return StalenessTheory(
        "exact: independent equal workers that never wait, a constant time from pull to commit",
        mean,
        _or_none(partial(theory.gap_staleness_variance, **gap)),
        _or_none(lambda size: theory.gap_staleness_pmf(size=size, **gap)),
    )


def _predict_batched(protocol: str, k: int, laws: list[Delay]) -> StalenessTheory:
    """Return the results for several gradients per step."""
    step = {"protocol": protocol, "workers": len(laws), "k": k}
    mean = theory.batched_staleness_mean(**step)
    if not _equal_exponential(laws):
        formula = "n/K - 1" if protocol == "k_async" else "(n - 1)/K"
        return _only_mean("the distribution is known only for equal exponential workers", mean, formula)

    def variance() -> float:
        pmf = theory.batched_staleness_pmf(size=math.ceil(60 * (mean + 1)), **step)
        return float(pmf @ (np.arange(len(pmf)) - mean) ** 2)

    reason = "exact: equal exponential workers, a server that takes no time"
    return StalenessTheory(reason, mean, variance, lambda size: theory.batched_staleness_pmf(size=size, **step))


def _predict_gossip(gossip: Gossip, laws: list[Delay]) -> StalenessTheory:
    """Return the results for workers on a graph."""
    graph: Any = gossip.graph
    if gossip.exchange in ROUNDS:
        return _always(0, "exact: variables are mixed between rounds, while no gradient is under way")
    if gossip.exchange not in IN_TURN:
        return StalenessTheory("nothing is known for this exchange")
    law = laws[0]
    if not gossip.network.is_instant:
        reason = "no distribution is known for exchanges that take time"
        if gossip.exchange == "push_pull":  # The answer arrives while the worker computes on.
            return _only_mean(reason, 2.0, "one change by others and one answer for each commit")
        return _only_mean(reason, 1.0, "one change by others for each commit")
    if any(other != law for other in laws) or isinstance(law, Sum) or (has_atoms(law) and law.variance):
        reason = "no distribution is known for different workers, or a law with atoms or without distribution"
        return _only_mean(reason, 1.0, "one change by others for each commit")
    if isinstance(graph, Directed):
        return _only_mean("no distribution is known for directed edges", 1.0, "one change by others for each commit")
    pairs = graph.adjacency(gossip.workers)
    pmf = _or_none(partial(theory.pair_staleness_pmf, pairs, law))

    def variance() -> float | None:
        values = pmf(math.ceil(60 * (theory.pair_staleness(pairs).max() + 1)))
        return None if values is None else float(values @ (np.arange(len(values)) - 1.0) ** 2)

    reason = "exact: independent equal workers, each of which exchanges with one neighbour at random"
    return StalenessTheory(reason, 1.0, variance, pmf)


def _always(value: int, reason: str) -> StalenessTheory:
    return StalenessTheory(reason, float(value), lambda: 0.0, lambda size: np.where(np.arange(size) == value, 1.0, 0.0))


def _only_mean(reason: str, mean: float, formula: str) -> StalenessTheory:
    return StalenessTheory(f"{reason}; the mean is {formula} = {mean:.4g}", float(mean))


def _equal_exponential(laws: list[Delay]) -> bool:
    return all(isinstance(law, Exponential) and law == laws[0] for law in laws)


def warm_up_commits(cluster: Cluster | Gossip) -> int:
    """Count the commits until the common start no longer matters, by a heuristic: 10 (1 + cv²) + 1/cv² rounds.

    The phase of a renewal process with a small coefficient of variation cv decays as exp(-2π² cv²) per round. A law
    with a large cv has long jobs, and many rounds pass until these are as frequent among the jobs under way as in the
    long run. An infinite cv² counts as 100. A round is one job of the slowest worker. Equal constants are in phase
    after two rounds.
    """
    cluster = around_a_server(cluster)
    means = [law.work.mean if isinstance(law, VariableSpeed) else law.mean for law in cluster.laws]
    positive = [mean for mean in means if 0 < mean < math.inf]
    commits_per_round = sum(max(positive) / mean for mean in positive) if positive else cluster.workers
    spreads = [min(squared_cv(law), LARGEST_CV2) for law in distinct_laws(cluster)]
    return math.ceil(max(10 * (1 + cv2) + 1 / cv2 if cv2 else 2.0 for cv2 in spreads) * commits_per_round)


def distinct_laws(cluster: Cluster) -> list[Delay]:
    """Return the different laws of the workers' jobs, or of their work where the speed varies."""
    laws = (law.work if isinstance(law, VariableSpeed) else law for law in cluster.laws)
    return [law for law, _ in distinct(laws)]


def squared_cv(law: Delay) -> float:
    """Return variance over squared mean, infinite if the mean is zero or not finite."""
    return law.variance / law.mean**2 if 0 < law.mean < math.inf else math.inf
