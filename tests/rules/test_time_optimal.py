"""Time-optimal rules: the published servers in NumPy, and the protocols that schedule the same algorithms."""

import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import protocols, rules
from asyncsim.components import _component as component
from tests.problems import random_trace
from tests.rules.by_hand import START, H, assert_ends, quadratic, serve

UNEVEN = asim.delays.fleet.two_classes(asim.delays.Exponential(1.0), workers=5, slow=2, factor=6.0)
TRACE = random_trace(commits=120, waiting=0.5, early=0.5)


@pytest.mark.parametrize("batch", [1, 3, 8])
def test_rennala_by_hand(batch, x64):
    collected = []

    def on_arrival(worker, x, delay, theta):
        if delay == 0:
            collected.append(H * x)
        if delay > 0 or len(collected) < batch:
            return None
        theta = theta - 0.2 * sum(collected) / batch
        collected.clear()
        return theta

    thetas = serve(TRACE, on_arrival)
    assert len(np.unique(thetas, axis=0)) > 4  # it does step
    assert_ends(TRACE, rules.Rennala(0.2, batch=batch), thetas, asim.replay)


@pytest.mark.parametrize("limit", [1, 4])
def test_ringmaster_by_hand(limit, x64):
    ignored = []

    def on_arrival(worker, x, delay, theta):
        ignored.append(delay >= limit)
        return None if delay >= limit else theta - 0.1 * H * x

    thetas = serve(TRACE, on_arrival)
    assert 0 < sum(ignored) < len(ignored)
    assert_ends(TRACE, rules.Ringmaster(0.1, limit=limit), thetas, asim.replay)


@pytest.mark.parametrize(
    ("make", "name", "values"), [(rules.Ringmaster, "limit", [4, 1, 2, 9]), (rules.Rennala, "batch", [3, 1, 8, 5])]
)
def test_a_sweep_equals_one_at_a_time(make, name, values, x64):
    """R and B may differ from seed to seed, together with the step size."""
    trace, rates = simulated(protocols.Asynchronous(), 120), [0.1, 0.3, 0.2, 0.05]
    sweep = asim.replay(trace, make(rates, **{name: values}), quadratic(), seed=(0, 0, 0, 0))
    assert len(np.unique(sweep.loss[:, -1])) == 4
    for place, (rate, value) in enumerate(zip(rates, values, strict=True)):
        alone = asim.replay(trace, make(rate, **{name: value}), quadratic())
        np.testing.assert_allclose(sweep.loss[place], alone.loss, rtol=1e-10)
    half = asim.replay(trace, make(rates, **{name: values}), quadratic(), seed=(0, 0, 0, 0), commits=70)
    whole = asim.replay(trace, make(rates, **{name: np.array(values)}), quadratic(), seed=(0, 0, 0, 0), resume=half)
    np.testing.assert_array_equal(whole.loss, sweep.loss)


def youngest(commit):
    """Age of the last update before this commit, in versions of the trace."""
    return commit.view.server[0]


def test_a_sweep_counts_beyond_what_half_precision_can():
    """After 259 updates since the read, a limit of 259 ignores the gradient, although bfloat16 makes it 260."""
    trace = asim.Trace.from_commits([0] * 259 + [1, 0])
    workload = asim.Workload(lambda key: {"x": jnp.zeros(1, jnp.bfloat16)}, lambda p, b, k: p["x"].sum())
    rule = rules.Ringmaster(1.0, limit=[259, 260, 400])
    run = asim.replay(trace, rule, workload, seed=(0, 0, 0), record={"youngest": youngest})
    assert run.records["youngest"][:, -1].tolist() == [2, 1, 1]


def test_several_limits_and_batches_are_checked():
    for limit in ([], [1.5, 2.0], [0, 1], [2**24 + 1]):
        with pytest.raises(ValueError, match="`limit` must be integers from 1 to 16777216; got"):
            rules.Ringmaster(0.1, limit=limit)
    with pytest.raises(ValueError, match=r"`batch` must be one number where the trace makes the steps; got \[1, 2\]"):
        rules.Rennala(0.1, batch=[1, 2], steps="trace")
    rule = rules.Ringmaster(0.1, limit=[1, 3])
    assert rules.Ringmaster(**{name: getattr(rule, name) for name in component.arguments(type(rule))}) == rule
    assert rule != rules.Ringmaster(0.1, limit=[2, 3])


def simulated(protocol, commits, compute=UNEVEN):
    return asim.simulate(asim.Cluster(5, compute, protocol=protocol), commits=commits)


FREE = simulated(protocols.Asynchronous(), 600)
SCHEDULED = [  # a protocol, its commits, what is applied there, and the rule for which it schedules
    (protocols.Rennala(3), 60, rules.Downpour(0.2), rules.Rennala(0.2, batch=3)),
    (protocols.Ringmaster(1), 60, rules.Downpour(0.1), rules.Ringmaster(0.1, limit=1)),
    (protocols.Ringmaster(4), 60, rules.Downpour(0.1), rules.Ringmaster(0.1, limit=4)),
    # Where old jobs arrive and are dropped:
    (protocols.Malenia(1, cancel=False), 150, rules.Malenia(0.2, steps="trace"), rules.Malenia(0.2, batch=1)),
    (protocols.Malenia(12, cancel=False), 150, rules.Malenia(0.2, steps="trace"), rules.Malenia(0.2, batch=12)),
]


@pytest.mark.parametrize(("protocol", "commits", "applied", "rule"), SCHEDULED)
def test_a_protocol_makes_the_steps_that_the_rule_makes_of_an_asynchronous_trace(protocol, commits, applied, rule, x64):
    """Without noise, because mini-batches are counted in commits, and a dropped gradient is not a commit."""
    trace = simulated(protocol, commits)
    assert trace.steps > 2
    expected = asim.replay(trace, applied, quadratic()).central["x"]
    run = asim.replay(FREE, rule, quadratic(), commits=int((FREE.commit_time <= trace.seconds).sum()))
    np.testing.assert_allclose(run.central["x"], expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("protocol", "rule"),
    [
        (protocols.Rennala(3), rules.Rennala(0.1, batch=3, steps="trace")),
        *((protocols.Ringmaster(limit, stop=True), rules.Ringmaster(0.1, limit=limit)) for limit in (1, 4)),
    ],
)
def test_it_is_downpour_on_a_trace_whose_gradients_all_count(protocol, rule, x64):
    losses = (asim.replay(simulated(protocol, 60), one, quadratic()).loss for one in (rules.Downpour(0.1), rule))
    np.testing.assert_allclose(*losses, rtol=1e-12)


@pytest.mark.parametrize("batch", [5, 12])
def test_malenia_by_hand(batch, x64):
    n = TRACE.workers
    lines = [[] for _ in range(n)]

    def on_arrival(worker, x, delay, theta):
        if delay > 0:
            return None
        lines[worker].append(H * x)
        if not all(lines) or 1 / np.mean([1 / len(line) for line in lines]) < batch / n - 1e-9:
            return None
        theta = theta - 0.3 * np.mean([np.mean(line, axis=0) for line in lines], axis=0)
        for line in lines:
            line.clear()
        return theta

    thetas = serve(TRACE, on_arrival)
    assert len(np.unique(thetas, axis=0)) > 2
    assert_ends(TRACE, rules.Malenia(0.3, workers=n, batch=batch), thetas, asim.replay)


def test_malenia_with_cancellation_by_hand(x64):
    """Every step is the mean over workers of their means, whatever the numbers, at the value that all of them read."""
    laws = [asim.delays.Exponential(mean) for mean in (1.0, 1.0, 2.0, 6.0)]
    minima = np.array([[0.0, 1.0], [2.0, 0.0], [-4.0, 3.0], [9.0, 5.0]])
    noisy = asim.workloads.Quadratic(H[:2], start=START[:2], minima=minima)
    trace = asim.simulate(asim.Cluster(4, laws, protocol=protocols.Malenia()), commits=200, seed=2)
    run = asim.replay(trace, rules.Malenia(0.2, steps="trace"), noisy, record=("read", "central"))
    x, counts = np.array(START[:2], float), []
    for size in np.split(np.arange(200), np.flatnonzero(trace.closes_step) + 1):
        if size.size and trace.closes_step[size[-1]]:
            np.testing.assert_allclose(run.records["read"][size], np.broadcast_to(x, (len(size), 2)), rtol=1e-9)
            x = x - 0.2 * np.mean(H[:2] * (x - minima), axis=0)
            np.testing.assert_allclose(run.records["central"][size[-1]], x, rtol=1e-9)
            counts.append(len(size))
    assert max(counts) > 2 * min(counts)
    assert trace.unfinished.fate.tolist().count(asim.trace.Fate.CANCELLED) > 20


def test_ia2sgd_by_hand(x64):
    table = {}

    def on_arrival(worker, x, delay, theta):
        table[worker] = H * x
        return theta - 0.1 * sum(table.values()) / TRACE.workers if len(table) == TRACE.workers else None

    assert_ends(TRACE, rules.IA2SGD(0.1, workers=TRACE.workers), serve(TRACE, on_arrival), asim.replay)


@pytest.mark.parametrize("extra", ["next", "ignored"])
def test_ringleader_by_hand(extra, x64):
    n = TRACE.workers
    now, later = {}, {}
    waiting = set()  # for a step in this phase; empty while the server collects
    delays = []

    def on_arrival(worker, x, delay, theta):
        nonlocal now, later
        if waiting and worker not in waiting:
            if extra == "next":
                later.setdefault(worker, []).append(H * x)
            return None
        now.setdefault(worker, []).append((H * x, delay))
        if not waiting and len(now) == n:
            waiting.update(range(n))
        if not waiting:
            return None
        means = [np.mean([g for g, _ in line], axis=0) for line in now.values()]
        delays.append(delay)
        waiting.discard(worker)
        if not waiting:
            now, later = {w: [(g, 0) for g in line] for w, line in later.items()}, {}
        return theta - 0.1 * sum(means) / n

    thetas = serve(TRACE, on_arrival)
    assert len(delays) >= 2 * n
    assert max(delays) <= 2 * n - 2
    assert_ends(TRACE, rules.Ringleader(0.1, extra=extra), thetas, asim.replay)
