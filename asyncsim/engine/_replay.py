"""Replay a trace: the host prepares a chunk while the device works on the one before."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim._checks import brief, require_not_negative
from asyncsim._metrics import counted
from asyncsim.components import _code_hash as code
from asyncsim.components._checked import checked
from asyncsim.components._remember import cached_per_object
from asyncsim.engine import _loop as loop
from asyncsim.engine import _preconditions as preconditions
from asyncsim.engine._chunks import Feeder, chunk_end, chunk_length, diverged_end, room
from asyncsim.engine._devices import choose_lanes, warn_of_idle_cores
from asyncsim.engine._layout import (
    Carry,
    Layout,
    Packing,
    Problem,
    copied,
    groups_of,
    outer_packing,
    result_packing,
    row_packing,
    value_of_variables,
)
from asyncsim.engine._plan import PUSHES, bind, make_plan, warn_of_lacking_rounds
from asyncsim.engine._quantities import (
    FINITE,
    Record,
    as_mapping,
    by_stride,
    of_variables,
    own_measures,
    with_functions,
)
from asyncsim.engine._run import History, Run, each_seed, evaluate, evaluate_variables
from asyncsim.engine._validation import (
    first_params,
    first_shapes,
    hash_user_code,
    metrics,
    require_numbers,
    try_measures,
    try_rule,
    try_workload,
    worker_metrics,
)
from asyncsim.rules import Rule
from asyncsim.rules._hierarchy import for_regions
from asyncsim.rules._rule import windows_of
from asyncsim.rules._schedules import is_scheduled
from asyncsim.trace import Trace
from asyncsim.workloads import Workload
from asyncsim.workloads._batches import init_key, worker_keys
from asyncsim.workloads._workload import as_pytree

FEW_PARAMETERS = 4096  # up to which the initial parameters of a replay are cached for the next one
SHOWN_COMMITS = 5  # of each worker, in the loss of `Progress`: few enough to be recent, many enough to be steady


class Progress(NamedTuple):
    """The progress of a replay.

    Attributes:
        done: Commits handed to the device so far, including those of an earlier run that is resumed.
        total: Commits wanted.
        loss: Mean mini-batch loss, over all seeds, of the last few commits whose results have been collected. None
            before there are any.
    """

    done: int
    total: int
    loss: float | None


class Replayer:
    """A replay in progress, with the arguments of `asyncsim.replay`, which runs it to its end.

    Attributes:
        done: Commits handed to the device so far.
        total: Commits wanted.
    """

    def __init__(
        self,
        trace: Trace,
        rule: Rule,
        workload: Workload,
        seed: int | Sequence[int] = 0,
        *,
        record: Record | None = None,
        commits: int | None = None,
        resume: Run | None = None,
        lanes: int | None = None,
    ) -> None:
        self.version = code.version_of(rule=rule, workload=workload, record=own_measures(record or ()))
        with code.traced_as(self.version):
            workload.require_workers(trace.computing)
            self.rule, bound = bind(rule, trace)
            warn_of_lacking_rounds(self.rule, trace)
            self.plan = make_plan(bound, workload.counts, workload.asks_behaviour)
            self.workload = workload
            self.resume = resume
            self.seed, self.seeds = preconditions.require_seeds(seed, self.rule)
            self.total = preconditions.require_commits(commits, len(bound))
            self.user_code = hash_user_code(self.rule, workload, () if record is None else record)
            first, draws, drawn, self.metrics, self.each = _tried(workload, jnp.result_type(float).name, self.user_code)
            self.params = Packing.of(first).seen_by(self.rule)
            self.uses_keys = draws or self.rule.draws
            self.groups = groups_of(workload, bound, first)
            self._choose_records(record, bound.workers)
            self._lay_out(bound, drawn, lanes)
            self._begin()

    def _choose_records(self, record: Record | None, workers: int) -> None:
        """Decide which quantities the program records, and refuse a resumed run that is another one."""
        self.of_variables = ()
        if self.plan.variables > 1:
            self.of_variables = of_variables(self.metrics, self.workload.outputs is not None)
        measures = (*self.metrics, *self.each, *self.of_variables)
        info = try_rule(self.rule, self.params, self.groups)
        record = record if record is None else with_functions(as_mapping(record), self.workload.quantities)
        self.strides, self.own = preconditions.require_record(record, self.resume, workers, measures)
        self.evaluated = [name for name in self.strides if name in measures]
        self.pauses = [self.strides[name] for name in self.evaluated]
        self.compiled = {name: every for name, every in self.strides.items() if name not in measures}
        if self.resume is not None:
            preconditions.require_same(self.resume, self.seed, self.rule, self.plan, self.params.size, self.total)
        shapes = try_measures(self.rule, self.params, info, self.compiled, self.own)
        preconditions.require_memory_of_records(shapes, self.compiled, seeds=len(self.seeds), commits=self.total)
        if self.resume is not None:
            preconditions.require_same_records(self.resume, shapes)
        self.shapes = {name: shape.shape for name, shape in shapes.items()}
        self.recorded = preconditions.bytes_recorded(shapes, self.compiled)  # of a seed

    def _lay_out(self, trace: Trace, drawn: int, lanes: int | None) -> None:
        """Choose the program, its lanes and the length of its chunks, and bring the problem to the device."""
        rule, workload, newest = self.rule, self.workload, self.workload.asks_behaviour
        window = int(np.max(rule.window))
        length, self.length_alone = (
            chunk_length(self.params.size, workload.batch_size, seeds, window, seeds * self.recorded, drawn)
            for seeds in (len(self.seeds), 1)
        )
        by_every = by_stride(self.compiled)
        gradient_size = self.params.size * workload.batch_size
        commits_left = self.total - (0 if self.resume is None else self.resume.commits)
        # Where gradients are taken at the newest parameters, only those of one step can be taken together.
        most_lanes = int(np.bincount(trace.version).max(initial=1)) if newest else trace.computing
        warn_of_idle_cores(lanes, most_lanes, gradient_size, commits_left)
        self.layout = Layout(
            params=self.params,
            row=row_packing(rule, self.params, self.plan.traits),
            result=result_packing(rule, self.params),
            traits=self.plan.traits,
            groups=self.groups,
            variables=self.plan.variables,
            sent=self.plan.sent,
            servers=self.plan.servers,
            outer=outer_packing(rule, self.params, self.plan.traits),
            every_commit=by_every.pop(1, ()),
            periodic=tuple(by_every.values()),
            room=tuple(room(length, every) for every in by_every),
            gradient_by_worker=workload.by_worker,
            noise_by_worker=workload.noise_by_worker,
            newest=newest,
            **choose_lanes(lanes, most_lanes, gradient_size)._asdict(),
        )
        preconditions.require_memory(
            rule, self.params, self.layout.row, workers=trace.workers, seeds=len(self.seeds), commits=self.total
        )
        problem = Problem(
            rule=rule,
            gradient=workload.loss_and_gradient,
            noise=workload.sampler,
            data=workload.device_data,
            keys=worker_keys(self.seeds, trace.workers),
            measures={name: as_pytree(measure) for name, measure in self.own.items()},
        )
        self.problem = self.layout.shared(problem)
        self.longest = window if rule.steps_locally else None
        windows = windows_of(rule, trace.computing) if rule.steps_locally else None
        lanes, versions = self.layout.lanes, is_scheduled(rule)
        self.feeder = Feeder(self.plan, workload, self.seeds, tuple(by_every), length, lanes, versions, windows)
        self.chunk = lru_cache(maxsize=1)(self.feeder.chunk)
        self.digest = cache(self.plan.digest)

    def restarted_with(self, rule: Rule) -> "Replayer":
        """Return a replay from the start that differs in the rule's numbers alone, with the preparation of this one."""
        new = copy(self)
        new.rule, new.resume = for_regions(rule.for_workers(self.plan.computing), self.plan.servers), None
        if jax.tree.structure(new.rule) != jax.tree.structure(self.rule) or new.rule.collect != self.rule.collect:
            raise ValueError(f"`rule` must differ from {self.rule!r} in numbers alone; got {brief(rule)}.")
        preconditions.require_seeds(self.seed, new.rule)
        require_numbers(new.rule, self.params.dtype)
        new.problem = self.layout.shared(self.problem._replace(rule=new.rule))
        with code.traced_as(self.version):
            new._begin()
        return new

    def _begin(self) -> None:
        resume = self.resume
        self.history = History(self.strides, len(self.seeds), self.shapes)
        if resume is not None:
            self.history.restore(resume)
        self.carry, self.done = self._start()
        self.diverged: list[int | None] = list(resume.divergences) if resume is not None else [None] * len(self.seeds)
        # Place of a seed -> end of the chunk in which it diverged.
        self.broken = {seed_index: commit + 1 for seed_index, commit in enumerate(self.diverged) if commit is not None}
        self._pending: tuple[int, int, dict[str, jax.Array], jax.Array] | None = None
        # An interruption sees a divergence at once, and a replay without one stops only here.
        commits = [commit for commit in self.diverged if commit is not None]
        self.until = diverged_end(max(commits), self.feeder.length, self.total, self.pauses) if commits else 0

    def advance(self) -> None:
        """Hand the next chunk to the device, then collect the results of the one before."""
        # A chunk ends where the workload is to be evaluated, which happens on the host.
        start, stop = self.done, chunk_end(self.done, self.feeder.length, self.total, self.pauses)
        self.carry, out, finite = self._replay(self.carry, start, stop, self.layout)
        self._collect()
        self.done = stop
        self._pending = (start, stop, out, finite)
        evaluated_now = [name for name in self.evaluated if stop % self.strides[name] == 0]
        if evaluated_now:
            self._collect()
            values = self.evaluate(evaluated_now)
            for name in evaluated_now:
                self.history.add_record(name, np.array([stop - 1]), values[name][None])

    def evaluate(self, names: Sequence[str]) -> dict[str, np.ndarray]:
        """Return these and perhaps others of the workload's measures of the central variables, name -> (seeds, …)."""
        central, of_variables = each_seed(self.central()), [name for name in self.of_variables if name in names]
        values = evaluate_variables(self.workload, self.params, self.carry, of_variables)
        for measure, measures in ((self.workload.evaluate, self.metrics), (self.workload.evaluate_workers, self.each)):
            if not set(measures).isdisjoint(names):
                values |= evaluate(measure, central)
        return values

    def finished(self, stop_on_divergence: bool = True) -> bool:
        """Return whether nothing is left to do, or nothing finite is left to do it with."""
        diverged = len(self.broken) == len(self.seeds) and self.done >= self.until
        return self.done >= self.total or (stop_on_divergence and diverged)

    def end_alone(self, diverged: int) -> int:
        """Return where a replay of one seed alone would stop that diverges at a commit."""
        return diverged_end(diverged, self.length_alone, self.total, self.pauses)

    def progress(self) -> Progress:
        """Return the progress of the replay, without waiting for the device."""
        last = self.history.losses[-1][-SHOWN_COMMITS * self.plan.workers :] if self.history.losses else np.empty(0)
        return Progress(self.done, self.total, float(np.mean(last)) if last.size else None)

    def central(self) -> Any:
        """Return the central variables, NumPy arrays with leading axis `seeds`. Waits for the device."""
        return self.params.unpack_on_host(value_of_variables(self.carry.central, PUSHES in self.plan.traits))

    def run(self) -> Run:
        """Return the result so far. The replay may continue afterwards."""
        self._collect()
        self._find_divergences()
        last, several, central = self.done >= self.total, not isinstance(self.seed, int), self.central()
        # From (commits, seeds, …) to (seeds, commits, …), or without an axis of seeds.
        lead = (lambda array: np.moveaxis(array, 1, 0)) if several else (lambda array: array[:, 0])
        return Run(
            seed=self.seed,
            workers=self.plan.workers,
            servers=self.plan.servers,
            commits=self.done,
            loss=lead(self.history.loss()),
            records={name: lead(values) for name, values in self.history.records().items()},
            recorded_at=self.history.recorded_at(),
            strides=self.strides,
            own=self.own,
            worker=self.plan.worker[: self.done],
            traits=self.plan.traits,
            digest=self.digest(self.done),
            central=jax.device_put(central if several else jax.tree.map(lambda leaf: leaf[0], central)),
            diverged_at=list(self.diverged) if several else self.diverged[0],
            # The next chunk would reuse the state's memory.
            state=self.carry if last else copied(self.carry),
            rule=self.rule,
            workload=self.workload,
        )

    def _start(self) -> tuple[Carry, int]:
        """Return the state to begin with, and the commits that it has behind it."""
        if self.resume is not None:
            return self.layout.shared(copied(self.resume.state)), self.resume.commits
        first_of = _cached_first_vector if self.params.size <= FEW_PARAMETERS else _first_vector
        first = np.stack([first_of(self.workload, seed, self.user_code) for seed in self.seeds])
        # Another workload or record needs no other program, and another rule seldom does.
        of_trace = {name: getattr(self.layout, name) for name in ("traits", "variables", "sent", "servers", "outer")}
        layout = Layout(self.params, self.layout.row, **of_trace)
        rule = loop.as_begun(self.rule, layout.traits)
        return self.layout.shared(loop.begin(rule, first, layout=layout, workers=self.plan.computing)), 0

    def _replay(self, carry: Carry, start: int, stop: int, layout: Layout) -> Any:
        if (rest := self.feeder.before(start)) is not None:
            carry = loop.prepare(
                carry, rest, self.problem, layout=replace(layout, every_commit=(), periodic=(), room=())
            )
        count, chunk = self.chunk(start, stop)
        if self.uses_keys:
            windows = self.feeder.windows if isinstance(self.rule.window, tuple) else None
            if windows is not None:  # Servers of regions have keys, which nothing uses.
                windows = np.append(windows, np.ones(self.plan.servers, np.int32))
            keys = loop.commit_keys(self.problem.keys, chunk.worker, chunk.job, windows, longest=self.longest)
            chunk = chunk._replace(keys=layout.shared(keys))
        # A search for divergence records nothing now and then.
        chunk = chunk if layout.periodic else chunk._replace(records_before=())
        return loop.replay_chunk(carry, count, chunk, self.problem, layout=layout)

    def _collect(self) -> None:
        if self._pending is None:
            return
        start, stop, out, finite = self._pending
        self._pending = None
        self.history.add(start, stop, out)
        sound = np.asarray(finite) & np.isfinite(np.asarray(out["loss"])[: stop - start]).all(0)
        for seed_index in np.flatnonzero(~sound):
            self.broken.setdefault(int(seed_index), stop)

    def _find_divergences(self) -> None:
        """Find the first commit with a non-finite loss or central variable, for each seed that lacks it."""
        todo = {seed_index: stop for seed_index, stop in self.broken.items() if self.diverged[seed_index] is None}
        if not todo:
            return
        carry, start = self._start()
        # Chunks say only that something was not finite at their end. So the replay is repeated, and each commit is
        # watched.
        watching = replace(self.layout, every_commit=(FINITE,), periodic=(), room=())
        while todo:
            stop = min(start + self.feeder.length, self.total)
            carry, out, _ = self._replay(carry, start, stop, watching)
            finite = np.asarray(out[FINITE])[: stop - start]
            for seed_index in [seed_index for seed_index in todo if not finite[:, seed_index].all()]:
                self.diverged[seed_index] = start + int(finite[:, seed_index].argmin())
                del todo[seed_index]
            todo = {seed_index: end for seed_index, end in todo.items() if end > stop}
            start = stop


@cached_per_object
def _tried(
    workload: Workload, precision: str, user_code: str
) -> tuple[Any, bool, int, tuple[str, ...], tuple[str, ...]]:
    """Try a workload once for many replays: its first shapes, whether it uses keys, how much it draws, its metrics."""
    del precision, user_code  # The key: shapes have dtypes, and functions may read arrays that have changed.
    workload.require_precision()
    key, drawn = init_key(0), ()
    first = first_shapes(workload, key)
    draws = try_workload(workload, first, key)
    if workload.sampler is not None:
        whose = [jax.ShapeDtypeStruct((), jnp.int32)] if workload.noise_by_worker else []
        drawn = jax.eval_shape(workload.sampler, key, *whose)
    size = sum(leaf.size for leaf in jax.tree.leaves(drawn))
    return jax.eval_shape(lambda: first), draws, size, metrics(workload, first), worker_metrics(workload, first)


def _first_vector(workload: Workload, seed: int, user_code: str) -> np.ndarray:
    del user_code  # The key: `init` may read an array that has changed.
    params = first_params(workload, init_key(seed))
    return Packing.of(params).pack(params, np)


# Many short replays of one seed differ in their step sizes only.
_cached_first_vector = cached_per_object(_first_vector)


class ReplayInterrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM came during a replay.

    Attributes:
        run: The run so far, ready to be resumed.
        signal: The number of the signal.
    """

    def __init__(self, run: Run, signal: int = signal.SIGINT) -> None:
        super().__init__(f"interrupted after {counted(run.commits, 'commit')}")
        self.run = run
        self.signal = signal


@checked
def replay(
    trace: Trace,
    rule: Rule,
    workload: Workload,
    seed: int | Sequence[int] = 0,
    *,
    record: Record | None = None,
    commits: int | None = None,
    resume: Run | None = None,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Callable[[Run], None] | None = None,
    checkpoint_every: float = 60.0,
    stop_on_divergence: bool = True,
    lanes: int | None = None,
) -> Run:
    """Train a model on a schedule: take and apply every gradient at the version that the trace names.

    You can replay every valid trace: workers may wait, crash and begin anew, pull early, and the server may collect
    several commits in a step. Worker w's j-th mini-batch and random key depend on (seed, w, j) only, so rules that you
    replay with one seed are compared in pairs. `asyncsim.engine.reference.replay_plainly` is the definition. This
    function computes the same, compiled, in chunks of some thousand commits.

    Args:
        trace: The schedule.
        rule: Update rule. A hyper-parameter may be an array with one value per seed, with the results that each value
            has alone.
        workload: Loss and data.
        seed: A seed, or several that are replayed together (batched) over the same trace.
        record: Names of quantities to record (see below), or name -> commits from one record to the next (None for the
            default). A function of your own is recorded under any other name: name -> function, or `(function, every)`.
            It receives a `CommitView` and returns an array. By default nothing, or the records of the resumed run.
        commits: Number of commits of the trace to replay, by default all.
        resume: A run of the same trace, rule, workload and seed to continue. The result equals that of an
            uninterrupted replay bit for bit.
        progress: Called with a `Progress(done, total, loss)` after every chunk: commits done and wanted, and the mean
            loss of the last few commits so far, or None. A KeyboardInterrupt that it raises counts as Ctrl-C.
        checkpoint: Called now and then with the `Run` so far, which can be saved and resumed.
        checkpoint_every: Least time between two checkpoints, in seconds, or 0 for one after every chunk.
        stop_on_divergence: Leave out the rest once every seed has a non-finite state.
        lanes: Gradients taken together. By default one on a CPU, and one for each worker (at most 64) on an accelerator
            or where several devices share them (see `asyncsim.use_all_cores`).

    You can record, of a gradient taken at s and a commit that makes the central variable θ:
        - "energy_central": Σ ½(θ - s)², the energy of the central variable's displacement since s was read.
        - "energy_proxy": Σ ½(κm)², the energy of the rule's proxy.
        - "compliance": energy_central / energy_proxy.
        - "pi_mean": Mean of the scaling π over all parameters.
        - "pi_median": Its median over all parameters.
        - "pi_median_by_tensor": Its median in each tensor, in the order of the pytree's leaves.
        - "central": θ itself, and "read": s itself, all parameters in one vector. `Run.unpacked` makes pytrees of them.
        - The workload's own quantities by their names, such as "effective_sample_size" of `workloads.Bits`.
        - Of n variables, each after the commit and the mixings that follow it, without those that are a part of the
          next commit: "consensus_distance", (1/n) Σ |x_i - x̄|², whose mean x̄ is what is evaluated; "worst_test_loss",
          "worst_test_accuracy" and so on, the worst of the n values of what `evaluate` measures; and
          "output_distance", the same distance between the workload's `outputs`, the mean over test examples of
          (1/n) Σ |p(x_i) - p̄|², where p are the probabilities of a classifier.
        - "test_loss", "test_accuracy" and all else that the workload's `evaluate` measures of θ, by its name.

        By default medians are recorded at every n-th commit of n workers, the test at every 50 n-th, and all else at
        every one. The proxy's energy and π exist for rules that report them, such as GEM.

        A function of your own is part of the compiled program, so give one that JAX can trace, at module level: a new
        closure or lambda compiles a new program. Arrays that it needs may be bound by `jax.tree_util.Partial`.

    Returns:
        A `Run`.

    Raises:
        ValueError: If an argument is out of range, also once it is rounded to the type of the parameters (a step size
            of 1e-300 is 0 in float32, and a momentum of 0.9999999999 is 1), or the trace is not valid.
        ReplayInterrupted: On Ctrl-C or SIGTERM, with the run so far. A second one does not wait for the chunk to end.

    Example:
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=4, compute=asim.delays.Exponential(mean=1.0))
        >>> trace = asim.simulate(cluster, commits=200, seed=0)
        >>> rule, workload = asim.rules.GEM(learning_rate=0.01), asim.workloads.Quadratic([1.0, 0.5])
        >>> run = asim.replay(trace, rule, workload, record=("energy_central",))
        >>> run
        Run(gem on quadratic, 4 workers, 200 commits, seed 0; loss, energy_central)
        >>> run.loss.shape, run.records["energy_central"].shape, run.diverged_at
        ((200,), (200,), None)
        >>> half = asim.replay(trace, rule, workload, commits=100)
        >>> whole = asim.replay(trace, rule, workload, resume=half)
        >>> bool((whole.loss == run.loss).all())
        True

        The gradient that moved the central variable, and at every 50th commit that of the whole loss there, ∇L(θ):

        >>> import jax, jax.numpy as jnp
        >>> def gradient_norm(commit):
        ...     return jnp.linalg.norm(commit.gradient["x"])
        >>> def central_gradient(commit):
        ...     return jax.grad(workload.loss)(commit.central, None, jax.random.key(0))["x"]
        >>> record = {"gradient_norm": gradient_norm, "central_gradient": (central_gradient, 50), "central": 50}
        >>> run = asim.replay(trace, rule, workload, record=record)
        >>> run.records["gradient_norm"].shape, run.recorded_at["central_gradient"].tolist()
        ((200,), [49, 99, 149, 199])
        >>> expected = run.unpacked("central")["x"] * [1.0, 0.5]  # the gradient of Σ ½·λ·x²
        >>> bool(abs(run.records["central_gradient"] - expected).max() < 1e-6)
        True
    """
    replayer = Replayer(trace, rule, workload, seed, record=record, commits=commits, resume=resume, lanes=lanes)
    return finish(replayer, progress, checkpoint, checkpoint_every, stop_on_divergence)


def finish(
    replayer: Replayer,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Callable[[Run], None] | None = None,
    checkpoint_every: float = 60.0,
    stop_on_divergence: bool = True,
) -> Run:
    """Run a replay to its end, with arguments as for `replay`."""
    require_not_negative("checkpoint_every", checkpoint_every, remedy="Give seconds; 0 is after every chunk.")
    next_checkpoint = time.monotonic() + checkpoint_every
    finished = replayer.finished(stop_on_divergence)
    with code.traced_as(replayer.version):
        with _deferred_interrupt() as interrupted:
            while not finished:
                replayer.advance()
                # This comes before a checkpoint, which collects results that are otherwise collected later: where a
                # diverging replay stops must not depend on when checkpoints are made.
                finished = replayer.finished(stop_on_divergence)
                if progress is not None:
                    try:
                        progress(replayer.progress())
                    except KeyboardInterrupt as error:  # Between two chunks the state is complete.
                        raise ReplayInterrupted(replayer.run(), getattr(error, "signal", signal.SIGINT)) from None
                if interrupted:
                    raise ReplayInterrupted(replayer.run(), interrupted[0])
                if checkpoint is not None and time.monotonic() >= next_checkpoint:
                    checkpoint(replayer.run())
                    next_checkpoint = time.monotonic() + checkpoint_every
        return replayer.run()


@contextmanager
def _deferred_interrupt() -> Iterator[list[int]]:
    """Let Ctrl-C and SIGTERM wait for the end of a chunk, and list their numbers. A second one does not wait."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def remember(number: int, frame: Any) -> None:
        received.append(number)
        if len(received) > 1:
            signal.default_int_handler(number, frame)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, remember)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
