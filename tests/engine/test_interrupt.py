"""Ctrl-C leaves a run that can be resumed, and so does a checkpoint."""

import signal

import numpy as np
import pytest

import asyncsim as asim
from tests.problems import gamma_trace, interrupt, noisy_quadratic


@pytest.mark.parametrize(
    ("how", "number"),
    [
        (lambda: signal.raise_signal(signal.SIGINT), signal.SIGINT),
        (lambda: signal.raise_signal(signal.SIGTERM), signal.SIGTERM),
        (interrupt, signal.SIGINT),
    ],
)
def test_an_interrupted_and_resumed_replay_equals_an_uninterrupted_one(short_chunks, how, number):
    trace, rule, workload = gamma_trace(commits=100), asim.rules.GEM(0.01), noisy_quadratic()
    whole = asim.replay(trace, rule, workload)
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    def press_ctrl_c(progress):
        if progress.done == 48:
            how()

    with pytest.raises(asim.ReplayInterrupted, match="after 48 commits") as caught:
        asim.replay(trace, rule, workload, progress=press_ctrl_c)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    resumed = asim.replay(trace, rule, workload, resume=caught.value.run)
    np.testing.assert_array_equal(resumed.loss, whole.loss)
    assert isinstance(caught.value, KeyboardInterrupt)
    assert caught.value.signal == number


def test_progress_sees_every_chunk(short_chunks):
    seen = []
    trace = gamma_trace(commits=40)
    run = asim.replay(trace, asim.rules.GEM(0.01), noisy_quadratic(), progress=seen.append)
    assert [(progress.done, progress.total) for progress in seen] == [(16, 40), (32, 40), (40, 40)]
    # The device is one chunk ahead of what has been collected; with five workers all of a chunk is recent.
    assert [progress.loss for progress in seen] == [
        None,
        *(pytest.approx(run.loss[k : k + 16].mean()) for k in (0, 16)),
    ]


@pytest.mark.parametrize("seed", [0, (3, 5)])
def test_checkpoints_can_be_resumed(seed, short_chunks):
    """They keep their numbers while the replay goes on, also of several seeds: the next chunk reuses the memory."""
    trace, rule, workload = gamma_trace(commits=40), asim.rules.GEM(0.01), noisy_quadratic()
    snapshots = []
    whole = asim.replay(trace, rule, workload, seed, checkpoint=snapshots.append, checkpoint_every=0)
    assert [snapshot.commits for snapshot in snapshots] == [16, 32, 40]
    for snapshot in snapshots:
        until = asim.replay(trace, rule, workload, seed, commits=snapshot.commits)
        np.testing.assert_array_equal(snapshot.central["x"], until.central["x"])
        resumed = asim.replay(trace, rule, workload, seed, resume=snapshot)
        np.testing.assert_array_equal(resumed.loss, whole.loss)
