"""The log of rollouts: a simulated one comes back, and impossible ones are refused."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsim as asim
from asyncsim import delays
from asyncsim.trace._invariants import conservation
from tests.problems import refusals


@settings(max_examples=25)
@given(
    st.sampled_from(["completion", "submission", "freshest"]), st.integers(1, 3), st.integers(0, 2), st.integers(0, 9)
)
def test_a_simulated_log_comes_back(order, batch, lead, seed):
    law = delays.Exponential(1.0)
    rollouts = asim.Rollouts(slots=8, group=2, batch=batch, generate=law, train=law, reward=law, lead=lead, order=order)
    trace = asim.simulate(rollouts, commits=30 * batch, seed=seed)
    rest = trace.unfinished
    never = np.full(len(rest), np.nan)
    shuffled = np.random.default_rng(seed).permutation(len(trace) + len(rest))
    log = {
        "opened": np.append(trace.start_time, rest.start_time),
        "ready": np.append(trace.arrive_time, never),
        "taken": np.append(trace.serve_time, never),
        "trained": np.append(trace.commit_time, never),
    }
    again = asim.Trace.from_rollouts(**{name: 1e9 + column[shuffled] for name, column in log.items()})
    assert conservation(again) == conservation(trace)
    assert sorted(again.staleness) == sorted(trace.staleness)
    assert again.workers == trace.workers
    np.testing.assert_allclose(again.commit_time, trace.commit_time, atol=1e-6)
    np.testing.assert_array_equal(again.version, trace.version)


def test_openings_and_steps_suffice():
    trace = asim.Trace.from_rollouts(opened=[0.0, 0.0, 1.0], trained=[1.0, 2.0, np.nan])
    assert trace.staleness.tolist() == [0, 1]
    assert trace.unfinished.read_version.tolist() == [1]
    assert trace.serve_time.tolist() == trace.arrive_time.tolist() == [1.0, 2.0]


test_impossible_logs_are_refused = refusals(
    ({"opened": [0.0, np.nan]}, r"`opened` must be finite and not negative; row 1 has nothing"),
    ({"opened": [[0.0, 1.0]]}, r"`opened` must be one-dimensional; got shape"),
    ({"trained": [3.0]}, r"`trained` must have one entry per row; got 1 for 2 rows"),
    ({"taken": [4.0, 2.0]}, r"`trained` must not precede `taken`; row 0 has 3.0"),
    ({"ready": [np.nan, 2.0]}, r"`ready` must be known where `taken` is; row 0 has nothing\. .* leave out the column"),
    ({"taken": [2.0, np.nan]}, r"`taken` must be known where `trained` is; row 1 has nothing\. .* leave out the col"),
    ({"start": 1.0}, r"`opened` must be finite and not negative; row 0 has 0.0"),
    call=lambda changes: asim.Trace.from_rollouts(
        **{"opened": [0.0, 1.0], "taken": [2.0, 2.0], "trained": [3.0, 3.0]} | changes
    ),
)
