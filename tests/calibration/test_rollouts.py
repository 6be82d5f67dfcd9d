"""Rollouts fitted to a log: intervals hold the truth, dropped groups count, other leads are answered."""

from dataclasses import replace

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.calibration._rollouts import rollouts_of
from tests.problems import refusals

TRAIN = delays.Gamma(0.3, 0.5)
SEEDS = 4
SYSTEMS = {
    "one": {"slots": 32, "group": 1, "lead": 4.0, "generate": delays.LogNormal(1.0, 1.0)},
    "group": {"slots": 32, "group": 4, "lead": 4.0, "refill": "group", "generate": delays.Gamma(1.0, 0.8)},
    "sample": {"slots": 96, "group": 4, "lead": 4.0, "generate": delays.Gamma(1.0, 0.8)},
    "abort": {"slots": 64, "group": 1, "max_age": 3, "stale": "abort", "generate": delays.LogNormal(1.0, 1.0)},
}


def log_of(rollouts, commits=800, seed=0):
    """The log of a system as it would write it, Unix times and groups that were never trained included."""
    trace = asim.simulate(rollouts, commits=commits, seed=seed)
    rest = trace.unfinished
    never = np.full(len(rest), np.nan)
    ready = np.where(np.isfinite(rest.finish_time), rest.finish_time, np.nan)
    columns = {
        "opened": np.append(trace.start_time, rest.start_time),
        "ready": np.append(trace.arrive_time, ready),
        "taken": np.append(trace.serve_time, never),
        "trained": np.append(trace.commit_time, never),
    }
    return asim.Trace.from_rollouts(**{name: 1e9 + values for name, values in columns.items()})


def hidden(name):
    return asim.Rollouts(batch=8, train=TRAIN, **SYSTEMS[name])


@pytest.mark.parametrize("name", SYSTEMS)
def test_intervals_hold_the_truth(name):
    """Of 16 intervals, each of 90 %, no more than 3.5 standard errors are missed; estimates are near."""
    some = hidden(name)
    truth = {"generate.mean": 1.0, "generate.cv": some.generate.variance**0.5, "train.mean": 0.3, "train.cv": 0.5}
    held, ratios = 0, []
    for seed in range(SEEDS):
        fit = asim.calibrate(log_of(some, seed=seed), some)
        found = [fit.parameters[name] for name in truth]
        held += sum(one.low <= value <= one.high for one, value in zip(found, truth.values(), strict=True))
        ratios.append([one.estimate / value for one, value in zip(found, truth.values(), strict=True)])
    assert held >= 0.9 * 4 * SEEDS - 3.5 * (0.09 * 4 * SEEDS) ** 0.5
    error = np.std(ratios, axis=0, ddof=1) / SEEDS**0.5
    assert (abs(np.mean(ratios, axis=0) - 1) < 3.5 * error + 0.01).all()


def test_what_if_answers_for_another_lead():
    """The simulated truth lies in the intervals of a fit to a log with another lead."""
    some = hidden("group")
    fit = asim.calibrate(log_of(some, commits=1600), some)
    found = fit.what_if(lead=0.5, slots=64, steps=300)
    other = asim.Rollouts(batch=8, train=TRAIN, **SYSTEMS["group"] | {"lead": 0.5, "slots": 64})
    truth = other.ledger(commits=8000, seed=99).summary(warm_up=50)
    for name in ("steps_per_second", "trainer_idle", "slots_idle"):
        low, high = found[name].low, found[name].high
        assert low - 0.01 * abs(low) <= truth[name] <= high + 0.01 * abs(high), name
    assert found["group_staleness"].median == pytest.approx(0.5, abs=0.01)


def test_a_file_holds_the_fit_and_a_check_finds_another_system(tmp_path, judged_by_few):
    """The right system produces such logs; one with another lead does not, though its laws are the same."""
    some = hidden("one")
    log = log_of(some)
    fit = asim.calibrate(log, some)
    fit.save(tmp_path / "fit.json")
    again = asim.Fit.load(tmp_path / "fit.json")
    assert (again.cluster, repr(again)) == (fit.cluster, repr(fit))
    assert again.sample(2) == fit.sample(2)
    assert fit.check(16).fits
    assert "group_staleness" in asim.calibrate(log, replace(some, lead=8.0)).check(16).suspect
    with pytest.raises(ValueError, match="`workers` must be the log's"):
        fit.with_workers(3)
    assert np.inf in asim.calibrate(log, replace(some, lead=None)).model.ladder(fit.workers)


def test_constant_times_are_exact():
    some = asim.Rollouts(slots=8, group=2, batch=2, generate=delays.Constant(2.0), train=delays.Constant(1.0), lead=1.0)
    fit = asim.calibrate(log_of(some, commits=200), some)
    assert fit.cluster.train.mean == pytest.approx(1.0)
    assert fit.cluster.train.variance == fit.cluster.generate.variance == 0.0
    assert fit.cluster.generate.mean == pytest.approx(2.0)
    assert 0 < fit.parameters["train.mean"].high - fit.parameters["train.mean"].low < 1e-5  # rounding


@pytest.mark.parametrize(("lead", "order"), [(2.0, "completion"), (1.0, "submission")])
def test_the_log_shows_batch_lead_and_order(lead, order):
    some = asim.Rollouts(
        slots=64, group=2, batch=4, generate=delays.Exponential(1.0), train=TRAIN, lead=lead, order=order
    )
    found, _ = rollouts_of(log_of(some))
    assert (found.batch, found.lead, found.order, found.group) == (4, lead, order, 1)


STEPS_ALONE = asim.Trace.from_rollouts(opened=np.arange(40.0), trained=np.arange(40.0) + 1.5)
test_mistakes = refusals(
    ({"law": "pareto"}, "`law` of samples in groups must be one of 'exponential', 'gamma'"),
    ({"law": {"service": "gamma"}}, "`law` must be one of 'generate', 'train'; got 'service'"),
    ({"method": "npe"}, "`method` must be 'likelihood' for rollouts; got 'npe'"),
    ({"log": STEPS_ALONE}, "`log` must show when groups were ready and taken"),
    call=lambda given: asim.calibrate(**{"log": log_of(hidden("group"), 80), "model": hidden("group"), **given}),
)


def observed(rollouts, *names, seed=2):
    trace = asim.simulate(rollouts, commits=1200, seed=seed)
    times = {"ready": "arrive_time", "taken": "serve_time", "trained": "commit_time"}
    columns = {name: getattr(trace, times[name]) for name in names}
    return asim.Trace.from_rollouts(opened=trace.start_time, **columns)


QUEUED = asim.Rollouts(
    slots=24, group=1, batch=8, generate=delays.Exponential(30.0), train=delays.Gamma(10.0, 0.2), lead=2
)


def test_generation_is_not_identified_without_the_time_at_which_groups_were_ready():
    """It contains the wait in the queue, as compute of commits alone contains all."""
    fit = asim.calibrate(observed(QUEUED, "taken", "trained"), QUEUED)
    assert fit.hidden == ("generate",)
    assert not any(one.identifiable for name, one in fit.parameters.items() if name.startswith("generate"))
    assert fit.parameters["train.mean"].identifiable
    assert any("lacks `ready`" in note for note in fit.notes)
    whole = asim.calibrate(observed(QUEUED, "ready", "taken", "trained"), QUEUED)
    assert (whole.hidden, whole.notes) == ((), ())
    assert whole.parameters["generate.mean"].identifiable


@pytest.mark.parametrize(
    ("change", "numbers"),
    [({"batch": 16}, ("16", "8")), ({"lead": 0.5}, ("0.5", "2")), ({"slots": 10}, ("10", "24"))],
    ids=str,
)
def test_a_model_that_the_log_contradicts_is_named_with_both_numbers(change, numbers):
    fit = asim.calibrate(observed(QUEUED, "ready", "taken", "trained"), replace(QUEUED, **change))
    (note,) = [note for note in fit.notes if "The model has" in note]
    assert all(f" {number}" in note for number in numbers)
