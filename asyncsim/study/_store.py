"""Results of scenarios read from a store and written into it, and `StoredSweep`, all of them for `asyncsim.load`.

The files themselves, their states and leases are those of `store._entries`.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from asyncsim.cluster._simulation import Simulated
from asyncsim.costs import Power, Price
from asyncsim.files import _npz as npz
from asyncsim.files._json import write_owned
from asyncsim.scenario._scenario import Scenario
from asyncsim.store._entries import DONE, FAILURE, Entries, now, prepare_store
from asyncsim.store._labels import FAILED, TRACES, is_digest
from asyncsim.store._lease import this_process
from asyncsim.study._result_files import Result, Seconds, read_result, read_trace, write_entry, write_trace
from asyncsim.study.table import SweepTable, table_of
from asyncsim.trace import Trace


class Store(Entries):
    """The results of scenarios. See `open_store`."""

    def trace(self, scenario: Scenario, simulating: Callable[[Simulated], None] | None = None) -> Trace:
        """Read the schedule of a scenario, or else simulate it (which calls `simulating`) and write it."""
        path = self._schedule_file(scenario)
        with suppress(FileNotFoundError, ValueError):  # A damaged schedule is simulated again.
            return read_trace(scenario, path)
        schedule = scenario.schedule(simulating)
        write_trace(scenario, schedule, path, shared=True)
        return scenario.in_steps(schedule)

    def put(self, result: Result, seconds: Seconds, origin: Mapping[str, Any] | None = None) -> None:
        """Keep a result. If another process was faster, its result stays."""
        scenario = result.require_scenario()
        self.publish(scenario.digest, partial(write_entry, result, seconds, self._schedule_file(scenario), origin))

    def get(self, scenario: Scenario) -> Result | None:
        """Read the result of a scenario, None if there is none."""
        if not self.has(scenario.digest):
            return None
        try:
            return read_result(scenario, self.folder(scenario.digest))
        except npz.Damaged as error:  # `has` compares no checksum of an array.
            remedy = "The same sweep computes it again with `--retry-failed`; in Python, `retry_failed=True`."
            raise npz.Damaged(f"{error} {remedy}") from error
        except ValueError as error:  # The file is sound, and belongs to another scenario or another asyncsim.
            raise ValueError(f"{error} Delete it to have it computed again.") from error

    def fail(self, scenario: Scenario, reason: str, details: str = "") -> str:
        """Keep the reason why a scenario has no results, with `details`, a traceback, and say if it cannot be kept."""
        failure = {"digest": scenario.digest, "reason": reason, "details": details, "when": now(), **this_process()}
        content = {**failure, "scenario": scenario.describe()}
        try:
            write_owned(self.path / FAILED / f"{scenario.digest}.json", content, scenario.digest)
        except OSError as error:  # The failure itself matters more than that of writing it down.
            return f"{reason} (not kept: {error})"
        return reason

    def _schedule_file(self, scenario: Scenario) -> Path:
        return self.path / TRACES / f"{scenario.schedule_digest}.npz"


def open_store(path: str | os.PathLike[str], *, create: bool = True) -> Store:
    """Open the store in a folder, made if need be and if `create`. Other folders and formats are refused."""
    return Store(prepare_store(path, create))


@dataclass(frozen=True, eq=False, repr=False)
class StoredSweep(Mapping[str, Result]):
    """The results of a store by their digests, as `asyncsim.load` gives them.

    A result is read from its files when you ask for it, and rebuilt as by `asyncsim.load`: its scenario is None if a
    part of it is your own and its module is not imported.

    Attributes:
        store: The store.
        read: Reads the result in a folder.

    Example:
        >>> import tempfile
        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(workers=2, compute=asim.delays.Constant(1.0))
        >>> rule, workload = asim.rules.Downpour(0.1), asim.workloads.Quadratic([1.0])
        >>> base = asim.Scenario(cluster, rule, workload, commits=8)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done = asim.sweep(asim.grid(base, learning_rate=[0.1, 0.2]), folder, jobs=0)
        ...     found = asim.load(folder)
        ...     table = found.table()
        ...     losses = [result.summary["final_loss"] for result in found.values()]
        >>> len(found), found.failed, table["learning_rate"].tolist()
        (2, {}, [0.1, 0.2])
        >>> sorted(losses) == sorted(table["final_loss"].tolist())
        True
    """

    store: Store
    read: Callable[[Path], Result]

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {state}" for state, count in Counter(self.states.values()).items())
        return f"StoredSweep({self.store.path}: {counts or 'empty'})"

    @cached_property
    def states(self) -> dict[str, str]:
        """Digest -> "done", "running", "failed" or "missing", of all results and all scenarios that were asked for."""
        swept = (digest for sweep in self.store.sweeps() for digest in sweep.digests)
        # A store may hold results that no sweep asked for, such as those of figures.
        others = sorted(filter(is_digest, self.store.digests() | self.store.list_failed()))
        return self.store.states(dict.fromkeys([*swept, *others]))

    @property
    def failed(self) -> dict[str, str]:
        """Digest -> the reason for which there is no result."""
        failures = {
            digest: self.store.read_failure(digest) for digest, state in self.states.items() if state == FAILURE
        }
        return {digest: str((failure or {}).get("reason")) for digest, failure in failures.items()}

    def __iter__(self) -> Iterator[str]:
        return (digest for digest, state in self.states.items() if state == DONE)

    def __len__(self) -> int:
        return sum(state == DONE for state in self.states.values())

    def __contains__(self, digest: object) -> bool:
        return self.states.get(str(digest)) == DONE

    def __getitem__(self, digest: str) -> Result:
        if digest not in self:
            state = self.states.get(digest)
            reason = f"it is {state}" if state else "the store does not have it"
            raise KeyError(f"{digest!r} has no result: {self.failed.get(digest) or reason}.")
        return self.read(self.store.folder(digest))

    def table(self, *, power: Power | None = None, price: Price | None = None) -> SweepTable:
        """Return one row per scenario that a sweep asked for, as `Sweep.table` does.

        Args:
            power: The power of the machines, for a column `joules`.
            price: Their prices, for a column `money`.

        Raises:
            ValueError: If no sweep has asked the store for anything.
        """
        sweeps = self.store.sweeps()
        if not sweeps:
            raise ValueError(f"The store {str(self.store.path)!r} was asked for nothing yet.")
        return table_of(self.store, sweeps, power, price)
