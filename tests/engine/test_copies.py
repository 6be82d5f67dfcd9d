"""The workers' state is updated in place: nothing as large as it is copied inside the loop."""

import re

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine._loop import replay_chunk
from asyncsim.engine._replay import Replayer
from tests.problems import CORE, RULES, TRACES, by_group

# Copies are decided before code is generated from the instructions, which is done quickly, because nothing is run.
OPTIONS = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
WORKERS = 37  # a size that nothing else in the program has
RECORD = ("energy_central", "energy_proxy", "pi_median")


pytestmark = [pytest.mark.networks, pytest.mark.usefixtures("optimised")]

# Rule, seed, lanes, record, trace, and how often the state is updated at least: by every read, pull and group of them.
CASES = [
    *((name, 0, 1, (), "ordinary", 0) for name in CORE),
    ("gem_script", (0, 1), 1, RECORD, "ordinary", 1),
    ("gem_script", 0, 8, (), "ordinary", 1),
    ("gem_paper", (0, 1), 1, RECORD, "everything", 5),
    ("gem_script", 0, 8, RECORD, "everything", 5),
    ("spectrain", (0, 1), 1, (), "groups", 3),
    ("gem_paper", 0, 8, (), "groups", 3),
    ("momentum_sgd", 0, 1, (), "pair", 2),
    ("gem_script", (0, 1), 1, RECORD, "pair", 2),
    ("downpour", 0, 8, (), "pair", 2),
]


def program(rule, seed, lanes, record, kind):
    workload = asim.workloads.Softmax(asim.datasets.Digits(), batch_size=8)
    if kind == "pair":  # The variables are as many as the workers.
        trace = asim.simulate(asim.Gossip(workers=WORKERS, compute=asim.delays.Exponential(1.0)), commits=100)
    else:
        trace = TRACES["ordinary" if kind == "groups" else kind][0](workers=WORKERS, commits=100)
    trace = by_group(trace) if kind == "groups" else trace
    replayer = Replayer(trace, rule, workload, seed, lanes=lanes, record=record)
    count, chunk = replayer.feeder.chunk(0, 100)
    lowered = replay_chunk.lower(replayer.carry, count, chunk, replayer.problem, layout=replayer.layout)
    return lowered.compile(OPTIONS).as_text()


def instructions_with_state(text, operation):
    """Instructions of this kind whose result is as large as the state of all workers."""
    return re.findall(rf"= \S*\[{WORKERS},[\d,]+\]\S* {operation}\(.*", text)


@pytest.mark.parametrize(("name", "seed", "lanes", "record", "kind", "updates"), CASES)
def test_the_program_never_copies_the_state_of_all_workers(name, seed, lanes, record, kind, updates):
    text = program(RULES[name][0](), seed, lanes, record, kind)
    assert len(instructions_with_state(text, "fusion")) >= updates
    assert not instructions_with_state(text, "copy")


def test_the_count_would_find_a_copy():
    def careless(state, workers):
        def body(carry, worker):
            central, state = carry
            row = state[worker]
            new = central + np.float32(0.5) * row[::-1]
            return (new, state.at[worker].set(new - row)), state[0].sum() + row.sum()

        return jax.lax.scan(body, (state[0], state), workers)

    state = np.ones((WORKERS, 50), np.float32)
    text = jax.jit(careless).lower(state, np.arange(WORKERS)).compile(OPTIONS).as_text()
    assert instructions_with_state(text, "copy")
