"""What an update rule is: a handful of pure functions over any pytree, and its hyper-parameters.

The life of one commit, in the order in which the engine calls the functions:

1. the worker has taken a gradient at the value it `read`; or, by a rule with a `local_step`, it has made `window`
   steps of its own from there, each with a mini-batch of its own;
2. it pulls the central variable and decides what to `send`;
3. the server `apply`s the message;
4. `resume` says where the worker goes on.

That is a server that applies every commit as it comes, and workers that read at once. The trace may have it otherwise:
a buffered server collects the messages of a step, and `apply` gets the mean of the step's messages and the view of the
commit that closes it (so whatever depends on one message's own staleness belongs into `send`); a worker may pull long
before it commits; and it may read long after its commit: `resume` is then called at the read, with the central
variable of that moment and the view of the worker's last commit. A worker that lost its state `start`s again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax

Params = Any  # any pytree of floating-point arrays
State = Any  # any pytree
Hyper = dict[str, Any]  # name -> number, traced by JAX


class View(NamedTuple):
    """What a rule can see while a commit is being applied.

    Attributes:
        read: s, where the gradient was taken.
        pulled: θ as the worker pulled it before committing; just before, where pull and commit are atomic.
        staleness: τ, the server versions between the read and this application (int32 scalar).
        server: What the server keeps, before this commit: for rules whose server treats each worker's messages apart.
    """

    read: Params
    pulled: Params
    staleness: jax.Array
    server: State = ()


class Info(NamedTuple):
    """What people plot of a commit, and nobody needs for the next one; None where the rule has no such thing.

    Attributes:
        update: Δθ, the raw update before any scaling.
        proxy: κ·m, the displacement that the proxy makes with this gradient.
        pi: π, the elementwise scaling of the raw update.
    """

    update: Params | None = None
    proxy: Params | None = None
    pi: Params | None = None


class Sent(NamedTuple):
    """A worker's answer to its gradient: the message for the server, its own next state, and what to plot."""

    message: Params
    state: State
    info: Info


def keep_nothing(hyper: Hyper, params: Params) -> State:
    """The state of a worker or server that remembers nothing."""
    del hyper, params  # Nothing depends on them.
    return ()


def add_message(hyper: Hyper, central: Params, server: State, message: Params, view: View) -> tuple[Params, State]:
    """θ ← θ + message: the server of equation (1)."""
    del hyper, view  # The sum needs neither.
    return jax.tree.map(lambda theta, u: theta + u, central, message), server


def from_central(hyper: Hyper, central: Params, server: State, state: State, view: View) -> Params:
    """Continue from the central variable just after the own commit."""
    del hyper, server, state, view  # The new central variable is enough.
    return central


def from_pulled(hyper: Hyper, central: Params, server: State, state: State, view: View) -> Params:
    """Continue from the value pulled just before the own commit, as Algorithm 1 is printed."""
    del hyper, central, server, state  # The pulled value is enough.
    return view.pulled


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rule:
    """An update rule. Its hyper-parameters are traced: another step size is not another compilation.

    Make one with a constructor such as `asyncsim.rules.gem`, or with `Rule` itself from module-level functions (a
    new closure or lambda would compile again).

    Attributes:
        hyper: Hyper-parameters by name, handed to every function first. A value may be an array with one entry
            per replayed seed.
        name: The constructor's name.
        send: `(hyper, gradient, state, view) -> Sent`: what the worker commits. By a rule with a `local_step` it gets
            the displacement x - s that the steps made from `view.read`, in place of the gradient there.
        options: Settings that choose code, such as a variant, by name.
        start: `(hyper, params) -> state`: what a worker keeps, made from the value that its first commit's job read,
            or the first after it lost its state.
        start_server: `(hyper, params) -> state`: what the server keeps.
        apply: `(hyper, central, server, message, view) -> (central, server)`, once a step: with the mean of its
            messages (which must be arrays that can be averaged) and the view of the commit that closes it.
        resume: `(hyper, central, server, state, view) -> params`: where the next gradient is taken, with the central
            variable and the server's state at that read and the view of the worker's last commit.
        local_step: `(hyper, params, gradient, state) -> (params, state)`: a local step of the worker; None for rules
            that send what one gradient says.
        window: Local steps between two commits, λ; 1 without local steps.
        collect: Commits whose messages make a step of the server; None for what the trace says. A trace without
            buffering is cut into steps of so many commits.
        elementwise: Whether every parameter is treated alone, so that the engine may hand over all parameters as
            one vector. Set it to False for a rule that looks at whole tensors.

    Example:
        >>> import asyncsim as asim
        >>> asim.rules.gem(learning_rate=0.05).hyper
        {'learning_rate': 0.05, 'momentum': 0.9, 'kappa': 1.0}
    """

    hyper: Hyper
    name: str = field(metadata={"static": True})
    send: Callable[..., Sent] = field(metadata={"static": True})
    options: tuple[tuple[str, Any], ...] = field(default=(), metadata={"static": True})
    start: Callable[..., State] = field(default=keep_nothing, metadata={"static": True})
    start_server: Callable[..., State] = field(default=keep_nothing, metadata={"static": True})
    apply: Callable[..., tuple[Params, State]] = field(default=add_message, metadata={"static": True})
    resume: Callable[..., Params] = field(default=from_central, metadata={"static": True})
    local_step: Callable[..., tuple[Params, State]] | None = field(default=None, metadata={"static": True})
    window: int = field(default=1, metadata={"static": True})
    collect: int | None = field(default=None, metadata={"static": True})
    elementwise: bool = field(default=True, metadata={"static": True})

    def describe(self) -> dict[str, Any]:
        """Name, options and hyper-parameters as plain data: enough to build the rule again."""
        return {"name": self.name, **dict(self.options), **self.hyper}
