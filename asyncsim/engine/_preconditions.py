"""Preconditions of a replay: its arguments, memory and resumed run, with a one-line error for each impossible one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim import _checks as checks
from asyncsim import _memory as memory
from asyncsim.engine._chunks import FLOAT_BYTES
from asyncsim.engine._layout import Packing
from asyncsim.engine._plan import Plan
from asyncsim.engine._quantities import QUANTITIES, Measure, Record, own_measures, strides
from asyncsim.engine._run import Run
from asyncsim.rules import Rule

COPIES = 3  # of the parameters, in addition to those of the workers: the central variable, a gradient, an update
MOST_SEED = 2**31 - 1  # a larger one does not fit JAX's default integer, int32


def require_seeds(seed: Any, rule: Rule) -> tuple[int | tuple[int, ...], tuple[int, ...]]:
    """Return the seed as `Run` has it, and as a tuple. Refuse hyper-parameters of another number of seeds."""
    if getattr(seed, "ndim", 1) == 0 and jnp.issubdtype(seed.dtype, jnp.integer):
        seed = int(seed)  # It is an array without axes.
    several = isinstance(seed, Iterable) and not isinstance(seed, (str, bytes)) and getattr(seed, "ndim", 1) > 0
    seeds = tuple(
        checks.require_integer("seed", each, remedy="Give a whole number, or a sequence of them.")
        for each in (seed if several else (seed,))
    )
    if not seeds or max(seeds) > MOST_SEED:
        raise ValueError(f"`seed` must be one or more whole numbers from 0 to {MOST_SEED}; got {checks.brief(seed)}.")
    for name, value in rule.numbers.items():
        if np.shape(value) not in ((), (len(seeds),)):
            raise ValueError(
                f"`{name}` must be a scalar, or one value per seed, here {len(seeds)}; got shape {np.shape(value)}."
            )
    return (seeds if several else seeds[0]), seeds


def require_commits(commits: int | None, available: int) -> int:
    if commits is None:
        return available
    count = checks.require_integer("commits", commits, remedy="Leave it out for the whole trace.")
    if count > available:
        raise ValueError(
            f"`commits` must be at most the trace's {available}; got {checks.brief(count)}. Simulate a longer trace."
        )
    return count


def require_memory(rule: Rule, params: Packing, row: Packing, *, workers: int, seeds: int, commits: int) -> None:
    """Refuse a replay that does not fit: its state on the device, its losses on the host."""
    state = seeds * (workers * row.size * row.dtype.itemsize + COPIES * params.size * params.dtype.itemsize)
    times = f"{workers} worker{'s' * (workers > 1)} and {seeds} seed{'s' * (seeds > 1)}"
    subject = f"`workload` of {params.size} parameters, with {times} under the rule {rule.name!r},"
    device = jax.local_devices()[0]
    stats = None if device.platform == "cpu" else device.memory_stats()
    # On a CPU, and where a device does not tell, the machine's memory is the limit.
    have = float(stats["bytes_limit"]) if stats and "bytes_limit" in stats else None
    memory.require(state, subject, "Use a smaller model, or fewer workers or seeds.", have)
    memory.require(seeds * commits * FLOAT_BYTES, f"`commits` of {checks.brief(commits)}", "Use fewer.")


def bytes_recorded(shapes: Mapping[str, Any], strides: Mapping[str, int]) -> float:
    """Return the bytes recorded of a commit of one seed, on average."""
    return sum(shape.size * shape.dtype.itemsize / strides[name] for name, shape in shapes.items())


def require_memory_of_records(
    shapes: Mapping[str, Any], strides: Mapping[str, int], *, seeds: int, commits: int
) -> None:
    """Refuse records that do not fit on the host. The error names the largest."""
    if not shapes:
        return
    most = max(shapes, key=lambda name: bytes_recorded({name: shapes[name]}, strides))
    subject = f"`record` of {most!r}, {shapes[most].size} numbers at every {strides[most]} of {commits} commits,"
    remedy = f"Record it less often, such as {{{most!r}: {1000 * strides[most]}}}."
    memory.require(seeds * commits * bytes_recorded(shapes, strides), subject, remedy)


def require_record(
    record: Record | None, resume: Run | None, workers: int, metrics: Sequence[str]
) -> tuple[dict[str, int], dict[str, Measure]]:
    """Return name -> commits from one record to the next, and name -> the user's function."""
    # A resumed run goes on with its records, and its functions are lost if it comes from a file.
    if record is None and resume is not None:
        for name in resume.strides:
            if name not in (*QUANTITIES, *metrics, *resume.own):
                raise ValueError(
                    f"`record` must be given again: `resume` recorded {name!r} by a function, which is not in its file."
                )
        return dict(resume.strides), dict(resume.own)
    record = () if record is None else record
    every, functions = strides(record, workers, metrics), own_measures(record)
    if resume is not None and every != dict(resume.strides):
        raise ValueError(f"`record` must be that of `resume`, {dict(resume.strides)}; got {every}. Leave it out.")
    for name in every:
        if name not in (*QUANTITIES, *metrics, *functions):
            raise ValueError(f"`record` names {name!r}, which this workload does not evaluate; leave it out.")
    return every, functions


def require_same(resume: Run, seed: Any, rule: Rule, plan: Plan, parameters: int, total: int) -> None:
    """Refuse to resume another run, or one whose file lacks the workers' state."""
    if resume.state.rows is None:
        raise ValueError(
            "`resume` must have the workers' state, which its file does not hold. Save it with `resumable=True`, or "
            "replay from the start."
        )
    if resume.seed != seed:
        raise ValueError(f"`resume` must be a run of the same seed; it has {resume.seed}, not {seed}.")
    if resume.rule != rule:
        raise ValueError(f"`resume` must be a run of the same rule; it has {resume.rule!r}.")
    if resume.digest != plan.digest(resume.commits):
        raise ValueError(f"`resume` must be a run of the same trace; its first {resume.commits} commits differ.")
    if resume.state.central.shape[-1] != parameters:
        raise ValueError(f"`resume` must be a run of the same workload; this one has {parameters} parameters.")
    if resume.commits > total:
        raise ValueError(
            f"`resume` has {resume.commits} commits already; `commits` must be at least that, got "
            f"{checks.brief(total)}."
        )


def require_same_records(resume: Run, shapes: Mapping[str, Any]) -> None:
    """Refuse a function whose values do not fit those that the resumed run recorded under its name."""
    for name, shape in shapes.items():
        axes = 2 if resume.several else 1  # seeds and records
        if len(resume.recorded_at.get(name, ())) and resume.records[name].shape[axes:] != shape.shape:
            raise ValueError(
                f"`record` must have the function that `resume` recorded as {name!r}: it has values of shape "
                f"{resume.records[name].shape[axes:]}, not {shape.shape}."
            )
