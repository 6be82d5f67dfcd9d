"""Faults: what can go wrong in a cluster, as descriptions. Each is in the trace when it happens."""

import math
from dataclasses import dataclass
from typing import Any

from asyncsim._checks import require_integer, require_not_negative, require_positive
from asyncsim.delays import Delay
from asyncsim.delays._law import require_law

__all__ = ["AnyFault", "Crash", "MessageLoss", "ServerPause", "Sessions", "Slowdown", "checked"]

_NUMBERED = "Workers are numbered from 0."
_SINCE = "Give seconds from the start of the run."


@dataclass(frozen=True)
class Slowdown:
    """A worker computes `factor` times as slowly for a while.

    Args:
        worker: Affected worker, from 0.
        start: When it begins, in seconds from the start of the run.
        seconds: How long it lasts; infinity if it has no end.
        factor: How many times as long work takes meanwhile, positive: 2 is half the speed, and below 1 the worker is
            faster.

    Raises:
        ValueError: If a number is out of range.
    """

    worker: int
    start: float
    seconds: float
    factor: float

    def __post_init__(self) -> None:
        require_integer("worker", self.worker, least=0, remedy=_NUMBERED)
        require_not_negative("start", self.start, remedy=_SINCE)
        _require_duration("seconds", self.seconds)
        require_positive("factor", self.factor, remedy="2 is half the speed; use `Crash` for a worker that stops.")


@dataclass(frozen=True)
class Crash:
    """A worker goes down; its running job is lost.

    Args:
        worker: Affected worker, from 0.
        time: When it goes down, in seconds from the start of the run.
        restart_after: Seconds until it reads and works again; None if it never returns.
        keeps_state: Whether it then still has the state of its rule (moments and the like) or begins anew.

    Raises:
        ValueError: If a number is out of range.
    """

    worker: int
    time: float
    restart_after: float | None = None
    keeps_state: bool = False

    def __post_init__(self) -> None:
        require_integer("worker", self.worker, least=0, remedy=_NUMBERED)
        require_not_negative("time", self.time, remedy=_SINCE)
        if self.restart_after is not None:
            require_not_negative("restart_after", self.restart_after, remedy="Use `None` for good.")


@dataclass(frozen=True)
class MessageLoss:
    """A commit on its way to the server is lost with some probability, missed after a time-out, and sent again.

    Args:
        probability: Probability that one attempt to send is lost, in [0, 1).
        timeout: Seconds after which the worker sends again, positive.
        attempts: Attempts after which the worker gives the job up and reads again; None if it never gives up.
        worker: Affected worker, from 0; None for every worker.

    Raises:
        ValueError: If a number is out of range.
    """

    probability: float
    timeout: float
    attempts: int | None = None
    worker: int | None = None

    def __post_init__(self) -> None:
        require_not_negative("probability", self.probability, remedy="0.01 loses one message in a hundred.")
        if self.probability >= 1:
            raise ValueError(f"`probability` must be less than 1; got {self.probability!r}. Some must arrive.")
        require_positive("timeout", self.timeout, remedy="Give the seconds after which the worker sends again.")
        if self.attempts is not None:
            require_integer("attempts", self.attempts, least=1, remedy="Use `None` to send until it arrives.")
        if self.worker is not None:
            require_integer("worker", self.worker, least=0, remedy=_NUMBERED)


@dataclass(frozen=True)
class Sessions:
    """A worker comes and goes: present for a while, away for a while. When it leaves, its running job is lost.

    Args:
        online: Law of the seconds for which it stays; its mean must be positive.
        offline: Law of the seconds for which it is away.
        worker: Affected worker, from 0; None for every worker, each with sessions of its own.
        keeps_state: Whether it comes back with the state of its rule.

    Raises:
        ValueError: If an argument does not fit.
    """

    online: Delay
    offline: Delay
    worker: int | None = None
    keeps_state: bool = True

    def __post_init__(self) -> None:
        require_law("online", self.online)
        require_law("offline", self.offline)
        if not self.online.mean > 0:
            raise ValueError(
                f"`online` must have a positive mean; got {self.online!r}. Let the worker stay for a while."
            )
        if self.worker is not None:
            require_integer("worker", self.worker, least=0, remedy=_NUMBERED)


@dataclass(frozen=True)
class ServerPause:
    """The server takes up no new commit for a while, say to write a checkpoint; it finishes commits in service.

    Args:
        start: When the first pause begins, in seconds from the start of the run.
        seconds: How long a pause lasts.
        every: Seconds from the beginning of one pause to that of the next, more than `seconds`; None for a single
            pause.

    Raises:
        ValueError: If a number is out of range.
    """

    start: float
    seconds: float
    every: float | None = None

    def __post_init__(self) -> None:
        require_not_negative("start", self.start, remedy=_SINCE)
        require_positive("seconds", self.seconds, remedy="Give the seconds that the pause lasts.")
        if self.every is None:
            return
        if require_positive("every", self.every, remedy="Use `None` for a single pause.") <= self.seconds:
            got = f"{self.every!r} and {self.seconds!r}"
            raise ValueError(f"`every` must be more than `seconds`; got {got}. Use `None` for a single pause.")


AnyFault = Slowdown | Crash | MessageLoss | Sessions | ServerPause


def checked(faults: Any, workers: int) -> tuple[AnyFault, ...]:
    """The faults of a cluster as a tuple.

    Raises:
        ValueError: If one is not a fault, or affects a worker that does not exist.
    """
    faults = (faults,) if isinstance(faults, AnyFault) else tuple(faults)
    for place, fault in enumerate(faults):
        if not isinstance(fault, AnyFault):
            raise ValueError(f"`faults` must hold faults; entry {place} is {fault!r}. Use those of `asyncsim.faults`.")
        worker = getattr(fault, "worker", None)
        if worker is not None and worker >= workers:
            raise ValueError(
                f"`faults` must affect workers 0 to {workers - 1}; entry {place} names worker {worker}. {_NUMBERED}"
            )
    return faults


def _require_duration(name: str, value: float) -> None:
    if value != math.inf:
        require_positive(name, value, remedy="Give seconds, or infinity if it has no end.")
