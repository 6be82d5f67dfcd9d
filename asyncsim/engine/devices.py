"""How many gradients to take together, and on which devices."""

from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

MOST_LANES = 64  # gradients at once on one accelerator: more only takes memory
HEAVY_GRADIENT = 2e6  # parameters × batch × seeds from which sharing lanes among CPU devices repays the exchange


class Lanes(NamedTuple):
    """Gradients taken together, whether as one batched program, and the devices that share them."""

    count: int
    batched: bool
    mesh: Mesh | None


def choose_lanes(lanes: int | None, workers: int, work: float) -> Lanes:
    """Lanes for a model with `work` parameters × batch × seeds on the devices that JAX has.

    Args:
        lanes: What the user asked for, or None.
        workers: n: no wave is longer.
        work: Size of one commit's gradients.

    Raises:
        ValueError: If `lanes` is not a whole number of at least 1.
    """
    if lanes is not None and (isinstance(lanes, bool) or not isinstance(lanes, int) or lanes < 1):
        raise ValueError(f"`lanes` must be a whole number of at least 1; got {lanes!r}.")
    devices = jax.local_devices()
    on_cpu = devices[0].platform == "cpu"
    shared = len(devices) > 1 and workers > 1 and (not on_cpu or work >= HEAVY_GRADIENT)
    if lanes is None:
        lanes = min(workers, MOST_LANES) if shared or not on_cpu else 1
    if lanes == 1 or not shared:
        return Lanes(lanes, not on_cpu, None)
    lanes = -(-lanes // len(devices)) * len(devices)  # every device the same number
    return Lanes(lanes, not on_cpu, Mesh(np.array(devices), ("lanes",)))
