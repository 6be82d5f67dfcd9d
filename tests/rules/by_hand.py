"""Published algorithms written out in NumPy on a quadratic: a server's loop over arrivals, without any rule."""

import numpy as np

import asyncsim as asim
from tests.problems import TRACES

H, START = np.array([1.0, 0.3, 0.05]), np.array([1.0, -2.0, 0.5])


def trace_of(kind, **options):
    """A trace of this kind without jobs that go on from a worker's own value, of which no published server knows."""
    return TRACES[kind][0](**options, **({"owning": 0.0} if kind == "everything" else {}))


def arrivals(trace):
    """Worker of every commit, and the number of the commit after which it had read (0: at the start)."""
    closed = np.concatenate([[0], np.flatnonzero(trace.closes_step) + 1])
    return zip(trace.worker.tolist(), closed[trace.read_version].tolist(), strict=True)


def local_steps(x, rate, window):
    """The displacement of plain local steps."""
    end = x
    for _ in range(window):
        end = end - rate * H * end
    return end - x


def serve(trace, on_arrival):
    """θ after every commit: `on_arrival(worker, x, delay, θ)` returns the new one.

    `delay` counts how often `on_arrival` has set θ between the read and now; returning None leaves θ as it is.
    """
    thetas, sets = [START], [0]
    for worker, read in arrivals(trace):
        new = on_arrival(worker, thetas[read], sets[-1] - sets[read], thetas[-1])
        thetas.append(thetas[-1] if new is None else new)
        sets.append(sets[-1] + (new is not None))
    return np.array(thetas[1:])


def quadratic():
    return asim.workloads.Quadratic(H, start=START)  # in the precision of the test


def versions(trace, send, apply=np.add):
    """θ of every version: `send(k, thetas)` is the message of row k, and `apply(θ, mean message)` the server's step."""
    thetas, messages = [START], []
    for k in range(len(trace)):
        messages.append(send(k, thetas))
        if trace.closes_step[k]:
            thetas.append(apply(thetas[-1], np.mean(messages, axis=0)))
            messages = []
    return thetas
