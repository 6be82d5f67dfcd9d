"""Schedules of the step size: factors that depend on the server's version, and rules whose step sizes they multiply."""

import re
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim import _checks as checks
from asyncsim._trees import weakly_typed
from asyncsim.components._families import Named
from asyncsim.components._traced import Traced
from asyncsim.rules._common import NotNegative
from asyncsim.rules._rule import Rule
from asyncsim.rules._wrappers import Transparent, layers

STEP_SIZE = re.compile(r"(rule\.)*learning_rate")


class StepSchedule(Traced, Named, ABC, family="step_schedules", example="CosineDecay(1000)"):
    """A factor of the step size by the server's version v, for `asyncsim.rules.scheduled`.

    Derive a class, annotate its arguments and write `of`. Numbers are traced, as those of a rule are.

    Attributes:
        name: Name on the command line: the class's name in lower case, unless the class sets another one.
        publication: Key of its publication in `citations.bib`, or None.

    Example:
        >>> import asyncsim as asim
        >>> class Halving(asim.rules.StepSchedule):
        ...     every: float
        ...
        ...     def of(self, version):
        ...         return 0.5 ** jnp.floor(version / self.every)
        >>> rule = asim.rules.scheduled(asim.rules.Downpour(0.5), by=Halving(1))
        >>> asim.replay(asim.Trace.from_commits([0, 0]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.375]
    """

    publication: ClassVar[str | None] = None

    @abstractmethod
    def of(self, version: Any, /) -> Any:
        """Return the factor, a scalar, from the version as a floating-point scalar."""


class Decay(StepSchedule, named=False):
    """Schedules of a linear warm-up and a decay."""

    steps: NotNegative
    _: KW_ONLY
    warmup: NotNegative = 0.0
    final: NotNegative = 0.0

    def check(self) -> None:
        """Refuse a warm-up that leaves no steps for the decay."""
        if np.any(np.asarray(self.warmup) >= np.asarray(self.steps)):
            raise ValueError(
                f"`warmup` must be less than `steps`, {checks.brief(self.steps)}; got {checks.brief(self.warmup)}. "
                "`steps` are those of the whole schedule."
            )

    def decayed(self, progress: Any) -> Any:
        """Return the share of the decay that is left, from the share of its time that is over."""
        raise NotImplementedError

    def of(self, version: Any) -> Any:
        share = self.decayed(jnp.clip((version - self.warmup) / (self.steps - self.warmup), 0, 1))
        return jnp.where(version < self.warmup, version / self.warmup, self.final + (1 - self.final) * share)


class CosineDecay(Decay):
    """A linear warm-up, then half a cosine down to the end.

    f(v) = v/w up to v = w, and then c + (1 - c)·(1 + cos(π·p))/2, where p = (v - w)/(T - w) is the share of the decay
    that is over. The factor stays at c from v = T on. It is optax's `warmup_cosine_decay_schedule` from 0 to 1 to c.
    With c = 1 it is a warm-up alone.

    Args:
        steps: Steps T of the server until the end, the warm-up included, more than that.
        warmup: Steps w of the server in which the factor rises from 0 to 1. The first step of a warm-up is one of size
            0. By default there is none.
        final: Factor c at the end.

    Example:
        >>> [round(float(CosineDecay(8, warmup=2).of(version)), 4) for version in (0.0, 1.0, 2.0, 5.0, 8.0, 9.0)]
        [0.0, 0.5, 1.0, 0.5, 0.0, 0.0]

    References:
        Loshchilov and Hutter 2017, "SGDR: Stochastic gradient descent with warm restarts", ICLR, here without restarts.
    """

    publication = "loshchilov2017sgdr"

    def decayed(self, progress: Any) -> Any:
        return (1 + jnp.cos(jnp.pi * progress)) / 2


class LinearDecay(Decay):
    """A linear warm-up, then a straight line down to the end.

    f(v) = v/w up to v = w, and then 1 - (1 - c)·p, where p = (v - w)/(T - w) is the share of the decay that is over.
    The factor stays at c from v = T on.

    Args:
        steps, warmup, final: As in `CosineDecay`.

    Example:
        >>> [float(LinearDecay(6, warmup=2, final=0.5).of(version)) for version in (0.0, 1.0, 2.0, 4.0, 6.0, 7.0)]
        [0.0, 0.5, 1.0, 0.75, 0.5, 0.5]

    References:
        Goyal et al. 2017, "Accurate, large minibatch SGD: Training ImageNet in 1 hour", arXiv 1706.02677 (the warm-up).
    """

    publication = "goyal2017accurate"

    def decayed(self, progress: Any) -> Any:
        return 1 - progress


class Scheduled(Transparent, named=False):
    """A rule whose step size follows a schedule of the server's steps.

    At version v of the server, η is `learning_rate` times f(v). The version counts the steps that the server has made,
    so one that averages several commits in a step moves the schedule on once. With several variables it is that of the
    worker's own variable, whose mixings count, too. Which version counts depends on who makes the step:

    - At a commit, v is that of the server before it, and where the rule looks ahead for the worker's next gradient, it
      does so with the step size of that commit.
    - Local steps have the step size of the version that the worker read, the same throughout a window.

    The `learning_rate` is that of the rule, or the outermost one if there are several: around `local(…)` it is that of
    the local steps, and inside, as in `local(scheduled(…), …)`, that of the outer steps. All that the rule derives from
    its step size follows the schedule, such as the spring of `AEASGD`, and `server_learning_rate` does not.

    Args:
        rule: Any rule with a `learning_rate`.
        by: The schedule: `CosineDecay`, `LinearDecay`, or one of your own that derives from `StepSchedule`.

    Raises:
        ValueError: If the rule has no `learning_rate`, or is scheduled already.

    Example:
        The second of two steps on L = x²/2 from 1 has half the step size: 1 - 0.5, then 0.5 - 0.25·0.5:

        >>> import asyncsim as asim
        >>> rule = asim.rules.scheduled(asim.rules.Downpour(0.5), by=asim.rules.LinearDecay(2))
        >>> rule.name, rule.numbers["by.steps"]
        ('downpour_scheduled', 2.0)
        >>> asim.replay(asim.Trace.from_commits([0, 0]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.375]

    References:
        Those of the schedules.
    """

    by: StepSchedule

    suffix = "_scheduled"

    def check(self) -> None:
        super().check()
        if is_scheduled(self.rule):
            raise ValueError(
                f"`rule` must not be scheduled already; got {self.rule.name!r}. Give the rule that it wraps."
            )
        if not _step_sizes(self.rule):
            raise ValueError(f"`rule` must have a `learning_rate`; got {self.rule.name!r}, which has none.")

    def at(self, version: Any) -> Rule:
        """Return the rule inside with its step size at a version of the server, which may be traced."""
        # The engine calls the methods of this rule, and those of the wrapper only to learn shapes.
        path = min(_step_sizes(self.rule), key=len)
        factor = weakly_typed(self.by.of(jnp.asarray(version, float)))
        return self.rule.with_numbers({path: self.rule.numbers[path] * factor})


scheduled = Scheduled  # A wrapped rule reads as an action: `scheduled(rule, …)`.


def is_scheduled(rule: Rule) -> bool:
    """Return whether a step size of a rule, or of one that it contains, follows a schedule."""
    return any(isinstance(layer, Scheduled) for layer in layers(rule))


def at_version(rule: Rule, version: Any) -> Rule:
    """Return a rule with its step size at a version of the server, or the rule itself without a schedule."""
    if not is_scheduled(rule):
        return rule

    def evaluate(part: Any) -> Any:
        return part.at(version) if isinstance(part, Scheduled) else part

    return jax.tree.map(evaluate, rule, is_leaf=lambda part: isinstance(part, Scheduled))


def _step_sizes(rule: Rule) -> list[str]:
    """Return the paths of all numbers `learning_rate`."""
    return [path for path in rule.numbers if STEP_SIZE.fullmatch(path)]
