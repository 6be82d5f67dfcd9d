"""The text of Chrome trace events, with times in whole nanoseconds so that slices nest exactly."""

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from asyncsim.trace.columns import TimeColumn

Nanoseconds = NDArray[np.int64]
BATCH = 1 << 12  # events that are text at one time


def nanoseconds(times: TimeColumn, end: float = np.inf) -> Nanoseconds:
    """Seconds as whole nanoseconds, at most those of `end`.

    Example:
        >>> nanoseconds(np.array([0.5, np.inf]), end=2.0).tolist()
        [500000000, 2000000000]
    """
    return np.round(np.minimum(times, end) * 1e9).astype(np.int64)


def microseconds(time: int) -> str:
    """Nanoseconds as the microseconds that events hold.

    Example:
        >>> microseconds(1500)
        '1.500'
    """
    return f"{time // 1000}.{time % 1000:03d}"


def complete(name: str, category: str, process: int, thread: int, begin: int, end: int, args: str = "") -> str:
    """A slice; `args` is the inside of a JSON object."""
    return (
        f'{{"ph":"X","name":"{name}","cat":"{category}","pid":{process},"tid":{thread},'
        f'"ts":{microseconds(begin)},"dur":{microseconds(end - begin)},"args":{{{args}}}}}'
    )


def metadata(name: str, process: int, thread: int, key: str, value: str | int) -> str:
    """What a process or thread is called, or where it stands; texts are plain letters."""
    text = f'"{value}"' if isinstance(value, str) else value
    return f'{{"ph":"M","name":"{name}","pid":{process},"tid":{thread},"args":{{"{key}":{text}}}}}'


def counter(name: str, process: int, up: TimeColumn, down: TimeColumn) -> Iterator[str]:
    """How many there are, at every time at which it changes."""
    times, place = np.unique(nanoseconds(np.concatenate([up, down])), return_inverse=True)
    change = np.bincount(place, np.repeat([1, -1], len(up)), len(times)).astype(np.int64)
    changed = change != 0
    for time, count in zip(times[changed].tolist(), np.cumsum(change)[changed].tolist(), strict=True):
        yield (
            f'{{"ph":"C","name":"{name}","pid":{process},"tid":0,"ts":{microseconds(time)},"args":{{"count":{count}}}}}'
        )


def batches(events: Iterable[str]) -> Iterator[list[str]]:
    """Events in batches, none of them empty."""
    waiting = iter(events)
    while batch := list(islice(waiting, BATCH)):
        yield batch
