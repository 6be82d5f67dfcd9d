"""The life of one worker, as a SimPy process."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from simpy import Environment
from simpy.events import ProcessGenerator

from asyncsim.delays import Delay, FloatArray

# A worker draws its delays in blocks, because one call for many is some 50 times as fast as one call each.
# Blocks grow, so that a thousand workers with a few commits each do not draw a million delays.
_FIRST_BLOCK = 16
_LARGEST_BLOCK = 1024


@dataclass(frozen=True)
class CommitLog:
    """Who committed when, in the order of application; compact arrays, 12 bytes a commit."""

    worker: "array[int]" = field(default_factory=lambda: array("i"))
    time: "array[float]" = field(default_factory=lambda: array("d"))


def work(env: Environment, worker: int, delays: Iterator[float], log: CommitLog) -> ProcessGenerator:
    """Compute, commit and read again in the same instant, without end."""
    for delay in delays:
        yield env.timeout(delay)
        log.worker.append(worker)
        log.time.append(env.now)


def draw_delays(env: Environment, worker: int, law: Delay, generator: np.random.Generator) -> Iterator[float]:
    """Yield one worker's delays without end.

    Raises:
        ValueError: When a delay is negative, NaN or infinite, at the simulated time at which the worker draws
            it. SimPy itself lets NaN through and the worker's clock is then lost in silence.
    """
    size = _FIRST_BLOCK
    while True:
        block = _draw_block(law, generator, size, worker)
        usable = np.isfinite(block) & (block >= 0)
        good = size if usable.all() else int(usable.argmin())
        yield from block[:good].tolist()
        if good < size:
            raise ValueError(
                f"`delay` must be finite and not negative; worker {worker} drew {block[good]} "
                f"at time {float(env.now)}. Correct {law!r}."
            )
        size = min(2 * size, _LARGEST_BLOCK)


def _draw_block(law: Delay, generator: np.random.Generator, size: int, worker: int) -> FloatArray:
    block = np.asarray(law.sample(generator, size), dtype=np.float64)
    if block.shape != (size,):
        raise ValueError(
            f"`sample` must return an array of shape ({size},); the law of worker {worker} returned "
            f"{block.shape}. Draw `size` delays at once."
        )
    return block
