"""Logs of people who come and leave: who is there is told from the commits, and nobody works before or after."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.calibration import LogUniform, Model
from asyncsim.calibration._statistics import shorten, steady_part
from asyncsim.delays import Gamma
from asyncsim.trace._presence import presence
from tests.calibration import heap

WORKERS = 16


def present(trace):
    return presence(trace.worker, trace.commit_time, trace.workers)


def jobs_of(law, counts, seed=0):
    """(jobs,) seconds of each worker, one after another."""
    generator = np.random.default_rng(seed)
    return [law.sample(generator, count) for count in counts]


def in_order(jobs, begin=None):
    """The columns of a log of workers who make their jobs one after another, and stop."""
    begin = np.zeros(len(jobs)) if begin is None else begin
    worker = np.repeat(np.arange(len(jobs)), [len(mine) for mine in jobs])
    times = np.concatenate([start + np.cumsum(mine) for start, mine in zip(begin, jobs, strict=True)])
    order = np.argsort(times)
    return {"worker": worker[order], "commit_time": times[order]}


def with_columns(jobs, message=0.05, service=0.01):
    """The same with messages and service that take constant times, and nobody waits."""
    rows = []
    for worker, mine in enumerate(jobs):
        read = 0.0
        for number, seconds in enumerate(mine):
            start = read + message * (number > 0)
            finish = start + seconds
            arrive = finish + message
            rows.append((worker, read, start, finish, arrive, arrive, arrive + service))
            read = arrive + service
    rows.sort(key=lambda row: row[-1])
    return dict(zip(heap.COLUMNS, np.array(rows).T, strict=True))


STOPPED = {
    "the same number": [100] * WORKERS,
    "few": [20] * WORKERS,
    "very few": [10] * WORKERS,
    "numbers by worker": [60 + 7 * worker for worker in range(WORKERS)],
    "half of them early": [40] * 8 + [110] * 8,
    "two workers": [200, 130],
}


@pytest.mark.parametrize("counts", STOPPED.values(), ids=STOPPED)
@pytest.mark.parametrize("cv", [0.2, 0.7])
def test_a_job_that_nobody_began_is_in_no_fit(counts, cv):
    """The mean of a gamma law fitted to whole jobs is their mean. A job under way moves it by less than its error."""
    jobs = jobs_of(Gamma(1.0, cv), counts)
    fit = asim.calibrate(asim.Trace.from_columns(in_order(jobs)), law="gamma", by_worker=False)
    every = np.concatenate(jobs)
    error = cv / np.sqrt(len(every))
    assert fit.parameters["compute.mean"].estimate == pytest.approx(every.mean(), abs=error)


@pytest.mark.parametrize("seed", range(3))
def test_the_law_is_the_one_of_the_jobs(seed):
    """Not one with a tail of jobs that last for the rest of the log."""
    fit = asim.calibrate(
        asim.Trace.from_columns(in_order(jobs_of(Gamma(1.0, 0.5), [100] * WORKERS, seed))), method="likelihood"
    )
    mean = fit.parameters["compute.mean"]
    assert mean.identifiable
    assert abs(mean.estimate - 1) < 4 * (mean.high - mean.low) / 3.29
    assert any("have stopped" in note for note in fit.notes)


def test_classes_of_workers_stop_at_different_times():
    jobs = [*jobs_of(Gamma(1.0, 0.3), [100] * 8), *jobs_of(Gamma(3.0, 0.3), [100] * 8, 1)]
    fit = asim.calibrate(asim.Trace.from_columns(in_order(jobs)), law="gamma")
    for label, mine in (("fast", jobs[:8]), ("slow", jobs[8:])):
        assert fit.parameters[f"compute.{label}.mean"].estimate == pytest.approx(np.concatenate(mine).mean())
    assert fit.with_workers(16).compute[15].mean == pytest.approx(np.concatenate(jobs[8:]).mean())


def test_every_column_leaves_the_law_as_it_is():
    jobs = jobs_of(Gamma(1.0, 0.5), [60] * WORKERS)
    log = asim.Trace.from_columns(with_columns(jobs))
    fit = asim.calibrate(log, law={"compute": "gamma"})
    assert fit.parameters["compute.mean"].estimate == pytest.approx(np.concatenate(jobs).mean())
    answer = fit.what_if(workers=24, draws=8, steps=2000)["throughput"]
    assert answer.median == pytest.approx(24 / 1.11, rel=0.05)


def test_a_model_is_fitted_to_the_jobs_that_were_begun():
    jobs = jobs_of(Gamma(1.0, 0.5), [100] * WORKERS)
    model = Model(
        lambda p: asim.Cluster(WORKERS, Gamma(p["mean"], p["cv"])),
        {"mean": LogUniform(0.1, 10.0), "cv": LogUniform(0.1, 2.0)},
    )
    fit = asim.calibrate(asim.Trace.from_columns(in_order(jobs)), model, method="likelihood")
    assert fit.parameters["mean"].estimate == pytest.approx(np.concatenate(jobs).mean(), rel=1e-4)


@pytest.mark.parametrize("counts", [[100] * WORKERS, [100] * 14 + [60, 70]], ids=str)
def test_the_log_is_compared_while_all_are_there(counts):
    """What is simulated has all workers all the time, so that the end of the log would refute every model."""
    log = asim.Trace.from_columns(in_order(jobs_of(Gamma(1.0, 0.5), counts)))
    part = steady_part(log, present(log), least=160)
    assert part.seconds <= present(log).last.min()
    error = 0.5 / np.sqrt(len(part))
    assert len(part) / part.seconds == pytest.approx(WORKERS, rel=4 * error)
    fit = asim.calibrate(log, law="gamma")
    assert fit.check(16).fits
    assert fit.what_if(workers=24, draws=8)["throughput"].median == pytest.approx(24, rel=0.05)


WITHOUT_PAUSES = [heap.gamma(1.0, 0.3), heap.gamma(1.0, 1.0), heap.lognormal(1.0, 1.0)]


@pytest.mark.parametrize("law", WITHOUT_PAUSES, ids=lambda law: f"{law.name} {law.cv}")
@pytest.mark.parametrize(("workers", "commits"), [(2, 60), (16, 60), (16, 400), (100, 300), (100, 1600)])
def test_who_works_on_has_neither_left_nor_joined_late(law, workers, commits):
    """Also where most jobs have not ended, as at the end of a short log."""
    for seed in range(8):
        for service in (None, heap.gamma(0.05, 0.5)):
            log = heap.simulate(heap.Cluster(workers, law, None, service), commits, seed)
            trace = asim.Trace.from_columns({name: log[name] for name in ("worker", "commit_time")}, workers)
            assert not present(trace).left.any()
            assert not present(trace).late.any()
            assert not len(present(trace).pauses)


def test_parts_of_a_log_keep_the_local_steps_of_all_workers():
    """Also of workers that have no job in the part, whose windows nobody could tell from it."""
    cluster = asim.Cluster(4, asim.delays.Constant(1.0), local_steps=(1, 1, 2, 50))
    log = asim.simulate(cluster, commits=200)
    part = shorten(log, 20)
    assert 3 not in part.worker
    assert part.local_steps.tolist() == asim.trace.with_gap(log, 2).local_steps.tolist() == [1, 1, 2, 50]


def test_a_fit_of_jobs_with_local_steps_says_that_it_is_of_whole_jobs():
    """In a scenario with a window its law would count the local steps twice."""
    for local_steps, words in ((16, "have 16 local steps"), ((1, 1, 2, 4), "have 1 to 4 local steps"), (1, None)):
        log = asim.simulate(asim.Cluster(4, Gamma(1.0, 0.3), local_steps=local_steps), commits=200)
        notes = asim.calibrate(log, law="gamma").notes
        assert any(words in note for note in notes) if words else not any("local steps" in note for note in notes)


def test_a_server_that_collects_does_not_hide_the_local_steps():
    cluster = asim.Cluster(4, Gamma(1.0, 0.5), protocol=asim.protocols.KBatchAsync(k=2), local_steps=8)
    notes = asim.calibrate(asim.simulate(cluster, commits=400), law="gamma").notes
    assert any("have 8 local steps" in note for note in notes)


@pytest.mark.parametrize("by", ["laws", "model"])
@pytest.mark.parametrize("recorded", [True, False], ids=["with local steps", "without"])
def test_a_fit_of_whole_jobs_is_refused_where_each_local_step_would_take_its_time(by, recorded):
    """A log of commits alone does not say how many gradients a job has. With the law of one step all is right."""
    cluster = asim.Cluster(4, Gamma(1.0, 0.3), local_steps=16 if recorded else None)
    priors = {"mean": LogUniform(0.1, 100.0), "cv": LogUniform(0.01, 2.0)}
    model = Model(lambda p: asim.Cluster(4, Gamma(p["mean"], p["cv"])), priors) if by == "model" else None
    options = {"model": model, "method": "likelihood"} if model else {"law": "gamma", "by_worker": False}
    fit = asim.calibrate(asim.simulate(cluster, commits=400), **options)
    rest = {"workload": asim.workloads.Quadratic([1.0]), "commits": 40}
    asim.Scenario(cluster=fit.cluster, rule=asim.rules.Downpour(0.1), **rest)
    window = asim.rules.ADAG(0.1, window=16)
    with pytest.raises(ValueError, match=r"`local_steps` must be the window.*1/H of their mean and √H times their cv"):
        asim.Scenario(cluster=fit.cluster, rule=window, **rest)
    law = fit.cluster.compute
    one_step = Gamma(law.mean / 16, 4 * law.variance**0.5 / law.mean)
    right = asim.Scenario(cluster=asim.Cluster(4, one_step), rule=window, **rest)
    of_jobs, of_steps = (
        np.diff(asim.simulate(each, commits=4000).commit_time) for each in (fit.cluster, right.scheduled)
    )
    assert of_steps.mean() == pytest.approx(of_jobs.mean(), rel=0.05)


def test_the_fitted_cluster_of_workers_that_stop_takes_as_long_as_the_log():
    """16 workers that make 100 steps each: 115 s and not 35 026."""
    log = asim.Trace.from_columns(in_order(jobs_of(Gamma(1.0, 0.5), [100] * WORKERS)))
    cluster = asim.calibrate(log, law="gamma").cluster
    assert cluster.compute.mean == pytest.approx(1.0, abs=4 * 0.5 / np.sqrt(1600))
    assert asim.simulate(cluster, commits=1600).seconds == pytest.approx(100.0, rel=0.06)


WORKLOAD = asim.workloads.Quadratic([1.0])


@pytest.mark.parametrize("local_steps", [16, (1, 1, 2, 4), None], ids=str)
@pytest.mark.parametrize("window", [16, (1, 1, 2, 4)], ids=str)
def test_no_cluster_of_a_fit_multiplies_whole_jobs(tmp_path, local_steps, window):
    """Neither one of its file, of its samples, of other numbers of workers nor of a question."""
    log = asim.simulate(asim.Cluster(4, Gamma(1.0, 0.3), local_steps=local_steps), commits=200)
    fit = asim.calibrate(log, method="likelihood", law="gamma")
    fit.save(tmp_path / "fit.json")
    rule = asim.rules.LocalSGD(0.1, window=window)
    clusters = [asim.Fit.load(tmp_path / "fit.json").cluster, *fit.sample(2)]
    for cluster in clusters + [fit.with_workers(8)] * (window == 16):
        with pytest.raises(
            ValueError, match=r"`local_steps` must be the window .* got 1\. .* 1/H of their mean and √H"
        ):
            asim.Scenario(cluster, rule, WORKLOAD, commits=8)
    with pytest.raises(ValueError, match=r"`local_steps` must be left out, .* got 16\. .* law of one step"):
        fit.what_if(local_steps=16)


@pytest.mark.parametrize("steps", [16, (2, 2, 8, 8)], ids=str)
@pytest.mark.parametrize("law", [Gamma, asim.delays.ShiftedExponential])
def test_a_model_whose_jobs_have_several_steps_is_fitted_to_one_step(law, steps):
    """Its cluster has them, so that nothing is refused, and they may be changed."""
    log = asim.simulate(asim.Cluster(4, law(1.0, 0.3), local_steps=steps), commits=400)
    model = Model(lambda p: asim.Cluster(4, law(p["time"], 0.3), local_steps=steps), {"time": LogUniform(0.1, 10.0)})
    fit = asim.calibrate(log, model, method="likelihood")
    gradients = (np.bincount(log.worker, minlength=4) * np.broadcast_to(steps, 4)).sum()
    assert fit.parameters["time"].estimate == pytest.approx(1.0, abs=3.5 * 0.3 / np.sqrt(gradients))
    assert not any("local steps" in note for note in fit.notes)
    asim.Scenario(fit.cluster, asim.rules.LocalSGD(0.1, window=steps), WORKLOAD, commits=8)
    assert np.resize(steps, 6).tolist() == np.resize(fit.with_workers(6).local_steps, 6).tolist()
    job = 1.0 if law is Gamma else 1.3
    answer = fit.what_if(local_steps=4, draws=1, steps=2000)["throughput"]
    assert answer.median == pytest.approx(1 / job, rel=0.05)
