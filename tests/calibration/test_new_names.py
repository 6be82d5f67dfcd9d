"""Pods that are started anew under other names: the number at work at once is what a fit and its answers count."""

import itertools

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.calibration import LogUniform, Model
from asyncsim.delays import Gamma
from asyncsim.trace._presence import Presence, presence

JOB = Gamma(1.0, 0.3)
WORKERS = 6


def present(trace):
    return presence(trace.worker, trace.commit_time, trace.workers)


def log_of(restarts, laws=(JOB,) * WORKERS, end=120.0, seed=0, start=2.0, columns=False):
    """The columns of a log of workers that are started anew at some times, each time under a new name.

    Args:
        restarts: For each worker, the times at which its pod ends. The job under way is lost.
        start: Seconds from the end of a pod to the first job of the next.
        columns: Whether times of reads and finishes are logged as well.
    """
    generator = np.random.default_rng(seed)
    rows = []
    for number, law in enumerate(laws):
        ends = [*restarts.get(number, ()), end]
        begins = [0.0, *(time + start for time in ends[:-1])]
        for life, (begin, until) in enumerate(zip(begins, ends, strict=True)):
            times = begin + np.cumsum(law.sample(generator, int(3 * (until - begin) / law.mean) + 10))
            name = f"worker-{number}" + (f"-{'abcdefgh'[life]}xz" if life else "")
            rows += [(name, *job) for job in itertools.pairwise([begin, *times[times <= until]])]
    rows.sort(key=lambda row: row[-1])
    names, reads, commits = zip(*rows, strict=True)
    log = {"worker": list(names), "commit_time": np.array(commits)}
    return log | {"read_time": np.array(reads), "finish_time": np.array(commits)} if columns else log


CASES = {
    "one": {2: [60.0]},
    "one, again and again": {0: [30.0, 60.0, 90.0]},
    "all, one after another": {number: [20.0 + 15 * number] for number in range(WORKERS)},
    "all at once": {number: [60.0] for number in range(WORKERS)},
    "all, twice": {number: [20.0 + 8 * number, 72.0 + 5 * number] for number in range(WORKERS)},
}


@pytest.mark.parametrize("columns", [False, True], ids=["commits", "reads"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_fit_has_as_many_workers_as_were_at_work(case, columns):
    trace = asim.Trace.from_columns(log_of(case, columns=columns))
    assert trace.workers == WORKERS + sum(map(len, case.values()))
    fit = asim.calibrate(trace, law="gamma", by_worker=False)
    assert fit.workers == fit.cluster.workers == WORKERS
    assert any(f"At most {WORKERS} of {trace.workers} workers were there at once" in note for note in fit.notes)
    mean = fit.parameters["compute.mean"]
    assert abs(mean.estimate - 1) < 4 * (mean.high - mean.low) / 3.29
    answer = fit.what_if(draws=4, steps=1000)["throughput"].median
    assert answer == pytest.approx(WORKERS, rel=5 * 0.3 / np.sqrt(len(trace)) + 0.02)
    assert fit.what_if(workers=2 * WORKERS, draws=4, steps=1000)["throughput"].median == pytest.approx(
        2 * answer, rel=0.05
    )
    assert fit.check(16).fits


def test_a_pod_takes_the_place_of_the_one_whose_name_it_has():
    """Else the slow host's next pod would stand in the place of a fast one, and a fast one in its."""
    laws = (JOB, JOB, JOB, Gamma(3.0, 0.3), Gamma(3.0, 0.3), Gamma(3.0, 0.3))
    trace = asim.Trace.from_columns(log_of({number: [90.0] for number in range(WORKERS)}, laws, end=180.0))
    hosts = [name[: len("worker-0")] for name in trace.names]
    assert len(set(zip(present(trace).slots(trace.names).tolist(), hosts, strict=True))) == WORKERS
    fit = asim.calibrate(trace, law="gamma")
    assert sorted(round(law.mean) for law in fit.cluster.laws) == [1, 1, 1, 3, 3, 3]
    assert sorted(round(law.mean) for law in fit.with_workers(12).laws) == [1] * 6 + [3] * 6


def test_a_name_that_begins_another_one_is_not_taken_for_it():
    """Of worker-1 and worker-12, which leave together, each is followed by the one with its name."""
    laws = {"worker-1": 1.0, "worker-12": 3.0, "worker-3": 1.0, "worker-1-abc": 1.0, "worker-12-abc": 3.0}
    rows = [
        (name, job * length + 100.0 * name.endswith("c"))
        for name, length in laws.items()
        for job in range(1, int((190 if name == "worker-3" else 90) / length))
    ]
    rows.sort(key=lambda row: row[1])
    trace = asim.Trace.from_columns({"worker": [row[0] for row in rows], "commit_time": [row[1] for row in rows]})
    place = dict(zip(trace.names, present(trace).slots(trace.names).tolist(), strict=True))
    assert place["worker-1-abc"] == place["worker-1"]
    assert place["worker-12-abc"] == place["worker-12"]
    assert len(set(place.values())) == 3


@pytest.mark.parametrize(
    ("left", "first", "last", "names", "expected"),
    [
        # Of equally like names the shorter one is that of the host, whoever left last.
        ([True, True, False], [1.0, 1.0, 100.0], [90.0, 95.0, 190.0], ("host-1", "host-12", "host-1-abc"), [0, 1, 0]),
        ([True, True, False], [1.0, 1.0, 100.0], [95.0, 90.0, 190.0], ("host-1", "host-12", "host-12-a"), [0, 1, 1]),
        # Without names the place that was left last is taken.
        ([True, True, False], [1.0, 1.0, 100.0], [90.0, 95.0, 190.0], (), [0, 1, 1]),
        # A slow worker is there to the end, though its last commit lies before the first one of the late worker.
        ([False, True, False], [1.0, 1.0, 60.0], [50.0, 40.0, 99.0], (), [0, 1, 1]),
        # Whoever left after the first commit of the late worker was there beside it.
        ([True, True, False], [1.0, 1.0, 60.0], [70.0, 80.0, 99.0], (), [0, 1, 2]),
    ],
)
def test_a_place_is_taken_after_it_was_left(left, first, last, names, expected):
    late, none = np.array([False, False, True]), np.zeros((0, 2))
    who = Presence(late, np.array(left), np.array(first), np.array(last), none, np.ones(3))
    assert who.slots(names).tolist() == expected


def test_a_model_has_as_many_workers_as_were_at_work():
    trace = asim.Trace.from_columns(log_of(CASES["all, one after another"]))
    model = Model(
        lambda p: asim.Cluster(WORKERS, Gamma(p["mean"], p["cv"])),
        {"mean": LogUniform(0.1, 10.0), "cv": LogUniform(0.1, 2.0)},
    )
    fit = asim.calibrate(trace, model, method="likelihood")
    by_law = asim.calibrate(trace, law="gamma", by_worker=False).parameters
    for name in ("mean", "cv"):
        assert fit.parameters[name].estimate == pytest.approx(by_law[f"compute.{name}"].estimate, rel=1e-4)


def faulty(*faults):
    """A log in which pods are started anew, with other faults of the same kind beside."""
    log = log_of(CASES["all, one after another"])
    worker, times = np.array(log["worker"]), log["commit_time"]
    rows = np.arange(len(times))
    if "lost" in faults:
        rows = rows[(rows < 200) | (rows >= 206)]
    if "job restarted" in faults:
        times = times + 7200.0 * (times > 63.0)
    if "doubled" in faults:
        rows = np.sort(np.append(rows, [40, 41, 42]))
    return {"worker": worker[rows].tolist(), "commit_time": times[rows]}


@pytest.mark.parametrize("faults", [("lost",), ("job restarted",), ("lost", "job restarted")], ids="+".join)
def test_other_faults_beside_leave_the_number_of_workers(faults):
    trace = asim.Trace.from_columns(faulty(*faults))
    fit = asim.calibrate(trace, law="gamma", by_worker=False)
    assert fit.cluster.workers == WORKERS
    assert fit.what_if(draws=4, steps=1000)["throughput"].median == pytest.approx(WORKERS, rel=0.08)
    with pytest.raises(asim.TraceError, match=r"3 rows are repeated.* Remove the row"):
        asim.Trace.from_columns(faulty(*faults, "doubled"))


def test_job_arrays_one_after_another_are_one_cluster():
    """Three arrays of tasks, each with names of its own, as a batch system starts them."""
    parts = [log_of({}, seed=seed, end=50.0) for seed in range(3)]
    worker = [f"{array}_{name}" for array, part in enumerate(parts) for name in part["worker"]]
    times = np.concatenate([part["commit_time"] + 55.0 * array for array, part in enumerate(parts)])
    fit = asim.calibrate(asim.Trace.from_columns({"worker": worker, "commit_time": times}), law="gamma")
    assert fit.cluster.workers == WORKERS
    assert fit.what_if(draws=4, steps=1000)["throughput"].median == pytest.approx(WORKERS, rel=0.06)


@pytest.mark.parametrize("restarts", [{}, {2: [60.0]}], ids=["none", "one"])
def test_workers_beside_each_other_are_all_counted(restarts):
    """Two more join halfway and stay, whether or not another one is started anew."""
    log = log_of(restarts)
    later = log_of({}, laws=(JOB, JOB), end=60.0, seed=5)
    log = {
        "worker": log["worker"] + [f"new-{name}" for name in later["worker"]],
        "commit_time": np.append(log["commit_time"], later["commit_time"] + 60.0),
    }
    order = np.argsort(log["commit_time"])
    trace = asim.Trace.from_columns(
        {"worker": [log["worker"][row] for row in order], "commit_time": log["commit_time"][order]}
    )
    assert asim.calibrate(trace, law="gamma").cluster.workers == WORKERS + 2
