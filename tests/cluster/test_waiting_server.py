"""Servers that wait: for their oldest client, for fixed times, or until slots are open, against a loop of its own."""

import heapq

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, protocols

COMMITS = 400


def plain(laws, *, collect, bound=None, every=None, commits=COMMITS, seed=0):
    """Simulate a server that applies all gradients that wait, with nothing of the library but a worker's draws.

    It steps at multiples of `every`, or at once if `collect` gradients wait and none that is under way would be more
    than `bound` versions old after it. Returns worker, read version, version, arrival and step time of each gradient.
    """
    times = [
        iter(law.sample(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(worker,))), commits).tolist())
        for worker, law in enumerate(laws)
    ]
    running, read, waiting, rows, version = [], [0] * len(laws), [], [], 0
    for worker, own in enumerate(times):
        heapq.heappush(running, (next(own), worker))
    tick = 1
    while len(rows) < commits:
        if every is not None and (not running or running[0][0] > tick * every):
            now, tick = tick * every, tick + 1
            due = bool(waiting)
        else:
            now, worker = heapq.heappop(running)
            waiting.append((worker, now))
            due = len(waiting) >= collect
            due = due and (bound is None or all(version + 1 - read[other] <= bound for _, other in running))
        if due:
            rows += [(one, read[one], version, arrival, now) for one, arrival in waiting]
            version += 1
            for one, _ in waiting:
                read[one] = version
                heapq.heappush(running, (now + next(times[one]), one))
            waiting = []
    return rows[:commits]


GAMMA, EXPONENTIAL, PARETO = delays.Gamma(1.0, 0.5), delays.Exponential(1.0), delays.Pareto(1.0, 1.5)
FLEET = [delays.Gamma(mean, 0.5) for mean in (0.3, 0.5, 1.0, 1.0, 2.0, 5.0)]
NEVER = 10**6


@pytest.mark.parametrize("laws", [[EXPONENTIAL] * 10, [PARETO] * 7, FLEET, [GAMMA] * 3], ids=["10", "7", "6", "3"])
@pytest.mark.parametrize(
    ("protocol", "settings"),
    [
        *((protocols.KAsync(k, bound=s), {"collect": k, "bound": s}) for k in (1, 2, 3) for s in (0, 1, 2, 4)),
        *((protocols.KAsync(k), {"collect": k}) for k in (1, 2, 3)),  # as soon as k slots are open
        *((protocols.Periodic(every), {"collect": NEVER, "every": every}) for every in (0.07, 0.5, 3.0)),
        *((protocols.Periodic(0.6, k=k), {"collect": k, "every": 0.6}) for k in (1, 3)),
    ],
    ids=repr,
)
def test_a_server_that_waits_has_the_plain_schedule(laws, protocol, settings):
    trace = asim.simulate(asim.Cluster(len(laws), laws, protocol=protocol), commits=COMMITS)
    worker, read, version, arrival, time = map(list, zip(*plain(laws, **settings), strict=True))
    assert trace.version.tolist() == version
    # Gradients of one step are in the order of their arrival.
    assert trace.worker.tolist() == worker
    assert trace.read_version.tolist() == read
    np.testing.assert_allclose(trace.arrive_time, arrival, rtol=1e-12)
    last = trace.closes_step
    np.testing.assert_allclose(trace.commit_time[last], np.array(time)[last], rtol=1e-12)


@pytest.mark.parametrize("simulated", [True, False], ids=["asyncsim", "plain"])
@pytest.mark.parametrize(
    ("workers", "k", "bound", "staleness", "size"),
    [(10, 2, 2, 1.042, 4.896), (10, 2, NEVER, 4.0, 2.0), (10, 2, 0, 0.0, 10.0), (12, 3, NEVER, 3.0, 3.0)],
)
def test_staleness_and_gradients_of_a_step_that_waits_for_the_oldest(workers, k, bound, staleness, size, simulated):
    """Exponential times. Whatever the bound, n = size·(staleness + 1) of the mean step."""
    measured = []
    for seed in range(8):
        if simulated:
            cluster = asim.Cluster(workers, EXPONENTIAL, protocol=protocols.KAsync(k, bound=bound))
            trace = asim.simulate(cluster, commits=4000, seed=seed)
            age, version = trace.staleness, trace.version
        else:
            rows = plain([EXPONENTIAL] * workers, collect=k, bound=bound, commits=4000, seed=100 + seed)
            read, version = np.array([row[1:3] for row in rows]).T
            age = version - read
        measured.append((age[400:].mean(), 3600 / (version[-1] - version[399])))
    for values, expected, error in zip(np.array(measured).T, (staleness, size), (0.001, 0.003), strict=True):
        exact = 0.003 if bound != 2 else 0.0  # steps at both ends are counted in part
        assert abs(values.mean() - expected) < 3.5 * np.hypot(values.std(ddof=1) / 8**0.5, error) + exact
