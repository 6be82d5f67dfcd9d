"""The base of all update rules: numbers, and a handful of pure methods over any pytree.

The engine calls the methods in the order in which a commit lives:

1. The worker has taken a gradient at the value it `read`, or, if the rule has a `local_step`, it has made `window`
   steps of its own from there, each with a mini-batch of its own.
2. It pulls the central variable and composes the message that it `send`s.
3. The server `apply`s the message.
4. `resume` returns the value from which the worker continues.

This describes a server that applies every commit as it arrives, and workers that read at once. A trace may say
otherwise. A buffered server collects the messages of a step: `apply` then receives the mean of the step's messages and
the view of the commit that closes it, so any dependence on one message's own staleness belongs in `send`. A worker
may pull long before it commits. It may also read long after its commit: `resume` is then called at the read, with the
central variable of that moment and the view of the worker's last commit. A worker that lost its state `start`s again.
"""

from abc import ABC, abstractmethod
from dataclasses import fields, replace
from typing import Any, ClassVar, NamedTuple, Self, TypeVar, cast

import jax
import numpy as np
from numpy.typing import NDArray

from asyncsim.components._checked import checked
from asyncsim.components._families import Named
from asyncsim.components._traced import Traced
from asyncsim.compressors import Compressor, bytes_of
from asyncsim.delays._per_worker import require_one_per_worker

Params = Any  # any pytree of floating-point arrays
State = Any  # any pytree


class View(NamedTuple):
    """A rule's view while a commit is being applied.

    Attributes:
        read: s, where the gradient was taken.
        pulled: θ as the worker pulled it before committing (just before, where pull and commit are atomic).
        staleness: τ, the server versions between the read and this application (int32 scalar).
        server: The server's state before this commit, for rules whose server distinguishes between workers.
        key: A random key of this worker's commit, for `send` of a rule that `draws`, else ().
        staleness_by_parameter: A pytree like `read` with the τ of every parameter, int32, where a trace reads parameter
            groups at versions of their own: `read` is then a mixture, and `staleness` is the largest. Else ().
        window: H, the local steps of this worker between two commits (int32 scalar where workers differ, else int).
    """

    read: Params
    pulled: Params
    staleness: jax.Array
    server: State = ()
    key: Any = ()
    staleness_by_parameter: Params = ()
    window: Any = 1

    def staleness_of(self, tree: Params) -> Params:
        """Return the staleness of every leaf of a pytree like the parameters, or of every number in it.

        Example:
            >>> view = View(read=0.0, pulled=0.0, staleness=3)
            >>> view.staleness_of([0.0, 0.0])
            [3, 3]
            >>> view._replace(staleness_by_parameter=[3, 1]).staleness_of([0.0, 0.0])
            [3, 1]
        """
        if isinstance(self.staleness_by_parameter, tuple) and self.staleness_by_parameter == ():
            return jax.tree.map(lambda leaf: self.staleness, tree)
        return self.staleness_by_parameter


class Info(NamedTuple):
    """Quantities of a commit that you may plot and that no later commit needs, each None if the rule lacks it.

    Attributes:
        update: Δθ, the raw update before any scaling.
        proxy: κ·m, the displacement that the proxy makes with this gradient.
        pi: π, the elementwise scaling of the raw update.
    """

    update: Params | None = None
    proxy: Params | None = None
    pi: Params | None = None


class Sent(NamedTuple):
    """The result of a worker's gradient.

    Attributes:
        message: Received by the server: a pytree of arrays that can be averaged.
        state: The worker's state for its next commit.
        info: Quantities of this commit that can be recorded.
    """

    message: Params
    state: State
    info: Info = Info()


class Rule(Traced, Named, ABC, family="rules", example="Downpour(0.1)"):
    """An update rule: its fields are the arguments, its methods the parts of a commit.

    Derive a class, annotate its arguments and write `send`. Override other methods where the rule needs them: the
    engine compiles only those. Numbers are traced, so a new step size does not compile a new program, and each number
    may have one value per seed, as an array or a sequence. Fields marked `asyncsim.static` choose code.

    Rules are equal, and hash alike, if their class and arguments are.

    Attributes:
        name: Name on the command line and in tables: the class's name in lower case, unless the class sets another one.
        publication: Key of its publication in `citations.bib`, or None.
        purpose: The situation that its authors had in mind, or None.
        incompressible: Why its messages cannot be compressed, or None.
        elementwise: Whether every parameter is treated independently of the others. The engine then passes all of them
            as one vector, which is faster. Other rules receive the pytree that the loss receives.
        rounds: Whether the rule is made for rounds in which every worker commits once.
        replaces: Whether a commit replaces its variable, so that what others changed in the meantime is lost.
        ignores: Whether `send` gives a message of nothing but zeros for a commit that does not count, such as one of a
            gradient that is too old.
        awaits_all: Whether its server makes no step before every worker has sent a gradient.
        draws: Whether `send` draws random numbers, from `view.key`: a function of the seed, the worker and how often it
            has committed, and of nothing else.
        window: Local steps between two commits, 1 without local steps: one number for all workers, or a tuple with one
            for each. In a scenario a job takes as many gradients.

    Example:
        >>> import asyncsim as asim
        >>> rule = asim.rules.GEM(learning_rate=0.05)
        >>> rule
        GEM(learning_rate=0.05, momentum=0.9, kappa=1.0, variant='script', proxy='worker')
        >>> rule.numbers
        {'learning_rate': 0.05, 'momentum': 0.9, 'kappa': 1.0}
        >>> rule == asim.rules.GEM(learning_rate=0.05), len({rule, asim.rules.GEM(learning_rate=0.05)})
        (True, 1)
    """

    name: ClassVar[str]
    publication: ClassVar[str | None] = None
    not_settings: ClassVar[tuple[str, ...]] = ("workers",)  # of the trace, to which a rule is bound
    purpose: ClassVar[str | None] = None
    incompressible: ClassVar[str | None] = None
    elementwise = False
    rounds = False
    replaces = False
    ignores = False
    awaits_all = False
    draws = False
    window = cast(Any, 1)

    @abstractmethod
    def send(self, gradient: Params, state: State, view: View, /) -> Sent:
        """Return the message of a commit, from the gradient at `view.read`, or from the displacement of local steps.

        With a `local_step`, `gradient` is the displacement x - s that the local steps made from `view.read`.
        """

    def start(self, params: Params, /) -> State:
        """Return the state of a worker, from the value that it reads first, or reads first after it lost its state."""
        return ()  # Most workers keep nothing.

    def start_server(self, params: Params, /) -> State:
        """Return the state of the server, from the first central variable."""
        return ()  # Most servers keep nothing.

    def apply(self, central: Params, server: State, message: Params, view: View, /) -> tuple[Params, State]:
        """Return the next central variable and server state, from the mean of the step's messages: θ ← θ + message.

        `view` is that of the commit that closes the step. Messages must be arrays that can be averaged.
        """
        return jax.tree.map(lambda theta, u: theta + u, central, message), server

    def resume(self, central: Params, server: State, state: State, view: View, /) -> Params:
        """Return where the next gradient is taken, from the central variable and the server's state at that read.

        `state` and `view` are those of the worker's last commit.
        """
        return central

    def local_step(self, params: Params, gradient: Params, state: State, /) -> tuple[Params, State]:
        """Return the worker's next parameters and state after a step of its own, from the gradient at `params`."""
        raise NotImplementedError(f"The rule {self.name!r} makes no local steps.")

    @property
    def steps_locally(self) -> bool:
        """Whether workers make `window` local steps between two commits."""
        return type(self).local_step is not Rule.local_step

    @property
    def sees_vector(self) -> bool:
        """Whether the methods may receive all parameters as one vector."""
        return self.elementwise

    @property
    def innermost(self) -> "Rule":
        """The rule itself, or the one that it contains."""
        return self

    @property
    def compression(self) -> Compressor | None:
        """What compresses its messages, or None for messages in full."""
        return None

    @property
    def collect(self) -> int | None:
        """Commits whose messages make one step of the server, or None to follow the trace.

        A trace without buffering is cut into steps of this many commits.
        """
        return None

    def for_workers(self, workers: int) -> Self:
        """Return the rule for a trace with this number of workers, which sets the arguments that were left out.

        Raises:
            ValueError: If the rule was made for another number.

        Example:
            >>> import asyncsim as asim
            >>> asim.rules.DelayAdaptive(0.1).for_workers(4).concurrency
            4.0
        """
        bound = getattr(self, "workers", workers)
        if bound not in (None, workers):
            raise ValueError(
                f"`workers` of the rule {self.name!r} must be that of the trace, {workers}; got {bound}. Leave it out."
            )
        rule = bind_window(self, workers)
        return replace(rule, workers=workers) if bound is None else rule  # type: ignore[call-arg]


Kind = TypeVar("Kind", bound=Rule)


def windows_of(rule: Rule, workers: int) -> NDArray[np.int32]:
    """Return the window of each worker, (n,) int32."""
    windows = np.asarray(rule.window, np.int32)
    require_one_per_worker("window", tuple(windows) if windows.ndim else None, workers, what="number")
    return np.broadcast_to(windows, workers)


def bind_window(rule: Kind, workers: int) -> Kind:
    """Return the rule with a tuple of windows, or with one for all workers if they are equal, so that programs are."""
    if not np.ndim(rule.window) or all(field.name != "window" for field in fields(rule)):
        return rule
    windows = tuple(windows_of(rule, workers).tolist())
    window = windows[0] if len(set(windows)) == 1 else windows
    return rule if window is rule.window else replace(rule, window=window)


@checked
def message_bytes(rule: Rule, params: Params) -> int:
    """Count the bytes of the update that a commit carries: the compressor's, or those of all parameters.

    Args:
        rule: Any rule.
        params: Parameters, or their shapes and dtypes (`jax.ShapeDtypeStruct`).

    Example:
        >>> import asyncsim as asim
        >>> plain, params = asim.rules.Downpour(0.1), jax.ShapeDtypeStruct((1000,), "float32")
        >>> signs = asim.rules.compressed(plain, asim.compressors.ScaledSign())
        >>> asim.rules.message_bytes(plain, params), asim.rules.message_bytes(signs, params)
        (4000, 129)
    """
    return bytes_of(params) if rule.compression is None else rule.compression.bytes(params)


def descent(learning_rate: Any, gradient: Params) -> Params:
    return jax.tree.map(lambda g: -learning_rate * g, gradient)


def accelerate(learning_rate: Any, momentum: Any, moment: Params, gradient: Params) -> tuple[Params, Params]:
    """Return the raw update Δθ = -η·g and the moment m ← μ·m + Δθ, equations (14), (23) and (24)."""
    update = descent(learning_rate, gradient)
    return update, jax.tree.map(lambda m, d: momentum * m + d, moment, update)
