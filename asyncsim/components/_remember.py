"""Results that are computed once for an object, as long as it lives."""

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any


class PerObject(dict[int, Any]):
    """`id` of an object -> a result, which goes when the object goes."""

    def keep(self, thing: Any, result: Any) -> Any:
        """Keep the result of an object, and return it. An object that cannot be watched is refused with a TypeError."""
        weakref.finalize(thing, self.pop, id(thing), None).atexit = False  # first, or a dictionary's place stays known
        self[id(thing)] = result
        return result


def cached_per_object(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function(thing, *rest)`, computed once for each object `thing` and each hashable rest."""
    kept = PerObject()

    @wraps(function)
    def remembering(thing: Any, *rest: Any) -> Any:
        found = kept[id(thing)] if id(thing) in kept else kept.keep(thing, {})
        if rest not in found:
            found[rest] = function(thing, *rest)
        return found[rest]

    return remembering
