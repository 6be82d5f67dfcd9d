"""Rollouts in the words of the libraries that train with them."""

from typing import Annotated, Any, Literal

from asyncsim._checks import require_count
from asyncsim.cluster.rollouts._rollouts import Rollouts
from asyncsim.components._checked import checked


@checked
def areal(*, max_head_offpolicyness: float, **system: Any) -> Rollouts:
    """Make rollouts as AReaL schedules them: a lead, the groups that are complete first, and nothing dropped.

    Args:
        max_head_offpolicyness: L, steps by which generation may lead (`lead`), for example 4.
        **system: The other arguments of `asyncsim.Rollouts`.

    Example:
        >>> import asyncsim as asim
        >>> law = asim.delays.Exponential(1.0)
        >>> areal(max_head_offpolicyness=4, slots=64, group=4, batch=8, generate=law, train=law).lead
        4.0

    References:
        Fu et al. 2025, arXiv 2505.24298.
    """
    return Rollouts(**{"lead": max_head_offpolicyness, **system})


@checked
def skyrl(*, max_staleness_steps: float, **system: Any) -> Rollouts:
    """Make rollouts as SkyRL's fully asynchronous trainer schedules them: a lead, and the groups complete first.

    Args:
        max_staleness_steps: Steps by which generation may lead (`lead`), for example 4.
        **system: The other arguments of `asyncsim.Rollouts`. `slots` is the number of its parallel generation workers
            times `group`.
    """
    return Rollouts(**{"lead": max_staleness_steps, **system})


@checked
def verl(
    *,
    staleness_threshold: float,
    trigger_parameter_sync_step: int = 1,
    partial_rollout: bool = True,
    **system: Any,
) -> Rollouts:
    """Make rollouts as verl's fully asynchronous policy trainer schedules them.

    Args:
        staleness_threshold: Lead (`lead`), as a multiple of the groups that are trained between two synchronisations,
            for example 0.5.
        trigger_parameter_sync_step: Steps from one synchronisation to the next (`sync_every`).
        partial_rollout: Whether samples under way continue after a synchronisation (`during_sync="pause"`). Without
            it, the engines finish them before (`"drain"`).
        **system: The other arguments of `asyncsim.Rollouts`. `sync` is the time of a synchronisation.

    Example:
        >>> import asyncsim as asim
        >>> law = asim.delays.Exponential(1.0)
        >>> made = verl(
        ...     staleness_threshold=0.5, trigger_parameter_sync_step=4, partial_rollout=False,
        ...     slots=64, group=4, batch=8, generate=law, train=law,
        ... )
        >>> made.lead, made.sync_every, made.during_sync
        (0.5, 4, 'drain')
    """
    words = {"lead": staleness_threshold, "sync_every": trigger_parameter_sync_step}
    return Rollouts(**{**words, "during_sync": "pause" if partial_rollout else "drain", **system})


@checked
def torchtitan(*, target_off_policy_steps: float, window: int, **system: Any) -> Rollouts:
    """Make rollouts as torchtitan schedules them: a lead, and a window in the order of opening.

    Args:
        target_off_policy_steps: S, steps by which generation may lead (`lead`), for example 2.
        window: W, groups among which a complete one may overtake older ones, for example 16.
        **system: The other arguments of `asyncsim.Rollouts`.
    """
    return Rollouts(**{"lead": target_off_policy_steps, "order": "window", "window": window, **system})


@checked
def nemo_rl(
    *, sampling: Literal["in_order", "ready_first", "windowed"], max_trajectory_age_steps: int, **system: Any
) -> Rollouts:
    """Make rollouts as NeMo-RL samples its replay buffer.

    Args:
        sampling: "in_order": steps take groups in the order of opening. "ready_first": those that were complete first.
            "windowed": those that were complete first, and groups that are too old are dropped.
        max_trajectory_age_steps: Steps by which generation may lead (`lead`), or with "windowed" versions that a group
            may be old (`max_age`), for example 1.
        **system: The other arguments of `asyncsim.Rollouts`.

    Example:
        >>> import asyncsim as asim
        >>> law = asim.delays.Exponential(1.0)
        >>> engines = {"slots": 64, "group": 4, "batch": 8, "generate": law, "train": law}
        >>> nemo_rl(sampling="in_order", max_trajectory_age_steps=1, **engines).order
        'submission'
    """
    if sampling == "windowed":
        return Rollouts(**{"max_age": max_trajectory_age_steps, **system})
    order = "submission" if sampling == "in_order" else "completion"
    return Rollouts(**{"lead": max_trajectory_age_steps, "order": order, **system})


@checked
def tinker(*, max_steps_off_policy: int, **system: Any) -> Rollouts:
    """Make rollouts as tinker's recipes schedule them: no lead, and groups that are too old are dropped.

    Args:
        max_steps_off_policy: K, versions that a group may be old (`max_age`), for example 4.
        **system: The other arguments of `asyncsim.Rollouts`.
    """
    return Rollouts(**{"max_age": max_steps_off_policy, **system})


@checked
def prime_rl(*, max_off_policy_steps: int = 8, target_lag: float = 1, **system: Any) -> Rollouts:
    """Make rollouts as prime-rl schedules them: a lead, and groups under way that are too old are aborted.

    Args:
        max_off_policy_steps: Versions that a group may be old, complete or under way (`max_age`, `stale="abort"`).
        target_lag: Steps by which generation may lead (`lead`).
        **system: The other arguments of `asyncsim.Rollouts`.
    """
    return Rollouts(**{"lead": target_lag, "max_age": max_off_policy_steps, "stale": "abort", **system})


@checked
def queue(
    *,
    batches: Annotated[int, require_count, "Give the capacity in steps."],
    batch: Annotated[int, require_count, "Give the groups of a step."],
    **system: Any,
) -> Rollouts:
    """Make rollouts with a bounded queue: a group that enters a full one drops the group that entered first.

    Args:
        batches: q, steps for which the queue has room (`capacity` = q·b), for example 2.
        batch: b, groups of a step.
        **system: The other arguments of `asyncsim.Rollouts`.

    References:
        Dong, Goel and Yu 2026, "Staleness in fully asynchronous RL", Applied Compute.
    """
    return Rollouts(**{"batch": batch, "capacity": batches * batch, **system})
