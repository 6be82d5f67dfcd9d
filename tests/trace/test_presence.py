"""Logs of people who join late, and of jobs that pause: what is not in the log is not filled in as if it were."""

import itertools

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.calibration._stages import stages_of
from asyncsim.delays import Gamma

JOB = Gamma(1.0, 0.3)
OLD = 4  # workers that are there from the start


def log_of(begins, end=200.0, seed=0, law=JOB):
    """The columns of a log of workers who begin at some times and work until the end, and when each job began."""
    generator = np.random.default_rng(seed)
    rows = []
    for worker, begin in enumerate(begins):
        times = begin + np.cumsum(law.sample(generator, int(2 * end)))
        kept = np.concatenate([[begin], times[times <= end]])
        rows += [(worker, *job) for job in itertools.pairwise(kept)]
    rows.sort(key=lambda row: row[-1])
    columns = np.array(rows).T
    return {"worker": columns[0].astype(int), "commit_time": columns[2]}, columns[1]


def by_csv(path, columns, **options):
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(repr, map(float, row))) for row in rows)]))
    return asim.Trace.from_csv(path, **options)


READERS = {
    "columns": lambda columns, path: asim.Trace.from_columns(columns),
    "commits": lambda columns, path: asim.Trace.from_commits(*columns.values()),
    "csv": lambda columns, path: by_csv(path / "log.csv", columns),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("begins", [[160.0], [60.0, 100.0, 150.0], list(np.linspace(20.0, 150.0, 12))], ids=len)
def test_a_late_worker_has_not_read_at_the_start(reader, begins, tmp_path):
    """Its first staleness is that of one job and not that of the whole log before it."""
    columns, truth = log_of([0.0] * OLD + begins)
    trace = reader(columns, tmp_path)
    first = [int(np.argmax(trace.worker == OLD + late)) for late in range(len(begins))]
    right = np.searchsorted(columns["commit_time"], truth, side="right")
    assert np.abs(trace.read_time[first] - truth[first]).max() < 5 * 0.3
    others = np.setdiff1d(np.arange(len(trace)), first)
    assert (trace.read_version[others] == np.where(truth[others] == 0, 0, right[others])).all()
    assert trace.staleness.max() <= 4 * (OLD + len(begins))
    assert sum("joined late" in note for note in trace.notes) == 1
    trace.check()


def test_the_staleness_of_the_log_is_that_of_its_jobs():
    """Four workers and one more after 796 commits: staleness is 4 and not 796, the spread of jobs .3 and not 4.46."""
    columns, _ = log_of([0.0] * OLD + [199.0], end=260.0)
    trace = asim.Trace.from_columns(columns)
    first = int(np.argmax(trace.worker == OLD))
    assert first > 750
    assert abs(trace.staleness[first] - OLD) <= 3  # Commits of four others in one job: their sd is below 1.
    fit = asim.calibrate(trace, law="gamma", by_worker=False)
    cv = fit.parameters["compute.cv"]
    assert cv.estimate == pytest.approx(0.3, rel=0.1)
    durations = np.diff(columns["commit_time"][columns["worker"] == OLD])
    assert fit.log.commits == len(trace)
    assert len(durations) == (trace.worker == OLD).sum() - 1


@pytest.mark.parametrize("begin", [0.0, 0.5, 2.0])
def test_who_begins_slowly_is_not_late(begin):
    """A first job may take as long as any job, and the first jobs of all may take longer."""
    columns, _ = log_of([begin] * OLD)
    trace = asim.Trace.from_columns(columns)
    first = np.unique(trace.worker, return_index=True)[1]
    assert (trace.read_version[first] == 0).all()
    assert not trace.notes


def test_a_recorded_read_wins():
    columns, truth = log_of([0.0] * OLD + [100.0])
    trace = asim.Trace.from_columns(columns | {"read_time": truth})
    assert (trace.read_time == truth).all()
    versions = np.where(truth == 0, 0, np.searchsorted(columns["commit_time"], truth, side="right"))
    trace = asim.Trace.from_columns(columns | {"read_version": versions})
    assert (trace.read_version == versions).all()


@pytest.mark.parametrize("recorded", ["read_time", "start_time"])
def test_the_first_job_of_a_late_worker_counts_where_its_beginning_is_recorded(recorded):
    """As the recorder of a server does, whose processes do not all start at once."""
    columns, truth = log_of([0.0] * OLD + [100.0])
    trace = asim.Trace.from_columns(columns | {recorded: truth})
    (note,) = trace.notes
    assert note.startswith("Worker 4 joined late")
    assert "does not show" not in note
    assert len(stages_of(trace).compute.durations) == len(trace)
    assert len(stages_of(asim.Trace.from_columns(columns)).compute.durations) == len(trace) - 1


def test_names_of_late_workers_are_in_the_note():
    columns, _ = log_of([0.0] * OLD + [100.0])
    trace = asim.Trace.from_columns(columns | {"worker": [f"node-{number + 8:02}" for number in columns["worker"]]})
    assert any(note.startswith("node-12 joined late") for note in trace.notes)
    assert any(note.startswith("node-12 joined late") for note in asim.calibrate(trace, law="gamma").notes)


def paused(seconds, at=100.0, workers=8):
    """A job that is started anew after a pause: jobs under way are lost, and all begin again."""
    before, _ = log_of([0.0] * workers, end=at)
    after, _ = log_of([0.0] * workers, end=at, seed=1)
    later = after["commit_time"] + at + seconds
    return {
        "worker": np.append(before["worker"], after["worker"]),
        "commit_time": np.append(before["commit_time"], later),
    }


@pytest.mark.parametrize("seconds", [60.0, 7200.0, 86400.0])
def test_rates_leave_out_a_pause_of_the_job(seconds):
    trace = asim.Trace.from_columns(paused(seconds))
    assert any("Nothing was committed from" in note for note in trace.notes)
    found = asim.statistics(trace)
    error = 0.3 / np.sqrt(len(trace))
    assert found.commits_per_second == pytest.approx(8.0, rel=5 * error + 0.02)
    assert found.utilisation <= 1.0
    assert found.compute.mean == pytest.approx(1.0, rel=5 * error + 0.02)
    assert found.seconds == trace.seconds > seconds


@pytest.mark.parametrize("seconds", [60.0, 7200.0])
def test_a_pause_is_no_compute_time(seconds):
    columns = paused(seconds)
    fit = asim.calibrate(asim.Trace.from_columns(columns), law="gamma")
    mean = fit.parameters["compute.mean"]
    assert abs(mean.estimate - 1) < 4 * (mean.high - mean.low) / 3.29
    assert fit.parameters["compute.cv"].estimate == pytest.approx(0.3, rel=0.1)
    assert fit.check(16).fits
    assert fit.what_if(workers=16, draws=8)["throughput"].median == pytest.approx(16, rel=0.05)


def test_a_trace_without_a_pause_has_the_rates_of_all_its_time():
    trace = asim.simulate(asim.Cluster(4, asim.delays.Exponential(1.0)), commits=400)
    assert asim.statistics(trace).commits_per_second == len(trace) / trace.seconds


@pytest.mark.parametrize("pause", [0.0, 7200.0])
def test_pods_that_restart_under_new_names_are_counted_once(pause):
    """Four pods work until 100 s, and four others from then on, or two hours later."""
    before, _ = log_of([0.0] * 4, end=100.0)
    after, _ = log_of([0.0] * 4, end=100.0, seed=1)
    columns = {
        "worker": [f"pod-{number}" for number in before["worker"]]
        + [f"pod-{number + 4}" for number in after["worker"]],
        "commit_time": np.append(before["commit_time"], after["commit_time"] + 105.0 + pause),
    }
    trace = asim.Trace.from_columns(columns)
    assert any("At most 4 of 8 workers were there at once" in note for note in trace.notes)
    assert asim.statistics(trace).commits_per_second == pytest.approx(4.0, rel=0.1)
    mean = asim.calibrate(trace, law="gamma").parameters["compute.mean"]
    assert abs(mean.estimate - 1) < 4 * (mean.high - mean.low) / 3.29


def test_late_workers_beside_all_others_replace_nobody():
    columns, _ = log_of([0.0] * OLD + [60.0, 100.0])
    assert not any("at once" in note for note in asim.Trace.from_columns(columns).notes)


@pytest.mark.parametrize("gap", ["away", "rows are lost"])
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_a_gap_of_one_worker_has_a_note(reader, gap, tmp_path):
    """A pod that is started anew under its own name, or a hole in the log of one worker, looks like a very long job."""
    columns, _ = log_of([0.0] * OLD)
    last = columns["worker"] == OLD - 1
    if gap == "away":
        columns["commit_time"][last & (columns["commit_time"] > 100)] += 20.0
        order = np.argsort(columns["commit_time"])
        columns = {name: values[order] for name, values in columns.items()}
    else:
        kept = ~(last & (np.abs(columns["commit_time"] - 100) < 10))
        columns = {name: values[kept] for name, values in columns.items()}
    assert any(f"Worker {OLD - 1} committed nothing from" in note for note in reader(columns, tmp_path).notes)


@pytest.mark.parametrize("law", [JOB, asim.delays.Exponential(1.0), asim.delays.LogNormal(1.0, 1.0)], ids=repr)
def test_long_jobs_of_a_law_have_no_note_of_a_gap(law):
    columns, _ = log_of([0.0] * OLD, law=law)
    assert not any("committed nothing from" in note for note in asim.Trace.from_columns(columns).notes)


@pytest.mark.parametrize("start", [None, "first"])
def test_estimated_first_jobs_are_in_no_mean_of_compute_times(start):
    """Of a late worker, and of each worker in a log that counts from its first commit."""
    begins = [0.0] * OLD + [160.0] * 8 * (start is None)
    columns, _ = log_of(begins)
    trace = asim.Trace.from_columns(columns, start=start)
    first = asim.trace._columns.previous_own_row(trace.worker) < 0
    unknown = first & (trace.worker >= OLD if start is None else True)
    times = (trace.finish_time - trace.start_time)[~unknown]
    compute = asim.statistics(trace).compute
    assert (compute.mean, compute.cv) == (pytest.approx(times.mean()), pytest.approx(times.std() / times.mean()))
    assert np.isfinite(compute.by_worker_mean).all()


@pytest.mark.parametrize("lost", [[17], [100, 101, 350], range(5, 700, 33)], ids=len)
def test_lost_rows_have_a_note_where_reads_are_logged(lost):
    """A worker reads at its own commit, so that a read without one lacks a row."""
    columns, begins = log_of([0.0] * OLD)
    table = {**columns, "read_time": begins}
    assert not asim.Trace.from_columns(table).notes
    kept = np.setdiff1d(np.arange(len(begins)), lost)
    (note,) = asim.Trace.from_columns({name: values[kept] for name, values in table.items()}).notes
    assert "long after the worker's previous commit" in note
    assert "rows are lost" in note


def test_workers_that_pause_before_they_read_have_no_note_of_lost_rows():
    columns, begins = log_of([0.0] * OLD)
    shares = np.where(begins > 0, np.random.default_rng(0).uniform(0.1, 0.5, len(begins)), 0.0)
    table = {**columns, "read_time": begins + shares * (columns["commit_time"] - begins)}
    assert not any("rows are lost" in note for note in asim.Trace.from_columns(table).notes)


@pytest.mark.parametrize("later", [1e-4, 1e-3, 1e-2])
def test_rows_that_are_doubled_with_stamps_of_their_own_have_a_note(later):
    columns, _ = log_of([0.0] * OLD)
    again = np.arange(10, len(columns["worker"]), 20)
    table = {name: np.append(values, values[again] + later * (name != "worker")) for name, values in columns.items()}
    order = np.argsort(table["commit_time"])
    notes = asim.Trace.from_columns({name: values[order] for name, values in table.items()}).notes
    assert any("if lines are doubled" in note for note in notes)


@pytest.mark.parametrize("cv", [0.3, 1.0, 1.5])
def test_short_jobs_of_a_law_are_no_doubled_rows(cv):
    for seed in range(20):
        columns, _ = log_of([0.0] * OLD, law=Gamma(1.0, cv), seed=seed)
        assert not any("doubled" in note for note in asim.Trace.from_columns(columns).notes)
