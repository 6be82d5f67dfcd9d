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
