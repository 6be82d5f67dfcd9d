"""The cost of a run: every second and every byte is counted once, whatever the cluster does."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import asyncsim as asim
from asyncsim import compressors, delays, faults, protocols, rules, workloads
from asyncsim.costs import cost_over_time, sizes
from asyncsim.costs._result import PARTS
from asyncsim.costs._usage import shows_pulls
from asyncsim.trace import NEVER, Fate, Fault, Faults
from asyncsim.trace._columns import end_of_trace
from tests import tables
from tests.cluster.problems import clusters
from tests.problems import refusals

MANY = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
MESSAGE, PARAMETERS = 7, 1000
SIZES = {"message_bytes": MESSAGE, "parameter_bytes": PARAMETERS}
POWER = asim.Power(busy=300.0, idle=60.0, server=40.0, joules_per_byte=0.5)


def separate(cluster):
    return not cluster.server.atomic and cluster.server.pull == "before_commit"


def counted_by_hand(trace, pulls):
    """Messages up and down by a plain loop over the rows of all tables."""
    rest, seen = trace.unfinished, set()
    rows = [*zip(trace.read_time, trace.worker, trace.resumes_own, ["committed"] * len(trace), strict=True)]
    rows += zip(rest.read_time, rest.worker, rest.resumes_own, map(Fate, rest.fate), strict=True)
    up = down = lost_jobs = 0
    lost_messages = sum(kind == Fault.MESSAGE_LOST for kind in trace.faults.kind)
    for _, worker, own, end in sorted(rows, key=lambda row: row[0]):
        if not own:
            down += worker in seen
            seen.add(worker)
        lost_jobs += end is Fate.LOST
        sent = end in ("committed", Fate.DROPPED)
        up += sent
        down += bool(pulls and (sent or end is Fate.LOST))
    return up + (lost_messages or lost_jobs), down


@MANY
@given(clusters(), st.integers(0, 3))
def test_every_second_and_every_byte_counts_once(cluster, seed):
    trace = asim.simulate(cluster, commits=60, seed=seed)
    pulls = separate(cluster)
    spent = asim.cost(trace, **SIZES, power=POWER, pulls=pulls)
    end = end_of_trace(trace)
    assert tuple(spent.seconds) == PARTS
    assert all(part.shape == (cluster.workers,) and (part >= 0).all() for part in spent.seconds.values())
    np.testing.assert_allclose(sum(spent.seconds.values()), end, rtol=1e-9, atol=1e-9)
    up, down = counted_by_hand(trace, pulls)
    assert type(spent.bytes_up) is int
    assert type(spent.bytes_down) is int
    assert (spent.bytes_up, spent.bytes_down) == (MESSAGE * up, PARAMETERS * down)
    busy = spent.seconds["compute"].sum()
    by_hand = 60 * cluster.workers * end + 240 * busy + 40 * end + 0.5 * (MESSAGE * up + PARAMETERS * down)
    assert spent.joules == pytest.approx(by_hand)
    assert spent.money is None
    assert pulls or not shows_pulls(trace)


@MANY
@given(clusters(), st.integers(0, 3))
def test_an_earlier_end_counts_what_was_spent_by_then(cluster, seed):
    trace = asim.simulate(cluster, commits=40, seed=seed)
    price = asim.Price(per_hour=3600.0, spot=True, egress_per_gigabyte=1e9, server_per_hour=7200.0)
    end = end_of_trace(trace)
    times = np.linspace(0.0, end, 5)
    spent = cost_over_time(trace, times, **SIZES, power=POWER, price=price)
    for place, time in enumerate(times):
        alone = asim.cost(trace, **SIZES, power=POWER, price=price, seconds=time)
        assert alone.duration == time
        np.testing.assert_allclose(sum(alone.seconds.values()), time, rtol=1e-9, atol=1e-9)
        assert spent["bytes"][place] == alone.bytes_sent
        assert spent["joules"][place] == pytest.approx(alone.joules, abs=1e-6)
        assert spent["money"][place] == pytest.approx(alone.money, abs=1e-6)


@pytest.mark.quick
def test_the_parts_of_a_job_by_hand():
    """One worker, every stage of another length, and half a second from one job to the next."""
    network = asim.Network(latency=delays.Constant(0.25), bandwidth=8.0, upload_bandwidth=4.0, message_bytes=4.0)
    server = asim.Server(service=delays.Constant(3.0), atomic=False)
    trace = asim.simulate(asim.Cluster(1, delays.Constant(2.0), network, server), commits=3)
    spent = asim.cost(trace, message_bytes=4, parameter_bytes=4, pulls=True)
    download, pull, upload = 0.25 + 0.5, 0.25 + 0.25 + 0.5, 0.25 + 1.0
    expected = {"waiting": 2 * 0.5, "download": 2 * download, "compute": 6.0, "upload": 3 * (pull + upload)}
    expected |= {"queue": 0.0, "service": 9.0, "down": 0.0}
    assert {name: part.item() for name, part in spent.seconds.items()} == pytest.approx(expected)
    assert (spent.bytes_up, spent.bytes_down) == (3 * 4, (2 + 3) * 4)


@pytest.mark.quick
def test_workers_that_keep_their_value_download_only_pulls():
    server = asim.Server(atomic=False, resume="own", pull_to_commit=delays.Exponential(0.1))
    trace = asim.simulate(asim.Cluster(4, delays.Exponential(1.0), server=server), commits=50)
    assert asim.cost(trace, message_bytes=0, parameter_bytes=1).bytes_down == 50  # which the trace itself shows


def test_lost_messages_and_down_time():
    law = delays.Exponential(1.0)
    away = faults.Sessions(delays.Exponential(5.0), delays.Exponential(2.0))
    losing = faults.MessageLoss(0.5, timeout=0.5, attempts=3)
    trace = asim.simulate(asim.Cluster(4, law, faults=[away, losing]), seconds=500.0)
    spent = asim.cost(trace, message_bytes=1, parameter_bytes=0)
    lost = np.count_nonzero(trace.faults.kind == Fault.MESSAGE_LOST)
    assert lost > 100
    assert spent.bytes_up == len(trace) + lost
    error = 2 / 7 * 5 / 7 * np.sqrt(2 / (4 * 500 / 7))  # of the share of exponential times in so many cycles
    assert spent.shares["down"] == pytest.approx(2 / 7, abs=3.5 * error)
    assert spent.seconds["upload"].sum() >= 0.5 * 0.9 * lost


def test_overlapping_times_away_count_once():
    trace = asim.Trace.from_commits([0, 1, 0], commit_time=[1.0, 2.0, 3.0])
    kinds, start, end = [Fault.CRASH, Fault.OFFLINE, Fault.CRASH], [2.0, 2.5, 3.5], [4.0, 6.0, np.inf]
    jobs = dataclasses.replace(trace.unfinished, end_time=[3.0, 2.0], end_version=[3, 2], fate=[Fate.CRASHED] * 2)
    away = Faults(kind=np.array(kinds, np.int8), worker=np.ones(3, np.int32), start_time=start, end_time=end)
    trace = dataclasses.replace(trace, unfinished=jobs, faults=away)
    spent = asim.cost(trace, **SIZES, price=asim.Price(per_hour=3600.0, spot=True))
    assert spent.seconds["down"].tolist() == [0.0, 1.5]
    assert spent.seconds["waiting"].tolist() == [0.5, 0.0]
    assert spent.money == 3.5 + 2.0


@pytest.mark.quick
def test_a_log_of_commits_says_what_may_be_in_compute():
    trace = asim.Trace.from_commits([0, 1, 0, 1])
    assert asim.cost(trace, **SIZES).contains == ("download", "upload", "queue", "service")
    log = {"worker": [0, 0], "finish_time": [1.0, 3.0], "commit_time": [1.5, 3.5]}
    assert asim.cost(asim.Trace.from_columns(log), **SIZES).contains == ("download",)


@pytest.mark.quick
def test_billing_units_round_up_each_machine():
    trace = asim.Trace.from_commits([0, 1, 0, 1])
    exact = asim.Price(per_hour=1800.0, server_per_hour=3600.0)
    minutes = dataclasses.replace(exact, billing_seconds=60.0)
    whole = dataclasses.replace(exact, billing_seconds=4.0)
    assert asim.cost(trace, **SIZES, price=exact).money == 2 * 4 / 2 + 4
    assert asim.cost(trace, **SIZES, price=minutes).money == 2 * 60 / 2 + 60
    assert asim.cost(trace, **SIZES, price=whole).money == 2 * 4 / 2 + 4


def test_carbon_needs_a_power():
    trace = asim.Trace.from_commits([0] * 3600)
    spent = asim.cost(trace, **SIZES, power=asim.Power(busy=1000.0, idle=0.0))
    assert spent.carbon(intensity=400.0, pue=1.5) == pytest.approx(600.0)
    with pytest.raises(ValueError, match="`power` must have been given"):
        asim.cost(trace, **SIZES).carbon(intensity=400.0)


@pytest.mark.parametrize("compressor", [compressors.TopK(k=3), compressors.QSGD(4), compressors.ScaledSign()])
def test_bytes_of_a_compressor_are_its_own_account(compressor):
    rule = rules.compressed(rules.Downpour(0.05), compressor)
    cluster = asim.Cluster(3, delays.Exponential(1.0), protocol=protocols.Ringmaster(2))
    scenario = asim.Scenario(cluster, rule, workloads.Quadratic([1.0] * 40), commits=30)
    result = asim.run(scenario)
    params = jax.eval_shape(scenario.workload.init, jax.random.key(0))
    spent = asim.cost(result.trace, **sizes(result))
    dropped = np.count_nonzero(result.trace.unfinished.fate == Fate.DROPPED)
    assert dropped
    assert spent.bytes_up == (30 + dropped) * compressor.bytes(params)
    assert sizes(scenario) == sizes(result) == {**sizes(result.run), "pulls": False}
    assert sizes(result.run)["parameter_bytes"] == compressors.bytes_of(params) == 40 * jnp.zeros(1).itemsize


def test_a_network_that_says_how_large_messages_are():
    """A small model in the place of a large one: parameters have its size, and updates the same share of it."""
    network = asim.Network(bandwidth=1e9, message_bytes=4e6)
    cluster = asim.Cluster(2, delays.Constant(1.0), network, asim.Server(atomic=False))
    rule = rules.compressed(rules.Downpour(0.05), compressors.ScaledSign())
    scenario = asim.Scenario(cluster, rule, workloads.Quadratic([1.0] * 32), commits=4)
    found = sizes(scenario)
    share = compressors.ScaledSign().bytes(jnp.zeros(32)) / jnp.zeros(32).nbytes
    assert found == {"message_bytes": round(4e6 * share), "parameter_bytes": 4_000_000, "pulls": True}
    assert scenario.scheduled.network.compression == pytest.approx(share)


class TestPipelines:
    def test_stages_are_the_workers_of_a_pipeline(self):
        pipeline = asim.Pipeline(stages=4, forward=delays.Exponential(1.0), schedule="1f1b", micro_batches=6)
        table = pipeline.timetable(60)
        spent = asim.cost(table, message_bytes=5, parameter_bytes=9)
        np.testing.assert_allclose(sum(spent.seconds.values()), table.seconds)
        assert 1 - spent.busy_share == pytest.approx(table.idle)
        assert (spent.bytes_up, spent.bytes_down) == (60 * 3 * 5, 60 * 3 * 5)

    def test_two_passes_at_once_are_one_time(self):
        pipeline = asim.Pipeline(stages=3, forward=delays.Exponential(1.0), schedule="concurrent")
        table = pipeline.timetable(200)
        spent = asim.cost(table, **SIZES)
        passes = table.forward_end - table.forward_start + table.backward_end - table.backward_start
        both = np.minimum(table.forward_end[1:], table.backward_end[:-1]) - np.maximum(
            table.forward_start[1:], table.backward_start[:-1]
        )
        assert (both > 0).any()
        assert (spent.seconds["compute"] < passes.sum(axis=0)).all()
        np.testing.assert_allclose(sum(spent.seconds.values()), table.seconds)


class TestRollouts:
    LAW, HALF, TENTH = delays.LogNormal(mean=1.0, cv=1.0), delays.Constant(0.5), delays.Constant(0.1)
    SYSTEM = asim.Rollouts(slots=24, group=2, batch=4, generate=LAW, train=HALF, sync=TENTH, lead=1.0)

    def test_slots_are_the_workers_of_rollouts(self):
        ledger = self.SYSTEM.ledger(commits=400)
        spent = asim.cost(ledger, message_bytes=3, parameter_bytes=11)
        summary = ledger.summary()
        np.testing.assert_allclose(sum(spent.seconds.values()), ledger.steps.update[-1])
        assert spent.commits == 400
        assert 1 - spent.busy_share == pytest.approx(summary["slots_idle"])
        assert spent.shares["download"] == pytest.approx(100 * 0.1 / spent.duration)
        assert spent.bytes_down == 100 * 11
        assert spent.bytes_up == 3 * np.count_nonzero(ledger.ready_version >= 0) >= 3 * 800

    def test_money_of_a_step(self):
        """(n_T·p_T + n_R·p_R)·period: two machines of the trainer, and three engines of eight slots each."""
        ledger = self.SYSTEM.ledger(commits=400)
        price = asim.Price(per_hour=2.0 * 3 / 24, server_per_hour=2 * 4.0)
        period = ledger.steps.update[-1] / 100 / 3600
        money = asim.cost(ledger, **SIZES, price=price).money
        assert money / 100 == pytest.approx((2 * 4.0 + 3 * 2.0) * period)

    def test_the_log_of_rollouts_is_paid_by_its_machines(self):
        """And not by the places of its groups, of which it has 16 here for 24 slots."""
        trace = asim.simulate(self.SYSTEM, commits=400)
        log = asim.Trace.from_rollouts(
            opened=trace.start_time, ready=trace.arrive_time, taken=trace.serve_time, trained=trace.commit_time
        )
        price = asim.Price(per_hour=2.0)
        for one in (trace, log):
            assert one.workers != 24
            paid = asim.cost(one, **SIZES, price=price, machines=24).money
            assert paid == pytest.approx(24 * 2.0 * one.seconds / 3600)
        ledger = self.SYSTEM.ledger(commits=400)
        assert asim.cost(ledger, **SIZES, price=price).money == pytest.approx(paid, rel=1e-3)
        assert asim.cost(ledger, **SIZES, price=price, machines=3).money == pytest.approx(paid / 8, rel=1e-3)

    @pytest.mark.parametrize("cluster", [tables.cluster(), tables.CLUSTERS["protocol periodic"]()])
    def test_workers_that_commit_one_by_one_are_machines(self, cluster):
        trace = asim.simulate(cluster, commits=40)
        assert asim.cost(trace, **SIZES, price=asim.Price(per_hour=2.0)).money > 0


@pytest.mark.parametrize(
    "system",
    [
        asim.Pipeline(stages=3, forward=delays.Exponential(1.0), schedule="pipedream"),
        asim.Pipeline(stages=3, forward=delays.Exponential(1.0), schedule="concurrent"),
        TestRollouts.SYSTEM,
    ],
)
def test_traces_of_other_systems_add_up_too(system):
    trace = asim.simulate(system, commits=100)
    np.testing.assert_allclose(sum(asim.cost(trace, **SIZES).seconds.values()), end_of_trace(trace))
    assert (trace.unfinished.end_version == NEVER).any()


LOG, LEDGER = asim.Trace.from_commits([0, 1]), TestRollouts.SYSTEM.ledger(commits=8)
PLACES, PRICE = asim.simulate(TestRollouts.SYSTEM, commits=8), asim.Price(per_hour=2.0)
test_mistakes = refusals(
    (lambda: asim.cost(LOG, message_bytes=1.5, parameter_bytes=0), "`message_bytes` must be an integer"),
    (lambda: asim.cost(LEDGER, **SIZES, seconds=1.0), "`seconds` must be left out for a Ledger"),
    (lambda: cost_over_time(LOG, [-1.0], **SIZES), "`times` must be"),
    (lambda: sizes(LOG), "`of` must be a Scenario"),
    (lambda: asim.cost(PLACES, **SIZES, price=PRICE), "`machines` must be given with a price for a trace of rollouts"),
    (lambda: cost_over_time(PLACES, **SIZES, price=PRICE), "`machines` must be given"),
    (lambda: asim.cost(PLACES, **SIZES, power=POWER), "`power` must be left out for a trace of rollouts"),
    (lambda: asim.cost(LEDGER, **SIZES, power=POWER, machines=3), "`power` must be left out .* with `machines`"),
    (lambda: asim.cost(LOG, **SIZES, machines=0), "`machines` must be an integer of at least 1; got 0"),
)


class TestRing:
    """A round of a ring sends 2(n - 1) updates in all, and nothing down."""

    CLUSTER = asim.Cluster(
        5,
        asim.delays.Gamma(1.0, 0.5),
        network=asim.Network(bandwidth=100.0, message_bytes=40.0, collective="ring"),
        protocol=asim.protocols.Synchronous(),
    )

    def test_a_round_of_a_ring_sends_all_bytes_up(self):
        trace = asim.simulate(self.CLUSTER, commits=5 * 12)
        spent = asim.cost(trace, message_bytes=40, parameter_bytes=40, collective="ring")
        assert (spent.bytes_up, spent.bytes_down) == (12 * 2 * 4 * 40, 0)
        assert sum(part.sum() for part in spent.seconds.values()) == pytest.approx(5 * spent.duration)
        exchange = 2 * 4 / 5 * 40 / 100
        assert spent.seconds["service"] == pytest.approx(np.full(5, 12 * exchange))
        over_time = asim.costs.cost_over_time(trace, message_bytes=40, parameter_bytes=40, collective="ring")
        assert over_time["bytes"][4::5].tolist() == [2 * 4 * 40 * round for round in range(1, 13)]

    def test_sizes_of_a_scenario_name_its_ring(self):
        workload = asim.workloads.Quadratic([1.0] * 7)
        scenario = asim.Scenario(self.CLUSTER, asim.rules.Downpour(0.1), workload, commits=50, record=())
        assert asim.costs.sizes(scenario) == {
            "message_bytes": 40,
            "parameter_bytes": 40,
            "pulls": False,
            "collective": "ring",
        }
        result = asim.run(scenario)
        spent = asim.cost(result.trace, **asim.costs.sizes(result))
        assert spent.bytes_up == result.summary["bytes_up"] == 10 * 2 * 4 * 40
        assert spent.bytes_down == result.summary["bytes_down"] == 0
        ring = asim.Scenario(
            asim.Cluster(5, asim.delays.Gamma(1.0, 0.5)), asim.rules.Downpour(0.1), workload, commits=50, record=()
        ).override(collective="ring", protocol="synchronous", bandwidth=100.0, message_bytes=40.0)
        assert ring == scenario

    def test_compressed_updates_are_refused(self):
        rule = asim.rules.compressed(asim.rules.Downpour(0.1), asim.compressors.TopK(0.5))
        with pytest.raises(ValueError, match=r"`rule` must not be compressed on a ring.*'downpour_compressed'"):
            asim.Scenario(self.CLUSTER, rule, asim.workloads.Quadratic([1.0] * 7), commits=50)

    def test_a_ring_needs_a_trace(self):
        timetable = asim.Pipeline(2, asim.delays.Constant(1.0)).timetable(3)
        with pytest.raises(ValueError, match="`collective` must be left out for a Timetable; got 'ring'"):
            asim.cost(timetable, message_bytes=1, parameter_bytes=1, collective="ring")


def test_the_table_has_the_names_of_the_log():
    named = asim.Trace.from_columns({"worker": ["gpu-b", "gpu-a", "gpu-b"], "commit_time": [1.0, 2.0, 3.0]})
    found = asim.cost(named, message_bytes=4, parameter_bytes=4)
    assert found.table()["worker"].tolist() == list(named.names)
    assert "names" not in found.summary()
    numbered = asim.cost(asim.Trace.from_commits([0, 1, 0]), message_bytes=4, parameter_bytes=4)
    assert numbered.table()["worker"].tolist() == [0, 1]
