"""FedAsync: the server mixes the workers' models into its own, the less the older they are."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim import checks
from asyncsim.rules.rule import Hyper, Info, Params, Rule, Sent, State, View
from asyncsim.rules.staleness import Weight


def constant(hyper: Hyper, age: jax.Array) -> jax.Array:
    """1."""
    del hyper  # No age matters.
    return jnp.ones_like(age)


def polynomial(hyper: Hyper, age: jax.Array) -> jax.Array:
    """(τ + 1)^-a."""
    return (age + 1) ** -hyper["decay"]


def hinge(hyper: Hyper, age: jax.Array) -> jax.Array:
    """1 up to τ = b, then 1/(a·(τ - b) + 1): both are 1 at τ = b."""
    return 1 / (hyper["decay"] * jnp.maximum(age - hyper["grace"], 0) + 1)


WEIGHTINGS = {"constant": constant, "polynomial": polynomial, "hinge": hinge}
DECAYS = {"constant": 0.0, "polynomial": 0.5, "hinge": 10.0}


class Mixture(NamedTuple):
    """A worker's model times the share that it gets, and the share: sums that a buffered server can average."""

    share: jax.Array
    model: Params


@dataclass(frozen=True)
class Mix:
    """Send α_t = α·s(τ) and α_t·x, the worker's own model."""

    weight: Weight

    def __call__(self, hyper: Hyper, displacement: Params, state: State, view: View) -> Sent:
        """The `send` of a rule."""
        share = hyper["mixing"] * self.weight(hyper, view.staleness.astype(float))
        model = jax.tree.map(lambda s, d: jnp.asarray(share, s.dtype) * (s + d), view.read, displacement)
        return Sent(Mixture(share, model), state, Info(update=displacement))


def mix(hyper: Hyper, central: Params, server: State, message: Mixture, view: View) -> tuple[Params, State]:
    """θ ← (1 - α_t)·θ + α_t·x."""
    del hyper, view  # The shares were weighed by the age of each message.
    kept = 1 - message.share
    return jax.tree.map(lambda t, x: jnp.asarray(kept, t.dtype) * t + x, central, message.model), server


def descend(hyper: Hyper, params: Params, gradient: Params, state: State) -> tuple[Params, State]:
    """A local step x ← x - η·g."""
    return jax.tree.map(lambda x, g: x - hyper["learning_rate"] * g, params, gradient), state


def fedasync(
    learning_rate: Any,
    *,
    mixing: Any = 0.6,
    weighting: str = "polynomial",
    decay: Any = None,
    grace: Any = 4.0,
    window: int = 1,
) -> Rule:
    """Asynchronous federated optimisation: the server mixes a worker's model into its own, the less the older it is.

    x: `window` steps x ← x - η·∇L(x) from s; θ ← (1 - α_t)·θ + α_t·x with α_t = α·s(τ) and

    - constant: s(τ) = 1;
    - polynomial: s(τ) = (τ + 1)^-a;
    - hinge: s(τ) = 1 for τ ≤ b, else 1/(a·(τ - b) + 1), continuous at b.

    α_t depends on this model's age alone: it does not decay from commit to commit. Mixing models is not adding
    updates: with α_t = 1 a commit undoes what the others did meanwhile, and the central variable is the committing
    worker's own. The paper's penalty on the distance from s is left out. A server that averages several messages in a
    step uses the means of α_t and of α_t·x.

    Args:
        learning_rate: Step size η of a local step.
        mixing: Mixing factor α in [0, 1].
        weighting: "constant", "polynomial" or "hinge".
        decay: a, not negative; where none is given, 0.5 for the polynomial and 10 for the hinge.
        grace: b, the staleness up to which the hinge is 1; the other weightings ignore it.
        window: Local steps between two commits.

    The numbers, but for the window, may each be an array with one value a seed. The defaults are those usually quoted
    from the paper's experiments.

    Returns:
        A `Rule` that keeps no state on the worker or the server; with one worker, a mixing factor of 1 and a window
        of 1 it is SGD.

    Raises:
        ValueError: If a number is out of its range or the weighting is unknown.

    Example:
        Two workers in turn, both with x = 0.5; τ = 0 and 1, so α_t = 1/2, 1/4: θ = 1/2 + 1/4, then 3/4·3/4 + 1/8:

        >>> import asyncsim as asim
        >>> rule = asim.rules.fedasync(0.5, mixing=0.5, decay=1.0)
        >>> run = asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.quadratic([1.0]))
        >>> run.central["x"].tolist()
        [0.6875]

    References:
        Xie, Koyejo and Gupta 2019, "Asynchronous Federated Optimization", arXiv 1903.03934.
    """
    checks.one_of("weighting", weighting, WEIGHTINGS)
    window = checks.require_integer("window", window, least=1, remedy="Use 1 for one gradient a commit.")
    hyper = {
        "learning_rate": checks.finite("learning_rate", learning_rate),
        "mixing": checks.not_negative("mixing", mixing),
        "decay": checks.not_negative("decay", DECAYS[weighting] if decay is None else decay),
        "grace": checks.not_negative("grace", grace),
    }
    if np.any(hyper["mixing"] > 1):
        raise ValueError(f"`mixing` must be at most 1; got {mixing!r}. 1 replaces the central variable.")
    options = (("weighting", weighting), ("window", window))
    send = Mix(WEIGHTINGS[weighting])
    return Rule(
        hyper=hyper, name="fedasync", options=options, send=send, apply=mix, local_step=descend, window=window
    ).sealed()
