"""Steps on one taken batch, groups without a signal, orders and faults of engines: values and closed forms."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays, faults
from asyncsim.theory import rollouts as theory
from asyncsim.trace import Fate
from tests.theory.replicates import z_score

ONE, EXPONENTIAL = delays.Constant(1.0), delays.Exponential(1.0)
LONG = delays.LogNormal(mean=30.0, cv=1.0)
# 16 groups of 4 samples, of which the trainer makes 4 steps of 4 seconds.
DRAINED = {"slots": 64, "group": 4, "batch": 4, "generate": LONG, "train": delays.Constant(4.0)}
EXACT = 3.5  # standard errors


def measured(steps=300, warm_up=0, **settings):
    """Name in the summary -> its value for each of 8 seeds."""
    made = asim.Rollouts(**settings)
    rows = [made.ledger(steps * made.batch, seed).summary(warm_up) for seed in range(8)]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def error_of(values):
    return values.std(ddof=1) / np.sqrt(len(values))


@pytest.mark.parametrize("order", ["completion", "submission", "newest"])
@pytest.mark.parametrize("refill", ["sample", "group"])
def test_groups_that_are_taken_together_are_0_to_3_versions_old(order, refill):
    """With no lead and new weights after the last of 4 steps, 4 groups each, whatever the order."""
    made = asim.Rollouts(**DRAINED, lead=0, sync_every=4, steps_per_take=4, order=order, refill=refill)
    assert asim.simulate(made, commits=80).staleness.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3] * 5


@pytest.mark.parametrize(("steps_per_take", "period", "error"), [(4, 177.1, 1.2), (1, 164.9, 1.2)])
def test_the_period_of_four_steps_with_and_without_a_common_take(steps_per_take, period, error):
    """Steps that take their groups one by one begin while the last groups are generated, and end earlier."""
    settings = {**DRAINED, "lead": 0, "sync_every": 4, "steps_per_take": steps_per_take}
    periods = 4 / measured(**settings)["steps_per_second"]
    assert abs(periods.mean() - period) < EXACT * np.hypot(error_of(periods), error)
    if steps_per_take == 4:
        assert z_score(periods, theory.synchronous_period(generate=LONG, train=16.0, samples=64)) < EXACT


@pytest.mark.parametrize("refill", ["sample", "group"])
@pytest.mark.parametrize(("steps", "batch", "lead"), [(2, 8, 0), (3, 5, 0), (8, 2, 0), (2, 8, 1), (3, 5, 2), (8, 2, 1)])
def test_other_takes_are_as_old_as_their_place_and_the_lead_say(steps, batch, lead, refill):
    """A take of k steps of b groups with a lead of L takes: ages k·L, …, k·L + k - 1, b of each, once L takes wait."""
    made = asim.Rollouts(
        slots=4 * (lead + 1) * steps * batch, group=4, batch=batch, generate=ONE, train=delays.Constant(9.0),
        lead=lead, sync_every=steps, steps_per_take=steps, refill=refill,
    )  # fmt: skip
    ages = asim.simulate(made, commits=6 * steps * batch).staleness
    late = ages[(lead + 1) * steps * batch :]
    assert late.tolist() == np.resize(np.repeat(steps * lead + np.arange(steps), batch), len(late)).tolist()


@pytest.mark.parametrize(("steps", "batch"), [(2, 8), (8, 2), (3, 5), (6, 1)])
def test_other_takes_have_the_period_of_one_batch_of_all_their_samples(steps, batch):
    """The longest of k·b·S samples, and then k steps."""
    settings = {**DRAINED, "slots": 4 * steps * batch, "batch": batch, "lead": 0}
    periods = steps / measured(**settings, steps=60 * steps, sync_every=steps, steps_per_take=steps)["steps_per_second"]
    expected = theory.synchronous_period(generate=LONG, train=4.0 * steps, samples=4 * steps * batch)
    assert z_score(periods, expected) < EXACT
    if batch == 1:  # one group a step: the sum of its parts by simulation of the longest sample alone
        longest = LONG.sample(np.random.default_rng(9), 4000 * 24).reshape(4000, 24).max(axis=1)
        assert abs(longest.mean() + 24.0 - expected) < EXACT * error_of(longest)


def test_steps_of_one_take_follow_one_another_without_a_wait():
    ledger = asim.Rollouts(**DRAINED, lead=2, steps_per_take=3).ledger(commits=120)
    inner = np.arange(len(ledger.steps.begin)) % 3 > 0
    np.testing.assert_array_equal(ledger.steps.begin[inner], ledger.steps.update[:-1][inner[1:]])


def test_groups_without_a_signal_slow_rollouts_down_by_their_share():
    """Rate q·C/(b·E L) = 2.8 steps per second and staleness (q·C + E Q)/B, where generation is the bottleneck."""
    settings = {"slots": 32, "group": 1, "batch": 8, "generate": EXPONENTIAL, "train": delays.Constant(0.05)}
    found = measured(steps=800, warm_up=50, signal=0.7, **settings)
    queue = theory.unbounded_queue(mean=1.0, train=0.05, slots=32, samples=8, signal=0.7)
    assert queue.staleness == pytest.approx(2.942, abs=EXACT * 0.002)
    for name, expected in (("steps_per_second", 2.8), ("staleness", queue.staleness), ("wasted", 0.3)):
        assert z_score(found[name], expected) < EXACT, name


@pytest.mark.parametrize(
    ("signal", "slots", "batch", "train"), [(0.3, 48, 8, 0.3), (0.9, 20, 4, 0.1), (0.5, 64, 16, 0.2)]
)
def test_other_shares_and_pools_have_the_staleness_of_their_queue(signal, slots, batch, train):
    """The groups without a signal take their slots' time, and are in no queue."""
    settings = {"slots": slots, "group": 1, "batch": batch, "generate": EXPONENTIAL, "train": delays.Constant(train)}
    found = measured(steps=800, warm_up=50, signal=signal, **settings)
    queue = theory.unbounded_queue(mean=1.0, train=train, slots=slots, samples=batch, signal=signal)
    for name, expected in (("staleness", queue.staleness), ("queue", queue.queue), ("trainer_idle", queue.idle)):
        assert z_score(found[name], expected) < EXACT, name


@pytest.mark.parametrize("refill", ["sample", "group"])
@pytest.mark.parametrize(
    ("slots", "group", "batch", "signal", "law"),
    [
        (32, 1, 8, 0.3, EXPONENTIAL),
        (16, 1, 4, 0.9, delays.LogNormal(2.0, 1.0)),
        (48, 4, 4, 0.5, delays.Gamma(1.0, 0.5)),
        (24, 3, 2, 0.7, ONE),
    ],
)
def test_other_pools_lose_the_share_without_a_signal(slots, group, batch, signal, law, refill):
    """Rate q·C/(b·E L), where L is the time for which a group holds slots, S·G by sample and S·max by group."""
    settings = {"slots": slots, "group": group, "batch": batch, "generate": law, "train": delays.Constant(1e-3)}
    found = measured(steps=500, warm_up=50, signal=signal, refill=refill, **settings)
    held = law.mean if refill == "sample" else theory.synchronous_period(generate=law, train=0.0, samples=group)
    assert z_score(found["steps_per_second"], signal * slots / (batch * group * held)) < EXACT
    assert z_score(found["wasted"], 1 - signal) < EXACT


@pytest.mark.parametrize("order", ["completion", "submission"])
def test_discarded_groups_are_replaced_under_a_lead(order):
    """Admission counts the others alone, so that the mean is the lead less the ages of the discarded."""
    made = asim.Rollouts(slots=60, group=2, batch=4, generate=EXPONENTIAL, train=ONE, lead=2.0, signal=0.5, order=order)
    trace = asim.simulate(made, commits=2000)
    rest = trace.unfinished
    dropped = rest.fate == Fate.DROPPED
    assert dropped.sum() == pytest.approx(2000, abs=EXACT * np.sqrt(2 * 2000))
    ages = (rest.end_version - rest.read_version)[dropped].sum()
    assert (trace.staleness.sum() + ages) / 2000 == pytest.approx(2.0, abs=0.05)
    assert trace.staleness.max() <= 2 or order == "completion"


def test_other_groups_are_generated_as_without_discards():
    """Chances have a stream of their own."""
    settings = {"slots": 8, "group": 2, "batch": 2, "generate": EXPONENTIAL, "train": delays.Constant(0.01)}
    every, some = (asim.Rollouts(**settings, signal=signal).ledger(commits=40) for signal in (1.0, 0.5))
    assert some.start[:80].tolist() == every.start[:80].tolist()


def test_the_order_moves_the_spread_of_staleness_and_not_its_mean():
    """In the queue of a trainer that is busy for 92 % of the time."""
    settings = {"slots": 16, "group": 1, "batch": 4, "generate": EXPONENTIAL, "train": delays.Constant(0.23)}
    orders = ("stalest", "completion", "freshest", "newest")
    found = {order: measured(steps=400, warm_up=50, order=order, **settings) for order in orders}
    for order in orders:
        assert z_score(found[order]["staleness"] - found[order]["outstanding"] / 4, 0) < EXACT
    for smaller, larger in (("stalest", "completion"), ("completion", "freshest"), ("completion", "newest")):
        assert (found[smaller]["staleness_sd"] < found[larger]["staleness_sd"]).all()


@pytest.mark.parametrize(("order", "second"), [("newest", 3), ("completion", 1)])
def test_newest_takes_the_group_that_was_complete_last(order, second):
    """Samples of three slots end at 1, 2 and 3 s, while the trainer makes its first step of another."""
    laws = [delays.Constant(seconds) for seconds in (0.5, 1.0, 2.0, 3.0)]
    made = asim.Rollouts(slots=4, group=1, batch=1, generate=laws, train=delays.Constant(4.0), lead=3.0, order=order)
    assert np.flatnonzero(made.ledger(commits=2).trained_version == 1).tolist() == [second]


def test_an_engine_that_goes_down_loses_its_groups():
    """Constant times by hand: of two engines with two slots, the second is away from 2.5 s to 4 s."""
    made = asim.Rollouts(
        slots=4, group=2, batch=1, generate=ONE, train=delays.Constant(0.1), engines=2,
        faults=[faults.Crash(worker=1, time=2.5, restart_after=1.5)],
    )  # fmt: skip
    ledger = made.ledger(commits=9)
    second = ledger.slot >= 2
    assert ledger.start[second].tolist()[:8] == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0]
    assert ledger.end[second].tolist()[4:6] == [2.5, 2.5]
    assert ledger.dropped_version[ledger.drop_time == 2.5].tolist() == [4, 4]
    trace = asim.simulate(made, commits=9)
    assert (trace.unfinished.fate == Fate.CRASHED).sum() == 1
    assert trace.unfinished.end_time[trace.unfinished.fate == Fate.CRASHED].tolist() == [2.5]


def test_a_group_on_two_engines_is_lost_with_either():
    made = asim.Rollouts(
        slots=2, group=2, batch=1, generate=ONE, train=delays.Constant(0.1), faults=[faults.Crash(0, 0.25, 0.5)]
    )
    ledger = made.ledger(commits=1)
    assert ledger.start.tolist()[:4] == [0.0, 0.0, 0.25, 0.75]  # the free slot opens another group at once
    assert ledger.end[:2].tolist() == [0.25, 0.25]


@pytest.mark.parametrize("law", [EXPONENTIAL, delays.Uniform(0.5, 1.5), delays.LogNormal(1.0, 1.0)])
def test_engines_that_come_and_go_generate_what_theory_says(law):
    """A slot is a worker that is preempted, and long samples are lost more often."""
    away = faults.Sessions(online=delays.Exponential(3.0), offline=delays.Gamma(1.0, 0.5))
    settings = {"slots": 12, "group": 1, "batch": 4, "generate": law, "train": delays.Constant(0.05)}
    slot = asim.theory.preemption(compute=law, preemption_rate=1 / 3.0, down=1.0)
    length = slot.useful * slot.available / slot.commits_per_second
    predicted = (12 * slot.commits_per_second, length, 1 - slot.useful)
    found = measured(warm_up=20, engines=4, faults=[away], **settings)
    for name, expected in zip(("samples_per_second", "trained_length", "wasted"), predicted, strict=True):
        assert z_score(found[name], expected) < EXACT, name


def test_engines_that_do_not_come_back_are_named():
    made = asim.Rollouts(slots=2, group=1, batch=1, generate=ONE, train=ONE, faults=[faults.Crash(0, 1.5)], engines=1)
    with pytest.raises(ValueError, match=r"stuck after 2 of 5, .* Engines that are down: 1 of 1. Let"):
        made.ledger(commits=5)


def test_a_slow_engine_takes_longer_for_a_while():
    slow = faults.Slowdown(worker=0, start=2.0, seconds=2.0, factor=2.0)
    made = asim.Rollouts(slots=1, group=1, batch=1, generate=ONE, train=delays.Constant(0.1), faults=[slow])
    assert made.ledger(commits=5).end[:5].tolist() == [1.0, 2.0, 4.0, 5.0, 6.0]


def test_a_crash_during_a_pause_is_no_generation():
    made = asim.Rollouts(
        slots=2, group=1, batch=1, generate=[ONE, delays.Constant(5.0)], train=delays.Constant(0.5),
        sync=delays.Constant(2.0), faults=[faults.Crash(1, 2.5, 0.1)],
    )  # fmt: skip
    ledger = made.ledger(commits=1)
    assert ledger.steps.stopped.tolist() == [1.5]
    assert ledger.seconds[ledger.slot == 1].tolist() == [1.5]


def test_weights_that_arrive_in_a_drain_wait_for_no_lost_sample():
    made = asim.Rollouts(
        slots=2, group=1, batch=1, generate=[ONE, delays.Constant(5.0)], train=delays.Constant(0.5),
        during_sync="drain", faults=[faults.Crash(1, 2.5, 9.0)],
    )  # fmt: skip
    assert made.ledger(commits=1).steps.update.tolist() == [2.5]
