"""Random numbers, one stream for each worker and purpose: adding a worker leaves the others' draws as they were."""

import enum
from collections.abc import Iterator

import numpy as np
from simpy import Environment

from asyncsim.delays import Delay, FloatArray

# Delays are drawn in blocks, because one call for many is some 50 times as fast as one call each.
# Blocks grow, so that a thousand workers with a few commits each do not draw a million delays.
_FIRST_BLOCK = 16
_LARGEST_BLOCK = 1024


class Purpose(enum.IntEnum):
    """What a worker draws for, besides its compute times."""

    LATENCY = 0
    SERVICE = 1
    SPEED = 2
    FAULTS = 3


def compute_stream(seed: int, worker: int) -> np.random.Generator:
    """The stream of a worker's compute times."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(worker,)))


def stream(seed: int, worker: int, purpose: Purpose, place: int = 0) -> np.random.Generator:
    """The stream of a worker for another purpose; `place` distinguishes several of the same purpose."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(worker, purpose, place)))


def draw_delays(env: Environment, worker: int, law: Delay, generator: np.random.Generator) -> Iterator[float]:
    """Yield one worker's delays without end.

    Raises:
        ValueError: When a delay is negative, NaN or infinite, at the simulated time at which the worker draws
            it. SimPy itself accepts NaN, and would silently lose track of the time.
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
