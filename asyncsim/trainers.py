"""Trainers without a parameter server, for comparison: one model, averaged models, an ensemble.

They are the baselines of Distributed Keras, built like everything else here from a trace (of one worker, or of rounds)
and a replay, so that the mini-batches are those of a simulated cluster's workers with the same seed.
"""

from typing import Annotated, NamedTuple

import jax
import numpy as np

from asyncsim import _checks as checks
from asyncsim import rules
from asyncsim.cluster import Cluster, protocols, simulate
from asyncsim.components._checked import checked
from asyncsim.delays import Constant
from asyncsim.engine import Run, replay
from asyncsim.rules._optimisers import Optimiser
from asyncsim.trace import Trace
from asyncsim.workloads import Workload
from asyncsim.workloads._classification import EVALUATED_TOGETHER, Classifier

__all__ = ["Ensemble", "averaging_trainer", "ensemble_trainer", "single_trainer"]


@checked
def single_trainer(
    workload: Workload, *, epochs: int = 1, learning_rate: float = 1.0, optimiser: Optimiser = "sgd", seed: int = 0
) -> Run:
    """Train one model on one machine: a plain loop of an optimiser.

    Args:
        workload: The model and its data.
        epochs: Passes over the training examples.
        learning_rate: Step size, by which the optimiser's updates are multiplied.
        optimiser: An optax.GradientTransformation, or a name as in `rules.WorkerOptimiser`.
        seed: Seed of the initial parameters and of the mini-batches, which are those of worker 0 of a cluster.

    Returns:
        A `Run` of one worker, with one commit per mini-batch.

    Raises:
        ValueError: If an argument does not fit, or the workload has no data.

    Example:
        >>> import asyncsim as asim
        >>> workload = asim.workloads.Softmax(asim.datasets.Digits(), batch_size=32)
        >>> run = single_trainer(workload, epochs=2, learning_rate=0.5)
        >>> run.commits == 2 * workload.batches_per_epoch, run.evaluate()["test_accuracy"] > 0.85
        (True, True)
    """
    trace = Trace.from_commits(np.zeros(_batches_in(workload, epochs), int))
    return replay(trace, rules.WorkerOptimiser(learning_rate, optimiser=optimiser), workload, seed)


@checked
def averaging_trainer(
    workload: Workload,
    workers: int,
    *,
    epochs: int = 1,
    learning_rate: float = 1.0,
    optimiser: Optimiser = "sgd",
    seed: int = 0,
) -> Run:
    """Train n models for an epoch each, average their parameters, and begin the next epoch from the average.

    Every worker passes over all examples in an order of its own, whereas Distributed Keras gives each a share of them.

    Args:
        workload, learning_rate, optimiser: As in `single_trainer`, and the averaging keeps the optimiser's state.
        workers: Number of models n.
        epochs: Number of rounds.
        seed: As in `single_trainer`, so that worker w has the mini-batches of worker w of a cluster.

    Returns:
        A `Run` with one commit per worker and epoch, whose losses are means over the epoch.

    Raises:
        ValueError: If an argument does not fit, or the workload has no data.

    Example:
        Two models of one epoch:

        >>> import asyncsim as asim
        >>> workload = asim.workloads.Softmax(asim.datasets.Digits(), batch_size=32)
        >>> run = averaging_trainer(workload, workers=2, learning_rate=0.5)
        >>> run.commits, run.evaluate()["test_accuracy"] > 0.85
        (2, True)
    """
    window = _batches_in(workload, epochs) // epochs
    cluster = Cluster(workers, Constant(1.0), protocol=protocols.Synchronous())
    rule = rules.LocalSGD(learning_rate, window=window, optimiser=optimiser)
    return replay(simulate(cluster, commits=cluster.workers * epochs), rule, workload, seed)


class Ensemble(NamedTuple):
    """Independent models, and the test results of the mean of their predicted probabilities.

    Attributes:
        run: Their training, with one seed per model.
        test_loss, test_accuracy: Of the averaged probabilities.
    """

    run: Run
    test_loss: float
    test_accuracy: float


@checked
def ensemble_trainer(
    workload: Workload,
    models: Annotated[int, checks.require_count, "Train one model or more."],
    *,
    epochs: int = 1,
    learning_rate: float = 1.0,
    optimiser: Optimiser = "sgd",
    seed: int = 0,
) -> Ensemble:
    """Train independent models, and average their predictions rather than their parameters.

    Args:
        workload, epochs, learning_rate, optimiser: As in `single_trainer`. The workload must be one of the library's
            classifiers.
        models: Number of models.
        seed: Seed of the first model. The others have the seeds that follow.

    Returns:
        An `Ensemble`.

    Raises:
        ValueError: If an argument does not fit, or the workload is not a classifier.

    Example:
        >>> import asyncsim as asim
        >>> workload = asim.workloads.Softmax(asim.datasets.Digits(), batch_size=32)
        >>> ensemble = ensemble_trainer(workload, models=2, epochs=2, learning_rate=0.5)
        >>> ensemble.run.seed, ensemble.test_accuracy > 0.85
        ((0, 1), True)
    """
    if not isinstance(workload, Classifier):
        raise ValueError(
            f"`workload` must be a classifier of the library; got {workload.name!r}, whose predictions "
            "are unknown. Use workloads.Softmax, mlp or convnet."
        )
    trace = Trace.from_commits(np.zeros(_batches_in(workload, epochs), int))
    run = replay(
        trace, rules.WorkerOptimiser(learning_rate, optimiser=optimiser), workload, [*range(seed, seed + models)]
    )
    return Ensemble(run, *_evaluate_mean(workload, run.central))


def _evaluate_mean(workload: Classifier, params: object) -> tuple[float, float]:
    """Return test loss and accuracy of the models' mean probabilities. Parameters have a leading axis of models."""
    data = workload.data
    inputs, labels = data.test_inputs.reshape(-1, *workload.input_shape), data.test_labels
    of_label, correct = [], []
    for start in range(0, len(labels), EVALUATED_TOGETHER):
        batch = slice(start, start + EVALUATED_TOGETHER)
        batch_inputs = inputs[batch]
        logits = jax.lax.map(lambda model: workload.logits(model, batch_inputs), params)  # noqa: B023
        mean = np.asarray(jax.nn.softmax(logits).mean(axis=0))
        of_label.append(np.take_along_axis(mean, labels[batch][..., None], axis=-1))
        correct.append(mean.argmax(axis=-1) == labels[batch])
    with np.errstate(divide="ignore"):  # All models may be certain, and wrong.
        return float(-np.log(np.concatenate(of_label)).mean()), float(np.concatenate(correct).mean())


def _batches_in(workload: Workload, epochs: int) -> int:
    """Return the number of mini-batches in this many passes over the training examples."""
    if not workload.batches_per_epoch:
        raise ValueError(f"`workload` must have data, so that an epoch ends; got {workload.name!r}.")
    return workload.batches_per_epoch * checks.require_count("epochs", epochs, remedy="Train for one epoch or more.")
