"""A proxy next to any rule: momentum SGD on the worker's own gradients, which nothing follows."""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

from asyncsim.rules._arguments import Fraction, StepSize
from asyncsim.rules._momentum import accelerate, at_rest
from asyncsim.rules._rule import Params, Rule, Sent, State, View


class WithOwn(NamedTuple):
    """What a worker of a wrapped rule keeps: the rule's state, and the wrapper's."""

    own: State
    added: Any


class Wrapper(Rule, abstract=True):
    """A rule that contains another one, and changes what its workers send.

    Attributes:
        rule: The rule that is wrapped.
    """

    rule: Rule

    suffix = ""

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The rule's name with a suffix."""
        return f"{self.rule.name}{self.suffix}"

    @property
    def rounds(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the rule."""
        return self.rule.rounds

    @property
    def ignores(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the rule."""
        return self.rule.ignores

    @property
    def draws(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the rule."""
        return self.rule.draws

    @property
    def window(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the rule."""
        return self.rule.window

    @property
    def steps_locally(self) -> bool:
        """That of the rule."""
        return self.rule.steps_locally

    @property
    def sees_vector(self) -> bool:
        """That of the rule."""
        return self.rule.sees_vector

    @property
    def collect(self) -> int | None:
        """That of the rule."""
        return self.rule.collect

    def for_workers(self, workers: int) -> Self:
        """The same around the rule for this number of workers."""
        return dataclasses.replace(self, rule=self.rule.for_workers(workers))

    def start_server(self, params: Params) -> State:
        """That of the rule."""
        return self.rule.start_server(params)

    def local_step(self, params: Params, gradient: Params, state: WithOwn) -> tuple[Params, WithOwn]:
        """The rule's step; nothing is sent."""
        params, own = self.rule.local_step(params, gradient, state.own)
        return params, WithOwn(own, state.added)

    def apply(self, central: Params, server: State, message: Params, view: View) -> tuple[Params, State]:
        """That of the rule."""
        return self.rule.apply(central, server, message, view)

    def resume(self, central: Params, server: State, state: WithOwn, view: View) -> Params:
        """The rule's answer to its own state."""
        return self.rule.resume(central, server, state.own, view)


def layers(rule: Rule) -> Iterator[Rule]:
    """A rule, the rule that it contains, and so on."""
    yield rule
    if isinstance(rule, Wrapper):
        yield from layers(rule.rule)


def innermost(rule: Rule) -> Rule:
    """The rule that contains no other one."""
    return list(layers(rule))[-1]


class WithProxy(Wrapper, abstract=True):
    """A rule unchanged, and beside it on each worker the proxy whose energy GEM matches.

    m ← μ·m - η·∇L(s), equations (23) and (24) of Hermans and Louppe 2018: the moment of the worker's own raw updates.
    What is learned does not change. The moment is reported as the rule's proxy, so that "energy_proxy" and "compliance"
    can be recorded for rules without a proxy, and condition (12), E_k(central) ≤ E_k(proxy), can be checked for them. A
    rule that has a proxy of its own reports this one instead.

    The gradients are those that the rule takes, where it takes them. This is the worker's estimate of the proxy, not
    the proxy itself, which would take its gradients along a path of its own.

    The rule keeps m on the worker beside what the rule keeps; its hyper-parameters are the rule's, `proxy_momentum`,
    and `proxy_learning_rate` if η was given.

    Args:
        rule: Any rule without local steps.
        proxy_learning_rate: Step size η of the proxy; None for the rule's own, even if that is changed later.
        proxy_momentum: Friction parameter μ in [0, 1) of the proxy.

    The two numbers may each be a scalar, or one value per seed.

    Raises:
        ValueError: If the rule makes local steps, already has a proxy beside it, or has no `learning_rate` and this
            one is None; or if a number is out of range.

    Example:
        Plain SGD from x = 1 on L = x²/2. The raw updates are -0.5 and -0.25, so m is -0.5 and then -0.5:

        >>> import asyncsim as asim
        >>> rule = asim.rules.WithProxy(asim.rules.Downpour(0.5), proxy_momentum=0.5)
        >>> record = ("energy_central", "energy_proxy")
        >>> trace, quadratic = asim.Trace.from_commits([0, 0]), asim.workloads.Quadratic([1.0])
        >>> run = asim.replay(trace, rule, quadratic, record=record)
        >>> run.central["x"].tolist(), *(run.records[name].tolist() for name in record)
        ([0.25], [0.125, 0.03125], [0.125, 0.125])

    References:
        Hermans and Louppe 2018, equations (12), (23) and (24).
    """

    _: dataclasses.KW_ONLY
    proxy_learning_rate: StepSize | None = None
    proxy_momentum: Fraction = 0.9

    suffix = "_with_proxy"

    def check(self) -> None:
        """Refuse rules next to which no proxy can be kept."""
        if not isinstance(self.rule, Rule):
            raise ValueError(
                f"`rule` must be an asyncsim.Rule; got {self.rule!r:.60}. Give rules.Downpour(0.1), for one."
            )
        if self.rule.steps_locally:
            raise ValueError(
                f"`rule` must send what one gradient says; got {self.rule.name!r}, whose workers make local steps and "
                "send displacements, about which equation (23) says nothing. Give a rule without a window."
            )
        if any(isinstance(one, WithProxy) for one in layers(self.rule)):
            raise ValueError(
                f"`rule` must not have a proxy beside it already; got {self.rule.name!r}. Give the rule that it wraps."
            )
        if self.proxy_learning_rate is None and "learning_rate" not in self.rule.numbers:
            raise ValueError(
                f"`proxy_learning_rate` must be given; got None, and the rule {self.rule.name!r} has none. Give the "
                "proxy's step size."
            )

    def start(self, params: Params) -> WithOwn:
        """The rule's state, and a moment of zero."""
        return WithOwn(self.rule.start(params), at_rest(params))

    def send(self, gradient: Params, state: WithOwn, view: View) -> Sent:
        """Send the rule's message, and report m ← μ·m - η·g."""
        sent = self.rule.send(gradient, state.own, view)
        rate = self.rule.numbers["learning_rate"] if self.proxy_learning_rate is None else self.proxy_learning_rate
        _, moment = accelerate(rate, self.proxy_momentum, state.added, gradient)
        return Sent(sent.message, WithOwn(sent.state, moment), sent.info._replace(proxy=moment))
