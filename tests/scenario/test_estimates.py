"""Commits, time and memory of a scenario, estimated before anything is computed."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import asyncsim as asim
from tests.problems import assert_refused

scenario = partial(
    asim.Scenario,
    cluster=asim.Cluster(workers=4, compute=asim.delays.Gamma(mean=2.0, cv=0.3)),
    rule=asim.rules.GEM(learning_rate=0.05),
    workload=asim.workloads.Quadratic([1.0, 0.1]),
)
LOG = asim.Trace.from_commits([0, 1, 0, 2], commit_time=[1.0, 2.0, 3.0, 4.0])
WAITING = asim.Cluster(4, asim.delays.Constant(1.0), protocol=asim.protocols.Synchronous())
MANY = asim.Cluster(10**12, asim.delays.Constant(1.0))


class OwnSchedule:
    """A cluster of a user's, about which nothing is known before it is simulated."""

    def simulate(self, *, commits: int | None, seconds: float | None, seed: int) -> asim.Trace:
        return LOG


@pytest.mark.quick
@pytest.mark.parametrize(
    ("changes", "commits"),
    [
        ({"commits_per_worker": 25}, 100),
        ({"seconds": 50.0}, pytest.approx(100)),
        ({"cluster": LOG}, 4),
        ({"cluster": LOG, "seconds": 2.5}, 2),
        ({"cluster": WAITING, "seconds": 50.0}, None),
        ({"cluster": WAITING, "commits": 8}, 8),
        ({"cluster": OwnSchedule(), "seconds": 50.0}, None),
        ({"cluster": OwnSchedule(), "commits": 4}, 4),
    ],
)
def test_commits_are_expected_where_the_length_defines_them(changes: dict[str, Any], commits: Any) -> None:
    assert scenario(**changes).expected_commits == commits


def test_more_commits_are_expected_to_take_longer() -> None:
    assert scenario(commits=100).expected_seconds < 1
    assert scenario(commits=4 * 10**8).expected_seconds > 200


def test_only_the_replay_of_a_recorded_trace_takes_time() -> None:
    recorded = scenario(cluster=LOG)
    assert 0 < recorded.expected_seconds < scenario(commits=len(LOG)).expected_seconds


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cluster": MANY, "commits": 100}, "`workers` of 1000000000000 takes at "),
        ({"cluster": MANY, "seconds": 9.0}, "`workers` of 1000000000000 takes at "),
        ({"commits_per_worker": 10**12}, "`commits` of 4000000000000 takes at least 360 TB"),
        ({"commits_per_worker": int(1e308)}, r"`commits` of 4\.00e\+308 takes at least inf"),
        (
            {
                "workload": asim.workloads.MLP(asim.datasets.Digits(), hidden=(10**6, 10**6), batch_size=8),
                "commits": 100,
            },
            "`workload` of 1000076000010",
        ),
    ],
    ids=("workers", "workers for a time", "commits", "commits beyond floats", "parameters"),
)
def test_too_much_memory_is_refused_before_anything_is_written(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    assert_refused(partial(asim.run, scenario(**changes), tmp_path / "out"), message)
    assert not (tmp_path / "out").exists()
