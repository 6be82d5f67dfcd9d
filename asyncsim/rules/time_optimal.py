"""Time-optimal rules for workers with the same data: they use what was computed at, or not long before, this version.

Rennala and Ringmaster. They count versions of their own: here a version grows with what the rule uses, in an
asynchronous trace with every commit. Workers never wait in either, so the asynchronous schedule is also theirs.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim import checks
from asyncsim.rules.arguments import OneOrSeveral, step_size
from asyncsim.rules.downpour import raw_update
from asyncsim.rules.momentum import at_rest
from asyncsim.rules.rule import Hyper, Params, Rule, Sent, State, View, add_message, keep_nothing
from asyncsim.trees import as_precise, keep_if, widen

LONG_AGO = 2**30  # older than any read


def count(condition: Any) -> jax.Array:
    """1 where the condition is true, else 0: an integer in whatever precision the parameters are."""
    return jnp.asarray(condition, jnp.int32)


def add_precisely(central: Params, total: Params) -> Params:
    """θ + total, with the dtypes of θ: sums are kept in single precision at least."""
    return as_precise(jax.tree.map(jnp.add, central, total), central)


class Batch(NamedTuple):
    """What the server of Rennala keeps.

    Attributes:
        total: Sum of the updates for the next step.
        collected: Their number.
        age: Versions of the trace since the last step.
    """

    total: Params
    collected: jax.Array
    age: jax.Array


def start_batch(hyper: Hyper, params: Params) -> Batch:
    """Nothing collected."""
    return Batch(widen(at_rest(hyper, params)), jnp.int32(0), jnp.int32(0))


def send_if_current(hyper: Hyper, gradient: Params, state: State, view: View) -> Sent:
    """Send Δθ and 1 if no step was made since the read, else nothing."""
    sent = raw_update(hyper, gradient, state, view)
    current = view.staleness <= view.server.age
    return sent._replace(message={"update": keep_if(current, sent.message), "count": count(current)})


def apply_when_full(
    hyper: Hyper, central: Params, server: Batch, message: dict[str, Any], view: View
) -> tuple[Params, Batch]:
    """θ ← θ + the mean of B updates, once there are that many."""
    del view  # Which gradients count was decided when they were sent.
    total = jax.tree.map(jnp.add, server.total, message["update"])
    collected = server.collected + message["count"]
    full = collected >= hyper["batch"]
    mean = jax.tree.map(lambda t: t / hyper["batch"], keep_if(full, total))
    kept = Batch(keep_if(~full, total), keep_if(~full, collected), jnp.where(full, 0, server.age + 1))
    return add_precisely(central, mean), kept


def send_if_fresh(hyper: Hyper, gradient: Params, state: State, view: View) -> Sent:
    """Send Δθ if τ = 0, else zeros."""
    sent = raw_update(hyper, gradient, state, view)
    return sent._replace(message=keep_if(view.staleness == 0, sent.message))


STEPS: dict[str, dict[str, Any]] = {
    "rule": {"send": send_if_current, "start_server": start_batch, "apply": apply_when_full},
    "trace": {"send": send_if_fresh, "start_server": keep_nothing, "apply": add_message},
}


def rennala(learning_rate: Any, *, batch: OneOrSeveral = 10, steps: str = "rule") -> Rule:
    """Rennala SGD: a step is the mean of B gradients taken at the current version; older ones are ignored.

    θ ← θ - (η/B)·Σ_{b=1}^{B} ∇L(θ), with B fresh gradients of whichever workers are fast enough; a fast worker may
    contribute several. The server keeps their sum, the worker nothing. With B = 1 a gradient counts if nothing was
    applied since its read. Among n workers of equal, constant speed B = n is synchronous SGD.

    Either the rule or the trace makes the steps:

    - ``"rule"``: the trace is asynchronous, with every commit a step of its own. The rule counts fresh gradients, and
      ignores what was read before its last step. Workers never wait, so the schedule is that of the published
      algorithm.
    - ``"trace"``: the trace was made with `asyncsim.protocols.Rennala(batch)`, whose steps are the batches. This is
      the way to have old jobs stopped at once (`cancel=True`), which changes the timing. (An asynchronous trace would
      be cut into steps of B commits, and whatever in them is not fresh would be lost.)

    Args:
        learning_rate: Step size η, per step; a scalar, or one value per seed.
        batch: Gradients in a step, B ≥ 1; a whole number, or, where the rule makes the steps, one per seed.
        steps: What makes the steps: "rule" or "trace".

    Returns:
        A `Rule` that steps every `batch` fresh commits.

    Raises:
        ValueError: If a number is out of range, `steps` is unknown, or the trace makes the steps and there are several
            numbers of gradients.

    Example:
        B = 2. Both workers read at 1, and their mean makes x = 0.5. Then worker 0, which read at 1 before that step,
        is ignored, and worker 1 is the first of the next two.

        >>> import asyncsim as asim
        >>> trace, quadratic = asim.Trace.from_commits([0, 1, 0, 1]), asim.workloads.quadratic([1.0])
        >>> run = asim.replay(trace, asim.rules.rennala(0.5, batch=2), quadratic)
        >>> run.loss.tolist(), run.central["x"].tolist()
        ([0.5, 0.5, 0.5, 0.125], [0.5])

    References:
        Tyurin and Richtárik 2023, "Optimal time complexities of parallel stochastic optimization methods under a fixed
        computation model".
    """
    checks.one_of("steps", steps, STEPS)
    size: Any = checks.whole("batch", batch, least=1, remedy="Collect one gradient or more.")
    if steps == "trace" and np.ndim(size):
        raise ValueError(
            f"`batch` must be one number where the trace makes the steps; got {size.tolist()}. Use steps='rule'."
        )
    hyper = {**step_size(learning_rate), "batch": size}
    collect = 1 if steps == "rule" else size  # with 1, a trace that has averaged already is refused
    made = {"name": "rennala", "options": (("steps", steps),), "collect": collect, "ignores": True, "elementwise": True}
    return Rule(hyper=hyper, **made, **STEPS[steps]).sealed()


@dataclass(frozen=True)
class StartAges:
    """No update was ever applied: (R,) ages in versions of the trace, youngest first; R the largest of all seeds."""

    limit: int

    def __call__(self, hyper: Hyper, params: Params) -> jax.Array:
        """The first state of the server."""
        del hyper, params  # Ages depend on neither.
        return jnp.full(self.limit, LONG_AGO, jnp.int32)


def oldest(hyper: Hyper, ages: jax.Array) -> jax.Array:
    """The age of the R-th last update: the last one that the server keeps, unless it keeps more for other seeds."""
    return ages[jnp.asarray(hyper["limit"], jnp.int32) - 1] if "limit" in hyper else ages[-1]


def send_if_recent(hyper: Hyper, gradient: Params, state: State, view: View) -> Sent:
    """Send Δθ and 1 if fewer than R updates were applied since the read, else nothing."""
    sent = raw_update(hyper, gradient, state, view)
    recent = view.staleness < oldest(hyper, view.server)
    return sent._replace(message={"update": keep_if(recent, sent.message), "applied": count(recent)})


def apply_and_age(
    hyper: Hyper, central: Params, server: jax.Array, message: dict[str, Any], view: View
) -> tuple[Params, jax.Array]:
    """θ ← θ + Δθ; all ages grow, and an update that was applied adds its own."""
    central, _ = add_message(hyper, central, (), message["update"], view)
    shifted = jnp.concatenate([jnp.zeros(1, server.dtype), server[:-1]])
    return central, jnp.where(message["applied"] > 0, shifted, server) + 1


def ringmaster(learning_rate: Any, *, limit: OneOrSeveral = 10) -> Rule:
    """Ringmaster ASGD: asynchronous SGD that ignores gradients with a delay of R or more.

    θ ← θ - η·∇L(θ_{k-δ}) if δ < R, where δ counts the updates *applied* since the read: an ignored one is not a
    version. The server keeps the ages of its last R updates, the worker nothing. R = 1 uses fresh gradients only;
    with R above every staleness it is DOWNPOUR. The published choice is R = max(1, ⌈σ²/ε⌉), with a step size of at
    most 1/(2·R·L).

    Give it an asynchronous trace, whose schedule is that of the published algorithm without stops. For the algorithm
    that stops a job as soon as its delay reaches R, give it a trace made with
    `asyncsim.protocols.Ringmaster(R, stop=True)`, whose gradients all count.

    Args:
        learning_rate: Step size η, per applied commit; a scalar, or one value per seed.
        limit: R ≥ 1, the delay at and above which a gradient is ignored; a whole number, or one per seed. A new limit,
            or a new largest one, compiles a new program.

    Returns:
        A `Rule` that keeps R ages on the server.

    Raises:
        ValueError: If a number is out of range.

    Example:
        R = 1: worker 1 read before the update of worker 0 and is ignored; then it reads 0.5.

        >>> import asyncsim as asim
        >>> rule, trace = asim.rules.ringmaster(0.5, limit=1), asim.Trace.from_commits([0, 1, 1])
        >>> run = asim.replay(trace, rule, asim.workloads.quadratic([1.0]))
        >>> run.loss.tolist(), run.central["x"].tolist()
        ([0.5, 0.5, 0.125], [0.25])

    References:
        Maranjyan, Tyurin and Richtárik 2025, "Ringmaster ASGD: the first asynchronous SGD with optimal time
        complexity".
    """
    limit = checks.whole("limit", limit, least=1, remedy="With 1, only fresh gradients count.")
    several = bool(np.ndim(limit))
    return Rule(
        hyper={**step_size(learning_rate), "limit": limit} if several else step_size(learning_rate),
        name="ringmaster",
        send=send_if_recent,
        options=() if several else (("limit", limit),),
        start_server=StartAges(int(np.max(limit, initial=1))),
        apply=apply_and_age,
        collect=1,
        ignores=True,
        elementwise=True,
    ).sealed()
