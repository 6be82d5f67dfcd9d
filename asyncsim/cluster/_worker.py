"""One worker between network, server queue, protocol and faults, as a SimPy process."""

from collections.abc import Callable, Iterator

from simpy import Environment, Interrupt
from simpy.events import ProcessGenerator

from asyncsim.cluster._coordinator import INFINITY, Coordinator, Job
from asyncsim.cluster._links import Link
from asyncsim.cluster._queue import Queue
from asyncsim.cluster._server import Server
from asyncsim.trace import Fate, Fault


class Worker:
    """Reads, computes, sends, and reads again; can be stopped, and can go down."""

    def __init__(
        self,
        env: Environment,
        number: int,
        coordinator: Coordinator,
        duration: Callable[[float, float], float],
        work: Iterator[float],
        link: Link,
        queue: Queue,
        server: Server,
        pull_to_commit: Iterator[float] | None,
    ) -> None:
        self.env = env
        self.number = number
        self.coordinator = coordinator
        self.duration = duration
        self.work = work
        self.link = link
        self.queue = queue
        self.pulls = None if server.atomic else server.pull
        self.resumes_own = server.resume == "own"
        self.pull_to_commit = pull_to_commit
        self.job: Job | None = None
        self.own: Job | None = None  # the commit that left it with a value of its own
        self.down_until = 0.0
        self._first = True
        self._state_lost = False
        self._going_down = False
        self._interrupted = False
        self.process = env.process(self._run())
        coordinator.enrol(number, self.stop)

    def stop(self) -> None:
        """Stop the running job: the worker goes on with another."""
        if not self._interrupted:
            self._interrupted = True
            self.process.interrupt()

    def go_down(self, kind: Fault, until: float, keeps_state: bool) -> None:
        """Take the worker down until then, or for good if that is infinity; its running job is lost."""
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
        """Set what a rule that pulls before committing sees, where that is a request of its own."""
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
