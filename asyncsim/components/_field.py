"""One setting as flags and grids see it: its kind, its meaning and its present value."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from asyncsim import _checks as checks
from asyncsim.components._parse import parse_kind

LONGEST = 40  # characters of a value in a line that lists several


@dataclass(frozen=True)
class Field:
    """Something that can be overridden by name.

    Attributes:
        name: The name under which it is set.
        kind: "integer", "number", "law", "switch", "integers", "numbers", "text" or "names", or "integer by worker" or
            "number by worker" for one number or one per worker.
        help: Its meaning.
        group: Heading under which it is listed: "Cluster", "Rule", "Workload" or "Study".
        value: Present value; None if it has no value.
        choices: Known values, for a field that chooses by name.
        default: Value that it has where none is given; None if it must be given.
        listed: Whether help and tables show it.
        least: Number of names of its path that mean it at least: 2 for `service_cv`, since `cv` is that of the compute
            law.
        preferred: Whether a name that fits others as well means this one.
    """

    name: str
    kind: str
    help: str
    group: str = "Study"
    value: Any = None
    choices: tuple[str, ...] = ()
    default: Any = None
    listed: bool = True
    least: int = 1
    preferred: bool = False

    def parse(self, text: str) -> Any:
        """Return the value that a text on the command line stands for, where commas separate the items of a list.

        A law is a number, its mean, or its name and arguments, as in "gamma:mean=1:cv=0.3".
        Each of several names may carry a number, as in "name=number", and a name without one gets None.

        Raises:
            ValueError: If the text is not of this kind.

        Example:
            >>> Field("hidden", "integers", "Sizes.").parse("64,32"), Field("cv", "number", "").parse("2")
            ([64, 32], 2.0)
            >>> window = Field("window", "integer by worker", "")
            >>> window.parse("10"), window.parse("10,20")
            (10, [10, 20])
            >>> Field("latency", "law", "").parse("0.5"), Field("latency", "law", "").parse("gamma:mean=1:cv=0.3")
            (0.5, 'gamma:mean=1:cv=0.3')
            >>> Field("record", "names", "").parse("pi_mean,pi_median=5")
            {'pi_mean': None, 'pi_median': 5}
        """
        if self.choices:
            return checks.require_one_of(self.name, text, choices=self.choices)
        return parse_kind(text, self.kind)

    def show(self) -> str:
        """Return the present value as it would be written on the command line."""
        return _text(self.value)


def describe_changes(fields: Iterable[Field]) -> str:
    """Return the fields whose values differ from their defaults, as one line of text without values of many numbers."""
    changed = [field for field in fields if field.value is not None and field.show() != _text(field.default)]
    return ", ".join(
        f"{field.name.replace('_', ' ')} {field.show()}" for field in changed if len(field.show()) <= LONGEST
    )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={every}" for name, every in value.items()) or "none"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value)) or "none"
    return str(value)
