"""Rollout engines and a trainer as one component."""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from asyncsim import _checks as checks
from asyncsim import _memory as memory
from asyncsim._checks import require_count, require_integer, require_not_negative, require_share
from asyncsim.cluster._events import Report, run_until
from asyncsim.cluster._model import require_faults
from asyncsim.cluster._simulation import collector_paused
from asyncsim.cluster.faults import AnyFault, Crash, Sessions, Slowdown
from asyncsim.cluster.rollouts._ledger import Ledger
from asyncsim.cluster.rollouts._running import ROUNDING, Prompt, Running
from asyncsim.components._component import Component
from asyncsim.delays import Delay
from asyncsim.delays._law import require_law
from asyncsim.delays._per_worker import ZERO, is_zero, require_positive_laws
from asyncsim.trace import Trace

BYTES = 60  # of one sample, at least


_Whole = Annotated[int, require_count, "Give a whole number, for example 8."]
_Law = Annotated[Delay, require_law]


def _function(name: str, value: Any) -> Any:
    if not callable(value):
        raise ValueError(
            f"`{name}` must be a function of a ticket and its groups; got {checks.brief(value)}. Give None, say."
        )
    return value


class Rollouts(Component):
    """Asynchronous reinforcement learning: slots generate samples with older weights while a trainer makes steps.

    Slots generate groups of samples, a group for one prompt. A complete group waits in a queue. The trainer takes
    `batch` groups at the beginning of a step, and the version grows at its end. From then on all slots generate with
    the new weights, and samples under way continue (in-flight update). At equal times a step ends before a sample does.
    At an update the version grows first, then groups are aborted, then free slots start samples, then the trainer
    looks for the next step.

    *Staleness* of a trained sample is the version at its step minus the version of the weights with which it started.
    That of a group counts from the start of its first sample.

    Args:
        slots: C, samples that are generated at the same time, at least 1.
        group: S, samples of a group.
        batch: b, groups of a step, which therefore trains B = b·S samples.
        generate: Law of the generation time of a sample in seconds: one law, or one per slot for unequal engines.
        train: Law of the time of a step in seconds.
        reward: Law of the time from the end of a group's last sample until the group is in the queue, in seconds.
        refill: "sample": a slot is free when its sample ends, completes the group that is being opened first, and then
            opens another. "group": S slots generate a group together and are free when its longest sample ends.
        lead: L, steps by which generation may lead: another group may be opened while fewer than ⌊(v + L + 1)·b⌋ have
            been opened, where v is the version and groups that were dropped do not count. None: no bound.
        order: Which complete groups a step takes. "completion": those that were complete first. "submission": in the
            order of opening, and the step waits for them. "window": complete groups move into a list, again and again
            the oldest complete one among `window` groups from the oldest that has not moved, and steps take the list in
            turn. "newest": those that were complete last. "freshest" and "stalest": those that started with the newest
            or the oldest weights, ties by completion.
        window: W, groups, for the order "window" only.
        capacity: Groups that the queue holds, at least as many as are taken together. One that enters a full queue
            drops the one that entered first. None: no bound.
        max_age: K: when the trainer looks, groups that are complete and more than K versions old are dropped. None: no
            bound.
        stale: "drop": `max_age` concerns complete groups. "abort": at each update, also those under way.
        sync: Law of the time that new weights take to the slots, in seconds.
        during_sync: "pause": the trainer and all generation stop for that time, and the version grows after it.
            "continue": nothing stops, and slots generate with older weights for that time. "drain": slots first finish
            the samples under way and start no others, the trainer waits for them, and then all stops as for "pause".
        sync_every: M: slots have new weights after every M-th step only, and the lead is in units of M steps: groups
            may be opened while fewer than ⌊(v' + (L + 1)·M)·b⌋ have been, where v' is the last such version.
        prompt: Factor of the generation times of a group's samples, by its prompt: `(ticket, j) -> factors`, where
            `j` are numbers of a ticket's groups, counted from 0 in the order of opening, as an array. A ticket is the
            worker in the trace. None: all groups have the same law. See `workloads.Bits.prompts`.
        steps_per_take: k, optimiser steps that the trainer makes of the groups that it takes together: it waits for k·b
            of them, and makes k steps of b groups one after another.
        signal: q, probability that a group has a signal for training, because its rewards differ for example, in (0,
            1]. A complete group without one is dropped, and another may be opened in its place.
        engines: Engines that have the slots in equal shares and fail as a whole, numbered from 0. None: every slot is
            an engine of its own, or with refill="group" the S slots of a group.
        faults: Faults of engines, a sequence of `faults.Crash`, `faults.Sessions` and `faults.Slowdown` whose `worker`
            is an engine. An engine that goes down loses the samples under way. Their groups are dropped, and others
            may be opened in their place.

    Raises:
        ValueError: If an argument does not fit.

    Example:
        >>> import asyncsim as asim
        >>> rollouts = Rollouts(
        ...     slots=96, group=4, batch=8, lead=2.0,
        ...     generate=asim.delays.LogNormal(mean=1.0, cv=1.0), train=asim.delays.Constant(1.0),
        ... )
        >>> trace = asim.simulate(rollouts, commits=800)  # a row of the trace is a group
        >>> trace.steps, bool(trace.staleness[80:].mean() <= 2.0)
        (100, True)
        >>> summary = rollouts.ledger(commits=800).summary(warm_up=10)
        >>> round(summary["group_staleness"] - float(trace.staleness[80:].mean()), 9)
        0.0

    References:
        Fu et al. 2025, "AReaL: A Large-Scale Asynchronous Reinforcement Learning System for Language Reasoning",
        arXiv 2505.24298.
    """

    slots: _Whole
    group: _Whole
    batch: _Whole
    generate: Delay | Sequence[Delay]
    train: _Law
    reward: _Law = ZERO
    refill: Literal["sample", "group"] = "sample"
    lead: Annotated[float, require_not_negative, "Give steps, for example 1, or None for no bound."] | None = None
    order: Literal["completion", "submission", "window", "newest", "freshest", "stalest"] = "completion"
    window: _Whole = 1
    capacity: _Whole | None = None
    max_age: Annotated[int, require_integer, "Give a number of versions, or None for no bound."] | None = None
    stale: Literal["drop", "abort"] = "drop"
    sync: _Law = ZERO
    during_sync: Literal["pause", "continue", "drain"] = "pause"
    sync_every: _Whole = 1
    prompt: Annotated[Prompt, _function] | None = None
    steps_per_take: _Whole = 1
    signal: Annotated[float, require_share, "1 keeps every group."] = 1.0
    engines: _Whole | None = None
    faults: Sequence[AnyFault] = ()

    def check(self) -> None:
        """Refuse arguments that do not fit together."""
        object.__setattr__(self, "generate", require_positive_laws("generate", self.generate, self.slots, "slot"))
        if self.refill == "group" and self.slots % self.group:
            remedy = "Use as many slots as fit whole groups, or refill='sample'."
            raise ValueError(
                f"`slots` must be a multiple of `group` with refill='group'; got {checks.brief(self.slots)} for groups "
                f"of {self.group}. {remedy}"
            )
        if self.window != 1 and self.order != "window":
            raise ValueError(
                f"`window` must be left out with order={self.order!r}; got {checks.brief(self.window)}. Use "
                "order='window'."
            )
        take = self.steps_per_take * self.batch
        if self.capacity is not None and self.capacity < take:
            raise ValueError(
                f"`capacity` must be at least `batch` · `steps_per_take`, or no step begins; got "
                f"{checks.brief(self.capacity)} for {take} groups that are taken together. Use {take} or more."
            )
        # The trainer takes groups at versions that are multiples of `steps_per_take`. The slots' weights are then older
        # by this number of versions at most.
        behind = self.sync_every - math.gcd(self.sync_every, self.steps_per_take)
        if self.max_age is not None and self.max_age < behind:
            raise ValueError(
                f"`max_age` must be at least {behind}, or no group is young enough for the last step before a "
                f"synchronisation; got {checks.brief(self.max_age)} with `sync_every` = {self.sync_every}. Use "
                f"{behind} or more."
            )
        least = (self.steps_per_take + behind) / self.sync_every - 1
        if self.lead is not None and self.lead < least * (1 - ROUNDING):
            raise ValueError(
                f"`lead` must be at least {least:g}, or the groups of {self.steps_per_take} steps are never there "
                f"together; got {checks.brief(self.lead)} with `sync_every` = {self.sync_every}. Use {least:g} or "
                f"more, or sync_every={self.steps_per_take}."
            )
        self._check_engines()
        if self.stale == "abort" and self.max_age is None:
            raise ValueError("`max_age` must be given with stale='abort'; got None. Give a number of versions.")

    def _check_engines(self) -> None:
        """Refuse engines that do not share the slots equally, and faults that engines cannot have."""
        place = self.group if self.refill == "group" else 1
        engines = self.slots // place if self.engines is None else self.engines
        if self.slots % (engines * place):
            whole = "" if place == 1 else f" with room for whole groups of {place}"
            raise ValueError(
                f"`engines` must share the slots equally{whole}; got {checks.brief(engines)} for {self.slots} slots. "
                "Use a divisor."
            )
        object.__setattr__(self, "faults", require_faults(self.faults, engines, "engine"))
        for fault in self.faults:
            if not isinstance(fault, Crash | Sessions | Slowdown):
                raise ValueError(
                    f"`faults` of engines must be crashes, sessions or slowdowns; got {checks.brief(fault)}. Leave it "
                    "out."
                )
            if isinstance(fault, Slowdown) and self.during_sync == "pause" and not is_zero(self.sync):
                raise ValueError(
                    f"`faults` must have no slowdown where generation pauses for new weights; got "
                    f"{checks.brief(fault)}. Use during_sync='drain' or 'continue'."
                )

    def ledger(self, commits: int, seed: int = 0) -> Ledger:
        """Simulate until a number of groups are trained, with one row a sample.

        Args:
            commits: Trained groups, at least 1. The last step is whole.
            seed: Seed of the times, an integer of at least 0. `asyncsim.simulate` has the same times for it.

        Raises:
            ValueError: If an argument does not fit, a time is negative or not finite, or the groups never come.

        Example:
            >>> import asyncsim as asim
            >>> law = asim.delays.Constant(1.0)
            >>> ledger = Rollouts(slots=1, group=2, batch=1, generate=law, train=law, lead=0).ledger(commits=2)
            >>> ledger.start.tolist(), ledger.end.tolist(), ledger.steps.update.tolist()
            ([0.0, 1.0, 3.0, 4.0], [1.0, 2.0, 4.0, 5.0], [3.0, 6.0])
        """
        seed = checks.require_integer("seed", seed, remedy="Give the run another seed.")
        return self._simulated(commits, None, seed).ledger()

    def simulate(
        self, *, commits: int | None = None, seconds: float | None = None, seed: int = 0, progress: Report | None = None
    ) -> Trace:
        """Make the trace for `asyncsim.simulate`, which checks the arguments."""
        return self._simulated(commits, seconds, seed, progress).trace()

    def _simulated(
        self, commits: int | None, seconds: float | None, seed: int, report: Report | None = None
    ) -> Running:
        """Run the system until this number of groups is trained, or to the end of this time, inclusive."""
        if commits is not None:
            commits = checks.require_count("commits", commits, remedy="Ask for one group or more.")
            size = commits * self.group * BYTES
            memory.require(size, f"`commits` of {checks.brief(commits)} groups of {self.group}", "Use fewer.")
        running = Running(self, commits, seed)
        with collector_paused():
            run_until(running, commits, seconds, report, workers=self.slots)
        return running
