"""A proxy beside any rule: momentum SGD on the worker's own gradients, which nothing follows."""

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

from asyncsim import checks
from asyncsim.rules.momentum import accelerate, at_rest
from asyncsim.rules.rule import Hyper, Params, Resume, Rule, Send, Sent, Start, State, View

RATE, MOMENTUM = "proxy_learning_rate", "proxy_momentum"  # no rule has hyper-parameters of these names


class Beside(NamedTuple):
    """What a worker keeps: its rule's state, and the proxy's moment."""

    own: State
    moment: Params


def of_proxy(hyper: Hyper) -> Hyper:
    """The proxy's step size, which is the rule's unless one was given, and its friction parameter."""
    return {"learning_rate": hyper.get(RATE, hyper.get("learning_rate")), "momentum": hyper[MOMENTUM]}


@dataclass(frozen=True)
class StartBeside:
    """The initial state of a worker, with the proxy at rest."""

    start: Start

    def __call__(self, hyper: Hyper, params: Params) -> Beside:
        """What the rule starts with, and a moment of zero."""
        return Beside(own=self.start(hyper, params), moment=at_rest(hyper, params))


@dataclass(frozen=True)
class SendBeside:
    """The rule's message; the proxy shows only in what is reported."""

    send: Send

    def __call__(self, hyper: Hyper, gradient: Params, state: Beside, view: View) -> Sent:
        """What the rule sends, and m ← μ·m - η·g."""
        sent = self.send(hyper, gradient, state.own, view)
        _, moment = accelerate(of_proxy(hyper), state.moment, gradient)
        return Sent(sent.message, Beside(own=sent.state, moment=moment), sent.info._replace(proxy=moment))


@dataclass(frozen=True)
class ResumeBeside:
    """Where the rule continues."""

    resume: Resume

    def __call__(self, hyper: Hyper, central: Params, server: State, state: Beside, view: View) -> Params:
        """The rule's answer to its own state."""
        return self.resume(hyper, central, server, state.own, view)


def beside_proxy(rule: Rule, *, learning_rate: Any = None, momentum: Any = 0.9) -> Rule:
    """A rule unchanged, and beside it on each worker the proxy whose energy GEM matches.

    m ← μ·m - η·∇L(s), equations (23) and (24) of Hermans and Louppe 2018: the moment of the worker's own raw updates.
    What is learned does not change. The moment is reported as the rule's proxy, so that "energy_proxy" and "compliance"
    can be recorded for rules without a proxy, and condition (12), E_k(central) ≤ E_k(proxy), can be checked for them. A
    rule that has a proxy of its own reports this one instead.

    The gradients are those that the rule takes, where it takes them. This is the worker's estimate of the proxy, not
    the proxy itself, which would take its gradients along a path of its own.

    Args:
        rule: Any rule without local steps.
        learning_rate: Step size η of the proxy; None for the rule's own, even if that is changed later.
        momentum: Friction parameter μ in [0, 1) of the proxy.

    The two numbers may each be a scalar, or one value per seed.

    Returns:
        A `Rule` that keeps m on the worker beside what the rule keeps; its hyper-parameters are the rule's,
        `proxy_momentum`, and `proxy_learning_rate` if η was given.

    Raises:
        ValueError: If the rule makes local steps, already has a proxy beside it, or has no `learning_rate` and this
            one is None; or if a number is out of range.

    Example:
        Plain SGD from x = 1 on L = x²/2. The raw updates are -0.5 and -0.25, so m is -0.5 and then -0.5:

        >>> import asyncsim as asim
        >>> rule = asim.rules.beside_proxy(asim.rules.downpour(0.5), momentum=0.5)
        >>> record = ("energy_central", "energy_proxy")
        >>> trace, quadratic = asim.Trace.from_commits([0, 0]), asim.workloads.quadratic([1.0])
        >>> run = asim.replay(trace, rule, quadratic, record=record)
        >>> run.central["x"].tolist(), *(run.records[name].tolist() for name in record)
        ([0.25], [0.125, 0.03125], [0.125, 0.125])

    References:
        Hermans and Louppe 2018, equations (12), (23) and (24).
    """
    _check(rule, learning_rate)
    hyper = {**rule.hyper, MOMENTUM: checks.fraction("momentum", momentum)}
    if learning_rate is not None:
        hyper[RATE] = checks.not_negative("learning_rate", learning_rate)
    return dataclasses.replace(
        rule,
        hyper=hyper,
        name=f"{rule.name}_beside_proxy",
        send=SendBeside(rule.send),
        start=StartBeside(rule.start),
        resume=ResumeBeside(rule.resume),
    )


def _check(rule: Rule, learning_rate: Any) -> None:
    """Refuse rules beside which no proxy can be kept."""
    if not isinstance(rule, Rule):
        raise ValueError(f"`rule` must be an asyncsim.Rule; got {rule!r:.60}. Give rules.downpour(0.1), for one.")
    if rule.local_step is not None:
        raise ValueError(
            f"`rule` must send what one gradient says; got {rule.name!r}, whose workers make local steps and send "
            "displacements, about which equation (23) says nothing. Give a rule without a window."
        )
    if MOMENTUM in rule.hyper:
        raise ValueError(
            f"`rule` must not have a proxy beside it already; got {rule.name!r}. Give the rule that it wraps."
        )
    if learning_rate is None and "learning_rate" not in rule.hyper:
        raise ValueError(
            f"`learning_rate` must be given; got None, and the rule {rule.name!r} has none. Give the proxy's step size."
        )
