"""Schedules against theory: exactly if it is exact, otherwise within derived tolerances."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsim.cluster import Cluster, Network, Server, simulate
from asyncsim.cluster import _events as events
from asyncsim.delays import ByJob, Constant, Delay, Empirical, Exponential, Gamma, LogNormal
from asyncsim.trace import Trace
from tests.cluster.problems import LAWS
from tests.problems import refusals


@dataclass(frozen=True)
class Scripted:
    """The listed delays in turn, then the last one until the end of the block."""

    delays: tuple[float, ...]
    mean: float = 1.0
    variance: float = 0.0

    def cdf(self, t: object) -> np.ndarray:
        raise NotImplementedError

    def sample(self, generator: np.random.Generator, size: int) -> np.ndarray:
        return np.array([*self.delays, *([self.delays[-1]] * size)][:size], dtype=np.float64)


CLUSTERS = st.lists(LAWS | st.just(Empirical((0.0, 1.0, 2.0))), min_size=1, max_size=7).map(
    lambda laws: Cluster(len(laws), laws)
)
SEEDS = st.integers(0, 2**32)


def times_of(trace: Trace, worker: int) -> np.ndarray:
    return trace.commit_time[trace.worker == worker]


def running_sums(law: Delay, seed: int, worker: int, count: int) -> np.ndarray:
    """When a worker commits, computed from its stream alone."""
    stream = np.random.SeedSequence(seed).spawn(worker + 1)[worker]
    return np.cumsum(law.sample(np.random.default_rng(stream), count))


class TestExact:
    @settings(max_examples=40, deadline=None)
    @given(CLUSTERS, st.integers(1, 120), SEEDS)
    def test_workers_commit_at_the_running_sums_of_their_own_delays(
        self, cluster: Cluster, commits: int, seed: int
    ) -> None:
        trace = simulate(cluster, commits=commits, seed=seed)
        for worker, law in enumerate(cluster.laws):
            own = times_of(trace, worker)
            due = running_sums(law, seed, worker, len(own) + 1)
            np.testing.assert_array_equal(own, due[:-1])
            assert due[-1] >= trace.seconds  # the job in flight was not due yet

    @given(st.integers(1, 8), st.integers(1, 50), st.sampled_from([0.0, 0.1, 1.0, 1e300]))
    @settings(deadline=None)
    def test_constant_delays_give_a_round_robin(self, workers: int, commits: int, delay: float) -> None:
        trace = simulate(Cluster(workers, Constant(delay)), commits=commits)
        rows = np.arange(commits)
        np.testing.assert_array_equal(trace.worker, rows % workers)
        np.testing.assert_array_equal(trace.staleness, np.minimum(rows, workers - 1))

    def test_ties_are_first_in_first_out(self) -> None:
        """The slow worker began its job first, so it goes first when both are due at 2."""
        trace = simulate(Cluster(2, [Constant(1.0), Constant(2.0)]), commits=6)
        assert trace.worker.tolist() == [0, 1, 0, 0, 1, 0]
        assert trace.commit_time.tolist() == [1, 2, 2, 3, 4, 4]

    def test_adding_a_worker_leaves_the_others_as_they_were(self) -> None:
        law = Gamma(1.0, 0.5)
        few, many = (simulate(Cluster(n, law), seconds=200.0, seed=3) for n in (3, 4))
        for worker in range(3):
            np.testing.assert_array_equal(times_of(few, worker), times_of(many, worker))

    def test_seeds_and_workers_differ(self) -> None:
        cluster = Cluster(2, Exponential(1.0))
        first, second = (simulate(cluster, commits=10, seed=seed) for seed in (0, 1))
        assert not np.intersect1d(first.commit_time, second.commit_time).size
        assert len(np.unique(first.commit_time)) == 10

    @pytest.mark.parametrize(("seconds", "commits"), [(2.0, 12), (1.99, 9), (0.3, 0)])
    def test_seconds_are_inclusive(self, seconds: float, commits: int) -> None:
        """Also where they end before the first commit."""
        trace = simulate(Cluster(3, Constant(0.5)), seconds=seconds)
        assert (len(trace), len(trace.unfinished), trace.seconds) == (commits, 3, commits // 3 * 0.5)

    def test_seconds_and_commits_agree(self) -> None:
        cluster = Cluster(4, LogNormal(1.0, 1.0))
        by_commits = simulate(cluster, commits=500, seed=2)
        by_seconds = simulate(cluster, seconds=by_commits.seconds, seed=2)
        np.testing.assert_array_equal(by_seconds.worker, by_commits.worker)


test_bad_arguments_are_named = refusals(
    ({}, "one of `commits` and `seconds` must be given; got None and None"),
    ({"commits": 1, "seconds": 1.0}, "one of `commits` and `seconds` must be given; got 1 and 1.0"),
    ({"commits": 0}, "`commits` must be an integer of at least 1; got 0"),
    ({"commits": 2**31}, "`commits` must be at most 2147483647; got 2147483648"),
    ({"seconds": 0}, "`seconds` must be finite and positive; got 0"),
    ({"seconds": math.inf}, "`seconds` must be finite and positive; got inf"),
    ({"seconds": 1e12}, r"`seconds` must give at most 2147483647 commits; .* about 2e\+12"),
    call=lambda length: simulate(Cluster(2, Constant(1.0)), **length),
)


class TestBadDelays:
    def test_seconds_that_never_pass(self) -> None:
        cluster = Cluster(2, [Constant(1.0), Constant(0.0)])
        with pytest.raises(ValueError, match="`seconds` never pass while worker 1 has only zero delays"):
            simulate(cluster, seconds=1.0)

    @pytest.mark.parametrize("bad", [math.nan, -0.5, math.inf])
    def test_bad_delay_is_named_by_worker_value_and_time(self, bad: float) -> None:
        laws = [Constant(1.0), Constant(1.0), Constant(1.0), Scripted((12.5, bad))]
        message = rf"`delay` must be finite and not negative; worker 3 drew {bad} at time 12\.5\."
        with pytest.raises(ValueError, match=message):
            simulate(Cluster(4, laws), commits=100)

    def test_a_bad_delay_that_is_never_drawn_is_not_an_error(self) -> None:
        assert len(simulate(Cluster(1, Scripted((1.0, 1.0, math.nan))), commits=1)) == 1

    def test_law_that_draws_the_wrong_shape(self) -> None:
        class Single(Scripted):
            def sample(self, generator: np.random.Generator, size: int) -> np.ndarray:
                return np.float64(1.0)  # pyright: ignore[reportReturnType]

        with pytest.raises(ValueError, match=r"`sample` must return .* \(16,\); the law of worker 0 returned \(\)"):
            simulate(Cluster(1, Single(())), commits=1)


@pytest.mark.parametrize("length", [{"commits": 90}, {"seconds": 12.5}])
@pytest.mark.parametrize("server", [Server(), Server(service=Exponential(0.1))], ids=["no queue", "queue"])
@pytest.mark.parametrize("network", [Network(), Network(latency=Exponential(0.1))], ids=["no network", "network"])
def test_reporting_progress_changes_nothing(length, server, network, monkeypatch):
    cluster = Cluster(5, Exponential(1.0), server=server, network=network)
    expected = simulate(cluster, **length)
    monkeypatch.setattr(events, "REPORT_EVERY", 10)
    told = []
    trace = simulate(cluster, **length, progress=told.append)
    np.testing.assert_array_equal(trace.commit_time, expected.commit_time)
    np.testing.assert_array_equal(trace.worker, expected.worker)
    assert len(told) > 3
    for values in zip(*told, strict=True):
        assert list(values) == sorted(values)
    assert told[-1].commits == len(trace)
    assert 0 < told[0].share < told[-1].share <= 1


def slow_first(job):
    return np.where(job == 0, 1000.0, 1.0)


@pytest.mark.parametrize("server", [Server(), Server(service=Constant(1e-3))], ids=["no queue", "queue"])
def test_all_workers_read_at_the_start_however_long_a_first_job_lasts(server):
    """A log in which a worker's first commit comes so late is that of somebody who joined late. A simulation knows."""
    laws = [Exponential(1.0)] * 5 + [ByJob(slow_first)]
    trace = simulate(Cluster(6, laws, server=server), commits=8000)
    first = np.flatnonzero(trace.worker == 5)[0]
    assert trace.commit_time[first] >= 1000.0
    assert trace.read_time[first] == 0.0
    assert trace.staleness[first] == first
