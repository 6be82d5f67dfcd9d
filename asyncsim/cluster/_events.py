"""Running a simulation until it has so many commits or seconds, and a simulation whose events are those of SimPy."""

from collections.abc import Callable
from itertools import repeat
from typing import Protocol

from simpy import Environment
from simpy.core import EmptySchedule

from asyncsim.trace._columns import MOST_COMMITS

INFINITY = float("inf")

# A simulation counts as stuck after this number of events without a commit or at one simulated time. Every worker may
# need several before the first commit: to start, to compute, to send, to queue.
MOST_IDLE_EVENTS = 1_000_000
IDLE_EVENTS_PER_WORKER = 20

REPORT_EVERY = 200_000  # events from one report of progress to the next: some tenths of a second

Report = Callable[[int, float, float], None]  # commits, seconds, and the share of the run that is done


class Simulation(Protocol):
    """A running cluster of any kind."""

    @property
    def now(self) -> float: ...  # the simulated time in seconds

    def __len__(self) -> int: ...  # commits so far

    def peek(self) -> float: ...  # time of the next event, infinite if there is none

    def advance(self, events: int, commits: float, seconds: float) -> None:
        """Handle this number of events, or fewer if there are `commits` before or the next event is after `seconds`."""
        ...

    def stuck_remedy(self) -> str: ...  # remedy for a cluster that never makes another commit


class InSimPy:
    """A simulation in a SimPy environment."""

    env: Environment

    @property
    def now(self) -> float:
        return self.env.now

    def peek(self) -> float:
        return self.env.peek()

    def advance(self, events: int, commits: float, seconds: float) -> None:
        env, done, has_end = self.env, self.__len__, seconds < INFINITY
        for _ in repeat(None, events):
            if has_end and env.peek() > seconds:
                return
            env.step()
            if done() >= commits:
                return

    def __len__(self) -> int:
        raise NotImplementedError


def run_until(
    simulation: Simulation, commits: float | None, seconds: float | None, report: Report | None, workers: int
) -> None:
    """Run for this number of commits, or of seconds, where the other one is None. More `workers` may be idle longer."""
    max_idle_events = max(MOST_IDLE_EVENTS, IDLE_EVENTS_PER_WORKER * workers)
    counted, events, idle = commits is not None, min(REPORT_EVERY, max_idle_events), 0
    # The loop compares with both ends, of which one is never reached.
    commits, seconds = INFINITY if commits is None else commits, INFINITY if seconds is None else seconds
    try:
        while len(simulation) < commits and simulation.peek() <= seconds:
            done, now = len(simulation), simulation.now
            simulation.advance(events, commits=commits, seconds=seconds)
            idle = idle + events if (len(simulation) == done if counted else simulation.now == now) else 0
            if idle >= max_idle_events and counted:
                raise EmptySchedule
            if report is not None:
                share = len(simulation) / commits if counted else float(simulation.now) / seconds
                report(int(min(len(simulation), commits)), float(simulation.now), min(share, 1.0))
            if idle >= max_idle_events and simulation.peek() <= seconds:
                raise ValueError(
                    f"`seconds` never pass: {max_idle_events} events at time {float(now):g} and no end. Give a delay "
                    "that is not zero, or use `commits`."
                )
            if len(simulation) > MOST_COMMITS:
                raise ValueError(f"`seconds` must give at most {MOST_COMMITS} commits; got {seconds}. Use fewer.")
    except EmptySchedule:
        raise ValueError(
            f"`commits` never come: the cluster is stuck after {len(simulation)} of {commits}, at time "
            f"{float(simulation.now):g}. {simulation.stuck_remedy()}"
        ) from None
