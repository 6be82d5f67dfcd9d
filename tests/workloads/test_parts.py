"""Workers with data of their own: their mini-batches, their weights and their losses."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import asyncsim as asim
from asyncsim.datasets import Dataset, Partition, Parts, partition
from asyncsim.workloads._batches import Shuffles, asks
from asyncsim.workloads._classification import EVALUATED_TOGETHER
from tests.problems import refusals

DIGITS = asim.datasets.Digits()
PARTS = Parts.of([range(5), range(5, 23), [30, 40], range(50, 61)])


def softmax(workers: int = 4, batch_size: int = 8, **options: Any) -> asim.Workload:
    return asim.workloads.Softmax(partition(DIGITS, workers, **{"least": 8, **options}), batch_size)


def dataset(workload: asim.Workload) -> Partition:
    assert isinstance(workload.data, Partition)
    return workload.data


def test_an_epoch_is_a_shuffle_of_the_workers_own_part() -> None:
    shuffles = Shuffles(PARTS, 2)
    for worker, part in enumerate(PARTS):
        epochs = len(part) // 2
        taken = shuffles.take(0, np.full(3 * epochs, worker), np.arange(3 * epochs)).reshape(3, -1)
        for epoch in taken:
            assert len(set(epoch.tolist())) == 2 * epochs
            assert set(epoch.tolist()) <= set(part.tolist())
    assert not np.array_equal(*shuffles.take(0, np.array([1, 1]), np.array([0, 9])))


@pytest.mark.parametrize("room", [0, 60, 10**9])
def test_batches_depend_on_seed_worker_and_job_only(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And on the worker's own part; not on who else there is, nor on which epochs are kept in memory."""
    monkeypatch.setattr("asyncsim.workloads._batches.SHUFFLES_BYTES", room)
    rng = np.random.default_rng(1)
    worker, job = rng.integers(4, size=200), rng.integers(30, size=200)
    together = Shuffles(PARTS, 2).take(3, worker, job)
    for i in rng.permutation(200)[:40]:
        alone = Parts.of([*PARTS][: worker[i] + 1])
        np.testing.assert_array_equal(Shuffles(alone, 2).take(3, worker[[i]], job[[i]])[0], together[i])


def test_one_part_with_everything_is_what_everybody_has() -> None:
    """The first worker of a partition into one has the shuffles that it has without."""
    whole, worker, job = Parts.of([range(23)]), np.zeros(20, int), np.arange(20)
    np.testing.assert_array_equal(Shuffles(whole, 4).take(5, worker, job), Shuffles(23, 4).take(5, worker, job))


@pytest.mark.quick
def test_a_batch_has_examples_of_its_worker_only() -> None:
    workload = softmax(by="labels", labels=4)
    owner = np.empty(len(DIGITS.train_labels), int)
    owner[workload.parts.order] = workload.parts.owner
    told = asim.Workload(lambda key: jnp.zeros(1), mean_owner, data=owner.astype(float), parts=workload.parts)
    trace = asim.simulate(asim.Cluster(4, asim.delays.Exponential(1.0)), commits=300)
    for rule in (asim.rules.Downpour(0.1), asim.rules.AGN(0.1, window=3)):
        run = asim.replay(trace, rule, told, seed=2)
        np.testing.assert_allclose(run.loss, trace.worker, rtol=1e-6)
    assert (
        workload.batch(0, 3, 5)[1].tolist()
        == DIGITS.train_labels[Shuffles(workload.parts, 8).take(0, np.array([3]), np.array([5]))[0]].tolist()
    )


def mean_owner(params: Any, batch: Any, key: jax.Array) -> jax.Array:
    del key
    return jnp.mean(batch) + 0.0 * params.sum()


def test_the_loss_of_each_worker_is_that_of_its_part() -> None:
    """Of more examples than are evaluated together."""
    workload = softmax(5, alpha=0.3)
    trace = asim.simulate(asim.Cluster(5, asim.delays.Exponential(1.0)), commits=60)
    run = asim.replay(trace, asim.rules.Downpour(0.1), workload, record={"worker_loss": 30, "test_loss": 20})
    found = run.evaluate_workers()
    assert workload.device_data is not None
    inputs, labels = workload.device_data
    for worker, part in enumerate(workload.parts):
        batch = (inputs[part], labels[part])
        np.testing.assert_allclose(
            found["worker_loss"][worker], workload.loss(run.central, batch, jax.random.key(0)), rtol=1e-5
        )
    assert run.records["worker_loss"].shape == (2, 5)
    np.testing.assert_array_equal(run.records["worker_loss"][-1], found["worker_loss"])
    assert len(DIGITS.train_labels) > EVALUATED_TOGETHER
    told = run.evaluate()
    assert set(told) == {
        *("test_loss", "test_accuracy"),
        *("lowest_worker_loss", "highest_worker_loss", "lowest_worker_accuracy", "highest_worker_accuracy"),
    }
    assert told["highest_worker_loss"] == pytest.approx(found["worker_loss"].max())
    assert asim.replay(trace, run.rule, asim.workloads.Softmax(DIGITS, 8)).evaluate_workers() == {}


def test_weights_multiply_gradients_and_not_losses() -> None:
    equal, sized = (softmax(by="quantity", weighting=name) for name in ("equal", "sizes"))
    trace = asim.Trace.from_commits([2], workers=4)
    one, other = (asim.replay(trace, asim.rules.Downpour(0.1), workload) for workload in (equal, sized))
    factor = 4 * dataset(sized).sizes[2] / dataset(sized).sizes.sum()
    np.testing.assert_array_equal(one.loss, other.loss)
    np.testing.assert_allclose(other.central["weight"], factor * one.central["weight"], rtol=1e-5)


def test_weights_of_the_user_multiply_losses() -> None:
    workload = asim.Workload(lambda key: jnp.zeros(1), mean_square, weights=[1.0, 3.0])
    assert workload.workers == 2
    run = asim.replay(asim.Trace.from_commits([0, 1]), asim.rules.Downpour(0.1), workload)
    assert run.central[0] == pytest.approx(0.1 * (0.5 * 2 + 1.5 * 2))


def mean_square(params: Any, batch: Any, key: jax.Array) -> jax.Array:
    return ((params - 1.0) ** 2).sum()


def test_who_asks_for_the_worker() -> None:
    def by_name(params: Any, batch: Any, key: Any, *, worker: Any) -> float:
        return 0.0

    asking = [lambda params, batch, key, worker: 0.0, by_name, jax.jit(by_name)]
    others = [functools.partial(by_name, worker=3), lambda params, batch, key, *worker: 0.0, mean_square, max, None]
    assert [asks(function) for function in (*asking, *others)] == [True] * 3 + [False] * 5


test_bad_arguments_are_named = refusals(
    (
        lambda: asim.workloads.Softmax(partition(DIGITS, 20), 32),
        r"`batch_size` must be at most the examples of the smallest part, \d+ of worker \d+; got 32. "
        r"Give smaller mini-batches, or partition\(…, least=32\).",
    ),
    (lambda: asim.Workload(start, mean_square, parts=[[0]]), "`parts` must have numbers of training examples"),
    (
        lambda: asim.Workload(start, mean_square, data=np.ones(3), parts=[[0], [3]]),
        "`parts` must have numbers of training examples, here less than 3; got 3",
    ),
    (
        lambda: asim.Workload(start, mean_square, data=np.ones(3), parts=[[0], [1]], weights=[1, 2, 3]),
        "`workers` must be one number; got 2 by `parts` and 3 by `weights`",
    ),
    (
        lambda: asim.Workload(start, mean_square, data=(np.ones(3), np.ones(4)), batch_size=1),
        r"`data` must have arrays of one length; got \[3, 4\]",
    ),
    (
        lambda: asim.Workload(start, mean_square, noise=lambda key, behaviour: key),
        "`noise` must be a function of the key; got .* Draw random numbers",
    ),
    (lambda: asim.Workload(start, mean_square, weights=[0.0]), "`weights` must be one number per worker, not all"),
    (lambda: asim.Workload(start, mean_square, workers=0), "`workers` must be an integer of at least 1; got 0"),
    (lambda: softmax().batch(0, 4, 0), "`worker` must be less than the workload's 4 workers; got 4"),
    (
        lambda: asim.workloads.Quadratic([1.0, 2.0], minima=[0.0, 1.0]),
        r"`minima` must have a row of 2 numbers per worker; got shape \(2,\)",
    ),
    (lambda: asim.workloads.Quadratic([1.0], minima=[float("nan")]), "`minima` must be finite"),
    (
        lambda: asim.replay(asim.Trace.from_commits([0, 1]), asim.rules.Downpour(0.1), softmax()),
        "`workload` is made for 4 workers; the cluster has 2. Share its data out to 2, or simulate 4.",
    ),
    (
        lambda: asim.Scenario(
            asim.Cluster(3, asim.delays.Constant(1.0)),
            asim.rules.Downpour(0.1),
            asim.workloads.Quadratic([1.0], minima=[0.0, 1.0]),
            commits=3,
        ),
        "`workload` is made for 2 workers; the cluster has 3. Make it for 3, or simulate 2.",
    ),
)


def start(key: jax.Array) -> jax.Array:
    return jnp.zeros(1)


def test_every_classifier_takes_parts() -> None:
    images, labels = np.zeros((6, 28, 28), np.float32), np.array([0, 1, 2, 3, 0, 1])
    data = Dataset("images", images, labels, images, labels, classes=4)
    shared, coloured = (partition(one, 3, by="iid") for one in (data, asim.datasets.AsColour(data, size=32)))
    for workload in (
        asim.workloads.MLP(shared, (4,), 2),
        asim.workloads.ConvNet(shared, 2),
        asim.workloads.AlexNet(coloured, 2),
    ):
        assert workload.workers == 3
        assert workload.parts.sizes.tolist() == [2, 2, 2]
        assert workload.evaluate_workers is not None
        shapes = jax.eval_shape(workload.evaluate_workers, jax.eval_shape(workload.init, jax.random.key(0)))
        assert shapes["worker_loss"].shape == (3,)
