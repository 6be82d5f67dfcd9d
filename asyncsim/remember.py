"""Results that are computed once for an object, as long as it lives."""

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any


def once_for_each(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function(thing, *rest)`, computed once for each object `thing`, whatever it is equal to, and each hashable rest.

    For frozen objects, which always give the same, and of which many share a part: a thousand scenarios of one data
    set describe it once. Nothing is kept alive: what was computed goes when the object goes.

    Example:
        >>> class Thing: ...
        >>> @once_for_each
        ... def name(thing, ending):
        ...     print("computed")
        ...     return f"thing{ending}"
        >>> thing = Thing()
        >>> name(thing, "s"), name(thing, "s")
        computed
        ('things', 'things')
    """
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
