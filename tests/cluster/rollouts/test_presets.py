"""Rollouts in the words of the libraries keep the bound that the library promises."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, rollouts

SYSTEM = {"slots": 24, "group": 2, "generate": delays.LogNormal(1.0, 1.5), "train": delays.Constant(0.2)}
MADE = {  # mean and largest staleness of groups
    "areal": (rollouts.areal(max_head_offpolicyness=2, batch=4, **SYSTEM), 2, np.inf),
    "skyrl": (rollouts.skyrl(max_staleness_steps=1, batch=4, refill="group", **SYSTEM), 1, np.inf),
    "verl": (rollouts.verl(staleness_threshold=0.5, batch=4, sync=delays.Constant(0.1), **SYSTEM), 0.5, np.inf),
    "verl, drained": (
        rollouts.verl(
            staleness_threshold=0.5,
            trigger_parameter_sync_step=4,
            partial_rollout=False,
            batch=4,
            sync=delays.Constant(0.1),
            **SYSTEM,
        ),
        3.5,
        np.inf,
    ),
    "torchtitan": (rollouts.torchtitan(target_off_policy_steps=1, window=4, batch=4, **SYSTEM), 1, 2),
    "nemo_rl in order": (rollouts.nemo_rl(sampling="in_order", max_trajectory_age_steps=2, batch=4, **SYSTEM), 2, 2),
    "nemo_rl ready": (
        rollouts.nemo_rl(sampling="ready_first", max_trajectory_age_steps=2, batch=4, **SYSTEM),
        2,
        np.inf,
    ),
    "nemo_rl windowed": (rollouts.nemo_rl(sampling="windowed", max_trajectory_age_steps=2, batch=4, **SYSTEM), 2, 2),
    "tinker": (rollouts.tinker(max_steps_off_policy=3, batch=4, **SYSTEM), 3, 3),
    "prime_rl": (rollouts.prime_rl(max_off_policy_steps=2, batch=4, **SYSTEM), 1, 2),
    "queue": (rollouts.queue(batches=2, batch=4, **SYSTEM), np.inf, np.inf),
}


@pytest.mark.parametrize("name", MADE)
def test_staleness_keeps_the_bound(name):
    made, mean, largest = MADE[name]
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
