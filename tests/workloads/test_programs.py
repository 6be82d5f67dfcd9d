"""Compiled programs: one for each signature, of which the last few stay."""

import gc
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine import _loop as loop
from asyncsim.workloads import _programs as programs

SHAPES = range(2, 8)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(programs, "MOST_SIGNATURES", 2)


def alive():
    """Name of a compiled function -> its programs in memory."""
    gc.collect()
    return Counter(one.hlo_modules()[0].name for one in jax.devices()[0].client.live_executables())


@programs.programs("factor")
def scaled_by_a_number(x, *, factor):
    return factor * x


def test_the_programs_used_last_stay(few):
    for size in (*SHAPES, 6, 5):
        np.testing.assert_array_equal(scaled_by_a_number(jnp.ones(size), factor=3.0), np.full(size, 3.0))
    assert alive()["jit_scaled_by_a_number"] == 2
    assert scaled_by_a_number.traced == len(SHAPES) + 1  # the program for 6 stayed, and that for 5 is compiled again


def test_alternating_signatures_are_compiled_once(few):
    before = scaled_by_a_number.traced
    for factor in (1.0, 2.0) * 3:
        scaled_by_a_number(jnp.ones(20), factor=factor)
    assert scaled_by_a_number.traced == before + 2


def test_memory_does_not_grow_with_runs_of_new_shapes(few):
    """No program of a run stays in memory but the last two of each function, and none of the user's goes."""
    of_the_user = jax.jit(lambda x: x + 1.0)
    of_the_user(1.0)
    cluster, rule = asim.Cluster(2, asim.delays.Constant(1.0)), asim.rules.Downpour(0.1)
    sizes = []
    for size in SHAPES:
        workload = asim.workloads.Quadratic([1.0] * size)
        asim.run(asim.Scenario(cluster, rule, workload, commits=4, record=()))
        sizes.append(sum(alive().values()))
    assert sizes[2:] == sizes[2:3] * (len(SHAPES) - 2)
    assert alive()["jit_replay_chunk"] == alive()["jit_begin"] == 2
    assert of_the_user._cache_size() == 1


def test_step_sizes_and_seeds_share_a_program(few):
    trace, workload = asim.Trace.from_commits([0, 1, 0]), asim.workloads.Quadratic([1.0] * 30)
    before = loop.replay_chunk.traced
    for seed in range(5):
        asim.replay(trace, asim.rules.Downpour(0.1 / (seed + 1)), workload, seed=seed)
    assert loop.replay_chunk.traced == before + 1
