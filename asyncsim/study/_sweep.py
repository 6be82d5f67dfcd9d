"""Sweeps: any number of scenarios, sent as tasks to any executor, in a store that survives whatever happens.

All results live in the store, and none is computed again. To go on after Ctrl-C, a crash or a power cut, ask for the
same again. Any number of processes, on any number of hosts, may ask at once: each takes a lease on the batches that it
computes, and waits for those that others compute.

The death of a process costs its own batch and nothing else. The batch is tried again, and after three deaths it has
failed, with its reason in the store, while all others go on. An error in a replay is kept with its traceback.
"""

import os
import shutil
import tempfile
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing, suppress
from dataclasses import InitVar, dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, Unpack, overload

import numpy as np

from asyncsim import _checks as checks
from asyncsim.components._checked import checked
from asyncsim.components._code_hash import hash_reachable
from asyncsim.components._environment import settings
from asyncsim.components._user_files import own_modules
from asyncsim.costs import Power, Price
from asyncsim.pool._imports import require_not_importing
from asyncsim.pool._parcels import Packer
from asyncsim.pool._queue import Job, Outcome, Patience, Queue
from asyncsim.pool._slots import Call, slots
from asyncsim.scenario._rebuild import outside_lanes
from asyncsim.scenario._scenario import Scenario
from asyncsim.store._labels import LEASES, Origin
from asyncsim.study._batches import Batch, batches_of, blocks_of
from asyncsim.study._grid import require_scenarios, with_shared_schedules
from asyncsim.study._result_files import Result
from asyncsim.study._store import Store, open_store
from asyncsim.study._work import VERSIONS, Assignment, DifferentVersions, check_worker, work, work_on
from asyncsim.study.table import SweepTable, column, record_sweep, settings_of_sweep, table_of


class SweepProgress(NamedTuple):
    """How far a sweep has come."""

    done: int  # results in the store
    failed: int  # scenarios that have none and will have none
    total: int  # scenarios asked for
    computed: int  # results that this call computed
    seconds: float  # since the sweep began


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """Scenarios, and the store that keeps their results.

    Iterating gives the results that are there, in the order of the scenarios, each read when it comes.

    Attributes:
        scenarios: The scenarios that you asked for.
        store: Where the results are.
        computed: Digests of the results that this call computed, in the order in which they came.
        troubles: Digest -> why a scenario has no result, as far as this call met it, including full disks, which
            the store could not record.
        temporary: An object that keeps a temporary store as long as it lives.
        lanes: Digest of a scenario -> the same as it is kept, where lanes were asked for.
    """

    scenarios: tuple[Scenario, ...]
    store: Store
    computed: tuple[str, ...] = ()
    troubles: dict[str, str] = field(default_factory=dict)
    temporary: object = None
    lanes: Mapping[str, Scenario] = field(default_factory=dict)

    def __repr__(self) -> str:
        counts = Counter(self.states.values())
        states = ", ".join(f"{count} {state}" for state, count in counts.items())
        return f"Sweep({len(self.scenarios)} scenarios in {self.store.path}: {states})"

    def __len__(self) -> int:
        return len(self.scenarios)

    def __iter__(self) -> Iterator[Result]:
        for scenario in self.scenarios:
            result = self._find(scenario)
            if result is not None:
                yield result

    @cached_property
    def states(self) -> dict[str, str]:
        """Digest -> "done", "running", "failed" or "missing", when it was first asked for."""
        return self.store.states(scenario.digest for scenario in self.kept)

    @property
    def kept(self) -> tuple[Scenario, ...]:
        """The scenarios under the digests that the store has: those of lanes differ from `asyncsim.run`'s."""
        return tuple(self.lanes.get(scenario.digest, scenario) for scenario in self.scenarios)

    def _find(self, scenario: Scenario) -> Result | None:
        result = self.store.get(self.lanes.get(scenario.digest, scenario))
        return None if result is None else replace(result, scenario=scenario)

    def result(self, scenario: Scenario) -> Result:
        """Read the result of a scenario.

        Raises:
            ValueError: If there is none (it says why), or its files are damaged.
        """
        result = self._find(scenario)
        if result is None:
            digest = self.lanes.get(scenario.digest, scenario).digest
            failure = self.store.read_failure(digest) or {"reason": self.troubles.get(digest)}
            reason = failure["reason"] or "it has not been computed"
            raise ValueError(f"`scenario` {scenario!r} has no result: {reason}.")
        return result

    def table(
        self, *, power: Power | None = None, price: Price | None = None, **labels: Sequence[Any] | np.ndarray
    ) -> SweepTable:
        """Return one row per scenario: the fields in which they differ, the summary, the state, the digest.

        Args:
            power: The power of the machines, for a column `joules`.
            price: Their prices, for a column `money`.
            **labels: Further columns that count as fields, such as a name for each group: a value per scenario.

        Raises:
            ValueError: If a label has another number of values.
        """
        table = table_of(self.store, [settings_of_sweep(self.kept)], power, price)
        first: dict[str, int] = {}  # A scenario that is listed twice has one row, and the labels of its first place.
        for row, scenario in enumerate(self.scenarios):
            first.setdefault(scenario.digest, row)
        for name, values in labels.items():
            if len(values) != len(self.scenarios):
                raise ValueError(f"`{name}` must have {len(self.scenarios)} values, as many as there are scenarios.")
        columns = {name: column([values[row] for row in first.values()]) for name, values in labels.items()}
        return SweepTable({**columns, **table}, [*columns, *table.fields])


class _Options(TypedDict, total=False):
    """Arguments of `sweep` that do not decide the type of its result."""

    jobs: int | None
    executor: Executor | None
    shared_schedule: bool
    retry_failed: bool
    lanes: int | None
    patience: float | None
    run_limit: float | None
    progress: Callable[[SweepProgress], None] | None
    origin: Origin | None


@overload
def sweep(
    scenarios: Iterable[Scenario],
    store: str | os.PathLike[str] | None = None,
    *,
    wait: Literal[True] = True,
    **options: Unpack[_Options],
) -> Sweep: ...


@overload
def sweep(
    scenarios: Iterable[Scenario],
    store: str | os.PathLike[str] | None = None,
    *,
    wait: Literal[False],
    **options: Unpack[_Options],
) -> Iterator[Result]: ...


@checked
def sweep(
    scenarios: Iterable[Scenario],
    store: str | os.PathLike[str] | None = None,
    jobs: Annotated[int, checks.require_integer, "Give 0 to compute in this process."] | None = None,
    executor: Executor | None = None,
    *,
    wait: bool = True,
    shared_schedule: bool = False,
    retry_failed: bool = False,
    lanes: Annotated[int, checks.require_count, "Leave it out for runs of their own."] | None = None,
    patience: float | None = None,
    run_limit: Annotated[float, checks.require_positive, "Leave it out for no limit."] | None = None,
    progress: Callable[[SweepProgress], None] | None = None,
    origin: Origin | None = None,
) -> Sweep | Iterator[Result]:
    """Compute the scenarios whose results a store lacks, and wait for all of them, or for one after another.

    Each result is that of `asyncsim.run`, bit for bit, under the digest of its scenario (of convolutional networks on
    as many threads: processes that a sweep starts have one, and this one has if NPROC is 1). With `lanes`, several
    scenarios share one compiled program, which is faster for small models and rounds differently, so such results are
    kept under digests of their own, and marked in the table.

    Args:
        scenarios: A list of scenarios, such as `asyncsim.grid` or `asyncsim.sample` give.
        store: Folder, created if missing. The same call again resumes, and another one adds to it. By default a
            temporary one, which is there as long as the object that is returned.
        jobs: Processes to start on this machine, by default one for each core and at most one for each run. Each has
            one thread. With 0 the present process computes.
        executor: Any executor of PEP 3148 instead, such as Dask's `client.get_executor()`. It is not shut down. Its
            processes must see the store under the same path.
        wait: Without it, an iterator gives the results as they come: existing ones at once, then each when it has been
            computed, without those that fail. It computes only while you ask it, so a process that has finished its
            batch and the next one waits for you. To stop, leave the loop: results are kept.
        shared_schedule: Give scenarios that differ only in their seed the schedule of the first of them: less to
            compute, but then compute times are not averaged over.
        retry_failed: Try failed runs again, and compute damaged results again. Every file is read.
        patience: Seconds to wait for other processes that hold the last leases, or for Dask's workers when there are
            none, by default for ever. After a minute a warning names whom it waits for.
        run_limit: Seconds after which a run has failed, by default no limit. It is checked between chunks of some
            thousand commits, and a process of this machine that does not answer is killed.
        lanes: The most scenarios in one program, of those that differ only in the rule's numbers or, with one schedule,
            in their seed. By default each is replayed by itself. Sixteen take about the time of one where the model has
            a few parameters, some nine times that of one with 650, and nearly that of sixteen with some thousand.
        progress: Called with a `SweepProgress` whenever something has happened.
        origin: Where the scenarios came from, kept with their results for `asyncsim.load`.

    Returns:
        A `Sweep`, or without `wait` an iterator over `Result`s.

    Raises:
        ValueError: If the folder holds anything but a store, or an argument does not fit.
        DifferentVersions: If the executor's processes have another asyncsim or JAX.
        RuntimeError: If the sweep cannot go on though no run has failed: the executor is gone, its workers cannot see
            the store (they are named), or `patience` is over. Results are kept, and the same call goes on.
        KeyboardInterrupt: On Ctrl-C. Results are kept.

    Example:
        >>> import tempfile
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
        >>> rule, workload = asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0])
        >>> base = asim.Scenario(cluster, rule, workload, commits=8)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     results = asim.sweep(asim.grid(base, learning_rate=[0.1, 0.2]), folder, jobs=0)
        ...     table = results.table()
        >>> table["learning_rate"].tolist(), table["status"].tolist(), table["final_loss"].round(4).tolist()
        ([0.1, 0.2], ['done', 'done'], [0.1396, 0.0205])
    """
    require_not_importing()  # A process that computes imports the script, which must not start a sweep again.
    scenarios = tuple(scenario.current() for scenario in require_scenarios(scenarios))
    waits = Patience(patience)
    if shared_schedule:
        scenarios = with_shared_schedules(scenarios)
    temporary = None
    if store is None:
        temporary = _Temporary()
        store = temporary.path
    result_store = open_store(store)
    batches = batches_of(scenarios, lanes)
    in_lanes = [scenario for batch in batches for scenario in batch.scenarios] if lanes else []
    by_digest = {outside_lanes(scenario).digest: scenario for scenario in in_lanes}
    result = Sweep(scenarios, result_store, temporary=temporary, lanes=by_digest)
    job = SweepJob(result, batches, retry_failed, progress, (origin or Origin()).describe(), waits, run_limit)
    events = job.events(executor, jobs)
    if not wait:
        return job.arrivals(events)
    for _ in events:  # The work is done while the events are taken.
        pass
    return replace(result, computed=tuple(job.computed), troubles=job.troubles)


class _Temporary:
    """A folder that is there as long as this object."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="asyncsim-sweep-")
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(eq=False)
class SweepJob(Job[Batch]):
    """A sweep in progress."""

    sweep: Sweep
    batches: InitVar[Sequence[Batch]]
    retry_failed: InitVar[bool]
    progress: Callable[[SweepProgress], None] | None
    origin: Mapping[str, Any]
    patience: Patience
    run_limit: float | None
    computed: list[str] = field(default_factory=list)
    troubles: dict[str, str] = field(default_factory=dict)
    ends = (DifferentVersions,)

    def __post_init__(self, batches: Sequence[Batch], retry_failed: bool) -> None:
        self.store = store = self.sweep.store
        self.store_path, self.leases, self.begun = store.path.absolute(), store.path / LEASES, time.monotonic()
        self.settings = settings()  # Processes that compute get the settings of JAX of this one.
        self.packer = Packer(store.data, own_modules(), hash_reachable)
        self.parcels: dict[str, tuple[str, int]] = {}  # name of a batch -> its packed block, and its index in that
        self.wanted = {scenario.digest for scenario in self.sweep.kept}
        present = self.wanted & store.digests()
        self.done = {digest for digest in present if store.has(digest, check=retry_failed)}
        for digest in present - self.done:
            store.refuse_foreign(digest)  # A file of the user must be moved before anything is computed.
        if damaged := [digest for digest in present - self.done if store.is_damaged(digest)]:
            warnings.warn(
                f"{len(damaged):,} results in {str(store.path)!r} are damaged. They are computed again.", stacklevel=3
            )
        for digest in self.wanted & (present | store.list_failed()) - self.done if retry_failed else ():
            self._discard_failed(digest)
        self._read_failures(self.wanted)  # A failed run is not tried again, unless its failure was discarded.
        self.missing = [batch for batch in batches if self._lacks(batch)]
        self.blocks = {batch.name: block for block in blocks_of(self.missing) for batch in block}

    def events(self, executor: Executor | None, jobs: int | None) -> Iterator[None]:
        """Do the work, and yield whenever something has happened."""
        queue = Queue(self, self.missing)
        check = check_worker, (str(self.store_path), VERSIONS)
        with slots(executor, jobs, len(queue), check, self.settings) as workers:
            try:
                record_sweep(self.store, self.sweep.kept)
                self.store.clear()
            except OSError:
                if queue:  # Otherwise all is done, in a folder that this process may only read.
                    raise
            for _ in queue.run(workers):
                self.report_progress()
                yield
        with suppress(OSError):  # The next sweep removes what cannot be removed now.
            self.store.clear()

    def arrivals(self, events: Iterator[None]) -> Iterator[Result]:
        """Yield the results as they come. A temporary store is kept that long."""
        pairs = zip(self.sweep.kept, self.sweep.scenarios, strict=True)
        awaited = {stored.digest: scenario for stored, scenario in pairs}
        with closing(events):  # type: ignore[type-var]  # It is a generator, which stops its workers when it is closed.
            for _ in events:
                # Most events bring nothing new, so the whole list is gone through only if one does.
                arrived = awaited.keys() & self.done
                for digest in [digest for digest in awaited if digest in arrived] if arrived else ():
                    result = self.sweep._find(awaited.pop(digest))
                    if result is not None:  # A result may be damaged or removed meanwhile.
                        yield result

    def here(self, task: Batch) -> Outcome:
        """Compute a batch in this process."""
        return work_on(task, self.store, self.origin, self.run_limit)

    def call(self, task: Batch) -> Call:
        """Describe the task for another process. A block is packed when the first of its batches is needed."""
        if task.name not in self.parcels:
            block = self.blocks.pop(task.name, [task])  # A part of a batch that is tried again is in no block.
            parcel = self.packer.pack(block)
            self.parcels |= {batch.name: (parcel, index) for index, batch in enumerate(block)}
        parcel, index = self.parcels[task.name]
        return work, Assignment(str(self.store_path), parcel, index, VERSIONS, self.origin, self.run_limit)

    def receive(self, task: Batch, outcome: Outcome) -> None:
        """Count the results of a batch."""
        computed = [digest for digest, reason in outcome.value.items() if not reason]
        self.computed += computed
        self.done.update(computed)
        self.troubles |= {digest: reason for digest, reason in outcome.value.items() if reason}
        # The process had found the other results in the store.
        self._note_results(digest for digest in task.digests if digest not in outcome.value)

    def parts(self, task: Batch) -> list[Batch]:
        """Return the runs of a batch that have no results, one by one, if it has several."""
        self._note_results(task.digests)
        return task.without(self.done) if task.in_turn else []  # Lanes fail together, as they share a program.

    def discard(self, task: Batch, reason: str) -> None:
        """Keep the reason for which a batch has failed."""
        for scenario in task.scenarios:
            if not self.store.has(scenario.digest):
                self.troubles[scenario.digest] = self.store.fail(scenario, reason)

    def is_left(self, task: Batch) -> bool:
        """Tell whether the process that computed a batch left anything of it."""
        self._note_results(task.digests)
        self._read_failures(task.digests)
        return self._lacks(task)

    def report_progress(self) -> None:
        """Report the progress."""
        if self.progress is not None:
            failed = len(self.troubles.keys() - self.done)  # Another process may have computed a run that failed here.
            seconds = time.monotonic() - self.begun
            self.progress(SweepProgress(len(self.done), failed, len(self.wanted), len(self.computed), seconds))

    def _discard_failed(self, digest: str) -> None:
        """Remove a damaged result, or why there is none, so that it is computed again."""
        with self.store.lease([digest]) as is_mine:  # Another process may be computing it, or have just published it.
            if is_mine and self.store.has(digest, check=True):
                self.done.add(digest)
            elif is_mine:
                self.store.discard(digest)

    def _note_results(self, digests: Iterable[str]) -> None:
        self.done.update(filter(self.store.has, digests))

    def _read_failures(self, digests: Iterable[str]) -> None:
        for digest in ({*digests} - self.done) & self.store.list_failed():
            if failure := self.store.read_failure(digest):
                self.troubles[digest] = str(failure.get("reason"))

    def _lacks(self, batch: Batch) -> bool:
        """Tell whether something of a batch is neither done nor has failed."""
        return any(digest not in self.done and digest not in self.troubles for digest in batch.digests)
