"""What goes into the compiled loop, and what it carries."""

from typing import Any, NamedTuple

import jax

from asyncsim.rules import Rule


class Carry(NamedTuple):
    """What the loop carries from commit to commit.

    Attributes:
        central: (seeds, parameters), the central variable packed in a vector.
        server: Pytree of the rule's server state, leading axis `seeds`.
        rows: (workers, seeds, row), packed `(read, state)` of every worker.
    """

    central: jax.Array
    server: Any
    rows: jax.Array


class Columns(NamedTuple):
    """One piece of the plan, padded to a fixed length.

    Attributes:
        worker, job, staleness: (length,) int32; `job` counts the worker's commits from 0.
        examples: (length, seeds, batch) int32 example numbers, or None for workloads without data.
        due: (length,) bool for each of `Layout.rarely`: whether to record these quantities at this commit.
        wave_start, wave_size: (waves,) int32, or None with one lane.
    """

    worker: Any
    job: Any
    staleness: Any
    examples: Any
    due: tuple[Any, ...]
    wave_start: Any
    wave_size: Any


class Problem(NamedTuple):
    """What is replayed, as pytrees: their code is static, their numbers are traced.

    Attributes:
        rule: Update rule; every hyper-parameter of shape () or (seeds,).
        gradient: `(params, batch, key) -> (loss, gradient)`.
        noise: `key -> batch`, or None.
        data: Training examples, or None.
        keys: (seeds,) random keys.
    """

    rule: Rule
    gradient: Any
    noise: Any
    data: Any
    keys: jax.Array
