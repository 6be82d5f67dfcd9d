"""Any optax optimiser, at the worker or at the server, and the local steps of every rule with a window."""

from collections.abc import Callable
from dataclasses import KW_ONLY
from fnmatch import fnmatchcase
from functools import cache
from typing import Annotated, Any, NamedTuple, Protocol, cast, runtime_checkable

import jax
import numpy as np

from asyncsim import _checks as checks
from asyncsim._checks import require_count
from asyncsim._trees import as_precise, widen
from asyncsim.components._component import static
from asyncsim.rules._common import StepSize, Window
from asyncsim.rules._eigenbasis import eigenbasis_adam
from asyncsim.rules._rule import Info, Params, Rule, Sent, State, View

NAMES = ("adagrad", "adam", "adamw", "lion", "nadam", "rmsprop", "sgd")  # each treats every parameter independently
MUON, SOAP = "muon", "soap"  # look at whole matrices, and are Adam for a vector
NOT_HIDDEN = "embedding,output"  # names of matrices that Muon leaves to Adam, because they are tables of vectors


@runtime_checkable
class Transformation(Protocol):
    """An optax gradient transformation."""

    @property
    def init(self) -> Callable[..., Any]: ...

    @property
    def update(self) -> Callable[..., Any]: ...


class LocalState(NamedTuple):
    """The state of a worker with local steps."""

    optimiser: State  # state of its optimiser, which survives pulls
    own: State = ()  # further state of its rule


@cache
def named(name: str) -> Transformation:
    """Return optax's optimiser of this name with a step size of 1, always the same object: nothing recompiles."""
    import optax

    if name == MUON:
        return muon_of(momentum=0.95, nesterov=True, iterations=5, exclude=NOT_HIDDEN)
    return eigenbasis_adam() if name == SOAP else getattr(optax, name)(1.0)


@cache
def muon_of(momentum: float, nesterov: bool, iterations: int, exclude: str) -> Transformation:
    """Return optax's Muon with a step size of 1, always the same object for the same numbers: nothing recompiles."""
    from optax.contrib import MuonDimensionNumbers, muon

    def dimensions(path: Any, leaf: jax.Array) -> MuonDimensionNumbers | None:
        return MuonDimensionNumbers() if leaf.ndim == 2 and not is_excluded(path, exclude) else None

    return muon(
        1.0,
        beta=momentum,
        nesterov=nesterov,
        ns_steps=iterations,
        muon_weight_dimension_numbers=lambda params: jax.tree_util.tree_map_with_path(dimensions, params),
    )


def is_excluded(path: Any, patterns: str) -> bool:
    """Return whether a pattern fits a parameter's path, such as "layers/0/weight", or one of the names in it."""
    names = [jax.tree_util.keystr((key,), simple=True) for key in path]
    return any(
        fnmatchcase(text, pattern) for text in ("/".join(names), *names) for pattern in patterns.split(",") if pattern
    )


def transformation(optimiser: str | Transformation) -> Transformation:
    """Return the optimiser itself, or the one of this name."""
    return named(optimiser) if isinstance(optimiser, str) else optimiser


def is_elementwise(optimiser: str | Transformation, otherwise: bool) -> bool:
    """Return whether an optimiser treats every parameter independently, as `otherwise` says for one without a name."""
    return optimiser in NAMES if isinstance(optimiser, str) else otherwise


def _optimiser(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return checks.require_one_of(name, value, choices=(*NAMES, MUON, SOAP))
    if isinstance(value, type) or not isinstance(value, Transformation):
        raise ValueError(
            f"`{name}` must be an optax.GradientTransformation or a name; got {checks.brief(value)}. "
            "Give optax.adam(1e-3), or 'adam' with a `learning_rate`."
        )
    return value


Optimiser = Annotated[str | Transformation, _optimiser]


def descend(
    optimiser: Transformation, learning_rate: Any, params: Params, gradient: Params, state: State
) -> tuple[Params, State]:
    """x ← x + η·T(g): one step of an optimiser T, whose state is in single precision at least."""
    updates, state = optimiser.update(widen(gradient), state, widen(params))
    stepped = jax.tree.map(lambda x, u: x + learning_rate * u, params, updates)
    return as_precise(stepped, params), state


class LocalSteps(Rule, named=False):
    """Rules whose workers make local steps of an optimiser between two commits."""

    learning_rate: StepSize = 1.0
    _: KW_ONLY
    window: Window = static(default=1)
    optimiser: Optimiser = static(default="sgd")
    elementwise: bool = static(default=False)

    @property
    def sees_vector(self) -> bool:
        return is_elementwise(self.optimiser, self.elementwise)

    def start(self, params: Params) -> LocalState:
        return LocalState(transformation(self.optimiser).init(widen(params)))

    def local_step(self, params: Params, gradient: Params, state: LocalState) -> tuple[Params, LocalState]:
        chosen = transformation(self.optimiser)
        params, inner = descend(chosen, self.learning_rate, params, gradient, state.optimiser)
        return params, LocalState(inner, state.own)

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        """Send Δ = x - s, the sum of the local steps."""
        return Sent(gradient, state, Info(update=gradient))


class WorkerOptimiser(LocalSteps):
    """Any optax optimiser at the worker: DOWNPOUR whose local steps are those of the optimiser.

    x ← s, then `window` times x ← x + η·T(∇L(x)), and then θ ← θ + (x - s). T is the optimiser's update, and its state
    stays on the worker from pull to pull. One worker with a window of 1 is the optimiser itself.

    The rule keeps the optimiser's state on the worker.

    Args:
        learning_rate: Step size η, by which the optimiser's updates are multiplied. 1 leaves an optimiser that has a
            step size of its own as it is.
        optimiser: The worker's: an optax.GradientTransformation, or "adagrad", "adam", "adamw", "lion", "muon",
            "nadam", "rmsprop" or "sgd" for optax's optimiser with a step size of 1, or "soap" for Adam in the
            eigenbasis of each matrix's gradients, which is computed anew every 10 steps.
        window: Local steps between two commits, H: one number, or one per worker.
        elementwise: Whether an optimiser of your own treats every parameter independently, which is faster. Those with
            a name do, except "soap" and "muon", which need matrices. "muon" leaves those to Adam whose path has a name
            "embedding" or "output" in it, as in `Muon`.

    Example:
        Adam's first step is η·g/|g| for any g:

        >>> import asyncsim as asim
        >>> rule, quadratic = asim.rules.WorkerOptimiser(0.25, optimiser="adam"), asim.workloads.Quadratic([8.0, 0.5])
        >>> run = asim.replay(asim.Trace.from_commits([0]), rule, quadratic)
        >>> [round(float(x), 4) for x in run.central["x"]]
        [0.75, 0.75]

    References:
        DeepMind et al. 2020, "The DeepMind JAX ecosystem" (optax). Vyas et al. 2024, "SOAP: Improving and stabilizing
        Shampoo using Adam", arXiv 2409.11321.
    """

    name = "worker"
    publication = "deepmind2020jax"
    purpose = "any optimiser of optax, on each worker"


class OptimisedServer(Rule, named=False):
    """Rules whose server hands the gradients that arrive to the `optimiser` of the subclass."""

    learning_rate: StepSize

    optimiser = cast(Any, None)

    def start_server(self, params: Params) -> State:
        return transformation(self.optimiser).init(widen(params))

    def send(self, gradient: Params, state: State, view: View) -> Sent:
        return Sent(message=gradient, state=state)

    def apply(self, central: Params, server: State, message: Params, view: View) -> tuple[Params, State]:
        return descend(transformation(self.optimiser), self.learning_rate, central, message, server)


class ServerOptimiser(OptimisedServer):
    """Any optax optimiser at the server, which receives the gradients as they arrive.

    θ ← θ + η·T(∇L(s)), with T the optimiser's update. The server keeps one state for all workers, so a momentum is
    common to all of them. If the server averages several gradients in a step, the optimiser receives their mean.

    The rule keeps the optimiser's state on the server.

    Args:
        learning_rate, optimiser, elementwise: As in `WorkerOptimiser`.

    Example:
        Two workers in turn on L = x²/2 from 1, where both took their gradient, 1, at the start. Heavy ball with μ = 0.5
        moves by -0.25, then by 0.5·(-0.25) - 0.25:

        >>> import optax, asyncsim as asim
        >>> rule = asim.rules.ServerOptimiser(optimiser=optax.sgd(0.25, momentum=0.5))
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.375]

    References:
        Dean et al. 2012, "Large scale distributed deep networks", with Adagrad at the server. Reddi et al. 2021,
        "Adaptive federated optimization", ICLR, with Adagrad, Adam and Yogi there.
    """

    learning_rate: StepSize = 1.0
    _: KW_ONLY
    optimiser: Optimiser = static(default="sgd")
    elementwise: bool = static(default=False)

    name = "server"
    publication = "reddi2021adaptive"
    purpose = "any optimiser of optax, on the server"

    @property
    def sees_vector(self) -> bool:
        return is_elementwise(self.optimiser, self.elementwise)


def _one_fraction(name: str, value: Any) -> float:
    fraction = checks.require_all_fractions(name, value)
    if np.ndim(fraction):
        raise ValueError(
            f"`{name}` must be one number, for all seeds alike; got {checks.brief(value)}. Replay each alone."
        )
    return fraction


def _patterns(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(
            f"`{name}` must be a text, names or patterns with commas between them; got {checks.brief(value)}. Give "
            f"{NOT_HIDDEN!r}, or '' to exclude nothing."
        )
    return ",".join(pattern.strip() for pattern in value.split(","))


class Muon(OptimisedServer):
    """Muon at the server: matrices move by the orthogonalised moment of the gradients that arrive, all else by Adam.

    For a matrix of m rows and n columns, B ← μ·B + (1 - μ)·g and θ ← θ - η·√max(1, n/m)·NS(M), where M is B, or μ·B +
    (1 - μ)·g under Nesterov momentum, both corrected for the first steps as Adam's moments are. NS(M) is about U·Vᵀ for
    M = U·S·Vᵀ, because Newton-Schulz iterations bring all but the smallest singular values near 1. Vectors, numbers and
    tensors of more axes take Adam's step with the same η (NAdam's under Nesterov momentum), and so do the matrices that
    `exclude` names: the rows of an embedding and the columns of an output layer belong to single tokens. All of it is
    optax's `contrib.muon`. The server keeps one state for all workers, and staleness does not enter.

    Jordan's code does not correct the first steps. Without Nesterov momentum that makes no difference, because NS(M)
    does not depend on the length of M. With it, optax divides B by 1 - μ^(t+1) and g by 1 - μ^t at step t, so the
    newest gradient counts for more than in Jordan's code: at step 2 with μ = 0.95, 2.67 times as much as the first one
    instead of 2.16 times. The difference fades like μ^t.

    The rule keeps a moment on the server, and two for each tensor that takes Adam's step.

    Args:
        learning_rate: Step size η, per step.
        momentum: μ in [0, 1), one number for all seeds.
        nesterov: Whether the momentum is Nesterov's.
        iterations: Newton-Schulz iterations, at least 1.
        exclude: Matrices that take Adam's step, as names or patterns with commas between them. A name is part of a
            parameter's path, such as "layers", "0" or "weight" of "layers/0/weight". A pattern such as "layers/*" may
            also fit the whole path. An empty text excludes nothing.

    Example:
        The first step of a matrix has all singular values near η, for any gradient:

        >>> import jax.numpy as jnp, numpy as np, asyncsim as asim
        >>> slope = np.diag([9.0, 1.0])
        >>> plane = asim.Workload(lambda key: jnp.zeros((2, 2)), lambda params, batch, key: (params * slope).sum())
        >>> run = asim.replay(asim.Trace.from_commits([0]), asim.rules.Muon(0.1), plane)
        >>> bool(np.allclose(np.diag(run.central), -0.1, atol=0.04))
        True

    References:
        Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks". DeepMind et al. 2020 (optax).
    """

    _: KW_ONLY
    momentum: Annotated[float, _one_fraction] = static(default=0.95)
    nesterov: bool = static(default=True)
    iterations: Annotated[int, require_count, "5 are usual."] = static(default=5)
    exclude: Annotated[str, _patterns] = static(default=NOT_HIDDEN)

    publication = "jordan2024muon"
    purpose = "hidden layers, whose matrices are orthogonalised"

    @property
    def optimiser(self) -> Transformation:
        return muon_of(self.momentum, self.nesterov, self.iterations, self.exclude)
