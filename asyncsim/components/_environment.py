"""Settings of JAX on which results depend, and which are therefore part of a scenario's digest.

Left out are settings that only refuse or report something (promotion of ranks and dtypes, NaN checks, legacy keys), and
those that decide for which machine a program is compiled, and how (devices, XLA_FLAGS, optimisations). These change
roundings as another machine or another version of JAX does, and no digest covers either.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

PRECISION = "precision"
X64 = "jax_enable_x64"
# With their usual values, which no description names: the defaults of JAX 0.10, whatever later ones are.
JAX_SETTINGS: dict[str, Any] = {
    "jax_random_seed_offset": 0,
    "jax_default_prng_impl": "threefry2x32",
    "jax_threefry_partitionable": True,
    "jax_high_dynamic_range_gumbel": False,
    "jax_default_matmul_precision": None,
    "jax_explicit_x64_dtypes": "warn",
    "jax_softmax_custom_jvp": False,
    "jax_allow_f16_reductions": True,
    "jax_disable_jit": False,
}


NOT_IN_PROGRAMS = ("jax_default_prng_impl", "jax_high_dynamic_range_gumbel")  # by which JAX tells no programs apart
_compiled_with: list[Any] = [JAX_SETTINGS[name] for name in NOT_IN_PROGRAMS]


def settings() -> dict[str, Any]:
    """Return the present settings of this thread, as `jax.config.update` takes them in another process."""
    import jax

    values = {name: getattr(jax.config, name, JAX_SETTINGS.get(name)) for name in (*JAX_SETTINGS, X64)}
    return {name: value.name.lower() if isinstance(value, Enum) else value for name, value in values.items()}


def forget_programs() -> None:
    """Forget compiled programs if a setting has changed by which JAX does not tell them apart."""
    import jax

    present = [settings()[name] for name in NOT_IN_PROGRAMS]
    if present != _compiled_with:
        jax.clear_caches()
        _compiled_with[:] = present


def environment() -> dict[str, Any]:
    """Return the entries of a description for the present settings: the precision, and settings that are not usual."""
    import jax

    present = settings()
    unusual = {name: present[name] for name, usual in JAX_SETTINGS.items() if present[name] != usual}
    return {PRECISION: jax.numpy.result_type(float).name, **unusual}


def environment_in(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of `environment` in a description."""
    return {name: description[name] for name in (PRECISION, *JAX_SETTINGS) if name in description}


def difference(description: Mapping[str, Any]) -> str | None:
    """Return the first setting in which this thread differs from a description, with values and remedy, or None."""
    here = environment()
    if (precision := description.get(PRECISION)) != here[PRECISION]:
        remedy = "Set JAX_ENABLE_X64=1." if precision == "float64" else "Unset JAX_ENABLE_X64."
        return f"in {precision}, and this process computes in {here[PRECISION]}. {remedy}"
    for name, usual in JAX_SETTINGS.items():
        theirs, present = description.get(name, usual), here.get(name, usual)
        if theirs != present:
            remedy = f"Unset {name.upper()}." if theirs == usual else f"Set {name.upper()}={theirs}."
            return f"with {name} {theirs!r}, and this process has {present!r}. {remedy}"
    return None
