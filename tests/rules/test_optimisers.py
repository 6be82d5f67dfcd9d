"""Any optax optimiser at the worker or the server: equal to optax, with its state and its step sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import asyncsim as asim
from asyncsim import rules
from asyncsim.engine.reference import replay_plainly
from asyncsim.rules._eigenbasis import eigenbasis_adam
from asyncsim.rules._optimisers import NAMES
from asyncsim.workloads._batches import commit_key, init_key
from tests.problems import assert_close, in_few_programs, random_trace, refusals, tree_workload
from tests.rules.by_hand import own_steps, quadratic

CLIPPED = optax.chain(optax.clip_by_global_norm(0.1), optax.adam(0.05))  # looks at all parameters together


def served(trace, optimiser, workload, seed, workers_step=False):
    """A server's loop in plain optax; with `workers_step`, every worker has an optimiser of its own."""
    thetas, update = [workload.init(init_key(seed))], jax.jit(optimiser.update)
    states = dict.fromkeys(range(trace.workers), optimiser.init(thetas[0]))
    jobs, messages = [0] * trace.workers, []
    for k, w in enumerate(trace.worker.tolist()):
        read = thetas[trace.read_version[k]]
        key = commit_key(jax.random.key(seed), w, jobs[w])
        _, message = workload.loss_and_gradient(read, workload.batch(seed, w, jobs[w]), key)
        jobs[w] += 1
        if workers_step:
            message, states[w] = update(message, states[w], read)
        messages.append(message)
        if trace.closes_step[k]:
            step = jax.tree.map(lambda *parts: sum(parts) / len(parts), *messages)
            if not workers_step:
                step, states[0] = update(step, states[0], thetas[-1])
            thetas.append(optax.apply_updates(thetas[-1], step))
            messages = []
    return thetas[-1]


@pytest.mark.parametrize(
    ("name", "make"),
    [
        *((name, rules.WorkerOptimiser) for name in NAMES),
        ("adamw", rules.ServerOptimiser),
        ("sgd", rules.ServerOptimiser),
    ],
)
def test_one_worker_is_the_optimiser_of_that_name(name, make, x64):
    """And η times an optimiser of step size 1 is that optimiser with step size η, weight decay included."""
    rule, trace = in_few_programs(make(0.03, optimiser=name)), asim.Trace.from_commits([0] * 12)
    run = replay_plainly(trace, rule, quadratic(), seed=2)
    assert_close(run.central, own_steps(getattr(optax, name)(0.03), quadratic(), 12, seed=2)[0])


@pytest.mark.parametrize("at", ["worker", "server"])
def test_an_optimiser_that_looks_at_whole_tensors(at, x64):
    """On a nested pytree, and with the mean of the collected messages of a step as its gradient."""
    rule, trace = asim.rules.by_name(at)(optimiser=CLIPPED), random_trace(commits=20, closing=0.4)
    assert not rule.sees_vector
    run = replay_plainly(trace, in_few_programs(rule), tree_workload(), seed=2)
    assert_close(run.central, served(trace, CLIPPED, tree_workload(), seed=2, workers_step=at == "worker"), rtol=1e-8)


def language(names=("embedding", "hidden", "output")):
    """A loss of three matrices and a vector, whose gradients differ from step to step."""

    def init(key):
        keys = jax.random.split(key, len(names))
        return {"bias": jnp.ones(3)} | {name: jax.random.normal(keys[i], (4, 3)) for i, name in enumerate(names)}

    def loss(params, batch, key):
        return sum((jnp.sin(leaf + 0.3 * i) ** 2).sum() for i, leaf in enumerate(jax.tree.leaves(params)))

    return asim.Workload(init, loss)


THRICE = asim.Trace.from_commits([0, 0, 0])


def orthogonalised(matrix):
    """Five Newton-Schulz iterations with Muon's coefficients."""
    found = matrix / np.linalg.norm(matrix)
    for _ in range(5):
        square = found @ found.T
        found = 3.4445 * found - 4.7750 * square @ found + 2.0315 * square @ square @ found
    return found


class TestMuon:
    """Matrices by Newton-Schulz, all else by Adam."""

    def test_muon_equals_optax(self, x64):
        """On any trace, with a matrix, a vector and numbers among the parameters."""
        from optax.contrib import muon

        trace, optimiser = random_trace(commits=12), muon(0.02, beta=0.8, nesterov=False, ns_steps=3)
        rule = asim.rules.Muon(0.02, momentum=0.8, nesterov=False, iterations=3)
        run = asim.replay(trace, rule, tree_workload(), seed=3)
        assert_close(run.central, served(trace, optimiser, tree_workload(), 3), rtol=1e-9)

    def test_under_nesterov_the_newest_gradient_counts_for_more_at_first_than_in_the_published_code(self, x64):
        """Without it they agree, because the iterations take any length of a moment to the same one."""
        slopes = np.random.default_rng(0).normal(size=(2, 4, 4))
        plane = asim.Workload(
            lambda key: jnp.zeros((4, 4)), lambda params, batch, key: (params * batch[0]).sum(), data=slopes
        )
        first, newest = (np.asarray(plane.batch(seed=0, worker=0, job=job))[0] for job in range(2))

        def moved(nesterov):
            rule = asim.rules.Muon(1.0, momentum=0.95, nesterov=nesterov)
            runs = [asim.replay(asim.Trace.from_commits([0, 0]), rule, plane, commits=n).central for n in (1, 2)]
            return np.asarray(runs[0] - runs[1])

        np.testing.assert_allclose(moved(False), orthogonalised(newest + 0.95 * first), atol=1e-6)
        optaxs, published = orthogonalised(2.6734 * newest + first), orthogonalised(1.95 * newest + 0.95**2 * first)
        np.testing.assert_allclose(moved(True), optaxs, atol=1e-4)
        assert abs(optaxs - published).max() > 0.01

    @pytest.mark.parametrize(
        "rule",
        [
            rules.Muon(0.1),
            rules.WorkerOptimiser(0.1, optimiser="muon"),
            rules.local(rules.Downpour(1.0), window=1, learning_rate=0.1, optimiser="muon"),
        ],
        ids=lambda rule: rule.name,
    )
    def test_embedding_and_output_take_the_step_of_adam(self, rule, x64):
        """At the server and in windows, whose optimiser receives the pytree: one vector would be Adam's altogether."""
        from optax.contrib import muon

        assert not rule.sees_vector
        end = asim.replay(THRICE, rule, language(), seed=2).central
        as_hidden, adam = (
            own_steps(each, language(), 3, seed=2)[0]
            for each in (muon(0.1), optax.adamw(0.1, weight_decay=0.0, nesterov=True))
        )
        for name, expected in {"hidden": as_hidden, "embedding": adam, "output": adam, "bias": adam}.items():
            assert_close(end[name], expected[name], rtol=1e-9)
        assert abs(as_hidden["output"] - adam["output"]).max() > 1e-3

    @pytest.mark.parametrize(
        ("exclude", "adams"),
        [
            ("", set()),
            ("hidden", {"hidden"}),
            ("hid*, output", {"hidden", "output"}),
            ("output,embedding", {"output", "embedding"}),
            ("inner/*", {"embedding", "hidden", "output"}),
            ("inner", {"embedding", "hidden", "output"}),
            ("inner/o*", {"output"}),
            ("put", set()),
        ],
    )
    def test_names_and_patterns_of_paths_are_excluded(self, exclude, adams):
        params = {"inner": language().init(jax.random.key(0))}
        state = rules.Muon(0.1, exclude=exclude).start_server(params)
        moments = state.inner_states["muon"].inner_state[0].mu["inner"]
        assert {name for name, leaf in moments.items() if not hasattr(leaf, "shape")} == adams | {"bias"}

    @pytest.mark.parametrize("workload", [tree_workload(), language(names=("first", "second"))], ids=["tree", "names"])
    def test_without_such_names_every_digit_is_that_of_optax(self, workload):
        from optax.contrib import muon

        runs = [
            asim.replay(THRICE, rule, workload)
            for rule in (rules.Muon(0.1), rules.ServerOptimiser(0.1, optimiser=muon(1.0)), rules.Muon(0.1, exclude=""))
        ]
        for run in runs[1:]:
            jax.tree.map(np.testing.assert_array_equal, run.central, runs[0].central)

    def test_it_orthogonalises_the_hidden_matrices_of_a_transformer_and_no_others(self):
        data = asim.datasets.Markov(1, 4, sequences=20, context=4)
        model = asim.workloads.Transformer(data, layers=1, width=4, heads=1, batch_size=2)
        state = jax.eval_shape(lambda key: rules.Muon(0.1).start_server(model.init(key)), jax.random.key(0))
        moments = state.inner_states["muon"].inner_state[0].mu
        paths = [
            jax.tree_util.keystr(path, simple=True, separator="/")
            for path, _ in jax.tree_util.tree_leaves_with_path(moments)
        ]
        attention = ("key", "projection", "query", "value")
        assert paths == [*(f"layers/0/attention/{name}" for name in attention), "layers/0/mlp/down", "layers/0/mlp/up"]

    def test_a_matrix_without_a_name_is_never_excluded(self):
        state = rules.Muon(0.1, exclude="").start_server(jnp.ones((2, 2)))
        assert state.inner_states["muon"].inner_state[0].mu.shape == (2, 2)


test_what_names_no_parameters_is_refused = refusals(
    (
        lambda: rules.Muon(0.1, exclude=3),
        "`exclude` must be a text, names or patterns with commas between them; got 3. Give",
    ),
    (lambda: rules.Muon(0.1, exclude=[1]), r"`exclude` must be a text.*got \[1\]"),
)


def rotations(seed=0):
    """An orthogonal matrix for the rows of the matrices of `turned`, and one for the columns."""
    draw = np.random.default_rng(seed).normal
    return [np.linalg.qr(draw(size=(3, 3)))[0] for _ in range(2)]


def turned(left, right):
    """A strictly convex loss, not quadratic, of left·X·rightᵀ."""
    weights = np.random.default_rng(1).normal(size=(5, 3, 3))

    def loss(params, batch, key):
        scores = jnp.einsum("kij,ij->k", weights, left @ params @ right.T)
        return jnp.logaddexp(scores, -scores).sum() + (params**2).sum() / 2

    return asim.Workload(lambda key: jnp.asarray(left.T @ START @ right), loss)


START = np.random.default_rng(2).normal(size=(3, 3))
DELAYED = asim.Trace.from_commits([0, 1, 2] * 4)
PLACES = {
    "server": lambda optimiser: rules.ServerOptimiser(0.05, optimiser=optimiser),
    "worker": lambda optimiser: rules.WorkerOptimiser(0.05, optimiser=optimiser),
}


class TestSoap:
    """Adam in the eigenbasis of the gradients' averages."""

    @pytest.mark.parametrize("at", PLACES)
    def test_on_vectors_and_numbers_it_is_adam_bit_for_bit(self, at):
        runs = [asim.replay(DELAYED, PLACES[at](optimiser), quadratic()) for optimiser in ("soap", "adam")]
        np.testing.assert_array_equal(*(run.central["x"] for run in runs))

    def test_it_is_adam_where_the_gradients_have_the_axes_as_their_eigenvectors(self, x64):
        """The gradient of a diagonal matrix is diagonal here, so that the basis is the identity in another order."""
        start, h = jnp.diag(jnp.array([1.0, -2.0, 0.5])), jnp.array([[1.0, 2.0, 3.0]])
        plane = asim.Workload(lambda key: start, lambda params, batch, key: (h * jnp.sin(params) ** 2).sum())
        ends = [asim.replay(DELAYED, PLACES["server"](optimiser), plane).central for optimiser in ("soap", "adam")]
        assert_close(*ends)

    @pytest.mark.parametrize("at", PLACES)
    def test_it_is_equivariant_under_rotations_at_any_delay_and_adam_is_not(self, at, x64):
        """X → P·X·Q of the start and of the loss turns the whole trajectory if each step has a basis of its own.

        A basis that is older may have eigenvectors without a direction of their own, those of no gradient so far.
        """
        left, right = rotations()

        def shift(optimiser):
            straight, inside = (
                asim.replay(DELAYED, PLACES[at](optimiser), turned(*sides)).central
                for sides in ((np.eye(3), np.eye(3)), (left, right))
            )
            return abs(left @ np.asarray(inside) @ right.T - np.asarray(straight)).max()

        assert shift(eigenbasis_adam(interval=1)) < 1e-9
        assert shift("adam") > 1e-2

    def test_seeds_together_equal_each_alone(self, x64):
        """Together each seed computes a basis at every step, and drops most of them."""
        rule, workload = PLACES["worker"]("soap"), tree_workload()
        together = asim.replay(DELAYED, rule, workload, seed=(0, 1)).central
        for seed in (0, 1):
            alone = asim.replay(DELAYED, rule, workload, seed=seed).central
            assert_close(jax.tree.map(lambda leaf, seed=seed: leaf[seed], together), alone, rtol=1e-8)

    def test_directions_of_no_gradient_so_far_are_not_moved_by_rounding(self):
        """In single precision Adam would make whole steps of rounding errors in the eigenvectors of 0."""
        gradient = np.outer([1.0, 2.0, 3.0, -4.0], [1.0, 0.3, -0.5]).astype("float32")
        update, _ = eigenbasis_adam().update(gradient, eigenbasis_adam().init(jnp.zeros((4, 3), "float32")))
        np.testing.assert_allclose(update, -gradient / np.linalg.norm(gradient), atol=1e-5)

    def test_the_basis_is_new_every_tenth_step_and_the_moment_stays_where_it_was(self, x64):
        soap, draw = eigenbasis_adam(), np.random.default_rng(0).normal
        state = soap.init(START)
        for step in range(21):
            gradient, before = draw(size=START.shape), state
            state = soap.update(gradient, state)[1]
            assert (abs(state.basis.left - before.basis.left).max() > 1e-3) == (step % 10 == 0)
            moment, old = (each.basis.left @ each.adam.mu @ each.basis.right.T for each in (state, before))
            assert_close(moment, 0.9 * old + 0.1 * gradient, rtol=1e-9)
