"""Rollouts in the words of the libraries keep the bound that the library promises."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, rollouts

SYSTEM = {"slots": 24, "group": 2, "generate": delays.LogNormal(1.0, 1.5), "train": delays.Constant(0.2)}
SYNC = {"sync": delays.Constant(0.1)}
DRAINED = {"trigger_parameter_sync_step": 4, "partial_rollout": False}
MADE = [  # mean and largest staleness of groups
    ("areal", {"max_head_offpolicyness": 2}, 2, np.inf),
    ("skyrl", {"max_staleness_steps": 1, "refill": "group"}, 1, np.inf),
    ("verl", {"staleness_threshold": 0.5} | SYNC, 0.5, np.inf),
    ("verl", {"staleness_threshold": 0.5} | SYNC | DRAINED, 3.5, np.inf),
    ("torchtitan", {"target_off_policy_steps": 1, "window": 4}, 1, 2),
    ("nemo_rl", {"sampling": "in_order", "max_trajectory_age_steps": 2}, 2, 2),
    ("nemo_rl", {"sampling": "ready_first", "max_trajectory_age_steps": 2}, 2, np.inf),
    ("nemo_rl", {"sampling": "windowed", "max_trajectory_age_steps": 2}, 2, 2),
    ("tinker", {"max_steps_off_policy": 3}, 3, 3),
    ("tinker_ahead", {"sampling_steps_ahead": 2}, 2, np.inf),
    ("tinker_ahead", {"sampling_steps_ahead": 2, "signal": 0.6}, 2, np.inf),
    ("trl", {"max_staleness": 2}, 2, 2),
    ("trl", {"max_staleness": 1, "weight_sync_steps": 3}, 5, 5),
    ("roll", {"async_generation_ratio": 1}, 1, np.inf),
    ("roll", {"async_generation_ratio": 0}, 0, 0),
    ("slime", {"num_steps_per_rollout": 1}, 1, 1),
    ("slime", {"num_steps_per_rollout": 2}, 2.5, 3),
    ("slime", {"num_steps_per_rollout": 4, "ahead": 0}, 1.5, 3),
    ("openrlhf", {"async_queue_size": 2}, 2, np.inf),
    ("openrlhf", {"async_queue_size": 1, "partial_rollout_enable": True} | SYNC, 1, np.inf),
    ("blocking_queue", {"batches": 1}, 2, np.inf),
    ("prime_rl", {"max_off_policy_steps": 2}, 1, 2),
    ("queue", {"batches": 2}, np.inf, np.inf),
]


@pytest.mark.parametrize(("name", "words", "mean", "largest"), MADE)
def test_staleness_keeps_the_bound(name, words, mean, largest):
    made = getattr(rollouts, name)(batch=4, **SYSTEM | words)
    staleness = asim.simulate(made, commits=800).staleness
    assert staleness.mean() <= mean
    assert staleness.max() <= largest


@pytest.mark.quick
def test_a_bounded_queue_is_bounded():
    made = rollouts.queue(batches=2, batch=4, **SYSTEM | {"train": delays.Constant(3.0)})
    assert made.ledger(commits=400).steps.queue.max() == made.capacity == 8


def test_other_arguments_are_those_of_rollouts():
    with pytest.raises((TypeError, ValueError), match="slot"):
        rollouts.areal(max_head_offpolicyness=2, batch=4, **SYSTEM | {"slots": 0})


@pytest.mark.parametrize("batches", [1, 3])
def test_a_queue_that_blocks_has_one_batch_more_than_it_holds(batches):
    """One is trained, q wait in the queue, and another one waits before it, once generation is faster."""
    made = rollouts.blocking_queue(batches=batches, batch=4, **SYSTEM | {"slots": 80, "train": delays.Constant(9.0)})
    assert made.lead == batches + 1
    ledger = made.ledger(commits=200)
    assert (ledger.steps.outstanding[5:] == (batches + 1) * 4 * 2).all()
    assert asim.simulate(made, commits=200).staleness[80:].mean() == pytest.approx(batches + 1, abs=0.1)


@pytest.mark.parametrize(
    ("name", "lead"), [("tinker_ahead", "sampling_steps_ahead"), ("areal", "max_head_offpolicyness")]
)
def test_groups_with_the_oldest_weights_are_taken_first(name, lead):
    """As tinker and AReaL take them now: no complete group waits while a step takes one of newer weights."""
    made = getattr(rollouts, name)(**{lead: 3}, batch=4, **SYSTEM | {"slots": 48})
    trace = asim.simulate(made, commits=400)
    for step in range(1, trace.steps):
        here = trace.version == step
        waits = (trace.version > step) & (trace.arrive_time < trace.serve_time[here][0])
        assert not waits.any() or trace.read_version[waits].min() >= trace.read_version[here].max()
