"""The server: how many commits it works on at once, how long each takes, and when a worker sees what."""

from dataclasses import dataclass

from asyncsim.checks import one_of, require_integer
from asyncsim.delays import Delay
from asyncsim.delays.law import require_law
from asyncsim.delays.per_worker import ZERO, is_zero

PULLS = ("before_commit", "at_read")


@dataclass(frozen=True)
class Server:
    """A queue that works on `slots` commits at once, first-in, first-out.

    A commit takes effect at the end of its service.

    *Atomic*: pull, commit and the read for the next job are one moment, that of the commit, and nobody comes in between
    (the server is locked, as in the authors' script of Gradient Energy Matching). The answer to the commit carries the
    central variable.

    *Separate*: each is a request of its own, and others may commit in between. A worker hears that its commit was
    applied, asks for the central variable (read), computes, asks again (pull), and sends its commit. Requests take one
    latency each way and do not queue. With ``pull="at_read"`` there is no second request: the value at which the worker
    computes is also the last that it saw before committing.

    Args:
        slots: Commits in service at once, at least 1.
        service: Law of the seconds that the service of one commit takes.
        atomic: Whether pull, commit and read are one moment.
        pull: If they are separate, what a rule that pulls sees: "before_commit" or "at_read".

    Raises:
        ValueError: If an argument does not fit.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> Server(service=Exponential(mean=0.1)).slots
        1
    """

    slots: int = 1
    service: Delay = ZERO
    atomic: bool = True
    pull: str = "before_commit"

    def __post_init__(self) -> None:
        require_integer("slots", self.slots, least=1, remedy="A server works on one commit or more.")
        require_law("service", self.service)
        if not isinstance(self.atomic, bool):
            raise ValueError(
                f"`atomic` must be True or False; got {self.atomic!r}. Write `service=` if you meant that."
            )
        one_of("pull", self.pull, PULLS)

    @property
    def is_instant(self) -> bool:
        """Whether a commit takes no time, so that commits never queue."""
        return is_zero(self.service)
