"""Windows that differ by worker: compiled = plain, one program, and the programs of equal windows are as they were."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import compressors, rules
from asyncsim.components._component import static
from asyncsim.engine._loop import replay_chunk
from asyncsim.engine.reference import replay_plainly
from asyncsim.rules import Info, Rule, Sent
from tests.engine.test_by_worker import own_data
from tests.problems import (
    TRACES,
    assert_close,
    compare,
    gamma_trace,
    in_few_programs,
    noisy_quadratic,
    trace_for,
    tree_workload,
)

WINDOWS = (1, 3, 2, 5, 2)


class Remembering(Rule):
    """Local steps of SGD, after which a worker continues beside the central variable, by a share of its own window."""

    rate: float
    window: int = static(default=WINDOWS)  # type: ignore[assignment]

    def start(self, params):
        return jnp.zeros((), jnp.int32)

    def local_step(self, params, gradient, state):
        return jax.tree.map(lambda x, g: x - self.rate * g, params, gradient), state + 1

    def send(self, gradient, state, view):
        return Sent(jax.tree.map(lambda d: d / view.window, gradient), state, Info(update=gradient))

    def resume(self, central, server, state, view):
        return jax.tree.map(lambda x: x * (1 + 1e-3 * (state + view.window).astype(x.dtype)), central)


# One of each kind that the loop treats differently, with the trace, the workload and the lanes of its replay.
KINDS = {
    "no state of a worker": (rules.Downpour(0.05, window=WINDOWS), "everything", noisy_quadratic, 1),
    "own window in the message": (rules.AGN(0.1, window=WINDOWS, optimiser="adam"), "everything", tree_workload, 3),
    "own window after the commit": (Remembering(0.05), "everything", noisy_quadratic, 8),
    "another place to continue": (rules.EAMSGD(0.05, window=WINDOWS, rho=2.0), "ordinary", noisy_quadratic, 8),
    "a server that collects": (rules.FedBuff(0.1, buffer=3, window=WINDOWS), "ordinary", own_data, 1),
    "draws": (
        rules.compressed(
            rules.local(rules.MomentumSGD(0.1), window=WINDOWS, learning_rate=0.2), compressors.RandK(0.4)
        ),
        "everything",
        noisy_quadratic,
        3,
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_engine_equals_the_plain_loop(name, x64):
    rule, kind, workload, lanes = KINDS[name]
    plain = rule if name == "draws" else in_few_programs(rule)
    trace = trace_for(rule, kind, commits=24)
    compare(trace, rule, workload(), lanes, plain=replay_plainly(trace, plain, workload(), seed=3))


@pytest.mark.parametrize(
    "make",
    [
        lambda window: rules.AGN(0.1, window=window),
        lambda window: rules.local(rules.SharedNesterov(0.1), window=window, learning_rate=0.1),
    ],
)
def test_equal_windows_are_one_window_bit_for_bit_and_in_one_program(make):
    trace, workload = gamma_trace(commits=20), noisy_quadratic()
    one = asim.replay(trace, make(3), workload)
    programs = replay_chunk.traced
    each = asim.replay(trace, make((3,) * 5), workload)
    assert replay_chunk.traced == programs
    np.testing.assert_array_equal(each.loss, one.loss)
    assert each.rule == one.rule


def test_windows_of_one_step_are_a_rule_without_local_steps_bit_for_bit():
    trace, workload = gamma_trace(commits=20), noisy_quadratic()
    runs = [asim.replay(trace, rules.Downpour(0.1, window=window), workload) for window in (1, (1,) * 5)]
    np.testing.assert_array_equal(*(run.loss for run in runs))


def test_step_sizes_seeds_and_traces_need_no_new_program(x64):
    workload = noisy_quadratic()
    make = lambda rate: rules.AGN(rate, window=WINDOWS)  # noqa: E731
    asim.replay(gamma_trace(commits=20), make(0.1), workload)
    programs = replay_chunk.traced
    asim.replay(gamma_trace(commits=30, seed=4), make(0.2), workload, seed=7)
    assert replay_chunk.traced == programs


def test_lanes_and_seeds_side_by_side_are_those_alone(x64):
    trace, workload = TRACES["everything"][0](commits=40), tree_workload()
    rates = np.array([0.1, 0.05])
    together = asim.replay(trace, rules.AGN(rates, window=WINDOWS), workload, seed=(2, 5), lanes=4)
    for place, seed in enumerate((2, 5)):
        alone = asim.replay(trace, rules.AGN(rates[place], window=WINDOWS), workload, seed=seed, lanes=1)
        assert_close(together.loss[place], alone.loss)


def test_a_record_sees_the_window_of_its_worker():
    def window(commit):
        return commit.view.window

    trace = gamma_trace(commits=20)
    for windows in (WINDOWS, 4):
        rule = rules.AGN(0.1, window=windows)
        recorded = asim.replay(trace, rule, noisy_quadratic(), record={"window": (window, 1)}).records["window"]
        np.testing.assert_array_equal(recorded, np.broadcast_to(windows, 5)[trace.worker])
        plain = [commit.view.window for commit in replay_plainly(trace, rule, noisy_quadratic()).commits]
        np.testing.assert_array_equal(recorded, plain)


def test_a_batched_wave_equals_the_plain_loop(x64, monkeypatch):
    """On an accelerator the lanes of a wave are one batch, in which a worker stops before the others."""
    from asyncsim.engine import _replay

    choose = _replay.choose_lanes
    monkeypatch.setattr(_replay, "choose_lanes", lambda *args: choose(*args)._replace(batched=True))
    compare(gamma_trace(commits=24), rules.AGN(0.1, window=WINDOWS), tree_workload(), 4)
