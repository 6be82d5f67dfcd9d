"""The first commit with a non-finite loss or central variable is found exactly, and stops the replay."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine.reference import replay_plainly
from tests.problems import TRACES, gamma_trace

WORKLOAD = asim.workloads.Quadratic([1.0, 0.1])


def first_not_finite(plain):
    finite = [
        bool(np.isfinite(commit.loss)) and all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(commit.central))
        for commit in plain.commits
    ]
    return None if all(finite) else finite.index(False)


@pytest.mark.parametrize("kind", ["ordinary", "everything"])
def test_the_diverging_commit_is_that_of_the_plain_loop(kind):
    trace = TRACES[kind][0](commits=60)
    for rate in (1e20, 300.0):
        rule = asim.rules.Downpour(rate)
        expected = first_not_finite(replay_plainly(trace, rule, WORKLOAD))
        assert expected is not None
        assert asim.replay(trace, rule, WORKLOAD).diverged_at == expected


def test_every_seed_has_its_own_diverging_commit():
    trace, rates = gamma_trace(commits=120), np.array([0.1, 1e10, 300.0])
    run = asim.replay(trace, asim.rules.Downpour(rates), WORKLOAD, seed=(0, 0, 0))
    assert run.diverged_at == [asim.replay(trace, asim.rules.Downpour(rate), WORKLOAD).diverged_at for rate in rates]
    assert run.diverged_at[0] is None


@pytest.mark.parametrize("stop", [True, False])
def test_stop_on_divergence_decides_where_a_diverged_replay_ends(stop, short_chunks, tmp_path):
    """From its file as well."""
    trace, rule = gamma_trace(commits=300), asim.rules.Downpour(1e10)
    run = asim.replay(trace, rule, WORKLOAD, stop_on_divergence=stop)
    assert (run.commits < len(trace)) == stop
    assert len(run.loss) == run.commits
    assert run.diverged_at < 100
    run.save(tmp_path / "run.npz")
    for kept in (run, asim.Run.load(tmp_path / "run.npz", rule, WORKLOAD)):
        again = asim.replay(trace, rule, WORKLOAD, resume=kept)
        assert (again.commits, again.diverged_at) == (run.commits, run.diverged_at)
        whole = asim.replay(trace, rule, WORKLOAD, resume=kept, stop_on_divergence=False)
        assert (whole.commits, whole.diverged_at) == (300, run.diverged_at)


@pytest.mark.parametrize(
    "options",
    [{"checkpoint": print, "checkpoint_every": 0}, {"record": {"energy_central": 1, "pi_mean": 3, "pi_median": 4}}],
    ids=["checkpoints", "records"],
)
def test_where_it_stops_does_not_depend_on_checkpoints_and_records(options, short_chunks):
    trace, rule = gamma_trace(commits=300), asim.rules.GEM(1e10, variant="paper")
    alone, watched = asim.replay(trace, rule, WORKLOAD), asim.replay(trace, rule, WORKLOAD, **options)
    assert alone.commits < len(trace)
    assert (watched.commits, watched.diverged_at) == (alone.commits, alone.diverged_at)


WITH_TEST = asim.Workload(
    init=WORKLOAD.init, loss=WORKLOAD.loss, evaluate=lambda params: {"test_loss": (params["x"] ** 2).sum()}
)
ALONE = (asim.rules.Downpour(1e10), 0), (asim.rules.Downpour(3.0), 0)  # which diverges in the first chunk, and later
CASES = [(rule, seed, workload) for rule, seed in ALONE for workload in (WORKLOAD, WITH_TEST)]


@pytest.mark.parametrize(
    ("rule", "seed", "workload"), [*CASES, (asim.rules.Downpour(np.array([1e10, 3.0])), (0, 0), WORKLOAD)]
)
def test_where_it_stops_does_not_depend_on_interruptions(rule, seed, workload, short_chunks):
    """Before, in and after the chunk in which it diverges, between two chunks and inside of one."""
    trace, record = gamma_trace(commits=300), {"test_loss": 25} if workload is WITH_TEST else {"energy_central": 1}
    whole = asim.replay(trace, rule, workload, seed, record=record)
    assert whole.commits < len(trace)
    for commits in range(3, whole.commits + 1, 5):
        half = asim.replay(trace, rule, workload, seed, record=record, commits=commits)
        resumed = asim.replay(trace, rule, workload, seed, record=record, resume=half)
        np.testing.assert_array_equal(resumed.loss, whole.loss)
        assert [*map(len, resumed.recorded_at.values())] == [*map(len, whole.recorded_at.values())]
        assert resumed.diverged_at == whole.diverged_at


def test_a_nan_in_the_data_is_found_where_it_is_read():
    data = np.arange(30.0, dtype=np.float32)
    data[5] = np.nan
    workload = asim.Workload(lambda key: jnp.zeros(()), lambda p, b, k: (p * b).mean(), data=data, batch_size=4)
    trace, rule = gamma_trace(commits=40), asim.rules.Downpour(0.01)
    expected = first_not_finite(replay_plainly(trace, rule, workload))
    assert asim.replay(trace, rule, workload).diverged_at == expected is not None
