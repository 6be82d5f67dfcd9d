"""Random numbers, one stream for each worker and purpose: adding a worker leaves the others' draws as they were."""

import enum
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Protocol

import numpy as np

from asyncsim.delays import Delay, FloatArray
from asyncsim.delays._by_job import from_start

# Delays are drawn in blocks, because one call for many is some 50 times as fast as one call each.
# Blocks grow, so that a thousand workers with a few commits each do not draw a million delays.
_FIRST_BLOCK = 16
_LARGEST_BLOCK = 1024


class Clock(Protocol):
    """Whatever knows the simulated time, say a SimPy environment."""

    @property
    def now(self) -> float: ...  # the simulated time in seconds


class Purpose(enum.IntEnum):
    """The purposes of a worker's draws, other than its compute times."""

    LATENCY = 0
    SERVICE = 1
    SPEED = 2
    FAULTS = 3
    PULL_TO_COMMIT = 4
    BACKWARD = 5
    TRANSFER = 6
    TRAIN = 7
    REWARD = 8
    SYNC = 9
    SIGNAL = 10
    PARTNER = 11
    REGION = 12


def stream(seed: int, worker: int, purpose: Purpose | None = None, index: int = 0) -> np.random.Generator:
    """Return the stream of a worker's compute times, or for a purpose, of which `index` distinguishes several."""
    key = (worker,) if purpose is None else (worker, purpose, index)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def draw_delays(
    clock: Clock, law: Delay, seed: int, worker: int, purpose: Purpose | None = None, index: int = 0
) -> Iterator[float]:
    """Yield one worker's delays without end, from the stream of these arguments."""
    law, generator, size = from_start(law), stream(seed, worker, purpose, index), _FIRST_BLOCK
    while True:
        block = array("d", _draw_block(law, generator, size, worker).tobytes())  # a list takes four times the memory
        good = _usable(block)
        yield from block if good == size else block[:good]
        if good < size:
            raise ValueError(
                f"`delay` must be finite and not negative; worker {worker} drew {block[good]} "
                f"at time {float(clock.now)}. Correct {law!r}."
            )
        size = min(2 * size, _LARGEST_BLOCK)


def _usable(block: Sequence[float]) -> int:
    """Count the delays before the first that is negative or not finite."""
    delays = np.asarray(block)
    usable = np.isfinite(delays) & (delays >= 0)
    return len(delays) if usable.all() else int(usable.argmin())


class ComputeDelays:
    """The compute times of all workers, in 128 bytes for each of those that draw few."""

    def __init__(self, clock: Clock, laws: Sequence[Delay], seed: int) -> None:
        self._clock = clock
        self._laws = laws
        self._seed = seed
        first = np.empty((len(laws), _FIRST_BLOCK))
        for worker, law in enumerate([from_start(law) for law in laws]):
            first[worker] = _draw_block(law, stream(seed, worker), _FIRST_BLOCK, worker)
        self._first = first.ravel().data
        usable = (np.isfinite(first) & (first >= 0)).all(axis=1)
        self._used = bytearray(np.where(usable, 0, _FIRST_BLOCK).astype(np.uint8))
        self._later: dict[int, Callable[[], float]] = {w: self._from(w, 0) for w in np.flatnonzero(~usable).tolist()}

    def next(self, worker: int) -> float:
        """Return the worker's next delay, or raise as `draw_delays` does."""
        index = self._used[worker]
        if index < _FIRST_BLOCK:
            self._used[worker] = index + 1
            return self._first[worker * _FIRST_BLOCK + index]
        later = self._later.get(worker)
        if later is None:
            later = self._later[worker] = self._from(worker, _FIRST_BLOCK)
        return later()

    def _from(self, worker: int, index: int) -> Callable[[], float]:
        return islice(draw_delays(self._clock, self._laws[worker], self._seed, worker), index, None).__next__


def _draw_block(law: Delay, generator: np.random.Generator, size: int, worker: int) -> FloatArray:
    block = np.asarray(law.sample(generator, size), dtype=np.float64)
    if block.shape != (size,):
        raise ValueError(
            f"`sample` must return an array of shape ({size},); the law of worker {worker} returned "
            f"{block.shape}. Draw `size` delays at once."
        )
    return block
