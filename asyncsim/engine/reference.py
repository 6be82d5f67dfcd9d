"""What replay means: a plain loop over the rows of a trace, nothing compiled, nothing clever.

The compiled engine must agree with it for every rule (rtol 1e-10 in float64); and when a rule of your own does not
work, this is the place for a breakpoint.
"""

from typing import Any, NamedTuple

import jax
import numpy as np

from asyncsim.engine.batches import Shuffles, commit_key, init_key
from asyncsim.engine.record import Step
from asyncsim.rules import Rule, View
from asyncsim.trace import Trace
from asyncsim.workloads import Workload


class PlainRun(NamedTuple):
    """Result of the plain loop: `loss` of shape (commits,), the last `central`, and every commit's `Step`."""

    loss: np.ndarray
    central: Any
    steps: list[Step]


def take_batch(workload: Workload, seed: int, worker: int, job: int, key: jax.Array) -> Any:
    """The mini-batch of a worker's job."""
    if workload.data is None:
        return workload.noise(key) if workload.noise else None
    rows = Shuffles(workload.examples, workload.batch_size).take(seed, np.array([worker]), np.array([job]))[0]
    return jax.tree.map(lambda array: array[rows], workload.device_data)


def replay_plainly(trace: Trace, rule: Rule, workload: Workload, seed: int = 0) -> PlainRun:
    """Replay a trace one commit at a time.

    Example:
        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1, 0])
        >>> run = replay_plainly(trace, asim.rules.downpour(0.5), asim.workloads.quadratic([1.0]))
        >>> run.loss.tolist(), run.central["x"].tolist()
        ([0.5, 0.5, 0.125], [-0.25])
    """
    hyper, central = rule.hyper, workload.init(init_key(seed))
    server = rule.start_server(hyper, central)
    read = [central] * trace.workers
    state = [rule.start(hyper, central)] * trace.workers
    jobs = [0] * trace.workers
    losses, steps = [], []
    for w, staleness in zip(trace.worker.tolist(), trace.staleness, strict=True):
        key = commit_key(jax.random.key(seed), w, jobs[w])
        batch = take_batch(workload, seed, w, jobs[w], key)
        loss, gradient = workload.loss_and_gradient(read[w], batch, key)
        view = View(read=read[w], pulled=central, staleness=staleness)
        message, state[w], info = rule.send(hyper, gradient, state[w], view)
        central, server = rule.apply(hyper, central, server, message, view)
        read[w] = rule.resume(hyper, central, state[w], view)
        jobs[w] += 1
        losses.append(loss)
        steps.append(Step(central=central, view=view, info=info, loss=loss))
    return PlainRun(np.asarray(losses), central, steps)
