"""What an update rule is: a handful of pure functions over any pytree, and its hyper-parameters.

The engine calls the functions in the order in which a commit lives:

1. The worker has taken a gradient at the value it `read`; or, if the rule has a `local_step`, it has made `window`
   steps of its own from there, each with a mini-batch of its own.
2. It pulls the central variable and decides what to `send`.
3. The server `apply`s the message.
4. `resume` says where the worker continues.

This describes a server that applies every commit as it arrives, and workers that read at once. A trace may say
otherwise. A buffered server collects the messages of a step: `apply` then receives the mean of the step's messages and
the view of the commit that closes it, so whatever depends on one message's own staleness belongs in `send`. A worker
may pull long before it commits. It may also read long after its commit: `resume` is then called at the read, with the
central variable of that moment and the view of the worker's last commit. A worker that lost its state `start`s again.
"""

from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from asyncsim import checks

Params = Any  # any pytree of floating-point arrays
State = Any  # any pytree
Hyper = dict[str, Any]  # name -> number, traced by JAX

LONGEST = 40  # characters of a value in the `repr` of a rule; longer ones are named by their type


class View(NamedTuple):
    """What a rule can see while a commit is being applied.

    Attributes:
        read: s, where the gradient was taken.
        pulled: θ as the worker pulled it before committing; just before, where pull and commit are atomic.
        staleness: τ, the server versions between the read and this application (int32 scalar).
        server: What the server keeps, before this commit; for rules whose server distinguishes between workers.
        key: A random key of this worker's commit, for `send` of a rule that `draws`; else ().
        staleness_by_parameter: A pytree like `read` with the τ of every parameter, int32, where a trace reads parameter
            groups at versions of their own: `read` is then a mixture, and `staleness` is the largest. Else ().
    """

    read: Params
    pulled: Params
    staleness: jax.Array
    server: State = ()
    key: Any = ()
    staleness_by_parameter: Params = ()

    def staleness_of(self, tree: Params) -> Params:
        """The staleness of every leaf of a pytree like the parameters, or of every number in it.

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
    """What people plot of a commit and no later commit needs; None for what the rule does not have.

    Attributes:
        update: Δθ, the raw update before any scaling.
        proxy: κ·m, the displacement that the proxy makes with this gradient.
        pi: π, the elementwise scaling of the raw update.
    """

    update: Params | None = None
    proxy: Params | None = None
    pi: Params | None = None


class Sent(NamedTuple):
    """What a worker makes of its gradient.

    Attributes:
        message: What the server receives: a pytree of arrays that can be averaged.
        state: What the worker keeps for its next commit.
        info: What can be recorded of this commit.
    """

    message: Params
    state: State
    info: Info = Info()


class Send(Protocol):
    """What a worker commits."""

    def __call__(self, hyper: Hyper, gradient: Params, state: State, view: View, /) -> Sent:
        """The message, from the gradient at `view.read`; if there are local steps, from their displacement x - s."""
        ...


class Start(Protocol):
    """What a worker keeps at the beginning."""

    def __call__(self, hyper: Hyper, params: Params, /) -> State:
        """The state, from the value that the worker reads first, or reads first after it lost its state."""
        ...


class StartServer(Protocol):
    """What the server keeps at the beginning."""

    def __call__(self, hyper: Hyper, params: Params, /) -> State:
        """The state, from the first central variable."""
        ...


class Apply(Protocol):
    """A step of the server."""

    def __call__(
        self, hyper: Hyper, central: Params, server: State, message: Params, view: View, /
    ) -> tuple[Params, State]:
        """The next central variable and server state, from the mean of the step's messages.

        `view` is that of the commit that closes the step.
        """
        ...


class Resume(Protocol):
    """Where a worker continues after its commit."""

    def __call__(self, hyper: Hyper, central: Params, server: State, state: State, view: View, /) -> Params:
        """Where the next gradient is taken, from the central variable and the server's state at that read.

        `state` and `view` are those of the worker's last commit.
        """
        ...


class Bind(Protocol):
    """How a rule learns the number of workers."""

    def __call__(self, rule: "Rule", workers: int, /) -> "Rule":
        """The rule for so many workers; refuses to be another rule than it was made."""
        ...


class LocalStep(Protocol):
    """A step that a worker makes on its own."""

    def __call__(self, hyper: Hyper, params: Params, gradient: Params, state: State, /) -> tuple[Params, State]:
        """The worker's next parameters and state, from the gradient at `params`."""
        ...


def keep_nothing(hyper: Hyper, params: Params) -> State:
    """The state of a worker or server that remembers nothing."""
    del hyper, params  # Nothing depends on them.
    return ()


def add_message(hyper: Hyper, central: Params, server: State, message: Params, view: View) -> tuple[Params, State]:
    """θ ← θ + message: the server of equation (1)."""
    del hyper, view  # The sum needs neither.
    return jax.tree.map(lambda theta, u: theta + u, central, message), server


def from_central(hyper: Hyper, central: Params, server: State, state: State, view: View) -> Params:
    """Continue from the central variable just after the worker's own commit."""
    del hyper, server, state, view  # The new central variable is enough.
    return central


def from_pulled(hyper: Hyper, central: Params, server: State, state: State, view: View) -> Params:
    """Continue from the value pulled just before the worker's own commit, as Algorithm 1 is printed."""
    del hyper, central, server, state  # The pulled value is enough.
    return view.pulled


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Rule:
    """An update rule. Its hyper-parameters are traced: a new step size does not compile a new program.

    Use a constructor such as `asyncsim.rules.gem`, or build one from module-level functions. (A closure or lambda made
    anew for each rule would compile a new program each time.) Rules are equal, and hash alike, if their functions,
    options and hyper-parameters are.

    Attributes:
        hyper: Hyper-parameters by name, passed to every function first. A value may be an array with one entry per
            replayed seed.
        name: The constructor's name.
        send: `(hyper, gradient, state, view) -> Sent`: what the worker commits. If the rule has a `local_step`, it
            receives the displacement x - s that the local steps made from `view.read`, instead of the gradient there.
        options: Settings that choose code, such as a variant, by name.
        start: `(hyper, params) -> state`: what a worker keeps, made from the value that it read for its first commit,
            or for the first after it lost its state.
        start_server: `(hyper, params) -> state`: what the server keeps.
        apply: `(hyper, central, server, message, view) -> (central, server)`, once per step: receives the mean of the
            step's messages (which must be arrays that can be averaged) and the view of the commit that closes it.
        resume: `(hyper, central, server, state, view) -> params`: where the next gradient is taken, given the central
            variable and the server's state at that read and the view of the worker's last commit.
        local_step: `(hyper, params, gradient, state) -> (params, state)`: a local step of the worker; None for rules
            whose commits say what one gradient says.
        window: Local steps between two commits, λ; 1 without local steps.
        collect: Number of commits whose messages make one step of the server; None to follow the trace. A trace
            without buffering is cut into steps of this many commits.
        bind: `(rule, workers) -> rule`: the rule with what it takes from the trace's number of workers; None for a rule
            that takes nothing from it.
        rounds: Whether the rule is made for rounds in which every worker commits once.
        ignores: Whether `send` gives a message of nothing but zeros for a commit that does not count, such as one of a
            gradient that is too old.
        draws: Whether `send` draws random numbers, from `view.key`: a function of the seed, the worker and how often it
            has committed, and of nothing else.
        elementwise: Whether every parameter is treated independently of the others, or all of them as one vector, so
            that the engine may pass them as one vector, which is faster. By default a rule sees the pytree that the
            loss sees. Say True for a rule that computes the same either way.
        seal: What a constructor of the library put together, so that `constructor_of` recognises it; None for a
            rule of your own.

    Example:
        >>> import asyncsim as asim
        >>> rule = asim.rules.gem(learning_rate=0.05)
        >>> rule
        gem(learning_rate=0.05, momentum=0.9, kappa=1.0, variant='script')
        >>> rule.hyper
        {'learning_rate': 0.05, 'momentum': 0.9, 'kappa': 1.0}
        >>> rule == asim.rules.gem(learning_rate=0.05), len({rule, asim.rules.gem(learning_rate=0.05)})
        (True, 1)
    """

    hyper: Hyper
    name: str = field(metadata={"static": True})
    send: Send = field(metadata={"static": True})
    options: tuple[tuple[str, Any], ...] = field(default=(), metadata={"static": True})
    start: Start = field(default=keep_nothing, metadata={"static": True})
    start_server: StartServer = field(default=keep_nothing, metadata={"static": True})
    apply: Apply = field(default=add_message, metadata={"static": True})
    resume: Resume = field(default=from_central, metadata={"static": True})
    local_step: LocalStep | None = field(default=None, metadata={"static": True})
    window: int = field(default=1, metadata={"static": True})
    collect: int | None = field(default=None, metadata={"static": True})
    elementwise: bool = field(default=False, metadata={"static": True})
    bind: Bind | None = field(default=None, metadata={"static": True})
    rounds: bool = field(default=False, metadata={"static": True})
    ignores: bool = field(default=False, metadata={"static": True})
    draws: bool = field(default=False, metadata={"static": True})
    seal: Any = field(default=None, metadata={"static": True})

    def __post_init__(self) -> None:
        checks.require_integer("window", self.window, least=1, remedy="1 makes no local steps.")
        if self.collect is not None:
            checks.require_integer("collect", self.collect, least=1, remedy="None follows the trace.")
        for name, value in self.hyper.items():
            if isinstance(value, (str, bytes)):
                raise ValueError(
                    f"`hyper` must hold numbers, each a scalar or one value per seed; {name!r} is {value!r}. A setting "
                    f"that chooses code belongs in `options`: options=(({name!r}, {value!r}),)."
                )

    def describe(self) -> dict[str, Any]:
        """Name, options and hyper-parameters as plain data: enough to build the rule again."""
        return {"name": self.name, **dict(self.options), **self.hyper}

    def for_workers(self, workers: int) -> "Rule":
        """The rule for a trace of so many workers: what it was not given it takes from there.

        Raises:
            ValueError: If the rule was made for another number.

        Example:
            >>> import asyncsim as asim
            >>> asim.rules.delay_adaptive(0.1).for_workers(4)
            delay_adaptive(learning_rate=0.1, concurrency=4.0)
        """
        if self.bind is None:
            return self
        bound = self.bind(self, workers)
        return bound.sealed() if constructor_of(self) is not None else bound

    @property
    def structure(self) -> tuple[Any, ...]:
        """All of the rule but the values of its hyper-parameters: rules of one structure share a compiled program."""
        static = (getattr(self, one.name) for one in fields(self) if one.name not in ("hyper", "seal"))
        return (frozenset(self.hyper), *static)

    def sealed(self) -> "Rule":
        """The rule as a constructor of the library returns it, so that `constructor_of` recognises it."""
        return replace(self, seal=self.structure)

    def __repr__(self) -> str:
        settings = {**self.hyper, **dict(self.options)}
        return f"{self.name}({', '.join(f'{key}={_short(value)}' for key, value in settings.items())})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rule):
            return NotImplemented
        return self.structure == other.structure and all(
            np.array_equal(self.hyper[k], other.hyper[k]) for k in self.hyper
        )

    def __hash__(self) -> int:
        numbers = ((key, np.shape(value), tuple(np.ravel(value).tolist())) for key, value in self.hyper.items())
        return hash((self.structure, frozenset(numbers)))


class Structure:
    """A rule as a key that equals those of all rules of its structure."""

    def __init__(self, rule: Rule) -> None:
        self.rule, self.structure = rule, rule.structure

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and self.structure == other.structure

    def __hash__(self) -> int:
        return hash(self.structure)


def _short(value: Any) -> str:
    """The value if it is short, else its type; an array as a list.

    Example:
        >>> _short(0.1), _short(np.array([0.1, 0.2])), _short(np.zeros(99))
        ('0.1', '[0.1, 0.2]', '<ndarray (99,)>')
    """
    text = repr(value.tolist() if isinstance(value, np.ndarray) else value)
    if len(text) <= LONGEST and "\n" not in text:
        return text
    return f"<{type(value).__name__}{f' {value.shape}' if isinstance(value, np.ndarray) else ''}>"


def constructor_of(rule: Rule) -> str | None:
    """Name of the library's constructor that made a rule; None for any other rule.

    A rule with other values of its hyper-parameters could have been made by the same constructor. One whose functions,
    options or name were replaced could not, even if it still bears the constructor's name.

    Example:
        >>> import dataclasses
        >>> import asyncsim as asim
        >>> rule = asim.rules.gem(0.1)
        >>> constructor_of(rule), constructor_of(dataclasses.replace(rule, resume=from_pulled))
        ('gem', None)
    """
    return rule.name if rule.seal == rule.structure else None
