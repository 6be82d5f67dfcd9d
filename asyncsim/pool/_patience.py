"""Limits of time: waiting for other processes, and the time that a run may take."""

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic
from typing import Any

from asyncsim import _checks as checks
from asyncsim.store import _lease as lease

FOR_EVER = "Leave it out to wait for ever."
SAID = 60.0  # seconds of waiting until a warning says who is waited for


class Stopped(RuntimeError):
    """The queue cannot go on, for a reason that is no task's; finished results are kept, and the same call goes on."""


class TooLong(Exception):
    """A run took longer than it may."""


class Patience:
    """Waiting for other processes."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = None if seconds is None else checks.require_not_negative("patience", seconds, remedy=FOR_EVER)
        self.since: float | None = None
        self.said = False

    def end(self) -> None:
        """There is something else to do, or something has happened."""
        self.since, self.said = None, False

    def wait(self, whom: Callable[[], str]) -> None:
        """Nothing can be done but wait; says for whom after a minute."""
        now = monotonic()
        self.since = now if self.since is None else self.since
        waited = now - self.since
        if self.seconds is not None and waited >= self.seconds:
            raise Stopped(
                f"Waited {waited:.0f} seconds for {whom()}, as long as `patience` allows. Results are kept, and the "
                "same sweep goes on."
            )
        if waited >= SAID and not self.said:
            self.said = True
            limit = "" if self.seconds is not None else " `patience` limits the time (`--patience SECONDS`)."
            warnings.warn(f"Waiting for {whom()} since {waited:.0f} seconds.{limit}", stacklevel=3)


class Limit:
    """The time that a run may take, compared with the clock whenever the run reports its progress."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.begun = monotonic()

    def __call__(self, progress: Any) -> None:
        """Compare with the clock."""
        if monotonic() - self.begun > self.seconds:
            raise TooLong(over(self.seconds))


def over(seconds: float) -> str:
    """Why a run failed that took longer than it may."""
    return (
        f"it took longer than {seconds:g} seconds, which is its `run_limit`. Give it more, and try it again "
        "(`retry_failed`)"
    )


def holders_of(leases: Path, names: Iterable[str]) -> str:
    """Who holds the leases of these names, in words."""
    held = lease.holders(leases)
    known = [held[one] for one in names if one in held]
    processes = dict.fromkeys(f"process {one.get('process', '?')} on {lease.host_of(one)}" for one in known)
    return f"{' and '.join(processes) or 'another process'}, which holds the leases of {len(known):,} of these runs"
