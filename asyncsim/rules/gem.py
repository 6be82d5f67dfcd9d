"""Gradient Energy Matching: scale every update so that the centre moves with the energy of a sequential proxy."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from asyncsim import checks, energy
from asyncsim.rules.arguments import step_size_and_momentum
from asyncsim.rules.momentum import accelerate, at_rest
from asyncsim.rules.rule import (
    Hyper,
    Info,
    Params,
    Rule,
    Sent,
    State,
    View,
    add_message,
    from_central,
    from_pulled,
)
from asyncsim.trees import as_precise


class Worker(NamedTuple):
    """What a worker of the script keeps: its moment m and the value it pulled last."""

    moment: Params
    pulled: Params


def start_script(hyper: Hyper, params: Params) -> Worker:
    """The moment at rest, and the first pull, from which θ - s of the first commit is counted."""
    return Worker(moment=at_rest(hyper, params), pulled=params)


def amplified(hyper: Hyper, moment: Params) -> Params:
    """κ·m, the velocity of the proxy that is matched."""
    return jax.tree.map(lambda m: hyper["kappa"] * m, moment)


def scaled(pi: Params, update: Params) -> Params:
    """The message π·Δθ."""
    return as_precise(jax.tree.map(jnp.multiply, pi, update), update)


def send_script(hyper: Hyper, gradient: Params, state: Worker, view: View) -> Sent:
    """The authors' code: π clamped to [0, 5], θ - s between two pulls of this worker."""
    update, moment = accelerate(hyper, state.moment, gradient)
    shift = jax.tree.map(jnp.subtract, view.pulled, state.pulled)
    pi = energy.clamped_scaling(moment, shift, update, hyper["kappa"])
    info = Info(update=update, proxy=amplified(hyper, moment), pi=pi)
    return Sent(scaled(pi, update), Worker(moment=moment, pulled=view.pulled), info)


def send_paper(hyper: Hyper, gradient: Params, state: Params, view: View) -> Sent:
    """Algorithm 1: π without a clamp. The last pull is where the gradient was taken."""
    update, moment = accelerate(hyper, state, gradient)
    shift = jax.tree.map(jnp.subtract, view.pulled, view.read)
    pi = energy.scaling(moment, shift, update, hyper["kappa"])
    info = Info(update=update, proxy=amplified(hyper, moment), pi=pi)
    return Sent(scaled(pi, update), moment, info)


def send_signed(hyper: Hyper, gradient: Params, state: Params, view: View) -> Sent:
    """Exact signed compliance: u = κ·m - (θ - s), hence θ_{t+1} = s + κ·m.

    π = u/Δθ is reported for plotting, 0 where Δθ = 0; the message does not pass through that division.
    """
    update, moment = accelerate(hyper, state, gradient)
    target = amplified(hyper, moment)
    message = jax.tree.map(lambda v, p, s: v - (p - s), target, view.pulled, view.read)
    pi = jax.tree.map(lambda u, d: jnp.where(d == 0, 0, u / jnp.where(d == 0, 1, d)), message, update)
    info = Info(update=update, proxy=target, pi=pi)
    return Sent(message, moment, info)


class Shared(NamedTuple):
    """A message to a server that keeps the proxy: π·Δθ for the centre, and Δθ for the moment."""

    scaled: Params
    update: Params


def start_pulled(hyper: Hyper, params: Params) -> Params:
    """The first pull."""
    del hyper  # The value itself is kept.
    return params


def share_script(hyper: Hyper, gradient: Params, state: Params, view: View) -> Sent:
    """Like `send_script`, with the server's moment."""
    sent = send_script(hyper, gradient, Worker(moment=view.server, pulled=state), view)
    return Sent(Shared(sent.message, sent.info.update), sent.state.pulled, sent.info)


def share_paper(hyper: Hyper, gradient: Params, state: State, view: View) -> Sent:
    """Like `send_paper`, with the server's moment."""
    sent = send_paper(hyper, gradient, view.server, view)
    return Sent(Shared(sent.message, sent.info.update), state, sent.info)


def share_signed(hyper: Hyper, gradient: Params, state: State, view: View) -> Sent:
    """Like `send_signed`, with the server's moment."""
    sent = send_signed(hyper, gradient, view.server, view)
    return Sent(Shared(sent.message, sent.info.update), state, sent.info)


def apply_shared(hyper: Hyper, central: Params, server: Params, message: Shared, view: View) -> tuple[Params, Params]:
    """θ ← θ + π·Δθ, m ← μ·m + Δθ."""
    theta, _ = add_message(hyper, central, (), message.scaled, view)
    return theta, jax.tree.map(lambda m, d: hyper["momentum"] * m + d, server, message.update)


VARIANTS: dict[str, dict[str, Any]] = {
    "script": {"send": send_script, "start": start_script, "resume": from_central},
    "paper": {"send": send_paper, "start": at_rest, "resume": from_pulled},
    "signed": {"send": send_signed, "start": at_rest, "resume": from_central},
}
SHARED: dict[str, dict[str, Any]] = {
    "script": {"send": share_script, "start": start_pulled, "resume": from_central},
    "paper": {"send": share_paper, "resume": from_pulled},
    "signed": {"send": share_signed, "resume": from_central},
}


def gem(
    learning_rate: Any, *, momentum: Any = 0.9, kappa: Any = 1.0, variant: str = "script", proxy: str = "worker"
) -> Rule:
    """Gradient Energy Matching (GEM): a commit π·Δθ that gives the centre the energy of momentum SGD.

    Δθ = -η·∇L(s), m ← μ·m + Δθ, π = (κ|m| - |θ - s|)/|Δθ| elementwise, θ ← θ + π·Δθ. Paper and published code are
    two different algorithms; both are here by name:

    - ``script``: π is clamped to [0, 5] and its denominator is |Δθ + 1e-12|; the gradient is taken at the value just
      after the worker's own commit, and θ - s lies between two of its pulls;
    - ``paper``: no clamp, and |Δθ| + 1e-16; the gradient is taken at the value that the worker pulled before its own
      commit, and θ - s lies between two of its pulls;
    - ``signed``: no clamp, and no ε; the gradient is taken at the value just after the worker's own commit, and θ - s
      is counted from there.

    Between two of a worker's own pulls, θ - s contains its own last update. In ``paper`` the gradient is one version
    older than the trace's staleness says (mean n, not n - 1), because it is taken at the pulled value. ``signed`` is
    for theory: u = κ·m - (θ - s) makes each commit overwrite what the others did, so that with κ = 1 the central
    variable is the committing worker's own independent momentum SGD.

    The proxy's moment m is each worker's own, or with ``proxy="server"`` a single one that the server keeps of all
    workers' raw updates, as the paper suggests for future work: m ← μ·m + Δθ at every commit, and the committing
    worker computes its π from it. Such a moment is fresher and averages the noise of 1/(1-μ) commits of any worker,
    but it is a moment per server update where |θ - s| spans n of them. With one worker both are the same. A server
    that averages the messages of a step adds the mean of their Δθ.

    What to expect: a step always has the sign of the current raw update Δθ, never of m (``script``; ``paper`` while
    π ≥ 0), so one worker is not momentum SGD; in ``script`` π matches energies over θ - s between two pulls, while the
    recorded ``energy_central`` counts from where the gradient was taken (just after the worker's own commit), so their
    ratio is not 1 even where π is not clamped; on a constant gradient d under round robin an unclamped commit moves
    κ·d/((1-μ)(n+1)) on average; without the clamp GEM diverges on a constant gradient as soon as commits come in
    random order.

    Args:
        learning_rate: Step size η, per commit; a scalar, or one value per seed.
        momentum: Friction parameter μ in [0, 1) of the proxy.
        kappa: Amplification κ ≥ 0 of the proxy, equation (27).
        variant: Which algorithm: "script" (the authors' code), "paper" (Algorithm 1) or "signed" (for theory).
        proxy: What keeps the proxy's moment: each "worker" its own (as published), or the "server" one for all.

    Momentum and kappa may also each have one value per seed.

    Returns:
        A `Rule` that keeps m on the worker or the server, and in ``script`` the last pull on the worker as well.

    Raises:
        ValueError: If a number is out of range, or the variant or the proxy is unknown.

    Example:
        Two commits of one worker on L = x²/2 from x = 1. First |m| = |Δθ| = 0.1 and θ = s, so π = 1. Then Δθ = -0.09
        and |m| = 0.9·0.1 + 0.09 = 0.18, while θ - s is the worker's own -0.1, so π = 0.08/0.09:

        >>> import asyncsim as asim
        >>> rule = asim.rules.gem(learning_rate=0.1)
        >>> trace = asim.Trace.from_commits([0, 0])
        >>> run = asim.replay(trace, rule, asim.workloads.quadratic([1.0]), record=("pi_mean",))
        >>> [round(float(pi), 4) for pi in run.records["pi_mean"]], round(float(run.central["x"][0]), 4)
        ([1.0, 0.8889], 0.82)

    References:
        Hermans and Louppe 2018, "Gradient Energy Matching for Distributed Asynchronous Gradient Descent",
        arXiv 1805.08469, Algorithm 1 and equations (19), (24), (27); the authors' published script.
    """
    hyper = {**step_size_and_momentum(learning_rate, momentum), "kappa": checks.not_negative("kappa", kappa)}
    checks.one_of("variant", variant, VARIANTS)
    if checks.one_of("proxy", proxy, ("worker", "server")) == "worker":
        return Rule(
            hyper=hyper, name="gem", options=(("variant", variant),), **VARIANTS[variant], elementwise=True
        ).sealed()
    options = (("variant", variant), ("proxy", proxy))
    shared = {"start_server": at_rest, "apply": apply_shared, **SHARED[variant]}
    return Rule(hyper=hyper, name="gem", options=options, elementwise=True, **shared).sealed()
