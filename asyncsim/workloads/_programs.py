"""Functions under `jax.jit` of which the last few programs stay compiled, so that memory does not grow with shapes.

JAX keeps every program to which a function was compiled, for each shape of its arguments, as long as the function
lives: some megabytes for a replay. Here each signature has a compiled function of its own, and the least recently used
one is dropped. No program of the user's is touched.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any

import jax

MOST_SIGNATURES = 16  # signatures of one function


class Programs:
    """A function under `jax.jit`, whose static arguments are given by keyword."""

    def __init__(self, function: Callable[..., Any], static: tuple[str, ...], donate: tuple[str, ...] = ()) -> None:
        self.function, self.static, self.donate = function, static, donate
        self.traced = 0  # how often JAX has traced the function
        self._compiled: OrderedDict[Any, Any] = OrderedDict()  # by signature, the most recently used at the end
        wraps(function)(self)

    def for_arguments(self, *args: Any, **kwargs: Any) -> Any:
        """Return the function under `jax.jit` for arguments of these shapes."""
        traced = {name: value for name, value in kwargs.items() if name not in self.static}
        leaves, structure = jax.tree.flatten((args, traced))
        static = tuple(kwargs.get(name) for name in self.static)
        signature = structure, tuple(map(_kind, leaves)), static
        compiled = self._compiled.pop(signature, None) or self._compile()
        self._compiled[signature] = compiled
        while len(self._compiled) > MOST_SIGNATURES:
            self._compiled.popitem(last=False)
        return compiled

    def _compile(self) -> Any:
        @wraps(self.function)
        def counted(*args: Any, **kwargs: Any) -> Any:  # JAX drops the programs of a function with the function.
            self.traced += 1
            return self.function(*args, **kwargs)

        return jax.jit(counted, static_argnames=self.static, donate_argnames=self.donate)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.for_arguments(*args, **kwargs)(*args, **kwargs)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Return shapes and dtypes of the result."""
        return self.for_arguments(*args, **kwargs).eval_shape(*args, **kwargs)

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """Return the function as JAX traces it."""
        return self.for_arguments(*args, **kwargs).trace(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Return the program before it is compiled."""
        return self.for_arguments(*args, **kwargs).lower(*args, **kwargs)


def programs(*static: str, donate: tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], Programs]:
    """Decorate a function as `Programs`."""
    return lambda function: Programs(function, static, donate)


def _kind(leaf: Any) -> Any:
    """Return the shape and dtype of an array, or the type of a number."""
    return (leaf.shape, leaf.dtype) if hasattr(leaf, "shape") and hasattr(leaf, "dtype") else type(leaf)
