"""Results that are computed once per object, as long as it lives."""

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any


class PerObject(dict[int, Any]):
    """`id` of an object -> a result, which is deleted with the object."""

    def keep(self, thing: Any, result: Any) -> Any:
        """Keep the result of an object, and return it. Objects without weak references raise a TypeError."""
        # The finaliser comes first: if it fails, no result stays behind at an `id` that another object will have.
        weakref.finalize(thing, self.pop, id(thing), None).atexit = False
        self[id(thing)] = result
        return result


def cached_per_object(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate `function(thing, *rest)`, to be computed once for each object `thing` and each hashable rest."""
    cache = PerObject()

    @wraps(function)
    def cached(thing: Any, *rest: Any) -> Any:
        results = cache[id(thing)] if id(thing) in cache else cache.keep(thing, {})
        if rest not in results:
            results[rest] = function(thing, *rest)
        return results[rest]

    return cached
