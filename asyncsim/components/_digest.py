"""The digest of a component or a study is made here: a hash of its description, with all code of the user's."""

import json
from typing import Any

from asyncsim._version import REVISION
from asyncsim.components._description import IMPORT, describe, without_imports
from asyncsim.files._hash import hash_parts


def digest(component: Any) -> str:
    """Return the hash of a component's description, 16 hexadecimal digits.

    A component with a `description` of its own, such as a scenario, is hashed by that: 10 commits of each of 4 workers
    are 40 commits.

    The description covers all code and values that do not belong to the library. The library's `REVISION` is part of
    the digest, so that no stored result outlives the code that computed it.

    Args:
        component: A component, or another frozen dataclass.

    Example:
        >>> import asyncsim as asim
        >>> digest(asim.delays.Constant(1)) == digest(asim.delays.Constant(1.0)), len(digest(asim.rules.GEM(0.1)))
        (True, 16)
    """
    return hash_of(component.description if hasattr(component, "description") else describe(component))


def hash_of(data: Any) -> str:
    """Return the hash of a description and of the library's revision, 16 hexadecimal digits."""
    text = json.dumps([REVISION, data], sort_keys=True, allow_nan=False)
    if f'"{IMPORT}"' in text:
        text = json.dumps([REVISION, without_imports(data)], sort_keys=True, allow_nan=False)
    return hash_parts(text)
