"""Elastic averaging: workers go on from their own parameters, tied to the central variable by a spring."""

from typing import Any

from asyncsim import checks
from asyncsim.rules.optimisers import Optimiser, local_steps, transformation
from asyncsim.rules.rule import Rule
from asyncsim.rules.springs import (
    ExchangeAtOnce,
    ExchangeBall,
    ExchangeInRound,
    StartSpring,
    StepPulled,
    exchange_fields,
    from_ahead,
    from_own,
    start_ball,
    step_ball,
)


def require_switch(atomic: object) -> bool:
    """The value itself if it is true or false."""
    if not isinstance(atomic, bool):
        raise ValueError(f"`atomic` must be True or False; got {atomic!r}. Only False uses what the worker had pulled.")
    return atomic


def easgd(
    learning_rate: Any = 1.0,
    *,
    workers: int,
    window: int = 10,
    beta: Any = 0.9,
    optimiser: Optimiser = "sgd",
    elementwise: bool = False,
) -> Rule:
    """Synchronous elastic averaging SGD: in every round the springs of all workers pull the centre.

    x_i ← x_i + η·T(∇L(x_i)) - α(x_i - θ) and θ ← θ + αΣ(x_i - θ), both from the same x_i and θ, with α = β/n; with a
    window λ > 1 the springs pull at every λ-th step only. The server averages n commits in a step: simulate with
    `protocols.Synchronous()`. With β = 0 the workers are independent and the centre stays where it is. The order of
    step and exchange is given from memory of the paper.

    Args:
        workers: Number of workers n.
        window: Local steps between two exchanges, λ; 10 in the paper.
        beta: β = n·α, at least 0; 0.9 in the paper.
        learning_rate: Step size η, by which the optimiser's updates are multiplied; a number, or an array with one a
            seed. 1 leaves an optimiser with a step size of its own as it is.
        optimiser: The worker's: an optax.GradientTransformation, or a name as in `worker`.
        elementwise: Whether the optimiser treats every parameter alone, which is faster; those with a name do.

    Returns:
        A `Rule` that keeps x_i, the pull to come and the optimiser's state on the worker.

    Raises:
        ValueError: If n is no whole number of at least 1, β negative, or an argument does not fit as in `agn`.

    Example:
        Two workers step from 1 to 0.5; the centre follows by β·(0.5 - 1):

        >>> import asyncsim as asim
        >>> cluster = asim.Cluster(2, asim.delays.Constant(1.0), protocol=asim.protocols.Synchronous())
        >>> rule = asim.rules.easgd(workers=2, window=1, beta=0.5, learning_rate=0.5)
        >>> run = asim.replay(asim.simulate(cluster, commits=2), rule, asim.workloads.quadratic([1.0]))
        >>> run.central["x"].tolist()
        [0.75]

    References:
        Zhang, Choromanska and LeCun 2015, "Deep learning with elastic averaging SGD", NeurIPS.
    """
    workers = checks.require_integer("workers", workers, least=1, remedy="Give the cluster's number of workers.")
    steps = local_steps(window, learning_rate, optimiser, elementwise)
    steps["hyper"]["beta"] = checks.not_negative("beta", beta)
    steps["options"] = (("workers", workers), *steps["options"])
    chosen = transformation(optimiser)
    steps |= {"start": StartSpring(chosen, pending=True), "local_step": StepPulled(chosen)}
    return Rule(name="easgd", send=ExchangeInRound(workers), resume=from_own, collect=workers, **steps).sealed()


def aeasgd(
    learning_rate: Any = 0.1,
    *,
    window: int = 32,
    rho: Any = 5.0,
    atomic: bool = True,
    optimiser: Optimiser = "sgd",
    elementwise: bool = False,
) -> Rule:
    """Asynchronous elastic averaging SGD, as Distributed Keras has it: a spring pulls worker and centre together.

    λ times x ← x + η·T(∇L(x)), then E = α(x - θ̃), x ← x - E and θ ← θ + E, with α = η·ρ. A worker goes on from its
    own x, never from θ. What θ̃ is makes two different rules:

    - `atomic=True`: the central variable at the moment of the commit, whatever the trace says of pulls. Server and
      worker exchange E in one locked operation.
    - `atomic=False`: what the worker had pulled, `pull_version` of the trace. If others commit between a worker's pull
      and its commit, E is made with an old θ̃. Simulate with `Server(atomic=False)`. On a trace whose pulls are atomic
      both are the same.

    With τ' commits between pull and commit and workers that come to rest in every window, the centre obeys
    θ_{t+1} = θ_t - α(θ_{t-τ'} - x) and runs away once α > 2·sin(π/(2(2τ' + 1))): for α = 0.5, from τ' = 3 on. Workers
    that hardly move but for the spring stand less, as both its ends overshoot: α < 1 at τ' = 0, about 0.43 at τ' = 2.

    The paper takes the first gradient after an exchange where the worker was before it (as `easgd` here), Distributed
    Keras after it.

    Args:
        window: Local steps between two exchanges, λ.
        rho: ρ, the spring's strength over the step size.
        learning_rate: Step size η, by which the optimiser's updates are multiplied; a number, or an array with one a
            seed. It is in α as well: with an optimiser that has a step size of its own, give 1 and the α you want
            as `rho`.
        atomic: Whether an exchange sees the central variable of its moment, or the one that was pulled before.
        optimiser: The worker's: an optax.GradientTransformation, or a name as in `worker`.
        elementwise: Whether the optimiser treats every parameter alone, which is faster; those with a name do.

    Returns:
        A `Rule` that keeps x and the optimiser's state on the worker; with `atomic`, a copy of θ on the server.

    Raises:
        ValueError: If ρ is negative, `atomic` neither true nor false, or an argument does not fit as in `agn`.

    Example:
        Two workers step from 1 to 0.5. The first exchanges E = 0.5·(0.5 - 1), so that θ = 0.75 when the second does:
        E = 0.5·(0.5 - 0.75).

        >>> import asyncsim as asim
        >>> rule = asim.rules.aeasgd(window=1, rho=1.0, learning_rate=0.5)
        >>> run = asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.quadratic([1.0]))
        >>> run.central["x"].tolist()
        [0.625]

    References:
        Zhang, Choromanska and LeCun 2015, "Deep learning with elastic averaging SGD", NeurIPS; Distributed Keras.
    """
    steps = local_steps(window, learning_rate, optimiser, elementwise)
    steps["hyper"]["rho"] = checks.not_negative("rho", rho)
    steps["options"] = (*steps["options"], ("atomic", atomic))
    steps["start"] = StartSpring(transformation(optimiser))
    send = ExchangeAtOnce(require_switch(atomic))
    return Rule(name="aeasgd", send=send, resume=from_own, **steps, **exchange_fields(atomic)).sealed()


def eamsgd(
    learning_rate: Any = 0.1, *, window: int = 32, rho: Any = 5.0, momentum: Any = 0.9, atomic: bool = True
) -> Rule:
    """Asynchronous elastic averaging with Nesterov's momentum on every worker.

    v ← δ·v - η·∇L(x + δ·v) and x ← x + v at every step; after λ of them E = α(x - θ̃), θ ← θ + E, and the worker takes
    x ← x - E together with its next step, whose gradient is that of the x before: x ← x + v - α(x - θ̃), with α = η·ρ.
    What θ̃ is depends on `atomic` as in `aeasgd`. The formula is given from memory of the paper, and tested against
    it written out, against Nesterov's momentum in optax (ρ = 0) and against `easgd` (δ = 0, one worker).

    Distributed Keras looks behind, at x - δ·v, and multiplies by two step sizes; that is not followed here.

    Args:
        window: Local steps between two exchanges, λ; 32 in Distributed Keras, 10 in the paper.
        rho: ρ, the spring's strength over the step size; 5 in Distributed Keras.
        learning_rate: Step size η; a number, or an array with one a seed.
        momentum: δ in [0, 1); 0.9 in Distributed Keras, 0.99 in the paper.
        atomic: Whether an exchange sees the central variable of its moment, or the one that was pulled before.

    Returns:
        A `Rule` that keeps x, v and the pull to come on the worker; with `atomic`, a copy of θ on the server.

    Raises:
        ValueError: If a number is out of its range, or `atomic` neither true nor false.

    Example:
        One worker on L = x²/2 from 1: v = -0.5 and x = 0.5, so that E = 0.5·(0.5 - 1). Then the gradient at
        x + δ·v = 0.25 makes v = 0.5·(-0.5) - 0.125 = -0.375 and x = 0.5 - 0.375 + 0.25, and E = 0.5·(0.375 - 0.75):

        >>> import asyncsim as asim
        >>> rule = asim.rules.eamsgd(window=1, rho=1.0, learning_rate=0.5, momentum=0.5)
        >>> run = asim.replay(asim.Trace.from_commits([0, 0]), rule, asim.workloads.quadratic([1.0]))
        >>> run.central["x"].tolist()
        [0.5625]

    References:
        Zhang, Choromanska and LeCun 2015, "Deep learning with elastic averaging SGD", NeurIPS.
    """
    window = checks.require_integer("window", window, least=1, remedy="1 exchanges at every step.")
    hyper = {
        "learning_rate": checks.finite("learning_rate", learning_rate),
        "rho": checks.not_negative("rho", rho),
        "momentum": checks.fraction("momentum", momentum),
    }
    return Rule(
        hyper=hyper,
        name="eamsgd",
        send=ExchangeBall(require_switch(atomic)),
        options=(("window", window), ("atomic", atomic)),
        start=start_ball,
        resume=from_ahead,
        local_step=step_ball,
        window=window,
        **exchange_fields(atomic),
    ).sealed()
