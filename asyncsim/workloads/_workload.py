"""Workloads: a loss over any pytree, and the source of its mini-batches."""

import dataclasses
from collections.abc import Callable
from dataclasses import KW_ONLY, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, cast

import jax
import numpy as np
from jax.tree_util import Partial

from asyncsim import _checks as checks
from asyncsim.components._component import LONGEST, arguments, static
from asyncsim.components._families import Named
from asyncsim.components._frozen import frozen
from asyncsim.components._precision import require_precision
from asyncsim.components._settings import shared_arguments
from asyncsim.components._traced import Traced
from asyncsim.datasets import Dataset, Partition, Parts
from asyncsim.datasets._partition import EQUAL
from asyncsim.workloads._batches import (
    BEHAVIOUR,
    Shuffles,
    asks,
    compiled_commit_key,
    shuffles_of,
    to_device,
    weighted,
    with_worker,
)
from asyncsim.workloads._groups import labels_by_leaf

Params = Any  # any pytree of floating-point arrays
Batch = Any  # any pytree of arrays
COMMITS, JOBS = "commits", "jobs"
LACKING_TYPES = "gGmM"  # types that JAX lacks: of more digits than float64, and of times
UNTRACED_ARGUMENTS = ("groups", "counts", "training_loss")  # arguments that no compiled program depends on


class _MakesFunctions:
    """A base class of `Workload` by which `Workload(…)` is an object of `Functions`, as `Path(…)` is a `PosixPath`.

    It stands apart because `inspect.signature`, and so `help`, prefers `__new__` to an `__init__` in the same class.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        kind: Any = Functions if cls is Workload else cls
        return object.__new__(kind)


class Workload(Traced, Named, _MakesFunctions, family="workloads", example="Quadratic([1.0])"):
    """A loss, its training data and its evaluation: `Workload(init=…, loss=…)` of your functions, or a class.

    A class of your own annotates its arguments and has the methods `init(key)` and `loss(params, batch, key)`, and
    where they are wanted `gradient`, `draw` (the `noise` of below), `evaluate`, `evaluate_workers` and `outputs`, which
    returns (examples, …) of parameters, by which the models of workers on a graph are compared. Arguments named `data`,
    `batch_size`, `parts`, `weights` and `workers` have the same meaning as here, and `data` may be a data set, of which
    a `datasets.partition` gives each worker its part. Numbers are traced, so that another one compiles no other
    program, and fields marked `asyncsim.static` choose code. While a program is compiled, `self.data` of a data set has
    its `shape` and number of `classes` only: examples reach the loss as its mini-batch.

    A mini-batch is `batch_size` examples of `data`, each epoch of each worker a fresh shuffle without replacement, of
    all examples or of the worker's own part. Without `data` it is drawn by `noise(key)`, and without either it is None.

    Workers may differ in their objectives, too: a loss, gradient or noise with a parameter `worker` receives the number
    of the worker, an int32 scalar that JAX traces.

    In reinforcement learning the data are drawn by older parameters than those that learn from them. A loss or gradient
    with a parameter `behaviour` receives the parameters that the worker read, which drew its data, and its gradient is
    taken at the newest ones, those that the worker pulled just before its commit. For the newest central variable at
    every commit, commits have to follow each other, so that lanes and several devices share the commits of one step
    only.

    Args:
        init: `key -> params`, the first central variable, any pytree of floating-point arrays.
        loss: `(params, batch, key) -> scalar`. The key is for dropout and the like. Give a module-level function, a
            frozen dataclass with `__call__`, or a `jax.tree_util.Partial` of one with arrays: a new closure is
            compiled again.
        data: Training examples: a pytree of arrays with a common leading axis, None, or a data set of
            `asyncsim.datasets`, whose mini-batches are (inputs, labels). Arrays are copied once, so you may change your
            own afterwards. JAX computes with the copy itself if it is on a CPU and of a type that JAX has, such as
            float32 or int32, and with a second one in float32 if it is float64.
        batch_size: Examples in a mini-batch, at most as many as there are.
        noise: `key -> batch`, for workloads without data.
        gradient: `(params, batch, key) -> (loss, gradient)`, to be used in place of differentiating `loss`.
        evaluate: `params -> {"test_loss": …, "test_accuracy": …}`, scalars by names of your choice, or None. All of
            them are kept in the summary, printed, and can be recorded. To be recorded by a `Scenario` it must be
            traceable by JAX.
        groups: Name of the group of every leaf of the parameters, for traces that read groups at versions of their own.
            By default their layers are split evenly. See `grouped`.
        parts: Who has which examples: `datasets.Parts`, or one sequence of example numbers per worker. By default
            every worker has all of them.
        weights: (workers,) weights of the workers' gradients, relative to each other: a gradient is multiplied by the
            weight over the mean weight. The losses stay as they are. By default all count alike.
        workers: The number of workers that it is made for, taken from `parts` or `weights` if there are any. None for
            any number.
        counts: The numbering of a worker's mini-batches. By default that of its "commits": a job that never committed
            leaves its mini-batch to the worker's next one. With "jobs" every job that begins to compute takes the next
            mini-batch, and those of jobs that were cancelled, dropped or lost are left out until the next epoch.
        evaluate_workers: `params -> {"worker_loss": (workers,), …}`, one number per worker by names of your choice,
            or None: results on each worker's own objective or part. They can be recorded by their names.

    Raises:
        ValueError: If `batch_size` is not a whole number from 1 to the number of examples, or to those of the smallest
            part; the arrays of `data` differ in length, are masked, or hold numbers that JAX would change, such as
            int64 beyond the range of int32; or parts, weights and workers do not fit.

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

        A class on a data set, a linear classifier:

        >>> class Logistic(asim.Workload):
        ...     data: asim.datasets.Dataset
        ...     batch_size: int = 32
        ...     def init(self, key):
        ...         return jnp.zeros((np.prod(self.data.shape), self.data.classes))
        ...     def loss(self, params, batch, key):
        ...         inputs, labels = batch
        ...         scores = jax.nn.log_softmax(inputs.reshape(len(labels), -1) @ params)
        ...         return -jnp.mean(jnp.take_along_axis(scores, labels[:, None], axis=1))
        >>> Logistic(asim.datasets.Digits())
        Logistic(digits, batch_size=32)
    """

    _: KW_ONLY
    groups: tuple[str, ...] | None = static(default=None)
    counts: Literal["commits", "jobs"] = static(default="commits")

    name = ""
    not_settings: ClassVar[tuple[str, ...]] = ("data", "counts", "groups")
    # Methods and arguments that a class has, if it needs them, in place of these.
    loss = gradient = draw = evaluate = evaluate_workers = outputs = data = cast(Any, None)
    measures = cast("tuple[str, ...] | None", None)  # names of the measures of `evaluate`, where they are known
    worker_measures = cast("tuple[str, ...] | None", None)  # the same of `evaluate_workers`
    quantities = cast("dict[str, Callable[[Any], Any]]", {})  # name -> function of a commit that can be recorded by it
    batch_size = 1

    def __init__(
        self,
        init: Callable[[jax.Array], Params],
        loss: Callable[..., jax.Array] | None,
        data: Batch | None = None,
        batch_size: int = 1,
        noise: Callable[..., Batch] | None = None,
        gradient: Callable[..., tuple[jax.Array, Params]] | None = None,
        evaluate: Callable[[Params], dict[str, jax.Array]] | None = None,
        parts: Any = None,
        weights: Any = None,
        workers: int | None = None,
        evaluate_workers: Callable[[Params], dict[str, jax.Array]] | None = None,
        *,
        groups: tuple[str, ...] | None = None,
        counts: Literal["commits", "jobs"] = "commits",
    ) -> None:
        raise NotImplementedError  # The objects are `Functions`, which have a constructor of their own.

    @classmethod
    def carried(cls, old: Any) -> dict[str, Any]:
        """Return the arguments with which a workload of this class takes the place of another one.

        Groups of parameters are those of one model and do not fit another.
        """
        return {name: value for name, value in shared_arguments(old, cls).items() if name != "groups"}

    def init(self, key: jax.Array) -> Params:
        """Return the first central variable, any pytree of floating-point arrays."""
        raise NotImplementedError(f"{type(self).__name__} needs a method `init`.")

    def check(self) -> None:
        """Refuse data, mini-batches, parts and weights that do not fit together."""
        if self.loss is None and self.gradient is None:
            raise ValueError("`loss` must be a function; got None. Give it, or `gradient`.")
        if asks(self.draw, BEHAVIOUR):
            remedy = "Draw random numbers, and let the loss make data of these with `behaviour`."
            raise ValueError(
                f"`noise` must be a function of the key; got {checks.brief(self.draw)} with `behaviour`. {remedy}"
            )
        size = checks.require_count("batch_size", self.batch_size, remedy="32 or 64 are usual.")
        self._keep("batch_size", size)
        if not isinstance(self.data, Dataset):
            self._keep("data", jax.tree.map(checked_rows, self.data))
        leaves = jax.tree.leaves(self.rows)
        if self.data is not None and not (leaves and all(getattr(leaf, "ndim", 0) for leaf in leaves)):
            raise ValueError(f"`data` must be a pytree of arrays, one row per example; got {checks.brief(self.data)}.")
        sizes = {len(leaf) for leaf in leaves}
        if len(sizes) > 1:
            raise ValueError(f"`data` must have arrays of one length; got {sorted(sizes)}. Give one row per example.")
        if self.data is not None and size > self.examples:
            raise ValueError(
                f"`batch_size` must be at most the number of training examples, {self.examples}; got "
                f"{checks.brief(size)}. Give smaller mini-batches or more data."
            )
        if self.parts is not None:
            self._keep("parts", self._checked_parts(size))
        if self.weights is not None:
            weights = np.asarray(checks.require_all_not_negative("weights", self.weights), float)
            if weights.ndim != 1 or not weights.sum() > 0:
                raise ValueError(
                    f"`weights` must be one number per worker, not all 0; got {checks.brief(self.weights)}."
                )
            self._keep("weights", weights / weights.sum())
        self._keep("workers", self._checked_workers())

    def _keep(self, name: str, value: Any) -> None:
        """Set an argument to its checked value. Values that follow from the arguments stay computed."""
        if name in arguments(type(self)):
            object.__setattr__(self, name, value)

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
                f"{smallest}; got {checks.brief(batch_size)}. Give smaller mini-batches, or partition(…, "
                f"least={batch_size})."
            )
        return parts

    def _checked_workers(self) -> int | None:
        """Return the number of workers on which parts, weights and argument agree."""
        sources = {"parts": self.parts, "weights": self.weights}
        sizes = {name: len(value) for name, value in sources.items() if value is not None}
        if self.workers is not None:
            least = checks.require_count("workers", self.workers, remedy="Leave it out for any number.")
            sizes["workers"] = least
        if len(set(sizes.values())) > 1:
            counts = " and ".join(f"{count} by `{name}`" for name, count in sizes.items())
            raise ValueError(f"`workers` must be one number; got {counts}.")
        return next(iter(sizes.values()), None)

    @cached_property
    def parts(self) -> Any:
        """The workers' examples, `datasets.Parts`, or None where every worker has all."""
        return self.data.parts if isinstance(self.data, Partition) else None

    @cached_property
    def weights(self) -> Any:
        """(workers,) weights of the workers' gradients, in all 1, or None where all count alike."""
        return self.data.weights if isinstance(self.data, Partition) and self.data.weighting != EQUAL else None

    @cached_property
    def workers(self) -> int | None:
        """The number of workers that it is made for. None for any."""
        made_for = self.weights if self.parts is None else self.parts
        return None if made_for is None else len(made_for)

    @cached_property
    def rows(self) -> Batch | None:
        """Training examples as a pytree of arrays, of whose rows mini-batches are made, or None without data."""
        if isinstance(self.data, Dataset):
            return self.data.train_inputs, self.data.train_labels
        return jax.tree.map(lambda array: array, self.data)  # The user may change the lists and dictionaries.

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._repr_parts())})"

    def _repr_parts(self) -> list[str]:
        """Return the name of a data set, and the other arguments without switches that are off."""
        parts = "" if self.parts is None else f" in {len(self.parts)} parts"
        data = [f"{self.data.name}{parts}"] if isinstance(self.data, Dataset) else []
        names = sorted(arguments(type(self)), key=UNTRACED_ARGUMENTS.__contains__)
        values = {name: getattr(self, name) for name in names if name != "data"}
        settings = {name: value for name, value in values.items() if value is not None and value is not False}
        return data + [f"{name}={_short(settings[name])}" for name in settings if settings[name] is not COMMITS]

    def __getstate__(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in arguments(type(self))}

    @cached_property
    def seen(self) -> Self:
        """The workload as compiled programs receive it: numbers on the device, and of a data set its shapes only."""
        _ = self._first  # From now on, `device_data` refuses entries that were replaced.
        workload = object.__new__(type(self))
        # With the defaults of these arguments, workloads that differ in them only share their programs.
        defaults = {field.name: field.default for field in dataclasses.fields(self) if field.name in UNTRACED_ARGUMENTS}
        for name in arguments(type(self)):
            value = defaults.get(name, getattr(self, name))
            if name in ("data", "parts"):
                value = Form.of(value)
            object.__setattr__(workload, name, value)
        for name, value in workload.numbers.items():
            if not hasattr(value, "dtype") and not isinstance(value, (bool, int, float, complex)):
                raise ValueError(
                    f"`{name}` of the workload {self.name!r} must be a number or an array; got {checks.brief(value)}. "
                    f"An argument that chooses code is marked: {name}: str = asyncsim.static()."
                )
        return jax.tree.map(jax.device_put, workload)

    @property
    def abstract_init(self) -> Callable[[jax.Array], Params]:
        """`init` for its shapes alone: JAX's cache of it holds no data."""
        return self.seen.init

    def part(self, name: str) -> Partial | None:
        """Return a method or function as a pytree: its code is static, its arrays are traced.

        It takes the behaviour parameters and the worker's number as its last arguments if it asks for them. None where
        there is no such function.
        """
        function = getattr(self, name)
        if function is None:
            return None
        return with_worker(as_pytree(function))

    def grouped(self, groups: Any) -> Self:
        """Return the workload whose parameters form these groups, for traces that read groups at versions of their own.

        Args:
            groups: Names as a pytree prefix of the parameters: a name stands for all that is below it. Or one name for
                each tensor, in the order of the pytree's leaves. The names are those in `Trace.groups`.

        Raises:
            ValueError: If a tensor has no name.

        Example:
            >>> import asyncsim as asim
            >>> workload = asim.workloads.MLP(asim.datasets.Digits(), hidden=(32, 32), batch_size=32)
            >>> workload.grouped(["stage0", "stage0", "stage1"]).groups
            ('stage0', 'stage0', 'stage0', 'stage0', 'stage1', 'stage1')
            >>> workload.grouped(["stage0", "stage1"])
            Traceback (most recent call last):
            ValueError: `groups` must name a group for each of the 6 tensors 0/bias, 0/weight, 1/bias, 1/weight, \
2/bias, 2/weight, or for their containers; got ['stage0', 'stage1'].
        """
        key = jax.random.key(0)
        try:
            params = jax.eval_shape(self.init, key)
        except Exception:  # An `init` in plain Python needs the key's numbers, and has the same mistakes with them.
            params = self.init(key)
        return replace(self, groups=labels_by_leaf(groups, params))

    @property
    def examples(self) -> int:
        """Number of training examples, 0 without `data`."""
        return len(jax.tree.leaves(self.rows)[0]) if self.data is not None else 0

    @property
    def batches_per_epoch(self) -> int:
        """Full mini-batches in one shuffle of all examples. The rest is left out, as in the paper's code."""
        return self.examples // self.batch_size

    @property
    def by_worker(self) -> bool:
        """Whether `loss_and_gradient` takes the worker's number."""
        return self.weights is not None or self.asks_worker

    @cached_property
    def asks_worker(self) -> bool:
        """Whether the loss, or the gradient in its place, takes the worker's number."""
        return asks(self.loss if self.gradient is None else self.gradient)

    @cached_property
    def asks_behaviour(self) -> bool:
        """Whether the loss, or the gradient in its place, takes the parameters that drew the data."""
        return asks(self.loss if self.gradient is None else self.gradient, BEHAVIOUR)

    @cached_property
    def noise_by_worker(self) -> bool:
        """Whether `draw` takes the worker's number."""
        return self.data is None and asks(self.draw)

    @cached_property
    def loss_and_gradient(self) -> Partial:
        """`(params, batch, key) -> (loss, gradient)` as a pytree: its code is static, its arrays are traced.

        It takes the behaviour parameters (`asks_behaviour`), and then the worker's number (`by_worker`), as further
        arguments where they matter.
        """
        function: Any = self.part("loss" if self.gradient is None else "gradient")
        if self.gradient is None:
            function = Partial(_differentiate, function)
        return function if self.weights is None else weighted(function, self.weights, self.asks_worker)

    @property
    def sampler(self) -> Partial | None:
        """`key -> batch` as a pytree, or `(key, worker) -> batch`, or None where nothing is drawn."""
        return self.part("draw") if self.data is None else None

    def gradient_of(
        self, params: Params, batch: Batch, key: jax.Array, worker: int, behaviour: Params
    ) -> tuple[jax.Array, Params]:
        """Return loss and gradient of a worker, whether or not they depend on it or the behaviour parameters."""
        extra = [behaviour] if self.asks_behaviour else []
        return self.loss_and_gradient(params, batch, key, *extra, *([np.int32(worker)] if self.by_worker else []))

    def shuffles(self) -> Shuffles | None:
        """Return the order in which workers go through the examples, or None without data."""
        if not self.examples:
            return None
        if self.parts is not None:
            return Shuffles(self.parts, self.batch_size)
        return shuffles_of(self.examples, self.batch_size)

    def require_precision(self) -> None:
        """Refuse numbers that rounding would make 0, infinite or invalid, by a ValueError.

        Example:
            >>> import asyncsim as asim
            >>> asim.workloads.Quadratic([1.0, 1e-300]).require_precision()
            Traceback (most recent call last):
            ValueError: `eigenvalues` must not become 0 in float32; got 1e-300. Give another number, or compute in \
float64 by `jax.config.update("jax_enable_x64", True)`.
        """
        require_precision(self, jax.numpy.result_type(float), without=("data", "parts"))

    def require_workers(self, workers: int) -> None:
        """Refuse a number of workers that it is not made for, by a ValueError.

        Example:
            >>> import asyncsim as asim
            >>> shared = asim.datasets.partition(asim.datasets.Digits(), workers=4, by="iid")
            >>> asim.workloads.Softmax(shared, batch_size=8).require_workers(5)
            Traceback (most recent call last):
            ValueError: `workload` is made for 4 workers; the cluster has 5. Share its data out to 5, or simulate 4.
        """
        if self.workers not in (None, workers):
            remedy = "Share its data out to" if self.parts is not None else "Make it for"
            raise ValueError(
                f"`workload` is made for {self.workers} worker{'s' * (self.workers > 1)}; the cluster has "
                f"{checks.brief(workers)}. {remedy} {checks.brief(workers)}, or simulate {self.workers}."
            )

    @property
    def device_data(self) -> Batch | None:
        """The training data as JAX arrays, moved to the device once."""
        # Arrays are read-only, so that comparing the objects is enough, and takes no time.
        (now, form), (first, form_of_first) = self._flat(self.data), self._first
        if form != form_of_first or any(entry is not other for entry, other in zip(now, first, strict=True)):
            raise ValueError(
                "`workload` must stay as it is; an entry of its `data` or of another argument was replaced or added "
                "afterwards. Make another workload: dataclasses.replace(workload)."
            )
        return self._device_data

    @cached_property
    def _first(self) -> tuple[list[Any], Any]:
        """The data as they were checked, and other numbers as they were first used."""
        return self._flat(self.data if isinstance(self.data, Dataset) else self.rows)

    def _flat(self, data: Any) -> tuple[list[Any], Any]:
        return jax.tree.flatten([data, *(getattr(self, name) for name in self._traced if name != "data")])

    @cached_property
    def _device_data(self) -> Batch | None:
        for leaf in jax.tree.leaves(self.rows):
            checks.require_fits("data", leaf, dtype=jax.dtypes.canonicalize_dtype(leaf.dtype))
        return jax.tree.map(to_device, self.rows)

    def batch(self, seed: int, worker: int, job: int) -> Batch:
        """Return the mini-batch that a replay gives to a worker's job.

        Args:
            seed: Seed of the replay.
            worker: The worker, counted from 0.
            job: The worker's commits before this one, or its jobs (`counts`). For a rule with local steps, its local
                steps before this one: each has a mini-batch of its own.

        Returns:
            `batch_size` rows of `data`, or a draw of `noise`, as a pytree of JAX arrays, or None without either.

        Raises:
            ValueError: If an argument is not a whole number of at least 0.

        Example:
            The loss of worker 1's second commit, taken again where its gradient was taken:

            >>> import asyncsim as asim
            >>> trace, rule = asim.Trace.from_commits([0, 1, 1]), asim.rules.Downpour(0.1)
            >>> workload = asim.workloads.Softmax(asim.datasets.Digits(), batch_size=8)
            >>> run = asim.replay(trace, rule, workload, seed=3, record=("read",))
            >>> read = jax.tree.map(lambda leaf: leaf[2], run.unpacked("read"))
            >>> loss = workload.loss(read, workload.batch(seed=3, worker=1, job=1), jax.random.key(0))
            >>> bool(abs(loss - run.loss[2]) < 1e-5)
            True
        """
        for name, value in (("seed", seed), ("worker", worker), ("job", job)):
            checks.require_integer(name, value, remedy="Count from 0.")
        if self.workers is not None and worker >= self.workers:
            raise ValueError(
                f"`worker` must be less than the workload's {self.workers} workers; got {checks.brief(worker)}."
            )
        shuffles = self.shuffles()
        if shuffles is None:
            key = compiled_commit_key(jax.random.key(seed), worker, job)
            return self.sampler and self.sampler(key, *([np.int32(worker)] if self.noise_by_worker else []))
        rows = shuffles.take(seed, np.array([worker]), np.array([job]))[0]
        return jax.tree.map(lambda array: jax.numpy.take(array, rows, axis=0), self.device_data)


class Functions(Workload, named=False):
    """A workload of functions, as `Workload(…)` makes it."""

    init: Callable[[jax.Array], Params] = static()  # type: ignore[assignment]
    loss: Callable[..., jax.Array] | None = static()
    data: Batch | None = None
    batch_size: int = 1
    noise: Callable[..., Batch] | None = static(default=None)
    gradient: Callable[..., tuple[jax.Array, Params]] | None = static(default=None)
    evaluate: Callable[[Params], dict[str, jax.Array]] | None = static(default=None)
    parts: Any = None  # type: ignore[assignment]
    weights: Any = None  # type: ignore[assignment]
    workers: int | None = None  # type: ignore[assignment]
    evaluate_workers: Callable[[Params], dict[str, jax.Array]] | None = static(default=None)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the loss, or of the gradient in its place."""
        function = self.gradient if self.loss is None else self.loss
        return getattr(function, "__qualname__", type(function).__name__)

    @property
    def abstract_init(self) -> Callable[[jax.Array], Params]:
        """`init`."""
        return self.init

    @property
    def draw(self) -> Any:  # type: ignore[override]
        """`noise`, by the name that it has as a method."""
        return self.noise

    def _repr_parts(self) -> list[str]:
        size = [f"batch_size={self.batch_size}"] if self.examples else []
        return [self.name, *size, *([] if self.counts == COMMITS else [f"counts={self.counts!r}"])]


# Messages name the class that a person called. Pickles need the `__qualname__` of the class itself.
Functions.__name__ = Workload.__name__
Functions.__init__.__qualname__ = Workload.__init__.__qualname__


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Form:
    """The part of a data set that compiled programs see, so that all data of one shape share them."""

    shape: tuple[int, ...]
    classes: int

    @classmethod
    def of(cls, data: Any) -> "Form | None":
        return cls(data.shape, int(data.classes)) if isinstance(data, Dataset) else None

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"`data.{name}` is not there while a program is compiled, only `shape` and `classes`: examples reach the "
            "loss as its mini-batch"
        )


def checked_rows(values: Any) -> Any:
    """Return one array of the training data, frozen, of a type that JAX has."""
    if isinstance(values, jax.Array):
        return frozen("data", values)
    if not hasattr(values, "__array__"):
        return values  # `check` refuses it by its lack of rows.
    array = np.asarray(checks.refuse_mask("data", values))
    dtype = jax.dtypes.canonicalize_dtype(array.dtype)
    if not (dtype.kind == "b" or jax.numpy.issubdtype(dtype, jax.numpy.number)) or dtype.char in LACKING_TYPES:
        raise ValueError(f"`data` must hold arrays of numbers that JAX has; got one of {array.dtype}. Convert it.")
    checks.require_fits("data", array, dtype=dtype)
    return frozen("data", array)


def as_pytree(function: Callable[..., Any]) -> Partial:
    """Return the function as an argument that compiled functions accept, so that its arrays are not compiled in."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, Workload):
        return Partial(function.__func__, owner.seen)  # type: ignore[attr-defined]
    return function if isinstance(function, Partial) else Partial(function)


def _differentiate(
    loss: Partial, params: Params, batch: Batch, key: jax.Array, *worker: jax.Array
) -> tuple[jax.Array, Params]:
    return jax.value_and_grad(loss)(params, batch, key, *worker)


def _short(value: Any) -> str:
    """Show arrays and tuples as short lists, functions by name, numbers as they are."""
    if callable(value):
        return repr(getattr(value, "__qualname__", type(value).__qualname__))
    if isinstance(value, (np.ndarray, jax.Array)):
        value = np.asarray(value).tolist()
    return checks.truncate(repr(list(value) if isinstance(value, tuple) else value), LONGEST)
