"""Versions of logs of rollouts: one trainer has one step at a time, and clocks and stamps are no staleness."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays

BATCH, STEPS = 8, 60
ROLLOUTS = asim.Rollouts(
    slots=24, group=1, batch=BATCH, generate=delays.Exponential(30.0), train=delays.Gamma(10.0, 0.2), lead=2
)
TRACE = asim.simulate(ROLLOUTS, commits=STEPS * BATCH, seed=1)
LOG = {
    "opened": TRACE.start_time,
    "ready": TRACE.arrive_time,
    "taken": TRACE.serve_time,
    "trained": TRACE.commit_time,
}


def stamped(spread, *names, seed=0):
    """Each group gets a stamp of its own, up to so many seconds after the true time."""
    generator = np.random.default_rng(seed)
    return LOG | {name: LOG[name] + generator.uniform(0.0, spread, len(TRACE)) for name in names}


@pytest.mark.parametrize("names", [("trained",), ("taken", "trained")], ids=str)
@pytest.mark.parametrize("spread", [1e-6, 2e-3, 2e-2])
def test_stamps_of_one_step_are_one_step(names, spread):
    trace = asim.Trace.from_rollouts(**stamped(spread, *names))
    assert trace.steps == STEPS
    assert (np.bincount(trace.version) == BATCH).all()
    assert trace.staleness.mean() == pytest.approx(TRACE.staleness.mean(), abs=0.05)


def test_exact_stamps_are_as_ever():
    trace = asim.Trace.from_rollouts(**LOG)
    assert (np.sort(trace.staleness) == np.sort(TRACE.staleness)).all()
    assert trace.notes == ()


@pytest.mark.parametrize("behind", [1e-3, 5e-2])
def test_a_clock_that_is_behind_has_a_note_and_versions_win(behind):
    """Groups that are opened at the end of a step seem to have read the version before."""
    late = LOG | {"opened": np.maximum(LOG["opened"] - behind, 0.0)}
    assert any("clocks of rollouts and trainer" in note for note in asim.Trace.from_rollouts(**late).notes)
    for first in (0, 1000):
        versions = {"version": TRACE.version + first, "read_version": TRACE.read_version + first}
        trace = asim.Trace.from_rollouts(**late, **versions)
        assert (np.sort(trace.staleness) == np.sort(TRACE.staleness)).all()
        assert trace.notes == ()


def test_the_version_of_a_step_wins_over_its_stamps():
    wide = stamped(1.0, "trained")
    trace = asim.Trace.from_rollouts(**wide, version=TRACE.version)
    assert trace.steps == STEPS
    assert (np.bincount(trace.version) == BATCH).all()


def test_steps_that_overlap_are_refused():
    """The groups of one batch were taken one after another: nobody says which are of one step."""
    apart = LOG | {"taken": LOG["taken"] + 4.0 * (np.arange(len(TRACE)) % 2), "trained": LOG["trained"] + 4.0}
    with pytest.raises(asim.TraceError, match="`taken` must not precede the end of the step before"):
        asim.Trace.from_rollouts(**apart | {"trained": apart["trained"] + 3.0 * (np.arange(len(TRACE)) % 2)})


def test_several_steps_on_one_batch_are_several():
    """They were taken at one time and end one after another."""
    opened, taken = np.zeros(8), np.full(8, 10.0)
    trace = asim.Trace.from_rollouts(opened=opened, ready=taken, taken=taken, trained=10.0 + np.repeat([1, 2, 3, 4], 2))
    assert trace.steps == 4
    assert trace.staleness.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_read_after_its_own_step_is_refused():
    with pytest.raises(asim.TraceError, match="`read_version` must not exceed `version`"):
        asim.Trace.from_rollouts(**LOG, version=TRACE.version, read_version=TRACE.version + 1)
