"""Faults behave as documented, and every fault is in the trace."""

import numpy as np
import pytest

from asyncsim.cluster import Cluster, Server, faults, protocols, simulate
from asyncsim.delays import Constant, Exponential, Gamma
from asyncsim.trace import Fate, Fault

FOUR = 4


def run(*what, commits=400, law=None, workers=FOUR, **more):
    return simulate(Cluster(workers, law or Constant(1.0), faults=what, **more), commits=commits)


def rows(trace, kind):
    return np.flatnonzero(trace.faults.kind == kind)


class TestSlowdown:
    def test_jobs_take_longer_during_a_slowdown(self):
        trace = run(faults.Slowdown(worker=1, start=10.0, seconds=30.0, factor=3.0), commits=300)
        mine = trace.commit_time[trace.worker == 1]
        inside = (mine > 10) & (mine <= 40)
        np.testing.assert_allclose(np.diff(mine)[inside[1:]], 3.0)
        np.testing.assert_allclose(np.diff(mine)[~inside[1:]], 1.0)
        (row,) = rows(trace, Fault.SLOWDOWN)
        assert (trace.faults.worker[row], trace.faults.start_time[row], trace.faults.end_time[row]) == (1, 10, 40)

    def test_a_job_across_the_edge_keeps_its_work(self):
        trace = run(faults.Slowdown(worker=0, start=0.5, seconds=1.0, factor=2.0), commits=3, workers=1)
        # Half of the work at full speed, the other half at half speed; that takes until the slow second ends.
        np.testing.assert_allclose(trace.commit_time, [1.5, 2.5, 3.5])

    def test_one_that_has_not_begun_is_not_in_the_trace(self):
        assert not len(run(faults.Slowdown(worker=1, start=1e6, seconds=30.0, factor=3.0)).faults)


class TestCrash:
    def test_for_good(self):
        trace = run(faults.Crash(worker=2, time=10.5))
        assert trace.commit_time[trace.worker == 2].max() == 10
        (row,) = rows(trace, Fault.CRASH)
        assert (trace.faults.worker[row], trace.faults.start_time[row]) == (2, 10.5)
        assert trace.faults.end_time[row] == np.inf
        lost = trace.unfinished.fate == Fate.CRASHED
        assert trace.unfinished.worker[lost].tolist() == [2]
        assert trace.unfinished.end_time[lost].tolist() == [10.5]

    @pytest.mark.parametrize("keeps", [True, False])
    def test_and_restart(self, keeps):
        trace = run(faults.Crash(worker=2, time=10.5, restart_after=5.0, keeps_state=keeps))
        mine = trace.commit_time[trace.worker == 2]
        assert 16.5 in mine
        assert not ((mine > 10.5) & (mine < 16.5)).any()
        fresh = np.flatnonzero(trace.state_lost)
        assert trace.commit_time[fresh].tolist() == ([] if keeps else [16.5])
        assert (trace.worker[fresh] == 2).all()

    def test_restart_at_once_still_costs_the_job(self):
        trace = run(faults.Crash(worker=2, time=10.5, restart_after=0.0))
        assert 11.5 in trace.commit_time[trace.worker == 2]
        assert 11.0 not in trace.commit_time[trace.worker == 2]

    def test_a_second_crash_while_down_prolongs_the_first(self):
        trace = run(faults.Crash(1, 10.5, restart_after=5.0), faults.Crash(1, 12.0, restart_after=20.0))
        assert len(rows(trace, Fault.CRASH)) == 2
        assert trace.commit_time[(trace.worker == 1) & (trace.commit_time > 10.5)][0] == 33

    def test_the_lost_state_is_marked_until_a_commit_counts(self):
        """The first job after the restart is dropped as too old; the next is the first whose state counts."""
        cluster = Cluster(
            2,
            [Constant(1.0), Constant(3.1)],
            protocol=protocols.Ringmaster(3),
            faults=[faults.Crash(1, 1.05, restart_after=0.5), faults.Crash(0, 5.0)],
        )
        trace = simulate(cluster, seconds=20.0)
        mine = np.flatnonzero(trace.worker == 1)
        assert Fate.DROPPED in trace.unfinished.fate[trace.unfinished.worker == 1]
        assert trace.state_lost[mine].tolist() == [True] + [False] * (len(mine) - 1)

    @pytest.mark.parametrize("protocol", [protocols.Synchronous(), protocols.KSync(4), protocols.KAsync(4)])
    def test_waiting_for_a_worker_that_never_returns_is_refused_with_the_reason(self, protocol):
        with pytest.raises(ValueError, match=r"`commits` never come.*after .* of 400, at time .*waiting while 1 work"):
            run(faults.Crash(worker=2, time=10.5), protocol=protocol)
        seconds = Cluster(FOUR, Constant(1.0), protocol=protocol, faults=[faults.Crash(2, 10.5)])
        assert simulate(seconds, seconds=100.0).seconds == 11.0  # three of four arrived, and no more

    @pytest.mark.parametrize("protocol", [protocols.SSP(1), protocols.RoundRobin(), protocols.KSync(3)])
    def test_a_protocol_that_does_not_wait_goes_on(self, protocol):
        trace = run(faults.Crash(worker=2, time=10.5), protocol=protocol)
        assert set(trace.worker[trace.commit_time > 15].tolist()) == {0, 1, 3}

    def test_a_worker_that_comes_back_is_not_behind(self):
        trace = run(faults.Crash(2, 10.5, restart_after=50.0), protocol=protocols.SSP(2), law=Gamma(1.0, 0.3))
        back = trace.commit_time > 62
        shares = np.bincount(trace.worker[back], minlength=4) / back.sum()
        assert shares.max() < 0.35  # nobody waits for it to catch up by fifty commits


class TestMessageLoss:
    def test_every_loss_is_in_the_trace_and_costs_its_timeout(self):
        trace = run(faults.MessageLoss(probability=0.3, timeout=0.25), commits=1000)
        lost = rows(trace, Fault.MESSAGE_LOST)
        delays = trace.arrive_time - trace.finish_time
        np.testing.assert_allclose(delays % 0.25, 0, atol=1e-9)
        # Losses of jobs still in flight are in the trace as well: at most a few.
        assert 0 <= len(lost) - round(delays.sum() / 0.25) < 40
        # The number of losses before a success is geometric, with mean .3/.7 and variance .3/.49.
        assert abs((delays / 0.25).mean() - 3 / 7) < 4 * np.sqrt(0.3 / 0.49 / 1000)

    def test_giving_up_costs_the_job(self):
        trace = run(faults.MessageLoss(probability=0.5, timeout=0.25, attempts=2), commits=1000)
        given_up = (trace.unfinished.fate == Fate.LOST).sum()
        total = given_up + len(trace)
        assert abs(given_up / total - 0.25) < 4 * np.sqrt(0.25 * 0.75 / total)

    def test_only_the_named_worker_is_affected(self):
        trace = run(faults.MessageLoss(probability=0.5, timeout=0.25, worker=3))
        assert set(trace.faults.worker.tolist()) == {3}


class TestSessions:
    def test_share_of_the_time_away(self):
        trace = simulate(
            Cluster(40, Exponential(1.0), faults=[faults.Sessions(Exponential(30.0), Exponential(10.0))]),
            seconds=500.0,
        )
        away = np.minimum(trace.faults.end_time, 500.0) - trace.faults.start_time
        # Alternating renewal: a quarter of the time; the variance of the share over t seconds is
        # 2·(10·30)²/40³/t for exponential times on and off.
        spread = np.sqrt(2 * 300**2 / 40**3 / 500 / 40)
        assert abs(away.sum() / (40 * 500) - 0.25) < 4 * spread + 10 / 500  # all are present at the start
        for start, end, worker in zip(trace.faults.start_time, trace.faults.end_time, trace.faults.worker, strict=True):
            mine = trace.commit_time[trace.worker == worker]
            assert not ((mine > start) & (mine < end)).any()

    def test_each_worker_has_its_own_sessions(self):
        fault = faults.Sessions(Exponential(3.0), Exponential(1.0))
        few, many = run(fault, workers=2, commits=100), run(fault, workers=5, commits=400)
        for worker in (0, 1):
            one = few.faults.start_time[few.faults.worker == worker]
            other = many.faults.start_time[many.faults.worker == worker]
            shorter = min(len(one), len(other))
            np.testing.assert_array_equal(one[:shorter], other[:shorter])


class TestServerPause:
    def test_no_commit_is_taken_up(self):
        trace = run(faults.ServerPause(start=10.25, seconds=5.0, every=20.0), server=Server(service=Constant(0.1)))
        pauses = rows(trace, Fault.SERVER_PAUSE)
        assert len(pauses) > 2
        assert (trace.faults.worker[pauses] == -1).all()
        np.testing.assert_allclose(np.diff(trace.faults.start_time[pauses]), 20.0)
        for start, end in zip(trace.faults.start_time[pauses], trace.faults.end_time[pauses], strict=True):
            assert not ((trace.serve_time >= start) & (trace.serve_time < end)).any()

    def test_also_if_commits_take_no_time(self):
        trace = run(faults.ServerPause(start=10.5, seconds=5.0))
        assert not ((trace.commit_time > 10.5) & (trace.commit_time < 15.5)).any()
        assert (trace.commit_time == 15.5).sum() == FOUR
