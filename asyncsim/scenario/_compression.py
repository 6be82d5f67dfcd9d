"""What makes a rule's messages smaller, as something that a scenario's fields choose by name."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from asyncsim._families import FAMILIES
from asyncsim._fields import described_arguments
from asyncsim.compressors import Compressor
from asyncsim.rules import Compressed, Rule, compressed

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


@cache
def setting_of(make: Callable[..., Compressor]) -> Callable[..., Setting]:
    """The constructor of a compressor, with the argument that says whether there is error feedback."""

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


class Settings(Mapping[str, Callable[..., Setting]]):
    """Name -> constructor, of every compressor there is, and of none."""

    def __getitem__(self, name: str) -> Callable[..., Setting]:
        return uncompressed if name == NONE else setting_of(FAMILIES["compressors"][name])

    def __iter__(self) -> Iterator[str]:
        return iter((NONE, *sorted(FAMILIES["compressors"])))

    def __len__(self) -> int:
        return 1 + len(FAMILIES["compressors"])


def setting(rule: Rule) -> Setting:
    """How a rule is compressed."""
    return Setting(rule.compressor, rule.error_feedback) if isinstance(rule, Compressed) else Setting()


def without(rule: Rule) -> Rule:
    """The rule that is compressed, or the rule itself."""
    return rule.rule if isinstance(rule, Compressed) else rule
