"""Compressed rules: any rule, any compressor, any trace; what is sent and kept, by hand; how they are described."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.compressors import QSGD, Compressor, Identity, LowRank, Natural, RandK, ScaledSign, TopK
from asyncsim.engine.reference import replay_plainly
from asyncsim.rules import WithProxy, compressed, message_bytes
from tests.problems import (
    RULES,
    TRACES,
    assert_close,
    by_group,
    compare,
    gamma_trace,
    noisy_quadratic,
    trace_for,
    tree_workload,
)

COMPRESSORS = [TopK(0.4), RandK(0.4), QSGD(3), ScaledSign(), Natural(), LowRank(1)]
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
    "dc_asgd_adaptive": "has 2 updates",
    "dana_zero": "has 2 updates",
    "dana_dc": "has 2 updates",
    "gem_script_server": "has 2 updates",
    "gem_signed_server": "has 2 updates",
}
APPLIES = [name for name in RULES if name not in REFUSED]
# One of each kind of message, state and server: no state, a worker's, the server's of each worker, its own; local
# steps; a server that collects, or ignores; whole tensors; other places to continue from; messages of several parts.
KINDS = (
    "adaptive_staleness",
    "gem_script",
    "gem_paper",
    "fedbuff_windows",
    "ca2fl",
    "rennala_batches",
    "ringmaster",
    "malenia",
    "agn_adam",
    "local_sgd",
    "diloco",
    "server_adam",
    "muon",
    "dana_slim",
    "gap_aware",
    "weight_prediction",
    "delayed_nesterov",
    "yellowfin_open",
)
by_compressor = pytest.mark.parametrize("compressor", COMPRESSORS, ids=repr)


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


def slope(size=6):
    """A loss with the gradient (1, 2, 3, …) everywhere."""
    weights = np.arange(1.0, size + 1)
    return asim.Workload(lambda key: {"x": jnp.zeros(size)}, lambda params, batch, key: (params["x"] * weights).sum())


GROUPED = tree_workload().grouped({"bias": "first", "layers": "second"})


class TestAnyRule:
    """Each of the table, with one compressor after another."""

    @pytest.mark.parametrize("name", KINDS)
    def test_it_equals_the_reference_loop(self, name, x64):
        place = KINDS.index(name)
        compressor = COMPRESSORS[place // 3 % len(COMPRESSORS)] if place % 3 == 0 else TopK(0.4)  # which compiles fast
        rule = compressed(RULES[name][0](), compressor, error_feedback=place % 4 > 0)
        workload = tree_workload() if compressor.whole else matrix_workload()
        compare(trace_for(rule, "everything", commits=14), rule, workload)

    @pytest.mark.parametrize("name", APPLIES)
    def test_it_sends_what_the_compressor_leaves(self, name):
        rule, params = RULES[name][0]().for_workers(5), jax.eval_shape(init_matrix, jax.random.key(0))
        assert message_bytes(compressed(rule, TopK(k=2)), params) < message_bytes(rule, params)

    def test_parameter_groups_of_versions_of_their_own(self, x64):
        rule = compressed(asim.rules.Downpour(0.1), TopK(0.4))
        compare(by_group(TRACES["early_pulls"][0](commits=20)), rule, GROUPED)

    @pytest.mark.parametrize("name", REFUSED)
    def test_it_is_refused_where_there_is_not_one_update(self, name):
        with pytest.raises(ValueError, match=REFUSED[name]) as caught:
            compressed(RULES[name][0](), TopK(0.4))
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("name", ["downpour", "rennala_batches", "agn_adam", "delay_adaptive"])
    def test_the_identity_is_no_compression_bit_for_bit(self, name):
        rule = RULES[name][0]()
        trace = trace_for(rule, "everything")
        alone = asim.replay(trace, rule, tree_workload(), seed=3)
        same = asim.replay(trace, compressed(rule, Identity()), tree_workload(), seed=3)
        np.testing.assert_array_equal(same.loss, alone.loss)
        jax.tree.map(np.testing.assert_array_equal, same.central, alone.central)


class TestAnyCompressor:
    """Around DOWNPOUR with local steps, and without."""

    @by_compressor
    def test_pieces_seeds_and_lanes_do_not_matter(self, compressor, tmp_path):
        rule = compressed(asim.rules.Downpour(np.array([0.02, 0.05]), window=2), compressor)
        trace, workload = TRACES["everything"][0](), matrix_workload()
        whole = asim.replay(trace, rule, workload, seed=(3, 5), record=("central",))
        half = asim.replay(trace, rule, workload, seed=(3, 5), record=("central",), commits=31)
        half.save(tmp_path / "half.npz", resumable=True)
        resumed = asim.replay(
            trace, rule, workload, (3, 5), resume=asim.Run.load(tmp_path / "half.npz", rule, workload)
        )
        np.testing.assert_array_equal(resumed.loss, whole.loss)
        np.testing.assert_array_equal(resumed.records["central"], whole.records["central"])
        for place, (seed, rate) in enumerate([(3, 0.02), (5, 0.05)]):
            one = dataclasses.replace(rule, rule=dataclasses.replace(rule.rule, learning_rate=rate))
            alone = asim.replay(trace, one, workload, seed=seed, lanes=1 + 3 * place)
            np.testing.assert_allclose(whole.loss[place], alone.loss, rtol=2e-4, atol=1e-5)

    @by_compressor
    def test_nothing_is_lost_with_error_feedback(self, compressor, x64):
        """θ - θ₀ + Σ e is the sum of all updates: what is not sent is remembered. Read from the workers' rows."""
        rule, trace = compressed(asim.rules.Downpour(0.05), compressor), gamma_trace()
        run = asim.replay(trace, rule, matrix_workload(), record=("central",))
        plain = replay_plainly(trace, rule, matrix_workload())
        updates = jax.tree.map(lambda *leaves: sum(leaves), *(commit.info.update for commit in plain.commits))
        errors = np.asarray(run.state.rows)[:, 0, 23:46].sum(axis=0)  # behind the 23 numbers that each read
        start = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(init_matrix(asim_init_key(0)))])
        end = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(run.central)])
        wanted = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(updates)])
        assert np.abs(errors).max() > 1e-3
        np.testing.assert_allclose(end - start + errors, wanted, atol=1e-10)

    @pytest.mark.parametrize("compressor", [one for one in COMPRESSORS if one.draws], ids=repr)
    def test_draws_depend_on_seed_worker_and_number_of_commit_only(self, compressor):
        """On a slope every update is the same, so a message differs by its draw alone."""

        def messages(trace, seed=0):
            rule = compressed(asim.rules.Downpour(0.1), compressor, error_feedback=False)
            central = asim.replay(trace, rule, slope(), seed=seed, record=("central",)).records["central"]
            steps = np.diff(central, axis=0, prepend=0.0)
            return {w: steps[trace.worker == w] for w in range(3)}

        few, many = messages(gamma_trace(workers=3)), messages(gamma_trace(workers=7, commits=140, seed=2))
        other = messages(gamma_trace(workers=3), seed=1)
        for w in range(3):
            both = min(len(few[w]), len(many[w]))
            assert both > 10
            np.testing.assert_allclose(few[w][:both], many[w][:both], atol=1e-4)
            assert not np.allclose(few[w][:10], other[w][:10], atol=1e-4)
            assert not np.allclose(few[w][:10], few[(w + 1) % 3][:10], atol=1e-4)
            assert not np.allclose(few[w][0], few[w][1:], atol=1e-4)


def asim_init_key(seed):
    from asyncsim.workloads._batches import init_key

    return init_key(seed)


@pytest.mark.parametrize("kind", ["ordinary", "crashing", "buffered"])
def test_top_k_with_memory_by_hand(kind, x64):
    """Every worker's own memory, which a crash empties, in NumPy."""
    trace, rate = TRACES[kind][0](), 0.1
    rule = compressed(asim.rules.Downpour(rate), TopK(k=2))
    commits = replay_plainly(trace, rule, noisy_quadratic()).commits
    run = asim.replay(trace, rule, noisy_quadratic(), record=("central",))
    theta, errors, step = np.ones(3), np.zeros((trace.workers, 3)), []
    for row, commit in enumerate(commits):
        w = trace.worker[row]
        errors[w] *= not trace.state_lost[row]
        errors[w] -= rate * np.asarray(commit.gradient["x"])
        largest = np.argsort(-abs(errors[w]))[:2]
        message = np.zeros(3)
        message[largest] = errors[w][largest]
        errors[w] -= message
        step.append(message)
        if trace.closes_step[row]:
            theta, step = theta + np.mean(step, axis=0), []
        np.testing.assert_allclose(run.unpacked("central")["x"][row], theta, rtol=1e-10, atol=1e-13)


def test_rand_k_has_no_factor_with_error_feedback():
    """With it a number is sent as it is, without it times d/k."""
    trace = asim.Trace.from_commits([0])
    for feedback, factor in ((True, 1.0), (False, 6.0)):
        rule = compressed(asim.rules.Downpour(1.0), RandK(k=1), error_feedback=feedback)
        moved = -asim.replay(trace, rule, slope()).central["x"]
        place = int(np.flatnonzero(moved)[0])
        assert moved[place] == pytest.approx(factor * (place + 1))
        assert np.count_nonzero(moved) == 1


def test_what_the_rule_ignores_does_not_move_the_server():
    """Two workers in turn with a limit of 1: the second's gradient is always too old, whatever it remembers."""
    rule = compressed(asim.rules.Ringmaster(0.1, limit=1), TopK(k=1))
    trace = asim.Trace.from_commits([0, 0, 1])
    central = asim.replay(trace, rule, slope(), record=("central",)).records["central"]
    assert (central[1] != central[0]).any()
    np.testing.assert_array_equal(central[2], central[1])


def test_feedback_makes_signs_converge():
    """On a slope of (1, 1, 1, 10), signs alone go in the wrong proportions, and with memory in the right ones."""
    weights = np.array([1.0, 1.0, 1.0, 10.0])
    workload = asim.Workload(lambda key: {"x": jnp.zeros(4)}, lambda params, batch, key: (params["x"] * weights).sum())
    trace = asim.Trace.from_commits([0] * 2000)
    ends = [
        asim.replay(trace, compressed(asim.rules.Downpour(0.01), ScaledSign(), feedback), workload).central["x"]
        for feedback in (True, False)
    ]
    np.testing.assert_allclose(ends[0] / ends[0][0], weights, rtol=0.05)
    np.testing.assert_allclose(ends[1] / ends[1][0], np.ones(4), rtol=1e-4)


PLAIN = asim.rules.Downpour(0.1)


class TestDescription:
    """As a value: equal, hashable, taken apart, and refused."""

    def test_it_is_what_it_was_made_of(self):
        rule = asim.rules.GEM(0.1, kappa=2.0)
        made = compressed(rule, TopK(0.1))
        assert made == compressed(asim.rules.GEM(0.1, kappa=2.0), TopK(0.1))
        assert (
            len({made, compressed(rule, TopK(0.1)), compressed(rule, TopK(0.2)), compressed(rule, TopK(0.1), False)})
            == 3
        )
        assert (made.rule, made.compressor, made.error_feedback) == (rule, TopK(0.1), True)
        assert made.name == "gem_compressed"
        assert made.numbers == rule.numbers

    @pytest.mark.parametrize("compressor", [Identity(), TopK(0.1)], ids=repr)
    def test_it_learns_the_number_of_workers(self, compressor):
        made = compressed(asim.rules.DelayAdaptive(0.1), compressor)
        assert made.for_workers(4) == compressed(asim.rules.DelayAdaptive(0.1, concurrency=4), compressor)
        assert made.for_workers(4).for_workers(4) == made.for_workers(4)

    def test_a_proxy_beside_and_within(self):
        trace, rule = gamma_trace(), asim.rules.Downpour(0.1)
        inside, outside = compressed(WithProxy(rule), TopK(0.4)), WithProxy(compressed(rule, TopK(0.4)))
        runs = [asim.replay(trace, one, noisy_quadratic(), record=("energy_proxy",)) for one in (inside, outside)]
        np.testing.assert_allclose(runs[0].records["energy_proxy"], runs[1].records["energy_proxy"], rtol=1e-6)

    def test_a_compressor_of_ones_own(self, x64):
        rule = compressed(asim.rules.Downpour(0.1), Half())
        compare(gamma_trace(), rule, noisy_quadratic())


@dataclasses.dataclass(frozen=True)
class Half(Compressor):
    """The first half of all numbers in one commit, the second in the next."""

    def start(self, params):
        return jnp.int32(0)

    def compress(self, key, update, state):
        vector, tree = jax.flatten_util.ravel_pytree(update)
        first = jnp.arange(vector.size) < vector.size // 2
        return tree(jnp.where(first == (state % 2 == 0), vector, 0)), state + 1

    def bytes(self, params):
        return 2 * asim.compressors._compressor.size_of(params)

    def delta(self, params):
        return 0.0


class Slopes(asim.Rule):
    """An update of parameters of these names and no others, and beside it a number of another shape."""

    rate: float = 0.1

    def start(self, params):
        return jnp.zeros(())

    def send(self, gradient, state, view):
        update = {name: -self.rate * gradient[name] for name in ("slope", "offset")}
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


def line():
    def loss(params, batch, key):
        del batch, key
        return jnp.sum(params["slope"] ** 2) + 3 * jnp.sum((params["offset"] - 1.0) ** 2)

    return asim.Workload(init=lambda key: {"slope": jnp.ones((2, 3)), "offset": jnp.zeros(3)}, loss=loss)


class TestRulesOfOnesOwn:
    def test_the_update_is_found_by_the_shapes_of_the_parameters(self, x64):
        rule = Slopes()
        trace = asim.Trace.from_commits([0, 1, 0, 1, 1])
        largest = asim.replay(trace, compressed(rule, TopK(k=1)), line(), record=("central",))
        central = np.concatenate([largest.unpacked("central")[name].reshape(5, -1) for name in ("slope", "offset")], 1)
        assert ((np.diff(central, axis=0) != 0).sum(1) == 1).all()
        everything = asim.replay(trace, compressed(rule, TopK(fraction=1.0)), line())
        assert_close(everything.central, asim.replay(trace, rule, line()).central, rtol=1e-12)

    def test_a_mistake_in_send_is_reported_as_one(self):
        rule = compressed(Mistaken(), TopK(0.5))
        with pytest.raises(ValueError, match=r"`send` of the rule 'mistaken_compressed' failed.*AttributeError.*rait"):
            asim.replay(asim.Trace.from_commits([0]), rule, line())

    def test_several_updates_are_refused(self):
        rule = compressed(Twice(), TopK(0.5))
        with pytest.raises(ValueError, match=r"`rule` must send one update; a message of 'twice' has 2 updates"):
            asim.replay(asim.Trace.from_commits([0]), rule, line())
