"""A rule takes the number of workers from the trace, refuses another, and says where its rounds are lacking."""

import warnings

import pytest

import asyncsim as asim
from asyncsim import protocols, rules
from asyncsim.components._families import built_in_classes
from asyncsim.engine._plan import bind, warn_of_lacking_rounds
from asyncsim.engine.reference import replay_plainly
from tests.problems import assert_refused

TRACE = asim.Trace.from_commits([0, 1, 2, 0, 1, 2])
COUNTING = ("ca2fl", "easgd", "ia2sgd", "malenia", "ringleader")
TAKING = {**dict.fromkeys(COUNTING, "workers"), "delay_adaptive": "concurrency", "delayed_nesterov": "interval"}


def quadratic():
    return asim.workloads.Quadratic([1.0])


@pytest.mark.parametrize(("name", "argument"), TAKING.items())
def test_the_number_of_workers_comes_from_the_trace(name, argument):
    made = built_in_classes("rules")[name](0.1)
    bound, _ = bind(made, TRACE)
    assert getattr(bound, argument) == 3
    assert bound == built_in_classes("rules")[name](0.1, **{argument: 3})
    assert type(bound) is type(made) is built_in_classes("rules")[name]
    assert bind(bound, TRACE)[0] == bound


@pytest.mark.parametrize("name", COUNTING)
def test_a_rule_for_another_number_of_workers_is_refused(name):
    rule = built_in_classes("rules")[name](0.1, workers=8)
    told = f"`workers` of the rule '{name}' must be that of the trace, 3; got 8. Leave it out."
    for replayed in (asim.replay, replay_plainly):
        assert_refused(lambda replayed=replayed: replayed(TRACE, rule, quadratic()), told)
    cluster = asim.Cluster(3, asim.delays.Constant(1.0))
    assert_refused(lambda: asim.Scenario(cluster, rule, quadratic(), commits=3), told)


WINDOWED = {
    "a field": lambda window: rules.AGN(0.1, window=window),
    "around a rule": lambda window: rules.local(rules.Downpour(0.1), window=window, learning_rate=0.1),
    "inside a wrapper": lambda window: rules.compressed(rules.LocalSGD(0.1, window=window), asim.compressors.TopK(0.5)),
}


@pytest.mark.parametrize("kind", WINDOWED)
def test_windows_are_one_for_each_worker_of_the_trace(kind):
    make = WINDOWED[kind]
    assert bind(make((1, 2, 3)), TRACE)[0] == make((1, 2, 3)) == make([1, 2, 3])
    assert bind(make((2, 2, 2)), TRACE)[0] == make(2)
    for replayed in (asim.replay, replay_plainly):
        assert_refused(
            lambda replayed=replayed: replayed(TRACE, make((1, 2)), quadratic()),
            "`window` must have one number per worker; got 2 for 3 workers",
        )


def test_windows_are_those_of_the_trace():
    trace = asim.simulate(asim.Cluster(3, asim.delays.Constant(1.0), local_steps=(1, 2, 3)), commits=6)
    assert bind(rules.AGN(0.1, window=(1, 2, 3)), trace)[1] is trace
    refused = r"the window of 'agn', 2; those of worker 2 have 3. Simulate it with `local_steps=\(1, 2, 2\)`"
    assert_refused(lambda: bind(rules.AGN(0.1, window=(1, 2, 2)), trace), refused)
    assert_refused(lambda: bind(rules.AGN(0.1, window=2), trace), "those of worker 0 have 1. Simulate it with")


@pytest.mark.parametrize("kind", WINDOWED)
@pytest.mark.parametrize("wrong", [(1, 0), (2.0, 1), (), [[1, 2]], "12", (True, 1), None])
def test_windows_that_are_no_counts_are_refused(kind, wrong):
    assert_refused(lambda: WINDOWED[kind](wrong), "`window` must be an integer of at least 1; got ")


def test_concurrency_and_interval_need_not_be_the_number_of_workers():
    assert bind(rules.DelayAdaptive(0.1, concurrency=2), TRACE)[0].concurrency == 2
    assert bind(rules.DelayedNesterov(0.1, interval=7), TRACE)[0].interval == 7
    with pytest.raises(ValueError, match=r"`concurrency` .* at most the trace's number of workers, 3; got 4"):
        bind(rules.DelayAdaptive(0.1, concurrency=4), TRACE)
    with pytest.raises(ValueError, match="`activation` must be at most 1/interval"):
        bind(rules.DelayedNesterov(0.1, activation=0.4), TRACE)


def test_a_rule_for_rounds_warns_on_a_trace_without_them():
    rule = rules.EASGD(0.1, window=1)
    with pytest.warns(UserWarning, match=r"'easgd' is made for rounds .* `protocols.Synchronous\(\)`"):
        warn_of_lacking_rounds(rule, TRACE)
    cluster = asim.Cluster(3, asim.delays.Constant(1.0), protocol=protocols.Synchronous())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_lacking_rounds(rule, asim.simulate(cluster, commits=6))
        warn_of_lacking_rounds(rule, asim.Trace.from_commits([0, 0]))  # a round of one
        warn_of_lacking_rounds(rules.Downpour(0.1), TRACE)


def test_a_replay_passes_the_warning_on():
    with pytest.warns(UserWarning, match="'easgd' is made for rounds"):
        asim.replay(TRACE, rules.EASGD(0.1), quadratic())
