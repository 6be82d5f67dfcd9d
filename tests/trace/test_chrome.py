"""Chrome events: valid JSON whose slices nest, and whose times are those of the trace."""

import json
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncsim.cluster import Cluster, Gossip, Network, Server, faults, protocols, simulate
from asyncsim.delays import Constant, Exponential, Gamma
from asyncsim.trace import Fate, Fault, Trace
from asyncsim.trace import _chrome as chrome
from asyncsim.trace._chrome import PHASES, SERVER, WORKERS
from asyncsim.trace._columns import COMMIT_TIMES, end_of_trace
from tests.cluster.problems import clusters

pytestmark = pytest.mark.quick

FEW = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
SLOTS = 2


@pytest.fixture(scope="module")
def busy() -> Trace:
    """A trace with network, queue, faults, and jobs that end in several ways."""
    cluster = Cluster(
        workers=5,
        compute=Gamma(1.0, 0.5),
        network=Network(latency=Exponential(0.1)),
        server=Server(slots=SLOTS, service=Exponential(0.4)),
        protocol=protocols.Ringmaster(4, stop=True),
        faults=[faults.Crash(1, 20.0, 5.0), faults.Slowdown(2, 10.0, np.inf, 2.0), faults.MessageLoss(0.2, 0.5)],
    )
    return simulate(cluster, commits=300)


@pytest.fixture(scope="module")
def events(busy, tmp_path_factory):
    return events_of(busy, tmp_path_factory.mktemp("chrome"))


def events_of(trace, folder):
    path = folder / "trace.json"
    trace.to_chrome(path)
    return json.loads(path.read_text())["traceEvents"]


def nanoseconds(event, end=False):
    return round(event["ts"] * 1000) + (round(event["dur"] * 1000) if end else 0)


def slices(events, process):
    return [event for event in events if event["ph"] == "X" and event["pid"] == process]


def assert_nested(events):
    """On one track a slice lies either inside another or outside of it."""
    open_until = []
    for event in sorted(events, key=lambda e: (nanoseconds(e), -e["dur"])):
        begin, end = nanoseconds(event), nanoseconds(event, end=True)
        assert end >= begin >= 0
        while open_until and open_until[-1] <= begin:
            open_until.pop()
        assert not open_until or end <= open_until[-1]
        open_until.append(end)


@FEW
@given(clusters(), st.integers(0, 3))
def test_every_cluster(tmp_path_factory, cluster, seed):
    trace = simulate(cluster, commits=40, seed=seed)
    events = events_of(trace, tmp_path_factory.getbasetemp())
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(event)
    for track in tracks.values():
        assert_nested(track)
    assert len([key for key in tracks if key[0] == SERVER]) <= cluster.server.slots
    end = round(end_of_trace(trace) * 1e9)
    assert max(nanoseconds(event, end="dur" in event) for event in events if "ts" in event) <= end
    workers = slices(events, WORKERS)
    ended = Counter(event["name"] for event in workers if event["name"] not in PHASES)
    fates = Counter(Fate(fate).name.lower() for fate in trace.unfinished.fate)
    assert ended == Counter(commit=40) + fates
    assert Counter(e["name"] for e in events if e["ph"] == "b") == Counter(
        Fault(kind).name.lower() for kind in trace.faults.kind
    )


def test_sums_are_those_of_the_trace(busy, events):
    for process, names in ((WORKERS, PHASES), (SERVER, ("service",))):
        for name in names:
            before, after = COMMIT_TIMES[PHASES.index(name) :][:2]
            found = [e["dur"] for e in slices(events, process) if e["name"] == name and e["cat"] == "committed"]
            expected = (getattr(busy, after) - getattr(busy, before)).sum()
            assert expected > 0
            assert sum(found) * 1e-6 == pytest.approx(expected, abs=1e-9 * len(busy))


def test_every_worker_is_a_thread_with_its_jobs(busy, events):
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert [names[WORKERS, worker + 1] for worker in range(5)] == [f"worker {worker}" for worker in range(5)]
    assert {e["args"]["name"] for e in events if e["name"] == "process_name"} == {"workers", "server"}
    commits = [e for e in slices(events, WORKERS) if e["name"] == "commit"]
    assert [e["tid"] - 1 for e in commits] == busy.worker.tolist()
    for name in ("staleness", "read_version", "version", "pull_version", "closes_step"):
        assert [e["args"][name] for e in commits] == getattr(busy, name).tolist()
    ends = np.array([nanoseconds(e, end=True) for e in commits])
    np.testing.assert_allclose(ends * 1e-9, busy.commit_time, rtol=0, atol=1e-9)


def test_work_in_vain_has_a_category_of_its_own(busy, events):
    rest = [e for e in slices(events, WORKERS) if e["cat"] == "unfinished"]
    fates = Counter(e["args"]["fate"] for e in rest if e["name"] not in PHASES)
    assert fates == Counter(Fate(fate).name.lower() for fate in busy.unfinished.fate)
    assert {"cancelled", "crashed", "in_flight"} <= set(fates)
    last = np.minimum(busy.unfinished.end_time, end_of_trace(busy))
    computed = np.minimum(busy.unfinished.finish_time, last) - np.minimum(busy.unfinished.start_time, last)
    found = sum(e["dur"] for e in rest if e["name"] == "compute")
    assert found * 1e-6 == pytest.approx(computed.sum(), abs=1e-9 * len(rest))


def test_counters_count(busy, events):
    """The area under a counter is the time spent there, and in the end all are gone."""
    events = [e for e in events if e["ph"] == "C"]
    areas = {"queue": busy.serve_time - busy.arrive_time, "in service": busy.commit_time - busy.serve_time}
    for name, expected in areas.items():
        counts = [(e["ts"], e["args"]["count"]) for e in events if e["name"] == name]
        times, values = np.array(counts).T
        assert (np.diff(times) > 0).all()
        assert values.min() == 0
        assert values[-1] == 0
        assert np.sum(np.diff(times) * values[:-1]) * 1e-6 == pytest.approx(expected.sum(), abs=1e-6)
    assert max(e["args"]["count"] for e in events if e["name"] == "in service") == SLOTS
    assert max(e["args"]["count"] for e in events if e["name"] == "jobs in flight") == 5


def test_faults_begin_and_end(busy, events):
    begins, ends = ({e["id"]: e["ts"] for e in events if e["ph"] == phase} for phase in "be")
    np.testing.assert_allclose(
        [begins[row] for row in range(len(busy.faults))], busy.faults.start_time * 1e6, atol=1e-3
    )
    until = np.minimum(busy.faults.end_time, end_of_trace(busy))
    np.testing.assert_allclose([ends[row] for row in range(len(busy.faults))], until * 1e6, atol=1e-3)


@pytest.mark.parametrize("batch", [1, 7])
def test_batches_do_not_change_the_file(busy, events, tmp_path, monkeypatch, batch):
    monkeypatch.setattr(chrome, "BATCH", batch)
    assert events_of(busy, tmp_path) == events


def test_empty_and_endless(tmp_path):
    assert events_of(Trace.from_commits([], workers=1), tmp_path)
    with pytest.raises(ValueError, match=r"`commit_time` must be at most 9e\+09 s in Chrome events; got 1e\+10"):
        Trace.from_commits([0], commit_time=[1e10], start=0).to_chrome(tmp_path / "endless.json")
    assert not (tmp_path / "endless.json").exists()


def test_a_constant_cluster_to_the_digit(tmp_path):
    trace = simulate(Cluster(1, Constant(1.5), server=Server(service=Constant(0.25))), commits=1)
    found = [(e["name"], e["ts"], e["dur"]) for e in slices(events_of(trace, tmp_path), WORKERS)]
    expected = [
        ("commit", 0.0, 1.75e6),
        ("compute", 0.0, 1.5e6),
        ("service", 1.5e6, 0.25e6),
        ("in_flight", 1.75e6, 0.0),
    ]
    assert found == expected


@pytest.mark.parametrize("network", [Network(), Network(latency=Constant(0.2))], ids=["at once", "messages"])
def test_exchanges_of_workers_on_a_graph_are_arrows_between_them(network, tmp_path):
    trace = simulate(Gossip(5, Gamma(1.0, 0.5), graph="ring", network=network), commits=60)
    events = events_of(trace, tmp_path)
    assert {event["pid"] for event in events} == {WORKERS}  # there is no server
    ends = {event["id"]: event["tid"] - 1 for event in events if event["ph"] == "f"}
    arrows = [(event["tid"] - 1, ends[event["id"]], event["ts"]) for event in events if event["ph"] == "s"]
    mixings = trace.mixings
    apart = (mixings.source != mixings.target) & (mixings.weight != 0)
    expected = zip(mixings.source[apart], mixings.target[apart], np.round(mixings.time[apart] * 1e9) / 1e3, strict=True)
    assert arrows == [(source, target, pytest.approx(time)) for source, target, time in expected]
