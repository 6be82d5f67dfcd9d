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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from asyncsim import checks
from asyncsim.folders.labels import CLAIMS
from asyncsim.scenario.scenario import Scenario
from asyncsim.study import lease
from asyncsim.study.origin import Origin
from asyncsim.study.run import Result
from asyncsim.study.seats import Seat, is_death, local_seats, seats_of, tried
from asyncsim.study.store import FAILURE, Store, open_store
from asyncsim.study.sweep_table import SweepTable, asked_for, column, remember, table_of
from asyncsim.study.transport import Packer
from asyncsim.study.units import Unit, units_of
from asyncsim.study.work import VERSIONS, DifferentVersions, Report, Task

MOST_DEATHS = 3  # of processes, until their unit has failed
PATIENCE = 0.2  # seconds until units that others compute are looked at again
SHARED = "schedule_seed"


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
    """

    scenarios: tuple[Scenario, ...]
    store: Store
    computed: tuple[str, ...] = ()
    troubles: dict[str, str] = None  # type: ignore[assignment]
    temporary: object = None

    def __repr__(self) -> str:
        counts = Counter(self.states.values())
        told = ", ".join(f"{count} {state}" for state, count in counts.items())
        return f"Sweep({len(self.scenarios)} scenarios in {self.store.path}: {told})"

    def __len__(self) -> int:
        return len(self.scenarios)

    def __iter__(self) -> Iterator[Result]:
        for scenario in self.scenarios:
            result = self.store.get(scenario)
            if result is not None:
                yield result

    @cached_property
    def states(self) -> dict[str, str]:
        """Digest -> "done", "running", "failed" or "missing", when it was first asked for."""
        return self.store.states(scenario.digest for scenario in self.scenarios)

    def result(self, scenario: Scenario) -> Result:
        """The result of a scenario.

        Raises:
            ValueError: If there is none (it says why), or its files are damaged.
        """
        found = self.store.get(scenario)
        if found is None:
            failure = self.store.failure(scenario.digest) or {"reason": self.troubles.get(scenario.digest)}
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
        table = table_of(self.store, [asked_for(self.scenarios)])
        first = [*{scenario.digest: place for place, scenario in reversed([*enumerate(self.scenarios)])}.values()][::-1]
        for name, values in labels.items():
            if len(values) != len(self.scenarios):
                raise ValueError(f"`{name}` must have {len(self.scenarios)} values, as many as there are scenarios.")
        columns = {name: column([values[place] for place in sorted(first)]) for name, values in labels.items()}
        return SweepTable({**columns, **table}, [*columns, *table.fields])


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
    progress: Callable[[SweepProgress], None] | None = None,
    origin: Origin | None = None,
) -> Sweep | Iterator[Result]:
    """Compute what a store lacks of these scenarios, and wait for all of them, or for one after another.

    Each result is that of `asyncsim.run`, under the digest of its scenario; see `asyncsim.study.units` for those that
    share a replay.

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
        lanes: The most scenarios in one replay; by default what pays on a CPU.
        progress: Called with a `SweepProgress` whenever something has happened.
        origin: Where the scenarios came from, kept beside their results for `asyncsim.load`.

    Returns:
        A `Sweep`; without `wait`, an iterator over `Result`s.

    Raises:
        ValueError: If the folder holds anything but a store, or an argument does not fit.
        DifferentVersions: If the executor's processes have another asyncsim or JAX.
        KeyboardInterrupt: On Ctrl-C; what is done is kept.

    Example:
        >>> import tempfile
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
        >>> rule, workload = asim.rules.downpour(0.1), asim.workloads.quadratic([1.0])
        >>> base = asim.Scenario(cluster, rule, workload, commits=8)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     results = asim.sweep(asim.grid(base, learning_rate=[0.1, 0.2]), folder, jobs=0)
        ...     table = results.table()
        >>> table["learning_rate"].tolist(), table["status"].tolist(), table["final_loss"].round(4).tolist()
        ([0.1, 0.2], ['done', 'done'], [0.3068, 0.2111])

        One result after another:

        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for result in asim.sweep(asim.grid(base, learning_rate=[0.1, 0.2]), folder, jobs=0, wait=False):
        ...         print(result.scenario.rule, round(result.summary["final_loss"], 4))
        downpour(learning_rate=0.1) 0.3068
        downpour(learning_rate=0.2) 0.2111
    """
    asked = tuple(scenarios)
    _require_scenarios(asked)
    if jobs is not None:
        jobs = checks.require_integer("jobs", jobs, least=0, remedy="Give 0 to compute in this process.")
    if shared_schedule:
        asked = with_shared_schedules(asked)
    temporary = None
    if store is None:
        temporary = _Temporary()
        store = temporary.path
    place = open_store(store)
    told = (origin or Origin()).describe()
    work = _Sweeping(asked, place, units_of(asked, lanes), retry_failed, progress, told)
    events = _events(work, asked, executor, jobs)
    if not wait:
        return _arrivals(work, asked, events, temporary)
    for _ in events:
        pass
    return Sweep(asked, place, tuple(work.computed), work.troubles, temporary)


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


def _arrivals(
    work: "_Sweeping", asked: Sequence[Scenario], events: Iterator[None], temporary: object
) -> Iterator[Result]:
    """The results as they come; `temporary` is kept that long."""
    left = {scenario.digest: scenario for scenario in asked}
    with closing(events):  # type: ignore[type-var]  # a generator
        for _ in events:
            come = left.keys() & work.done
            for one in [one for one in left if one in come] if come else ():
                result = work.store.get(left.pop(one))
                if result is not None:
                    yield result
    del temporary


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
        >>> rule, workload = asim.rules.downpour(0.1), asim.workloads.quadratic([1.0])
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
    """

    def __init__(
        self,
        asked: tuple[Scenario, ...],
        store: Store,
        units: Sequence[Unit],
        retry_failed: bool,
        progress: Callable[[SweepProgress], None] | None,
        origin: Mapping[str, Any],
    ) -> None:
        self.store = store
        self.origin = origin
        self.progress = progress
        self.begun = time.monotonic()
        self.computed: list[str] = []
        self.troubles: dict[str, str] = {}
        self.deaths: Counter[str] = Counter()
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
            self._receive(unit, work_on(unit, self.store, self.origin))
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
            for seat in seats:
                broken = [future for future in done if future in seat.units and self._died(future)]
                for future in [future for future in done if future in seat.units and future not in broken]:
                    self._collect(seat, future)
                if broken:
                    self._mourn(seat, broken)
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
            try:
                seat.submit(unit, self._task(unit))
            except Exception as error:
                if not is_death(error):
                    raise
                if not seat.suspects:
                    self.queue.put_back(unit)
                if not seat.owned:
                    raise RuntimeError(
                        "`executor` has broken down: a process of it died, and it does not start others. What is done "
                        "is kept; the same call with another executor goes on."
                    ) from error
                seat.bury()

    def _task(self, unit: Unit) -> Task:
        return Task(str(self.store.path.absolute()), self.packer.pack(unit), VERSIONS, self.origin)

    def _collect(self, seat: Seat, future: "Future[Report]") -> None:
        """Take the report of a unit that no process died of."""
        unit = seat.units.pop(future)
        if seat.suspects and seat.suspects[0] is unit:
            seat.suspects.pop(0)
        error = future.exception()
        if isinstance(error, DifferentVersions):
            raise error
        if error is not None:  # not an error of a replay, which the report would hold
            self._give_up(unit, f"{type(error).__name__}: {error}")
            return
        self._receive(unit, future.result())

    def _mourn(self, seat: Seat, broken: "list[Future[Report]]") -> None:
        """Units whose process died: the one that was alone is guilty, several are suspects."""
        units = [seat.units.pop(future) for future in broken]
        error = broken[0].exception()
        assert error is not None
        if seat.owned or seat.suspects:
            (unit,) = units
            self.deaths[unit.name] += tried(error)
            if self.deaths[unit.name] >= MOST_DEATHS and len(unit.scenarios) > 1:  # one of them is guilty
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
        time.sleep(pause)
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
            self._tell()

    def _lacks(self, unit: Unit) -> bool:
        """Whether something of a unit is neither there nor has failed."""
        return any(one not in self.done and one not in self.troubles for one in unit.digests)

    @staticmethod
    def _died(future: "Future[Report]") -> bool:
        error = future.exception()
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


def _require_scenarios(asked: Sequence[object]) -> None:
    if not asked:
        raise ValueError("`scenarios` must hold at least one scenario; got none.")
    for place, scenario in enumerate(asked):
        if not isinstance(scenario, Scenario):
            raise ValueError(f"`scenarios` must be scenarios; number {place + 1} is a {type(scenario).__name__}.")


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if len(text) <= 200 else f"{type(error).__name__}: {text[:199]}…"
