"""Plain descriptions of anything in a scenario, the user's own code and data included.

A stored result is only used again if nothing that made it has changed. The library's own parts say what
they are (`describe`). Of the user's own functions, the file they stand in counts (comments and layout
aside: a function may call any other there), and of their arrays the contents.
"""

import ast
import dataclasses
import functools
import inspect
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from asyncsim import files

LIBRARY = Path(__file__).parent.parent


def plain(value: Any) -> Any:
    """The value as JSON can hold it: numbers, texts, lists, dictionaries; arrays as lists or hashes."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic, jax.Array)):
        array = np.asarray(value)
        return array.tolist() if array.size <= 64 else f"array {array.shape} {hash_array(array)}"
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return describe_object(value)


def digest(description: Any) -> str:
    """Hash of a description, 16 hexadecimal digits; the order of keys does not matter.

    Example:
        >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}), len(digest({}))
        (True, 16)
    """
    return files.digest(json.dumps(description, sort_keys=True))


def describe_object(value: Any) -> dict[str, Any]:
    """Class, attributes and code of an object that does not describe itself."""
    kind = type(value)
    attributes = _attributes(value)
    described = {"class": kind.__qualname__, **{name: plain(item) for name, item in attributes.items()}}
    code = code_of(value)
    return {**described, "code": code} if code else described


def _attributes(value: Any) -> Mapping[str, Any]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {} if callable(value) else getattr(value, "__dict__", {})


def code_of(*values: Any) -> str:
    """Hash of the user's code and arrays in some functions or objects; "" where all of it is the library's.

    Example:
        >>> from asyncsim import rules
        >>> code_of(rules.gem(0.1).send), code_of(lambda params, batch, key: 0.0) != ""
        ('', True)
    """
    parts = [part for value in values for part in _parts(value)]
    return digest(parts) if parts else ""


def _parts(value: Any, seen: frozenset[int] = frozenset()) -> Iterator[str]:
    """What a function or object consists of, beyond the library's code: source, and whatever it holds on to."""
    if id(value) in seen:
        return
    seen |= {id(value)}
    if isinstance(value, functools.partial):  # its arguments are the code's data; JAX's Partial is one, too
        yield from _parts(value.func, seen)
        yield json.dumps(plain([value.args, value.keywords]))
    elif (code := _code(value)) is not None and not Path(code.co_filename).is_relative_to(LIBRARY):
        yield f"{getattr(value, '__qualname__', type(value).__qualname__)} {_hash_source(code)}"
    for held in _held(value):
        if callable(held) or isinstance(held, tuple):
            yield from _parts(held, seen)
        else:
            yield json.dumps(plain(held))


def _held(value: Any) -> list[Any]:
    """What a closure has closed over, or what a tuple of functions or a callable dataclass consists of.

    Two optimisers of optax differ in nothing but the numbers that their functions have closed over.
    """
    if isinstance(value, tuple):
        return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and callable(value):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    return [cell.cell_contents for cell in getattr(value, "__closure__", None) or () if not _is_empty(cell)]


def _is_empty(cell: Any) -> bool:
    try:
        return cell.cell_contents is cell  # never; an empty cell has no contents to ask for
    except ValueError:
        return True


def _code(value: Any) -> Any:
    """A code object from the file in which a function, or an object's class, stands; None if built in."""
    function = inspect.unwrap(value) if callable(value) else value
    if hasattr(function, "__code__"):
        return function.__code__
    codes = [method.__code__ for method in vars(type(value)).values() if inspect.isfunction(method)]
    return next((code for code in codes if Path(code.co_filename).is_file()), codes[0] if codes else None)


def _hash_source(code: Any) -> str:
    """Hash of the file that the code stands in, comments aside; of the code itself if there is no file."""
    try:
        source = ast.dump(ast.parse(Path(code.co_filename).read_text(encoding="utf-8")))
    except (OSError, SyntaxError, UnicodeDecodeError):
        constants = [repr(constant) for constant in code.co_consts if not inspect.iscode(constant)]
        source = f"{code.co_code.hex()} {code.co_names} {constants}"
    return files.digest(source)


def hash_array(array: np.ndarray) -> str:
    """Hash of an array's contents, shape and type."""
    return files.digest(f"{array.shape} {array.dtype}", array)
