"""Time-optimal rules for workers with the same data, which count versions of their own: only of gradients in use."""

from dataclasses import KW_ONLY
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim import _checks as checks
from asyncsim._trees import as_precise, tree_where, tree_zeros_like, widen
from asyncsim.components._component import static
from asyncsim.rules._common import Elementwise
from asyncsim.rules._rule import Params, Sent, State, View

LONG_AGO = 2**30  # older than any read


def count(condition: Any) -> jax.Array:
    """1 where the condition is true, else 0: an integer for parameters of any precision."""
    return jnp.asarray(condition, jnp.int32)


def add_precisely(central: Params, total: Params) -> Params:
    """θ + total, with the dtypes of θ: sums are kept in single precision at least."""
    return as_precise(jax.tree.map(jnp.add, central, total), central)


_counts = partial(checks.require_all_integers, least=1)  # one, or one per seed


class Batch(NamedTuple):
    """The server's state of Rennala."""

    total: Params  # sum of the updates for the next step
    collected: jax.Array  # their number
    age: jax.Array  # versions of the trace since the last step


class Rennala(Elementwise):
    """Rennala SGD: a step is the mean of B gradients taken at the current version, and older ones are ignored.

    θ ← θ - (η/B)·Σ_{b=1}^{B} ∇L(θ), with B fresh gradients of whichever workers are fast enough. A fast worker may
    contribute several. With B = 1 a gradient counts if no update was applied since its read. Among n workers of equal,
    constant speed B = n is synchronous SGD. Either the rule or the trace makes the steps:

    - ``"rule"``: the trace is asynchronous, with every commit a step of its own. The rule counts fresh gradients, and
      ignores those that were read before its last step. Workers never wait, so the schedule is that of the published
      algorithm.
    - ``"trace"``: the trace was made with `asyncsim.protocols.Rennala(batch)`, whose steps are the batches. Choose it
      to have old jobs stopped at once (`cancel=True`), which changes the timing. (An asynchronous trace would be cut
      into steps of B commits, and all that is not fresh in them would be lost.)

    The rule keeps the sum of the step's gradients on the server. It steps every `batch` fresh commits.

    Args:
        learning_rate: Step size η, per step.
        batch: Gradients in a step, B ≥ 1, a whole number, or, where the rule makes the steps, one per seed.
        steps: Who makes the steps: "rule" or "trace".

    Example:
        B = 2. Both workers read at 1, and their mean makes x = 0.5. Then worker 0, which read at 1 before that step,
        is ignored, and worker 1 is the first of the next two.

        >>> import asyncsim as asim
        >>> trace, quadratic = asim.Trace.from_commits([0, 1, 0, 1]), asim.workloads.Quadratic([1.0])
        >>> run = asim.replay(trace, asim.rules.Rennala(0.5, batch=2), quadratic)
        >>> run.loss.tolist(), run.central["x"].tolist()
        ([0.5, 0.5, 0.5, 0.125], [0.5])

    References:
        Tyurin and Richtárik 2023, "Optimal time complexities of parallel stochastic optimization methods under a fixed
        computation model".
    """

    _: KW_ONLY
    batch: Annotated[int, _counts, "Collect one gradient or more."] = 10
    steps: Literal["rule", "trace"] = static(default="rule")

    publication = "tyurin2023rennala"
    purpose = "unequal speeds and equal data, at optimal time"
    ignores = True

    def check(self) -> None:
        batch: Any = self.batch
        if self.steps == "trace" and np.ndim(batch):
            raise ValueError(
                f"`batch` must be one number where the trace makes the steps; got {batch.tolist()}. Use steps='rule'."
            )

    @property
    def collect(self) -> int:
        """The batch, or 1 where the rule makes the steps: a trace that has averaged already is then refused."""
        return 1 if self.steps == "rule" else self.batch

    def start_server(self, params: Params) -> State:
        if self.steps == "trace":
            return ()
        return Batch(widen(tree_zeros_like(params)), jnp.int32(0), jnp.int32(0))

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        """Send Δθ, and 1 to a server that counts, if no step was made since the read, else zeros."""
        sent = super().send(gradient, state, view)
        if self.steps == "trace":
            return sent._replace(message=tree_where(view.staleness == 0, sent.message))
        current = view.staleness <= view.server.age
        return sent._replace(message={"update": tree_where(current, sent.message), "count": count(current)})

    def apply(self, central: Params, server: State, message: Any, view: View) -> tuple[Params, State]:
        if self.steps == "trace":
            return super().apply(central, server, message, view)
        total = jax.tree.map(jnp.add, server.total, message["update"])
        collected = server.collected + message["count"]
        full = collected >= self.batch
        mean = jax.tree.map(lambda t: t / self.batch, tree_where(full, total))
        batch = Batch(tree_where(~full, total), tree_where(~full, collected), jnp.where(full, 0, server.age + 1))
        return add_precisely(central, mean), batch


class Ringmaster(Elementwise):
    """Ringmaster ASGD: asynchronous SGD that ignores gradients with a delay of R or more.

    θ ← θ - η·∇L(θ_{k-δ}) if δ < R, where δ counts the updates *applied* since the read: an ignored one is not a
    version. R = 1 uses fresh gradients only, and with R above every staleness the rule is DOWNPOUR. The published
    choice is R = max(1, ⌈σ²/ε⌉), with a step size of at most 1/(2·R·L).

    Give it an asynchronous trace, whose schedule is that of the published algorithm without stops. For the algorithm
    that stops a job as soon as its delay reaches R, give it a trace made with `asyncsim.protocols.Ringmaster(R,
    stop=True)`, whose gradients all count.

    The rule keeps the ages of its last R updates on the server.

    Args:
        learning_rate: Step size η, per applied commit.
        limit: R ≥ 1, the delay at and above which a gradient is ignored (a whole number, or one per seed). A new limit,
            or a new largest one, compiles a new program.

    Example:
        R = 1: worker 1 read before the update of worker 0 and is ignored. Then it reads 0.5.

        >>> import asyncsim as asim
        >>> rule, trace = asim.rules.Ringmaster(0.5, limit=1), asim.Trace.from_commits([0, 1, 1])
        >>> run = asim.replay(trace, rule, asim.workloads.Quadratic([1.0]))
        >>> run.loss.tolist(), run.central["x"].tolist()
        ([0.5, 0.5, 0.125], [0.25])

    References:
        Maranjyan, Tyurin and Richtárik 2025, "Ringmaster ASGD: the first asynchronous SGD with optimal time
        complexity".
    """

    _: KW_ONLY
    limit: Annotated[int, _counts, "With 1, only fresh gradients count."] = 10
    kept: int = static(init=False)  # ages on the server: the largest limit

    publication = "maranjyan2025ringmaster"
    purpose = "any speeds and equal data, at optimal time"
    ignores = True

    def check(self) -> None:
        object.__setattr__(self, "kept", int(np.max(self.limit, initial=1)))

    @property
    def collect(self) -> int:
        return 1

    def start_server(self, params: Params) -> jax.Array:
        """No update was ever applied: (R,) ages in versions of the trace, youngest first."""
        return jnp.full(self.kept, LONG_AGO, jnp.int32)

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        """Send Δθ and 1 if fewer than R updates were applied since the read, else zeros."""
        sent = super().send(gradient, state, view)
        oldest = view.server[jnp.asarray(self.limit, jnp.int32) - 1]
        recent = view.staleness < oldest
        return sent._replace(message={"update": tree_where(recent, sent.message), "applied": count(recent)})

    def apply(
        self, central: Params, server: jax.Array, message: dict[str, Any], view: View
    ) -> tuple[Params, jax.Array]:
        """θ ← θ + Δθ. All ages grow, and an update that was applied adds its own."""
        central, _ = super().apply(central, (), message["update"], view)
        shifted = jnp.concatenate([jnp.zeros(1, server.dtype), server[:-1]])
        return central, jnp.where(message["applied"] > 0, shifted, server) + 1
