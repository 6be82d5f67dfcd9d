"""A trace as Chrome trace events, to be looked at in Perfetto (ui.perfetto.dev) or chrome://tracing."""

import heapq
import os
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from asyncsim.files import atomic_write
from asyncsim.trace.columns import Fate, Fault
from asyncsim.trace.io.chrome_events import Nanoseconds, batches, complete, counter, metadata, microseconds, nanoseconds

if TYPE_CHECKING:
    from asyncsim.trace.trace import Trace

WORKERS, SERVER = 1, 2  # process numbers
PHASES = ("download", "compute", "upload", "queue", "service")
CLOCKS = ("read_time", "start_time", "finish_time", "arrive_time", "serve_time", "commit_time")
LONGEST = 9e9  # seconds that 64 bits of nanoseconds hold, nearly


def to_chrome(trace: "Trace", path: str | os.PathLike[str]) -> None:
    """Write the trace as Chrome trace-event JSON, for Perfetto.

    Each worker is a thread with a slice per job, named "commit" or after the job's fate, whose arguments are its row,
    versions and staleness; inside it lie download (or wait), compute, upload, queue and service. Phases that take no
    time are left out; those of jobs that never committed have the category "unfinished". The server is a process of
    its own, with a thread for every commit that it works on at once and counters of commits in the queue and in
    service and of jobs in flight. Faults are asynchronous events. What lasts beyond the record ends with it.

    Times are in microseconds with three decimals: whole nanoseconds, so that slices nest exactly.

    Args:
        path: The file; the name is used as it is.

    Raises:
        ValueError: If the trace is longer than some 285 years.
        OSError: If the file cannot be written; what was there stays whole.

    Example:
        >>> import json, pathlib, tempfile
        >>> from asyncsim.trace import Trace
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "trace.json")
        ...     Trace.from_commits([0, 1, 0]).to_chrome(path)
        ...     events = json.loads(path.read_text())["traceEvents"]
        >>> [event["args"]["staleness"] for event in events if event["name"] == "commit"]
        [0, 1, 1]

    References:
        Google, "Trace Event Format".
    """
    end = horizon(trace)
    if end > LONGEST:
        raise ValueError(f"`commit_time` must be at most {LONGEST:g} s in Chrome events; got {end:g}. Use CSV.")
    events = chain(_names(trace), _commits(trace), _unfinished(trace, end), _faults(trace, end), _server(trace, end))

    def write(file: BinaryIO) -> None:
        file.write(b'{"displayTimeUnit":"ms","traceEvents":[\n')
        separator = b""
        for batch in batches(events):
            file.write(separator + ",\n".join(batch).encode())
            separator = b",\n"
        file.write(b"\n]}\n")

    atomic_write(path, write)


def horizon(trace: "Trace") -> float:
    """When the record ends: the last time that stands in it; 0 if there is none.

    Example:
        >>> from asyncsim.trace import Trace
        >>> horizon(Trace.from_commits([0, 1, 0]))
        3.0
    """
    rest = trace.unfinished
    clocks = (rest.read_time, rest.start_time, rest.finish_time, rest.end_time, trace.faults.start_time)
    times = np.concatenate([[0.0], trace.commit_time[-1:], *clocks])
    return float(times[np.isfinite(times)].max())


def _names(trace: "Trace") -> Iterator[str]:
    """Thread 0 means something else to some viewers, hence worker + 1."""
    slots = len(set(_slots(trace)))
    threads = [(WORKERS, worker + 1, f"worker {worker}") for worker in range(trace.workers)]
    threads += [(SERVER, slot + 1, f"slot {slot}") for slot in range(slots)]
    for process, name in ((WORKERS, "workers"), (SERVER, "server")):
        yield metadata("process_name", process, 0, "name", name)
        yield metadata("process_sort_index", process, 0, "sort_index", process)
    for process, thread, name in threads:
        yield metadata("thread_name", process, thread, "name", name)
        yield metadata("thread_sort_index", process, thread, "sort_index", thread)


def _commits(trace: "Trace") -> Iterator[str]:
    clocks = np.stack([nanoseconds(getattr(trace, name)) for name in CLOCKS], axis=1)
    names = ("worker", "read_version", "version", "pull_version", "closes_step", "staleness")
    columns = [getattr(trace, name) for name in names]
    for row in range(len(trace)):
        times = clocks[row].tolist()
        worker, read, version, pull, closes, staleness = (column[row].item() for column in columns)
        args = (
            f'"row":{row},"staleness":{staleness},"read_version":{read},"version":{version},'
            f'"pull_version":{pull},"closes_step":{"true" if closes else "false"}'
        )
        yield complete("commit", "committed", WORKERS, worker + 1, times[0], times[-1], args)
        for name, (begin, end) in zip(PHASES, pairwise(times), strict=True):
            if end > begin:
                yield complete(name, "committed", WORKERS, worker + 1, begin, end)


def _unfinished(trace: "Trace", end: float) -> Iterator[str]:
    rest = trace.unfinished
    last = np.minimum(rest.end_time, end)
    clocks = [np.minimum(clock, last) for clock in (rest.read_time, rest.start_time, rest.finish_time, last)]
    whole = np.stack([nanoseconds(clock) for clock in clocks], axis=1)
    for row in range(len(rest)):
        times, thread = whole[row].tolist(), int(rest.worker[row]) + 1
        fate = Fate(rest.fate[row]).name.lower()
        args = f'"fate":"{fate}","read_version":{rest.read_version[row]}'
        yield complete(fate, "unfinished", WORKERS, thread, times[0], times[-1], args)
        for name, (begin, until) in zip(PHASES, pairwise(times), strict=False):
            if until > begin:
                yield complete(name, "unfinished", WORKERS, thread, begin, until, f'"fate":"{fate}"')


def _faults(trace: "Trace", end: float) -> Iterator[str]:
    """Asynchronous events: faults of one worker may overlap in any way."""
    faults = trace.faults
    begin, until = nanoseconds(faults.start_time), nanoseconds(np.maximum(faults.end_time, 0.0), end)
    for row, (kind, worker) in enumerate(zip(faults.kind.tolist(), faults.worker.tolist(), strict=True)):
        process = WORKERS if worker >= 0 else SERVER
        where = f'"pid":{process},"tid":{worker + 1 if worker >= 0 else 0},"id":{row}'
        head = f'"cat":"fault","name":"{Fault(kind).name.lower()}",{where}'
        args = f'"args":{{"worker":{worker}}}'
        yield f'{{"ph":"b",{head},"ts":{microseconds(begin[row].item())},{args}}}'
        yield f'{{"ph":"e",{head},"ts":{microseconds(until[row].item())},"args":{{}}}}'


def _slots(trace: "Trace") -> list[int]:
    """The slot that each commit is worked on in, numbered from 0; the lowest that is free. In order of service."""
    begin, end = nanoseconds(trace.serve_time), nanoseconds(trace.commit_time)
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    slots, used = [], 0
    for row in _served(begin, end):
        while busy and busy[0][0] <= begin[row]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            heapq.heappush(free, used)
            used += 1
        slots.append(heapq.heappop(free))
        heapq.heappush(busy, (int(end[row]), slots[-1]))
    return slots


def _served(begin: Nanoseconds, end: Nanoseconds) -> list[int]:
    """Rows that took the server some time, in the order in which it took them up."""
    order = np.lexsort((end, begin))
    return order[end[order] > begin[order]].tolist()


def _server(trace: "Trace", end: float) -> Iterator[str]:
    begin, until = nanoseconds(trace.serve_time), nanoseconds(trace.commit_time)
    for row, slot in zip(_served(begin, until), _slots(trace), strict=True):
        args = f'"row":{row},"worker":{trace.worker[row]}'
        yield complete("service", "committed", SERVER, slot + 1, int(begin[row]), int(until[row]), args)
    rest = trace.unfinished
    reads = np.concatenate([trace.read_time, rest.read_time])
    ends = np.concatenate([trace.commit_time, np.minimum(rest.end_time, end)])
    yield from counter("queue", SERVER, trace.arrive_time, trace.serve_time)
    yield from counter("in service", SERVER, trace.serve_time, trace.commit_time)
    yield from counter("jobs in flight", SERVER, reads, ends)
