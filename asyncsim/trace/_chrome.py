"""A trace as Chrome trace events, for Perfetto (ui.perfetto.dev) or chrome://tracing.

Times are written in whole nanoseconds, so that slices nest exactly.
"""

import heapq
import os
from collections.abc import Iterator
from itertools import chain, islice, pairwise
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from asyncsim.files._atomic import atomic_write
from asyncsim.trace._columns import Fate, Fault, Tables, TimeColumn, TraceError, end_of_trace, name_of
from asyncsim.trace._spans import COMMITTED, find_jobs
from asyncsim.trace._variables import is_on_graph

WORKERS, SERVER = 1, 2  # process numbers
PHASES = ("download", "compute", "upload", "queue", "service")  # between every two limits of a job's stages
LONGEST = 9e9  # seconds that 64 bits of nanoseconds hold, nearly
BATCH = 1 << 12  # events that are text at one time

Nanoseconds = NDArray[np.int64]


def write(trace: Tables, path: str | os.PathLike[str]) -> None:
    """Write the trace as Chrome trace-event JSON (see `Trace.to_chrome`)."""
    end = end_of_trace(trace)
    if end > LONGEST:
        received = f"got {end:g}"
        raise TraceError("commit_time", f"must be at most {LONGEST:g} s in Chrome events", "Use CSV.", found=received)
    messages = _exchanges(trace) if is_on_graph(trace) else _server(trace, end)
    events = chain(_names(trace), _jobs(trace, end), _faults(trace, end), messages)

    def write_events(file: BinaryIO) -> None:
        file.write(b'{"displayTimeUnit":"ms","traceEvents":[\n')
        separator = b""
        # Events are written in batches, because one write for each would take most of the time.
        while batch := list(islice(events, BATCH)):
            file.write(separator + ",\n".join(batch).encode())
            separator = b",\n"
        file.write(b"\n]}\n")

    atomic_write(path, write_events)


def _names(trace: Tables) -> Iterator[str]:
    """Return the thread of a worker: worker + 1, because thread 0 has another meaning in some viewers."""
    slots = len(set(_slots(trace)))
    threads = [(WORKERS, worker + 1, name_of(trace, worker)) for worker in range(trace.workers)]
    threads += [(SERVER, slot + 1, f"slot {slot}") for slot in range(slots)]
    processes = ((WORKERS, "workers"), (SERVER, "server"))[: 1 if is_on_graph(trace) else 2]
    for process, name in processes:
        yield _metadata("process_name", process, 0, "name", name)
        yield _metadata("process_sort_index", process, 0, "sort_index", process)
    for process, thread, name in threads:
        yield _metadata("thread_name", process, thread, "name", name)
        yield _metadata("thread_sort_index", process, thread, "sort_index", thread)


def _jobs(trace: Tables, end: float) -> Iterator[str]:
    """Yield a slice for each job, and inside it one for each of its phases that took time."""
    every = find_jobs(trace, end)
    times = np.stack([nanoseconds(time) for time in every.times], axis=1)
    names = ("read_version", "version", "pull_version", "closes_step", "staleness")
    columns = [getattr(trace, name) for name in names]
    for row, (worker, number) in enumerate(zip(every.worker.tolist(), every.fate.tolist(), strict=True)):
        if number == COMMITTED:
            read, version, pull, closes, staleness = (column[row].item() for column in columns)
            name, category, args_of_phase = "commit", "committed", ""
            args = (
                f'"row":{row},"staleness":{staleness},"read_version":{read},"version":{version},'
                f'"pull_version":{pull},"closes_step":{"true" if closes else "false"}'
            )
        else:
            name, category = Fate(number).name.lower(), "unfinished"
            args_of_phase = f'"fate":"{name}"'
            args = f'{args_of_phase},"read_version":{trace.unfinished.read_version[row - len(trace)]}'
        limits = times[row].tolist()
        yield _slice(name, category, WORKERS, worker + 1, limits[0], limits[-1], args)
        for phase, (begin, until) in zip(PHASES, pairwise(limits), strict=True):
            if until > begin:
                yield _slice(phase, category, WORKERS, worker + 1, begin, until, args_of_phase)


def _faults(trace: Tables, end: float) -> Iterator[str]:
    """Yield asynchronous events, since faults of one worker may overlap in any way."""
    faults = trace.faults
    begin = nanoseconds(faults.start_time)
    # A fault without an end is shown until the end of the trace.
    until = nanoseconds(np.maximum(faults.end_time, 0.0), end)
    for row, (kind, worker) in enumerate(zip(faults.kind.tolist(), faults.worker.tolist(), strict=True)):
        process = WORKERS if worker >= 0 else SERVER
        where = f'"pid":{process},"tid":{worker + 1 if worker >= 0 else 0},"id":{row}'
        head = f'"cat":"fault","name":"{Fault(kind).name.lower()}",{where}'
        args = f'"args":{{"worker":{worker}}}'
        yield f'{{"ph":"b",{head},"ts":{_microseconds(begin[row].item())},{args}}}'
        yield f'{{"ph":"e",{head},"ts":{_microseconds(until[row].item())},"args":{{}}}}'


def _exchanges(trace: Tables) -> Iterator[str]:
    """Yield an arrow from worker to worker for each part of a mixing, where every worker has a variable of its own."""
    mixings = trace.mixings
    times = nanoseconds(mixings.time)
    for row in np.flatnonzero((mixings.source != mixings.target) & (mixings.weight != 0)).tolist():
        sender, receiver = int(mixings.source[row]), int(mixings.target[row])
        # A flow binds to slices, so that each end gets one of no length.
        for phase, place, name in (("s", sender, "sent"), ("f", receiver, "mixed")):
            args = f'"event":{mixings.event[row]},"weight":{mixings.weight[row]:.17g}'
            time = int(times[row])
            yield _slice(name, "exchange", WORKERS, place + 1, time, time, args)
            bind = ',"bp":"e"' if phase == "f" else ""
            yield (
                f'{{"ph":"{phase}","id":{row},"cat":"exchange","name":"exchange","pid":{WORKERS},'
                f'"tid":{place + 1},"ts":{_microseconds(time)}{bind}}}'
            )


def _server(trace: Tables, end: float) -> Iterator[str]:
    begin = nanoseconds(trace.serve_time)
    until = nanoseconds(trace.commit_time)
    for row, slot in zip(_served(begin, until), _slots(trace), strict=True):
        args = f'"row":{row},"worker":{trace.worker[row]}'
        yield _slice("service", "committed", SERVER, slot + 1, int(begin[row]), int(until[row]), args)
    rest = trace.unfinished
    begins = np.concatenate([trace.begin_time, rest.begin_time])
    ends = np.concatenate([trace.commit_time, np.minimum(rest.end_time, end)])
    yield from _counter("queue", trace.arrive_time, trace.serve_time)
    yield from _counter("in service", trace.serve_time, trace.commit_time)
    yield from _counter("jobs in flight", begins, ends)


def _slots(trace: Tables) -> list[int]:
    """Return the slot that works on each commit, numbered from 0, always the lowest free one. In order of service."""
    begin = nanoseconds(trace.serve_time)
    end = nanoseconds(trace.commit_time)
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    slots: list[int] = []
    used = 0
    for row in _served(begin, end):
        # Slots whose commits have ended by now are free again.
        while busy and busy[0][0] <= begin[row]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            heapq.heappush(free, used)
            used += 1
        slots.append(heapq.heappop(free))
        heapq.heappush(busy, (int(end[row]), slots[-1]))
    return slots


def _served(begin: Nanoseconds, end: Nanoseconds) -> list[int]:
    """Return rows that took the server some time, in the order in which it took them up."""
    order = np.lexsort((end, begin))
    return order[end[order] > begin[order]].tolist()


def nanoseconds(times: TimeColumn, end: float = np.inf) -> Nanoseconds:
    """Return seconds as whole nanoseconds, at most those of `end`."""
    return np.round(np.minimum(times, end) * 1e9).astype(np.int64)


def _microseconds(time: int) -> str:
    """Write nanoseconds as the microseconds that events hold, with three decimals."""
    return f"{time // 1000}.{time % 1000:03d}"


def _slice(name: str, category: str, process: int, thread: int, begin: int, end: int, args: str = "") -> str:
    """Write a complete event. `args` is the inside of a JSON object."""
    return (
        f'{{"ph":"X","name":"{name}","cat":"{category}","pid":{process},"tid":{thread},'
        f'"ts":{_microseconds(begin)},"dur":{_microseconds(end - begin)},"args":{{{args}}}}}'
    )


def _metadata(name: str, process: int, thread: int, key: str, value: str | int) -> str:
    """Return the name of a process or thread, or its place in the list. Texts are plain letters."""
    text = f'"{value}"' if isinstance(value, str) else value
    return f'{{"ph":"M","name":"{name}","pid":{process},"tid":{thread},"args":{{"{key}":{text}}}}}'


def _counter(name: str, up: TimeColumn, down: TimeColumn) -> Iterator[str]:
    """Return a counter of the server, with an event at every time at which it changes."""
    # Changes at the same nanosecond are one event, as a viewer would show the last of them only.
    times, place = np.unique(nanoseconds(np.concatenate([up, down])), return_inverse=True)
    change = np.bincount(place, np.repeat([1, -1], len(up)), len(times)).astype(np.int64)
    changed = change != 0
    for time, count in zip(times[changed].tolist(), np.cumsum(change)[changed].tolist(), strict=True):
        yield (
            f'{{"ph":"C","name":"{name}","pid":{SERVER},"tid":0,"ts":{_microseconds(time)},"args":{{"count":{count}}}}}'
        )
