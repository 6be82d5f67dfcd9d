"""What goes into the compiled loop, and what it carries from commit to commit."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from asyncsim.rules import Rule


class Carry(NamedTuple):
    """What the loop carries from commit to commit.

    Attributes:
        central: (seeds, parameters), the central variable packed in a vector.
        server: Pytree of the rule's server state, leading axis `seeds`.
        rows: (workers, seeds, row), the packed `asyncsim.engine._layout.Row` of every worker.
        buffer: Sum of the messages of the step under way, leading axis `seeds`; () if every commit is a step.
    """

    central: jax.Array
    server: Any
    rows: jax.Array
    buffer: Any = ()


class Schedule(NamedTuple):
    """What the trace says about one commit, or columns of it; () for what no commit of the trace needs."""

    staleness: Any  # τ, int32
    closes: Any = ()  # whether the commit closes its step
    collected: Any = ()  # commits in the step up to and including this one
    prompt: Any = ()  # whether the worker reads right after the commit
    late_pull: Any = ()  # whether it pulls just before the commit
    own: Any = ()  # whether it goes on from its own value after the commit
    group_staleness: Any = ()  # (groups,) τ of every parameter group


class When(NamedTuple):
    """What the trace says about one event between commits, or columns of it; () for what the event does not need."""

    staleness: Any  # τ of the worker's last commit, int32
    begins: Any = ()  # whether the worker begins with this job
    group_staleness: Any = ()  # (groups,) as `staleness`


class ChunkEvents(NamedTuple):
    """Reads or pulls that follow the commits of one chunk."""

    start: Any  # (length,) int32, the range of the events below that follow each commit
    stop: Any  # (length,) int32, the range of the events below that follow each commit
    worker: Any  # (length + workers,) int32: between two commits of a worker there is at most one event
    when: When  # columns of shape (length + workers,)


class Chunk(NamedTuple):
    """One chunk of the plan, padded to a fixed length."""

    worker: Any  # (length,) int32; `job` counts the worker's commits from 0
    job: Any  # (length,) int32; `job` counts the worker's commits from 0
    schedule: Schedule  # columns of shape (length,)
    events: tuple[ChunkEvents, ...]  # one for each of `Layout.events`
    examples: Any  # (length, seeds, batch) int32 example numbers, or None for workloads without data
    keys: Any  # (length, seeds) random keys, or (length, seeds, window); None where nothing uses them
    due: tuple[Any, ...]
    wave_start: Any  # (waves,) int32, or None with one lane
    wave_size: Any  # (waves,) int32, or None with one lane


class Problem(NamedTuple):
    """What is replayed, as pytrees: their code is static, their numbers are traced."""

    rule: Rule  # update rule; every hyper-parameter of shape () or (seeds,)
    gradient: Any
    noise: Any  # `key -> batch`, or `(key, worker) -> batch`, or None
    data: Any  # training examples, or None
    keys: jax.Array  # (seeds, workers) random keys, or some more
    own: Any  # the user's recorded quantities, name -> `CommitView -> array`


def weakly_typed(value: Any) -> jax.Array:
    """Numbers as an array of JAX's weak type, which a product with parameters does not promote, as a Python float."""
    zeros = lax.full(np.shape(value), 0.0)
    return zeros.at[...].set(jnp.asarray(value, zeros.dtype))
