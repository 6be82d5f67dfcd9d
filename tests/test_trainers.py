"""Training without a parameter server: the same optimiser in a plain loop, means of parameters and of predictions."""

import jax
import numpy as np
import pytest

import asyncsim as asim
from asyncsim import trainers
from asyncsim.workloads._batches import commit_key, init_key
from tests.engine.test_local_steps import ADAM, step_of_adam
from tests.problems import assert_close, refusals, tree_workload


def trained(workload, worker, params, state, batches, seed):
    """A plain loop over these mini-batches of a worker."""
    for job in batches:
        key = commit_key(jax.random.key(seed), worker, job)
        _, gradient = workload.loss_and_gradient(params, workload.batch(seed, worker, job), key)
        params, state = step_of_adam(1.0, params, gradient, state)
    return params, state


def test_the_single_trainer_is_a_plain_loop(x64):
    workload = tree_workload()
    first = workload.init(init_key(3))
    run = trainers.single_trainer(workload, epochs=2, learning_rate=0.05, optimiser="adam", seed=3)
    assert run.commits == 2 * workload.batches_per_epoch == 10
    assert_close(run.central, trained(workload, 0, first, ADAM.init(first), range(10), 3)[0])


@pytest.mark.parametrize("workers", [1, 3])
def test_averaging_takes_the_mean_after_every_epoch(workers, x64):
    workload = tree_workload()
    params = workload.init(init_key(3))
    states = [ADAM.init(params)] * workers
    for epoch in range(2):
        batches, ends = range(5 * epoch, 5 * epoch + 5), []
        for w in range(workers):
            end, states[w] = trained(workload, w, params, states[w], batches, 3)
            ends.append(end)
        params = jax.tree.map(lambda *x: sum(x) / workers, *ends)
    run = trainers.averaging_trainer(workload, workers, epochs=2, learning_rate=0.05, optimiser="adam", seed=3)
    assert_close(run.central, params)


def test_an_ensemble_of_independent_models_is_better_than_their_mean():
    """-log of a mean is at most the mean of -log. One model is tested as it is alone."""
    workload = asim.workloads.Softmax(asim.datasets.Digits(), batch_size=32)
    ensemble, one = (trainers.ensemble_trainer(workload, n, learning_rate=0.5, seed=4) for n in (3, 1))
    singles = [trainers.single_trainer(workload, learning_rate=0.5, seed=seed) for seed in (4, 5, 6)]
    for place, single in enumerate(singles):
        np.testing.assert_allclose(ensemble.run.loss[place], single.loss, rtol=1e-5)
    tested = [single.evaluate() for single in singles]
    assert ensemble.test_loss <= np.mean([test["test_loss"] for test in tested])
    assert ensemble.test_accuracy >= min(test["test_accuracy"] for test in tested)
    assert one.test_loss == pytest.approx(tested[0]["test_loss"], rel=1e-5)
    assert one.test_accuracy == pytest.approx(tested[0]["test_accuracy"])


test_invalid_arguments_are_named = refusals(
    (lambda: trainers.single_trainer(tree_workload(), epochs=0), "`epochs` must be an integer of at least 1; got 0"),
    (lambda: trainers.averaging_trainer(tree_workload(), 0), "`workers` must be an integer of at least 1; got 0"),
    (lambda: trainers.single_trainer(asim.workloads.Quadratic([1.0])), "`workload` must have data, .* got 'quadratic'"),
    (lambda: trainers.ensemble_trainer(tree_workload(), 2), "`workload` must be a classifier .*; got 'tree_loss'"),
)
