"""A module that a function of the tests reads, and a component whose module imports no other of the tests."""

import dataclasses
from typing import Any

DECAY = 0.0


@dataclasses.dataclass(frozen=True)
class Bag:
    """A component of a user's, with values that JSON has no word for."""

    values: tuple[Any, ...]
    text: str = "inf"
