"""Federated rules: local steps, and a server that mixes models by age, or steps once it has several updates."""

from dataclasses import KW_ONLY
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from asyncsim._checks import require_count
from asyncsim._trees import tree_zeros_like, widen
from asyncsim.components._component import static
from asyncsim.rules._asynchronous import DescendingWorkers
from asyncsim.rules._common import Fraction, NotNegative, StepSize, Window, Workers, move, refuse_if
from asyncsim.rules._rule import Info, Params, Sent, State, View

Buffer = Annotated[int, require_count, "1 waits for nothing."]
OLDEST = 255  # ages from here on count as this one: a mean of messages can hold a largest age only as a histogram
STEEPNESSES = {"constant": 0.0, "polynomial": 0.5, "hinge": 10.0}


_mixing = partial(
    refuse_if, wrong=lambda numbers: numbers > 1, requirement="at most 1", remedy="1 replaces the central variable."
)


class FedAsync(DescendingWorkers):
    """Asynchronous federated optimisation: the server mixes a worker's model into its own, the less the older it is.

    x: `window` steps x ← x - η·∇L(x) from s, and then θ ← (1 - α_t)·θ + α_t·x with α_t = α·s(τ) and

    - constant: s(τ) = 1.
    - polynomial: s(τ) = (τ + 1)^-a.
    - hinge: s(τ) = 1 for τ ≤ b, else 1/(a·(τ - b) + 1), continuous at b.

    α_t depends on this model's age alone: it does not decay from commit to commit. Mixing models is not adding updates,
    because with α_t = 1 the central variable is the committing worker's own, and the others' commits in the meantime
    are undone. The paper's penalty on the distance from s is left out. A server that averages several messages in a
    step uses the means of α_t and of α_t·x.

    With one worker, a mixing factor of 1 and a window of 1 it is SGD.

    Args:
        learning_rate: Step size η of a local step.
        mixing: Mixing factor α in [0, 1].
        weighting: "constant", "polynomial" or "hinge".
        steepness: a, not negative. None for 0.5 with the polynomial and 10 with the hinge, as usually quoted from the
            paper.
        grace: b, the staleness up to which an update counts in full with the hinge. The other weightings ignore it.
        window: Local steps between two commits: one number, or one per worker.

    Example:
        Two workers in turn, both with x = 0.5. τ = 0 and 1, so α_t = 1/2, 1/4: θ = 1/2 + 1/4, then 3/4·3/4 + 1/8:

        >>> import asyncsim as asim
        >>> rule = asim.rules.FedAsync(0.5, mixing=0.5, steepness=1.0)
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.6875]

    References:
        Xie, Koyejo and Gupta 2019, "Asynchronous Federated Optimization", arXiv 1903.03934.
    """

    _: KW_ONLY
    mixing: Annotated[Any, _mixing] = 0.6
    weighting: Literal["constant", "polynomial", "hinge"] = static(default="polynomial")
    steepness: NotNegative | None = None
    grace: NotNegative = 4.0
    window: Window = static(default=1)

    name = "fedasync"
    publication = "xie2019fedasync"
    purpose = "federated learning: slow devices, data that differ"
    incompressible = "sends parameters, of which a compressor would keep a few: not an update"

    def weight(self, age: jax.Array) -> jax.Array:
        steepness = STEEPNESSES[self.weighting] if self.steepness is None else self.steepness
        if self.weighting == "constant":
            return jnp.ones_like(age)
        if self.weighting == "polynomial":
            return (age + 1) ** -steepness
        return 1 / (steepness * jnp.maximum(age - self.grace, 0) + 1)

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        """Send the worker's model times its share, and the share: sums that a buffered server can average."""
        share = self.mixing * self.weight(view.staleness.astype(float))
        model = jax.tree.map(lambda s, d: jnp.asarray(share, s.dtype) * (s + d), view.read, gradient)
        return Sent({"share": share, "model": model}, state, Info(update=gradient))

    def apply(self, central: Params, server: State, message: dict[str, Any], view: View) -> tuple[Params, State]:
        complement = 1 - message["share"]
        return jax.tree.map(lambda t, x: jnp.asarray(complement, t.dtype) * t + x, central, message["model"]), server


class Buffered(DescendingWorkers, named=False):
    """Rules whose server makes a step of `buffer` commits, which is a field of the subclass."""

    buffer = 1

    @property
    def collect(self) -> int:
        return self.buffer


class FedBuff(Buffered):
    """Federated learning with a buffer: K updates of any age, weighted by age, make a step.

    θ ← θ + η_g·(1/K)·Σ_k (1 + τ_k)^-a·Δ_k, with Δ_k the displacement x - s of `window` local steps x ← x - η·g. The sum
    is divided by K and not by the sum of the weights, so old updates make the step smaller. τ counts server versions,
    that is steps of K updates. The rule steps every `buffer` commits.

    `local` refuses this rule, which makes local steps of SGD itself. With another local optimiser it is
    `local(weighted(Downpour(η_g), by=Polynomial(a)), …)` on a trace that steps every K commits, such as that of
    `protocols.KBatchAsync(K)`.

    The rule keeps no state on the worker, and only its buffer on the server.

    Args:
        learning_rate: Step size η of a local step.
        buffer: Updates in a step, K ≥ 1.
        window: Local steps in an update: one number, or one per worker.
        exponent: a ≥ 0 of the weight (1 + τ)^-a, where 0 gives every age the same weight.
        server_learning_rate: Step size η_g of the server, 1 for the mean itself.

    Example:
        Both workers start at 1 and send -0.5: with K = 2 one step, of their mean.

        >>> import asyncsim as asim
        >>> trace = asim.Trace.from_commits([0, 1])
        >>> asim.replay(trace, asim.rules.FedBuff(0.5, buffer=2), asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.5]

    References:
        Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek and Huba 2022, "Federated learning with buffered asynchronous
        aggregation".
    """

    _: KW_ONLY
    buffer: Buffer = static(default=10)
    window: Window = static(default=1)
    exponent: NotNegative = 0.5
    server_learning_rate: StepSize = 1.0

    name = "fedbuff"
    publication = "nguyen2022fedbuff"
    purpose = "federated learning with many clients, buffered"

    def send(self, gradient: Params, state: State, view: View) -> Sent:

        def weighted(d: jax.Array) -> jax.Array:
            return jnp.asarray(view.staleness + 1, d.dtype) ** -self.exponent * d

        return Sent(jax.tree.map(weighted, gradient), state, Info(update=gradient))

    def apply(self, central: Params, server: State, message: Params, view: View) -> tuple[Params, State]:
        return move(self.server_learning_rate, central, message), server


class Moments(NamedTuple):
    """The server's state of FADAS: means of the update and of its square, and the largest of the latter so far."""

    mean: Params
    square: Params
    largest: Params


class FADAS(Buffered):
    """Federated adaptive asynchronous optimisation: AMSGrad at a server that buffers M updates.

    m ← β₁·m + (1 - β₁)·Δ̄, v ← β₂·v + (1 - β₂)·Δ̄², v̂ ← max(v̂, v), θ ← θ + η_t·m/(√v̂ + ε), elementwise and without
    bias correction, with Δ̄ the mean of M displacements x - s of `window` local steps. With a `grace` τ_c, η_t = η
    while the oldest update of the step has τ ≤ τ_c. Beyond it η_t is η/τ with ``divided``, as in the authors' code, or
    min(η, 1/τ) with ``capped``, as in the paper (ages above 255 count as 255). With M = 1, a window of 1 and one worker
    it is AMSGrad without bias correction. The rule steps every `buffer` commits. `local` refuses it, because its local
    steps of SGD are part of the published algorithm. `local(ServerOptimiser(…, optimiser="adam"), …)` takes others.

    The rule keeps m, v and v̂ on the server.

    Args:
        learning_rate: Step size of a local step. With a window of 1 only its ratio to ε matters.
        server_learning_rate: Step size η of the server, the one to tune.
        buffer: Updates in a step, M ≥ 1.
        window: Local steps in an update: one number, or one per worker.
        momentum: β₁ in [0, 1).
        decay: β₂ in [0, 1).
        epsilon: ε ≥ 0, small against the updates, whose size is that of local steps.
        grace: τ_c ≥ 0, the staleness up to which an update counts in full, here with the step size η. None for η at any
            age.
        late: The step size beyond it, "divided" or "capped". Without `grace` it does not matter.

    Example:
        The first step with M = 1: Δ = -1, m = -0.1, v = 0.01, and θ = 1 - 0.5·0.1/0.1.

        >>> import asyncsim as asim
        >>> rule = asim.rules.FADAS(server_learning_rate=0.5, buffer=1)
        >>> run = asim.replay(asim.Trace.from_commits([0]), rule, asim.workloads.Quadratic([1.0]))
        >>> round(float(run.central["x"][0]), 6)
        0.5

    References:
        Wang, Wang, Lu and Chen 2024, "FADAS: towards federated adaptive asynchronous optimization".
    """

    learning_rate: StepSize = 1.0
    _: KW_ONLY
    server_learning_rate: StepSize
    buffer: Buffer = static(default=5)
    window: Window = static(default=1)
    momentum: Fraction = 0.9
    decay: Fraction = 0.99
    epsilon: NotNegative = 1e-8
    grace: NotNegative | None = None
    late: Literal["divided", "capped"] = static(default="divided")

    publication = "wang2024fadas"
    purpose = "adaptive steps in asynchronous federated learning"

    def start_server(self, params: Params) -> Moments:
        return Moments(*(widen(tree_zeros_like(params)) for _ in Moments._fields))

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        """Send Δ, and with a grace a histogram of one age, so that a step's largest age can be read off their mean."""
        message = {"update": gradient}
        if self.grace is not None:
            dtype = jax.tree.leaves(gradient)[0].dtype
            message["ages"] = (jnp.arange(OLDEST + 1) == jnp.minimum(view.staleness, OLDEST)).astype(dtype)
        return Sent(message, state, Info(update=gradient))

    def apply(self, central: Params, server: Moments, message: dict[str, Any], view: View) -> tuple[Params, Moments]:
        rate: Any = self.server_learning_rate
        if self.grace is not None:
            # The mean of the step's histograms is positive at every age that occurs in it.
            present = message["ages"] > 0
            oldest = jnp.max(jnp.where(present, jnp.arange(OLDEST + 1), 0)).astype(message["ages"].dtype)
            age = jnp.maximum(oldest, 1)
            late = rate / age if self.late == "divided" else jnp.minimum(rate, 1 / age)
            rate = jnp.where(oldest <= self.grace, rate, late)
        b1: Any = self.momentum
        b2: Any = self.decay
        update = widen(message["update"])
        mean = jax.tree.map(lambda m, d: b1 * m + (1 - b1) * d, server.mean, update)
        square = jax.tree.map(lambda v, d: b2 * v + (1 - b2) * d * d, server.square, update)
        largest = jax.tree.map(jnp.maximum, server.largest, square)

        def stepped(theta: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
            return (theta + rate * m / (jnp.sqrt(v) + self.epsilon)).astype(theta.dtype)

        return jax.tree.map(stepped, central, mean, largest), Moments(mean, square, largest)


class CA2FL(Buffered):
    """Cached update calibration: every worker's last update stands in for those that the buffer lacks.

    θ ← θ + η_g·(h̄ + (1/M)·Σ (Δ_i - h_i)) over a step's M updates, where h_i is the update that worker i sent before (0
    at first) and h̄ = (1/n)·Σ h_i after the last step. Δ is the displacement x - s of `window` local steps. With M = n
    and every worker once in a step it is the plain mean, and with one worker and M = 1 it is SGD. A worker that lost
    its state begins again with h_i = 0, but its earlier contribution to h̄ remains, so use another rule on clusters
    whose workers crash. The rule steps every `buffer` commits. `local` refuses it, because h_i and Δ are displacements
    of the rule's own local steps of SGD.

    The rule keeps h_i on the worker, on behalf of the server, and h̄ on the server.

    Args:
        learning_rate: Step size η of a local step.
        workers: Number of workers n. None takes it from the trace, and another number than the trace's is refused.
        buffer: Updates in a step, M ≥ 1.
        window: Local steps in an update: one number, or one per worker.
        server_learning_rate: Step size η_g of the server.

    Example:
        Two workers in turn, M = 1. Worker 0 sends -0.5 and x = 0.5, h̄ = -0.25. Worker 1, also at 1, sends -0.5:
        x = 0.5 - 0.25 - 0.5.

        >>> import asyncsim as asim
        >>> rule = asim.rules.CA2FL(0.5, buffer=1)
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [-0.25]

    References:
        Wang, Cao, Wu, Chen and Chen 2024, "Tackling the data heterogeneity in asynchronous federated learning with
        cached update calibration".
    """

    _: KW_ONLY
    workers: Workers | None = None
    buffer: Buffer = static(default=10)
    window: Window = static(default=1)
    server_learning_rate: StepSize = 1.0

    name = "ca2fl"
    publication = "wang2024ca2fl"
    purpose = "data that differ, in buffered federated learning"

    def start(self, params: Params) -> Params:
        return tree_zeros_like(params)

    def start_server(self, params: Params) -> Params:
        """No update yet. Sums of small changes are kept in single precision at least."""
        return widen(tree_zeros_like(params))

    def send(self, gradient: Params, state: Params, view: View) -> Sent:
        difference = jax.tree.map(jnp.subtract, widen(gradient), widen(state))
        return Sent(difference, gradient, Info(update=gradient))

    def apply(self, central: Params, server: Params, message: Params, view: View) -> tuple[Params, Params]:
        """θ ← θ + η_g·(h̄ + mean of the differences), and h̄ moves by their sum over n."""

        def stepped(theta: jax.Array, h: jax.Array, d: jax.Array) -> jax.Array:
            return (theta + self.server_learning_rate * (h + d)).astype(theta.dtype)

        workers: Any = self.workers
        share = self.buffer / workers
        moved = jax.tree.map(lambda h, d: h + share * d, server, message)
        return jax.tree.map(stepped, central, server, message), moved
