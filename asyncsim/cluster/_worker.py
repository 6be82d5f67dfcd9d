"""A worker as SimPy processes: its link, the queue of the server, and its jobs."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from simpy import Environment, Interrupt, Resource
from simpy.events import ProcessGenerator

from asyncsim.cluster._coordinator import Coordinator, Job
from asyncsim.cluster._events import INFINITY
from asyncsim.cluster._model import Network, Server
from asyncsim.cluster.faults import MessageLoss, ServerPause
from asyncsim.trace import Fate, Fault

Losses = list[tuple[MessageLoss, Iterator[float]]]  # each with uniform numbers in [0, 1), one per attempt, without end


@dataclass(eq=False)
class Link:
    """One worker's connection to the server, with the time of a message and whether it is lost on the way."""

    env: Environment
    network: Network
    latency: Iterator[float] | None
    shared: Resource | None
    losses: Losses
    on_loss: Callable[[float, float], None]

    def __post_init__(self) -> None:
        self.download_seconds = self.network.download_seconds
        self.upload_seconds = self.network.upload_seconds
        self.is_instant = self.network.is_instant and not self.losses

    def request(self) -> ProcessGenerator:
        """Send a message without a payload, one way."""
        return self._send(0.0)

    def download(self) -> ProcessGenerator:
        """Send the central variable to the worker."""
        return self._send(self.download_seconds)

    def upload(self) -> ProcessGenerator:
        """Send a commit to the server. Return whether it arrived in the end."""
        for attempt in count(1) if self.losses else ():
            lost = next((loss for loss, chances in self.losses if next(chances) < loss.probability), None)
            if lost is None:
                break
            self.on_loss(self.env.now, self.env.now + lost.timeout)
            yield self.env.timeout(lost.timeout)
            if attempt == lost.attempts:
                return False
        yield from self._send(self.upload_seconds)
        return True

    def _send(self, seconds: float) -> ProcessGenerator:
        if self.shared is not None and seconds:
            with self.shared.request() as turn:
                yield turn
                yield self.env.timeout(seconds)
            seconds = 0.0
        if self.latency is not None:
            seconds += next(self.latency)
        if seconds:
            yield self.env.timeout(seconds)


@dataclass(eq=False)
class Queue:
    """Commits are taken up first-in, first-out, `slots` at a time, and take effect at the end of their service."""

    env: Environment
    server: Server
    service: Sequence[Iterator[float]]
    pauses: Sequence[ServerPause]

    def __post_init__(self) -> None:
        # A server that takes no time and never pauses keeps nobody waiting.
        instant = self.server.is_instant and not self.pauses
        self.slots = None if instant else Resource(self.env, self.server.slots)

    def serve(self, job: Job, commit: Callable[[Job], bool]) -> ProcessGenerator:
        """Queue, be served, commit. Return whether the commit counted."""
        if self.slots is None:
            job.serve_time = self.env.now
            return commit(job)
        with self.slots.request() as turn:
            yield turn
            while self.pauses and (left := max(pause_left(pause, self.env.now) for pause in self.pauses)):
                yield self.env.timeout(left)
            job.serve_time = self.env.now
            seconds = next(self.service[job.worker])
            if seconds:
                yield self.env.timeout(seconds)
            return commit(job)


def pause_left(pause: ServerPause, now: float) -> float:
    """Remaining seconds of a pause, or 0 outside of it."""
    if now < pause.start:
        return 0.0
    times = math.floor((now - pause.start) / pause.every) if pause.every else 0
    left = pause.start + times * (pause.every or 0.0) + pause.seconds - now
    return left if now + left > now else 0.0  # a rest too small to change the simulated time would never pass


def pauses_until(pause: ServerPause, end: float) -> Iterator[tuple[float, float]]:
    """When a pause begins and ends, every time that it begins by `end`."""
    start = pause.start
    times = 0
    while start <= end and (times == 0 or pause.every):
        yield start, start + pause.seconds
        times += 1
        start = pause.start + times * (pause.every or 0.0)


@dataclass(eq=False)
class Worker:
    """It reads, computes, sends, and reads again. It can be stopped, and it can go down."""

    env: Environment
    number: int
    coordinator: Coordinator
    duration: Callable[[float, float], float]
    work: Iterator[float]
    link: Link
    queue: Queue
    server: Server
    pull_to_commit: Iterator[float] | None

    def __post_init__(self) -> None:
        self.pulls = None if self.server.atomic else self.server.pull
        self.resumes_own = self.server.resume == "own"
        self.job: Job | None = None
        self.own: Job | None = None  # the commit that left it with a value of its own
        self.down_until = 0.0
        self._first = True
        self._state_lost = False
        self._going_down = False
        self._interrupted = False
        self.process = self.env.process(self._run())
        self.coordinator.enrol(self.number, self.stop)

    def stop(self) -> None:
        """Stop the running job: the worker goes on with another."""
        if not self._interrupted:
            self._interrupted = True
            self.process.interrupt()

    def go_down(self, kind: Fault, until: float, keeps_state: bool) -> None:
        """Take the worker down until then, or for good if that is infinity. Its running job is lost."""
        self.coordinator.log.fault(kind=kind, worker=self.number, start_time=self.env.now, end_time=until)
        self.down_until = max(self.down_until, until)
        self._state_lost |= not keeps_state
        if not self._going_down:
            self._going_down = True
            self.stop()

    def _run(self) -> ProcessGenerator:
        while True:
            try:
                yield from self._work_on()
            except Interrupt:
                self._interrupted = False
            self._give_up(Fate.CRASHED if self._going_down else Fate.CANCELLED)
            if self._going_down:
                yield from self._be_down()

    def _work_on(self) -> ProcessGenerator:
        self.own = None  # of an interrupted job nothing is left
        while True:
            if self.pulls and not self._first and self.own is None:  # it hears of its commit, then asks
                yield from self.link.request()
                yield from self.link.request()
            while not self.coordinator.may_read(self.number):
                yield self.coordinator.wait(self.number)
            if self.own is None:
                self.job = self.coordinator.read(self.number, self._state_lost)
            else:
                self.job = self.coordinator.resume_own(self.own)
            yield from self._do(self.job)

    def _do(self, job: Job) -> ProcessGenerator:
        """One job, from just after its read to its commit."""
        env = self.env
        is_near = self.link.is_instant
        has_value = self._first or job.resumes_own  # at the start everyone has version 0 already
        if not has_value and not is_near:
            yield from self.link.download()
        self._first = False
        self.own = None
        job.start_time = env.now
        yield env.timeout(self.duration(env.now, next(self.work)))
        job.finish_time = env.now
        if self.pulls:
            yield from self._pull(job)
        if not is_near and not (yield from self.link.upload()):
            self._give_up(Fate.LOST)
            return
        job.arrive_time = env.now
        while not self.coordinator.may_commit(self.number):
            yield self.coordinator.wait(self.number)
        counted = yield from self.queue.serve(job, self.coordinator.commit)
        self._state_lost &= not counted
        if counted and self.resumes_own:
            self.own = job

    def _pull(self, job: Job) -> ProcessGenerator:
        """Set the version that a rule which pulls before committing sees, where pulling is a request of its own."""
        if self.pulls == "before_commit":
            yield from self.link.request()
            job.pull_version = self.coordinator.version
            job.pull_time = self.env.now
            yield from self.link.download()
            if self.pull_to_commit is not None and (seconds := next(self.pull_to_commit)):
                yield self.env.timeout(seconds)
        else:
            job.pull_version = job.read_version

    def _give_up(self, fate: Fate) -> None:
        """End the running job, if there is one that has not ended."""
        if self.job is not None and self.coordinator.jobs.get(self.number) is self.job:
            self.coordinator.end(self.job, fate)

    def _be_down(self) -> ProcessGenerator:
        self.coordinator.leave(self.number)
        # A rest too small to change the simulated time would never pass.
        while self.env.now + (left := self.down_until - self.env.now) > self.env.now:
            yield self.env.event() if left == INFINITY else self.env.timeout(left)
        self._going_down = False
        self.coordinator.join(self.number)
