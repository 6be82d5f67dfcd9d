"""Look-ahead: gradients taken where the parameters will be, and step sizes that adapt to the delay of a pipeline."""

from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from asyncsim._checks import require_all_positive
from asyncsim._trees import as_precise, tree_zeros_like, widen
from asyncsim.components._component import static
from asyncsim.rules._common import Elementwise, NotNegative
from asyncsim.rules._compensation import compensated
from asyncsim.rules._momentum import Momentum, ServerMomentum
from asyncsim.rules._rule import Info, Params, Sent, State, View, accelerate, descent


def ahead_by_staleness(central: Params, moment: Params, view: View) -> Params:
    """θ + τ·m, with the staleness of this worker's last commit, of each parameter where they differ."""
    ages = view.staleness_of(central)
    return jax.tree.map(lambda t, m, age: t + jnp.asarray(age, m.dtype) * m, central, moment, ages)


class WeightPrediction(ServerMomentum):
    """Linear weight prediction: momentum SGD at the server, with gradients taken where the velocity will have led.

    g = ∇L(θ - η·T·v), v ← μ·v + g, θ ← θ - η·v, with one velocity v for all workers. T = 0 is momentum SGD on all
    workers' gradients. With one worker, T = μ is Nesterov's accelerated gradient. A worker takes its first gradient at
    θ itself. The published T of a pipeline's stage is its delay: on a trace that reads stages at versions of their own
    (`asyncsim.Pipeline`), `horizon=None` takes the staleness of the worker's last commit, group by group.

    The rule keeps -η·v on the server.

    Args:
        learning_rate: Step size η, per commit.
        momentum: Momentum μ in [0, 1).
        horizon: Commits T to look ahead, not negative: the expected staleness, n - 1 for n busy workers. None for the
            staleness of the worker's last commit.

    Example:
        g = 1 and x = 0.75. The next gradient is taken at 0.75 - 0.25 = 0.5, so v = 0.5 + 0.5:

        >>> import asyncsim as asim
        >>> rule = asim.rules.WeightPrediction(0.25, momentum=0.5, horizon=1)
        >>> asim.replay(asim.Trace.from_commits([0, 0]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.5]

    References:
        Kosson, Chiley, Venigalla, Hestness and Köster 2021, "Pipelined Backpropagation at Scale: Training Large Models
        without Batches", arXiv 2003.11666.
    """

    _: KW_ONLY
    horizon: NotNegative | None = 1.0

    publication = "kosson2021pipelined"
    purpose = "pipelines with small batches and constant delay"

    def resume(self, central: Params, server: Params, state: State, view: View) -> Params:
        if self.horizon is None:
            return ahead_by_staleness(central, server, view)
        return jax.tree.map(lambda t, m: t + self.horizon * m, central, server)


class SpecTrain(ServerMomentum):
    """SpecTrain: gradients taken where the smoothed gradient will have led by the time they arrive.

    g = ∇L(θ - s·η·v), v ← μ·v + (1 - μ)·g, θ ← θ - η·v, with one v for all workers. The version difference s, which a
    pipeline knows in advance, is here the staleness of the worker's last commit. A trace that reads stages at versions
    of their own (`asyncsim.Pipeline`) has one for each stage, constant once the pipeline is full. With one worker s =
    0, and the rule is momentum SGD with step size (1 - μ)·η. A worker takes its first gradient at θ itself.

    The authors' code has two versions. In that of the paper stage k = 0, …, N - 1 predicts for both passes separately,
    ⌊k/2⌋ + N - k - 1 updates ahead for the forward and ⌊k/2⌋ for the backward pass, when all stages meet. In the other,
    both passes use one prediction, N - k updates ahead. This rule is of the second kind. Its s = τ = N - 1 - k leads to
    the weights to which the update will be applied, without the update itself. The factor 1 - μ is an option there,
    PyTorch's dampening.

    The rule keeps -η·v on the server.

    Args:
        learning_rate: Step size η, per commit.
        momentum: Decay μ in [0, 1) of the smoothed gradient.

    Example:
        Two workers in turn, both with g = 1: v = 0.5, then 0.75, and x = 1 - 0.5 - 0.75. The first worker's last
        staleness was 0, so it read x = 0.5 without looking ahead: v = 0.375 + 0.25.

        >>> import asyncsim as asim
        >>> rule = asim.rules.SpecTrain(1.0, momentum=0.5)
        >>> asim.replay(asim.Trace.from_commits([0, 1, 0]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [-0.875]

    References:
        Chen, Yang and Cheng 2018, "Efficient and Robust Parallel DNN Training through Model Parallelism on Multi-GPU
        Platform", arXiv 1809.02839. Code: ntueclab/SpecTrain-PyTorch.
    """

    name = "spectrain"
    publication = "chen2018spectrain"
    purpose = "pipelines: each stage predicts its weights"

    def apply(self, central: Params, server: Params, message: Params, view: View) -> tuple[Params, Params]:
        momentum: Any = self.momentum
        share = 1 - momentum
        return super().apply(central, server, jax.tree.map(lambda g: share * g, message), view)

    def resume(self, central: Params, server: Params, state: State, view: View) -> Params:
        return ahead_by_staleness(central, server, view)


class PipeMare(Elementwise):
    """PipeMare's step sizes: divided by the staleness at the beginning, full after a number of steps.

    θ_{k+1} = θ_k - η/τ^{p_k}·∇L(θ_{k-τ}), p_k = 1 - min(k/K, 1), with k the server's steps so far. So the first step is
    `StalenessAware`, and after K steps the rule is asynchronous SGD. The exponent is that of published code (Ajanthan
    et al. 2025, a baseline there), whose k counts the step under way, too. τ is the commit's staleness, or as in the
    paper the delay of each stage of a pipeline, where a trace reads stages at versions of their own
    (`asyncsim.Pipeline`). Fresh updates (τ = 0) are applied in full. The method's other half corrects for a backward
    pass that uses newer weights than its forward pass. It has nothing to correct here, because a gradient is taken at
    one point.

    The rule keeps the number of its steps on the server.

    Args:
        learning_rate: Step size η, per commit.
        anneal: Steps K of the server after which steps are full, positive.

    Example:
        Three workers in turn, gradients of 1, staleness 0, 1, 2. With K = 4 the third step has p = 1/2:

        >>> import asyncsim as asim
        >>> trace, workload = asim.Trace.from_commits([0, 1, 2]), asim.workloads.Quadratic([1.0])
        >>> round(float(asim.replay(trace, asim.rules.PipeMare(0.25, anneal=4), workload).central["x"][0]), 4)
        0.3232

    References:
        Yang, Zhang, Li, Ré, Aberger and De Sa 2021, "PipeMare: Asynchronous Pipeline Parallel DNN Training",
        arXiv 1910.05124. Ajanthan et al. 2025, "Nesterov method for asynchronous pipeline parallel optimization", ICML.
        Its code is PluralisResearch/AsyncPP.
    """

    _: KW_ONLY
    anneal: Annotated[Any, require_all_positive, "Use `Downpour` for full steps from the beginning."]

    name = "pipemare"
    publication = "yang2021pipemare"
    purpose = "pipelines, whose stages differ in staleness"

    def start_server(self, params: Params) -> jax.Array:
        return jnp.zeros((), jnp.int32)

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        """Send -η·g/max(τ, 1)^p_k, with the τ of each parameter where they differ."""
        sent = super().send(gradient, state, view)

        def slower(update: jax.Array, age: jax.Array) -> jax.Array:
            precise = jnp.promote_types(update.dtype, jnp.float32)  # float16 ends at 65 504 steps
            done = jnp.minimum(jnp.asarray(view.server, precise) / self.anneal, 1)
            return (update * jnp.maximum(jnp.asarray(age, precise), 1) ** (done - 1)).astype(update.dtype)

        return sent._replace(message=jax.tree.map(slower, sent.message, view.staleness_of(sent.message)))

    def apply(self, central: Params, server: jax.Array, message: Params, view: View) -> tuple[Params, jax.Array]:
        return jax.tree.map(jnp.add, central, message), server + 1


class Server(NamedTuple):
    """The sum of all moments, and the central variable that a delay is compensated to (empty except in `dc`)."""

    total: Params
    central: Params


class DANA(Momentum):
    """Distributed asynchronous Nesterov: read where all workers' momenta will have carried the central variable.

    v_i ← γ·v_i + g and θ ← θ - η·v_i, as in `MultiASGD`, but the gradient is taken at the look-ahead:

    - zero: at θ - η·γ·Σ_j v_j, whose sum the server keeps incrementally.
    - slim: at θ itself, and the workers send γ·v_i + g. This is zero in terms of Θ = θ - η·γ·Σ_j v_j, with the same
      gradients at the same points, and needs no state on the server.
    - dc: zero with g + λ·g⊙g⊙(θ - s) instead of g, where s is the look-ahead at which g was taken.

    From memory, and re-derived: the change of variable holds to rounding, γ = 0 is asynchronous SGD (with λ = 0 in dc),
    and one worker is Nesterov's accelerated gradient. Because s is a look-ahead, dc corrects even a fresh gradient. If
    the correction were counted from look-ahead to look-ahead, or from the θ behind s, that of a fresh gradient would
    vanish.

    A worker reads θ itself when it begins, and one that lost its state leaves its last v_i in the sum for ever. So if
    workers come and go, use slim. A server that averages the messages of a step keeps Σ_j v_j over their number, which
    is the look-ahead that fits its steps.

    The rule keeps -η·v_i on the worker, and except with ``slim`` their sum on the server.

    Args:
        learning_rate: Step size η, per commit.
        momentum: Momentum γ in [0, 1).
        variant: "zero", "slim" or "dc".
        compensation: Strength λ ≥ 0 of the correction, for ``dc`` only (2 as in a public implementation).

    Example:
        Two workers in turn: v_1 = v_2 = 1 from x = 1. Worker 1 continues after its commit, at θ = 0.75, when the sum
        is 1: at 0.75 - 0.25·0.5 = 0.625. Its v_1 = 0.5 + 0.625, and θ = 1 - 0.25·(1 + 1 + 1.125):

        >>> import asyncsim as asim
        >>> trace, workload = asim.Trace.from_commits([0, 1, 0]), asim.workloads.Quadratic([1.0])
        >>> run = asim.replay(trace, asim.rules.DANA(0.25, momentum=0.5), workload)
        >>> run.central["x"].tolist(), float(run.loss[-1]) == 0.625**2 / 2
        ([0.21875], True)

    References:
        Hakimi, Barkai, Gabel and Schuster 2019, "Taming Momentum in a Distributed Asynchronous Environment",
        arXiv 1907.11612.
    """

    _: KW_ONLY
    variant: Literal["zero", "slim", "dc"] = static(default="zero")
    compensation: NotNegative = 2.0

    publication = "hakimi2019dana"
    purpose = "momentum with many workers"

    def start(self, params: Params) -> Params:
        return tree_zeros_like(params)

    def start_server(self, params: Params) -> State:
        """Return moments at rest. Only `dc` looks at the central variable, and `slim` asks nothing of the server."""
        if self.variant == "slim":
            return ()
        return Server(total=widen(tree_zeros_like(params)), central=params if self.variant == "dc" else ())

    def send(self, gradient: Params, state: Params, view: View) -> Sent:
        """Send m_i ← γ·m_i - η·g and its change, or with `slim`, γ·m_i - η·g."""
        raw = descent(self.learning_rate, gradient)
        if self.variant == "dc":
            gradient = compensated(self.compensation, gradient, view.server.central, view.read)
        update, moment = accelerate(self.learning_rate, self.momentum, state, gradient)
        if self.variant == "slim":
            message = jax.tree.map(lambda m, d: self.momentum * m + d, moment, update)
            return Sent(message, moment, Info(update=raw, proxy=message))
        change = jax.tree.map(jnp.subtract, widen(moment), widen(state))
        return Sent({"moment": moment, "change": change}, moment, Info(update=raw, proxy=moment))

    def apply(self, central: Params, server: State, message: Params, view: View) -> tuple[Params, State]:
        if self.variant == "slim":
            return super().apply(central, server, message, view)
        theta = jax.tree.map(jnp.add, central, message["moment"])
        total = jax.tree.map(jnp.add, server.total, message["change"])
        return theta, Server(total, theta if jax.tree.leaves(server.central) else ())

    def resume(self, central: Params, server: State, state: Params, view: View) -> Params:
        """θ + γ·Σ m_j: where the centre would be if every worker committed once more, without a new gradient."""
        if self.variant == "slim":
            return central
        return as_precise(jax.tree.map(lambda t, m: t + self.momentum * m, central, server.total), central)
