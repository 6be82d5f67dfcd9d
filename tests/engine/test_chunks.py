"""Resumed or uninterrupted, batched or one at a time: the same numbers, and nothing is compiled twice."""

from functools import partial

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.engine._loop import begin, replay_chunk
from tests.engine import test_behaviour, test_groups
from tests.engine.test_by_worker import own_data, own_noise
from tests.engine.test_local_steps import Local
from tests.problems import CORE, RULES, TRACES, assert_close, gamma_trace, noisy_quadratic, tree_workload
from tests.workloads import test_job_times


def assert_same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def assert_resumes(rule, workload, cuts, seed, record, lanes=None, kind="ordinary"):
    # Unclamped GEM may have diverged by the end; it continues all the same, for the comparison.
    trace = TRACES[kind][0](commits=100)
    replay = partial(asim.replay, trace, rule, workload, seed=seed, lanes=lanes, stop_on_divergence=False)
    whole = replay(record=record)
    for cut in cuts:
        half = replay(record=record, commits=cut)
        assert (half.commits, half.loss.shape[-1]) == (cut, cut)
        both = replay(resume=half)
        assert both.strides == whole.strides
        assert_same((both.loss, both.central, dict(both.records)), (whole.loss, whole.central, dict(whole.records)))
        assert_same(dict(both.recorded_at), dict(whole.recorded_at))


@pytest.mark.parametrize("name", CORE)
def test_a_resumed_replay_equals_an_uninterrupted_one_bit_for_bit(name, short_chunks):
    assert_resumes(RULES[name][0](), noisy_quadratic(), [37], 2, {"energy_central": 1, "test_loss": 30})


@pytest.mark.parametrize(
    ("name", "seed", "lanes", "record"),
    [("gem_paper", 3, 1, {"pi_mean": 1}), ("gem_script", (3, 5), 4, {"pi_median": 7, "energy_proxy": 1, "pi_mean": 3})],
)
def test_a_resumed_replay_of_every_trait_equals_an_uninterrupted_one(name, seed, lanes, record, short_chunks):
    """Wherever it is cut, with several seeds and lanes, and with infrequent records."""
    cuts = [0, 1, 16, 37, 100]
    assert_resumes(RULES[name][0](), noisy_quadratic(), cuts, seed, record, lanes, "everything")


# Each with problems of its own elsewhere: trace, rule of a step size, that step size, workload.
SPECIAL = {
    "data of each worker": lambda: (gamma_trace(commits=50), agn_adam, 0.02, own_data()),
    "noise of each worker": lambda: (gamma_trace(commits=50), agn_adam, 0.02, own_noise()),
    "parameter groups": lambda: (test_groups.KINDS["everything"](seed=2), spectrain, 0.1, test_groups.workload()),
    "behaviour parameters": lambda: (
        asim.simulate(test_behaviour.ROLLOUTS, commits=60),
        asim.rules.Downpour,
        0.05,
        test_behaviour.workload(),
    ),
    "drawn messages": lambda: (gamma_trace(), drawn, 0.05, noisy_quadratic()),
    "windows by worker": lambda: (TRACES["everything"][0](commits=60), agn_of_windows, 0.1, tree_workload()),
    "a server that collects local steps": lambda: (gamma_trace(), four_of_two_steps, 1.0, tree_workload()),
    "mini-batches of jobs": lambda: (
        test_job_times.schedule(test_job_times.make(), asim.protocols.Ringmaster(3, stop=True)),
        asim.rules.Downpour,
        0.1,
        test_job_times.make(),
    ),
}


def agn_adam(rate):
    return asim.rules.AGN(rate, window=2, optimiser="adam")


def agn_of_windows(rate):
    return asim.rules.AGN(rate, window=(1, 3, 2, 5, 2), optimiser="adam")


def drawn(rate):
    return asim.rules.compressed(asim.rules.Downpour(rate, window=2), asim.compressors.QSGD(3))


def spectrain(rate):
    return asim.rules.SpecTrain(rate, momentum=0.8)


def four_of_two_steps(rate):
    return Local(scale=rate, commits=4)


@pytest.mark.parametrize("name", SPECIAL)
def test_pieces_through_a_file_and_seeds_alone_equal_the_whole(name, tmp_path, short_chunks):
    trace, make, rate, workload = SPECIAL[name]()
    rule, seeds = make(np.array([rate / 2, rate])), (4, 3)
    whole = asim.replay(trace, rule, workload, seeds)
    asim.replay(trace, rule, workload, seeds, commits=29).save(tmp_path / "half.npz")
    half = asim.Run.load(tmp_path / "half.npz", rule, workload)
    again = asim.replay(trace, rule, workload, seeds, resume=half)
    assert_same((again.loss, again.central), (whole.loss, whole.central))
    assert_close(whole.loss[1], asim.replay(trace, make(rate), workload, seed=3).loss, rtol=2e-5)


def test_rules_that_begin_alike_share_a_program():
    trace, workload = gamma_trace(), noisy_quadratic()
    asim.replay(trace, asim.rules.Downpour(0.1), workload)
    before = begin.traced
    asim.replay(trace, asim.rules.AdaptiveStaleness(0.1), workload, record=("energy_central",), seed=2, lanes=3)
    assert begin.traced == before


def test_new_numbers_need_no_new_program():
    """One program for another trace, another length of it, other step sizes, κ, μ and seeds, and the workload anew."""
    programs = set()
    for seed, commits, rule in (
        (0, 60, asim.rules.GEM(0.05)),
        (1, 60, asim.rules.GEM(0.01, momentum=0.5, kappa=2.0)),
        (2, 30, asim.rules.GEM(0.01, momentum=0.5, kappa=2.0)),
    ):
        asim.replay(TRACES["everything"][0](seed=seed, commits=commits), rule, tree_workload(), seed=seed)
        programs.add(replay_chunk.traced)
    assert len(programs) == 1
