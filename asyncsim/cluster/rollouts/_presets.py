"""Presets of `Rollouts`, one for each library that schedules them, with the names of that library's arguments."""

from typing import Annotated, Any, Literal

from asyncsim._checks import brief, require_count, require_integer, require_not_negative
from asyncsim.cluster.rollouts._rollouts import Rollouts
from asyncsim.components._checked import checked

_Lead = Annotated[float, require_not_negative, "Give steps, for example 1."]
_Versions = Annotated[int, require_integer, "Give a whole number, for example 1."]
_Steps = Annotated[int, require_count, "Give a number of steps, for example 1."]
DERIVED_ARGUMENTS = {  # preset -> arguments of `Rollouts` that follow from its own
    "areal": ("lead",),
    "blocking_queue": ("lead",),
    "nemo_rl": ("lead", "max_age", "order"),
    "openrlhf": ("lead", "during_sync"),
    "prime_rl": ("lead", "max_age"),
    "queue": ("capacity",),
    "roll": ("lead",),
    "skyrl": ("lead",),
    "slime": ("lead", "steps_per_take", "sync_every"),
    "tinker": ("max_age",),
    "tinker_ahead": ("lead",),
    "torchtitan": ("lead",),
    "trl": ("max_age", "sync_every"),
    "verl": ("lead", "sync_every", "during_sync"),
}


def _make(preset: str, arguments: dict[str, Any], system: dict[str, Any]) -> Rollouts:
    """Make the rollouts of a preset, and refuse other arguments that follow from the preset's own."""
    for name in DERIVED_ARGUMENTS[preset]:
        if name in arguments and name in system:
            raise ValueError(
                f"`{name}` follows from the other arguments of {preset}; got {brief(system[name])}. Leave it out, or "
                "use `asyncsim.Rollouts`."
            )
    return Rollouts(**{**arguments, **system})


@checked
def areal(*, max_head_offpolicyness: _Lead, **system: Any) -> Rollouts:
    """Make rollouts as AReaL schedules them: a lead, the oldest of the complete groups, and nothing dropped.

    Its executor sorts the complete groups by the time at which they began (`workflow_executor.py` at commit 0db3083).

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
    return _make("areal", {"lead": max_head_offpolicyness, "order": "stalest"}, system)


@checked
def skyrl(*, max_staleness_steps: _Lead, **system: Any) -> Rollouts:
    """Make rollouts as SkyRL's fully asynchronous trainer schedules them: a lead, and the groups complete first.

    Args:
        max_staleness_steps: Steps by which generation may lead (`lead`), for example 4.
        **system: The other arguments of `asyncsim.Rollouts`. `slots` is the number of its parallel generation workers
            times `group`.
    """
    return _make("skyrl", {"lead": max_staleness_steps}, system)


@checked
def verl(
    *, staleness_threshold: _Lead, trigger_parameter_sync_step: _Steps = 1, partial_rollout: bool = True, **system: Any
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
        >>> rollouts = verl(
        ...     staleness_threshold=0.5, trigger_parameter_sync_step=4, partial_rollout=False,
        ...     slots=64, group=4, batch=8, generate=law, train=law,
        ... )
        >>> rollouts.lead, rollouts.sync_every, rollouts.during_sync
        (0.5, 4, 'drain')
    """
    arguments = {"lead": staleness_threshold, "sync_every": trigger_parameter_sync_step}
    return _make("verl", {**arguments, "during_sync": "pause" if partial_rollout else "drain"}, system)


@checked
def torchtitan(
    *, target_off_policy_steps: _Lead, window: Annotated[int, require_count, "Give a number of groups."], **system: Any
) -> Rollouts:
    """Make rollouts as torchtitan schedules them: a lead, and a window in the order of opening.

    Args:
        target_off_policy_steps: S, steps by which generation may lead (`lead`), for example 2.
        window: W, groups among which a complete one may overtake older ones, for example 16.
        **system: The other arguments of `asyncsim.Rollouts`.
    """
    return _make("torchtitan", {"lead": target_off_policy_steps, "order": "window", "window": window}, system)


@checked
def nemo_rl(
    *, sampling: Literal["in_order", "ready_first", "windowed"], max_trajectory_age_steps: _Versions, **system: Any
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
        return _make("nemo_rl", {"max_age": max_trajectory_age_steps}, system)
    order = "submission" if sampling == "in_order" else "completion"
    return _make("nemo_rl", {"lead": max_trajectory_age_steps, "order": order}, system)


@checked
def tinker(*, max_steps_off_policy: _Versions, **system: Any) -> Rollouts:
    """Make rollouts as tinker's recipes scheduled them until July 2026: groups that are too old are dropped.

    See `tinker_ahead` for the present rule.

    Args:
        max_steps_off_policy: K, versions that a group may be old (`max_age`), for example 4.
        **system: The other arguments of `asyncsim.Rollouts`.
    """
    return _make("tinker", {"max_age": max_steps_off_policy}, system)


@checked
def tinker_ahead(*, sampling_steps_ahead: _Lead, **system: Any) -> Rollouts:
    """Make rollouts as tinker's recipes schedule them since July 2026: a lead, oldest weights first, nothing dropped.

    Args:
        sampling_steps_ahead: Steps by which generation may lead (`lead`), for example 2. A group that the recipe
            filters out makes room for another at once, as with `signal`.
        **system: The other arguments of `asyncsim.Rollouts`.

    References:
        The documentation of `AsyncConfig` of tinker-cookbook at commit 8bf7dd6.
    """
    return _make("tinker_ahead", {"lead": sampling_steps_ahead, "order": "stalest"}, system)


@checked
def trl(*, max_staleness: _Versions, weight_sync_steps: _Steps = 1, **system: Any) -> Rollouts:
    """Make rollouts as TRL's asynchronous GRPO trainer schedules them: groups of too old weights are dropped.

    Args:
        max_staleness: New weights that a group may have missed, for example 4. In steps, as in `max_age`, that is
            (max_staleness + 1)·M - 1 for M steps from one transfer of weights to the next.
        weight_sync_steps: M (`sync_every`).
        **system: The other arguments of `asyncsim.Rollouts`. `slots` is the number of its tasks in flight, by default
            max_staleness times the samples of a step.

    References:
        TRL's page on asynchronous GRPO at commit 00c802b (before version 1.18).
    """
    max_age = (max_staleness + 1) * weight_sync_steps - 1
    return _make("trl", {"max_age": max_age, "sync_every": weight_sync_steps}, system)


@checked
def roll(*, async_generation_ratio: _Versions, **system: Any) -> Rollouts:
    """Make rollouts as ROLL's asynchronous pipelines schedule them: a lead in whole batches.

    Args:
        async_generation_ratio: Batches that may be generated ahead (`lead`), for example 1. With 0, generation and
            training take turns.
        **system: The other arguments of `asyncsim.Rollouts`.

    References:
        ROLL's guide to asynchronous training, in which only whole numbers are supported (2025).
    """
    return _make("roll", {"lead": async_generation_ratio}, system)


@checked
def slime(*, num_steps_per_rollout: _Steps = 1, ahead: _Versions = 1, **system: Any) -> Rollouts:
    """Make rollouts as slime schedules them: k steps on one rollout, and new weights once the next one is complete.

    Args:
        num_steps_per_rollout: k, steps on the groups of one rollout (`steps_per_take`, `sync_every`).
        ahead: Rollouts that are generated ahead (`lead`): 1 for its script `train_async.py` with new weights after
            every rollout, 0 for `train.py`.
        **system: The other arguments of `asyncsim.Rollouts`. `batch` is the number of groups of one step.

    Example:
        >>> import asyncsim as asim
        >>> law = asim.delays.Exponential(1.0)
        >>> rollouts = slime(num_steps_per_rollout=2, slots=64, group=4, batch=8, generate=law, train=law)
        >>> rollouts.lead, rollouts.steps_per_take, rollouts.sync_every, rollouts.during_sync
        (1.0, 2, 2, 'drain')

    References:
        slime's `train_async.py` at commit 03f3392.
    """
    arguments = {"lead": ahead, "steps_per_take": num_steps_per_rollout, "sync_every": num_steps_per_rollout}
    return _make("slime", {**arguments, "during_sync": "drain"}, system)


@checked
def openrlhf(*, async_queue_size: _Versions = 1, partial_rollout_enable: bool = False, **system: Any) -> Rollouts:
    """Make rollouts as OpenRLHF's asynchronous trainer schedules them: the generator waits for room in the queue.

    Args:
        async_queue_size: q, batches for which the queue has room. The generator waits before it generates, so that q
            batches are ahead of the one that is trained (`lead` = q). In version 0.8.0 it waited with a complete batch
            in its hands, as in `blocking_queue`.
        partial_rollout_enable: Whether samples under way continue with new weights (`during_sync="pause"`). Without it,
            the engines finish them before (`"drain"`).
        **system: The other arguments of `asyncsim.Rollouts`.

    References:
        OpenRLHF 0.8.2 to 0.11.0.
    """
    during_sync = "pause" if partial_rollout_enable else "drain"
    return _make("openrlhf", {"lead": async_queue_size, "during_sync": during_sync}, system)


@checked
def blocking_queue(*, batches: Annotated[int, require_count, "Give the capacity in steps."], **system: Any) -> Rollouts:
    """Make rollouts with a queue that blocks: whoever has a complete batch for a full queue waits with it.

    Besides the batch that is trained, q are in the queue and one waits before it: `lead` = q + 1. Nothing is dropped.

    Args:
        batches: q, steps for which the queue has room, for example 1.
        **system: The other arguments of `asyncsim.Rollouts`.

    Example:
        >>> import asyncsim as asim
        >>> law = asim.delays.Exponential(1.0)
        >>> blocking_queue(batches=1, slots=64, group=4, batch=8, generate=law, train=law).lead
        2.0
    """
    return _make("blocking_queue", {"lead": batches + 1}, system)


@checked
def prime_rl(*, max_off_policy_steps: _Versions = 8, target_lag: _Lead = 1, **system: Any) -> Rollouts:
    """Make rollouts as prime-rl schedules them: a lead, and groups under way that are too old are aborted.

    Args:
        max_off_policy_steps: Versions that a group may be old, complete or under way (`max_age`, `stale="abort"`).
        target_lag: Steps by which generation may lead (`lead`).
        **system: The other arguments of `asyncsim.Rollouts`.
    """
    return _make("prime_rl", {"lead": target_lag, "max_age": max_off_policy_steps, "stale": "abort"}, system)


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
    return _make("queue", {"batch": batch, "capacity": batches * batch}, system)
