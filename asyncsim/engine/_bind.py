"""A rule and a trace made to fit each other: the trace's number of workers, and the rule's number of commits a step."""

import warnings

from asyncsim.rules import Rule
from asyncsim.trace import Trace
from asyncsim.trace._regroup import in_steps


def bind(rule: Rule, trace: Trace) -> tuple[Rule, Trace]:
    """The rule with the trace's number of workers, and the trace in the steps that the rule's server makes."""
    rule = rule.for_workers(trace.workers)
    if rule.rounds and rule.collect is not None and trace.steps != len(trace):
        require_whole_rounds(rule, trace)
    return rule, in_steps(trace, rule.collect)


def require_whole_rounds(rule: Rule, trace: Trace) -> None:
    """Refuse steps of other sizes than the rule's rounds."""
    ends = trace.closes_step.nonzero()[0]
    sizes = ends - [-1, *ends[:-1]]
    other = sizes[sizes != rule.collect]
    if other.size:
        raise ValueError(
            f"`trace` must be in rounds of {rule.collect} commits, one of each worker, for the rule {rule.name!r}; it "
            f"has a step of {other[0]}. Simulate it with `protocols.Synchronous()`."
        )


def warn_of_lacking_rounds(rule: Rule, trace: Trace) -> None:
    """Say that a rule made for rounds is replayed without any."""
    if rule.rounds and trace.workers > 1 and trace.steps == len(trace):
        warnings.warn(
            f"The rule {rule.name!r} is made for rounds in which every worker commits once, and `trace` has none: each "
            "of its commits is a step. Simulate it with `protocols.Synchronous()`.",
            stacklevel=4,
        )
