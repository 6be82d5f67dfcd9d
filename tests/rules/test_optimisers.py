"""Any optax optimiser at the worker or the server: equal to optax, with its state and its step sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import asyncsim as asim
from asyncsim import rules
from asyncsim.engine.reference import replay_plainly
from asyncsim.rules._optimisers import NAMES
from asyncsim.workloads._batches import commit_key, init_key
from tests.problems import assert_close, in_few_programs, random_trace, tree_workload
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
