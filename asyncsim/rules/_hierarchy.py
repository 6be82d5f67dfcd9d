"""Two rules for servers of regions and a global one: that of the regions, and that of the global server around them."""

from dataclasses import replace
from typing import Any

from asyncsim._checks import brief
from asyncsim.rules._asynchronous import Downpour
from asyncsim.rules._local import Local
from asyncsim.rules._momentum import DelayedNesterov
from asyncsim.rules._rule import Rule
from asyncsim.rules._schedules import is_scheduled
from asyncsim.rules._wrappers import Transparent, WithProxy, Wrapper, layers


class Hierarchical(Transparent, named=False):
    """A rule of the servers of regions, and another one of the global server.

    Workers and their region's server follow the rule, with a server state for each region. A region's server sends the
    change x - b of its variable since its last merge b, and the global rule receives g = -(x - b) where it would
    receive a gradient, so that its step size is the outermost one. `Downpour(1.0)` adds the changes as they are, and
    is the global rule of every rule without this wrapper. The trace of an `asyncsim.Hierarchy` says when.

    Args:
        rule: Any rule whose server applies single commits.
        global_rule: Any rule whose workers send an update of one gradient and go on from the server's value, without a
            schedule, a proxy next to it, or random numbers of its own.

    Raises:
        ValueError: If the global rule does not fit.

    Example:
        Regions add single gradients, and the global server makes Nesterov steps (see `halos` for a published pair).

        >>> import asyncsim as asim
        >>> outer = asim.rules.SharedNesterov(0.7, momentum=0.5)
        >>> rule = asim.rules.hierarchical(asim.rules.Downpour(0.1), outer)
        >>> rule.name, rule.innermost.learning_rate, rule.global_rule.learning_rate
        ('downpour_hierarchical', 0.1, 0.7)

    References:
        Kim et al. 2025, "HALoS: Hierarchical asynchronous local SGD over slow networks for geo-distributed large
        language model training", ICML, arXiv 2506.04531.
    """

    global_rule: Rule = Downpour(1.0)

    suffix = "_hierarchical"

    def check(self) -> None:
        """Refuse a second wrapper, and global rules that do more than apply a message to the value they send back."""
        super().check()
        if any(isinstance(layer, Hierarchical) for layer in layers(self.rule)):
            raise ValueError(
                f"`rule` must not have a global rule already; got {self.rule.name!r}. Give the rule inside."
            )
        if not isinstance(self.global_rule, Rule):
            raise ValueError(
                f"`global_rule` must be an asyncsim.Rule; got {brief(self.global_rule)}. Give rules.Downpour(1.0), for "
                "one."
            )
        if (reason := why_not_global(self.global_rule)) is not None:
            raise ValueError(
                f"`global_rule` must apply changes of regions like gradients; got {self.global_rule.name!r}, which "
                f"{reason}. Give rules.SharedNesterov(0.7, momentum=0.5), for one."
            )

    @classmethod
    def halos(cls, learning_rate: Any, *, optimiser: Any = "adamw", window: Any = 8) -> "Hierarchical":
        """Return the rule that the authors of HALoS published for 70 million parameters (`asyncsim.Hierarchy.halos`).

        Workers make local steps. Both servers use delayed Nesterov: those of regions with step size 0.2, momentum 0.9
        and an interval of 16 commits, the global one with 0.15, 0.5 and an interval of 2 pushes.

        Args:
            learning_rate: Step size of the local steps.
            optimiser: The worker's optimiser of the local steps, as in `asyncsim.rules.local`.
            window: Local steps H between two commits.

        Example:
            >>> import asyncsim as asim
            >>> rule = asim.rules.hierarchical.halos(0.01)
            >>> rule.name, rule.window, rule.innermost.learning_rate, rule.global_rule.learning_rate
            ('delayed_nesterov_local_hierarchical', 8, 0.2, 0.15)
        """
        region = DelayedNesterov(0.2, momentum=0.9, interval=16)
        worker = Local(region, window=window, learning_rate=learning_rate, optimiser=optimiser)
        return cls(worker, DelayedNesterov(0.15, momentum=0.5, interval=2))

    @property
    def sees_vector(self) -> bool:
        """Whether both rules may receive all parameters as one vector."""
        return self.rule.sees_vector and self.global_rule.sees_vector


hierarchical = Hierarchical  # A wrapped rule reads as an action: `hierarchical(rule, …)`.


def why_not_global(rule: Rule) -> str | None:
    """Return why a rule cannot be that of a global server, or None if it can."""
    inner = rule.innermost
    reasons = {
        "makes local steps": rule.steps_locally or rule.window != 1,
        "collects several commits in a step": rule.collect not in (None, 1) or rule.rounds,
        "goes on from another value than that of the server": type(inner).resume is not Rule.resume,
        "compresses its messages": rule.compression is not None,
        "draws random numbers": rule.draws,
        "follows a schedule": is_scheduled(rule),
        "has a proxy next to it": any(isinstance(layer, WithProxy) for layer in layers(rule)),
        "has a global rule of its own": any(isinstance(layer, Hierarchical) for layer in layers(rule)),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def global_rule_of(rule: Rule) -> Rule:
    """Return the rule of the global server: the one that was given, or `Downpour(1.0)`, which adds the changes."""
    return next((layer.global_rule for layer in layers(rule) if isinstance(layer, Hierarchical)), Downpour(1.0))


def for_regions(rule: Any, regions: int) -> Any:
    """Return a rule whose global rule knows the number of regions, which are its workers."""
    if isinstance(rule, Hierarchical):
        return replace(rule, global_rule=rule.global_rule.for_workers(regions))
    return replace(rule, rule=for_regions(rule.rule, regions)) if isinstance(rule, Wrapper) else rule
