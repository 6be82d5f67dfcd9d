"""Laws of delays as arguments of a cluster."""

from collections.abc import Sequence
from typing import Any

from asyncsim.delays import Constant, Delay

NOTHING = Constant(0.0)
REMEDY = "Use one of `asyncsim.delays`, for example `Constant(1.0)`."


def is_nothing(law: Any) -> bool:
    """Whether every delay of this law is zero."""
    return isinstance(law, Constant) and law.value == 0


def require_law(name: str, law: Any) -> Delay:
    """The law itself.

    Raises:
        ValueError: If it is none.
    """
    if not isinstance(law, Delay):
        raise ValueError(f"`{name}` must be a law of delays; got {law!r}. {REMEDY}")
    return law


def law_or_one_each(name: str, laws: Any, kinds: Any = Delay) -> Any:
    """One law, or a tuple of them where a sequence was given.

    Raises:
        ValueError: If one of them is no law.
    """
    if isinstance(laws, kinds):
        return laws
    if not isinstance(laws, Sequence) or isinstance(laws, str) or not all(isinstance(law, kinds) for law in laws):
        raise ValueError(f"`{name}` must be a law of delays or a sequence of them; got {laws!r}. {REMEDY}")
    return tuple(laws)


def require_one_each(name: str, laws: Any, workers: int) -> None:
    """Refuse a sequence of laws that is not one per worker."""
    if isinstance(laws, tuple) and len(laws) != workers:
        raise ValueError(
            f"`{name}` must have one law per worker; got {len(laws)} for {workers} workers. "
            "Give one law for all or as many as `workers`."
        )
