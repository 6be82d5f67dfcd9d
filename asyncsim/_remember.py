"""Results that are computed once for an object, as long as it lives."""

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any


def cached_per_object(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function(thing, *rest)`, computed once for each object `thing` and each hashable rest."""
    kept: dict[int, dict[tuple[Any, ...], Any]] = {}

    @wraps(function)
    def remembering(thing: Any, *rest: Any) -> Any:
        place = id(thing)
        if place not in kept:
            kept[place] = {}
            weakref.finalize(thing, kept.pop, place, None).atexit = False
        found = kept[place]
        if rest not in found:
            found[rest] = function(thing, *rest)
        return found[rest]

    return remembering
