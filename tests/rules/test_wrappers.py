"""Rules around rules: compressed ones (any rule, any compressor, any trace), and the proxy next to a rule."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import asyncsim as asim
from asyncsim.compressors import QSGD, Identity, LowRank, RandK, ScaledSign, TopK
from asyncsim.engine.reference import replay_plainly
from asyncsim.rules import WithProxy, compressed, message_bytes
from asyncsim.workloads._batches import init_key
from tests.problems import (
    RULES,
    TRACES,
    compare,
    gamma_trace,
    in_few_programs,
    noisy_quadratic,
    random_trace,
    refusals,
    trace_for,
)
from tests.rules.by_hand import H, assert_ends, slope, versions

REFUSED = {
    "ringleader": "has 2 updates",
    "aeasgd": "moves worker and server by the same amount",
    "aeasgd_pulled": "moves worker and server by the same amount",
    "eamsgd": "moves worker and server by the same amount",
    "easgd": "moves worker and server by the same amount",
    "fedasync_constant": "sends parameters",
    "fedasync_polynomial": "sends parameters",
    "fedasync_hinge": "sends parameters",
    "fedasync_windows": "sends parameters",
    "noloco": "sends parameters",
    "exact_diffusion": "sends parameters",
    "dc_asgd_adaptive": "has 2 updates",
    "dana_zero": "has 2 updates",
    "dana_dc": "has 2 updates",
    "gem_script_server": "has 2 updates",
    "gem_signed_server": "has 2 updates",
}
APPLIES = [name for name in RULES if name not in REFUSED]
# One of each kind of message, state and server: a worker's state; a server that collects and ignores; local steps; a
# server that workers look at, and whole tensors because of the compressor.
KINDS = ("gem_script", "rennala_batches", "agn_adam", "dc_asgd_constant")


def init_matrix(key):
    """A matrix that `LowRank` compresses, and a vector."""
    return {"w": jax.random.normal(key, (5, 4)), "b": jnp.zeros(3)}


def matrix_loss(params, batch, key):
    bits = jax.random.key_data(key)[-1] >> jnp.arange(8, dtype=jnp.uint32) & 1
    targets = 1.0 + 0.2 * bits[None, :5]  # noise: two gradients at one point must not differ by rounding alone
    return ((params["w"] @ params["w"].T - targets) ** 2).mean() + ((params["b"] - bits[:3]) ** 2).sum()


MATRIX_GRADIENT = jax.jit(asim.Workload(init_matrix, matrix_loss).loss_and_gradient)


def matrix_workload():
    return asim.Workload(init_matrix, matrix_loss, gradient=MATRIX_GRADIENT)


def raw_update(commit):
    return ravel_pytree(commit.info.update)[0]


SLOPE = slope(*range(1, 7))


class TestAnyRule:
    """Each of the table, with one compressor after another."""

    @pytest.mark.parametrize("name", KINDS)
    def test_it_equals_the_reference_loop(self, name, x64):
        others = {"gem_script": QSGD(3), "rennala_batches": RandK(0.4), "dc_asgd_constant": LowRank(1)}
        compressor = others.get(name, TopK(0.4))
        rule = compressed(RULES[name][0](), compressor, error_feedback=name != "gem_script")
        workload = noisy_quadratic() if compressor.whole else matrix_workload()
        trace = trace_for(rule, "everything", commits=14)
        compare(trace, rule, workload, plain=replay_plainly(trace, in_few_programs(rule), workload, seed=3))

    @pytest.mark.parametrize("name", APPLIES)
    def test_it_sends_what_the_compressor_leaves(self, name):
        rule, params = RULES[name][0]().for_workers(5), jax.eval_shape(init_matrix, jax.random.key(0))
        assert message_bytes(compressed(rule, TopK(k=2)), params) < message_bytes(rule, params)

    def test_the_identity_is_no_compression_bit_for_bit(self, x64):
        rule = RULES["rennala_batches"][0]()
        trace = trace_for(rule, "everything")
        alone, same = (
            replay_plainly(trace, one, noisy_quadratic(), seed=3) for one in (rule, compressed(rule, Identity()))
        )
        np.testing.assert_array_equal(same.loss, alone.loss)
        np.testing.assert_array_equal(same.central["x"], alone.central["x"])


test_it_is_refused_where_there_is_not_one_update = refusals(
    *REFUSED.items(), call=lambda name: compressed(RULES[name][0](), TopK(0.4))
)


@pytest.mark.parametrize("compressor", [RandK(0.4), ScaledSign(), LowRank(1)], ids=repr)
def test_nothing_is_lost_with_error_feedback(compressor, x64):
    """θ - θ₀ + Σ e, with e from the workers' rows, is the sum of all updates."""
    rule, trace = compressed(asim.rules.Downpour(0.05), compressor), gamma_trace()
    run = asim.replay(trace, rule, matrix_workload(), record={"update": raw_update})
    errors = np.asarray(run.state.rows)[:, 0, 23:46].sum(axis=0)  # behind the 23 numbers that each read
    start, end = (ravel_pytree(params)[0] for params in (init_matrix(init_key(0)), run.central))
    assert np.abs(errors).max() > 1e-3
    np.testing.assert_allclose(end - start + errors, run.records["update"].sum(axis=0), atol=1e-10)


def test_top_k_with_memory_by_hand(x64):
    """Every worker's own memory, which a crash empties, in NumPy."""
    trace, errors = random_trace(crashing=0.2, closing=0.4), np.zeros((5, 3))

    def send(k, thetas):
        w = trace.worker[k]
        errors[w] *= not trace.state_lost[k]
        errors[w] -= 0.1 * H * thetas[trace.read_version[k]]
        largest = np.argsort(-abs(errors[w]))[:2]
        message = np.zeros(3)
        message[largest] = errors[w][largest]
        errors[w] -= message
        return message

    assert_ends(trace, compressed(asim.rules.Downpour(0.1), TopK(k=2)), versions(trace, send))


def test_rand_k_has_no_factor_with_error_feedback(x64):
    """With it a number is sent as it is, without it times d/k."""
    trace = asim.Trace.from_commits([0])
    for feedback, factor in ((True, 1.0), (False, 6.0)):
        rule = compressed(asim.rules.Downpour(1.0), RandK(k=1), error_feedback=feedback)
        moved = -replay_plainly(trace, rule, SLOPE).central["x"]
        place = int(np.flatnonzero(moved)[0])
        assert moved[place] == pytest.approx(factor * (place + 1))
        assert np.count_nonzero(moved) == 1


def test_what_the_rule_ignores_does_not_move_the_server():
    """Two workers in turn with a limit of 1: the second's gradient is always too old, whatever it remembers."""
    rule = compressed(asim.rules.Ringmaster(0.1, limit=1), TopK(k=1))
    trace = asim.Trace.from_commits([0, 0, 1])
    central = asim.replay(trace, rule, SLOPE, record=("central",)).records["central"]
    assert (central[1] != central[0]).any()
    np.testing.assert_array_equal(central[2], central[1])


class TestContainedComponents:
    """The rule and the compressor in it."""

    @pytest.mark.parametrize("compressor", [Identity(), TopK(0.1)], ids=repr)
    def test_it_learns_the_number_of_workers(self, compressor):
        made = compressed(asim.rules.DelayAdaptive(0.1), compressor)
        assert made.for_workers(4) == compressed(asim.rules.DelayAdaptive(0.1, concurrency=4), compressor)
        assert made.for_workers(4).for_workers(4) == made.for_workers(4)

    def test_a_proxy_beside_and_within(self, x64):
        trace, rule = gamma_trace(), asim.rules.Downpour(0.1)
        inside, outside = compressed(WithProxy(rule), TopK(0.4)), WithProxy(compressed(rule, TopK(0.4)))
        runs = (replay_plainly(trace, one, noisy_quadratic()) for one in (inside, outside))
        np.testing.assert_array_equal(*([commit.info.proxy["x"] for commit in run.commits] for run in runs))


class OfNames(asim.Rule):
    """An update of parameters of these names and no others, and beside it a number of another shape."""

    rate: float = 0.1

    def start(self, params):
        return jnp.zeros(())

    def send(self, gradient, state, view):
        update = {name: -self.rate * gradient[name] for name in ("w", "b")}
        return asim.rules.Sent({"count": jnp.ones(()), "update": update}, state + 1)

    def apply(self, central, server, message, view):
        return jax.tree.map(jnp.add, central, message["update"]), server


class Mistaken(asim.Rule):
    """A mistake in `send`."""

    def send(self, gradient, state, view):
        return asim.rules.Sent(jax.tree.map(lambda g: -self.rait * g, gradient), ())


class Twice(asim.Rule):
    """Two updates in a message."""

    def send(self, gradient, state, view):
        return asim.rules.Sent((gradient, gradient), state)


def test_the_update_of_a_rule_of_your_own_is_found_by_the_shapes_of_the_parameters(x64):
    trace = asim.Trace.from_commits([0, 1, 0, 1, 1])
    largest, everything, plain = (
        [ravel_pytree(commit.central)[0] for commit in replay_plainly(trace, rule, matrix_workload()).commits]
        for rule in (compressed(OfNames(), TopK(k=1)), compressed(OfNames(), TopK(fraction=1.0)), OfNames())
    )
    assert ((np.diff(largest, axis=0) != 0).sum(1) == 1).all()
    np.testing.assert_allclose(everything, plain, rtol=1e-12)


test_mistakes_in_rules_of_your_own = refusals(
    (Mistaken, "`send` of the rule 'mistaken_compressed' failed.*AttributeError.*rait"),
    (Twice, "`rule` must send one update; a message of 'twice' has 2 updates"),
    call=lambda rule: asim.replay(
        asim.Trace.from_commits([0]), compressed(rule(), TopK(0.5)), asim.workloads.Quadratic([1.0])
    ),
)


@pytest.mark.parametrize("name", ["gem_paper", "rennala_batches"])
def test_a_proxy_changes_nothing(name, x64):
    """Loss and central variable are the rule's own, bit for bit, whatever happens to the workers."""
    rule = RULES[name][0]()
    trace = trace_for(rule, "everything", commits=60)
    wrapped = WithProxy(rule, proxy_learning_rate=0.3)
    alone, both = (replay_plainly(trace, one, noisy_quadratic(), seed=3) for one in (rule, wrapped))
    np.testing.assert_array_equal(both.loss, alone.loss)
    np.testing.assert_array_equal(both.central["x"], alone.central["x"])
    assert all(commit.info.proxy["x"].any() for commit in both.commits)


def test_gem_has_this_proxy_already(x64):
    """Around GEM, whose own proxy is the same moment, all energies are GEM's own."""
    record, rule = ("energy_central", "energy_proxy", "compliance", "pi_mean"), asim.rules.GEM(0.05, momentum=0.8)
    own, both = (
        asim.replay(TRACES["crashing"][0](), one, noisy_quadratic(), record=record).records
        for one in (rule, WithProxy(rule, proxy_momentum=0.8))
    )
    for name in record:
        np.testing.assert_allclose(both[name], own[name], rtol=1e-12)


def test_the_moment_of_the_proxy_by_hand(x64):
    """m ← μ·m - η·g of each worker, from the gradients that the plain loop says the rule took."""
    trace, workload, rate, momentum = gamma_trace(workers=3), asim.workloads.Quadratic([1.0, 0.3]), 0.07, 0.6
    rule = WithProxy(asim.rules.Downpour(0.2), proxy_learning_rate=rate, proxy_momentum=momentum)
    steps = replay_plainly(trace, rule, workload).commits
    moments = np.zeros((3, 2))
    for worker, step in zip(trace.worker, steps, strict=True):
        moments[worker] = momentum * moments[worker] - rate * np.array([1.0, 0.3]) * step.view.read["x"]
        np.testing.assert_allclose(step.info.proxy["x"], moments[worker], rtol=1e-12)
