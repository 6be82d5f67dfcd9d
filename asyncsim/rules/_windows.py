"""Windows of local steps: sums that are scaled before they are committed, and rounds whose mean the server takes."""

from dataclasses import KW_ONLY
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp

from asyncsim._checks import require_all_positive
from asyncsim._trees import tree_zeros_like
from asyncsim.components._component import static
from asyncsim.rules._common import Fraction, StepSize, Window, move, over_age
from asyncsim.rules._elastic import Exchanging
from asyncsim.rules._optimisers import LocalState, LocalSteps, Optimiser
from asyncsim.rules._rule import Info, Params, Sent, State, View


class AGN(LocalSteps):
    """Accumulated gradient normalization (AGN): many local steps towards a good direction, committed as one.

    x ← s, then H times x ← x + η·T(∇L(x)), and then θ ← θ + (x - s)/H. T is the update of any optimiser (for SGD -g),
    whose state stays on the worker from pull to pull. Where workers have windows of their own, H is that of the worker
    that commits. Distributed Keras calls it ADAG, but `ADAG` is another rule.

    Under round robin on a curvature h, with η·h ≤ 1, local SGD is stable iff (1 - (1 - η·h)^H)/H < 2·sin(π/(2(2n -
    1))), about π/(2n). The left side never exceeds 1/H, so with H > 2n/π = 0.64·n any such step size is stable.

    The rule keeps the optimiser's state on the worker.

    Args:
        learning_rate, optimiser, elementwise: As in `WorkerOptimiser`.
        window: Local steps between two commits, H (12 in Distributed Keras, 10 to 40 in the paper): one number, or one
            per worker. 1 is DOWNPOUR.

    Example:
        Three halvings carry each of two workers from 1 to 0.125, and each commits a third of that:

        >>> import asyncsim as asim
        >>> rule = asim.rules.AGN(0.5, window=3)
        >>> run = asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.Quadratic([1.0]))
        >>> round(float(run.central["x"][0]), 6)  # 1 - 2·0.875/3
        0.416667

    References:
        Hermans, Spanakis and Möckel 2017, "Accumulated gradient normalization", ACML. The limits are those of a
        delayed linear recurrence, Levin and May 1976.
    """

    _: KW_ONLY
    window: Window = static(default=12)

    publication = "hermans2017agn"
    purpose = "few messages: many local steps per commit"

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        message = jax.tree.map(lambda d: d / jnp.asarray(view.window, d.dtype), gradient)
        return Sent(message=message, state=state, info=Info(update=gradient))


class ADAG(Exchanging, LocalSteps):
    """AGN that damps every parameter by the distance that the central variable has moved there since the worker read.

    x as in `AGN`, and θ ← θ + (x - s)/H ⊙ 1/(1 + (θ - s)²/γ), elementwise, with θ as the worker pulled it before it
    commits. With `atomic` it is θ at the commit, as at the server of Distributed Keras. If pull and commit are one, the
    two are the same. So an update is damped by the changes in the meantime, not by its age. An infinite γ is `AGN`, and
    so is one worker, whose θ = s. Distributed Keras uses the name ADAG for the rule `AGN`.

    The rule keeps the optimiser's state on the worker, and with `atomic` a copy of θ on the server.

    Args:
        learning_rate, optimiser, elementwise: As in `WorkerOptimiser`.
        window: Local steps between two commits, H: one number, or one per worker.
        atomic: Whether θ is that of the moment of the commit, or the one that was pulled before.
        gamma: Square of the shift at which an update is halved, γ > 0 (1e-4 in the thesis, which tried 1e-3 to 1e-9).

    Example:
        The first of two workers halves 1 to 0.5, undamped. When the second commits its -0.5, θ has moved by -0.5
        since it read, so that with γ = 0.25 half of it is applied:

        >>> import asyncsim as asim
        >>> rule = asim.rules.ADAG(0.5, window=1, gamma=0.25)
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.25]

    References:
        Hermans 2017, "On scalable deep learning and parallelizing gradient descent", master's thesis, Maastricht
        University.
    """

    _: KW_ONLY
    window: Window = static(default=12)
    gamma: Annotated[Any, require_all_positive, "Large values damp nothing; 1e-4 is usual."] = 1e-4
    atomic: bool = static(default=False)

    publication = "hermans2017thesis"
    purpose = "large windows, whose sums pull the centre too far"

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        """Send Δ/H ⊙ 1/(1 + (θ - s)²/γ), damped where the centre has moved since the worker read."""
        shift = jax.tree.map(jnp.subtract, self.exchanged_with(view), view.read)
        pi = jax.tree.map(lambda d: 1 / (jnp.asarray(view.window, d.dtype) * (1 + d * d / self.gamma)), shift)
        message = jax.tree.map(jnp.multiply, pi, gradient)
        return Sent(message=message, state=state, info=Info(update=gradient, pi=pi))


class DynSGD(LocalSteps):
    """DynSGD: accumulated updates, divided by their staleness plus one.

    x ← s, then H times x ← x + η·T(∇L(x)), and then θ ← θ + (x - s)/(τ + 1), with τ the server versions between the
    read and this commit. With a window of 1 and SGD it is `AdaptiveStaleness`, and at τ = 0 it is DOWNPOUR.

    The rule keeps the optimiser's state on the worker.

    Args:
        learning_rate, optimiser, elementwise: As in `WorkerOptimiser`.
        window: Local steps between two commits, H (5 in Distributed Keras): one number, or one per worker.

    Example:
        Two halvings make -0.75 of either worker, and the second worker's update is one version old:

        >>> import asyncsim as asim
        >>> rule = asim.rules.DynSGD(0.5, window=2)
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [-0.125]

    References:
        Jiang, Cui, Zhang and Yu 2017, "Heterogeneity-aware distributed parameter servers", SIGMOD.
    """

    _: KW_ONLY
    window: Window = static(default=5)

    name = "dynsgd"
    publication = "jiang2017dynsgd"
    purpose = "unequal machines: late updates count less"

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        return Sent(over_age(gradient, view), state, Info(update=gradient))


class LocalSGD(LocalSteps):
    """Local SGD: in a round every worker makes `window` steps of its own, and the points they reach are averaged.

    x_i ← θ, then H times x_i ← x_i + η·T(∇L(x_i)), and then θ ← θ + η_g·mean(x_i - θ), so with η_g = 1 the next θ is
    the mean of the x_i. The trace defines the rounds: simulate with `protocols.Synchronous()`, or `KSync` and the like.
    On an asynchronous trace every commit is a step, and η_g = 1 is the rule `WorkerOptimiser`. It is
    `local(Downpour(η_g), …)` on either.

    The rule keeps the optimiser's state on the worker.

    Args:
        learning_rate, optimiser, elementwise: As in `WorkerOptimiser`. The optimiser's state survives rounds.
        window: Local steps in a round, H (H in the papers): one number, or one per worker.
        server_learning_rate: Step size η_g of the server.

    Example:
        A round of two workers, both of which go from 1 to 0.25, is the same as one worker's:

        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(2, asim.delays.Constant(1.0), protocol=asim.protocols.Synchronous())
        >>> rule = asim.rules.LocalSGD(0.5, window=2)
        >>> asim.replay(asim.simulate(cluster, commits=2), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.25]

    References:
        McMahan et al. 2017, "Communication-efficient learning of deep networks from decentralized data" (FedAvg).
        Stich 2019, "Local SGD converges fast and communicates little".
    """

    _: KW_ONLY
    window: Window = static()
    server_learning_rate: StepSize = 1.0

    publication = "stich2019local"
    purpose = "few messages, in rounds"

    def apply(self, central: Params, server: State, message: Params, view: View) -> tuple[Params, State]:
        return move(self.server_learning_rate, central, message), server


class OuterMomentum(LocalSteps, named=False):
    """Rules of far-apart sites: many local steps of AdamW, and an outer step with momentum."""

    learning_rate: StepSize = 4e-4
    _: KW_ONLY
    server_learning_rate: StepSize = 0.7
    momentum: Fraction = 0.9
    optimiser: Optimiser = static(default="adamw")


class DiLoCo(OuterMomentum):
    """DiLoCo: local SGD with AdamW inside and Nesterov's momentum outside.

    x_i as in `LocalSGD`, and Δ = mean(x_i - θ), v ← μ·v + Δ, θ ← θ + η_g·(μ·v + Δ). The outer step is SGD with
    Nesterov's momentum as PyTorch and optax have it, with -Δ as its gradient. With μ = 0 it is `LocalSGD`. The formulas
    are tested against optax. The outer step size .7 and momentum .9 are the paper's, as its authors repeat them
    elsewhere (DiPaCo, 2024). The step size of a local step is from memory. It is `local(SharedNesterov(η_g), …)`.

    The trace defines the rounds: simulate with `protocols.Synchronous()`. On an asynchronous trace every commit is a
    step, and the outer step is late. With the paper's constants it is then unstable at a delay of a single commit, once
    a window carries a worker more than 0.3616 of the way to the minimum (`theory.outer_limit`).

    The rule keeps the optimiser's state on the worker and v on the server.

    Args:
        learning_rate, elementwise: As in `WorkerOptimiser`.
        window: Local steps in a round, H (H in the paper): one number, or one per worker.
        server_learning_rate: Step size η_g of the server.
        momentum: μ of the server, in [0, 1).
        optimiser: The worker's, as `LocalSGD` has it. 'adamw' has optax's weight decay, 1e-4 times η. For that of the
            paper, 0.1, give `optax.adamw(1.0, weight_decay=0.1)`.

    Example:
        One round with Δ = -0.5: v = -0.5, and the step is 0.5·(0.5·(-0.5) - 0.5):

        >>> import asyncsim as asim
        >>> rule = asim.rules.DiLoCo(0.5, window=1, server_learning_rate=0.5, momentum=0.5, optimiser="sgd")
        >>> asim.replay(asim.Trace.from_commits([0]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.625]

    References:
        Douillard et al. 2023, "DiLoCo: Distributed low-communication training of language models", arXiv 2311.08105.
    """

    _: KW_ONLY
    window: Window = static(default=500)

    name = "diloco"
    publication = "douillard2023diloco"
    purpose = "far-apart sites: hundreds of local steps per message"

    def start_server(self, params: Params) -> Params:
        return tree_zeros_like(params)

    def apply(self, central: Params, server: Params, message: Params, view: View) -> tuple[Params, Params]:
        velocity = jax.tree.map(lambda v, d: self.momentum * v + d, server, message)
        ahead = jax.tree.map(lambda v, d: self.momentum * v + d, velocity, message)
        return move(self.server_learning_rate, central, ahead), velocity


class Outer(NamedTuple):
    """The outer weights of a worker."""

    params: Params  # φ, where its local steps began
    velocity: Params  # m, by which φ moved last


class NoLoCo(OuterMomentum):
    """NoLoCo: local steps as in `DiLoCo`, and an outer step with the mean of a pair, or of any group.

    A worker keeps outer weights φ of its own and makes H local steps from there to θ. With means over its group,

        m ← μ·m + η_g·mean(θ - φ) + η_g·(mean(φ) - φ) = μ·m + η_g·(mean(θ) - φ),   φ ← φ + m,

    and the next window begins at φ. So all that a worker needs from others is the mean of their θ: its commit replaces
    its variable by θ, a mixing takes the mean, and the outer step is made where it reads. Simulate with
    `asim.Gossip(…, graph=asim.graphs.RandomGroups(size=2), exchange="adapt_then_combine")`. The variables of the run
    are the means of θ, and `record=("read",)` records φ.

    In a direction without curvature, variables stay together up to a momentum of 0.832 with 8 workers in pairs, and
    DiLoCo's 0.9 drives them apart (`theory.noloco_limit`). Around one server, in rounds, all φ are equal, and this is
    local SGD with a heavy ball. The published rule may weigh the two parts of m differently. Here both weigh η_g.

    The rule keeps φ, m and the optimiser's state on the worker.

    Args:
        learning_rate, elementwise: As in `WorkerOptimiser`.
        window: Local steps between two exchanges, H: one number, or one per worker.
        server_learning_rate: Step size η_g of the outer step.
        momentum: μ of the outer step, in [0, 1).
        optimiser: As in `DiLoCo`.

    Example:
        One worker moves from 1 by 0.7·(0.5 - 1) = -0.35 to 0.65, and on to 0.65 - 0.5·0.35 + 0.7·(0.325 - 0.65):

        >>> import asyncsim as asim
        >>> rule = asim.rules.NoLoCo(0.5, window=1, momentum=0.5, optimiser="sgd")
        >>> trace, workload = asim.Trace.from_commits([0, 0, 0]), asim.workloads.Quadratic([1.0])
        >>> read = asim.replay(trace, rule, workload, record=("read",)).records["read"]
        >>> read[:, 0].astype(float).round(4).tolist()
        [1.0, 0.65, 0.2475]

    References:
        Kolehmainen et al. 2025, "NoLoCo: No-all-reduce low communication training method for large models", arXiv
        2506.10911.
    """

    _: KW_ONLY
    window: Window = static(default=50)
    momentum: Fraction = 0.5

    name = "noloco"
    publication = "kolehmainen2025noloco"
    purpose = "no server and no collective: pairs of far-apart sites"
    incompressible = "sends parameters, of which a compressor would keep a few: not an update"
    replaces = True

    def start(self, params: Params) -> LocalState:
        return super().start(params)._replace(own=Outer(params, tree_zeros_like(params)))

    def send(self, gradient: Params, state: LocalState, view: View) -> Sent:
        """Send θ, and keep φ and the step that led to it."""
        velocity = jax.tree.map(jnp.subtract, view.read, state.own.params)
        theta = jax.tree.map(jnp.add, view.read, gradient)
        return Sent(theta, LocalState(state.optimiser, Outer(view.read, velocity)), Info(update=gradient))

    def apply(self, central: Params, server: State, message: Params, view: View) -> tuple[Params, State]:
        return message, server

    def resume(self, central: Params, server: State, state: LocalState, view: View) -> Params:
        """Return φ after the outer step, with `central` the mean of the group's θ."""
        outer = state.own
        pulled = jax.tree.map(jnp.subtract, central, outer.params)
        moved = jax.tree.map(lambda phi, m: phi + self.momentum * m, outer.params, outer.velocity)
        return move(self.server_learning_rate, moved, pulled)
