"""Numbers in the precision of a replay, where those that would become others are refused.

A component checks its numbers in double precision. A replay rounds them to the type of its parameters, or to float32
where that has fewer digits. There a momentum of 0.9999999999 is 1, and a step size of 1e-300 is 0.
"""

import dataclasses
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from asyncsim._checks import brief, require_representable
from asyncsim.components._checked import checks_of
from asyncsim.components._traced import Traced

REMEDY = 'Give another number, or compute in float64 by `jax.config.update("jax_enable_x64", True)`.'


def require_precision(component: Traced, dtype: Any, without: Collection[str] = ()) -> None:
    """Refuse numbers of a component that with parameters of a type become infinite, 0, or such as it refuses itself."""
    narrow, dtype, checks = jnp.finfo(dtype), jnp.promote_types(dtype, jnp.float32), checks_of(type(component))
    values = {name: getattr(component, name) for name in component._traced if name not in without}
    for name, value in values.items():
        for part in jax.tree.leaves(value, is_leaf=_is_component):
            if _is_component(part):
                require_precision(part, narrow.dtype)
            elif _is_floating(part):
                require_representable(name, part, precision=narrow)
                _require_nonzero(name, part, dtype)
    # A static number chooses code, which may be Python's in double precision, so it may be as near to 0 as it likes.
    chosen = {name: value for name in component._static if isinstance(value := getattr(component, name), float)}
    for name, value in (values | chosen).items():
        if name in checks and (error := _refusal(partial(checks[name], name, _round(value, float, dtype)))):
            raise _invalid(name, value, dtype, error)
    values = {name: value for name, value in values.items() if any(map(_is_floating, jax.tree.leaves(value)))}
    if not values:
        return
    # Numbers that must fit together are compared in the precision of the replay, or as plain numbers.
    errors = [_refusal(partial(_check, component, _round(values, kind, dtype))) for kind in (dtype.type, float)]
    if errors[0] and errors[1]:
        alone = ({name: _round(value, float, dtype)} for name, value in values.items())
        wrong = [name for single in alone if _refusal(partial(_check, component, single)) for name in single]
        name = (wrong or list(values))[0]
        raise _invalid(name, values[name], dtype, errors[1])


def _require_nonzero(name: str, value: Any, dtype: np.dtype) -> None:
    """Refuse numbers that are rounded to 0, or so small that XLA takes them for 0 on a CPU."""
    numbers = np.asarray(value, float)
    lost = (numbers != 0) & (abs(numbers) < float(jnp.finfo(dtype).tiny))
    if lost.any():
        raise ValueError(f"`{name}` must not become 0 in {dtype.name}; got {float(numbers[lost].flat[0])!r}. {REMEDY}")


def _round(value: Any, kind: Callable[[Any], Any], dtype: np.dtype) -> Any:
    """Return a value with less precise numbers: scalars of this kind, arrays of their own type or of `dtype`."""

    def rounded(part: Any) -> Any:
        if not _is_floating(part):
            return part
        small = np.asarray(part).astype(dtype)
        return small.astype(float) if kind is float and small.ndim else small if small.ndim else kind(small)

    return jax.tree.map(rounded, value, is_leaf=_is_component)


def _check(component: Traced, values: dict[str, Any]) -> None:
    """Check a component with other numbers, which its own method then compares."""
    other = object.__new__(type(component))
    fields = {field.name: getattr(component, field.name) for field in dataclasses.fields(component)}
    vars(other).update(fields | values)
    other.check()


def _refusal(check: Callable[[], Any]) -> ValueError | None:
    try:
        check()
    except ValueError as error:
        return error
    return None


def _invalid(name: str, value: Any, dtype: np.dtype, error: ValueError) -> ValueError:
    return ValueError(
        f"`{name}` must be valid in {dtype.name} as well; {brief(value)} becomes "
        f"{brief(_round(value, float, dtype))}, and {str(error).rstrip('.')}. {REMEDY}"
    )


def _is_component(value: Any) -> bool:
    return isinstance(value, Traced)


def _is_floating(value: Any) -> bool:
    return not _is_component(value) and jnp.issubdtype(getattr(value, "dtype", type(value)), jnp.floating)
