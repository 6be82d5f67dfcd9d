"""The default name of a study's folder: the name of the script, and what was changed."""

import re
from collections.abc import Mapping
from typing import Any

MOST_BYTES = 120  # of a name: file systems take 255, of which others want some
DIGITS = 8  # of the digest, where a name does not say all
UNSAFE = re.compile(r"[^\w.+-]")


def folder_name(base: str, changes: Mapping[str, Any], digest: str) -> str:
    """The name of the folder for a study with some fields changed.

    Lists are joined by "_", and letters that a file's name should not have become "-". If that loses something, or the
    name is too long and is cut, the first letters of the digest end it.

    Args:
        base: Name of the script, or of the run that was changed.
        changes: Field -> new value, in the order in which they are to be named.
        digest: That of the changed study.

    Example:
        >>> folder_name("gem_digits", {"workers": 30, "learning_rate": 0.1}, "3fa9c1d2e5f60718")
        'gem_digits,workers=30,learning_rate=0.1'
        >>> folder_name("gem_digits", {"hidden": [64, 32], "record": {"pi_mean": 5}}, "3fa9c1d2e5f60718")
        'gem_digits,hidden=64_32,record=pi_mean-5'
        >>> folder_name("recorded", {"log": "logs/a b.csv"}, "3fa9c1d2e5f60718")
        'recorded,log=logs-a-b.csv,3fa9c1d2'
        >>> folder_name("gem_digits", {}, "3fa9c1d2e5f60718")
        'gem_digits'
    """
    texts = {name: value_text(value) for name, value in changes.items()}
    safe = {name: UNSAFE.sub("-", text) for name, text in texts.items()}
    name = ",".join([base, *(f"{field}={text}" for field, text in safe.items())])
    lossy = any(isinstance(changes[field], str) and safe[field] != texts[field] for field in safe)
    if not lossy and len(name.encode()) <= MOST_BYTES:
        return name
    kept = name.encode()[: max(MOST_BYTES - DIGITS - 1, len(base.encode()))].decode(errors="ignore")
    return f"{kept.rstrip(',')},{digest[:DIGITS]}"


def value_text(value: Any) -> str:
    """A value in a name: numbers with all digits that tell them apart.

    Example:
        >>> value_text(2.0), value_text(0.1 + 0.2), value_text(True), value_text([]), value_text({"pi_mean": None})
        ('2', '0.30000000000000004', 'true', 'none', 'pi_mean')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, Mapping):
        named = (f"{name}" if every is None else f"{name}-{value_text(every)}" for name, every in value.items())
        return "_".join(named) or "none"
    if isinstance(value, (list, tuple)):
        return "_".join(map(value_text, value)) or "none"
    return str(value)
