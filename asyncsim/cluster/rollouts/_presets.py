"""Rollouts in the words of the libraries that train with them."""

from typing import Any, Literal

from asyncsim._checks import require_integer
from asyncsim.cluster.rollouts._rollouts import Rollouts


def areal(*, max_head_offpolicyness: float, **system: Any) -> Rollouts:
    """Make rollouts as AReaL schedules them: a lead, the groups that are complete first, and nothing dropped.

    Args:
        max_head_offpolicyness: η, how many steps generation may lead.
        **system: The other arguments of `asyncsim.Rollouts`.

    Returns:
        Rollouts with `lead` = η.

    Raises:
        ValueError: If an argument does not fit.

    Example:
        >>> import asyncsim as asim
        >>> laws = {"generate": asim.delays.Exponential(1.0), "train": asim.delays.Constant(1.0)}
        >>> areal(max_head_offpolicyness=4, slots=64, group=4, batch=8, **laws).lead
        4.0

    References:
        Fu et al. 2025, arXiv 2505.24298.
    """
    return Rollouts(**{"lead": max_head_offpolicyness, **system})


def skyrl(*, max_staleness_steps: float, **system: Any) -> Rollouts:
    """Make rollouts as SkyRL's fully asynchronous trainer schedules them: a lead and the groups complete first.

    Args:
        max_staleness_steps: How many steps generation may lead.
        **system: The other arguments of `asyncsim.Rollouts`; `slots` is the number of its parallel generation workers
            times `group`.

    Returns:
        Rollouts with this `lead`.

    Raises:
        ValueError: If an argument does not fit.

    Example:
        >>> import asyncsim as asim
        >>> laws = {"generate": asim.delays.Exponential(1.0), "train": asim.delays.Constant(1.0)}
        >>> skyrl(max_staleness_steps=2, slots=64, group=4, batch=8, refill="group", **laws).lead
        2.0
    """
    return Rollouts(**{"lead": max_staleness_steps, **system})


def verl(*, staleness_threshold: float, **system: Any) -> Rollouts:
    """Make rollouts as verl's fully asynchronous policy trainer schedules them, with partial rollouts.

    A step of the simulation is the time between two synchronisations. With several trainer steps between them, give
    `batch` and `train` of all of these together. Draining the engines at each synchronisation, as verl does without
    partial rollouts, is not simulated.

    Args:
        staleness_threshold: By how many batches of a synchronisation generation may lead, a fraction or more.
        **system: The other arguments of `asyncsim.Rollouts`; `sync` is the time of a synchronisation.

    Returns:
        Rollouts with this `lead`.

    Raises:
        ValueError: If an argument does not fit.

    Example:
        >>> import asyncsim as asim
        >>> laws = {"generate": asim.delays.Exponential(1.0), "train": asim.delays.Constant(1.0)}
        >>> verl(staleness_threshold=0.5, slots=64, group=4, batch=8, **laws).lead
        0.5
    """
    return Rollouts(**{"lead": staleness_threshold, **system})


def torchtitan(*, target_off_policy_steps: float, window: int, **system: Any) -> Rollouts:
    """Make rollouts as torchtitan schedules them: a lead, and a window in the order of opening.

    Args:
        target_off_policy_steps: S, how many steps generation may lead.
        window: W, groups among which a complete one may overtake older ones.
        **system: The other arguments of `asyncsim.Rollouts`.

    Returns:
        Rollouts with `lead` = S and `order` = "window".

    Raises:
        ValueError: If an argument does not fit.

    Example:
        >>> import asyncsim as asim
        >>> laws = {"generate": asim.delays.Exponential(1.0), "train": asim.delays.Constant(1.0)}
        >>> torchtitan(target_off_policy_steps=2, window=16, slots=64, group=4, batch=8, **laws).order
        'window'
    """
    return Rollouts(**{"lead": target_off_policy_steps, "order": "window", "window": window, **system})


def nemo_rl(
    *, sampling: Literal["in_order", "ready_first", "windowed"], max_trajectory_age_steps: int, **system: Any
) -> Rollouts:
    """Make rollouts as NeMo-RL samples its replay buffer.

    Args:
        sampling: "in_order": steps take groups in the order of opening. "ready_first": those that were complete first.
            "windowed": those that were complete first, and groups that are too old are dropped.
        max_trajectory_age_steps: How many steps generation may lead, or how old a group may be with "windowed".
        **system: The other arguments of `asyncsim.Rollouts`.

    Returns:
        Rollouts with this `lead` and `order`, or with this `max_age`.

    Raises:
        ValueError: If an argument does not fit.

    Example:
        >>> import asyncsim as asim
        >>> laws = {"generate": asim.delays.Exponential(1.0), "train": asim.delays.Constant(1.0)}
        >>> nemo_rl(sampling="in_order", max_trajectory_age_steps=1, slots=64, group=4, batch=8, **laws).order
        'submission'
    """
    if sampling == "windowed":
        return Rollouts(**{"max_age": max_trajectory_age_steps, **system})
    order = "submission" if sampling == "in_order" else "completion"
    return Rollouts(**{"lead": max_trajectory_age_steps, "order": order, **system})


def tinker(*, max_steps_off_policy: int, **system: Any) -> Rollouts:
    """Make rollouts as tinker's recipes schedule them: no lead, and groups that are too old are dropped.

    Args:
        max_steps_off_policy: K, how many versions old a group may be.
        **system: The other arguments of `asyncsim.Rollouts`.

    Returns:
        Rollouts with `max_age` = K.

    Raises:
        ValueError: If an argument does not fit.

    Example:
        >>> import asyncsim as asim
        >>> laws = {"generate": asim.delays.Exponential(1.0), "train": asim.delays.Constant(1.0)}
        >>> tinker(max_steps_off_policy=4, slots=64, group=4, batch=8, **laws).max_age
        4
    """
    return Rollouts(**{"max_age": max_steps_off_policy, **system})


def prime_rl(*, max_off_policy_steps: int = 8, target_lag: float = 1, **system: Any) -> Rollouts:
    """Make rollouts as prime-rl schedules them: a lead, and groups under way that are too old are aborted.

    Args:
        max_off_policy_steps: How many versions old a group may be, complete or under way.
        target_lag: How many steps generation may lead.
        **system: The other arguments of `asyncsim.Rollouts`.

    Returns:
        Rollouts with this `lead` and `max_age`, and with `stale` = "abort".

    Raises:
        ValueError: If an argument does not fit.

    Example:
        >>> import asyncsim as asim
        >>> laws = {"generate": asim.delays.Exponential(1.0), "train": asim.delays.Constant(1.0)}
        >>> prime_rl(slots=64, group=4, batch=8, **laws).stale
        'abort'
    """
    return Rollouts(**{"lead": target_lag, "max_age": max_off_policy_steps, "stale": "abort", **system})


def queue(*, batches: int, batch: int, **system: Any) -> Rollouts:
    """Make rollouts with a bounded queue: a group that enters a full one drops the group that entered first.

    Args:
        batches: q, steps for which the queue has room.
        batch: b, groups of a step.
        **system: The other arguments of `asyncsim.Rollouts`.

    Returns:
        Rollouts with `capacity` = q·b.

    Raises:
        ValueError: If an argument does not fit.

    Example:
        >>> import asyncsim as asim
        >>> laws = {"generate": asim.delays.Exponential(1.0), "train": asim.delays.Constant(1.0)}
        >>> queue(batches=2, slots=64, group=4, batch=8, **laws).capacity
        16

    References:
        Dong, Goel and Yu 2026, "Staleness in fully asynchronous RL", Applied Compute.
    """
    batches = require_integer("batches", batches, least=1, remedy="Give the capacity in steps.")
    batch = require_integer("batch", batch, least=1, remedy="Give the groups of a step.")
    return Rollouts(**{"batch": batch, "capacity": batches * batch, **system})
