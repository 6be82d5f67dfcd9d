"""What theory knows about the staleness of a cluster: its whole distribution, its mean alone, or nothing."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from asyncsim import theory
from asyncsim.checks import require_integer
from asyncsim.cluster import Cluster
from asyncsim.cluster.protocols import Terms
from asyncsim.delays import Delay, Exponential, FloatArray, VariableSpeed
from asyncsim.delays.per_worker import groups
from asyncsim.reports.warm_up import distinct_laws, settling_commits, squared_cv
from asyncsim.theory.laws import has_atoms
from asyncsim.trace import Trace

MOST_QUEUED = 200  # workers, beyond which the variance behind a queue takes too long
MOST_WORK = 20_000  # distinct laws · size · √n that a report waits for: some tenths of a second
MOST_CV2 = 10  # squared coefficient of variation up to which that holds
REACH = 10  # mean stalenesses that the prediction of a report reaches


class StalenessTheory(NamedTuple):
    """What is known of a cluster.

    Attributes:
        reason: For humans: why it is exact, or why the distribution is not known and what is.
        mean: Mean staleness in versions, None if not known.
        variance: Computes the variance, None if not known.
        pmf: Computes P(τ = 0), ..., P(τ = size - 1), None if not known; it returns None for a tail that is too heavy.
    """

    reason: str
    mean: float | None = None
    variance: Callable[[], float] | None = None
    pmf: Callable[[int], FloatArray | None] | None = None


def predicted_staleness(cluster: Cluster, size: int) -> FloatArray | None:
    """Stationary distribution of the staleness of one commit, in server versions; None where theory has no result.

    Exact, under the assumptions that `staleness_theory(cluster).reason` names.

    Args:
        cluster: The cluster.
        size: How many probabilities, at least 1.

    Returns:
        P(τ = 0), ..., P(τ = size - 1), shape (size,), or None.

    Raises:
        ValueError: If `size` is not an integer of at least 1.

    Example:
        >>> from asyncsim.cluster import protocols
        >>> predicted_staleness(Cluster(4, Exponential(1.0), protocol=protocols.KAsync(2)), 3).tolist()
        [0.5, 0.25, 0.125]
        >>> predicted_staleness(Cluster(4, Exponential(1.0), protocol=protocols.SSP(2)), 3) is None
        True
    """
    size = require_integer("size", size, least=1, remedy="Ask for one probability or more.")
    known = staleness_theory(cluster)
    return None if known.pmf is None else known.pmf(size)


def staleness_theory(cluster: Cluster) -> StalenessTheory:
    """Find the result that holds for a cluster; nothing where an assumption fails.

    Results: asynchronous workers with a server that takes no time, of any laws without atoms or one constant;
    exponential workers behind one exponential first-in first-out server; K-async and K-batch-async with equal
    exponential workers; protocols whose gradients are all fresh; commits in turn.

    Args:
        cluster: The cluster.

    Returns:
        See `StalenessTheory`.

    Example:
        >>> staleness_theory(Cluster(4, Exponential(1.0))).reason
        'exact: independent workers that never wait, a server that takes no time'
        >>> from asyncsim.cluster import protocols
        >>> staleness_theory(Cluster(16, Exponential(1.0), protocol=protocols.SSP(1))).reason
        'no distribution is known for stale synchronous parallel; at most (n - 1)(2 slack + 1) = 45'
    """
    if cluster.faults:
        return StalenessTheory("nothing is known with faults")
    laws = [law for law in cluster.laws if not isinstance(law, VariableSpeed)]
    if len(laws) < cluster.workers:
        return StalenessTheory("nothing is known for speeds that change with time")
    if not all(0 < law.mean < math.inf for law in laws):
        return StalenessTheory("nothing is known without finite, positive mean compute times")
    terms = cluster.protocol.terms(cluster.workers)
    if cluster.network.is_instant and cluster.server.is_instant and cluster.server.atomic:
        return _at_once(terms, laws)
    if cluster.server.atomic and _never_waits(terms):
        return _never_idle(cluster, laws)
    return StalenessTheory("nothing is known for this protocol with a server or a network that takes time")


def report_prediction(cluster: Cluster, trace: Trace) -> FloatArray | None:
    """The distribution for a picture of a run; None also where the run is too short for it, or it takes too long.

    Args:
        cluster: The cluster.
        trace: Its schedule.

    Returns:
        Probabilities up to the longest staleness of the run, or ten times the mean, or None.

    Example:
        >>> from asyncsim import simulate
        >>> cluster = Cluster(4, Exponential(1.0))
        >>> report_prediction(cluster, simulate(cluster, commits=40)) is None
        True
        >>> report_prediction(cluster, simulate(cluster, commits=400))[:3].tolist()
        [0.25, 0.1875, 0.140625]
    """
    if len(trace) < settling_commits(cluster):
        return None
    known = staleness_theory(cluster)
    if known.pmf is None or known.mean is None:
        return None
    size = min(int(trace.staleness.max()), math.ceil(REACH * known.mean)) + 1
    distinct = distinct_laws(cluster)
    work = len(distinct) * size * math.sqrt(cluster.workers)
    return known.pmf(size) if work <= MOST_WORK and max(map(squared_cv, distinct)) <= MOST_CV2 else None


def predicted_worker_means(cluster: Cluster) -> FloatArray | None:
    """Mean staleness of each worker's commits, shape (n,), where workers are asynchronous and never wait; else None.

    Example:
        >>> predicted_worker_means(Cluster(2, [Exponential(1.0), Exponential(3.0)])).round(3).tolist()
        [0.333, 3.0]
    """
    if not cluster.is_plain:
        return None
    laws = [law for law in cluster.laws if isinstance(law, Delay)]
    return theory.worker_staleness(compute=laws, workers=cluster.workers)


def _at_once(terms: Terms, laws: list[Delay]) -> StalenessTheory:
    """Results for a network and a server that take no time."""
    n = len(laws)
    if _never_waits(terms):
        return _asynchronous(laws)
    match terms:
        case Terms(limit=1, slack=None, in_turn=False):
            return _always(0, "exact: only gradients of the present version count")
        case Terms(limit=None, slack=None, in_turn=True, collect=1):
            return _always(n - 1, "exact: commits in turn, from the second round on")
        case Terms(limit=None, slack=None, in_turn=False, wait=True, collect=k) if k == n:
            return _always(0, "exact: every step waits for all workers")
        case Terms(limit=None, slack=None, in_turn=False, wait=wait, collect=k) if k <= n or not wait:
            return _batched("k_async" if wait else "k_batch_async", k, laws)
        case Terms(limit=None, slack=int(slack), in_turn=False, collect=1):
            bound = theory.ssp_staleness_bound(workers=n, slack=slack)
            what = "no distribution is known for stale synchronous parallel"
            return StalenessTheory(f"{what}; at most (n - 1)(2 slack + 1) = {bound}")
    return StalenessTheory("nothing is known for this protocol")


def _never_waits(terms: Terms) -> bool:
    """Whether every gradient is a step at once; then it makes no difference whether its worker waits for it."""
    return terms._replace(wait=False, cancel=False) == Terms()


def _asynchronous(laws: list[Delay]) -> StalenessTheory:
    n, mean = len(laws), theory.staleness_mean(workers=len(laws))
    distinct = [group.law for group in groups(laws, n)]
    if n == 1 or (len(distinct) == 1 and distinct[0].variance == 0):
        return _always(n - 1, "exact: equal constant compute times, from the second round on")
    if any(map(has_atoms, distinct)):
        return _only_mean("no distribution is known for a law with atoms", mean, "n - 1")
    return StalenessTheory(
        "exact: independent workers that never wait, a server that takes no time",
        mean,
        lambda: theory.staleness_variance(laws, n),
        lambda size: _unless_too_heavy(laws, size),
    )


def _never_idle(cluster: Cluster, laws: list[Delay]) -> StalenessTheory:
    """Asynchronous workers, and a server that takes time; pull, commit and read are one moment."""
    n, server, law = cluster.workers, cluster.server, laws[0]
    if not cluster.network.is_instant:
        return _only_mean("no distribution is known with a network that takes time", n - 1, "n - 1")
    if server.slots > 1 or not isinstance(server.service, Exponential) or not _equal_exponential(laws):
        return _only_mean(
            "the distribution is known for exponential jobs and one exponential queue only", n - 1, "n - 1"
        )
    rates = {"workers": n, "compute_rate": 1 / law.mean, "service_rate": 1 / server.service.mean}
    return StalenessTheory(
        "exact: exponential compute times, one exponential first-in first-out server",
        n - 1.0,
        (lambda: theory.queue_staleness_variance(**rates)) if n <= MOST_QUEUED else None,
        lambda size: theory.queue_staleness_pmf(size=size, **rates),
    )


def _batched(protocol: str, k: int, laws: list[Delay]) -> StalenessTheory:
    """Several gradients a step."""
    step = {"protocol": protocol, "workers": len(laws), "k": k}
    mean = theory.batched_staleness_mean(**step)
    if not _equal_exponential(laws):
        formula = "n/K - 1" if protocol == "k_async" else "(n - 1)/K"
        return _only_mean("the distribution is known for equal exponential workers only", mean, formula)

    def variance() -> float:
        pmf = theory.batched_staleness_pmf(size=math.ceil(60 * (mean + 1)), **step)
        return float(pmf @ (np.arange(len(pmf)) - mean) ** 2)

    reason = "exact: equal exponential workers, a server that takes no time"
    return StalenessTheory(reason, mean, variance, lambda size: theory.batched_staleness_pmf(size=size, **step))


def _always(value: int, reason: str) -> StalenessTheory:
    return StalenessTheory(reason, float(value), lambda: 0.0, lambda size: np.where(np.arange(size) == value, 1.0, 0.0))


def _only_mean(what: str, mean: float, formula: str) -> StalenessTheory:
    return StalenessTheory(f"{what}; the mean is {formula} = {mean:.4g}", float(mean))


def _unless_too_heavy(laws: list[Delay], size: int) -> FloatArray | None:
    try:
        return theory.staleness_pmf(laws, len(laws), size)
    except ValueError:
        return None


def _equal_exponential(laws: list[Delay]) -> bool:
    return all(isinstance(law, Exponential) and law == laws[0] for law in laws)
