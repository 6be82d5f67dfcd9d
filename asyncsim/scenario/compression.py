"""What makes a rule's messages smaller, as something that a scenario's fields choose by name."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from asyncsim import compressors
from asyncsim.compressors import Compressor
from asyncsim.rules import Compressed, Rule, compressed
from asyncsim.scenario.fields import described_arguments

NONE = "none"  # the choice of no compressor
FEEDBACK = described_arguments(inspect.getdoc(Compressed) or "")["error_feedback"]


@dataclass(frozen=True)
class Setting:
    """A compressor, or none, and whether there is error feedback."""

    compressor: Compressor | None = None
    error_feedback: bool = True

    def around(self, rule: Rule) -> Rule:
        """The rule, compressed if there is a compressor."""
        return rule if self.compressor is None else compressed(rule, self.compressor, self.error_feedback)


def uncompressed() -> Setting:
    """Send every update in full."""
    return Setting()


def setting_of(make: Callable[..., Compressor]) -> Callable[..., Setting]:
    """The constructor of a compressor, with the argument that says whether there is error feedback.

    Example:
        >>> inspect.signature(setting_of(compressors.QSGD))
        <Signature (levels: int = 1, *, error_feedback: bool = True) -> asyncsim.scenario.compression.Setting>
    """

    def build(*, error_feedback: bool = True, **arguments: Any) -> Setting:
        return Setting(make(**arguments), error_feedback)

    feedback = inspect.Parameter("error_feedback", inspect.Parameter.KEYWORD_ONLY, default=True, annotation=bool)
    parameters = [*inspect.signature(make).parameters.values(), feedback]
    build.__signature__ = inspect.Signature(parameters, return_annotation=Setting)  # type: ignore[attr-defined]
    documentation = inspect.getdoc(make) or ""
    helps = {**described_arguments(documentation), "error_feedback": FEEDBACK}
    entries = "\n".join(f"    {name}: {help}" for name, help in helps.items())
    build.__doc__ = f"{documentation.partition(chr(10))[0]}\n\nArgs:\n{entries}\n"
    return build


CONSTRUCTORS: dict[str, Callable[..., Setting]] = {
    NONE: uncompressed,
    **{name: setting_of(make) for name, make in compressors.CONSTRUCTORS.items()},
}


def setting(rule: Rule) -> Setting:
    """How a rule is compressed.

    Example:
        >>> import asyncsim as asim
        >>> setting(compressed(asim.rules.Downpour(0.1), compressors.Natural()))
        Setting(compressor=Natural(), error_feedback=True)
    """
    return Setting(rule.compressor, rule.error_feedback) if isinstance(rule, Compressed) else Setting()


def without(rule: Rule) -> Rule:
    """The rule that is compressed, or the rule itself."""
    return rule.rule if isinstance(rule, Compressed) else rule
