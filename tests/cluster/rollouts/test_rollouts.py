"""Rollouts: the schedule equals a plain one event for event, and conserves staleness in integers."""

import dataclasses
import math
from itertools import islice

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import asyncsim as asim
from asyncsim import delays
from asyncsim.trace._invariants import conservation
from tests.cluster.rollouts.plain import plain
from tests.problems import refusals

ZERO, ONE = delays.Constant(0.0), delays.Constant(1.0)
LAWS = st.sampled_from([ONE, delays.Exponential(1.0), delays.LogNormal(1.0, 1.5), delays.Uniform(0.5, 1.5)])
TRAIN = st.sampled_from([ZERO, ONE, delays.Exponential(0.5), delays.Uniform(0.1, 2.0)])
EXTRA = st.sampled_from([ZERO, ZERO, delays.Exponential(0.3), delays.Uniform(0.1, 3.0)])
MANY = 4000  # draws of each stream
FAULTS = (  # of which the last two overlap at times
    asim.faults.Crash(worker=0, time=math.e, restart_after=math.pi),
    asim.faults.Sessions(online=delays.Exponential(5.0), offline=delays.Exponential(1.0)),
    asim.faults.Sessions(online=delays.Exponential(9.0), offline=delays.Exponential(2.0), worker=0),
)


@st.composite
def systems(draw, **fixed):
    """Any rollouts, with a few slots."""
    group, batch = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    refill = draw(st.sampled_from(["sample", "group"]))
    slots = group * draw(st.integers(1, 4)) if refill == "group" else draw(st.integers(1, 10))
    order = draw(st.sampled_from(["completion", "submission", "window", "newest", "freshest", "stalest"]))
    every, take = draw(st.sampled_from([1, 1, 2, 3])), draw(st.sampled_from([1, 1, 2, 3]))
    behind = every - math.gcd(every, take)  # versions by which weights may be older where the trainer takes groups
    least = max((take + behind) / every - 1, 0.0)
    lead = draw(st.one_of(st.none(), st.sampled_from([0.0, 0.3, 1.0, 1.5, 3.0])))
    places = slots // group if refill == "group" else slots
    chosen = {
        "slots": slots,
        "group": group,
        "batch": batch,
        "generate": draw(st.one_of(LAWS, st.lists(LAWS, min_size=slots, max_size=slots))),
        "train": draw(TRAIN),
        "reward": draw(EXTRA),
        "refill": refill,
        "lead": None if lead is None else max(lead, least),
        "order": order,
        "window": draw(st.integers(1, 6)) if order == "window" else 1,
        "capacity": draw(st.one_of(st.none(), st.integers(take * batch, 3 * take * batch))),
        "max_age": (age := draw(st.one_of(st.none(), st.integers(behind, behind + 3)))),
        "stale": "drop" if age is None else draw(st.sampled_from(["drop", "abort"])),
        "sync": draw(EXTRA),
        "during_sync": draw(st.sampled_from(["pause", "continue", "drain"])),
        "sync_every": every,
        "steps_per_take": take,
        "signal": draw(st.sampled_from([1.0, 1.0, 0.6])),
        "engines": draw(st.sampled_from([None, *(n for n in range(1, places + 1) if places % n == 0)])),
        "faults": draw(st.sampled_from([(), (), FAULTS])),
    }
    return asim.Rollouts(**chosen | fixed)


def streams(rollouts, seed):
    """The times that the simulator draws, as the arguments of `plain`."""

    def draws(law, *key):
        return iter(law.sample(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key)), MANY).tolist())

    laws = rollouts.generate if isinstance(rollouts.generate, tuple) else [rollouts.generate] * rollouts.slots
    others = ((rollouts.train, 7), (rollouts.reward, 8), (rollouts.sync, 9), (delays.Uniform(0.0, 1.0), 10))
    spells = []
    places = rollouts.slots // rollouts.group if rollouts.refill == "group" else rollouts.slots
    for engine in range(rollouts.engines or places) if rollouts.faults else ():
        crash, *sessions = rollouts.faults
        down = [(crash.time, crash.time + crash.restart_after)] if engine == 0 else []
        for place, session in enumerate(sessions if engine == 0 else sessions[:1], start=1):
            since = 0.0
            times = (draws(law, engine, 3, 2 * place + i) for i, law in enumerate((session.online, session.offline)))
            for stays, away in islice(zip(*times, strict=True), 300):
                down.append((since + stays, since + stays + away))
                since += stays + away
        spells += [(engine, *spell) for spell in merged(down)]
    lengths = [draws(law, slot) for slot, law in enumerate(laws)]
    return [lengths, *(draws(law, 0, use, 0) for law, use in others), spells]


def merged(spells):
    """Unite spells that overlap."""
    united = []
    for since, until in sorted(spells):
        if united and since <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], until))
        else:
            united.append((since, until))
    return united


@settings(max_examples=70)
@given(systems(), st.integers(0, 99))
@example(asim.Rollouts(slots=3, group=1, batch=1, generate=delays.Constant(2.0), train=ONE), 0)  # ends at equal times
def test_the_schedule_is_the_plain_one(rollouts, seed):
    if rollouts.sync != ZERO:  # pauses round end times, so that equal times would come in any order
        rollouts = dataclasses.replace(rollouts, generate=delays.Exponential(1.0))
    ledger = rollouts.ledger(commits=25, seed=seed)
    samples, groups, steps = plain(rollouts, 25, *streams(rollouts, seed))
    number = {id(group): place for place, group in enumerate(groups)}
    assert ledger.group.tolist() == [number[id(sample["group"])] for sample in samples]
    assert ledger.slot.tolist() == [sample["slot"] for sample in samples]
    assert ledger.read_version.tolist() == [sample["read"] for sample in samples]
    for column, fate in (("trained_version", "taken"), ("dropped_version", "dropped")):
        expected = [s["group"]["version"] if s["group"]["fate"] == fate else -1 for s in samples]
        late = [version >= len(steps) for version in expected]  # taken by a step that has not ended
        assert getattr(ledger, column).tolist() == [-1 if b else a for a, b in zip(expected, late, strict=True)]
    ready = [-1 if s["group"]["ready"] is None else s["group"]["ready"] for s in samples]
    assert ledger.ready_version.tolist() == ready
    for column in ("start", "end"):
        np.testing.assert_allclose(getattr(ledger, column), [sample[column] for sample in samples], rtol=1e-9)
    measured = np.stack([ledger.steps.begin, ledger.steps.computed, ledger.steps.update], axis=1)
    np.testing.assert_allclose(measured, steps, rtol=1e-9)


@settings(max_examples=50)
@given(systems(), st.integers(0, 99), st.integers(1, 60))
def test_staleness_is_conserved(rollouts, seed, commits):
    """Staleness, ages of drops and ages of the rest sum to what was outstanding at the ends of steps, in integers."""
    trace, ledger = asim.simulate(rollouts, commits=commits, seed=seed), rollouts.ledger(commits, seed)
    assert len(set(conservation(trace))) == 1
    assert len(trace) == commits
    steps = len(ledger.steps.update)
    ends = np.where(ledger.trained_version >= 0, ledger.trained_version, ledger.dropped_version)
    ages = np.where(ends >= 0, ends, steps) - ledger.read_version
    # Where slots have the weights later, staleness counts that time, too.
    late = rollouts.sync_every > 1 or (ledger.steps.weights > ledger.steps.update).any()
    assert ages.min() >= 0
    assert ages.sum() == ledger.steps.outstanding.sum() or late


def rollouts(**changes):
    """A few slots with random times."""
    few = {"slots": 6, "group": 2, "batch": 2, "generate": delays.Exponential(1.0), "train": delays.Uniform(0.2, 0.6)}
    return asim.Rollouts(**few | changes)


def test_a_row_of_the_trace_is_a_group():
    some = rollouts(reward=delays.Constant(0.25), lead=1.0)
    trace, ledger = asim.simulate(some, commits=40, seed=1), some.ledger(40, seed=1)
    groups = np.unique(ledger.group[ledger.trained_version >= 0])
    pairs = [(ledger.start[ledger.group == group].min(), ledger.end[ledger.group == group].max()) for group in groups]
    assert sorted(zip(trace.start_time, trace.finish_time, strict=True)) == sorted(pairs)
    np.testing.assert_allclose(trace.arrive_time, trace.finish_time + 0.25)
    assert trace.serve_time.tolist() == ledger.steps.begin.repeat(2).tolist()
    assert trace.commit_time.tolist() == ledger.steps.update.repeat(2).tolist()
    assert trace.closes_step.tolist() == [False, True] * 20
    assert (trace.read_time == trace.start_time).all()


def test_discards_are_in_the_trace():
    dropped = asim.simulate(rollouts(slots=20, max_age=1, capacity=3), commits=60)
    aborted = asim.simulate(rollouts(slots=20, max_age=1, stale="abort"), commits=60)
    assert asim.trace.Fate.CANCELLED not in dropped.unfinished.fate
    assert asim.trace.Fate.DROPPED in dropped.unfinished.fate
    assert asim.trace.Fate.CANCELLED in aborted.unfinished.fate
    assert max(dropped.staleness.max(), aborted.staleness.max()) <= 1


def test_weights_that_arrive_late_are_older():
    """Nothing stops, so that times are the same, and a group read what the slots had."""
    now, late = (rollouts(train=ONE, sync=law, during_sync="continue") for law in (ZERO, delays.Constant(0.5)))
    trace, older = (asim.simulate(some, commits=400) for some in (now, late))
    assert older.commit_time.tolist() == trace.commit_time.tolist()
    assert set((trace.read_version - older.read_version).tolist()) == {0, 1}
    assert (older.read_time <= older.start_time).all()


def test_a_pause_stops_generation():
    """Constant times by hand: two slots generate 2 s, pause 3 s after each step of 1 s."""
    some = asim.Rollouts(slots=2, group=1, batch=2, generate=delays.Constant(2.0), train=ONE, sync=delays.Constant(3.0))
    ledger = some.ledger(commits=4)
    assert ledger.steps.computed.tolist() == [3.0, 8.0]
    assert ledger.steps.update.tolist() == [6.0, 11.0]
    assert ledger.start.tolist() == [0.0, 0.0, 2.0, 2.0, 7.0, 7.0]
    assert ledger.seconds[:4].tolist() == [2.0] * 4
    assert ledger.read_version.tolist() == [0, 0, 0, 0, 1, 1]
    summary = ledger.summary()
    assert (summary["trainer_idle"], summary["slots_idle"]) == pytest.approx((1 - 2 / 11, 6 / 11))


def test_a_fast_slot_generates_more():
    ledger = rollouts(slots=2, generate=[delays.Exponential(1.0), delays.Exponential(4.0)]).ledger(commits=2000)
    assert np.bincount(ledger.slot)[0] / len(ledger) == pytest.approx(0.8, abs=0.02)


@settings(max_examples=25)
@given(systems(), st.integers(1, 30), st.integers(1, 30))
def test_a_longer_run_begins_with_the_shorter_one(some, commits, more):
    short, long = (asim.simulate(some, commits=length, seed=4) for length in (commits, commits + more))
    for name in ("worker", "read_version", "version", "start_time", "commit_time"):
        assert (getattr(long, name)[:commits] == getattr(short, name)).all()
    timed = asim.simulate(some, seconds=max(short.seconds, 1e-9), seed=4)
    assert (timed.commit_time[:commits] == short.commit_time).all()


def test_progress_is_reported():
    told = []
    trace = asim.simulate(rollouts(), commits=9, progress=told.append)
    assert [tuple(one) for one in told] == [(9, trace.seconds, 1.0)]


test_wrong_arguments_are_refused = refusals(
    ({"slots": 0}, "`slots` must be an integer of at least 1; got 0. Give a whole number"),
    ({"generate": [ONE]}, "`generate` must have one law per slot; got 1 for 6 slots. Give one law"),
    ({"generate": ZERO}, "`generate` must take time"),
    ({"refill": "groups"}, "`refill` must be one of 'sample', 'group'; got 'groups'. Did you mean 'group'"),
    (
        {"refill": "group", "slots": 7},
        "`slots` must be a multiple of `group` with refill='group'; got 7 for groups of 2",
    ),
    ({"window": 4}, "`window` must be left out with order='completion'; got 4. Use order='window'"),
    ({"capacity": 1}, "`capacity` must be at least `batch` · `steps_per_take`, or no step begins; got 1 for 2 groups"),
    ({"capacity": 5, "steps_per_take": 3}, "`capacity` must be at least .* got 5 for 6 groups .* Use 6 or more"),
    ({"max_age": 1, "sync_every": 3}, "`max_age` must be at least 2, or no group is young enough"),
    ({"lead": 1, "steps_per_take": 3}, "`lead` must be at least 2, .*; got 1.0 with `sync_every` = 1. .* sync_every=3"),
    ({"signal": 1.5}, "`signal` must be at most 1; got 1.5. 1 keeps every group"),
    ({"signal": 0.0}, "`signal` must be .*positive; got 0"),
    ({"engines": 4}, "`engines` must share the slots equally; got 4 for 6 slots. Use a divisor"),
    ({"engines": 6, "refill": "group"}, "`engines` must share .* with room for whole groups of 2; got 6 for 6 slots"),
    (
        {"engines": 2, "faults": (asim.faults.Crash(worker=2, time=1.0),)},
        "`faults` must affect engines 0 to 1; entry 0 names engine 2. Engines are numbered from 0",
    ),
    (
        {"faults": (asim.faults.MessageLoss(0.1, timeout=1.0),)},
        "`faults` of engines must be crashes, sessions or slowdowns; got MessageLoss",
    ),
    (
        {"faults": (asim.faults.Slowdown(0, start=1.0, seconds=1.0, factor=2.0),), "sync": ONE},
        "`faults` must have no slowdown where generation pauses .* Use during_sync='drain' or 'continue'",
    ),
    ({"stale": "abort"}, "`max_age` must be given with stale='abort'; got None"),
    call=lambda changes: rollouts(**changes),
)


def test_a_warm_up_leaves_a_step():
    with pytest.raises(ValueError, match="`warm_up` must be less than the 2 steps of the ledger; got 2"):
        rollouts().ledger(commits=4).summary(warm_up=2)


def test_the_lag_of_tokens_is_that_of_many_moments():
    """Tokens at a hundred moments of each sample, and the newest weights that its slot had then."""
    ledger = rollouts(sync=delays.Uniform(0.1, 1.0), during_sync="continue").ledger(commits=200)
    trained = ledger.trained_version >= 20
    start, seconds = ledger.start[trained], ledger.seconds[trained]
    moments = start[:, None] + seconds[:, None] * (np.arange(100) + 0.5) / 100
    weights = (np.sort(ledger.steps.weights)[None, None] <= moments[..., None]).sum(axis=2)
    lag = ledger.trained_version[trained][:, None] - weights
    summary = ledger.summary(warm_up=20)
    assert summary["token_lag"] == pytest.approx((lag * seconds[:, None]).sum() / seconds.sum() / 100, abs=0.01)
    assert summary["versions"] == pytest.approx(1 + (weights[:, -1] - weights[:, 0]).mean(), abs=0.02)
