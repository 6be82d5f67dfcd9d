"""A store whose entries are results of scenarios."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from asyncsim.cluster._simulation import Simulated
from asyncsim.files._json import write_owned
from asyncsim.scenario._scenario import Scenario
from asyncsim.store._entries import Entries, now, prepare_store
from asyncsim.store._labels import FAILED, TRACES
from asyncsim.store._lease import this_process
from asyncsim.study._record import Result, Seconds, read_result, read_trace, write_entry, write_trace
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
        except ValueError as error:  # `has` compares no checksum of an array.
            remedy = "The same sweep computes it again with `--retry-failed`; in Python, `retry_failed=True`."
            raise ValueError(f"{error} {remedy}") from error

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
