"""Weights that depend on the age of an update, and rules whose gradients are multiplied by them."""

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp

from asyncsim._checks import require_all_positive
from asyncsim.components._families import Named
from asyncsim.components._traced import Traced
from asyncsim.rules._common import NotNegative
from asyncsim.rules._rule import Params, Sent, View
from asyncsim.rules._wrappers import AroundLocalSteps, WithOwn, layers


class Weight(Traced, Named, ABC, family="weights", example="Polynomial(0.5)"):
    """A weight σ(τ) of an update by its staleness τ, for `asyncsim.rules.weighted`.

    Derive a class, annotate its arguments and write `of`. Numbers are traced, as those of a rule are.

    Attributes:
        name: Name on the command line: the class's name in lower case, unless the class sets another one.
        publication: Key of its publication in `citations.bib`, or None.

    Example:
        >>> import asyncsim as asim
        >>> class Fresh(asim.rules.Weight):
        ...     share: float
        ...
        ...     def of(self, staleness):
        ...         return jnp.where(staleness == 0, 1.0, self.share)
        >>> rule = asim.rules.weighted(asim.rules.Downpour(0.25), by=Fresh(0.5))
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.625]
    """

    publication: ClassVar[str | None] = None

    @abstractmethod
    def of(self, staleness: Any, /) -> Any:
        """Return σ(τ), a scalar, from τ as a floating-point scalar."""


class Polynomial(Weight):
    """A weight that falls as a power of the staleness: σ(τ) = (τ + 1)^-a.

    With a grace b it is (max(τ - b, 0) + 1)^-a. An exponent of 1 around DOWNPOUR is `AdaptiveStaleness`, and with a
    grace of 1 `StalenessAware`.

    Args:
        exponent: Exponent a of the weight, not negative. 0 gives every age the same weight.
        grace: Staleness b up to which an update counts in full.

    Example:
        >>> [round(float(Polynomial(0.5).of(age)), 4) for age in (0.0, 3.0, 8.0)]
        [1.0, 0.5, 0.3333]

    References:
        Xie, Koyejo and Gupta 2019, "Asynchronous Federated Optimization", arXiv 1903.03934. Nguyen et al. 2022
        (FedBuff), with a = 0.5.
    """

    exponent: NotNegative = 0.5
    _: KW_ONLY
    grace: NotNegative = 0.0

    publication = "xie2019fedasync"

    def of(self, staleness: Any) -> Any:
        return (jnp.maximum(staleness - self.grace, 0) + 1) ** -self.exponent


class Exponential(Weight):
    """A weight that decays exponentially with the staleness: σ(τ) = e^(-a·τ).

    Args:
        rate: Rate a at which the weight decays with the staleness, not negative.

    Example:
        >>> [round(float(Exponential(0.5).of(age)), 4) for age in (0.0, 1.0, 2.0)]
        [1.0, 0.6065, 0.3679]

    References:
        Shah and Sun 2026, arXiv 2605.09126, whose baseline Adam-Decay has this weight.
    """

    rate: NotNegative

    publication = "shah2026cgad"

    def of(self, staleness: Any) -> Any:
        return jnp.exp(-self.rate * staleness)


class CosineGate(Weight):
    """The gate of CGAD: a weight that decays, and reaches 0 at a limit.

    σ(τ) = e^(-a·τ)·(1 + cos(π·min(τ, L)/L))/2, which is 0 from τ = L on. Around `ServerOptimiser` with Adam it is
    cosine-gated Adam-decay.

    Args:
        limit: Staleness L from which on nothing counts, positive.
        rate: Rate a at which the weight decays with the staleness, not negative.

    Example:
        >>> [round(float(CosineGate(limit=4).of(age)), 4) for age in (0.0, 1.0, 2.0, 4.0, 5.0)]
        [1.0, 0.8536, 0.5, 0.0, 0.0]

    References:
        Shah and Sun 2026, "Cosine-gated Adam-decay: drop-in staleness-aware outer optimization for decoupled DiLoCo",
        arXiv 2605.09126.
    """

    limit: Annotated[Any, require_all_positive, "The weight is 0 from this staleness on."]
    _: KW_ONLY
    rate: NotNegative = 0.0

    publication = "shah2026cgad"

    def of(self, staleness: Any) -> Any:
        gate = (1 + jnp.cos(jnp.pi * staleness / self.limit)) / 2
        return jnp.where(staleness < self.limit, gate * jnp.exp(-self.rate * staleness), 0)


class Weighted(AroundLocalSteps, named=False):
    """A rule whose gradients are multiplied by a weight that depends on their age.

    The rule's `send` receives σ(τ)·g in place of g, with τ the server versions between the read and this commit. With
    local steps g is the displacement. The weight comes first, so that moments and other memories of the rule hold
    weighted gradients. A weight of 0 leaves nothing of a gradient, even of one that is not finite.

    The rule keeps no state besides that of the rule inside.

    Args:
        rule: Any rule that sends an update. Those that send parameters (`FedAsync`) or exchange with a spring (`EASGD`,
            `AEASGD`, `EAMSGD`) are refused.
        by: The weight: `Polynomial`, `Exponential`, `CosineGate`, or one of your own that derives from `Weight`.

    Raises:
        ValueError: If the rule sends no update, or is weighted already.

    Example:
        Two workers in turn. The first update is fresh, and the second, one version old, counts half:

        >>> import asyncsim as asim
        >>> rule = asim.rules.weighted(asim.rules.Downpour(0.5), by=asim.rules.Polynomial(1.0))
        >>> rule.name, rule.numbers
        ('downpour_weighted', {'rule.learning_rate': 0.5, 'by.exponent': 1.0, 'by.grace': 0.0})
        >>> asim.replay(asim.Trace.from_commits([0, 1]), rule, asim.workloads.Quadratic([1.0])).central["x"].tolist()
        [0.25]

    References:
        Those of the weights.
    """

    by: Weight

    suffix = "_weighted"

    def check(self) -> None:
        super().check()
        if any(isinstance(layer, Weighted) for layer in layers(self.rule)):
            raise ValueError(
                f"`rule` must not be weighted already; got {self.rule.name!r}. Give the rule that it wraps."
            )
        if (why := self.rule.innermost.incompressible) is not None:
            raise ValueError(f"`rule` must send an update; {self.rule.name!r} {why}. Weight Downpour, say.")

    def start(self, params: Params) -> WithOwn:
        return WithOwn(self.rule.start(params), ())

    def send(self, gradient: Params, state: WithOwn, view: View) -> Sent:
        """Send what the rule makes of the weighted gradient."""

        def scaled(leaf: jax.Array) -> jax.Array:
            precise = jnp.promote_types(leaf.dtype, jnp.float32)
            weight = self.by.of(view.staleness.astype(precise))
            return jnp.where(weight == 0, 0, weight.astype(leaf.dtype) * leaf)

        sent = self.rule.send(jax.tree.map(scaled, gradient), state.own, view)
        return Sent(sent.message, WithOwn(sent.state, ()), sent.info)


weighted = Weighted  # A wrapped rule reads as an action: `weighted(rule, …)`.
