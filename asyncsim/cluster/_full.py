"""A cluster with everything that it can have, as SimPy processes: workers, links, queue, protocol and faults."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Protocol

from simpy import Environment, Interrupt, Resource
from simpy.events import NORMAL, Event, ProcessGenerator

from asyncsim.cluster._coordinator import CoordinatedRun, Coordinator, Job
from asyncsim.cluster._events import INFINITY, InSimPy
from asyncsim.cluster._model import Cluster
from asyncsim.cluster._random_streams import Purpose, draw_delays, stream
from asyncsim.cluster.faults import AnyFault, Crash, MessageLoss, ServerPause, Sessions, Slowdown
from asyncsim.delays import Delay, Uniform, VariableSpeed, slowed, steady
from asyncsim.delays._per_worker import is_zero
from asyncsim.trace import Fate, Fault, Trace

LAST: Any = NORMAL + 1  # priority of an event after all others of its time


class Full(CoordinatedRun, InSimPy):
    """A running cluster of any kind in SimPy, with the arguments of `FastPath`."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.env = env = Environment()
        self.cluster = cluster
        self.seed = seed
        self.laws, self.latencies = cluster.laws, cluster.network.latencies(cluster.workers)
        self.coordinator = Coordinator(env, cluster.protocol.terms(cluster.workers), cluster.workers)
        self.pauses: list[ServerPause] = self.faults(ServerPause)
        # A server that takes no time and never pauses keeps nobody waiting.
        self.slots = None if cluster.server.is_instant and not self.pauses else Resource(env, cluster.server.slots)
        network = cluster.network
        self.downloads, self.uploads = network.downloads(cluster.workers), network.uploads(cluster.workers)
        self.down_link = Resource(env) if network.shared else None
        self.up_link = Resource(env) if network.shared and network.duplex == "full" else self.down_link
        self.ring = Ring(self) if network.collective == "ring" else None
        self.workers = [Worker(self, number) for number in range(cluster.workers)]
        start_faults(env, cluster.faults, self.workers, seed)
        if (every := cluster.protocol.terms(cluster.workers).every) is not None:
            env.process(self._release(every))

    def _release(self, every: float) -> ProcessGenerator:
        """Let waiting gradients take effect at fixed times, after all other events of these."""
        for step in count(1):
            time = Event(self.env)
            time._ok, time._value = True, None
            self.env.schedule(time, LAST, step * every - self.env.now)
            yield time
            self.coordinator.release()

    def trace(self) -> Trace:
        """Return the trace until now, which ends the run, with the planned faults that have begun."""
        end, faults = self.env.now, self.coordinator.faults  # extended in place, so that they enter the trace
        slowdowns = [fault for fault in self.faults(Slowdown) if fault.start <= end]
        faults += [(Fault.SLOWDOWN, slow.worker, slow.start, slow.start + slow.seconds) for slow in slowdowns]
        pauses = [spell for pause in self.pauses for spell in pauses_until(pause, end)]
        faults += [(Fault.SERVER_PAUSE, -1, start, until) for start, until in pauses]
        return super().trace()

    def delays(self, worker: int, law: Delay, purpose: Purpose | None = None, place: int = 0) -> Iterator[float]:
        """Yield the worker's compute times, or its delays of another purpose (see `stream`)."""
        return draw_delays(self.env, law, self.seed, worker, purpose, place)

    def faults(self, kind: Any) -> list[Any]:
        """Return the faults of this kind."""
        return [fault for fault in self.cluster.faults if isinstance(fault, kind)]

    def serve(self, job: Job, service: Iterator[float]) -> ProcessGenerator:
        """Let a job queue first-in, first-out, be served and commit. Return whether the commit counted."""
        if self.slots is None:
            job.serve_time = self.env.now
            return self.coordinator.commit(job)
        with self.slots.request() as turn:
            yield turn
            while self.pauses and (remaining := max(remaining_pause(pause, self.env.now) for pause in self.pauses)):
                yield self.env.timeout(remaining)
            job.serve_time = self.env.now
            seconds = next(service)
            if seconds:
                yield self.env.timeout(seconds)
            return self.coordinator.commit(job)


class Ring:
    """The all-reduce of each round, which begins when the last worker has arrived."""

    def __init__(self, full: Full) -> None:
        self.full = full
        self.seconds = full.cluster.network.exchange_seconds(full.cluster.workers)
        self.arrived: list[Event] = []

    def join(self) -> Event:
        """Return an event at the end of the exchange, whose value is the time at which that began."""
        event = self.full.env.event()
        self.arrived.append(event)
        if len(self.arrived) == len(self.full.workers):
            self.full.env.process(self._exchange(self.arrived))
            self.arrived = []
        return event

    def _exchange(self, arrived: list[Event]) -> ProcessGenerator:
        env, workers = self.full.env, self.full.workers
        start, latencies = env.now, [worker.latency for worker in workers if worker.latency is not None]
        steps = 2 * (len(workers) - 1) if latencies else 0
        # In each step of a ring every worker waits for its neighbour, and so all of them for the slowest.
        seconds = self.seconds + sum(max(map(next, latencies)) for _ in range(steps))
        if seconds:
            yield env.timeout(seconds)
        for event in arrived:
            event.succeed(start)


def remaining_pause(pause: ServerPause, now: float) -> float:
    """Return the remaining seconds of a pause, or 0 outside of it."""
    if now < pause.start:
        return 0.0
    times = math.floor((now - pause.start) / pause.every) if pause.every else 0
    remaining = pause.start + times * (pause.every or 0.0) + pause.seconds - now
    return remaining if now + remaining > now else 0.0  # a rest too small to change the simulated time would never pass


def pauses_until(pause: ServerPause, end: float) -> Iterator[tuple[float, float]]:
    """Yield the times at which a pause begins and ends, as often as it begins by `end`."""
    for times in count() if pause.every else range(1):
        start = pause.start + times * (pause.every or 0.0)
        if start > end:
            return
        yield start, start + pause.seconds


class Worker:
    """It reads, computes, sends, and reads again. It can be stopped, and it can go down."""

    def __init__(self, full: Full, number: int) -> None:
        server, network = full.cluster.server, full.cluster.network
        law, latency = full.laws[number], full.latencies[number]
        work = law.work if isinstance(law, VariableSpeed) else law
        self.full = full
        self.env = full.env
        self.number = number
        self.coordinator = full.coordinator
        self.duration = _duration(full, number, law)
        self.work = full.delays(number, work)
        self.service = full.delays(number, server.service, Purpose.SERVICE)
        self.latency = None if is_zero(latency) else full.delays(number, latency, Purpose.LATENCY)
        self.losses = [  # faults, each with an endless stream of uniform numbers, one per attempt
            (fault, full.delays(number, Uniform(0.0, 1.0), Purpose.FAULTS, 2 * place))
            for place, fault in enumerate(full.cluster.faults)
            if isinstance(fault, MessageLoss) and fault.worker in (None, number)
        ]
        self.is_near = network.is_instant and not self.losses
        self.download_seconds, self.upload_seconds = full.downloads[number], full.uploads[number]
        law = server.pull_to_commit
        self.pull_to_commit = None if is_zero(law) else full.delays(number, law, Purpose.PULL_TO_COMMIT)
        self.pulls = None if server.atomic else server.pull
        self.resumes_own = server.resume == "own"
        self.job: Job | None = None
        self.own: Job | None = None  # its last commit, if that left it with a value of its own
        self.down_until = 0.0
        self._first = True
        self._state_lost = False
        self._going_down = False
        self._interrupted = False
        self.process = self.env.process(self._run())
        self.coordinator.stop[number] = self.stop

    def stop(self) -> None:
        """Stop the running job: the worker goes on with another."""
        if not self._interrupted:
            self._interrupted = True
            self.process.interrupt()

    def go_down(self, kind: Fault, until: float, keeps_state: bool) -> None:
        """Take the worker down until then, or for good if that is infinity. Its running job is lost."""
        self.coordinator.faults.append((kind, self.number, self.env.now, until))
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
                self.coordinator.leave(self.number)
                # A rest too small to change the simulated time would never pass.
                while self.env.now + (remaining := self.down_until - self.env.now) > self.env.now:
                    yield self.env.event() if remaining == INFINITY else self.env.timeout(remaining)
                self._going_down = False
                self.coordinator.join(self.number)

    def _work_on(self) -> ProcessGenerator:
        self.own = None  # an interrupted job leaves no value behind
        while True:
            if self.pulls and not self._first and self.own is None:  # the answer to its commit, then a request
                yield from self._send()
                yield from self._send()
            while not self.coordinator.may_read(self.number):
                yield self._wait()
            self.job = self.coordinator.read(self.number, self._state_lost, self.own)
            yield from self._do(self.job)

    def _do(self, job: Job) -> ProcessGenerator:
        """Do one job, from just after its read to its commit."""
        env = self.env
        has_value = self._first or job.resumes_own  # workers present at time 0 send no read request
        if not has_value and not self.is_near and self.full.ring is None:
            yield from self._send(self.download_seconds)
        self._first = False
        self.own = None
        job.start_time = env.now
        yield env.timeout(self.duration(env.now, next(self.work)))
        job.finish_time = env.now
        if self.pulls == "before_commit":  # a request, then the parameters
            yield from self._send()
            job.pull_version = self.coordinator.version
            job.pull_time = env.now
            yield from self._send(self.download_seconds)
            if self.pull_to_commit is not None and (seconds := next(self.pull_to_commit)):
                yield env.timeout(seconds)
        elif self.pulls:
            job.pull_version = job.read_version
        if self.full.ring is not None:
            job.arrive_time = env.now
            job.serve_time = yield self.full.ring.join()
            self.coordinator.commit(job)
            return
        if not self.is_near and not (yield from self._upload()):
            self._give_up(Fate.LOST)
            return
        job.arrive_time = env.now
        while not self.coordinator.may_commit(self.number):
            yield self._wait()
        counted = yield from self.full.serve(job, self.service)
        self._state_lost &= not counted
        if counted and self.resumes_own:
            self.own = job

    def _wait(self) -> Event:
        """Return an event after which the worker, which may not go on now, asks again."""
        event = self.env.event()
        self.coordinator.wait(self.number, event.succeed)
        return event

    def _send(self, seconds: float = 0.0, *, up: bool = False) -> ProcessGenerator:
        """Send a message one way, which takes `seconds` besides its latency: 0 for a request without a payload."""
        link = self.full.up_link if up else self.full.down_link
        if link is not None and seconds:
            with link.request() as turn:
                yield turn
                yield self.env.timeout(seconds)
            seconds = 0.0
        if self.latency is not None:
            seconds += next(self.latency)
        if seconds:
            yield self.env.timeout(seconds)

    def _upload(self) -> ProcessGenerator:
        """Send a commit to the server. Return whether it arrived in the end."""
        for attempt in count(1) if self.losses else ():
            lost = next((loss for loss, chances in self.losses if next(chances) < loss.probability), None)
            if lost is None:
                break
            now = self.env.now
            self.coordinator.faults.append((Fault.MESSAGE_LOST, self.number, now, now + lost.timeout))
            yield self.env.timeout(lost.timeout)
            if attempt == lost.attempts:
                return False
        yield from self._send(self.upload_seconds, up=True)
        return True

    def _give_up(self, fate: Fate) -> None:
        """End the running job, if there is one that has not ended."""
        if self.job is not None and self.coordinator.jobs.get(self.number) is self.job:
            self.coordinator.end(self.job, fate)


def _duration(full: Full, worker: int, law: Delay | VariableSpeed) -> Callable[[float, float], float]:
    """Return a function `(start, work) -> seconds` of a worker's computation."""
    spells = slow_spells(full.cluster.faults, worker)
    if isinstance(law, VariableSpeed):
        timer = law.timer(stream(full.seed, worker, Purpose.SPEED))
    elif spells:
        timer = steady()
    else:
        return lambda start, work: work
    return (slowed(timer, spells) if spells else timer).duration


class GoesDown(Protocol):
    """A worker, or an engine with several slots, that can go down for a while."""

    number: int
    down_until: float

    def go_down(self, kind: Fault, until: float, keeps_state: bool) -> None: ...


def start_faults(env: Environment, faults: Sequence[AnyFault], workers: Sequence[GoesDown], seed: int) -> None:
    """Start the processes by which workers crash, or come and go."""
    for place, fault in enumerate(faults):
        if isinstance(fault, Crash):
            env.process(_crash(env, fault, workers[fault.worker]))
        elif isinstance(fault, Sessions):
            for worker in workers:
                if fault.worker in (None, worker.number):
                    online = draw_delays(env, fault.online, seed, worker.number, Purpose.FAULTS, 2 * place)
                    offline = draw_delays(env, fault.offline, seed, worker.number, Purpose.FAULTS, 2 * place + 1)
                    env.process(_come_and_go(env, fault, worker, online, offline))


def slow_spells(faults: Sequence[AnyFault], worker: int) -> list[tuple[float, float, float]]:
    """Return start, end and factor of each slowdown of a worker."""
    slow = [fault for fault in faults if isinstance(fault, Slowdown) and fault.worker == worker]
    return [(fault.start, fault.start + fault.seconds, fault.factor) for fault in slow]


def _crash(env: Environment, fault: Crash, worker: GoesDown) -> ProcessGenerator:
    yield env.timeout(fault.time)
    until = INFINITY if fault.restart_after is None else env.now + fault.restart_after
    worker.go_down(Fault.CRASH, until, fault.keeps_state)


def _come_and_go(
    env: Environment, fault: Sessions, worker: GoesDown, online: Iterator[float], offline: Iterator[float]
) -> ProcessGenerator:
    while worker.down_until < INFINITY:
        yield env.timeout(next(online))
        away = next(offline)
        worker.go_down(Fault.OFFLINE, env.now + away, fault.keeps_state)
        yield env.timeout(away)
