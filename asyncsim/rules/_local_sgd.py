"""Local SGD and DiLoCo: rounds of local steps, then an outer step with the mean of their displacements."""

from dataclasses import KW_ONLY
from typing import Any

import jax

from asyncsim._component import static
from asyncsim.rules._arguments import Fraction, StepSize, Window
from asyncsim.rules._momentum import at_rest
from asyncsim.rules._optimisers import LocalSteps, Optimiser
from asyncsim.rules._rule import Params, State, View


def move_outer(server_learning_rate: Any, central: Params, message: Params) -> Params:
    """θ + η_g·Δ."""
    return jax.tree.map(lambda theta, d: theta + server_learning_rate * d, central, message)


class LocalSGD(LocalSteps):
    """Local SGD: in a round every worker makes `window` steps of its own, and the points they reach are averaged.

    x_i ← θ, then λ times x_i ← x_i + η·T(∇L(x_i)); θ ← θ + η_g·mean(x_i - θ), so that with η_g = 1 the next θ is the
    mean of the x_i. The trace says what a round is: simulate with `protocols.Synchronous()`, or `KSync` and the like.
    On an asynchronous trace, where every commit is a step, η_g = 1 is the rule `WorkerOptimiser`; a warning says so.

    The rule keeps the optimiser's state on the worker.

    Args:
        learning_rate: Step size η of a local step, by which the optimiser's updates are multiplied; a scalar, or one
            value per seed.
        window: Local steps in a round, λ (H in the papers).
        server_learning_rate: Step size η_g of the server.
        optimiser: The worker's: an optax.GradientTransformation, or a name as in `WorkerOptimiser`. Its state survives
            rounds.
        elementwise: Whether the optimiser treats every parameter independently, which is faster; those with a name do.

    Raises:
        ValueError: If the window is not a whole number of at least 1, a step size is negative or not finite, or
            `optimiser` is not an optimiser.

    Example:
        A round of two workers, both of which go from 1 to 0.25, is the same as one worker's:

        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(2, asim.delays.Constant(1.0), protocol=asim.protocols.Synchronous())
        >>> rule = asim.rules.LocalSGD(0.5, window=2)
        >>> asim.replay(asim.simulate(cluster, commits=2), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.25]

    References:
        McMahan et al. 2017, "Communication-efficient learning of deep networks from decentralized data" (FedAvg);
        Stich 2019, "Local SGD converges fast and communicates little".
    """

    _: KW_ONLY
    window: Window = static()
    server_learning_rate: StepSize = 1.0

    publication = "stich2019local"
    purpose = "few messages, in rounds"
    rounds = True

    def apply(self, central: Params, server: State, message: Params, view: View) -> tuple[Params, State]:
        """θ ← θ + η_g·Δ."""
        del view  # The mean displacement is enough.
        return move_outer(self.server_learning_rate, central, message), server


class DiLoCo(LocalSteps):
    """DiLoCo: local SGD with AdamW inside and Nesterov's momentum outside.

    x_i as in `LocalSGD`; Δ = mean(x_i - θ), v ← μ·v + Δ, θ ← θ + η_g·(μ·v + Δ). The outer step is SGD with
    Nesterov's momentum as PyTorch and optax have it, with -Δ as its gradient. With μ = 0 it is `LocalSGD`. The
    formulas are tested against optax. The outer step size .7 and momentum .9 are the paper's, as its authors repeat
    them elsewhere (DiPaCo, 2024); the step size of a local step is from memory.

    The rule keeps the optimiser's state on the worker and v on the server.

    Args:
        learning_rate: Step size η of a local step, by which the optimiser's updates are multiplied; a scalar, or one
            value per seed.
        window: Local steps in a round, λ (H in the paper).
        server_learning_rate: Step size η_g of the server.
        momentum: μ of the server, in [0, 1).
        optimiser: As in `LocalSGD`. 'adamw' has optax's weight decay, 1e-4 times η; for that of the paper, 0.1, give
            `optax.adamw(1.0, weight_decay=0.1)`.
        elementwise: As in `LocalSGD`.

    Raises:
        ValueError: If a number is out of range or `optimiser` is not an optimiser.

    Example:
        One round with Δ = -0.5: v = -0.5, and the step is 0.5·(0.5·(-0.5) - 0.5):

        >>> import asyncsim as asim
        >>> rule = asim.rules.DiLoCo(0.5, window=1, server_learning_rate=0.5, momentum=0.5, optimiser="sgd")
        >>> asim.replay(asim.Trace.from_commits([0]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.625]

    References:
        Douillard et al. 2023, "DiLoCo: Distributed low-communication training of language models", arXiv 2311.08105.
    """

    learning_rate: StepSize = 4e-4
    _: KW_ONLY
    window: Window = static(default=500)
    server_learning_rate: StepSize = 0.7
    momentum: Fraction = 0.9
    optimiser: Optimiser = static(default="adamw")

    name = "diloco"
    publication = "douillard2023diloco"
    purpose = "far-apart sites: hundreds of local steps per message"
    rounds = True

    def start_server(self, params: Params) -> Params:
        """A velocity of zero."""
        return at_rest(params)

    def apply(self, central: Params, server: Params, message: Params, view: View) -> tuple[Params, Params]:
        """v ← μ·v + Δ, θ ← θ + η_g·(μ·v + Δ)."""
        del view  # The mean displacement is enough.
        velocity = jax.tree.map(lambda v, d: self.momentum * v + d, server, message)
        ahead = jax.tree.map(lambda v, d: self.momentum * v + d, velocity, message)
        return move_outer(self.server_learning_rate, central, ahead), velocity
