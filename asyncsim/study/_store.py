"""The store of sweeps and comparisons: the results of scenarios as entries."""

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from asyncsim.cluster._simulation import Simulated
from asyncsim.engine import _run_file as run_file
from asyncsim.scenario._rebuild import label_notes
from asyncsim.scenario._scenario import Scenario
from asyncsim.store import _npz as npz
from asyncsim.store._entries import Entries, now, prepare_store
from asyncsim.store._files import write_owned
from asyncsim.store._labels import FAILED, RUN, SUMMARY, TRACE, TRACES, write_label
from asyncsim.store._labels import SCENARIO as LABEL
from asyncsim.store._lease import this_process
from asyncsim.study._run import Result, load_result, load_trace
from asyncsim.trace import Trace

NO_LINKS = (errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)


class Store(Entries):
    """The results of scenarios; see `open_store`."""

    def trace(self, scenario: Scenario, simulating: Callable[[Simulated], None] | None = None) -> Trace:
        """The schedule of a scenario: from the store, or else simulated and kept there; then `simulating` is called."""
        path = self._trace_path(scenario)
        with suppress(FileNotFoundError, ValueError):  # a damaged one is made again
            return scenario.in_steps(load_trace(scenario, path))
        trace = scenario.schedule() if simulating is None else scenario.schedule(progress=simulating)
        trace.save(path, notes={npz.OWNER: scenario.schedule_digest}, sync=False)
        return scenario.in_steps(trace)

    def put(self, result: Result, seconds: Mapping[str, float], origin: Mapping[str, Any] | None = None) -> None:
        """Keep a result; if another process was faster, its result stays."""
        with self.putting() as put:
            put(result, seconds, origin)

    @contextmanager
    def putting(self) -> Iterator[Callable[..., None]]:
        """A function for the block that takes what `put` takes: to wait for the disk once for many small results."""
        with self.publishing() as publish:

            def put(result: Result, seconds: Mapping[str, float], origin: Mapping[str, Any] | None = None) -> None:
                publish(result.scenario.digest, lambda folder: self._fill(folder, result, seconds, origin))

            yield put

    def _fill(
        self, folder: Path, result: Result, seconds: Mapping[str, float], origin: Mapping[str, Any] | None
    ) -> None:
        """Write the files of a result into a new folder."""
        scenario, digest = result.scenario, result.scenario.digest
        notes = {npz.OWNER: digest, **seconds, SUMMARY: json.dumps(result.summary)}
        run_file.write(folder / RUN, vars(result.run), notes, resumable=False, new=True)
        self._link_trace(result, folder / TRACE)
        told = None if origin is None else {**origin, **label_notes(scenario)}
        write_label(folder / LABEL, digest, scenario.description, told, new=True)
        write_owned(folder / SUMMARY, result.summary, digest, new=True)

    def get(self, scenario: Scenario) -> Result | None:
        """The result of a scenario, None if it is not there."""
        folder = self.folder(scenario.digest)
        if not self.has(scenario.digest):
            return None
        try:
            return load_result(scenario, folder)
        except ValueError as error:
            remedy = "The same sweep computes it again with `--retry-failed`; in Python, `retry_failed=True`."
            raise ValueError(f"{error} {remedy}") from error

    def fail(self, scenario: Scenario, reason: str, details: str = "") -> None:
        """Keep why there are no results of a scenario; `details` is a traceback."""
        told = {"digest": scenario.digest, "reason": reason, "details": details, "when": now(), **this_process()}
        content = {**told, "scenario": scenario.describe()}
        write_owned(self.path / FAILED / f"{scenario.digest}.json", content, scenario.digest)

    def _trace_path(self, scenario: Scenario) -> Path:
        return self.path / TRACES / f"{scenario.schedule_digest}.npz"

    def _link_trace(self, result: Result, place: Path) -> None:
        """The schedule, which a folder shares with all others that have it."""
        shared = self._trace_path(result.scenario)
        try:
            os.link(shared, place)
        except FileNotFoundError:
            recorded = result.scenario.trace
            kept = result.trace if recorded is None else recorded
            kept.save(place, notes={npz.OWNER: result.scenario.schedule_digest})
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            shutil.copyfile(shared, place)


def open_store(path: str | os.PathLike[str], *, create: bool = True) -> Store:
    """The store in a folder, made if need be and if `create`; refuses other folders and other formats."""
    return Store(prepare_store(path, create))
