"""Everything a cluster can have, put together: workers, links, queue, protocol and faults."""

from collections.abc import Callable, Iterator
from typing import Any

from simpy import Environment, Resource
from simpy.events import ProcessGenerator

from asyncsim.cluster._coordinator import Coordinator, Log, Logged
from asyncsim.cluster._events import INFINITY, InSimPy
from asyncsim.cluster._model import Cluster
from asyncsim.cluster._random_streams import Purpose, compute_stream, draw_delays, stream
from asyncsim.cluster._worker import Link, Queue, Worker, pauses_until
from asyncsim.cluster.faults import Crash, MessageLoss, ServerPause, Sessions, Slowdown
from asyncsim.delays import Delay, Uniform, VariableSpeed, slowed, steady
from asyncsim.delays._per_worker import is_zero
from asyncsim.trace import Fault, Trace


class Full(Logged, InSimPy):
    """A running cluster of any kind in SimPy, with the arguments of `FastPath`."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.env = env = Environment()
        self.cluster = cluster
        self.seed = seed
        self.log = Log()
        self.coordinator = Coordinator(env, cluster.protocol.terms(cluster.workers), cluster.workers, self.log)
        service = [self._delays(w, cluster.server.service, Purpose.SERVICE) for w in range(cluster.workers)]
        self.queue = Queue(env, cluster.server, service, self._faults(ServerPause))
        self.shared_link = Resource(env) if cluster.network.shared else None
        self.workers = [self._worker(worker) for worker in range(cluster.workers)]
        for place, fault in enumerate(cluster.faults):
            if isinstance(fault, Crash):
                env.process(_crash(env, fault, self.workers[fault.worker]))
            elif isinstance(fault, Sessions):
                for worker in self._affected(fault):
                    online = self._delays(worker, fault.online, Purpose.FAULTS, 2 * place)
                    offline = self._delays(worker, fault.offline, Purpose.FAULTS, 2 * place + 1)
                    env.process(_come_and_go(env, fault, self.workers[worker], online, offline))

    def trace(self) -> Trace:
        """The trace until now, which ends the run."""
        self._log_planned_faults()
        return super().trace()

    def _worker(self, worker: int) -> Worker:
        law = self.cluster.laws[worker]
        work = law.work if isinstance(law, VariableSpeed) else law
        return Worker(
            self.env,
            worker,
            self.coordinator,
            duration=self._duration(worker, law),
            work=draw_delays(self.env, worker, work, compute_stream(self.seed, worker)),
            link=self._link(worker),
            queue=self.queue,
            server=self.cluster.server,
            pull_to_commit=self._pull_to_commit(worker),
        )

    def _duration(self, worker: int, law: Delay | VariableSpeed) -> Callable[[float, float], float]:
        spells = [(f.start, f.start + f.seconds, f.factor) for f in self._faults(Slowdown) if f.worker == worker]
        if isinstance(law, VariableSpeed):
            timer = law.timer(stream(self.seed, worker, Purpose.SPEED))
        elif spells:
            timer = steady()
        else:
            return lambda start, work: work
        return (slowed(timer, spells) if spells else timer).duration

    def _pull_to_commit(self, worker: int) -> Iterator[float] | None:
        law = self.cluster.server.pull_to_commit
        return None if is_zero(law) else self._delays(worker, law, Purpose.PULL_TO_COMMIT)

    def _link(self, worker: int) -> Link:
        law = self.cluster.network.latencies(self.cluster.workers)[worker]
        latency = None if is_zero(law) else self._delays(worker, law, Purpose.LATENCY)
        losses = [
            (fault, self._delays(worker, Uniform(0.0, 1.0), Purpose.FAULTS, 2 * place))
            for place, fault in enumerate(self.cluster.faults)
            if isinstance(fault, MessageLoss) and worker in self._affected(fault)
        ]

        def on_loss(start: float, end: float) -> None:
            self.log.fault(kind=Fault.MESSAGE_LOST, worker=worker, start_time=start, end_time=end)

        return Link(self.env, self.cluster.network, latency, self.shared_link, losses, on_loss)

    def _log_planned_faults(self) -> None:
        """Faults whose times are known beforehand, of those that have begun."""
        end = self.env.now
        for fault in self._faults(Slowdown):
            if fault.start <= end:
                until = fault.start + fault.seconds
                self.log.fault(kind=Fault.SLOWDOWN, worker=fault.worker, start_time=fault.start, end_time=until)
        for fault in self._faults(ServerPause):
            for start, until in pauses_until(fault, end):
                self.log.fault(kind=Fault.SERVER_PAUSE, worker=-1, start_time=start, end_time=until)

    def _delays(self, worker: int, law: Delay, purpose: Purpose, place: int = 0) -> Iterator[float]:
        return draw_delays(self.env, worker, law, stream(self.seed, worker, purpose, place))

    def _faults(self, kind: Any) -> list[Any]:
        return [fault for fault in self.cluster.faults if isinstance(fault, kind)]

    def _affected(self, fault: MessageLoss | Sessions) -> range:
        return range(self.cluster.workers) if fault.worker is None else range(fault.worker, fault.worker + 1)


def _crash(env: Environment, fault: Crash, worker: Worker) -> ProcessGenerator:
    yield env.timeout(fault.time)
    until = INFINITY if fault.restart_after is None else env.now + fault.restart_after
    worker.go_down(Fault.CRASH, until, fault.keeps_state)


def _come_and_go(
    env: Environment, fault: Sessions, worker: Worker, online: Iterator[float], offline: Iterator[float]
) -> ProcessGenerator:
    while worker.down_until < INFINITY:
        yield env.timeout(next(online))
        away = next(offline)
        worker.go_down(Fault.OFFLINE, env.now + away, fault.keeps_state)
        yield env.timeout(away)
