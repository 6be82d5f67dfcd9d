"""What is being learned: a loss over any pytree, and where its mini-batches come from."""

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial

from asyncsim import checks
from asyncsim.datasets import Parts
from asyncsim.workloads.batches import PartShuffles, Shuffles, compiled_commit_key, shuffles_of
from asyncsim.workloads.by_worker import asks, told, weighted
from asyncsim.workloads.groups import labels_by_leaf

Params = Any  # any pytree of floating-point arrays
Batch = Any  # any pytree of arrays
COUNTS = COMMITS, JOBS = "commits", "jobs"


@dataclass(frozen=True, repr=False)
class Workload:
    """A loss, its training data and its evaluation.

    A mini-batch is `batch_size` examples of `data`, each epoch of each worker a fresh shuffle without replacement, of
    all examples or of the worker's own part; or, without `data`, whatever `noise(key)` draws; or, without either, None.

    Workers may differ in their objectives, too: a loss, gradient or noise with a parameter `worker` receives the number
    of the worker, an int32 scalar that JAX traces.

    Attributes:
        init: `key -> params`, the first central variable, any pytree of floating-point arrays.
        loss: `(params, batch, key) -> scalar`. The key is for dropout and the like. Give a module-level function, a
            frozen dataclass with `__call__`, or a `jax.tree_util.Partial` of one with arrays: a new closure is
            compiled again.
        data: Training examples: a pytree of arrays with a common leading axis, or None. Those of a data set of
            `asyncsim.datasets` are its fields `train_inputs` (examples, …) float32 and `train_labels` (examples,)
            int32; those to test with are `test_inputs` and `test_labels`, and `classes` is the number of classes.
        batch_size: Examples in a mini-batch; at most as many as there are.
        noise: `key -> batch`, for workloads without data.
        gradient: `(params, batch, key) -> (loss, gradient)`, to be used in place of differentiating `loss`.
        evaluate: `params -> {"test_loss": …, "test_accuracy": …}`, scalars by whatever names you like, or None. All of
            them are kept in the summary, printed, and can be recorded. To be recorded by a `Scenario` it must be
            traceable by JAX.
        groups: Name of the group of every leaf of the parameters, for traces that read groups at versions of their own;
            by default their layers are split evenly. See `grouped`.
        name, options, dataset: How to describe and rebuild the workload; filled in by the constructors.
        parts: Who has which examples: `datasets.Parts`, or one sequence of example numbers per worker. By default
            every worker has all of them.
        weights: (workers,) what each worker's gradient counts, relative to the others: it is multiplied by the weight
            over the mean weight. The losses stay as they are. By default all count alike.
        workers: The number of workers that it is made for, taken from `parts` or `weights` if there are any; None for
            any number.
        counts: What a worker's mini-batches count. By default its "commits": a job that never committed leaves its
            mini-batch to the worker's next one. With "jobs" every job that begins to compute takes the next mini-batch,
            and those of jobs that were cancelled, dropped or lost are left out until the next epoch.
        evaluate_workers: `params -> {"worker_loss": (workers,), …}`, one number per worker by whatever names you like,
            or None: how each worker's own objective or part fares. They can be recorded by their names.

    Raises:
        ValueError: If `batch_size` is not a whole number from 1 to the number of examples, or to those of the smallest
            part; the arrays of `data` differ in length; or parts, weights and workers do not fit.

    Example:
        A model of your own, least squares on a line:

        >>> import numpy as np, jax.numpy as jnp, asyncsim as asim
        >>> def loss(params, batch, key):
        ...     x, y = batch
        ...     return jnp.mean((params["slope"] * x - y) ** 2)
        >>> x = np.linspace(-1.0, 1.0, 100)
        >>> line = asim.Workload(init=lambda key: {"slope": jnp.zeros(())}, loss=loss, data=(x, 3 * x), batch_size=10)
        >>> trace = asim.simulate(asim.Cluster(workers=4, compute=asim.delays.Constant(1.0)), commits=400)
        >>> round(float(asim.replay(trace, asim.rules.Downpour(0.1), line).central["slope"]), 3)
        3.0

        One on a data set, a linear classifier of digits:

        >>> def classify(params, batch, key):
        ...     inputs, labels = batch
        ...     scores = jax.nn.log_softmax(inputs.reshape(len(labels), -1) @ params)
        ...     return -jnp.mean(jnp.take_along_axis(scores, labels[:, None], axis=1))
        >>> digits = asim.datasets.digits()
        >>> data = (digits.train_inputs, digits.train_labels)
        >>> asim.Workload(init=lambda key: jnp.zeros((64, digits.classes)), loss=classify, data=data, batch_size=32)
        Workload(classify, batch_size=32)

        Workers that want different things: worker 0 commits twice as often, and the mean of the stationary
        distribution is (2·0 + 3)/3.

        >>> def distance(params, batch, key, worker):
        ...     return 0.5 * (params - jnp.array([0.0, 3.0])[worker]) ** 2
        >>> torn = asim.Workload(init=lambda key: jnp.zeros(()), loss=distance, workers=2)
        >>> run = asim.replay(asim.Trace.from_commits([0, 0, 1] * 400), asim.rules.Downpour(0.01), torn)
        >>> round(float(run.central), 1)
        1.0
    """

    init: Callable[[jax.Array], Params]
    loss: Callable[[Params, Batch, jax.Array], jax.Array] | None
    data: Batch | None = None
    batch_size: int = 1
    noise: Callable[[jax.Array], Batch] | None = None
    gradient: Callable[[Params, Batch, jax.Array], tuple[jax.Array, Params]] | None = None
    evaluate: Callable[[Params], dict[str, jax.Array]] | None = None
    groups: tuple[str, ...] | None = None
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    dataset: Any = None
    parts: Any = None
    weights: Any = None
    workers: int | None = None
    evaluate_workers: Callable[[Params], dict[str, jax.Array]] | None = None
    counts: str = COMMITS

    def __post_init__(self) -> None:
        checks.one_of("counts", self.counts, COUNTS)
        if self.loss is None and self.gradient is None:
            raise ValueError("`loss` must be a function; got None. Give it, or `gradient`.")
        size = checks.require_integer("batch_size", self.batch_size, least=1, remedy="32 or 64 are usual.")
        object.__setattr__(self, "batch_size", size)
        leaves = jax.tree.leaves(self.data)
        if self.data is not None and not (leaves and all(getattr(leaf, "ndim", 0) for leaf in leaves)):
            raise ValueError(f"`data` must be a pytree of arrays, one row per example; got {self.data!r:.60}.")
        sizes = {len(leaf) for leaf in leaves}
        if len(sizes) > 1:
            raise ValueError(f"`data` must have arrays of one length; got {sorted(sizes)}. Give one row per example.")
        if self.data is not None and size > self.examples:
            raise ValueError(
                f"`batch_size` must be at most the number of training examples, {self.examples}; got {size}. "
                "Give smaller mini-batches or more data."
            )
        if self.parts is not None:
            object.__setattr__(self, "parts", self._checked_parts(size))
        if self.weights is not None:
            object.__setattr__(self, "weights", _checked_weights(self.weights))
        object.__setattr__(self, "workers", self._checked_workers())

    def _checked_parts(self, batch_size: int) -> Parts:
        parts = Parts.of(self.parts)
        if self.data is None or parts.order.max() >= self.examples:
            raise ValueError(
                f"`parts` must have numbers of training examples, here less than {self.examples}; got "
                f"{parts.order.max()}. Count from 0, and give `data`."
            )
        smallest = int(parts.sizes.argmin())
        if batch_size > parts.sizes[smallest]:
            raise ValueError(
                f"`batch_size` must be at most the examples of the smallest part, {parts.sizes[smallest]} of worker "
                f"{smallest}; got {batch_size}. Give smaller mini-batches, or partition(…, least={batch_size})."
            )
        return parts

    def _checked_workers(self) -> int | None:
        """The number of workers on which parts, weights and argument agree."""
        told = {"parts": self.parts, "weights": self.weights}
        found = {name: len(value) for name, value in told.items() if value is not None}
        if self.workers is not None:
            least = checks.require_integer("workers", self.workers, least=1, remedy="Leave it out for any number.")
            found["workers"] = least
        if len(set(found.values())) > 1:
            counts = " and ".join(f"{count} by `{name}`" for name, count in found.items())
            raise ValueError(f"`workers` must be one number; got {counts}.")
        return next(iter(found.values()), None)

    def __repr__(self) -> str:
        settings = dict(self.options) if self.options or not self.examples else {"batch_size": self.batch_size}
        settings |= {} if self.counts == COMMITS else {"counts": self.counts}
        parts = "" if self.parts is None else f" in {len(self.parts)} parts"
        data = [] if self.dataset is None else [f"{self.dataset.name}{parts}"]
        shown = [*data, *(f"{name}={reprlib.repr(value)}" for name, value in settings.items())]
        name = self.describe()["name"]
        return f"{name}({', '.join(shown)})" if self.name else f"Workload({', '.join([name, *shown])})"

    def __getstate__(self) -> dict[str, Any]:
        """Without what is made again from the rest: the data on the device, and functions ready for the engine."""
        return {name: value for name, value in vars(self).items() if name not in ("device_data", "loss_and_gradient")}

    def grouped(self, groups: Any) -> "Workload":
        """The workload whose parameters form these groups, for traces that read groups at versions of their own.

        Args:
            groups: Names as a pytree prefix of the parameters: a name stands for all that is below it. Or one name for
                each tensor, in the order of the pytree's leaves. The names are those in `Trace.groups`.

        Raises:
            ValueError: If a tensor has no name.

        Example:
            >>> import asyncsim as asim
            >>> workload = asim.workloads.mlp(asim.datasets.digits(), hidden=(32, 32), batch_size=32)
            >>> workload.grouped(["stage0", "stage0", "stage1"]).groups
            ('stage0', 'stage0', 'stage0', 'stage0', 'stage1', 'stage1')
            >>> workload.grouped(["stage0", "stage1"])
            Traceback (most recent call last):
            ValueError: `groups` must name a group for each of the 6 tensors 0/bias, 0/weight, 1/bias, 1/weight, \
2/bias, 2/weight, or for what they are in; got ['stage0', 'stage1'].
        """
        return replace(self, groups=labels_by_leaf(groups, jax.eval_shape(self.init, jax.random.key(0))))

    @property
    def examples(self) -> int:
        """Number of training examples; 0 without `data`."""
        return len(jax.tree.leaves(self.data)[0]) if self.data is not None else 0

    @property
    def batches_per_epoch(self) -> int:
        """Full mini-batches in one shuffle of all examples; the rest is left out, as in the paper's code."""
        return self.examples // self.batch_size

    @property
    def by_worker(self) -> bool:
        """Whether `loss_and_gradient` takes the worker's number."""
        return self.weights is not None or self._gradient_asks

    @property
    def _gradient_asks(self) -> bool:
        return asks(self.loss if self.gradient is None else self.gradient)

    @property
    def noise_by_worker(self) -> bool:
        """Whether `noise` takes the worker's number."""
        return self.data is None and asks(self.noise)

    @cached_property
    def loss_and_gradient(self) -> Partial:
        """`(params, batch, key) -> (loss, gradient)` as a pytree: its code is static, its arrays are traced.

        It takes the worker's number as a fourth argument where that matters (`by_worker`).
        """
        given: Any = self.loss if self.gradient is None else self.gradient
        function = told(given) if self._gradient_asks else as_pytree(given)
        if self.gradient is None:
            function = Partial(_differentiate, function)
        return function if self.weights is None else weighted(function, self.weights, self._gradient_asks)

    @property
    def draw(self) -> Partial | None:
        """`key -> batch` as a pytree, or `(key, worker) -> batch`; None where nothing is drawn."""
        if self.data is not None or self.noise is None:
            return None
        return told(self.noise) if self.noise_by_worker else as_pytree(self.noise)

    def gradient_of(self, params: Params, batch: Batch, key: jax.Array, worker: int) -> tuple[jax.Array, Params]:
        """Loss and gradient of a worker, whether or not they depend on who it is."""
        return self.loss_and_gradient(params, batch, key, *([np.int32(worker)] if self.by_worker else []))

    def shuffles(self) -> Shuffles | PartShuffles | None:
        """The order in which workers go through the examples; None without data."""
        if not self.examples:
            return None
        if self.parts is not None:
            return PartShuffles(self.parts, self.batch_size)
        return shuffles_of(self.examples, self.batch_size)

    def require_workers(self, workers: int) -> None:
        """Refuse a number of workers that it is not made for.

        Raises:
            ValueError: If so.

        Example:
            >>> import asyncsim as asim
            >>> shared = asim.datasets.partition(asim.datasets.digits(), workers=4, by="iid")
            >>> asim.workloads.softmax(shared, batch_size=8).require_workers(5)
            Traceback (most recent call last):
            ValueError: `workload` is made for 4 workers; the cluster has 5. Share its data out to 5, or simulate 4.
        """
        if self.workers not in (None, workers):
            remedy = "Share its data out to" if self.parts is not None else "Make it for"
            raise ValueError(
                f"`workload` is made for {self.workers} worker{'s' * (self.workers > 1)}; the cluster has {workers}. "
                f"{remedy} {workers}, or simulate {self.workers}."
            )

    @cached_property
    def device_data(self) -> Batch | None:
        """The training data as JAX arrays, moved to the device once."""
        return jax.tree.map(to_device, self.data)

    def batch(self, seed: int, worker: int, job: int) -> Batch:
        """The mini-batch that a replay gives to a worker's job.

        Args:
            seed: Seed of the replay.
            worker: The worker, counted from 0.
            job: The worker's commits before this one, or its jobs (`counts`). For a rule with local steps, its local
                steps before this one: each has a mini-batch of its own.

        Returns:
            `batch_size` rows of `data`, or what `noise` draws, as a pytree of JAX arrays; None without either.

        Raises:
            ValueError: If an argument is not a whole number of at least 0.

        Example:
            The loss of worker 1's second commit, taken again where its gradient was taken:

            >>> import asyncsim as asim
            >>> trace, rule = asim.Trace.from_commits([0, 1, 1]), asim.rules.Downpour(0.1)
            >>> workload = asim.workloads.softmax(asim.datasets.digits(), batch_size=8)
            >>> run = asim.replay(trace, rule, workload, seed=3, record=("read",))
            >>> read = jax.tree.map(lambda leaf: leaf[2], run.unpacked("read"))
            >>> loss = workload.loss(read, workload.batch(seed=3, worker=1, job=1), jax.random.key(0))
            >>> bool(abs(loss - run.loss[2]) < 1e-5)
            True
        """
        for name, value in (("seed", seed), ("worker", worker), ("job", job)):
            checks.require_integer(name, value, least=0, remedy="Count from 0.")
        if self.workers is not None and worker >= self.workers:
            raise ValueError(f"`worker` must be less than the workload's {self.workers} workers; got {worker}.")
        shuffles = self.shuffles()
        if shuffles is None:
            key = compiled_commit_key(jax.random.key(seed), worker, job)
            return self.draw and self.draw(key, *([np.int32(worker)] if self.noise_by_worker else []))
        rows = shuffles.take(seed, np.array([worker]), np.array([job]))[0]
        return jax.tree.map(lambda array: jax.numpy.take(array, rows, axis=0), self.device_data)

    def describe(self) -> dict[str, Any]:
        """Name, options and data set as plain data: enough to build the workload again."""
        described = {"name": self.name or getattr(self.loss, "__qualname__", type(self.loss).__name__)}
        if self.dataset is not None:
            described["data"] = self.dataset.describe()
        grouped = {} if self.groups is None else {"groups": list(self.groups)}
        counts = {} if self.counts == COMMITS else {"counts": self.counts}
        return {**described, **self.options, **grouped, **counts}


def to_device(array: Any) -> jax.Array:
    """As `jax.numpy.asarray`, which would compile a program for every shape."""
    return array if isinstance(array, jax.Array) else jax.device_put(np.asarray(array))


def as_pytree(function: Callable[..., Any]) -> Partial:
    """The function as an argument that compiled functions accept, so that its arrays are not compiled in."""
    return function if isinstance(function, Partial) else Partial(function)


def _differentiate(
    loss: Partial, params: Params, batch: Batch, key: jax.Array, *whose: jax.Array
) -> tuple[jax.Array, Params]:
    return jax.value_and_grad(loss)(params, batch, key, *whose)


def _checked_weights(weights: Any) -> np.ndarray:
    """Weights that sum to 1."""
    found = np.asarray(checks.not_negative("weights", weights), float)
    if found.ndim != 1 or not found.sum() > 0:
        raise ValueError(f"`weights` must be one number per worker, not all 0; got {weights!r:.80}.")
    return found / found.sum()
