"""How many gradients to take together, and on which devices."""

from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

MOST_LANES = 64  # gradients at once on one accelerator: more only takes memory
HEAVY_GRADIENT = 2e6  # parameters × batch from which one gradient fills a CPU core: better shared than batched


class Lanes(NamedTuple):
    """Gradients taken together, and how; the fields are those of `asyncsim.engine.layout.Layout`."""

    lanes: int
    batched: bool
    in_turn: bool
    mesh: Mesh | None


def choose_lanes(lanes: int | None, workers: int, gradient_size: float) -> Lanes:
    """Lanes for a model on the devices that JAX has.

    Args:
        lanes: What the user asked for, or None.
        workers: n: no wave is longer.
        gradient_size: Size of one gradient, parameters × batch.

    Raises:
        ValueError: If `lanes` is not a whole number of at least 1.
    """
    if lanes is not None and (isinstance(lanes, bool) or not isinstance(lanes, int) or lanes < 1):
        raise ValueError(f"`lanes` must be a whole number of at least 1; got {lanes!r}. Leave it out for the default.")
    devices = jax.local_devices()
    on_cpu = devices[0].platform == "cpu"
    heavy = gradient_size >= HEAVY_GRADIENT
    shared = len(devices) > 1 and workers > 1 and (heavy or not on_cpu)
    if lanes is None:
        lanes = min(workers, MOST_LANES) if shared or not on_cpu else 1
    if lanes == 1 or not shared:
        return Lanes(lanes, not on_cpu, on_cpu and heavy, None)
    lanes = -(-lanes // len(devices)) * len(devices)  # rounded up, so that every device has as many
    return Lanes(lanes, not on_cpu, on_cpu and heavy, Mesh(np.array(devices), ("lanes",)))
