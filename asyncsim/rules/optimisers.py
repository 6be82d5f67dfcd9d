"""Any optax optimiser, at the worker or at the server; and the local steps of every rule with a window."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from asyncsim import checks
from asyncsim.rules.arguments import step_size, whole_window
from asyncsim.rules.downpour import send_displacement
from asyncsim.rules.rule import Hyper, Info, Params, Rule, Sent, State, View
from asyncsim.trees import as_precise, widen

NAMES = ("adagrad", "adam", "adamw", "lion", "nadam", "rmsprop", "sgd")  # each treats every parameter independently


@runtime_checkable
class Transformation(Protocol):
    """What optax calls a gradient transformation."""

    @property
    def init(self) -> Callable[..., Any]:
        """`params -> state`."""
        ...

    @property
    def update(self) -> Callable[..., Any]:
        """`(gradient, state, params) -> (update, state)`."""
        ...


Optimiser = str | Transformation


class Local(NamedTuple):
    """What a worker with local steps keeps.

    Attributes:
        optimiser: State of its optimiser, which survives pulls.
        own: What its rule keeps besides.
    """

    optimiser: State
    own: State = ()


@cache
def named(name: str) -> Transformation:
    """optax's optimiser of this name with a step size of 1; always the same object, so that nothing recompiles."""
    import optax

    return getattr(optax, name)(1.0)


def transformation(optimiser: Optimiser) -> Transformation:
    """The optimiser itself, or the one of this name.

    Raises:
        ValueError: If it is neither.
    """
    if isinstance(optimiser, str):
        return named(checks.one_of("optimiser", optimiser, NAMES))
    if isinstance(optimiser, type) or not isinstance(optimiser, Transformation):
        raise ValueError(
            f"`optimiser` must be an optax.GradientTransformation or a name; got {optimiser!r:.60}. "
            "Give optax.adam(1e-3), or 'adam' with a `learning_rate`."
        )
    return optimiser


def descend(
    optimiser: Transformation, hyper: Hyper, params: Params, gradient: Params, state: State
) -> tuple[Params, State]:
    """x ← x + η·T(g): one step of an optimiser T, whose state is in single precision at least."""
    updates, state = optimiser.update(widen(gradient), state, widen(params))
    stepped = jax.tree.map(lambda x, u: x + hyper["learning_rate"] * u, params, updates)
    return as_precise(stepped, params), state


@dataclass(frozen=True)
class StartLocal:
    """The initial state of a worker with an optimiser."""

    optimiser: Transformation

    def __call__(self, hyper: Hyper, params: Params) -> Local:
        """The optimiser's state and nothing else."""
        del hyper  # The parameters are enough.
        return Local(self.optimiser.init(widen(params)))


@dataclass(frozen=True)
class StepLocal:
    """A local step of the worker's optimiser."""

    optimiser: Transformation

    def __call__(self, hyper: Hyper, params: Params, gradient: Params, state: Local) -> tuple[Params, Local]:
        """The step; what else the rule keeps stays as it is."""
        params, inner = descend(self.optimiser, hyper, params, gradient, state.optimiser)
        return params, Local(inner, state.own)


def local_steps(learning_rate: Any, window: int, optimiser: Optimiser, elementwise: bool) -> dict[str, Any]:
    """The fields of a `Rule` that say how its workers make local steps between two commits.

    Raises:
        ValueError: If the step size is negative or not finite, the window is not a whole number of at least 1, or
            `optimiser` is not an optimiser.
    """
    window = whole_window(window)
    chosen = transformation(optimiser)
    return {
        "hyper": step_size(learning_rate),
        "options": (("window", window), *optimiser_options(optimiser, elementwise)),
        "start": StartLocal(chosen),
        "local_step": StepLocal(chosen),
        "window": window,
        "elementwise": is_elementwise(optimiser, elementwise),
    }


def optimiser_options(optimiser: Optimiser, elementwise: bool) -> tuple[tuple[str, Any], ...]:
    """What to remember of the optimiser, as arguments of the constructors."""
    return (("optimiser", optimiser), *([("elementwise", True)] if elementwise else []))


def is_elementwise(optimiser: Optimiser, elementwise: bool) -> bool:
    """Whether the optimiser treats every parameter independently: those with a name do."""
    return elementwise or isinstance(optimiser, str)


def worker(
    learning_rate: Any = 1.0, *, optimiser: Optimiser = "sgd", window: int = 1, elementwise: bool = False
) -> Rule:
    """Any optax optimiser at the worker: DOWNPOUR whose local steps are those of the optimiser.

    x ← s, then `window` times x ← x + η·T(∇L(x)); θ ← θ + (x - s). T is the optimiser's update, and its state stays on
    the worker from pull to pull. One worker with a window of 1 is the optimiser itself.

    Args:
        learning_rate: Step size η, by which the optimiser's updates are multiplied; a scalar, or one value per seed.
            1 leaves an optimiser that has a step size of its own as it is.
        optimiser: The worker's: an optax.GradientTransformation; or "adagrad", "adam", "adamw", "lion", "nadam",
            "rmsprop" or "sgd" for optax's optimiser with a step size of 1.
        window: Local steps between two commits, λ.
        elementwise: Whether the optimiser treats every parameter independently, which is faster; those with a name do.

    Returns:
        A `Rule` that keeps the optimiser's state on the worker.

    Raises:
        ValueError: If `optimiser` is not an optimiser, η is negative or not finite, or the window is not a whole number
            of at least 1.

    Example:
        Adam's first step is η·g/|g|, whatever g is:

        >>> import asyncsim as asim
        >>> rule, quadratic = asim.rules.worker(0.25, optimiser="adam"), asim.workloads.quadratic([8.0, 0.5])
        >>> run = asim.replay(asim.Trace.from_commits([0]), rule, quadratic)
        >>> [round(float(x), 4) for x in run.central["x"]]
        [0.75, 0.75]

    References:
        DeepMind et al. 2020, "The DeepMind JAX ecosystem" (optax).
    """
    steps = local_steps(learning_rate, window, optimiser, elementwise)
    return Rule(name="worker", send=send_displacement, **steps).sealed()


def send_bare_gradient(hyper: Hyper, gradient: Params, state: State, view: View) -> Sent:
    """Send g itself, of which the server alone knows what update it makes."""
    del hyper, view  # What to do with it is for the server to decide.
    return Sent(message=gradient, state=state, info=Info())


@cache
def muon_of(momentum: float, nesterov: bool, iterations: int) -> Transformation:
    """optax's Muon with a step size of 1; always the same object for the same numbers, so that nothing recompiles."""
    from optax.contrib import muon

    return muon(1.0, beta=momentum, nesterov=nesterov, ns_steps=iterations)


@dataclass(frozen=True)
class Muon:
    """optax's Muon by its numbers, which travel to other processes as optax's closures do not."""

    momentum: float
    nesterov: bool
    iterations: int

    @property
    def init(self) -> Callable[..., Any]:
        """`params -> state`."""
        return muon_of(self.momentum, self.nesterov, self.iterations).init

    @property
    def update(self) -> Callable[..., Any]:
        """`(gradient, state, params) -> (update, state)`."""
        return muon_of(self.momentum, self.nesterov, self.iterations).update


@dataclass(frozen=True)
class StartOptimiser:
    """The initial state of a server with an optimiser."""

    optimiser: Transformation

    def __call__(self, hyper: Hyper, params: Params) -> State:
        """The optimiser's state."""
        del hyper  # The parameters are enough.
        return self.optimiser.init(widen(params))


@dataclass(frozen=True)
class StepOptimiser:
    """A step of the server's optimiser with whatever gradient arrived."""

    optimiser: Transformation

    def __call__(self, hyper: Hyper, central: Params, state: State, message: Params, view: View) -> tuple[Params, Any]:
        """θ ← θ + η·T(message)."""
        del view  # The optimiser does not ask how old a gradient is.
        return descend(self.optimiser, hyper, central, message, state)


def server(learning_rate: Any = 1.0, *, optimiser: Optimiser = "sgd", elementwise: bool = False) -> Rule:
    """Any optax optimiser at the server, which receives the gradients as they arrive.

    θ ← θ + η·T(∇L(s)), with T the optimiser's update. The server keeps one state for all workers, so a momentum is
    common to all of them. If the server averages several gradients in a step, the optimiser receives their mean.

    Args:
        learning_rate, optimiser, elementwise: As in `worker`.

    Returns:
        A `Rule` that keeps the optimiser's state on the server.

    Raises:
        ValueError: If `optimiser` is not an optimiser or η is negative or not finite.

    Example:
        Two workers in turn on L = x²/2 from 1; both took their gradient, 1, at the start. Heavy ball with μ = 0.5 moves
        by -0.25, then by 0.5·(-0.25) - 0.25:

        >>> import optax, asyncsim as asim
        >>> rule = asim.rules.server(optimiser=optax.sgd(0.25, momentum=0.5))
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.quadratic([1.0])).central["x"].tolist()
        [0.375]

    References:
        Dean et al. 2012, "Large scale distributed deep networks", with Adagrad at the server; Reddi et al. 2021,
        "Adaptive federated optimization", ICLR, with Adagrad, Adam and Yogi there.
    """
    chosen = transformation(optimiser)
    return Rule(
        hyper=step_size(learning_rate),
        name="server",
        send=send_bare_gradient,
        options=optimiser_options(optimiser, elementwise),
        start_server=StartOptimiser(chosen),
        apply=StepOptimiser(chosen),
        elementwise=is_elementwise(optimiser, elementwise),
    ).sealed()


def muon(learning_rate: Any, *, momentum: float = 0.95, nesterov: bool = True, iterations: int = 5) -> Rule:
    """Muon at the server: matrices move by the orthogonalised moment of the gradients that arrive, all else by Adam.

    For a matrix of m rows and n columns, B ← μ·B + (1 - μ)·g and θ ← θ - η·√max(1, n/m)·NS(M), where M is B, or
    μ·B + (1 - μ)·g under Nesterov momentum, both corrected for the first steps as Adam's moments are. NS(M) is about
    U·Vᵀ for M = U·S·Vᵀ: Newton-Schulz iterations bring all but the smallest singular values near 1. Vectors, numbers
    and tensors of more axes take Adam's step with the same η. All of it is optax's `contrib.muon`; the server keeps one
    state for all workers, and staleness does not enter.

    Jordan's code corrects nothing for the first steps. Without Nesterov momentum that makes no difference, because
    NS(M) does not depend on the length of M. With it, optax divides B by 1 - μ^(t+1) and g by 1 - μ^t at step t, so
    that the newest gradient counts for more than in Jordan's code: at step 2 with μ = 0.95, 2.67 times as much as the
    first one instead of 2.16 times. The difference fades like μ^t.

    Args:
        learning_rate: Step size η, per step; a scalar, or one value per seed.
        momentum: μ in [0, 1); a number.
        nesterov: Whether the momentum is Nesterov's.
        iterations: Newton-Schulz iterations, at least 1.

    Returns:
        A `Rule` that keeps a moment on the server, and two for what is not a matrix.

    Raises:
        ValueError: If a number is out of range.

    Example:
        The first step of a matrix has all singular values near η, whatever those of its gradient are:

        >>> import jax.numpy as jnp, numpy as np, asyncsim as asim
        >>> slope = np.diag([9.0, 1.0])
        >>> plane = asim.Workload(lambda key: jnp.zeros((2, 2)), lambda params, batch, key: (params * slope).sum())
        >>> run = asim.replay(asim.Trace.from_commits([0]), asim.rules.muon(0.1), plane)
        >>> bool(np.allclose(np.diag(run.central), -0.1, atol=0.04))
        True

    References:
        Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"; DeepMind et al. 2020 (optax).
    """
    kept = checks.fraction("momentum", momentum)
    if np.ndim(kept):
        raise ValueError(f"`momentum` must be one number, for all seeds alike; got {momentum!r}. Replay each alone.")
    if not isinstance(nesterov, bool):
        raise ValueError(f"`nesterov` must be True or False; got {nesterov!r}. True is usual.")
    times = checks.require_integer("iterations", iterations, least=1, remedy="5 are usual.")
    chosen = Muon(kept, nesterov, times)
    return Rule(
        hyper=step_size(learning_rate),
        name="muon",
        send=send_bare_gradient,
        options=(("momentum", kept), ("nesterov", nesterov), ("iterations", times)),
        start_server=StartOptimiser(chosen),
        apply=StepOptimiser(chosen),
        elementwise=False,
    ).sealed()
