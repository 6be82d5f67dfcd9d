"""Everything a cluster can have, put together: workers, links, queue, protocol and faults."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from simpy import Environment, Resource
from simpy.events import ProcessGenerator

from asyncsim.cluster.coordinator import INFINITY, Coordinator, Log
from asyncsim.cluster.faults import Crash, MessageLoss, ServerPause, Sessions, Slowdown
from asyncsim.cluster.links import Link
from asyncsim.cluster.model import Cluster
from asyncsim.cluster.queue import Queue, pauses_until
from asyncsim.cluster.random_streams import Purpose, compute_stream, draw_delays, stream
from asyncsim.cluster.worker import Worker
from asyncsim.delays import Delay, Uniform, VariableSpeed, slowed, steady
from asyncsim.delays.per_worker import is_zero
from asyncsim.trace import Fault, Faults, Trace, Unfinished
from asyncsim.trace.columns import COMMIT_COLUMNS, FAULT_COLUMNS, UNFINISHED_COLUMNS


class General:
    """A cluster at work."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.log = cluster, Log()

    def __len__(self) -> int:
        return self.log.count

    def start(self, env: Environment, seed: int) -> None:
        """Set the workers to work and the faults to wait."""
        cluster, self.env, self.seed = self.cluster, env, seed
        self.coordinator = Coordinator(env, cluster.protocol.terms(cluster.workers), cluster.workers, self.log)
        self.queue = Queue(
            env,
            cluster.server,
            [self._draws(w, cluster.server.service, Purpose.SERVICE) for w in range(cluster.workers)],
            self._faults(ServerPause),
        )
        self.shared = Resource(env) if cluster.network.shared else None
        self.workers = [self._worker(worker) for worker in range(cluster.workers)]
        self.coordinator.stop = lambda worker: self.workers[worker].stop()
        for place, fault in enumerate(cluster.faults):
            if isinstance(fault, Crash):
                env.process(_crash(env, fault, self.workers[fault.worker]))
            elif isinstance(fault, Sessions):
                for worker in self._befallen(fault):
                    online = self._draws(worker, fault.online, Purpose.FAULTS, 2 * place)
                    offline = self._draws(worker, fault.offline, Purpose.FAULTS, 2 * place + 1)
                    env.process(_come_and_go(env, fault, self.workers[worker], online, offline))

    def trace(self) -> Trace:
        """What was recorded by now."""
        self.coordinator.unfinished()
        end = self.env.now
        for fault in self._faults(Slowdown):
            if fault.start <= end:
                self.log.fault(Fault.SLOWDOWN, fault.worker, fault.start, fault.start + fault.seconds)
        for fault in self._faults(ServerPause):
            for span in pauses_until(fault, end):
                self.log.fault(Fault.SERVER_PAUSE, -1, *span)
        faults = _columns(self.log.faults, FAULT_COLUMNS)
        order = np.argsort(faults["start_time"], kind="stable")
        trace = Trace(
            workers=self.cluster.workers,
            **_columns(self.log.commits, COMMIT_COLUMNS),
            unfinished=Unfinished(**_columns(self.log.unfinished, UNFINISHED_COLUMNS)),
            faults=Faults(**{name: column[order] for name, column in faults.items()}),
        )
        trace.check()
        return trace

    def _worker(self, worker: int) -> Worker:
        cluster = self.cluster
        law = cluster.laws[worker]
        work = law.work if isinstance(law, VariableSpeed) else law
        return Worker(
            self.env,
            worker,
            self.coordinator,
            duration=self._duration(worker, law),
            work=draw_delays(self.env, worker, work, compute_stream(self.seed, worker)),
            link=self._link(worker),
            queue=self.queue,
            pulls=None if cluster.server.atomic else cluster.server.pull,
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

    def _link(self, worker: int) -> Link:
        law = self.cluster.network.latencies(self.cluster.workers)[worker]
        latency = None if is_zero(law) else self._draws(worker, law, Purpose.LATENCY)
        losses = [
            (fault, self._draws(worker, Uniform(0.0, 1.0), Purpose.FAULTS, 2 * place))
            for place, fault in enumerate(self.cluster.faults)
            if isinstance(fault, MessageLoss) and worker in self._befallen(fault)
        ]

        def tell(start: float, end: float) -> None:
            self.log.fault(Fault.MESSAGE_LOST, worker, start, end)

        return Link(self.env, self.cluster.network, latency, self.shared, losses, tell)

    def _draws(self, worker: int, law: Delay, purpose: Purpose, place: int = 0) -> Iterator[float]:
        return draw_delays(self.env, worker, law, stream(self.seed, worker, purpose, place))

    def _faults(self, kind: Any) -> list[Any]:
        return [fault for fault in self.cluster.faults if isinstance(fault, kind)]

    def _befallen(self, fault: MessageLoss | Sessions) -> range:
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


def _columns(rows: Any, types: dict[str, type[np.generic]]) -> dict[str, np.ndarray]:
    """Columns of rows of numbers that lie one after another."""
    table = np.array(rows, np.float64).reshape(-1, len(types))
    return {name: table[:, place].astype(dtype) for place, (name, dtype) in enumerate(types.items())}
