"""Mistakes in a user's own functions are named before the replay: the function, its owner, and its result."""

import dataclasses

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim._metrics import KEYS
from asyncsim.engine._layout import Packing
from asyncsim.engine._validation import RESERVED, metrics, try_rule, try_workload
from asyncsim.rules import Rule, Sent
from tests.problems import assert_refused, noisy_quadratic, refusals, tree_workload

TRACE = asim.Trace.from_commits([0, 1, 0, 1])
QUADRATIC = asim.workloads.Quadratic([1.0, 2.0])
DATA = (np.ones((8, 3), np.float32), np.ones(8, np.float32))


def rule(**functions):
    send = {"send": lambda self, gradient, state, view: Sent(gradient, state)}
    return type("Mine", (Rule,), {"elementwise": True, **send, **functions})()


def fit(params, batch, key):
    inputs, targets = batch
    return jnp.mean((inputs @ params["x"] - targets) ** 2)


def workload(**parts):
    own = {"init": lambda key: {"x": jnp.zeros(3)}, "loss": fit, "data": DATA, "batch_size": 4}
    return asim.Workload(**{**own, **parts})


def unpack_three(params, batch, key):
    inputs, targets, weights = batch
    return jnp.mean(weights * (inputs @ params["x"] - targets))


VECTOR = "receives all parameters as one vector"


test_a_mistake_in_a_rule_is_named = refusals(
    ({"send": lambda self, g, s, v: (g, s)}, "`send` .* must return Sent.*; it returned .float32.2., ..."),
    (
        {"send": lambda self, g, s, v: Sent(g["x"], s)},
        f"`send` .* failed .test_validation.py, line .*gradient .*{VECTOR}",
    ),
    (
        {"send": lambda self, g, s, v: (g, s, None)},
        "`send` .* must return an `Info` as the third part; it returned None",
    ),
    (
        {"start": lambda self, p: jnp.zeros(3), "send": lambda self, g, s, v: Sent(g, s[:2])},
        r"`send` .* must return a state like float32\[3\]; it returned float32\[2\]",
    ),
    ({"start": lambda self, p: jax.nn.relu}, "`start` .* must return arrays only; .*It is the function relu"),
    ({"start_server": lambda self: ()}, "`start_server` .* failed: TypeError: .*It received params float32"),
    ({"apply": lambda self, c, s, m, v: c + m}, r"`apply` .* must return .central, server.; it returned float32\[2\]"),
    (
        {"start_server": lambda self, p: jnp.int32(0), "apply": lambda self, c, s, m, v: (c, s + 0.5)},
        r"`apply` .* must return a server's state like int32\[\]; it returned float32\[\]",
    ),
    (
        {"resume": lambda self, c, s, own, v: None},
        "`resume` .* must return parameters like float32.2.; it returned None",
    ),
    ({"local_step": lambda self, p, g, s: p - g, "window": 2}, "`local_step` .* must return .params, state.; it"),
    call=lambda functions: asim.replay(TRACE, rule(**functions), QUADRATIC),
    start="^(?=.*of the rule 'mine').*",
)


test_a_mistake_in_a_workload_is_named = refusals(
    ({"loss": lambda p, b, k: b[0] @ p["x"]}, r"`loss` .* a floating-point scalar; it returned float32\[4\]. Return a"),
    ({"loss": lambda p, b, k: 3}, "`loss` .* must return a floating-point scalar; it returned int 3"),
    ({"loss": lambda p, b, k: None}, "`loss` .*; it returned None. Is a `return` missing"),
    (
        {"loss": unpack_three},
        r"`loss` .* failed .test_validation.py, line .*: ValueError: .* batch .float32\[4,3\], float",
    ),
    ({"loss": lambda p, b: 0.0}, "`loss` .* failed: TypeError"),
    ({"init": lambda: 0}, "`init` .* failed: TypeError"),
    (
        {"init": lambda key: {"x": jnp.zeros(2), "activation": jax.nn.relu}},
        r"`init` .*; \['activation'\] is not an array: partition the model.* It is the function relu",
    ),
    ({"gradient": lambda p, b, k: p}, "`gradient` .* must return .loss, gradient.; it returned {'x'"),
    ({"gradient": lambda p, b, k: (1.0, p["x"][0])}, r"`gradient` .* a gradient like {'x': float32\[3\]}; it returned"),
    ({"noise": lambda: 1, "data": None, "batch_size": 1}, "`noise` .* failed: TypeError"),
    ({"loss": lambda p, b, k, worker: p["x"][worker] + k}, r"`loss` .* failed.*It received .*worker int32"),
    ({"noise": lambda key, worker: key + "x", "data": None, "batch_size": 1}, r"`noise` .* failed.*worker int32"),
    (
        {"workers": 2, "evaluate_workers": lambda p: {"worker_loss": p["x"]}},
        r"`evaluate_workers` .* must return a dictionary from free names to arrays of shape \(2,\)",
    ),
    ({"evaluate": lambda p: 3.0}, "`evaluate` .* must return a dictionary from names to scalars; it returned float 3"),
    ({"evaluate": lambda p: {"a": p["x"]}}, "`evaluate` .* must return a dictionary from names to scalars"),
    ({"evaluate": lambda p: p["y"]}, "`evaluate` .* failed .test_validation.py, line .*KeyError: 'y'"),
    ({"evaluate": lambda p: {"loss": 1.0}}, "`evaluate` .* must not measure anything called 'loss'"),
    ({"evaluate": lambda p: {"a/b": 1.0}}, "`evaluate` .* must not measure anything called 'a/b'"),
    call=lambda parts: asim.replay(TRACE, asim.rules.Downpour(0.1), workload(**parts)),
    start="^(?=.*of the workload '\\S+').*",
)


def test_a_leaf_that_is_not_an_array_is_named_by_its_attribute():
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Model:
        weight: jax.Array
        activation: object

    with pytest.raises(ValueError, match=r"\.activation is not an array: partition the model"):
        asim.replay(TRACE, asim.rules.Downpour(0.1), workload(init=lambda key: Model(jnp.zeros(3), jax.nn.relu)))


def test_a_scenario_names_the_mistake_when_it_is_made():
    cluster = asim.Cluster(2, asim.delays.Constant(1.0))
    with pytest.raises(ValueError, match="`start` of the rule 'mine' must return arrays only"):
        asim.Scenario(cluster, rule(start=lambda self, p: "text"), QUADRATIC, commits=4)
    with pytest.raises(ValueError, match="`evaluate` of the workload 'fit' must return a dictionary"):
        asim.Scenario(cluster, rule(), workload(evaluate=lambda p: [1.0]), commits=4)


def test_weakly_typed_state_may_change_its_dtype():
    counting = rule(
        start_server=lambda self, p: (0, 0.0), apply=lambda self, c, s, m, v: (c + m, (s[0] + 1, s[1] + m.sum()))
    )
    packing = Packing.of(jax.eval_shape(QUADRATIC.init, jax.random.key(0))).seen_by(counting)
    assert try_rule(counting, packing).pi is None


def test_an_evaluation_that_uses_numpy_is_tried_on_the_first_parameters():
    own = workload(evaluate=lambda p: {"norm": float(np.linalg.norm(p["x"]))})
    assert metrics(own, own.init(None)) == ("norm",)


def test_a_trial_compiles_nothing():
    own, params, key = workload(evaluate=lambda p: {"norm": p["x"].sum()}), {"x": jnp.zeros(3)}, jax.random.key(0)
    assert own.device_data is not None
    events = []

    def listen(event, seconds, **details):
        events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        try_workload(own, params, key)
        assert metrics(own, params) == ("norm",)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert any("trace" in event for event in events)
    assert not any("backend_compile" in event for event in events)


def test_no_metric_can_be_mistaken_for_another_number_of_the_summary():
    assert set(KEYS) - {"test_loss", "test_accuracy"} <= RESERVED


@pytest.mark.networks
@pytest.mark.parametrize(
    ("own", "uses_key"),
    [
        (asim.workloads.Quadratic([1.0]), False),
        (asim.workloads.Quadratic([1.0], noise=0.1), True),
        (asim.workloads.Softmax(asim.datasets.Digits(), batch_size=4), False),
        (noisy_quadratic(), True),
        (tree_workload(), True),
        (asim.Workload(QUADRATIC.init, jax.jit(lambda params, batch, key: params["x"].sum())), False),
        (asim.Workload(QUADRATIC.init, jax.jit(lambda params, batch, key: jax.random.uniform(key))), True),
    ],
)
def test_whether_a_workload_uses_its_keys(own, uses_key):
    """Those of a chunk are drawn only where something depends on them."""
    key = jax.random.key(0)
    assert try_workload(own, jax.eval_shape(own.init, key), key) is uses_key


@pytest.mark.parametrize(
    "message", [-0.1, {"x": -0.1}, {"y": jnp.zeros(2)}, [jnp.zeros(2)], jnp.zeros(1), jnp.zeros((2, 2))]
)
@pytest.mark.parametrize("elementwise", [True, False])
def test_a_message_that_is_not_like_the_parameters_is_refused(message, elementwise):
    """It would be broadcast to all of them, or added to others."""
    own = rule(send=lambda hyper, gradient, state, view: Sent(message, state), elementwise=elementwise)
    match = r"`send` of the rule 'mine' must return a message like .*; it returned"
    assert_refused(lambda: asim.replay(TRACE, own, QUADRATIC), match)


def test_an_apply_of_the_users_may_receive_any_message():
    def apply(hyper, central, server, message, view):
        return jax.tree.map(lambda theta: theta + message, central), server

    own = rule(send=lambda hyper, gradient, state, view: Sent(-0.1, state), apply=apply)
    central = asim.replay(TRACE, own, QUADRATIC).central["x"]
    np.testing.assert_allclose(central, 1 - 0.1 * len(TRACE), rtol=1e-6)


class Moody(Rule):
    """A rule with an argument of any kind."""

    mode: object

    def send(self, gradient, state, view):
        return Sent(gradient, state)


@pytest.mark.parametrize("value", ["fast", b"fast", True, object()])
def test_arguments_that_are_no_numbers_are_refused_before_the_replay(value):
    with pytest.raises(ValueError, match=r"`mode` of the rule 'moody' must be a number, .* asyncsim\.static\(\)"):
        asim.replay(TRACE, Moody(value), QUADRATIC)
