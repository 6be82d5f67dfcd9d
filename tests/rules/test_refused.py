"""Arguments of rules that are refused: one line that names the argument and the value."""

import dataclasses

import optax
import pytest

import asyncsim as asim
from asyncsim import rules
from asyncsim.components._component import arguments
from asyncsim.compressors import Identity, TopK
from asyncsim.rules import WithProxy, compressed
from tests.problems import RULES, gamma_trace, noisy_quadratic, refusals


class Rateless(rules.Rule):
    """A rule without a step size."""

    def send(self, gradient, state, view):
        return rules.Sent(gradient, state)


PLAIN = rules.Downpour(0.1)


test_bad_arguments_are_named = refusals(
    # compressed
    (lambda: compressed(PLAIN, TopK), "`compressor` must be an asyncsim Compressor; got the class"),
    (lambda: compressed(PLAIN, TopK(0.1), 1), "`error_feedback` must be True or False; got 1"),
    (
        lambda: compressed(compressed(PLAIN, Identity()), TopK(0.1)),
        "`rule` must not be compressed already; got 'downpour_compressed'",
    ),
    (
        lambda: compressed(WithProxy(compressed(PLAIN, TopK(0.1))), TopK(0.1)),
        "`rule` must not be compressed already",
    ),
    (
        lambda: asim.replay(gamma_trace(), compressed(PLAIN, TopK(k=4)), noisy_quadratic()),
        "`k` must be at most the number of parameters, 3; got 4",
    ),
    # momentum
    (lambda: rules.DelayedNesterov(0.1, interval=0), "`interval` must be a whole number of at least 1"),
    (lambda: rules.DelayedNesterov(0.1, interval=2.5), "`interval` must be a whole number of at least 1"),
    (lambda: rules.DelayedNesterov(0.1, interval=4, activation=0.5), "`activation` must be at most 1/interval"),
    (lambda: rules.HeavyBall(0.1, momentum=[0.5, 1.0]), "`momentum` must be between -1 and 1, both excluded"),
    # optimisers
    (lambda: rules.WorkerOptimiser(optimiser="adma"), "Did you mean 'adam'"),
    (
        lambda: rules.ServerOptimiser(optimiser=3),
        "`optimiser` must be an optax.GradientTransformation or a name; got 3",
    ),
    (
        lambda: rules.AGN(0.1, window=5, optimiser=optax.adam),
        "`optimiser` must be an optax.GradientTransformation or a name",
    ),
    (lambda: rules.Muon(0.1, momentum=[0.9, 0.8]), "`momentum` must be one number, for all seeds alike"),
    (lambda: rules.Muon(0.1, nesterov=1), "`nesterov` must be True or False; got 1"),
    # proxy
    (lambda: WithProxy(rules.Downpour(0.1, window=2)), "'downpour', whose workers make local steps"),
    (lambda: WithProxy(WithProxy(rules.Downpour(0.1))), "must not have a proxy next to it already"),
    (lambda: WithProxy(Rateless()), "`proxy_learning_rate` must be given; got None"),
    # staleness
    (lambda: rules.DelayAdaptive(0.1, concurrency=0), "`concurrency` must be at least 1"),
    (lambda: rules.DelayAdaptive(0.0, concurrency=2, smoothness=1.0), "`learning_rate` must be positive"),
    (lambda: rules.DelayAdaptive(0.1, concurrency=2, smoothness=0.0), "`smoothness` must be positive"),
    (lambda: rules.FedAsync(0.1, mixing=1.5), "`mixing` must be at most 1"),
    (lambda: rules.PipeMare(0.1, anneal=0), "`anneal` must be positive"),
    # windows
    (lambda: rules.ADAG(window=5, gamma=[1.0, 0.0]), "`gamma` must be positive"),
)
pytest.mark.quick(test_bad_arguments_are_named)


@pytest.mark.parametrize("name", RULES)
def test_every_argument_is_checked(name):
    """All refuse a text, negative and infinite numbers. The share that an average keeps must be less than 1."""
    rule = RULES[name][0]()
    for argument in set(arguments(type(rule))) - {"exclude"}:  # Any text may name parameters.
        for value in ("no", -1, float("inf"), *([1.0] if argument in ("momentum", "decay") else [])):
            with pytest.raises(ValueError, match=f"^`{argument}` must .*; got {value!r}"):
                dataclasses.replace(rule, **{argument: value})
