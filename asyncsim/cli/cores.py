"""One JAX device for each core, so that heavy gradients are shared among them."""

import os

import jax


def use_all_cores() -> None:
    """Ask JAX for one CPU device per core, unless it has started or its user has chosen already."""
    if os.environ.get("JAX_NUM_CPU_DEVICES") or jax.config.jax_num_cpu_devices > 0:  # type: ignore[attr-defined]
        return
    try:
        jax.config.update("jax_num_cpu_devices", cores())
    except RuntimeError:  # the script has computed something already
        return


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
