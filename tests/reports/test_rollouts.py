"""Predictions for rollouts: exact laws within 3.5 standard errors, bounds kept, approximations near."""

import numpy as np
import pytest

import asyncsim as asim
from asyncsim import delays
from asyncsim.reports.rollouts import rollouts_report, rollouts_stability

SMALL = asim.workloads.Bits(bits=4, least=3, penalty=0.1)
ONE, SHORT = delays.Exponential(1.0), delays.Constant(0.5)
EVEN = delays.Uniform(0.5, 1.5)
AWAY = asim.faults.Sessions(online=delays.Exponential(4.0), offline=delays.Exponential(1.0))


def engines(slots, group, batch, generate=ONE, train=SHORT, **more):
    return asim.Rollouts(slots=slots, group=group, batch=batch, generate=generate, train=train, **more)


BOUNDED = {"queue", "steps_per_second"}
SYSTEMS = {
    "window": (engines(60, 2, 4, lead=1.0, order="window", window=4), {"group_staleness", "staleness_max"}),
    "synchronous": (engines(9, 3, 3, EVEN, lead=0), {"steps_per_second"}),
    "no bound": (engines(10, 1, 8), {"queue", "staleness", "trainer_idle", "versions"}),
    "queue": (engines(18, 1, 8, capacity=16), {"queue", "in_queue", "staleness"}),
    "queue of one batch": (engines(6, 1, 4, train=delays.Constant(0.8), capacity=4), BOUNDED | {"in_queue"}),
    "queue of one short batch": (engines(12, 1, 6, train=delays.Constant(0.3), capacity=6), BOUNDED | {"in_queue"}),
    "queue of three batches": (engines(4, 1, 3, train=delays.Constant(0.2), capacity=9), BOUNDED | {"staleness"}),
    "age": (engines(48, 1, 16, train=delays.Constant(0.1), max_age=5), {"trained_length", "wasted", "staleness_max"}),
    "in order": (engines(3, 1, 1, lead=1, order="submission"), {"steps_per_second", "staleness_max"}),
    "pause": (engines(10, 2, 8, EVEN, sync=SHORT), {"steps_per_second"}),
    "verl": (
        engines(60, 2, 4, lead=0.5, sync_every=3, sync=SHORT, during_sync="drain", order="submission"),
        {"group_staleness", "staleness_max", "samples_per_second"},
    ),
    "steps together": (engines(40, 2, 4, EVEN, lead=0, sync_every=3, steps_per_take=3), {"steps_per_second"}),
    "steps together, with a lead": (
        engines(40, 2, 4, lead=1.0, sync_every=2, steps_per_take=2, order="submission"),
        {"group_staleness", "staleness_max"},
    ),
    "signal": (engines(14, 1, 8, signal=0.7), {"queue", "staleness", "trainer_idle", "steps_per_second", "wasted"}),
    "signal of groups": (engines(10, 2, 4, EVEN, signal=0.5), {"steps_per_second"}),
    "signal and lead": (engines(60, 2, 4, lead=1.0, signal=0.5), {"group_staleness", "samples_per_second"}),
    "newest": (engines(10, 1, 8, order="newest"), {"queue", "staleness", "trainer_idle", "steps_per_second"}),
    "stalest": (engines(10, 1, 8, order="stalest"), {"queue", "staleness", "trainer_idle", "steps_per_second"}),
    "faults": (engines(12, 1, 8, EVEN, engines=4, faults=[AWAY]), {"steps_per_second", "trained_length", "wasted"}),
    "late": (engines(60, 2, 4, lead=1.0, sync=SHORT, during_sync="continue"), {"samples_per_second"}),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_predictions_are_measured(name):
    rollouts, known = SYSTEMS[name]
    reports = [rollouts_report(rollouts, steps=300, seed=seed) for seed in range(12)]
    predicted = reports[0]["predicted"]
    if name in ("late", "queue of three batches"):  # of which no more is known
        assert set(predicted) == known | {"samples_per_second"}
    assert known <= set(predicted)
    for quantity, several in predicted.items():
        measured = np.array([report["measured"][quantity] for report in reports])
        for place, (_, relation, reason) in enumerate(several):
            values = np.array([report["predicted"][quantity][place].value for report in reports])
            error = (measured - values).std(ddof=1) / np.sqrt(len(measured))
            difference = (measured - values).mean()
            if relation == "=":
                assert abs(difference) < 3.5 * error + 1e-9, (quantity, reason)
            elif relation == "≤":
                assert difference <= 3.5 * error + 1e-9, quantity
            else:
                assert measured.mean() == pytest.approx(values.mean(), rel=0.1), quantity


def test_the_spread_of_staleness_raises_the_limit():
    """The limit of the mean for independent staleness is nearer than that of the mean staleness."""
    report = rollouts_stability(engines(16, 1, 4, delays.LogNormal(1.0, 1.0), lead=2.0), SMALL, steps=120, seeds=1)
    assert not report["same"]
    limit, predicted = report["measured"]["learning_rate"], report["predicted"]
    assert limit > 1.2 * predicted["learning_rate"]
    assert limit == pytest.approx(predicted["mixture"], rel=0.15)


def test_the_limit_of_equal_staleness_is_exact():
    """With a whole lead in the order of submission, all groups are two versions old."""
    rollouts = engines(6, 1, 1, delays.Uniform(0.5, 0.9), delays.Constant(1.0), lead=2, order="submission")
    report = rollouts_stability(rollouts, SMALL, steps=120, seeds=1)
    assert report["same"]
    assert report["predicted"]["kappa"] == pytest.approx(2 * np.sin(np.pi / 10))
    assert report["measured"]["learning_rate"] == pytest.approx(report["predicted"]["learning_rate"], rel=0.03)
