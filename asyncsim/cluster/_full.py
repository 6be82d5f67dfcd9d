"""The general simulation of a cluster, as SimPy processes: workers, links, queue, protocol and faults.

Clusters without a network, queue or faults are simulated faster in `_no_network`, which is tested against this file.
"""

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

LAST: Any = NORMAL + 1  # SimPy's priority of an event that comes after all others of its time


class FullSimulation(CoordinatedRun, InSimPy):
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
            # `env.timeout` has no priority to choose, so the event is triggered and scheduled by hand.
            release = Event(self.env)
            release._ok, release._value = True, None
            self.env.schedule(release, LAST, step * every - self.env.now)
            yield release
            self.coordinator.release()

    def trace(self) -> Trace:
        """Return the trace until now, which ends the run, with the planned faults that have begun."""
        end, faults = self.env.now, self.coordinator.faults  # extended in place, so that they enter the trace
        slowdowns = [fault for fault in self.faults(Slowdown) if fault.start <= end]
        faults += [(Fault.SLOWDOWN, slow.worker, slow.start, slow.start + slow.seconds) for slow in slowdowns]
        pauses = [spell for pause in self.pauses for spell in pauses_until(pause, end)]
        faults += [(Fault.SERVER_PAUSE, -1, start, until) for start, until in pauses]
        return super().trace()

    def delays(self, worker: int, law: Delay, purpose: Purpose | None = None, index: int = 0) -> Iterator[float]:
        """Yield the worker's compute times, or its delays of another purpose (see `stream`)."""
        return draw_delays(self.env, law, self.seed, worker, purpose, index)

    def faults(self, kind: Any) -> list[Any]:
        """Return the faults of this kind."""
        return [fault for fault in self.cluster.faults if isinstance(fault, kind)]

    def serve(self, job: Job, service: Iterator[float]) -> ProcessGenerator:
        """Let a job queue first-in, first-out, be served and commit. Return whether the commit counted."""
        if self.slots is None:
            job.serve_time = self.env.now
            return self.coordinator.commit(job)
        with self.slots.request() as request:
            yield request
            while self.pauses and (remaining := max(remaining_pause(pause, self.env.now) for pause in self.pauses)):
                yield self.env.timeout(remaining)
            job.serve_time = self.env.now
            seconds = next(service)
            if seconds:
                yield self.env.timeout(seconds)
            return self.coordinator.commit(job)


class Ring:
    """The all-reduce of each round, which begins when the last worker has arrived."""

    def __init__(self, simulation: FullSimulation) -> None:
        self.simulation = simulation
        self.seconds = simulation.cluster.network.exchange_seconds(simulation.cluster.workers)
        self.arrived: list[Event] = []

    def join(self) -> Event:
        """Return an event at the end of the exchange, whose value is the time at which that began."""
        event = self.simulation.env.event()
        self.arrived.append(event)
        if len(self.arrived) == len(self.simulation.workers):
            self.simulation.env.process(self._exchange(self.arrived))
            self.arrived = []
        return event

    def _exchange(self, arrived: list[Event]) -> ProcessGenerator:
        env, workers = self.simulation.env, self.simulation.workers
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
    repeats = math.floor((now - pause.start) / pause.every) if pause.every else 0
    remaining = pause.start + repeats * (pause.every or 0.0) + pause.seconds - now
    # A remainder too small to change the simulated time would never pass.
    return remaining if now + remaining > now else 0.0


def pauses_until(pause: ServerPause, end: float) -> Iterator[tuple[float, float]]:
    """Yield the times at which a pause begins and ends, as often as it begins by `end`."""
    for repeats in count() if pause.every else range(1):
        start = pause.start + repeats * (pause.every or 0.0)
        if start > end:
            return
        yield start, start + pause.seconds


class Worker:
    """A worker, which reads, computes, sends, and reads again. It can be stopped, and it can go down."""

    def __init__(self, simulation: FullSimulation, number: int) -> None:
        server, network = simulation.cluster.server, simulation.cluster.network
        law, latency = simulation.laws[number], simulation.latencies[number]
        work = law.work if isinstance(law, VariableSpeed) else law
        self.simulation = simulation
        self.env = simulation.env
        self.number = number
        self.coordinator = simulation.coordinator
        self.duration = _duration(simulation, number, law)
        self.work = simulation.delays(number, work)
        self.service = simulation.delays(number, server.service, Purpose.SERVICE)
        self.latency = None if is_zero(latency) else simulation.delays(number, latency, Purpose.LATENCY)
        self.losses = [  # faults, each with an endless stream of uniform numbers, one per attempt
            (fault, simulation.delays(number, Uniform(0.0, 1.0), Purpose.FAULTS, 2 * index))
            for index, fault in enumerate(simulation.cluster.faults)
            if isinstance(fault, MessageLoss) and fault.worker in (None, number)
        ]
        self.exchanges_at_once = network.is_instant and not self.losses
        self.download_seconds, self.upload_seconds = simulation.downloads[number], simulation.uploads[number]
        gap = server.pull_to_commit
        self.pull_to_commit = None if is_zero(gap) else simulation.delays(number, gap, Purpose.PULL_TO_COMMIT)
        self.pulls = None if server.atomic else server.pull
        self.resumes_own = server.resume == "own"
        self.job: Job | None = None
        self.own_commit: Job | None = None  # its last commit, if that left it with a value of its own
        self.down_until = 0.0
        self._is_first_job = True
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
            self._end_job(Fate.CRASHED if self._going_down else Fate.CANCELLED)
            if self._going_down:
                self.coordinator.leave(self.number)
                # A rest too small to change the simulated time would never pass.
                while self.env.now + (remaining := self.down_until - self.env.now) > self.env.now:
                    yield self.env.event() if remaining == INFINITY else self.env.timeout(remaining)
                self._going_down = False
                self.coordinator.join(self.number)

    def _work_on(self) -> ProcessGenerator:
        self.own_commit = None  # An interrupted job leaves no value behind.
        while True:
            if self.pulls and not self._is_first_job and self.own_commit is None:
                yield from self._send()  # the server's answer to its commit
                yield from self._send()  # its request for the parameters
            while not self.coordinator.may_read(self.number):
                yield self._wait()
            self.job = self.coordinator.read(self.number, self._state_lost, self.own_commit)
            yield from self._do_job(self.job)

    def _do_job(self, job: Job) -> ProcessGenerator:
        """Do one job, from just after its read to its commit."""
        env = self.env
        # Workers present at time 0 begin with the initial parameters and send no read request.
        has_value = self._is_first_job or job.resumes_own
        if not has_value and not self.exchanges_at_once and self.simulation.ring is None:
            yield from self._send(self.download_seconds)
        self._is_first_job = False
        self.own_commit = None
        job.start_time = env.now
        yield env.timeout(self.duration(env.now, next(self.work)))
        job.finish_time = env.now
        if self.pulls == "before_commit":
            yield from self._send()  # the request, which the parameters below answer
            job.pull_version = self.coordinator.version
            job.pull_time = env.now
            yield from self._send(self.download_seconds)
            if self.pull_to_commit is not None and (seconds := next(self.pull_to_commit)):
                yield env.timeout(seconds)
        elif self.pulls:
            job.pull_version = job.read_version
        if self.simulation.ring is not None:
            job.arrive_time = env.now
            job.serve_time = yield self.simulation.ring.join()
            self.coordinator.commit(job)
            return
        if not self.exchanges_at_once and not (yield from self._upload()):
            self._end_job(Fate.LOST)
            return
        job.arrive_time = env.now
        while not self.coordinator.may_commit(self.number):
            yield self._wait()
        counted = yield from self.simulation.serve(job, self.service)
        # Every job notes that the state was lost, up to the first one that commits.
        self._state_lost &= not counted
        if counted and self.resumes_own:
            self.own_commit = job

    def _wait(self) -> Event:
        """Return an event after which the worker, which may not go on now, asks again."""
        event = self.env.event()
        self.coordinator.wait(self.number, event.succeed)
        return event

    def _send(self, seconds: float = 0.0, *, up: bool = False) -> ProcessGenerator:
        """Send a message one way, which takes `seconds` besides its latency: 0 for a request without a payload."""
        link = self.simulation.up_link if up else self.simulation.down_link
        if link is not None and seconds:
            # A shared link is occupied for the time of the bytes, and the latency comes after that.
            with link.request() as request:
                yield request
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

    def _end_job(self, fate: Fate) -> None:
        """End the running job, if there is one that has not ended."""
        if self.job is not None and self.coordinator.jobs.get(self.number) is self.job:
            self.coordinator.end(self.job, fate)


def _duration(simulation: FullSimulation, worker: int, law: Delay | VariableSpeed) -> Callable[[float, float], float]:
    """Return a function `(start, work) -> seconds` of a worker's computation."""
    spells = slow_spells(simulation.cluster.faults, worker)
    if isinstance(law, VariableSpeed):
        timer = law.timer(stream(simulation.seed, worker, Purpose.SPEED))
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
    for index, fault in enumerate(faults):
        if isinstance(fault, Crash):
            env.process(_crash(env, fault, workers[fault.worker]))
        elif isinstance(fault, Sessions):
            for worker in workers:
                if fault.worker in (None, worker.number):
                    online = draw_delays(env, fault.online, seed, worker.number, Purpose.FAULTS, 2 * index)
                    offline = draw_delays(env, fault.offline, seed, worker.number, Purpose.FAULTS, 2 * index + 1)
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
