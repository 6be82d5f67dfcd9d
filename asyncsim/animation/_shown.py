"""What a movie shows, in whatever form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from asyncsim.animation._chapters import Chapter
from asyncsim.animation._paths import Plane
from asyncsim.animation._states import State, States


@dataclass(frozen=True, eq=False, repr=False)
class Shown:
    """What a movie shows.

    Attributes:
        view: "landscape" or "gravity".
        states: The film, and the runs' ways through the plane: `states.at(seconds)` is the state at a time.
        names: The runs.
        curves: Name of the run -> (commits of the window, loss after each), for the small curve.
        curve: What the curve shows.
        plane: The plane of the landscape, or None.
        law: (size,) predicted P(τ = k), or None.
        title, subtitle: Plain text.
        chapters: Times with a sentence each, in their order.
    """

    view: str
    states: States
    names: tuple[str, ...]
    curves: Mapping[str, tuple[Any, Any]]
    curve: str
    plane: Plane | None
    law: np.ndarray | None
    title: str
    subtitle: str = ""
    chapters: tuple[Chapter, ...] = ()

    def at(self, seconds: float) -> State:
        """The state at a time, in seconds: what page, GIF and MP4 show then."""
        return self.states.at(seconds)
