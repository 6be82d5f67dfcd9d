"""Waiting for others: after a minute it is said who is waited for, and after as long as one likes it ends.

Also the time that a run may take.
"""

import warnings
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from asyncsim import checks
from asyncsim.folders.labels import CLAIMS
from asyncsim.study import lease
from asyncsim.study.store import Store

FOR_EVER = "Leave it out to wait for ever."
SAID = 60.0  # seconds of waiting until it is said who is waited for


class SweepStopped(RuntimeError):
    """A sweep cannot go on, for a reason that is no run's; its results are kept, and the same call goes on."""


class TooLong(Exception):
    """A run took longer than it may."""


class Patience:
    """Waiting for others.

    Args:
        seconds: How long at most; None for ever.

    Example:
        >>> patience = Patience(0.0)
        >>> patience.wait(lambda: "process 7 on node3")
        Traceback (most recent call last):
        asyncsim.study.patience.SweepStopped: Waited 0 seconds for process 7 on node3, as long as `patience` allows. \
Results are kept, and the same sweep goes on.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = None if seconds is None else checks.require_not_negative("patience", seconds, remedy=FOR_EVER)
        self.since: float | None = None
        self.said = False

    def end(self) -> None:
        """There is something else to do, or something has happened."""
        self.since, self.said = None, False

    def wait(self, whom: Callable[[], str]) -> None:
        """Nothing can be done but wait; says for whom after a minute.

        Raises:
            SweepStopped: If this has lasted too long.
        """
        now = monotonic()
        self.since = now if self.since is None else self.since
        waited = now - self.since
        if self.seconds is not None and waited >= self.seconds:
            raise SweepStopped(
                f"Waited {waited:.0f} seconds for {whom()}, as long as `patience` allows. Results are kept, and the "
                "same sweep goes on."
            )
        if waited >= SAID and not self.said:
            self.said = True
            limit = "" if self.seconds is not None else " `patience` limits the time (`--patience SECONDS`)."
            warnings.warn(f"Waiting for {whom()} since {waited:.0f} seconds.{limit}", stacklevel=3)


class Limit:
    """The time that a run may take, looked at whenever the run reports its progress.

    Args:
        seconds: From `begin` on.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.begin()

    def begin(self) -> None:
        """Another run begins."""
        self.begun = monotonic()

    def __call__(self, progress: Any) -> None:
        """Look at the clock.

        Raises:
            TooLong: If the time is over.
        """
        if monotonic() - self.begun > self.seconds:
            raise TooLong(over(self.seconds))


def over(seconds: float) -> str:
    """Why a run failed that took longer than it may."""
    return (
        f"it took longer than {seconds:g} seconds, which is its `run_limit`. Give it more, and try it again "
        "(`retry_failed`)"
    )


def holders_of(store: Store, digests: Iterable[str]) -> str:
    """Who computes these scenarios, in words."""
    held = lease.holders(store.path / CLAIMS)
    known = [held[one] for one in digests if one in held]
    names = dict.fromkeys(f"process {one.get('process', '?')} on {_host(one)}" for one in known)
    return f"{' and '.join(names) or 'another process'}, which has claimed {len(known):,} of these runs"


def _host(holder: dict[str, Any]) -> str:
    return (str(holder.get("host", "")).split() or ["an unknown host"])[0]
