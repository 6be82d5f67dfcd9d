"""The number of gradients to take together, and their devices."""

import os
from functools import cache
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from asyncsim._checks import brief, warn
from asyncsim._memory import cores

MOST_LANES = 64  # gradients at once on one accelerator: more only takes memory
HEAVY_GRADIENT = 2e6  # parameters × batch from which one gradient fills a CPU core: better shared than batched
LONG_WORK = 3e10  # parameters × batch × commits: some 15 seconds of a convolutional network on one core
HOST_DEVICES_FLAG = "xla_force_host_platform_device_count"  # how older programs ask for CPU devices


class Lanes(NamedTuple):
    """The number of gradients taken together, and how, in the fields of `asyncsim.engine._layout.Layout`."""

    lanes: int
    batched: bool
    in_turn: bool
    mesh: Mesh | None


def use_all_cores() -> None:
    """Let a replay share heavy gradients among all cores: JAX gets one CPU device for each core.

    Call it at the start of a program, before JAX computes anything. Later it has no effect, because the devices of JAX
    do not change once it has started. If you chose a number of devices already, by the environment variable
    JAX_NUM_CPU_DEVICES, the option `jax_num_cpu_devices` or XLA's own flag, your choice stays. The `asyncsim` command
    calls this function itself.

    Only gradients that fill a core are shared (parameters × batch of two million or more, such as those of a
    convolutional network). Smaller models run as before. Another number of devices is another program, which rounds
    differently.

    Example:
        >>> import asyncsim as asim
        >>> asim.use_all_cores()
    """
    if devices_chosen():
        return
    try:
        jax.config.update("jax_num_cpu_devices", cores())
    except RuntimeError:
        return  # JAX has started already.


def devices_chosen() -> bool:
    by_environment = os.environ.get("JAX_NUM_CPU_DEVICES") or HOST_DEVICES_FLAG in os.environ.get("XLA_FLAGS", "")
    return bool(by_environment) or jax.config.jax_num_cpu_devices > 0  # type: ignore[attr-defined]


def warn_of_idle_cores(lanes: int | None, workers: int, gradient_size: float, commits: int) -> None:
    """Warn once in a process that a long replay of heavy gradients leaves cores idle, unless that was chosen."""
    heavy = gradient_size >= HEAVY_GRADIENT and gradient_size * commits >= LONG_WORK
    if not heavy or lanes is not None or workers == 1 or devices_chosen() or cores() == 1:
        return
    if jax.default_backend() == "cpu" and jax.local_device_count() == 1:
        _say_that_cores_are_idle(cores())


@cache
def _say_that_cores_are_idle(count: int) -> None:
    warn(
        f"`replay` takes these gradients on one of {count} cores. Call `asyncsim.use_all_cores()` at the start of the "
        "program to use all of them, or set JAX_NUM_CPU_DEVICES=1 to keep to one."
    )


def choose_lanes(lanes: int | None, workers: int, gradient_size: float) -> Lanes:
    """Return the lanes for a model on the devices that JAX has."""
    if lanes is not None and (isinstance(lanes, bool) or not isinstance(lanes, int) or lanes < 1):
        raise ValueError(
            f"`lanes` must be a whole number of at least 1; got {brief(lanes)}. Leave it out for the default."
        )
    devices = jax.local_devices()
    on_cpu = devices[0].platform == "cpu"
    heavy = gradient_size >= HEAVY_GRADIENT
    shared = len(devices) > 1 and workers > 1 and (heavy or not on_cpu)
    if lanes is None:
        lanes = min(workers, MOST_LANES) if shared or not on_cpu else 1
    if lanes == 1 or not shared:
        return Lanes(lanes, not on_cpu, on_cpu and heavy, None)
    lanes = -(-lanes // len(devices)) * len(devices)  # Rounded up, so that every device has as many.
    return Lanes(lanes, not on_cpu, on_cpu and heavy, Mesh(np.array(devices), ("lanes",)))
