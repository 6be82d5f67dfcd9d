"""Rollouts: the simulator agrees with laws that no report holds against it, within 3.5 standard errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsim as asim
from asyncsim import delays
from asyncsim.theory import rollouts as theory
from tests.theory.replicates import z_score

ONE = delays.Exponential(1.0)
SEEDS = 16
EXACT = 3.5  # standard errors


def measured(rollouts, steps, warm_up=60, seeds=SEEDS):
    """Name -> one value per seed, of ledgers of so many steps."""
    rows = [rollouts.ledger(commits=steps * rollouts.batch, seed=seed).summary(warm_up) for seed in range(seeds)]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def single(slots, samples, train, generate=ONE, **settings):
    """Rollouts whose groups are one sample."""
    law = delays.Constant(train)
    return asim.Rollouts(slots=slots, group=1, batch=samples, generate=generate, train=law, **settings)


@pytest.mark.parametrize(("lead", "group", "batch"), [(0, 2, 3), (1, 1, 1), (3, 2, 2)])
def test_in_order_steps_are_those_of_the_schedule(lead, group, batch):
    rollouts = asim.Rollouts(
        slots=(lead + 1) * batch * group, group=group, batch=batch, generate=ONE, train=delays.Constant(0.7),
        lead=lead, order="submission",
    )  # fmt: skip
    ledger = rollouts.ledger(commits=50 * batch)
    step = ledger.group // batch
    here = step < 50
    longest = np.zeros(50)
    np.maximum.at(longest, step[here], ledger.seconds[here])
    ends = theory.in_order_steps(longest, train=0.7, lead=lead)
    np.testing.assert_allclose(ledger.steps.update, ends, rtol=1e-9)
    assert (ledger.trained_version - ledger.read_version)[(step >= lead) & here].min() == lead


@pytest.mark.parametrize(("law", "group"), [(ONE, 2), (delays.LogNormal(1.0, 1.0), 4)])
def test_throughput_of_whole_groups(law, group):
    """Where rollouts are the bottleneck, refill by group generates C/(F·E G), which bounds everything else."""
    settings = {"generate": law, "slots": 8, "group": group, "batch": 2}
    rollouts = asim.Rollouts(**settings, train=delays.Constant(0.05), refill="group")
    bound = min(theory.throughput_bounds(**settings, train=0.05, refill="group"))
    found = measured(rollouts, 400)
    assert z_score(found["samples_per_second"], bound) < EXACT


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_mean_and_largest_staleness(data):
    """Admission fixes the mean, the order the maximum, for any law."""
    group, batch = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    order = data.draw(st.sampled_from(["completion", "submission", "window", "newest", "freshest", "stalest"]))
    window = data.draw(st.integers(1, 9)) if order == "window" else 1
    lead = data.draw(st.sampled_from([0.0, 0.5, 1.0, 2.0, 2.7]))
    law = data.draw(st.sampled_from([ONE, delays.Constant(1.0), delays.LogNormal(1.0, 2.0), delays.Pareto(0.5, 2.0)]))
    refill, every = data.draw(st.sampled_from(["sample", "group"])), data.draw(st.sampled_from([1, 1, 2, 3]))
    drain = data.draw(st.sampled_from(["pause", "drain"]))
    together = every if data.draw(st.booleans()) else 1
    rollouts = asim.Rollouts(
        slots=group * data.draw(st.integers(1, 20)), group=group, batch=batch, generate=law, refill=refill,
        train=delays.Constant(data.draw(st.sampled_from([0.0, 0.3, 3.0]))), lead=lead, order=order, window=window,
        sync_every=every, during_sync=drain, steps_per_take=together,
    )  # fmt: skip
    trace = asim.simulate(rollouts, commits=60 * batch, seed=data.draw(st.integers(0, 9)))
    assert trace.staleness.mean() <= theory.staleness_bound(lead, sync_every=every)
    most = theory.largest_staleness(order, lead=lead, batch=batch, window=window, sync_every=every)
    assert trace.staleness.max() <= most
    bounds = theory.throughput_bounds(
        generate=delays.Constant(law.mean * 0.01), train=0.0, slots=rollouts.slots, group=group, batch=batch
    )
    assert len(trace) * group / trace.seconds <= min(bounds)


@pytest.mark.parametrize(
    ("lead", "order", "batch"), [(1.0, "completion", 4), (2.0, "submission", 3), (0.5, "window", 6)]
)
def test_the_mean_is_the_lead_while_admission_limits(lead, order, batch):
    rollouts = asim.Rollouts(
        slots=2 * 10 * batch, group=2, batch=batch, generate=ONE, train=delays.Constant(2.0), lead=lead, order=order
    )
    trace = asim.simulate(rollouts, commits=400 * batch)
    ages = trace.unfinished.read_version
    still = (trace.steps - ages).sum()  # conservation: the rest of L·b groups a step, and of the start
    missing = lead * batch * trace.steps - trace.staleness.sum() - still
    assert missing == pytest.approx(0.0, abs=lead * batch + 1)


def test_pauses_leave_staleness():
    settings = {"generate": delays.Gamma(1.0, 0.5), "slots": 10, "samples": 8, "train": 0.3}
    plain = measured(single(**settings), 400, seeds=2)
    paused = measured(single(**settings, sync=delays.Constant(0.5)), 400, seeds=2)
    np.testing.assert_allclose(paused["staleness"], plain["staleness"])


@pytest.mark.parametrize(("batch", "error"), [(8, 0.05), (64, 0.015)])
@pytest.mark.parametrize(("load", "batches"), [(0.7, 1), (1.4, 2)])
def test_fluid_limit(batch, error, load, batches):
    """The total is right to O(1/b); what is measured of the split is in whole versions."""
    slots = 3 * batch
    rollouts = single(slots, batch, load / 3, generate=delays.Gamma(1.0, 0.5), capacity=batches * batch)
    found = {name: values.mean() for name, values in measured(rollouts, 300, seeds=2).items()}
    predicted = theory.fluid(slots=slots, samples=batch, load=load, batches=batches)
    assert found["staleness"] == pytest.approx(predicted.pre_queue + predicted.in_queue, rel=error)
    if batch == 64:
        assert found["in_queue"] == pytest.approx(predicted.in_queue_whole, rel=0.05)


@pytest.mark.parametrize("generate", [ONE, delays.LogNormal(1.0, 1.0)])
def test_token_lag(generate):
    rollouts = single(96, 32, 0.2, generate=generate)
    found = {name: values.mean() for name, values in measured(rollouts, 300, seeds=4).items()}
    predicted = theory.token_lag(generate=generate, slots=96, samples=32, in_queue=found["in_queue"])
    assert found["token_lag"] == pytest.approx(predicted, rel=0.03)


def test_age_cutoff():
    law, max_age = delays.LogNormal(1.0, 1.0), 4
    rollouts = single(128, 32, 0.1, generate=law, max_age=max_age)
    found = {name: values.mean() for name, values in measured(rollouts, 400, seeds=4).items()}
    settings = {"generate": law, "train": 0.1, "slots": 128, "samples": 32, "max_age": max_age}
    predicted = theory.age_cutoff(**settings)
    assert 1 / found["steps_per_second"] == pytest.approx(predicted.period, rel=0.05)
    assert found["trained_length"] == pytest.approx(predicted.trained_length, rel=0.05)
    assert found["wasted"] == pytest.approx(predicted.wasted, rel=0.1)


def test_the_best_split_has_the_shortest_period():
    settings = {"gpus": 16, "samples": 512, "train_rate": 3.0, "rollout_rate": 1.2}
    periods = [theory.split_period(**settings, load=load) for load in (0.9, 1.0, 1.1)]
    best = theory.best_split(**settings)
    assert best.period == periods[1] == min(periods)
    assert best.period == pytest.approx(512 / (3.0 * best.train_gpus)) == pytest.approx(512 / (1.2 * best.rollout_gpus))


@pytest.mark.parametrize("slots", [1, 16])
def test_a_synchronous_cluster_is_one_lead_of_none(slots):
    """L = 0, T = 0 and as many slots as samples: the times of a synchronous cluster, and no staleness."""
    rollouts = single(slots, slots, 0.0, lead=0)
    cluster = asim.Cluster(workers=slots, compute=ONE, protocol=asim.protocols.Synchronous())
    steps = asim.simulate(cluster, commits=50 * slots, seed=3)
    trace = asim.simulate(rollouts, commits=50 * slots, seed=3)
    np.testing.assert_allclose(trace.commit_time[trace.closes_step], steps.commit_time[steps.closes_step], rtol=1e-12)
    assert trace.staleness.max() == 0


@pytest.mark.parametrize("slots", [1, 12])
def test_an_asynchronous_cluster_is_one_step_a_sample(slots):
    """S = b = 1, T = 0, no bound: a slot reads just before its own predecessor counts, and staleness is one more."""
    trace = asim.simulate(single(slots, 1, 0.0), commits=400, seed=5)
    cluster = asim.simulate(asim.Cluster(workers=slots, compute=ONE), commits=400, seed=5)
    np.testing.assert_array_equal(trace.commit_time, cluster.commit_time)
    _, first = np.unique(cluster.worker, return_index=True)
    later = np.ones(400, bool)
    later[first] = False
    np.testing.assert_array_equal(trace.staleness[later] - 1, cluster.staleness[later])
