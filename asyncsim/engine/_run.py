"""The result of a replay: measurements, final parameters, and the state from which it can be resumed."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from asyncsim._checks import brief
from asyncsim._metrics import counted, metric
from asyncsim.components import _code_hash as code
from asyncsim.components._frozen import Frozen, owned
from asyncsim.engine import _run_file as run_file
from asyncsim.engine._layout import Carry, Packing, consensus_distance, local_variables
from asyncsim.engine._plan import Plan, plan_for
from asyncsim.engine._quantities import CONSENSUS, OUTPUTS, POINTS, WORST, Measure, of_variables
from asyncsim.rules import Rule
from asyncsim.rules._rule import windows_of
from asyncsim.trace import Trace
from asyncsim.trace._columns import count_earlier
from asyncsim.workloads import Workload

Columns = dict[str, np.ndarray]  # of one length

# The commits that `final_loss` averages: long enough to be precise, and a small enough part of the run to be its end.
FINAL_COMMITS = 50  # of each worker at most
FINAL_PART = 4  # the reciprocal of the largest share of its commits


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Run(Frozen):
    """A replayed trace. With a sequence of seeds every array has a leading axis `seeds`. Arrays are read-only.

    Attributes:
        loss: (commits,) mini-batch loss at the point where each committed gradient was taken. Shorter than the trace
            if the replay was stopped, or stopped itself because it had diverged.
        central: The central variable after the last replayed commit, a pytree, or the mean of several variables, or
            the global variable of a hierarchy.
        diverged_at: None, or the number, counted from 0, of the first commit with a non-finite loss or central
            variable, or with several seeds a list of these.
        records: Name -> (records, …).
        recorded_at: Name -> (records,) int64, the number of each record's commit, counted from 0.
        strides: Name -> commits from one record to the next.
        own: Name -> function, of the records by your own functions. Files do not hold them: give `record` again
            to resume from a file.
        worker: (commits,) int32, the worker that made each commit.
        traits, digest: Traits of the trace, each of which chooses code of the engine, and a hash of it up to `commits`.
        commits: Commits replayed.
        workers: n, with the servers of regions, which push the changes of their workers.
        servers: Number of these.
        seed: The seed, or the tuple of seeds.
        state: The compiled loop's state after `commits` commits, to resume from. It lacks the workers' part where the
            run comes from a file that does not hold it.
        rule, workload: Those of the replay. A run that `asyncsim.load` reads without its scenario has neither, nor a
            state, and its central variable is a dictionary, name -> array.
    """

    loss: np.ndarray
    central: Any
    diverged_at: int | list[int | None] | None
    records: Mapping[str, np.ndarray]
    recorded_at: Mapping[str, np.ndarray]
    strides: Mapping[str, int]
    own: Mapping[str, Measure]
    worker: np.ndarray
    traits: tuple[str, ...]
    digest: str
    commits: int
    workers: int
    seed: int | tuple[int, ...]
    state: Carry
    rule: Rule
    workload: Workload
    servers: int = 0

    def __post_init__(self) -> None:
        for name in ("loss", "central", "records", "recorded_at", "worker"):
            object.__setattr__(self, name, owned(getattr(self, name)))

    def __repr__(self) -> str:
        title = "without its rule" if self.is_data else f"{self.rule.name} on {self.workload.name}"
        seeds = counted(len(self.divergences), "seed") if self.several else f"seed {self.seed}"
        recorded = "".join(f", {name}" for name in self.records)
        diverged = sum(commit is not None for commit in self.divergences)
        if diverged:
            seeds += f", {diverged} diverged" if self.several else f", diverged at commit {self.diverged_at}"
        size = f"{counted(self.workers, 'worker')}, {counted(self.commits, 'commit')}"
        return f"Run({title}, {size}, {seeds}; loss{recorded})"

    @property
    def is_data(self) -> bool:
        """Whether the run was loaded without its scenario, so that it has no rule and no workload."""
        return self.rule is None

    def require_scenario(self) -> None:
        """Refuse a run that was loaded as data."""
        if self.is_data:
            raise ValueError(
                "`run` was loaded without its scenario, because a folder runs no code. Import the module that defines "
                "its rule or model, or give the scenario: asim.load(…, scenario=…)."
            )

    @property
    def variables(self) -> Any:
        """The values of all variables, a pytree like `central` with a leading axis of variables (after that of seeds).

        Raises:
            ValueError: If the run was loaded without its scenario.

        Example:
            >>> import asyncsim as asim
            >>> cluster = asim.Gossip(workers=4, compute=asim.delays.Exponential(1.0), graph="ring")
            >>> trace, workload = asim.simulate(cluster, commits=40), asim.workloads.Quadratic([1.0])
            >>> run = asim.replay(trace, asim.rules.Downpour(0.1), workload)
            >>> run.variables["x"].shape, run.central["x"].shape
            ((4, 1), (1,))
        """
        self.require_scenario()
        state = np.asarray(self.state.central)
        values = state if state.ndim == 3 else state[None]
        return self._packing.unpack_on_host(np.moveaxis(values, 0, 1) if self.several else values[:, 0])

    @property
    def _packing(self) -> Packing:
        """The layout of the parameters in a vector."""
        point = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape[int(self.several) :], leaf.dtype), self.central
        )
        return Packing.of(point)

    @property
    def several(self) -> bool:
        """Whether there is an axis of seeds."""
        return not isinstance(self.seed, int)

    @property
    def divergences(self) -> list[int | None]:
        """`diverged_at` as a list, one entry per seed."""
        return self.diverged_at if isinstance(self.diverged_at, list) else [self.diverged_at]

    @property
    def gradients(self) -> np.ndarray:
        """(commits,) int64, gradients that the commits up to each took, as many as the window of its worker.

        It is an axis on which rules with different windows can be compared, as `trace.commit_time` is.

        Example:
            >>> import asyncsim as asim
            >>> rule, workload = asim.rules.AGN(0.1, window=(1, 10)), asim.workloads.Quadratic([1.0])
            >>> asim.replay(asim.Trace.from_commits([0, 0, 1, 0]), rule, workload).gradients.tolist()
            [1, 2, 12, 13]
        """
        self.require_scenario()
        windows = np.append(windows_of(self.rule, self.workers - self.servers), np.zeros(self.servers, np.int32))
        return np.cumsum(windows[self.worker], dtype=np.int64)

    def unpacked(self, name: str) -> Any:
        """Return the records of "central" or "read", as a pytree like `central`.

        Args:
            name: "central" or "read".

        Returns:
            The parameters' pytree. Every leaf has the records on its first axis, or the seeds there and the
            records on its second.

        Raises:
            ValueError: If `name` is not a recorded point.

        Example:
            >>> import asyncsim as asim
            >>> trace, workload = asim.Trace.from_commits([0, 0, 0, 0]), asim.workloads.Quadratic([1.0, 2.0])
            >>> run = asim.replay(trace, asim.rules.Downpour(0.5), workload, record={"central": 2})
            >>> run.recorded_at["central"].tolist(), run.unpacked("central")["x"].tolist()
            ([1, 3], [[0.25, 0.0], [0.0625, 0.0]])
        """
        if name not in POINTS or name not in self.records:
            recorded = [point for point in POINTS if point in self.records]
            raise ValueError(
                f"`name` must be a recorded point of the parameters, here one of {recorded}; got {brief(name)}. Replay "
                "with record=('central',)."
            )
        axes = int(self.several)  # the leading axis of the seeds
        point = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[axes:], leaf.dtype), self.central)
        return Packing.of(point).unpack_on_host(self.records[name])

    def to_columns(self, trace: Trace) -> Columns:
        """Return the commits as columns of one length, which pandas, polars and csv take as they are.

        Args:
            trace: The trace that was replayed.

        Returns:
            One row per commit, with `commit` (counted from 0), `worker`, `time` (simulated seconds at which it was
            applied), `staleness` (as the rule saw it) and `loss`. Several seeds stand one below the other, with a
            column `seed` in front.

        Raises:
            ValueError: If another trace was replayed.

        Example:
            >>> import asyncsim as asim
            >>> trace = asim.simulate(asim.Cluster(workers=2, compute=asim.delays.Constant(1.0)), commits=4)
            >>> workload = asim.workloads.Quadratic([1.0])
            >>> run = asim.replay(trace, asim.rules.Downpour(0.5), workload, record={"energy_central": 2})
            >>> for name, column in run.to_columns(trace).items():
            ...     print(name, column.tolist())
            commit [0, 1, 2, 3]
            worker [0, 1, 0, 1]
            time [1.0, 1.0, 2.0, 2.0]
            staleness [0, 1, 1, 1]
            loss [0.5, 0.5, 0.125, 0.0]

            As a table: ``pandas.DataFrame(run.to_columns(trace))``.
        """
        return self._long(trace, np.arange(self.commits), {"loss": self.loss})

    def records_to_columns(self, trace: Trace) -> Columns:
        """Return the records as columns of one length, with the commits at which they were made.

        Args:
            trace: The trace that was replayed.

        Returns:
            One row per commit at which anything was recorded: the first columns of `to_columns`, then one per
            recorded quantity, NaN where it was not recorded at that commit. A quantity with several values, such as
            "pi_median_by_tensor", gives the columns `pi_median_by_tensor_0` and so on.

        Raises:
            ValueError: If another trace was replayed.

        Example:
            >>> import asyncsim as asim
            >>> trace, workload = asim.Trace.from_commits([0, 1, 0, 1]), asim.workloads.Quadratic([1.0])
            >>> record = {"energy_central": 2, "test_loss": 3}
            >>> run = asim.replay(trace, asim.rules.Downpour(0.5), workload, record=record)
            >>> columns = run.records_to_columns(trace)
            >>> [columns[name].tolist() for name in ("commit", "energy_central", "test_loss")]
            [[1, 2, 3], [0.5, nan, 0.03125], [nan, 0.03125, nan]]
        """
        at = np.unique(np.concatenate([np.zeros(0, np.int64), *self.recorded_at.values()]))
        columns: Columns = {}
        for name, values in self.records.items():
            first = np.moveaxis(values, 1, 0) if self.several else values  # (records, seeds, …)
            full = np.full((len(at), *first.shape[1:]), np.nan, np.result_type(first.dtype, np.float16))
            full[np.searchsorted(at, self.recorded_at[name])] = first
            full = np.moveaxis(full, 0, 1) if self.several else full
            if full.ndim == self.loss.ndim:
                columns[name] = full
            else:
                flat = full.reshape(*full.shape[: self.loss.ndim], -1)
                columns |= {f"{name}_{index}": flat[..., index] for index in range(flat.shape[-1])}
        return self._long(trace, at, columns)

    def _long(self, trace: Trace, at: np.ndarray, values: Columns) -> Columns:
        """Return the columns of the commits `at`, and values of shape (rows,) or (seeds, rows), as one long table."""
        plan = self.plan(trace)
        columns = {
            "commit": at,
            "worker": self.worker[at],
            "time": trace.commit_time[at],
            "staleness": plan.staleness[at],
        }
        if not self.several:
            return {**columns, **values}
        seeds = np.array(self.seed)
        columns = {name: np.tile(column, len(seeds)) for name, column in columns.items()}
        return {"seed": seeds.repeat(len(at)), **columns, **{name: array.ravel() for name, array in values.items()}}

    def plan(self, trace: Trace) -> Plan:
        """Return the plan of the trace that was replayed.

        Raises:
            ValueError: If it is another trace.
        """
        self.require_scenario()
        plan = plan_for(trace, self.rule, self.workload.counts)
        if plan.digest(self.commits) != self.digest:
            raise ValueError(f"`trace` must be the one that was replayed; the first {self.commits} commits differ.")
        return plan

    def evaluate(self) -> dict[str, Any]:
        """Evaluate the central variable, for example test loss and accuracy, without dropout.

        Returns:
            Name -> float, or name -> (seeds,) array, or {} for a workload without evaluation. Of the measures of each
            worker (`evaluate_workers`) there are the lowest and the highest, such as `highest_worker_loss`. Several
            variables are evaluated at their mean, and have a `consensus_distance`, (1/n) Σ |x_i - x̄|², an
            `output_distance` and the worst of their values, such as `worst_test_loss` (see `asyncsim.replay`).

        Example:
            >>> import asyncsim as asim
            >>> trace = asim.Trace.from_commits([0, 0, 0])
            >>> asim.replay(trace, asim.rules.Downpour(0.5), asim.workloads.Quadratic([1.0])).evaluate()
            {'test_loss': 0.0078125}
        """
        self.require_scenario()
        central = self._centrals()
        with code.traced_as(code.version_of(workload=self.workload)):
            measured = evaluate(self.workload.evaluate, central)
            of_workers = evaluate(self.workload.evaluate_workers, central)
            apart = self._evaluate_variables(measured) if np.ndim(self.state.central) == 3 else {}
        for name, value in of_workers.items():
            measured |= {f"lowest_{name}": value.min(axis=1), f"highest_{name}": value.max(axis=1)}
        measured |= apart
        return measured if self.several else {name: float(value[0]) for name, value in measured.items()}

    def evaluate_workers(self) -> dict[str, np.ndarray]:
        """Evaluate the central variable for each worker: on its own part, by its own objective.

        Returns:
            Name -> (workers,) array, or (seeds, workers), or {} where workers are all alike.

        Example:
            >>> import asyncsim as asim
            >>> workload = asim.workloads.Quadratic([1.0], minima=[[0.0], [2.0]], start=1.0)
            >>> run = asim.replay(asim.Trace.from_commits([0, 1]), asim.rules.Downpour(0.5), workload)
            >>> run.central["x"].tolist(), run.evaluate_workers()["worker_loss"].tolist()
            ([1.0], [0.5, 0.5])
        """
        self.require_scenario()
        with code.traced_as(code.version_of(workload=self.workload)):
            measured = evaluate(self.workload.evaluate_workers, self._centrals())
        return measured if self.several else {name: value[0] for name, value in measured.items()}

    def _evaluate_variables(self, metrics: Iterable[str]) -> dict[str, np.ndarray]:
        names = of_variables(metrics, self.workload.outputs is not None)
        return evaluate_variables(self.workload, self._packing, self.state, names)

    def _centrals(self) -> list[Any]:
        """Return the central variable of each seed."""
        return each_seed(self.central) if self.several else [jax.device_put(self.central)]

    def final_loss(self, last: int | None = None) -> Any:
        """Return the mean training loss at the end: over the last quarter of each worker's commits, at most 50 of each.

        A quarter is rounded up, so that every worker that committed counts.

        Args:
            last: Number of commits of each worker to average instead, or all of them for a worker that made fewer.

        Returns:
            A float, or (seeds,). NaN without commits and where the run diverged.

        Example:
            Worker 0 is fast and worker 1 slow: one commit of each counts.

            >>> import asyncsim as asim
            >>> trace = asim.Trace.from_commits([1, 0, 0, 0])
            >>> run = asim.replay(trace, asim.rules.Downpour(0.5), asim.workloads.Quadratic([1.0]))
            >>> run.loss.tolist(), run.final_loss(last=1)
            ([0.5, 0.5, 0.0, 0.0], 0.25)
        """
        # Each commit's number of later ones by its worker.
        later = count_earlier(self.worker[::-1])[::-1]
        quarter = -(-np.bincount(self.worker) // FINAL_PART)[self.worker]
        counted = np.minimum(quarter, FINAL_COMMITS) if last is None else last
        chosen = self.loss[..., later < counted]
        # A run that diverges may have losses whose sum is too large for a float.
        with np.errstate(over="ignore", invalid="ignore"):
            mean = chosen.mean(axis=-1) if self.commits else np.full(self.loss.shape[:-1], np.nan)
        lost = np.reshape([commit is not None for commit in self.divergences], mean.shape)
        mean = np.where(lost | ~np.isfinite(mean), np.nan, mean)
        return mean if self.several else float(mean)

    def save(
        self, path: str | os.PathLike[str], notes: Mapping[str, Any] | None = None, *, resumable: bool = True
    ) -> None:
        """Write the run as `.npz`, atomically: measurements, and the state to resume from.

        Args:
            path: The file.
            notes: Name -> number, string or array, stored beside the arrays of the run.
            resumable: Whether to write the workers' state too, which is as large as n central variables.

        Raises:
            OSError: If the file cannot be written, for example on a full disk. An existing file stays as it is.
        """
        self.require_scenario()
        run_file.write(path, vars(self), notes or {}, resumable=resumable)

    @classmethod
    def load(cls, path: str | os.PathLike[str], rule: Rule, workload: Workload) -> "Run":
        """Read a run that `save` wrote. Resumed, it continues bit for bit as if it had never been saved.

        Args:
            path: The file.
            rule, workload: Those of the replay. The file holds their numbers, not their code.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the file is damaged, is not a run, was written by a newer asyncsim or by one too old to
                name the replayed trace, or does not fit the rule or the workload.

        Example:
            >>> import pathlib, tempfile, asyncsim as asim
            >>> trace, rule = asim.Trace.from_commits([0, 1, 0, 1]), asim.rules.GEM(learning_rate=0.1)
            >>> workload = asim.workloads.Quadratic([1.0])
            >>> half = asim.replay(trace, rule, workload, commits=2)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder, "run.npz")
            ...     half.save(path)
            ...     again = asim.Run.load(path, rule, workload)
            >>> whole = asim.replay(trace, rule, workload, resume=again)
            >>> whole.commits, bool(whole.central["x"] == asim.replay(trace, rule, workload).central["x"])
            (4, True)
        """
        return cls(**run_file.read(path, rule, workload))


def each_seed(central: Any) -> list[Any]:
    """Return the central variable of each seed on the device, from arrays with a leading axis `seeds`."""
    seeds = len(jax.tree.leaves(central)[0])
    return [jax.device_put(jax.tree.map(lambda leaf: leaf[i], central)) for i in range(seeds)]  # noqa: B023


def evaluate(measure: Callable[[Any], Mapping[str, Any]] | None, centrals: Iterable[Any]) -> dict[str, np.ndarray]:
    """Return a function's measures of central variables, name -> (seeds, …), or {} without one."""
    if measure is None:
        return {}
    measured = [measure(central) for central in centrals]
    return {name: np.array([of_seed[name] for of_seed in measured]) for name in measured[0]}


def evaluate_variables(
    workload: Workload, params: Packing, state: Carry, names: Iterable[str]
) -> dict[str, np.ndarray]:
    """Return what is measured of several variables by these names, name -> (seeds,)."""
    names, measured = [*names], {}
    if CONSENSUS in names:
        measured[CONSENSUS] = consensus_distance(state)
    if names == [*measured]:
        return measured
    each = [each_seed(params.unpack_on_host(value)) for value in local_variables(state)]
    if OUTPUTS in names:
        measured[OUTPUTS] = np.array([output_distance(workload.outputs, values) for values in zip(*each, strict=True)])
    if worst := [name.removeprefix(WORST) for name in names if name.startswith(WORST)]:
        values = [evaluate(workload.evaluate, of_seeds) for of_seeds in each]
        for name in worst:
            least_or_most = np.min if metric(name).larger_is_better else np.max
            measured[WORST + name] = least_or_most([value[name] for value in values], axis=0)
    return measured


def output_distance(outputs: Callable[[Any], Any], values: Iterable[Any]) -> float:
    """Return (1/n) Σ |f(x_i) - f̄|² of n values, the mean over the examples, which are the first axis of f."""
    mean, squares, count = np.zeros(1), 0.0, 0
    for count, value in enumerate(values, 1):  # One after another, so that few of them are in memory.
        new = np.asarray(outputs(value), np.float64)
        before, mean = new - mean, mean + (new - mean) / count
        squares += float(np.sum(before * (new - mean)))
    return squares / (count * len(mean))


class History:
    def __init__(self, strides: Mapping[str, int], seeds: int, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.strides = dict(strides)
        self.seeds = seeds
        self.shapes = dict(shapes)
        self.losses: list[np.ndarray] = []
        self.values: dict[str, list[np.ndarray]] = {name: [] for name in strides}
        self.at: dict[str, list[np.ndarray]] = {name: [] for name in strides}

    def add(self, start: int, stop: int, out: Mapping[str, Any]) -> None:
        self.losses.append(np.asarray(out["loss"])[: stop - start])
        for name in self.strides.keys() & out.keys():
            recorded = np.flatnonzero(np.arange(start + 1, stop + 1) % self.strides[name] == 0)
            self.add_record(name, start + recorded, np.asarray(out[name])[: len(recorded)])

    def add_record(self, name: str, at: np.ndarray, values: np.ndarray) -> None:
        """Add records of the commits `at`, values of shape (records, seeds, …)."""
        self.at[name].append(np.asarray(at, np.int64))
        # NumPy's functions do not know the dtypes that JAX adds, such as bfloat16.
        self.values[name].append(values.astype(np.float32) if values.dtype.kind == "V" else values)

    def restore(self, run: Run) -> None:
        back = (lambda array: np.moveaxis(array, 0, 1)) if run.several else (lambda array: array[:, None])
        self.losses.append(back(run.loss))
        for name in self.strides.keys() & run.records.keys():
            if len(run.recorded_at[name]):
                self.add_record(name, run.recorded_at[name], back(run.records[name]))

    def loss(self) -> np.ndarray:
        """Return the losses, (commits, seeds)."""
        return np.concatenate(self.losses) if self.losses else np.zeros((0, self.seeds), np.float32)

    def records(self) -> dict[str, np.ndarray]:
        """Return name -> (records, seeds, …)."""
        none = {name: np.zeros((0, self.seeds, *self.shapes.get(name, ()))) for name in self.strides}
        return {name: np.concatenate(values) if values else none[name] for name, values in self.values.items()}

    def recorded_at(self) -> dict[str, np.ndarray]:
        """Return name -> (records,) numbers of the commits."""
        return {name: np.concatenate([np.zeros(0, np.int64), *at]) for name, at in self.at.items()}
