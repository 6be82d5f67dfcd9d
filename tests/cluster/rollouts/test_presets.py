"""Rollouts in the words of the libraries keep the bound that the library promises."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, rollouts
from asyncsim.cluster.rollouts._presets import DERIVED_ARGUMENTS

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


WORDS = [  # preset, its arguments, and what `Rollouts` they make
    ("areal", {"max_head_offpolicyness": 4}, {"lead": 4.0, "order": "stalest"}),
    ("skyrl", {"max_staleness_steps": 0.5}, {"lead": 0.5, "order": "completion"}),
    ("verl", {"staleness_threshold": 0.1}, {"lead": 0.1, "sync_every": 1, "during_sync": "pause"}),
    ("verl", {"staleness_threshold": 1} | DRAINED, {"lead": 1.0, "sync_every": 4, "during_sync": "drain"}),
    ("torchtitan", {"target_off_policy_steps": 2, "window": 16}, {"lead": 2.0, "order": "window", "window": 16}),
    ("nemo_rl", {"sampling": "in_order", "max_trajectory_age_steps": 3}, {"lead": 3.0, "order": "submission"}),
    ("nemo_rl", {"sampling": "ready_first", "max_trajectory_age_steps": 3}, {"lead": 3.0, "max_age": None}),
    ("nemo_rl", {"sampling": "windowed", "max_trajectory_age_steps": 3}, {"lead": None, "max_age": 3}),
    ("tinker", {"max_steps_off_policy": 4}, {"lead": None, "max_age": 4, "stale": "drop"}),
    ("tinker_ahead", {"sampling_steps_ahead": 4}, {"lead": 4.0, "max_age": None, "order": "stalest"}),
    ("trl", {"max_staleness": 4}, {"lead": None, "max_age": 4, "sync_every": 1}),
    ("trl", {"max_staleness": 0, "weight_sync_steps": 5}, {"max_age": 4, "sync_every": 5}),
    ("trl", {"max_staleness": 3, "weight_sync_steps": 2}, {"max_age": 7, "sync_every": 2}),
    ("roll", {"async_generation_ratio": 2}, {"lead": 2.0, "max_age": None}),
    ("slime", {}, {"lead": 1.0, "steps_per_take": 1, "sync_every": 1, "during_sync": "drain"}),
    ("slime", {"num_steps_per_rollout": 8, "ahead": 0}, {"lead": 0.0, "steps_per_take": 8, "sync_every": 8}),
    ("openrlhf", {}, {"lead": 1.0, "during_sync": "drain"}),
    ("openrlhf", {"async_queue_size": 3, "partial_rollout_enable": True}, {"lead": 3.0, "during_sync": "pause"}),
    ("blocking_queue", {"batches": 4}, {"lead": 5.0, "capacity": None}),
    ("prime_rl", {}, {"lead": 1.0, "max_age": 8, "stale": "abort"}),
    ("queue", {"batches": 3}, {"lead": None, "capacity": 12}),
]


@pytest.mark.parametrize(("name", "words", "made"), WORDS)
def test_words_of_a_library_are_arguments_of_rollouts(name, words, made):
    system = getattr(rollouts, name)(batch=4, **SYSTEM | words)
    assert {argument: getattr(system, argument) for argument in made} == made


@pytest.mark.parametrize(("name", "words", "made"), WORDS)
def test_what_a_library_decides_is_not_given_twice(name, words, made):
    """One of the two values would be lost in silence."""
    for argument in set(made) & set(DERIVED_ARGUMENTS[name]):
        if made[argument] is not None:
            with pytest.raises(ValueError, match=rf"`{argument}` follows from the other arguments of {name}; got"):
                getattr(rollouts, name)(batch=4, **SYSTEM | words | {argument: made[argument]})


def test_every_library_has_its_words_in_the_table():
    assert set(DERIVED_ARGUMENTS) == set(rollouts.__all__) == {name for name, _, _ in WORDS}


@pytest.mark.parametrize(
    ("name", "words", "refused"),
    [(name, words, word) for name, words, _ in WORDS for word, value in words.items() if type(value) in (int, float)],
)
def test_a_wrong_word_is_refused_by_its_name(name, words, refused):
    """And not by that of an argument which the user has not written."""
    for value in (-1, float("nan"), "many", True):
        with pytest.raises((TypeError, ValueError), match=rf"`{refused}` must"):
            getattr(rollouts, name)(batch=4, **SYSTEM | words | {refused: value})
