"""Gradient Energy Matching: scale every update so that the centre moves with the energy of a sequential proxy."""

from dataclasses import KW_ONLY
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from asyncsim import energy
from asyncsim._trees import as_precise, tree_zeros_like
from asyncsim.components._component import static
from asyncsim.rules._common import NotNegative
from asyncsim.rules._momentum import Momentum
from asyncsim.rules._rule import Info, Params, Sent, State, View, accelerate


class Worker(NamedTuple):
    """The state of a worker: its moment m, and in the script the value it pulled last, each () where it is not kept."""

    moment: Params
    pulled: Params


class GEM(Momentum):
    """Gradient Energy Matching (GEM): a commit π·Δθ that gives the central variable the energy of momentum SGD.

    Δθ = -η·∇L(s), m ← μ·m + Δθ, π = (κ|m| - |θ - s|)/|Δθ| elementwise, θ ← θ + π·Δθ. The paper and its published code
    are two different algorithms, so you choose one by name:

    - ``script``: π is clamped to [0, 5] and its denominator is |Δθ + 1e-12|. The gradient is taken at the value just
      after the worker's own commit, and θ - s lies between two of its pulls.
    - ``paper``: no clamp, and |Δθ| + 1e-16. The gradient is taken at the value that the worker pulled before its own
      commit, and θ - s lies between two of its pulls. It is thus one version older than the trace's staleness (mean n,
      not n - 1).
    - ``signed``: no clamp, and no ε. The gradient is taken at the value just after the worker's own commit, and θ - s
      is counted from there. This variant is for theory: u = κ·m - (θ - s) makes each commit overwrite those of the
      others, so with κ = 1 the central variable is the committing worker's own independent momentum SGD.

    Between two of a worker's own pulls, θ - s contains its own last update.

    Each worker has a moment m of its own. With ``proxy="server"`` the server keeps a single one of all workers' raw
    updates, as the paper suggests for future work: m ← μ·m + Δθ at every commit. Such a moment is fresher and averages
    the noise of 1/(1-μ) commits of any worker, but it is a moment per server update where |θ - s| spans n of them. With
    one worker both are the same. A server that averages the messages of a step adds the mean of their Δθ.

    A step always has the sign of the current raw update Δθ, never of m (``script``, and ``paper`` while π ≥ 0), so one
    worker is not momentum SGD. In ``script`` π matches energies over θ - s between two pulls, while the recorded
    ``energy_central`` counts from the gradient's point, so their ratio is not 1 even where π is not clamped. On a
    constant gradient under round robin an unclamped commit moves κ·|Δθ|/((1-μ)(n+1)) on average, with |Δθ| the step
    size η times the gradient. Without the clamp GEM diverges on a constant gradient as soon as commits come in random
    order.

    The rule keeps m on the worker or the server, and in ``script`` the last pull on the worker as well.

    Args:
        learning_rate: Step size η, per commit.
        momentum: Friction parameter μ in [0, 1) of the proxy.
        kappa: Amplification κ ≥ 0 of the proxy, equation (27).
        variant: Which algorithm: "script" (the authors' code), "paper" (Algorithm 1) or "signed" (for theory).
        proxy: Who keeps the proxy's moment: each "worker" its own (as published), or the "server" one for all.

    Example:
        Two commits of one worker on L = x²/2 from x = 1. First |m| = |Δθ| = 0.1 and θ = s, so π = 1. Then Δθ = -0.09
        and |m| = 0.9·0.1 + 0.09 = 0.18, while θ - s is the worker's own -0.1, so π = 0.08/0.09:

        >>> import asyncsim as asim
        >>> rule = asim.rules.GEM(learning_rate=0.1)
        >>> trace = asim.Trace.from_commits([0, 0])
        >>> run = asim.replay(trace, rule, asim.workloads.Quadratic([1.0]), record=("pi_mean",))
        >>> [round(float(pi), 4) for pi in run.records["pi_mean"]], round(float(run.central["x"][0]), 4)
        ([1.0, 0.8889], 0.82)

    References:
        Hermans and Louppe 2018, "Gradient Energy Matching for Distributed Asynchronous Gradient Descent",
        arXiv 1805.08469, Algorithm 1 and equations (19), (24), (27). The authors' published script.
    """

    _: KW_ONLY
    kappa: NotNegative = 1.0
    variant: Literal["script", "paper", "signed"] = static(default="script")
    proxy: Literal["worker", "server"] = static(default="worker")

    publication = "hermans2018gem"
    purpose = "more workers without more kinetic energy"

    @property
    def shared(self) -> bool:
        return self.proxy == "server"

    def start(self, params: Params) -> Worker:
        """Return the moment at rest and the first pull, from which the script counts θ - s of its first commit."""
        return Worker(() if self.shared else tree_zeros_like(params), params if self.variant == "script" else ())

    def start_server(self, params: Params) -> State:
        return tree_zeros_like(params) if self.shared else ()

    def send(self, gradient: Params, state: Worker, view: View) -> Sent:
        old_moment = view.server if self.shared else state.moment
        update, moment = accelerate(self.learning_rate, self.momentum, old_moment, gradient)
        proxy = jax.tree.map(lambda m: self.kappa * m, moment)  # κ·m, the velocity that is matched
        since = state.pulled if self.variant == "script" else view.read
        shift = jax.tree.map(jnp.subtract, view.pulled, since)
        if self.variant == "signed":
            message = jax.tree.map(jnp.subtract, proxy, shift)
            # π is only recorded here: the update needs no division.
            pi = jax.tree.map(lambda u, d: jnp.where(d == 0, 0, u / jnp.where(d == 0, 1, d)), message, update)
        else:
            scaling = energy.clamped_scaling if self.variant == "script" else energy.scaling
            pi = scaling(moment, shift, update, self.kappa)
            message = as_precise(jax.tree.map(jnp.multiply, pi, update), update)
        new_state = Worker(() if self.shared else moment, view.pulled if self.variant == "script" else ())
        info = Info(update=update, proxy=proxy, pi=pi)
        return Sent({"scaled": message, "update": update} if self.shared else message, new_state, info)

    def apply(self, central: Params, server: State, message: Params, view: View) -> tuple[Params, State]:
        """Add π·Δθ, and at a server that keeps the proxy, Δθ to its moment."""
        # Where workers keep the proxy, the server's state is (), and so is its moment.
        scaled, update = (message["scaled"], message["update"]) if self.shared else (message, server)
        moment = jax.tree.map(lambda m, d: self.momentum * m + d, server, update)
        return jax.tree.map(jnp.add, central, scaled), moment

    def resume(self, central: Params, server: State, state: Worker, view: View) -> Params:
        """Continue from the central variable, or as Algorithm 1 does from the value pulled before the commit."""
        return view.pulled if self.variant == "paper" else central
