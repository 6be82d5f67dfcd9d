"""The recorder of a parameter server. Copy this file into your own program: it needs nothing but Python."""

import csv
import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Recorder"]

COLUMNS = "worker read_version version read_time start_time finish_time arrive_time serve_time commit_time closes_step"
LARGEST_DIFFERENCE = 86_400.0  # seconds: clocks that differ by more count in another unit, or not from 1970


class Recorder:
    """The log of a parameter server, one line for each commit, which `asyncsim.Trace.from_csv` reads.

    Call `read` before the server sends a worker parameters, and update them inside `commit`. Any number of threads may
    do so. Lines are written at once, so that a killed server loses none.

    Args:
        path: The new CSV file. An existing one is not replaced, so each start of the server needs a file of its own.

    Attributes:
        version: Steps of the server so far.

    Raises:
        ValueError: If `path` names no file.
        FileExistsError: If the file exists.

    Example:
        >>> import os, tempfile
        >>> import asyncsim as asim
        >>> path = os.path.join(tempfile.mkdtemp(), "log.csv")
        >>> recorder, parameter = asim.Recorder(path), 1.0
        >>> recorder.read("gpu-a")
        >>> with recorder.commit("gpu-a"):
        ...     parameter -= 0.1
        >>> recorder.close()
        >>> asim.Trace.from_csv(path, start="first").names
        ('gpu-a',)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, str | os.PathLike):
            raise ValueError(f"`path` must name a file; got a {type(path).__name__}. Give 'log.csv', for example.")
        self.version = 0
        self._reads: dict[object, tuple[int, float]] = {}  # worker -> version and time of its last read
        self._lock = threading.RLock()
        self._latest = 0.0
        self._file = open(path, "x", buffering=1, newline="", encoding="utf-8")  # noqa: SIM115 (open while it records)
        self._log = csv.writer(self._file)
        self._log.writerow(COLUMNS.split())

    def now(self) -> float:
        """Return the Unix time in seconds, but never the same twice, nor an earlier one if the clock is set back."""
        with self._lock:
            self._latest = max(time.time(), math.nextafter(self._latest, math.inf))
            return self._latest

    def read(self, worker: object) -> None:
        """Note that a worker reads the parameters as they are now, for its next gradient.

        A server that answers a commit with the parameters calls it for the first read only, because each commit notes
        one.

        Args:
            worker: Number or name of the worker.
        """
        with self._lock:  # so that no commit comes between the version and its time
            self._reads[worker] = self.version, self.now()

    @contextmanager
    def commit(
        self,
        worker: object,
        start: float | None = None,
        finish: float | None = None,
        *,
        arrive: float | None = None,
        closes_step: bool = True,
    ) -> Iterator[None]:
        """Note a commit, whose update is the body of the `with` statement. Commits are applied one at a time.

        Args:
            worker: Number or name of the worker.
            start: When it began to compute, after the download, by `time.time()` of the worker. None if unknown.
            finish: When it had computed, likewise.
            arrive: When the gradient arrived, by `now`. By default it arrives with this call.
            closes_step: Whether the parameters change, or False for a gradient that the server only collects.

        Raises:
            ValueError: If the worker has not read, only one of `start` and `finish` is known, `start` is later, or
                they are no Unix times in seconds. The body is not executed then. If it fails, there is no line.
        """
        arrive = self.now() if arrive is None else arrive
        if worker not in self._reads:
            raise ValueError(f"`worker` {worker!r} must read before it commits. Call `read` where you send parameters.")
        if (start is None) != (finish is None):
            raise ValueError(f"`start` and `finish` must both be times, or neither; got {start!r} and {finish!r}.")
        if start is not None and finish is not None:
            if not abs(finish - arrive) < LARGEST_DIFFERENCE:
                raise ValueError(f"`finish` must be a Unix time in seconds; got {finish!r} at {arrive!r}.")
            if not start <= finish:
                raise ValueError(f"`start` must not be later than `finish`; got {start!r} and {finish!r}.")
        with self._lock:
            serve, (read_version, read) = self.now(), self._reads[worker]
            yield
            done = self.now()
            row = [worker, read_version, self.version, read, start, finish, arrive, serve, done, int(closes_step)]
            self._log.writerow(row)
            self.version += closes_step
            self._reads[worker] = self.version, done

    def close(self) -> None:
        """Close the file."""
        self._file.close()
