"""Logs of rollouts whose job was restarted, or that lack rows: a note or an error says so, and numbers are right."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.calibration._rollouts import rollouts_of

BATCH, STEPS, SLOTS, PAUSE = 8, 40, 24, 7200.0
ROLLOUTS = asim.Rollouts(
    slots=SLOTS, group=1, batch=BATCH, generate=delays.Exponential(30.0), train=delays.Gamma(10.0, 0.2), lead=2
)
TIMES = ("opened", "ready", "taken", "trained")
SETS = (("opened", "trained"), TIMES, (*TIMES, "version"), (*TIMES, "version", "read_version"))


def log_of(seed):
    """The columns of a simulated run, and of its groups in flight at the end."""
    trace = asim.simulate(ROLLOUTS, commits=STEPS * BATCH, seed=seed)
    rest = trace.unfinished
    never = np.full(len(rest), np.nan)
    return {
        "opened": np.append(trace.start_time, rest.start_time),
        "ready": np.append(trace.arrive_time, never),
        "taken": np.append(trace.serve_time, never),
        "trained": np.append(trace.commit_time, never),
        "version": np.append(trace.version, never),
        "read_version": np.append(trace.read_version, rest.read_version).astype(float),
    }


FIRST, SECOND = log_of(1), log_of(2)
SECONDS = np.nanmax(FIRST["trained"]), np.nanmax(SECOND["trained"])


def joined(versions_back=0):
    """Two runs in one log, with a pause between them."""
    later = {name: SECOND[name] + SECONDS[0] + PAUSE for name in TIMES}
    later |= {name: SECOND[name] + STEPS - versions_back for name in ("version", "read_version")}
    return {name: np.append(FIRST[name], later[name]) for name in FIRST}


@pytest.mark.parametrize("columns", SETS, ids=len)
def test_a_restart_has_a_note_and_costs_no_places(columns):
    """Groups that the restart has lost do not hold their places, and rates leave the pause out."""
    trace = asim.Trace.from_rollouts({name: joined()[name] for name in columns})
    (note,) = trace.notes
    assert "a pause of the cluster" in note
    assert "restarted" in note
    assert (trace.workers, trace.steps) == (asim.Trace.from_rollouts(FIRST).workers, 2 * STEPS)
    system, _ = rollouts_of(trace)
    assert (system.slots, system.lead) == (SLOTS, pytest.approx(2, abs=0.2))
    # The first step after a restart ends in the pause.
    rate = asim.statistics(trace).steps_per_second
    assert rate == pytest.approx(2 * STEPS / sum(SECONDS), rel=2 / STEPS)
    alone = [asim.Trace.from_rollouts(log).staleness for log in (FIRST, SECOND)]
    assert trace.staleness.mean() == pytest.approx(np.concatenate(alone).mean(), abs=0.01)


def test_a_pause_is_no_time_of_a_fit():
    log = {name: joined()[name] for name in TIMES}
    fits = [asim.calibrate(asim.Trace.from_rollouts(one), ROLLOUTS, law="gamma") for one in (FIRST, log)]
    idle = [fit.log.statistics["trainer_idle"] for fit in fits]
    assert idle[1] == pytest.approx(idle[0], abs=0.1)
    means = [fit.parameters["train.mean"].estimate for fit in fits]
    assert means[1] == pytest.approx(means[0], rel=4 * 0.2 / STEPS**0.5)


def test_a_pause_that_groups_survive_loses_none():
    """A trainer that stands still is no restart: the groups in flight go on."""
    log = {name: FIRST[name].copy() for name in ("opened", "trained")}
    middle = float(np.median(FIRST["trained"][: STEPS * BATCH])) + 1e-3
    for times in log.values():
        times[times > middle] += PAUSE
    trace = asim.Trace.from_rollouts(log)
    assert any("a pause" in note and "restarted" not in note for note in trace.notes)
    assert np.isinf(trace.unfinished.end_time).all()


@pytest.mark.parametrize("back", [10, STEPS])
@pytest.mark.parametrize("columns", SETS[2:], ids=len)
def test_versions_that_begin_anew_are_refused(back, columns):
    """Steps of two runs with one number would be merged."""
    log = {name: joined(back)[name] for name in columns}
    with pytest.raises(asim.TraceError, match=r"`version` must be trained before .*; row \d+ has .*two runs"):
        asim.Trace.from_rollouts(log)


def without(rows):
    return {name: values[~rows] for name, values in FIRST.items()}


def test_lost_steps_have_a_note():
    log = without((FIRST["version"] >= 20) & (FIRST["version"] < 23))
    del log["read_version"]
    assert any("lacks `version` 20 to 22" in note for note in asim.Trace.from_rollouts(log).notes)


@pytest.mark.parametrize("columns", SETS, ids=len)
def test_lost_rows_have_a_note(columns):
    lost = np.zeros(len(FIRST["opened"]), bool)
    lost[[20, 90, 91, 200]] = True
    trace = asim.Trace.from_rollouts({name: without(lost)[name] for name in columns})
    assert trace.notes == (
        "Most steps train 8 groups, and 3 have fewer: rows are lost, or the size of a batch varies.",
    )


@pytest.mark.parametrize("columns", [SETS[0], ("opened", "taken", "trained"), *SETS[1:]], ids=str)
@pytest.mark.parametrize("rows", ["some", "all"])
def test_doubled_rows_have_a_note(rows, columns):
    number = len(FIRST["opened"])
    again = np.repeat(np.arange(number), 2 if rows == "all" else np.where(np.arange(number) % 31 == 30, 2, 1))
    notes = asim.Trace.from_rollouts({name: FIRST[name][again] for name in columns}).notes
    assert any("repeated" in note or "doubled" in note for note in notes)


@pytest.mark.parametrize("unit", [2, 4])
@pytest.mark.parametrize("first", [0, 1, 1001])
def test_versions_that_count_updates_of_a_step_are_counted_in_steps(unit, first):
    log = FIRST | {name: unit * FIRST[name] + first for name in ("version", "read_version")}
    trace = asim.Trace.from_rollouts(log)
    assert (trace.staleness == asim.Trace.from_rollouts(FIRST).staleness).all()
    assert any(f"grows by {unit} in a step" in note for note in trace.notes)


def test_a_log_without_any_step_has_groups_in_flight():
    log = {name: values[-3:] for name, values in FIRST.items()}
    assert len(asim.Trace.from_rollouts(log).unfinished) == 3


def test_a_step_back_of_the_clock_has_a_note():
    trained = np.sort(FIRST["trained"][: STEPS * BATCH])
    trained[STEPS // 2 * BATCH :] -= 15.0
    log = {"opened": np.zeros(len(trained)), "trained": trained}
    assert any("`trained` steps back by" in note for note in asim.Trace.from_rollouts(log).notes)
