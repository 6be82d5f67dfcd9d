"""A parameter server with real processes on this machine, whose recorded log predicts it with other numbers of workers.

    python -m tests.benchmarks.server                            # sleeping workers: 4, then 8 and 16
    python -m tests.benchmarks.server --kind gradients           # real gradients: one process per core, then others
    python -m tests.benchmarks.server --workers 4 --others 12 --commits 600 --server loop --out logs

Sleeping workers compute, send and receive in their sleep, so that cores stay idle, and all laws are known. Gradients
are those of a network of two layers. The server is another process than the workers: one thread for each worker, or
one loop that takes up one message after the other.
"""

from __future__ import annotations  # Workers start faster if they import nothing but what they use.

import argparse
import os
import platform
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import asyncsim as asim

SEED = 0
LAYERS = (784, 256, 10)
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # of a worker: one each


@dataclass(frozen=True)
class Job:
    """A training job, with the true mean times of its sleeping workers in seconds."""

    workers: int
    commits: int  # at the least, and one of each worker
    kind: str = "sleep"  # or "gradients"
    server: str = "threads"  # or "loop"
    compute: float = 0.2
    latency: float = 0.02  # each way
    service: float = 0.012
    cv: float = 0.5  # of all laws
    batch: int = 4096  # of a real gradient, which takes some 50 ms of a core

    def laws(self) -> dict[str, float]:
        """Return the mean of each stage, as a fit names them."""
        return {"compute": self.compute, "network.latency": self.latency, "server.service": self.service}


def doze(generator: np.random.Generator, mean: float, cv: float) -> None:
    """Sleep for a time from a gamma law."""
    time.sleep(generator.gamma(1 / cv**2, mean * cv**2))


def work(address: Any, number: int, job: Job) -> None:
    """Compute gradients until the server sends no more parameters. A process executes it."""
    generator = np.random.default_rng([SEED, number])
    gradient = sleeping(generator, job) if job.kind == "sleep" else network_gradient(generator, job.batch)
    with connection.Client(address) as server:
        server.send(number)
        while (parameters := server.recv()) is not None:
            if job.kind == "sleep":
                doze(generator, job.latency, job.cv)
            start = time.time()
            update = gradient(parameters)
            finish = time.time()
            if job.kind == "sleep":
                doze(generator, job.latency, job.cv)
            server.send((update, start, finish))


def sleeping(generator: np.random.Generator, job: Job) -> Any:
    """Return the gradient of x²/2, which takes its time."""

    def gradient(x: np.ndarray) -> np.ndarray:
        doze(generator, job.compute, job.cv)
        return x

    return gradient


def network_gradient(generator: np.random.Generator, batch: int) -> Any:
    """Return the gradient of the squared error of a network with one hidden layer, on random data."""
    x = generator.normal(size=(batch, LAYERS[0])).astype(np.float32)
    y = generator.normal(size=(batch, LAYERS[2])).astype(np.float32)

    def gradient(parameters: np.ndarray) -> np.ndarray:
        first, second = unpack(parameters)
        hidden = np.maximum(x @ first, 0)
        error = (hidden @ second - y) / batch
        slope = (error @ second.T) * (hidden > 0)
        return np.concatenate([(x.T @ slope).ravel(), (hidden.T @ error).ravel()])

    return gradient


def unpack(parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the two matrices of the network."""
    size = LAYERS[0] * LAYERS[1]
    return parameters[:size].reshape(LAYERS[:2]), parameters[size:].reshape(LAYERS[1:])


def initial(job: Job) -> np.ndarray:
    """Return the first parameters."""
    if job.kind == "sleep":
        return np.ones(1000, np.float32)
    size = LAYERS[1] * (LAYERS[0] + LAYERS[2])
    return np.random.default_rng(SEED).normal(scale=0.05, size=size).astype(np.float32)


class Server:
    """Parameters, their recorder, and what happens to a message."""

    def __init__(self, job: Job, recorder: asim.Recorder) -> None:
        self.job = job
        self.recorder = recorder
        self.parameters = initial(job)
        self.silent = set(range(job.workers))  # A log with fewer workers than its job could not be compared.
        self.generator = np.random.default_rng([SEED, job.workers])

    def greet(self, worker: connection.Connection) -> int:
        """Send a new worker its first parameters, and return its number."""
        number = worker.recv()
        self.recorder.read(number)
        worker.send(self.parameters.copy())
        return number

    def answer(self, worker: connection.Connection, number: int) -> bool:
        """Apply a gradient, answer with the parameters, and return whether there is more to do."""
        update, start, finish = worker.recv()
        if self.recorder.version >= self.job.commits and not self.silent:
            worker.send(None)
            return False
        with self.recorder.commit(number, start, finish):
            self.parameters -= 1e-3 * update
            if self.job.kind == "sleep":
                doze(self.generator, self.job.service, self.job.cv)
            reply = self.parameters.copy()
        self.silent.discard(number)
        worker.send(reply)
        return True

    def thread(self, worker: connection.Connection) -> None:
        """Serve one worker from its first message to its last."""
        number = self.greet(worker)
        while self.answer(worker, number):
            pass

    def loop(self, workers: list[connection.Connection]) -> None:
        """Serve all workers, one message after the other."""
        numbers = {worker: self.greet(worker) for worker in workers}
        while numbers:
            for worker in connection.wait([*numbers]):
                if not self.answer(worker, numbers[worker]):
                    del numbers[worker]


def run(job: Job, path: Path) -> asim.Trace:
    """Run a job for real, with processes for the workers and this one as the server, and read its recorded log."""
    path.unlink(missing_ok=True)
    os.environ |= dict.fromkeys(THREADS, "1")  # which the workers inherit
    recorder = asim.Recorder(path)
    server, spawn = Server(job, recorder), get_context("spawn")
    with connection.Listener(("localhost", 0), backlog=job.workers) as listener:
        processes = [
            spawn.Process(target=work, args=(listener.address, number, job), daemon=True)
            for number in range(job.workers)
        ]
        for process in processes:
            process.start()
        connected = [listener.accept() for _ in processes]
        if job.server == "loop":
            server.loop(connected)
        else:
            threads = [threading.Thread(target=server.thread, args=(worker,), daemon=True) for worker in connected]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for process in processes:
            process.join()
    recorder.close()
    return asim.Trace.from_csv(path, start="first")


def measure(trace: asim.Trace) -> dict[str, float]:
    """Return throughput and staleness from the first commit of the last worker on."""
    first = max(trace.commit_time[trace.worker == worker][0] for worker in range(trace.workers))
    rows = trace.commit_time > first
    return {"throughput": rows.sum() / (trace.seconds - first), "staleness": trace.staleness[rows].mean()}


class Comparison(NamedTuple):
    """A prediction next to a measurement."""

    workers: int
    quantity: str
    predicted: Any  # median, low and high
    measured: float

    @property
    def error(self) -> float:
        """Relative error of the prediction, or 0 where both are 0."""
        return self.predicted[0] / self.measured - 1 if self.measured else self.predicted[0]

    def __str__(self) -> str:
        middle, low, high = self.predicted
        predicted = f"{self.quantity:10} predicted {middle:.4g} [{low:.4g}, {high:.4g}]"
        return f"{self.workers} workers: {predicted}, measured {self.measured:.4g}, error {self.error:+.1%}"


def predict(fit: asim.Fit, trace: asim.Trace, draws: int = 16) -> list[Comparison]:
    """Compare the prediction of a fit with a log that has another number of workers."""
    answer, measured = fit.what_if(workers=trace.workers, draws=draws), measure(trace)
    return [
        Comparison(trace.workers, name, tuple(answer[name]), measured[name]) for name in ("throughput", "staleness")
    ]


def load() -> str:
    """Describe what else this machine does."""
    return f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores"


def main() -> None:
    """Run a job, fit its log, and run it with other numbers of workers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("sleep", "gradients"), default="sleep", help="what workers do [sleep]")
    parser.add_argument("--server", choices=("threads", "loop"), default="threads", help="kind of server [threads]")
    parser.add_argument("--workers", type=int, help="of the log that is fitted [4, or one per core]")
    parser.add_argument("--others", type=int, nargs="*", help="numbers of workers to predict [8 16, or 1 and twice n]")
    parser.add_argument("--commits", type=int, default=400, help="of each run [400]")
    parser.add_argument("--out", type=Path, help="folder for the logs [a temporary one]")
    given = parser.parse_args()
    sleeps = given.kind == "sleep"
    workers = given.workers or (4 if sleeps else os.cpu_count() or 1)
    others = given.others or ([2 * workers, 4 * workers] if sleeps else [1, 2 * workers])
    out = given.out or Path(tempfile.mkdtemp())
    out.mkdir(parents=True, exist_ok=True)
    job = Job(workers, given.commits, given.kind, given.server)
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, asyncsim {asim.__version__}, {platform.machine()}"
    )

    def record(n: int) -> asim.Trace:
        before = load()
        trace = run(replace(job, workers=n), out / f"{given.kind}-{given.server}-{n}.csv")
        print(f"\n{n} workers, {len(trace)} commits in {trace.seconds:.1f} s; {before} before, {load()} after")
        for note in trace.notes:
            print(f"  - {note}")
        compute = asim.statistics(trace).compute
        print(f"  compute: mean {1e3 * compute.mean:.4g} ms, cv {compute.cv:.3f}")
        return trace

    log = record(workers)
    fit = asim.calibrate(log)
    print(f"fit: {fit.cluster}")
    for name, one in fit.parameters.items():
        truth = job.laws().get(name.removesuffix(".mean")) if sleeps else None
        true = f"  true {truth:.5g}" if truth else ""
        print(f"  {name:24} {one.estimate:10.5g} [{one.low:.5g}, {one.high:.5g}]{true}")
    for note in fit.notes:
        print(f"  - {note}")
    print(f"  check: {fit.check()}")
    for n in others:
        for one in predict(fit, record(n)):
            print(f"  {one}")
    print(f"\nlogs: {out}")


if __name__ == "__main__":
    main()
