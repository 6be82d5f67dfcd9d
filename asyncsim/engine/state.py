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
        rows: (workers, seeds, row), the packed `asyncsim.engine.layout.Row` of every worker.
        buffer: Sum of the messages of the step under way, leading axis `seeds`; () if every commit is a step.
    """

    central: jax.Array
    server: Any
    rows: jax.Array
    buffer: Any = ()


class Schedule(NamedTuple):
    """What the trace says about one commit, or columns of it; () for what no commit of the trace needs.

    Attributes:
        staleness: τ, int32.
        closes: Whether the commit closes its step.
        collected: Commits in the step up to and including this one.
        prompt: Whether the worker reads right after the commit.
        late_pull: Whether it pulls just before the commit.
        own: Whether it goes on from its own value after the commit.
        group_staleness: (groups,) τ of every parameter group.
    """

    staleness: Any
    closes: Any = ()
    collected: Any = ()
    prompt: Any = ()
    late_pull: Any = ()
    own: Any = ()
    group_staleness: Any = ()


class When(NamedTuple):
    """What the trace says about one event between commits, or columns of it; () for what the event does not need.

    Attributes:
        staleness: τ of the worker's last commit, int32.
        begins: Whether the worker begins with this job.
        group_staleness: (groups,) as `staleness`.
    """

    staleness: Any
    begins: Any = ()
    group_staleness: Any = ()


class ChunkEvents(NamedTuple):
    """Reads or pulls that follow the commits of one chunk.

    Attributes:
        start, stop: (length,) int32, the range of the events below that follow each commit.
        worker: (length + workers,) int32: between two commits of a worker there is at most one event.
        when: Columns of shape (length + workers,).
    """

    start: Any
    stop: Any
    worker: Any
    when: When


class Chunk(NamedTuple):
    """One chunk of the plan, padded to a fixed length.

    Attributes:
        worker, job: (length,) int32; `job` counts the worker's commits from 0.
        schedule: Columns of shape (length,).
        events: One for each of `Layout.events`.
        examples: (length, seeds, batch) int32 example numbers, or None for workloads without data.
        keys: (length, seeds) random keys, or (length, seeds, window); None where nothing uses them.
        due: (length + 1,) int32 for each group of `Layout.now_and_then`: its records before each commit, and in all.
        wave_start, wave_size: (waves,) int32, or None with one lane.
    """

    worker: Any
    job: Any
    schedule: Schedule
    events: tuple[ChunkEvents, ...]
    examples: Any
    keys: Any
    due: tuple[Any, ...]
    wave_start: Any
    wave_size: Any


class Problem(NamedTuple):
    """What is replayed, as pytrees: their code is static, their numbers are traced.

    Attributes:
        rule: Update rule; every hyper-parameter of shape () or (seeds,).
        gradient: `(params, batch, key) -> (loss, gradient)`, or `(params, batch, key, worker)`; see `Layout.by_worker`.
        noise: `key -> batch`, or `(key, worker) -> batch`, or None.
        data: Training examples, or None.
        keys: (seeds, workers) random keys, or some more.
        own: The user's recorded quantities, name -> `CommitView -> array`.
    """

    rule: Rule
    gradient: Any
    noise: Any
    data: Any
    keys: jax.Array
    own: Any


def weakly_typed(value: Any) -> jax.Array:
    """Numbers as an array of JAX's weak type, which a product with parameters does not promote, as a Python float.

    Example:
        >>> rates = weakly_typed([0.1, 0.2])
        >>> rates.dtype.name, (rates * jnp.ones(2, jnp.bfloat16)).dtype.name
        ('float32', 'bfloat16')
    """
    zeros = lax.full(np.shape(value), 0.0)
    return zeros.at[...].set(jnp.asarray(value, zeros.dtype))
