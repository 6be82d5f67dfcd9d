"""The values of logs as people have them: what a log says, where it is read, fitted, or asked a question.

Formats, units and messages are in `test_reading`, names in `test_names`, versions of rollouts in
`test_rollout_versions`, who joins late and pauses in `test_presence`; of fits, who stops in
`tests/calibration/test_presence`, logs of clients in `test_client_log`, clocks in `test_clocks`, repeated versions and
rows in `test_buffered`, and models that a log contradicts in `test_rollouts`.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.trace import Trace
from tests.calibration.test_clocks import GAMMAS, clocks_in

ROLLOUTS = asim.Rollouts(
    slots=24, group=1, batch=8, generate=delays.Exponential(30.0), train=delays.Gamma(10.0, 0.2), lead=2
)


@pytest.fixture(scope="module")
def rollouts() -> Trace:
    return asim.simulate(ROLLOUTS, commits=800, seed=2)


@pytest.mark.parametrize("columns", [("ready", "taken"), ("ready",), ("taken",), ()], ids="+".join)
def test_800_groups_with_stamps_of_their_own_are_100_steps(rollouts: Trace, columns: tuple[str, ...]) -> None:
    """Within 2 ms of the end of their step. (They were 799 steps, of staleness 26.8.)"""
    stamp = rollouts.commit_time + np.random.default_rng(0).uniform(0.0, 2e-3, 800)
    times = {"ready": rollouts.arrive_time, "taken": rollouts.serve_time}
    trace = Trace.from_rollouts(opened=rollouts.start_time, trained=stamp, **{name: times[name] for name in columns})
    assert trace.steps == 100
    assert trace.staleness.mean() == rollouts.staleness.mean()
    assert trace.staleness.mean() == pytest.approx(1.948, abs=0.02)


@pytest.mark.parametrize("missing", ["ready", "taken", ""])
def test_a_host_that_is_a_millisecond_behind_has_a_note(rollouts: Trace, missing: str) -> None:
    """Its groups seem to have read the version before: 2.9 and not 1.9. With `read_version` they have not."""
    log = {
        "opened": np.maximum(rollouts.start_time - 1e-3, 0.0),
        "ready": rollouts.arrive_time - 1e-3,
        "taken": rollouts.serve_time,
        "trained": rollouts.commit_time,
    }
    log = {name: column for name, column in log.items() if name != missing}
    (note,) = Trace.from_rollouts(**log).notes
    assert "clocks of rollouts and trainer differ" in note
    known = Trace.from_rollouts(**log, read_version=rollouts.read_version)
    assert (known.notes, known.staleness.mean()) == ((), rollouts.staleness.mean())


def test_generation_of_30_seconds_is_not_identified_without_the_time_at_which_it_ended(rollouts: Trace) -> None:
    """(38.8 [37.8, 40.0] was called identified.) With it the interval contains 30."""
    log = {"opened": rollouts.start_time, "taken": rollouts.serve_time, "trained": rollouts.commit_time}
    without = asim.calibrate(Trace.from_rollouts(**log), ROLLOUTS)
    assert not without.parameters["generate.mean"].identifiable
    whole = asim.calibrate(Trace.from_rollouts(**log, ready=rollouts.arrive_time), ROLLOUTS).parameters["generate.mean"]
    assert whole.identifiable
    assert abs(whole.estimate - 30.0) < 4 * (whole.high - whole.low) / 3.29


def test_masked_entries_are_in_no_fit() -> None:
    """(The mean was 100 and not .50.)"""
    times = np.random.default_rng(0).gamma(4.0, 0.125, 1000)
    for hidden in (1e3, np.nan, -1.0):
        masked = np.ma.array(np.append(times, np.full(100, hidden)), mask=np.arange(1100) >= 1000)
        fitted = delays.Gamma.fit(masked)
        assert fitted == delays.Gamma.fit(times)
        assert fitted.mean == pytest.approx(0.5, abs=4 * 0.25 / np.sqrt(1000))


def test_node_08_to_node_12_are_named_so_and_not_workers_7_to_11() -> None:
    laws = [delays.Gamma(1.0, 0.3)] * 7 + [delays.Gamma(3.0, 0.3)] * 5
    log = asim.simulate(asim.Cluster(12, laws), commits=800)
    named = replace(log, names=tuple(f"node-{number:02}" for number in range(1, 13)))
    notes = " ".join(asim.calibrate(named, law="gamma", by_worker=True).notes)
    assert "node-08, node-09, node-10, node-11, node-12" in notes
    assert "workers 7" not in notes


def log_of(workers: int, end: float, mean: float, cv: float, seed: int = 0) -> list[tuple[int, float, float]]:
    """Rows of workers, reads and commits in order of the commits."""
    generator, rows = np.random.default_rng(seed), []
    for worker in range(workers):
        times = np.cumsum(generator.gamma(1 / cv**2, mean * cv**2, int(2 * end / mean) + 20))
        rows += [(worker, *job) for job in itertools.pairwise([0.0, *times[times <= end]])]
    return sorted(rows, key=lambda row: row[2])


@pytest.mark.parametrize("new_names", [False, True])
def test_a_job_that_is_restarted_after_two_hours_makes_6_84_commits_a_second(new_names: bool) -> None:
    """Rates are without the pause. (It was .110.)"""
    before, after = log_of(8, 58.5, 8 / 6.84, 0.3), log_of(8, 58.5, 8 / 6.84, 0.3, seed=1)
    worker = [row[0] for row in before] + [row[0] + 8 * new_names for row in after]
    time = [row[2] for row in before] + [row[2] + 7258.5 for row in after]
    trace = Trace.from_columns({"worker": worker, "commit_time": time})
    assert len(trace) / trace.seconds == pytest.approx(0.110, rel=0.05)
    error = 0.3 / np.sqrt(len(trace))
    # A worker has half a job under way at each end, which is in the time and makes no commit.
    assert asim.statistics(trace).commits_per_second == pytest.approx(6.84, rel=4 * error + 0.03)
    assert any("Nothing was committed from 58." in note for note in trace.notes)
    mean = asim.calibrate(trace, law="gamma").parameters["compute.mean"]
    assert abs(mean.estimate - 8 / 6.84) < 4 * (mean.high - mean.low) / 3.29


@pytest.mark.parametrize("off", [0.010, -0.010])
def test_a_clock_of_a_client_that_is_10_milliseconds_off_is_so_within_half_of_one(off: float) -> None:
    """(4.83 ms were reported.) Messages take 50 ms with a cv of .05, in 300 jobs of each worker."""
    generator, rows = np.random.default_rng(0), []
    for worker in range(4):
        commit = 1.0
        for job in range(300):
            start = commit + (generator.gamma(400, 0.05 / 400) if job else 0.0)
            finish = start + generator.gamma(11, 0.5 / 11)
            arrive = finish + generator.gamma(400, 0.05 / 400)
            ahead = off * (worker == 2)
            rows.append((worker, commit + ahead, start + ahead, finish + ahead, arrive, arrive, arrive + 0.02))
            commit = arrive + generator.gamma(25, 0.02 / 25) + 0.02
    rows.sort(key=lambda row: row[-1])
    names = ("worker", "read_time", "start_time", "finish_time", "arrive_time", "serve_time", "commit_time")
    fit = asim.calibrate(
        Trace.from_columns(dict(zip(names, np.array(rows).T, strict=True))), law=GAMMAS | {"service": "constant"}
    )
    assert clocks_in(fit) == {2: pytest.approx(off, abs=5e-4)}
    latency = fit.parameters["network.latency.mean"]
    assert abs(latency.estimate - 0.05) < 4 * (latency.high - latency.low) / 3.29


LATE = sorted(
    [*log_of(4, 260.0, 1.0, 0.3), *((4, 200 + read, 200 + commit) for _, read, commit in log_of(1, 60.0, 1.0, 0.3))],
    key=lambda row: row[2],
)
COMMITS = {"worker": [row[0] for row in LATE], "commit_time": [row[2] for row in LATE]}


class TestLateJoiners:
    """Four workers, and one more after 796 commits, whose first job began at a time that nobody recorded."""

    def test_its_first_staleness_is_about_4_and_not_796(self) -> None:
        trace = Trace.from_columns(COMMITS)
        first = int(np.argmax(trace.worker == 4))
        assert first > 750
        assert 0 <= trace.staleness[first] <= 10
        assert trace.read_version[first] > 0

    def test_no_statistic_or_fit_changes_with_the_estimate_of_its_first_read(self) -> None:
        """Also not a fit of a model, which is given the columns and not the findings."""
        trace = Trace.from_columns(COMMITS)
        first = int(np.argmax(trace.worker == 4))
        earlier = {}
        for name in ("read_time", "start_time"):
            column = np.array(getattr(trace, name))
            column[first] -= 5.0
            earlier[name] = column
        version = np.array(trace.read_version)
        version[first] = int(np.searchsorted(trace.commit_time, earlier["read_time"][first], side="right"))
        moved = replace(trace, **earlier, read_version=version)
        for law in ("gamma", {"compute": "exponential"}):
            one, other = (asim.calibrate(log, law=law, by_worker=False).parameters for log in (trace, moved))
            assert repr(one) == repr(other)
        model = asim.calibration.Model(
            lambda p: asim.Cluster(5, delays.Gamma(p["mean"], p["cv"])),
            {"mean": asim.calibration.LogUniform(0.1, 10.0), "cv": asim.calibration.LogUniform(0.1, 2.0)},
        )
        one, other = (asim.calibrate(log, model, method="likelihood").parameters for log in (trace, moved))
        assert repr(one) == repr(other)
        assert one["cv"].estimate == pytest.approx(0.3, abs=4 * 0.3 / np.sqrt(2 * len(trace)))
