"""Predictions for other numbers of workers agree with an independent simulator or are refused, whatever the columns."""

import math

import numpy as np
import pytest

import asyncsim as asim
from asyncsim.calibration import what_if
from tests.calibration import heap
from tests.calibration.heap import Cluster, gamma, lognormal
from tests.calibration.independent import NEAR, SEEN, answer, logged, true_parameters

WORKERS, COMMITS = 8, 500
MESSAGES, SERVICE = gamma(0.15, 0.5), gamma(0.1, 0.3)
FEW = {
    "alone": Cluster(WORKERS, gamma(1.0, 0.3)),
    "messages": Cluster(WORKERS, gamma(1.0, 0.3), MESSAGES),
    "queue": Cluster(WORKERS, gamma(1.0, 0.3), None, SERVICE),
    "both": Cluster(WORKERS, lognormal(1.0, 0.4), MESSAGES, SERVICE),
}


@pytest.fixture(scope="module")
def fits():
    logs = {(name, seen): logged(cluster, seen, COMMITS, seed=0) for name, cluster in FEW.items() for seen in SEEN}
    options = {"method": "likelihood", "law": "gamma", "by_worker": False}
    return {key: asim.calibrate(log, **options) for key, log in logs.items()}


def test_an_upload_is_no_queue(fits):
    """Of a log with reads and finishes it became the service of one place, and the answer wrong by 2.5 times."""
    fit = fits["messages", "four"]
    assert fit.hidden == ("latency", "service")
    assert not [name for name, one in fit.parameters.items() if name.startswith("server") and one.identifiable]
    upload = fit.parameters["upload.mean"]
    assert upload.identifiable
    assert upload.low < MESSAGES.mean < upload.high
    assert answer(fit, 24, draws=4) == pytest.approx(24 / (1.0 + 2 * MESSAGES.mean), rel=0.05)


def test_the_service_of_a_queue_without_messages_is_identified(fits):
    service = fits["queue", "four"].parameters["server.service.mean"]
    assert service.identifiable
    assert abs(service.estimate - SERVICE.mean) < 4 * SERVICE.mean * SERVICE.cv / math.sqrt(COMMITS)


def test_what_is_mixed_is_not_identified(fits):
    fit = fits["both", "four"]
    assert fit.mixed == ("upload",)
    assert not fit.parameters["upload.mean"].identifiable
    with pytest.raises(ValueError, match=r"`workers` of 24 .* mix messages.* Log `arrive_time` and `serve_time`"):
        what_if(fit, [24])
    same = what_if(fit, [WORKERS], draws=4)["throughput"][0]  # which the log itself shows
    assert same == pytest.approx(fit.log.statistics["throughput"], rel=0.1)


@pytest.mark.parametrize("name", FEW)
def test_more_columns_never_make_an_answer_worse(fits, name):
    """Refused is the worst answer; those that are given are near the truth."""
    truth = heap.throughput(FEW[name], 2 * WORKERS, commits=10_000)
    errors = [abs(answer(fits[name, columns], 2 * WORKERS, draws=4) / truth - 1) for columns in SEEN]
    known = [error for error in errors if not math.isnan(error)]
    assert np.isnan(errors[: len(errors) - len(known)]).all()  # whoever answers with fewer columns does with more
    assert max(known) < 0.05 < NEAR
    assert len(known) == {"alone": 3, "messages": 3, "queue": 2, "both": 1}[name]


def test_intervals_of_what_is_identified_hold(fits):
    """As `python -m tests.calibration.independent` counts on 66 logs."""
    held = []
    for (name, columns), fit in fits.items():
        truth = true_parameters(FEW[name], columns)
        known = {key: one for key, one in fit.parameters.items() if one.identifiable and key in truth}
        held += [one.low <= truth[key] <= one.high for key, one in known.items()]
    assert len(held) > 30
    assert abs(np.mean(held) - 0.9) < 4 * math.sqrt(0.09 / len(held))


def test_the_mean_of_whole_jobs_is_as_sure_as_their_standard_error_says():
    """Families that suit the jobs nearly as well differ in their mean, which says nothing about the mean of the jobs.

    Intervals that also contained these were up to 1.2 times as wide, and held the truth too often.
    """
    log = logged(Cluster(12, gamma(1.0, 1.0), gamma(0.1, 0.5), lognormal(0.03, 1.0)), "commits", 1200, seed=1903)
    fit = asim.calibrate(log, method="likelihood")
    assert len(fit.model.stages["compute"].alternatives) > 1
    jobs = fit.model.stages["compute"].groups[0].estimate.jobs
    mean = fit.parameters["compute.mean"]
    durations = np.concatenate([np.diff(log.commit_time[log.worker == w], prepend=0.0) for w in range(12)])
    error = durations.std() / math.sqrt(jobs)
    assert (mean.high - mean.low) / (2 * 1.645 * error) == pytest.approx(1, abs=0.04)  # 12 of 1212 jobs are censored
    assert mean.low < mean.estimate < mean.high


def test_many_more_workers_than_the_log_has(fits):
    """A service that is too short to be seen may limit them."""
    with pytest.raises(ValueError, match=r"`workers` of 100 cannot .* more than 3 times its 8 workers"):
        what_if(fits["alone", "commits"], [100])
    assert what_if(fits["queue", "all"], [100], draws=2)["throughput"][0] == pytest.approx(10.0, rel=0.05)


def test_sizes_that_can_be_answered_are_answered_beside_others(fits):
    """One size that cannot be answered refused the whole list."""
    fit = fits["alone", "commits"]
    with pytest.warns(UserWarning, match=r"`workers` of (90|100) cannot .* more than 3 times its 8") as warned:
        found = what_if(fit, [8, 90, 16, 100], draws=2)
    assert len(warned) == 2
    alone = what_if(fit, [8, 16], draws=2)
    for name, values in alone.items():
        assert (found[name][[0, 2]] == values).all()
        assert np.isnan(found[name][[1, 3]]).all() or name == "workers"
    assert found["workers"].tolist() == [8, 90, 16, 100]
    with pytest.raises(ValueError, match="`workers` of 100 cannot"):
        what_if(fit, [90, 100])


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda fit: what_if(fit, []), "`values` must be values of `workers`; got none"),
        (lambda fit: fit.what_if(steps=1), "`steps` must be an integer of at least 2; got 1"),
        (lambda fit: fit.what_if(draws=0), "`draws` must be an integer of at least 1; got 0"),
        (lambda fit: fit.what_if(lead=2), "`lead` is not an argument of Cluster"),
    ],
)
def test_unanswerable_questions_are_refused(fits, ask, words):
    with pytest.raises(ValueError, match=words):
        ask(fits["queue", "all"])


FAST, SLOW = 6, 4


@pytest.fixture(scope="module")
def classes():
    """A fit of six fast workers and four that take three times as long, with names."""
    fast, slow = asim.delays.Gamma(1.0, 0.3), asim.delays.Gamma(3.0, 0.3)
    log = asim.simulate(asim.Cluster(FAST + SLOW, [fast] * FAST + [slow] * SLOW), commits=1500, seed=2)
    names = [f"node-{number:02}" for number in log.worker]
    return asim.calibrate(asim.Trace.from_columns({"worker": names, "commit_time": log.commit_time}), law="gamma")


ADDED = {"fast": ({"fast": 12}, 12.0), "slow": ({"slow": 3}, 1.0), "both": ({"slow": 3, "fast": 2}, 3.0)}


@pytest.mark.parametrize(("add", "more"), ADDED.values(), ids=ADDED)
def test_workers_of_a_class_that_join_are_as_fast_as_it(classes, add, more):
    """Without a queue, 6 fast workers and 4 slow ones make 6 + 4/3 commits per second, and each joining one its own."""
    answer = classes.what_if(add=add, draws=8, steps=4000)
    truth = FAST + SLOW / 3 + more
    assert answer["throughput"].low < answer["throughput"].median < answer["throughput"].high
    assert answer["throughput"].median == pytest.approx(truth, rel=0.04)  # The mean has a standard error of .8 %.
    assert answer["staleness"].median == pytest.approx(FAST + SLOW + sum(add.values()) - 1, rel=0.01)


def test_answers_for_classes_and_sizes_are_those_of_one_number(classes):
    answers = what_if(classes, [10, 20], add={"fast": 5}, draws=2)
    assert answers["workers"].tolist() == [15, 25]
    single = classes.what_if(workers=20, add={"fast": 5}, draws=2)
    assert answers["throughput"][1] == single["throughput"].median
    assert answers["predicted_throughput"] == pytest.approx([FAST + SLOW / 3 + 5, 2 * (FAST + SLOW / 3) + 5], rel=0.05)


def test_a_worker_with_a_law_of_its_own_is_a_class_by_its_name():
    means = (1.0, 1.5, 2.2, 3.0)
    cluster = asim.Cluster(4, [asim.delays.Gamma(mean, 0.1) for mean in means])
    log = asim.simulate(cluster, commits=800)
    columns = {"worker": log.worker, "commit_time": log.commit_time}
    for name in ("{}", "host-{}"):
        worker = [name.format(number) for number in log.worker] if name != "{}" else log.worker
        fit = asim.calibrate(asim.Trace.from_columns(columns | {"worker": worker}), law="gamma")
        assert f"compute[{name.format(2)}].mean" in fit.parameters
        joined = fit.with_workers(4, add={name.format(2): 2}).laws
        assert [law.mean for law in joined] == pytest.approx([*means, 2.2, 2.2], rel=0.05)


REFUSED_CLASSES = [
    ({"fats": 12}, r"`add` must be one of 'fast', 'slow'; got 'fats'. Did you mean 'fast'\?"),
    ({"fast": 0}, r"`add of 'fast'` must .* got 0. Add one worker or more"),
    ({"fast": -3}, "`add of 'fast'` must .* got -3"),
    ({"fast": 1.5}, "`add of 'fast'` must .* got 1.5"),
    ({"fast": True}, "`add of 'fast'` must .* got True"),
    ({}, "`add` must map classes to numbers of workers; got {}"),
    ("fast", "`add` must"),
    (12, "`add` must"),
]


@pytest.mark.parametrize(("add", "words"), REFUSED_CLASSES, ids=str)
def test_classes_that_there_are_not_are_refused(classes, add, words):
    for ask in (lambda: classes.what_if(add=add), lambda: what_if(classes, [4], add=add)):
        with pytest.raises(ValueError, match=words):
            ask()


def test_a_fit_without_classes_says_so(fits):
    with pytest.raises(ValueError, match=r"`add` needs a fit that distinguishes classes .* Ask for `workers` instead"):
        fits["alone", "commits"].what_if(add={"fast": 2})
