"""Sweeps: any number of scenarios, computed by any executor, in a store that survives whatever happens.

The store is the state: what it holds is never computed again, and to go on after Ctrl-C, a crash or a power cut is to
ask for the same again. Any number of processes, on any number of hosts, may ask at once: each claims the units that it
computes, and waits for those that others have claimed.

A process that dies takes its own unit with it and nothing else: the unit is tried again, and after three deaths it has
failed, with its reason in the store, while all others go on. An error in a replay is kept with its traceback.
"""

import os
import shutil
import tempfile
import time
import warnings
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import FIRST_COMPLETED, Executor, Future
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from asyncsim import checks
from asyncsim.folders.labels import CLAIMS
from asyncsim.scenario.lanes import outside_lanes
from asyncsim.scenario.scenario import Scenario
from asyncsim.study import lease
from asyncsim.study.best import best
from asyncsim.study.origin import Origin
from asyncsim.study.patience import FOR_EVER, Patience, SweepStopped, holders_of, over
from asyncsim.study.run import Result
from asyncsim.study.seats import Seat, error_of, is_death, listed, local_seats, reason_of, seats_of, tried
from asyncsim.study.store import FAILURE, Store, open_store
from asyncsim.study.sweep_table import SweepTable, asked_for, column, remember, table_of
from asyncsim.study.transport import Packer
from asyncsim.study.units import Unit, units_of
from asyncsim.study.work import VERSIONS, DifferentVersions, Report, Task, WorkerTrouble

MOST_DEATHS = 3  # of processes, until their unit has failed
MOST_TROUBLES = 3  # of workers that cannot compute a unit, until the sweep ends
RESUMES = "Results are kept, and the same sweep goes on once this is repaired."
PATIENCE = 0.2  # seconds until units that others compute are looked at again


class SweepProgress(NamedTuple):
    """How far a sweep has come.

    Attributes:
        done: Results that are there.
        failed: Scenarios that have none and will have none.
        total: Scenarios asked for.
        computed: Results that this call computed.
        seconds: Since it began.
    """

    done: int
    failed: int
    total: int
    computed: int
    seconds: float


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """Scenarios, and the store that keeps their results.

    Iterating gives the results that are there, in the order of the scenarios, each read when it comes.

    Attributes:
        scenarios: What was asked for.
        store: Where the results are.
        computed: Digests of the results that this call computed, in the order in which they came.
        troubles: Digest -> why a scenario has no result, as far as this call met it; full disks among them, which the
            store could not keep.
        temporary: What keeps a temporary store there.
        lanes: Digest of a scenario -> the same as it is kept, where lanes were asked for.
    """

    scenarios: tuple[Scenario, ...]
    store: Store
    computed: tuple[str, ...] = ()
    troubles: dict[str, str] = None  # type: ignore[assignment]
    temporary: object = None
    lanes: Mapping[str, Scenario] = field(default_factory=dict)

    def __repr__(self) -> str:
        counts = Counter(self.states.values())
        told = ", ".join(f"{count} {state}" for state, count in counts.items())
        return f"Sweep({len(self.scenarios)} scenarios in {self.store.path}: {told})"

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
        found = self.store.get(self.lanes.get(scenario.digest, scenario))
        return None if found is None else replace(found, scenario=scenario)

    def result(self, scenario: Scenario) -> Result:
        """The result of a scenario.

        Raises:
            ValueError: If there is none (it says why), or its files are damaged.
        """
        found = self._find(scenario)
        if found is None:
            kept = self.lanes.get(scenario.digest, scenario)
            failure = self.store.failure(kept.digest) or {"reason": self.troubles.get(kept.digest)}
            reason = failure["reason"] or "it has not been computed"
            raise ValueError(f"`scenario` {scenario!r} has no result: {reason}.")
        return found

    def table(self, **labels: Sequence[Any] | np.ndarray) -> SweepTable:
        """One row per scenario: the fields in which they differ, the summary, the state, the digest.

        Args:
            **labels: Further columns that count as fields, such as a name for each group: a value per scenario.

        Raises:
            ValueError: If a label has another number of values.
        """
        table = table_of(self.store, [asked_for(self.kept)])
        first = [*{scenario.digest: place for place, scenario in reversed([*enumerate(self.scenarios)])}.values()][::-1]
        for name, values in labels.items():
            if len(values) != len(self.scenarios):
                raise ValueError(f"`{name}` must have {len(self.scenarios)} values, as many as there are scenarios.")
        columns = {name: column([values[place] for place in sorted(first)]) for name, values in labels.items()}
        return SweepTable({**columns, **table}, [*columns, *table.fields])

    def best(self, by: str = "final_loss", per: str | Sequence[str] = (), *, largest: bool | None = None) -> SweepTable:
        """The best setting of each group, as `asyncsim.best`."""
        return best(self.table(), by, per, largest=largest)


@overload
def sweep(
    scenarios: Iterable[Scenario],
    store: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    executor: Executor | None = None,
    *,
    wait: Literal[True] = True,
    shared_schedule: bool = False,
    retry_failed: bool = False,
    lanes: int | None = None,
    patience: float | None = None,
    run_limit: float | None = None,
    progress: Callable[[SweepProgress], None] | None = None,
    origin: Origin | None = None,
) -> Sweep: ...


@overload
def sweep(
    scenarios: Iterable[Scenario],
    store: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    executor: Executor | None = None,
    *,
    wait: Literal[False],
    shared_schedule: bool = False,
    retry_failed: bool = False,
    lanes: int | None = None,
    patience: float | None = None,
    run_limit: float | None = None,
    progress: Callable[[SweepProgress], None] | None = None,
    origin: Origin | None = None,
) -> Iterator[Result]: ...


def sweep(
    scenarios: Iterable[Scenario],
    store: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    executor: Executor | None = None,
    *,
    wait: bool = True,
    shared_schedule: bool = False,
    retry_failed: bool = False,
    lanes: int | None = None,
    patience: float | None = None,
    run_limit: float | None = None,
    progress: Callable[[SweepProgress], None] | None = None,
    origin: Origin | None = None,
) -> Sweep | Iterator[Result]:
    """Compute what a store lacks of these scenarios, and wait for all of them, or for one after another.

    Each result is that of `asyncsim.run`, to the last bit, under the digest of its scenario. With `lanes`, several
    scenarios share one compiled program, which is faster for small models and rounds differently; such results are
    kept under digests of their own, and marked in the table.

    Args:
        scenarios: What to compute, such as `asyncsim.grid` or `asyncsim.sample` give.
        store: Folder; created if missing. The same call again goes on; another one adds to it. By default a temporary
            one, which is there as long as what is returned.
        jobs: Processes on this machine; by default one for each core.
        executor: Any executor of PEP 3148 instead, such as Dask's `client.get_executor()`. It is not shut down. Its
            processes must see the store under the same path.
        wait: Without it, an iterator gives the results as they come: at once those that are there, then each when it
            has been computed; not those that fail. It computes while it is asked; a process that has finished its unit
            and the next one waits for you. To stop, leave the loop: what is done is kept.
        shared_schedule: Give scenarios that differ only in their seed the schedule of the first of them: less to
            compute, but then compute times are not averaged over.
        retry_failed: Try again what failed before, and compute again what is damaged: every file is read.
        patience: Seconds to wait for other processes that have claimed what is left, or for Dask's workers when there
            are none; by default for ever. After a minute a warning says who is waited for.
        run_limit: Seconds that a run may take; one that takes longer has failed. It is looked at between chunks of some
            thousand commits, and a process of this machine that does not answer is killed. By default no limit.
        lanes: The most scenarios in one program, of those that differ only in the rule's numbers or, with one schedule,
            in their seed; by default each is replayed by itself. Sixteen take about the time of one where the model has
            a few parameters, and the time of sixteen where it is a network.
        progress: Called with a `SweepProgress` whenever something has happened.
        origin: Where the scenarios came from, kept beside their results for `asyncsim.load`.

    Returns:
        A `Sweep`; without `wait`, an iterator over `Result`s.

    Raises:
        ValueError: If the folder holds anything but a store, or an argument does not fit.
        DifferentVersions: If the executor's processes have another asyncsim or JAX.
        RuntimeError: If the sweep cannot go on though no run has failed: the executor is gone, its workers cannot see
            the store (they are named), or `patience` is over. What is done is kept; the same call goes on.
        KeyboardInterrupt: On Ctrl-C; what is done is kept.

    Example:
        >>> import tempfile
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
        >>> rule, workload = asim.rules.Downpour(0.1), asim.workloads.quadratic([1.0])
        >>> base = asim.Scenario(cluster, rule, workload, commits=8)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     results = asim.sweep(asim.grid(base, learning_rate=[0.1, 0.2]), folder, jobs=0)
        ...     table = results.table()
        >>> table["learning_rate"].tolist(), table["status"].tolist(), table["final_loss"].round(4).tolist()
        ([0.1, 0.2], ['done', 'done'], [0.1396, 0.0205])

        One result after another:

        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for result in asim.sweep(asim.grid(base, learning_rate=[0.1, 0.2]), folder, jobs=0, wait=False):
        ...         print(result.scenario.rule, round(result.summary["final_loss"], 4))
        Downpour(learning_rate=0.1, window=1) 0.1396
        Downpour(learning_rate=0.2, window=1) 0.0205
    """
    asked = tuple(scenario.current() for scenario in _require_scenarios(scenarios))
    if jobs is not None:
        jobs = checks.require_integer("jobs", jobs, least=0, remedy="Give 0 to compute in this process.")
    if run_limit is not None:
        run_limit = checks.require_positive("run_limit", run_limit, remedy="Leave it out for no limit.")
    if patience is not None:
        checks.require_not_negative("patience", patience, remedy=FOR_EVER)
    if lanes is not None:
        lanes = checks.require_integer("lanes", lanes, least=1, remedy="Leave it out for runs of their own.")
    if shared_schedule:
        asked = with_shared_schedules(asked)
    temporary = None
    if store is None:
        temporary = _Temporary()
        store = temporary.path
    place = open_store(store)
    told = (origin or Origin()).describe()
    units = units_of(asked, lanes)
    placed = {outside_lanes(one).digest: one for unit in units for one in unit.scenarios} if lanes else {}
    found = Sweep(asked, place, temporary=temporary, lanes=placed)
    work = _Sweeping(found.kept, place, units, retry_failed, progress, told, Patience(patience), run_limit)
    events = _events(work, found.kept, executor, jobs)
    if not wait:
        return _arrivals(work, found, events)
    for _ in events:
        pass
    return replace(found, computed=tuple(work.computed), troubles=work.troubles)


class _Temporary:
    """A folder that is there as long as this object."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="asyncsim-sweep-")
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def _events(
    work: "_Sweeping", asked: Sequence[Scenario], executor: Executor | None, jobs: int | None
) -> Iterator[None]:
    """Do the work; stops whenever something has happened."""
    with _seats(executor, jobs, len(work.queue) + len(work.waiting)) as seats:
        try:
            remember(work.store, asked)
            work.store.clear()
        except OSError:
            if work.queue:  # else all is there, in a folder that this process may only read
                raise
        yield from work.run(seats) if seats else work.run_here()
    with suppress(OSError):
        work.store.clear()


def _arrivals(work: "_Sweeping", found: Sweep, events: Iterator[None]) -> Iterator[Result]:
    """The results as they come; a temporary store is kept that long."""
    left = {kept.digest: scenario for kept, scenario in zip(found.kept, found.scenarios, strict=True)}
    with closing(events):  # type: ignore[type-var]  # a generator
        for _ in events:
            come = left.keys() & work.done
            for one in [one for one in left if one in come] if come else ():
                result = found._find(left.pop(one))
                if result is not None:
                    yield result


def _seats(executor: Executor | None, jobs: int | None, units: int) -> AbstractContextManager[list[Seat]]:
    """Where units are computed; nowhere but in this process if there are no jobs."""
    if executor is not None:
        return seats_of(executor)
    return nullcontext([]) if jobs == 0 else local_seats(jobs, units)


def with_shared_schedules(scenarios: Iterable[Scenario]) -> tuple[Scenario, ...]:
    """The scenarios, of which those that differ only in their seed have the compute times of the first of them.

    Example:
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
        >>> rule, workload = asim.rules.Downpour(0.1), asim.workloads.quadratic([1.0])
        >>> base = asim.Scenario(cluster, rule, workload, commits=8)
        >>> [scenario.schedule_seed for scenario in with_shared_schedules(asim.grid(base, seed=[3, 4]))]
        [3, 3]
    """
    first: dict[str, int] = {}
    changed = []
    for scenario in scenarios:
        if scenario.trace is not None:  # a recorded one, which all seeds have anyway
            changed.append(scenario)
            continue
        of_all = replace(scenario, seed=0, schedule_seed=None).schedule_digest
        seed = first.setdefault(of_all, scenario.seed)
        changed.append(replace(scenario, schedule_seed=seed))
    return tuple(changed)


class _Sweeping:
    """A sweep in progress.

    Args:
        asked: All scenarios.
        store: The store.
        units: The units of all scenarios, whether they are there or not.
        retry_failed: Whether to try again what failed before.
        progress: Called now and then.
        origin: Where the scenarios came from.
        patience: For others.
        run_limit: Seconds that a run may take, or None.
    """

    def __init__(
        self,
        asked: tuple[Scenario, ...],
        store: Store,
        units: Sequence[Unit],
        retry_failed: bool,
        progress: Callable[[SweepProgress], None] | None,
        origin: Mapping[str, Any],
        patience: Patience,
        run_limit: float | None,
    ) -> None:
        self.store = store
        self.origin = origin
        self.progress = progress
        self.begun = time.monotonic()
        self.computed: list[str] = []
        self.troubles: dict[str, str] = {}
        self.patience = patience
        self.run_limit = run_limit
        self.deaths: Counter[str] = Counter()
        self.worker_troubles: Counter[str] = Counter()
        self.killed: set[str] = set()  # names of units whose process was killed because they took too long
        self.waiting: deque[Unit] = deque()  # for other processes, which have claimed them
        self.packer = Packer(store.data)
        self.wanted = {scenario.digest for scenario in asked}
        self.done = {one for one in self.wanted if store.has(one, check=retry_failed)}
        if damaged := [one for one in self.wanted - self.done if store.is_damaged(one)]:
            warnings.warn(
                f"{len(damaged):,} results in {str(store.path)!r} are damaged. They are computed again.", stacklevel=3
            )
        if retry_failed:
            for one in self.wanted - self.done:
                store.discard(one)
        states = store.states(self.wanted - self.done)
        for one, state in states.items():
            if state == FAILURE:
                failure = store.failure(one)
                self.troubles[one] = str(failure and failure.get("reason"))
        self.queue = _Queue([unit for unit in units if self._lacks(unit)])

    def run_here(self) -> Iterator[None]:
        """Compute everything in this process, one unit after another; stops whenever something has happened."""
        from asyncsim.study.work import work_on

        self._tell()
        yield
        while (unit := self.queue.next("")) or self.waiting:
            if unit is None:
                self._look_at_waiting()
                continue
            self.patience.end()
            self._receive(unit, work_on(unit, self.store, self.origin, self.run_limit))
            self._tell()
            yield

    def run(self, seats: list[Seat]) -> Iterator[None]:
        """Compute everything at some seats; stops whenever something has happened, with all seats at work."""
        self._tell()
        for seat in seats:
            self._fill(seat, seats)
        yield
        while self.queue or self.waiting or any(seat.units or seat.suspects for seat in seats):
            for seat in seats:
                self._fill(seat, seats)
            begun = [future for seat in seats for future in seat.units]
            if not begun:
                self._look_at_waiting()
                continue
            done, _ = futures.wait(begun, timeout=PATIENCE if self.waiting else 1.0, return_when=FIRST_COMPLETED)
            if done:
                self.patience.end()
            else:
                self._look_for_workers(seats)
            for seat in seats:
                broken = [future for future in done if future in seat.units and self._died(future)]
                for future in [future for future in done if future in seat.units and future not in broken]:
                    self._collect(seat, future)
                if broken:
                    self._mourn(seat, broken)
                over_limit = seat.kill_if_over(self.run_limit)
                if over_limit is not None:
                    self.killed.add(over_limit.name)
            if self.waiting:
                self._look_at_waiting(0.0)
            if done:
                self._tell()
                for seat in seats:
                    self._fill(seat, seats)
                yield

    def _fill(self, seat: Seat, seats: list[Seat]) -> None:
        while seat.is_free:
            if seat.suspects:
                unit: Unit | None = seat.suspects[0]
            else:
                others = {other.program for other in seats if other is not seat and other.units}
                unit = self.queue.next(seat.program, others)
            if unit is None:
                return
            task = self._task(unit)
            try:
                seat.submit(unit, task)
            except Exception as error:
                if not seat.owned:
                    reason = "a process of it died, and it does not start others" if is_death(error) else _short(error)
                    raise SweepStopped(f"`executor` has broken down: {reason}. {RESUMES}") from error
                if not is_death(error):
                    raise
                if not seat.suspects:
                    self.queue.put_back(unit)
                seat.bury()

    def _task(self, unit: Unit) -> Task:
        place = str(self.store.path.absolute())
        return Task(place, self.packer.pack(unit), VERSIONS, self.origin, self.run_limit)

    def _collect(self, seat: Seat, future: "Future[Report]") -> None:
        """Take the report of a unit that no process died of."""
        unit = seat.take(future)
        if seat.suspects and seat.suspects[0] is unit:
            seat.suspects.pop(0)
        error = error_of(future)
        if isinstance(error, DifferentVersions):
            raise error
        if isinstance(error, futures.CancelledError):
            raise SweepStopped(f"`executor` is gone: it cancelled what it had to compute. {RESUMES}") from error
        if error is not None:  # not an error of a replay, which the report would hold
            self._try_elsewhere(seat, unit, error)
            return
        report = future.result()
        if report.trouble and not seat.owned and self.worker_troubles[unit.name] + 1 < MOST_TROUBLES:
            self._try_elsewhere(seat, unit, WorkerTrouble(report.worker, report.trouble))
            return
        self._receive(unit, report)

    def _look_for_workers(self, seats: list[Seat]) -> None:
        """Wait for workers of Dask where there are none; those that come may compute what others were chosen for."""
        try:
            lacking = [seat for seat in seats if not seat.has_workers()]
        except Exception as error:
            raise SweepStopped(f"`executor` is gone: {_short(error)}. {RESUMES}") from error
        if not lacking:
            self.patience.end()
            return
        for seat in lacking:
            for unit in seat.take_back():
                self.queue.put_back(unit)
        self.patience.wait(lambda: "Dask workers (the scheduler has none that can compute)")

    def _try_elsewhere(self, seat: Seat, unit: Unit, error: BaseException) -> None:
        """Try a unit again that a process could not compute, for a reason of its own, if possible by another one."""
        self.worker_troubles[unit.name] += 1
        try:
            troubled = seat.avoid_troubled(str(self.store.path.absolute()), VERSIONS)
        except Exception as gone:
            raise SweepStopped(f"`executor` has broken down: {_short(gone)}. {RESUMES}") from gone
        if seat.allowed == [] or self.worker_troubles[unit.name] >= MOST_TROUBLES:
            named = error.worker if isinstance(error, WorkerTrouble) else "a process that computes"
            raise SweepStopped(f"No worker can compute: {listed(troubled or {named: reason_of(error)})}. {RESUMES}")
        self.queue.put_back(unit)

    def _mourn(self, seat: Seat, broken: "list[Future[Report]]") -> None:
        """Units whose process died: the one that was alone is guilty, several are suspects."""
        units = [seat.take(future) for future in broken]
        error = error_of(broken[0])
        assert error is not None
        if seat.owned and units[0].name in self.killed:
            self._end_too_long(units[0])
        elif seat.owned or seat.suspects:
            (unit,) = units
            self.deaths[unit.name] += tried(error)
            if self.deaths[unit.name] >= MOST_DEATHS and unit.in_turn:  # one of them is guilty
                if seat.suspects:
                    seat.suspects.pop(0)
                for one in unit.without(self.done).alone():
                    self.queue.put_back(one)
            elif self.deaths[unit.name] >= MOST_DEATHS:
                if seat.suspects:
                    seat.suspects.pop(0)
                self._give_up(unit, f"its process died {self.deaths[unit.name]} times ({_short(error)})")
            elif not seat.suspects:
                self.queue.put_back(unit)
        else:
            seat.suspects += units
        seat.bury()

    def _end_too_long(self, unit: Unit) -> None:
        """A unit whose process was killed because it took too long: it has failed, or one of its runs has."""
        assert self.run_limit is not None
        self.done.update(one for one in unit.digests if self.store.has(one))
        if unit.in_turn and len(unit.scenarios) > 1:
            for one in unit.without(self.done).alone():
                self.queue.put_back(one)
        else:
            self._give_up(unit, over(self.run_limit))

    def _receive(self, unit: Unit, report: Report) -> None:
        if report.busy:
            self.waiting.append(unit)
            return
        self.computed += report.computed
        self.done.update(report.computed)
        self.troubles.update(report.failed)
        self.done.update(one for one in unit.digests if one not in report.failed and self.store.has(one))

    def _give_up(self, unit: Unit, reason: str) -> None:
        """Keep the reason for which a unit has failed."""
        for scenario in unit.scenarios:
            if self.store.has(scenario.digest):
                continue
            self.troubles[scenario.digest] = reason
            try:
                self.store.fail(scenario, reason)
            except OSError as error:
                self.troubles[scenario.digest] = f"{reason} (not kept: {error})"

    def _look_at_waiting(self, pause: float = PATIENCE) -> None:
        """See what has become of units that other processes had claimed."""
        if pause:
            time.sleep(pause)
            self.patience.wait(lambda: holders_of(self.store, [one for unit in self.waiting for one in unit.digests]))
        held = lease.holders(self.store.path / CLAIMS)
        for _ in range(len(self.waiting)):
            unit = self.waiting.popleft()
            if any(one in held for one in unit.digests):
                self.waiting.append(unit)
                continue
            self.done.update(one for one in unit.digests if self.store.has(one))
            for one in unit.digests:
                failure = None if one in self.done else self.store.failure(one)
                if failure is not None:
                    self.troubles[one] = str(failure.get("reason"))
            if self._lacks(unit):
                self.queue.put_back(unit)
            self.patience.end()
            self._tell()

    def _lacks(self, unit: Unit) -> bool:
        """Whether something of a unit is neither there nor has failed."""
        return any(one not in self.done and one not in self.troubles for one in unit.digests)

    @staticmethod
    def _died(future: "Future[Report]") -> bool:
        error = error_of(future)
        return error is not None and is_death(error)

    def _tell(self) -> None:
        if self.progress is not None:
            failed = len(self.troubles.keys() - self.done)
            seconds = time.monotonic() - self.begun
            self.progress(SweepProgress(len(self.done), failed, len(self.wanted), len(self.computed), seconds))


class _Queue:
    """Units that wait for a seat, by program."""

    def __init__(self, units: Iterable[Unit]) -> None:
        self.programs: dict[str, deque[Unit]] = {}
        for unit in units:
            self.programs.setdefault(unit.program, deque()).append(unit)

    def __len__(self) -> int:
        return sum(map(len, self.programs.values()))

    def next(self, program: str, others: Iterable[str] = ()) -> Unit | None:
        """A unit, if possible of this program; else of one that no other seat has; else of that with most units."""
        if program not in self.programs:
            free = [name for name in self.programs if name not in others] or list(self.programs)
            if not free:
                return None
            program = max(free, key=lambda name: len(self.programs[name]))
        unit = self.programs[program].popleft()
        if not self.programs[program]:
            del self.programs[program]
        return unit

    def put_back(self, unit: Unit) -> None:
        """A unit that must be tried again, as the first."""
        self.programs.setdefault(unit.program, deque()).appendleft(unit)


def _require_scenarios(scenarios: object) -> tuple[Scenario, ...]:
    if isinstance(scenarios, Scenario) or not isinstance(scenarios, Iterable):
        got = "a single scenario" if isinstance(scenarios, Scenario) else f"{type(scenarios).__name__}"
        raise ValueError(
            f"`scenarios` must be a list of scenarios; got {got}. Give [scenario], or several by "
            "asim.grid(scenario, learning_rate=[…], seed=range(3))."
        )
    asked = tuple(scenarios)
    if not asked:
        raise ValueError("`scenarios` must hold at least one scenario; got none.")
    for place, scenario in enumerate(asked):
        if not isinstance(scenario, Scenario):
            raise ValueError(f"`scenarios` must be scenarios; number {place + 1} is a {type(scenario).__name__}.")
    return asked


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if len(text) <= 200 else f"{type(error).__name__}: {text[:199]}…"
