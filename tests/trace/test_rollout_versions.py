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


@pytest.mark.parametrize("columns", [("opened", "trained"), ("opened", "ready", "trained")], ids="+".join)
@pytest.mark.parametrize("spread", [1e-6, 2e-3, 2e-2])
def test_stamps_of_one_step_are_one_step_where_nobody_logged_when_it_began(columns, spread):
    """(They were 480 steps, of staleness 20.)"""
    log = stamped(spread, "trained")
    trace = asim.Trace.from_rollouts(**{name: log[name] for name in columns})
    assert trace.steps == STEPS
    assert (np.bincount(trace.version) == BATCH).all()
    assert trace.staleness.mean() == pytest.approx(TRACE.staleness.mean(), abs=0.05)


def test_stamps_in_milliseconds_of_one_step_are_one_step():
    log = {name: np.round(column, 3) for name, column in stamped(2e-3, "trained").items()}
    trace = asim.Trace.from_rollouts(opened=LOG["opened"], trained=log["trained"])
    assert (np.bincount(trace.version) == BATCH).all()


def _one_by_one():
    generator = np.random.default_rng(0)
    return np.cumsum(generator.exponential(1.0, 400))


@pytest.mark.parametrize(
    "ends",
    [
        _one_by_one(),
        _one_by_one() + 7200.0 * (np.arange(400) > 150),
        _one_by_one() + 7200.0 * (np.arange(400) > 150) + 7200.0 * (np.arange(400) > 300),
        np.arange(400.0) + 1,
        np.cumsum(np.random.default_rng(1).lognormal(0.0, 2.0, 400)),
    ],
    ids=["random times", "a pause", "two pauses", "equal times", "a heavy tail"],
)
def test_steps_of_one_group_stay_steps(ends):
    assert asim.Trace.from_rollouts(opened=np.maximum(ends - 3.0, 0.0), trained=ends).steps == 400


@pytest.mark.parametrize("step", [0.1, 1.0])
def test_several_steps_on_one_batch_stay_several_without_their_beginnings(step):
    """Groups of equal stamps have batches of one size already."""
    batches = np.arange(1, 21)
    trained = np.repeat(16.0 * batches[:, None] + step * np.arange(4), 2, axis=1).ravel()
    opened = np.repeat(16.0 * (batches - 1), 8)
    assert asim.Trace.from_rollouts(opened=opened, trained=trained).steps == 80


@pytest.mark.parametrize("first", [0, 1, 1000])
def test_versions_may_begin_anywhere_and_be_those_that_steps_made(first):
    """Groups that were opened before the log began had read before it."""
    truth = np.sort(TRACE.staleness)
    if first != 1:
        trace = asim.Trace.from_rollouts(**LOG, read_version=TRACE.read_version + first)
        assert (np.sort(trace.staleness) == truth).all()
    trace = asim.Trace.from_rollouts(**LOG, version=TRACE.version + first, read_version=TRACE.read_version + first)
    assert ((np.sort(trace.staleness) == truth).all(), trace.notes) == (True, ())
    if first == 1:
        made = asim.Trace.from_rollouts(**LOG, version=TRACE.version + 1, read_version=TRACE.read_version)
        assert (np.sort(made.staleness) == truth).all()
        assert made.notes == ("`version` was taken for the one that a step made, which groups read next.",)


@pytest.mark.parametrize("cut", [1, 2, 30])
def test_a_part_of_a_run_names_the_groups_from_before(cut):
    rows = TRACE.version >= cut
    log = {name: column[rows] for name, column in LOG.items()}
    versions = {"version": TRACE.version[rows], "read_version": TRACE.read_version[rows]}
    trace = asim.Trace.from_rollouts(**log, **versions)
    early = int((versions["read_version"] < cut).sum())
    assert trace.notes == (f"{early} groups had read before the log began, and count as read at its beginning.",)
    expected = versions["version"] - np.maximum(versions["read_version"], cut)
    assert (np.sort(trace.staleness) == np.sort(expected)).all()


def test_lost_steps_are_named_where_reads_are_counted():
    rows = TRACE.version != 20
    log = {name: column[rows] for name, column in LOG.items()}
    with pytest.raises(asim.TraceError, match=r"`version` must grow by one at most from step to step.* has 21"):
        asim.Trace.from_rollouts(**log, version=TRACE.version[rows], read_version=TRACE.read_version[rows])
    assert asim.Trace.from_rollouts(**log, version=TRACE.version[rows]).steps == STEPS - 1


@pytest.mark.parametrize("repeated", [[200], range(200, 210)], ids=len)
def test_groups_that_are_logged_twice_are_named(repeated):
    rows = np.append(np.arange(len(TRACE)), repeated)
    (note,) = asim.Trace.from_rollouts(**{name: column[rows] for name, column in LOG.items()}).notes
    assert f"repeated, first in row {len(TRACE)}: if groups were logged twice" in note


def test_equal_groups_of_constant_times_are_no_rows_logged_twice():
    constant = asim.Rollouts(
        slots=8, group=1, batch=2, generate=delays.Constant(2.3), train=delays.Constant(1.1), lead=1.0
    )
    trace = asim.simulate(constant, commits=100)
    log = {"opened": trace.start_time, "ready": trace.arrive_time, "taken": trace.serve_time}
    assert asim.Trace.from_rollouts(**log, trained=trace.commit_time).notes == ()
