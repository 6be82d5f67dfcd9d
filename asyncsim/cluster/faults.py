"""Faults of a cluster, as descriptions. Each is in the trace when it happens."""

from dataclasses import dataclass
from typing import Annotated

from asyncsim._checks import (
    brief,
    require_count,
    require_integer,
    require_not_negative,
    require_positive,
    require_positive_or_infinite,
)
from asyncsim.components._checked import Checked
from asyncsim.delays import Delay
from asyncsim.delays._law import require_law

__all__ = ["AnyFault", "Crash", "MessageLoss", "ServerPause", "Sessions", "Slowdown"]

_NUMBERED = "Workers are numbered from 0."
_Worker = Annotated[int, require_integer, _NUMBERED]
_Since = Annotated[float, require_not_negative, "Give seconds from the start of the run."]


@dataclass(frozen=True)
class Slowdown(Checked):
    """A worker computes `factor` times as slowly for a while.

    Args:
        worker: Affected worker, from 0.
        start: When it begins, in seconds from the start of the run.
        seconds: Its duration, infinity if it has no end.
        factor: Duration of work meanwhile relative to the usual one, positive: 2 is half the speed, and below 1 the
            worker is faster.

    Raises:
        ValueError: If a number is out of range.
    """

    worker: _Worker
    start: _Since
    seconds: Annotated[float, require_positive_or_infinite, "Give seconds, or infinity if it has no end."]
    factor: Annotated[float, require_positive, "2 is half the speed. Use `Crash` for a worker that stops."]


@dataclass(frozen=True)
class Crash(Checked):
    """A worker goes down. Its running job is lost.

    Args:
        worker: Affected worker, from 0.
        time: When it goes down, in seconds from the start of the run.
        restart_after: Seconds until it reads and works again, None if it never returns.
        keeps_state: Whether it then still has the state of its rule (moments and the like) or begins anew.

    Raises:
        ValueError: If a number is out of range.
    """

    worker: _Worker
    time: _Since
    restart_after: Annotated[float, require_not_negative, "Use `None` for good."] | None = None
    keeps_state: bool = False


@dataclass(frozen=True)
class MessageLoss(Checked):
    """A commit on its way to the server is lost with some probability, missed after a time-out, and sent again.

    Args:
        probability: Probability that one attempt to send is lost, in [0, 1).
        timeout: Seconds after which the worker sends again, positive.
        attempts: Attempts after which the worker gives the job up and reads again, None if it never gives up.
        worker: Affected worker, from 0, or None for every worker.

    Raises:
        ValueError: If a number is out of range.
    """

    probability: Annotated[float, require_not_negative, "0.01 loses one message in a hundred."]
    timeout: Annotated[float, require_positive, "Give the seconds after which the worker sends again."]
    attempts: Annotated[int, require_count, "Use `None` to send until it arrives."] | None = None
    worker: _Worker | None = None

    def check(self) -> None:
        """Refuse a probability of 1."""
        if self.probability >= 1:
            raise ValueError(f"`probability` must be less than 1; got {brief(self.probability)}. Some must arrive.")


@dataclass(frozen=True)
class Sessions(Checked):
    """A worker comes and goes: present for a while, away for a while. When it leaves, its running job is lost.

    Args:
        online: Law of the seconds for which it stays. Its mean must be positive.
        offline: Law of the seconds for which it is away.
        worker: Affected worker, from 0, or None for every worker, each with sessions of its own.
        keeps_state: Whether it comes back with the state of its rule.

    Raises:
        ValueError: If an argument does not fit.
    """

    online: Annotated[Delay, require_law]
    offline: Annotated[Delay, require_law]
    worker: _Worker | None = None
    keeps_state: bool = True

    def check(self) -> None:
        """Refuse sessions of no time."""
        if not self.online.mean > 0:
            raise ValueError(
                f"`online` must have a positive mean; got {brief(self.online)}. Let the worker stay for a while."
            )


@dataclass(frozen=True)
class ServerPause(Checked):
    """The server takes up no new commit for a while, say to write a checkpoint, but finishes commits in service.

    Args:
        start: When the first pause begins, in seconds from the start of the run.
        seconds: Duration of a pause.
        every: Seconds from the beginning of one pause to that of the next, more than `seconds`, or None for a single
            pause.

    Raises:
        ValueError: If a number is out of range.
    """

    start: _Since
    seconds: Annotated[float, require_positive, "Give the seconds that the pause lasts."]
    every: Annotated[float, require_positive, "Use `None` for a single pause."] | None = None

    def check(self) -> None:
        """Refuse pauses that begin before the last one has ended."""
        if self.every is not None and self.every <= self.seconds:
            got = f"{self.every!r} and {self.seconds!r}"
            raise ValueError(f"`every` must be more than `seconds`; got {got}. Use `None` for a single pause.")


AnyFault = Slowdown | Crash | MessageLoss | Sessions | ServerPause
