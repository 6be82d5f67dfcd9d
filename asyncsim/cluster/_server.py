"""The server: how many commits it works on at once, how long each takes, and when a worker sees what."""

from dataclasses import dataclass

from asyncsim._checks import one_of, require_integer
from asyncsim.delays import Delay
from asyncsim.delays._law import require_law
from asyncsim.delays._per_worker import ZERO, is_zero

PULLS = ("before_commit", "at_read")
RESUMES = ("central", "own")


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

    With ``resume="own"`` a worker of a separate server goes on as soon as its commit is applied, from a value of its
    own: what it pulled for this commit plus its own message, as the server would have applied it then. It does not read
    the central variable, and knows nothing of the g commits of others that came between its pull and its commit until
    it pulls again. The mean staleness is longer by the mean of g. With g = 0 it is an atomic server.

    Args:
        slots: Commits in service at once, at least 1.
        service: Law of the seconds that the service of one commit takes.
        atomic: Whether pull, commit and read are one moment.
        pull: If they are separate, what a rule that pulls sees: "before_commit" or "at_read".
        resume: If they are separate, where a worker goes on after its commit: from the "central" variable that it
            reads, or from its "own" value.
        pull_to_commit: If they are separate, law of the seconds between the arrival of what a worker pulled and the
            sending of its commit; by default it takes no time.

    Raises:
        ValueError: If an argument does not fit, or needs a server with `atomic=False` and `pull="before_commit"`.

    Example:
        >>> from asyncsim.delays import Exponential
        >>> Server(service=Exponential(mean=0.1)).slots
        1
        >>> Server(atomic=False, resume="own", pull_to_commit=Exponential(mean=0.1)).resume
        'own'
    """

    slots: int = 1
    service: Delay = ZERO
    atomic: bool = True
    pull: str = "before_commit"
    resume: str = "central"
    pull_to_commit: Delay = ZERO

    def __post_init__(self) -> None:
        require_integer("slots", self.slots, least=1, remedy="A server works on one commit or more.")
        require_law("service", self.service)
        if not isinstance(self.atomic, bool):
            raise ValueError(
                f"`atomic` must be True or False; got {self.atomic!r}. Write `service=` if you meant that."
            )
        one_of("pull", self.pull, PULLS)
        one_of("resume", self.resume, RESUMES)
        require_law("pull_to_commit", self.pull_to_commit)
        if self.atomic or self.pull != "before_commit":
            self._require_no_gap()

    def _require_no_gap(self) -> None:
        is_set = {"resume": self.resume != "central", "pull_to_commit": not is_zero(self.pull_to_commit)}
        for name in (name for name in is_set if is_set[name]):
            raise ValueError(
                f"`{name}` must be left out unless workers pull before they commit, in a request of its own; got "
                f"{getattr(self, name)!r}. Give the server `atomic=False` and `pull='before_commit'`."
            )

    @property
    def is_instant(self) -> bool:
        """Whether a commit takes no time, so that commits never queue."""
        return is_zero(self.service)
